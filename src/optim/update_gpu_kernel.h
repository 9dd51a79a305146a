/* One step of an optimiser over parameters, their gradients and their state: op_update() comes from the table. Before
 * this text: A the compute type, NARGS how many tensors a parameter has (itself, its gradient, its state), NOPTIONS and
 * NSCALARS, KEPT a bit per tensor that is there, and the dtype A0, A1, ... of each.
 *
 *   many   several parameters in one launch, whose addresses come by value (CUDA and HIP)
 *   one    one parameter (OpenCL, whose pointers cannot come in structures) */
#define LOAD(k) v[k] = KEPT >> k & 1 ? (A)GET_A##k(((GLOBAL const T_A##k *)ARG(k))[at]) : (A)0;
#define STORE(k) \
    if (KEPT >> k & 1) ((GLOBAL T_A##k *)ARG(k))[at] = SET_A##k(v[k]);

#if NARGS == 2
#define LOADS  LOAD(0) LOAD(1)
#define STORES STORE(0)
#elif NARGS == 3
#define LOADS  LOAD(0) LOAD(1) LOAD(2)
#define STORES STORE(0) STORE(2)
#elif NARGS == 4
#define LOADS  LOAD(0) LOAD(1) LOAD(2) LOAD(3)
#define STORES STORE(0) STORE(2) STORE(3)
#elif NARGS == 5
#define LOADS  LOAD(0) LOAD(1) LOAD(2) LOAD(3) LOAD(4)
#define STORES STORE(0) STORE(2) STORE(3) STORE(4)
#else
#define LOADS  LOAD(0) LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5)
#define STORES STORE(0) STORE(2) STORE(3) STORE(4) STORE(5)
#endif

typedef struct options_t {
    A o[NOPTIONS];
} options_t;
typedef struct scalars_t {
    A s[NSCALARS];
} scalars_t;

/* An element's place does not show in its result, so threads may take elements in any order; a block takes CHUNK of one
 * parameter. */
#ifdef KERNEL_many
typedef struct table_t {
    char *address[PARAMS][NARGS];
    int64_t numel[PARAMS];
    scalars_t scalars[PARAMS];
    uint32_t first_block[PARAMS];
    uint8_t first[PARAMS];
} table_t;

KERNEL(entry)
(const table_t table, const options_t options, const int n) {
    int which = 0;
    while (which + 1 < n && table.first_block[which + 1] <= BLOCK) which++;
#define ARG(k) table.address[which][k]
    const int64_t from = (int64_t)(BLOCK - table.first_block[which]) * CHUNK, left = table.numel[which] - from,
                  count = left < CHUNK ? left : CHUNK;
    const scalars_t scalars = table.scalars[which];
    for (int64_t i = THREAD; i < count; i += THREADS) {
        const int64_t at = from + i;
        A v[NARGS];
        LOADS
        op_update(v, options.o, scalars.s, table.first[which]);
        STORES
    }
}
#endif

#ifdef KERNEL_one
#if NARGS > 2
#define AND_2 , PTR(a2)
#else
#define AND_2
#endif
#if NARGS > 3
#define AND_3 , PTR(a3)
#else
#define AND_3
#endif
#if NARGS > 4
#define AND_4 , PTR(a4)
#else
#define AND_4
#endif
#if NARGS > 5
#define AND_5 , PTR(a5)
#else
#define AND_5
#endif
KERNEL(entry)
(PTR(a0), PTR(a1) AND_2 AND_3 AND_4 AND_5, const options_t options, const scalars_t scalars, const int64_t n,
 const int first) {
#undef ARG
#define ARG(k) AT(char, a##k)
    for (int64_t at = (int64_t)BLOCK * THREADS + THREAD; at < n; at += (int64_t)BLOCKS * THREADS) {
        A v[NARGS], o[NOPTIONS], s[NSCALARS];
        for (int k = 0; k < NOPTIONS; k++) o[k] = options.o[k];
        for (int k = 0; k < NSCALARS; k++) s[k] = scalars.s[k];
        LOADS
        op_update(v, o, s, (uint8_t)first);
        STORES
    }
}
#endif
