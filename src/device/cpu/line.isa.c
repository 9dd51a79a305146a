/* The machine that runs lines (line.h): all operations on a tile of 64 elements in registers, tile after tile; what is
 * left goes by smaller ones. */
#include "device/cpu/line.h"

typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(32)));

/* LARGER and SMALLER are el_max and el_min: the second unless the first is larger or not a number. */
#if defined(__AVX__)
#define PICK(first, a, b) __builtin_ia32_blendvps256(b, a, (vec)(first))
#define LARGER_OF(a, b)   PICK(a != a, a, __builtin_ia32_maxps256(a, b))
#define SMALLER_OF(a, b)  PICK(a != a, a, __builtin_ia32_minps256(a, b))
#else
#define PICK(first, a, b) ((vec)(((first) & (mask)(a)) | (~(first) & (mask)(b))))
#define LARGER_OF(a, b)   PICK((a > b) | (a != a), a, b)
#define SMALLER_OF(a, b)  PICK((a < b) | (a != a), a, b)
#endif

#define ZERO                    ((vec){0}) /* made where it is used: a register that kept it would be one too many */
#define MEMORY(v)               (((vec *)m)[v])
#define IS_LOAD(a, v)           MEMORY(v)
#define IS_ADD(a, v)            (a + MEMORY(v))
#define IS_SUB(a, v)            (a - MEMORY(v))
#define IS_FROM(a, v)           (MEMORY(v) - a)
#define IS_MUL(a, v)            (a * MEMORY(v))
#define IS_DIV(a, v)            (a / MEMORY(v))
#define IS_INTO(a, v)           (MEMORY(v) / a)
#define IS_MAX(a, v)            LARGER_OF(a, MEMORY(v))
#define IS_LARGER(a, v)         LARGER_OF(MEMORY(v), a)
#define IS_MIN(a, v)            SMALLER_OF(a, MEMORY(v))
#define IS_SMALLER(a, v)        SMALLER_OF(MEMORY(v), a)
#define IS_MAX_NUMBER(a, v)     LARGER_OF(a, number)
#define IS_LARGER_NUMBER(a, v)  LARGER_OF(number, a)
#define IS_MIN_NUMBER(a, v)     SMALLER_OF(a, number)
#define IS_SMALLER_NUMBER(a, v) SMALLER_OF(number, a)
#define IS_LEAKY_NUMBER(a, v)   PICK(a > ZERO, a, a * number)
#define IS_ADD_NUMBER(a, v)     (a + number)
#define IS_SUB_NUMBER(a, v)     (a - number)
#define IS_FROM_NUMBER(a, v)    (number - a)
#define IS_MUL_NUMBER(a, v)     (a * number)
#define IS_DIV_NUMBER(a, v)     (a / number)
#define IS_INTO_NUMBER(a, v)    (number / a)
#define IS_RELU(a, v)           ((vec)((mask)a & ~(a <= ZERO)))
#define IS_NEG(a, v)            (-a)
#define IS_ABS(a, v)            ((vec)((mask)a & 0x7fffffff))
#define IS_SQUARE(a, v)         (a * a)
#define IS_STORE(a, v)          (MEMORY(v) = a)

#define EIGHT(IS)                                                                                                   \
    a0 = IS(a0, 0), a1 = IS(a1, 1), a2 = IS(a2, 2), a3 = IS(a3, 3), a4 = IS(a4, 4), a5 = IS(a5, 5), a6 = IS(a6, 6), \
    a7 = IS(a7, 7)
#define FOUR(IS) a0 = IS(a0, 0), a1 = IS(a1, 1), a2 = IS(a2, 2), a3 = IS(a3, 3)
#define TWO(IS)  a0 = IS(a0, 0), a1 = IS(a1, 1)

/* An operation with memory, one with a number, one with neither; each goes on to the next by a jump of its own, which
 * processors learn to foresee. */
#define NEXT HOLD goto *ways[(++op)->code]
#define WITH_MEMORY(ALL, NAME)                   \
    NAME : {                                     \
        float *m = (float *)(void *)op->at + at; \
        ALL(IS_##NAME);                          \
        NEXT;                                    \
    }
#define WITH_NUMBER(ALL, NAME)                       \
    NAME##_NUMBER : {                                \
        const float f = op->number;                  \
        const vec number = {f, f, f, f, f, f, f, f}; \
        ALL(IS_##NAME##_NUMBER);                     \
        NEXT;                                        \
    }
#define ALONE(ALL, NAME) \
    NAME : {             \
        ALL(IS_##NAME);  \
        NEXT;            \
    }
#define WITH_EITHER(ALL, NAME) WITH_MEMORY(ALL, NAME) WITH_NUMBER(ALL, NAME)
#define WAYS(NAME)             [TPI_LINE_##NAME] = &&NAME, [TPI_LINE_NUMBER + TPI_LINE_##NAME] = &&NAME##_NUMBER

/* What happens to a tile in the end. Sums, or the largest so far, are those of TPI_LINE_SUMS lanes: four vectors. */
#define LEFT_ALONE
#define FOUR_SUMMED   s0 += a0, s1 += a1, s2 += a2, s3 += a3;
#define EIGHT_SUMMED  FOUR_SUMMED s0 += a4, s1 += a5, s2 += a6, s3 += a7;
#define FOUR_COMPARED s0 = LARGER_OF(s0, a0), s1 = LARGER_OF(s1, a1), s2 = LARGER_OF(s2, a2), s3 = LARGER_OF(s3, a3);
#define EIGHT_COMPARED \
    FOUR_COMPARED s0 = LARGER_OF(s0, a4), s1 = LARGER_OF(s1, a5), s2 = LARGER_OF(s2, a6), s3 = LARGER_OF(s3, a7);

/* Tiles of `size` elements, from element `at` of the block on; returns where those end. */
#define DEFINE_TILES(name, size, ALL, ENDS, ...)                                    \
    static int64_t name(int64_t at, int64_t n, const tpi_line_op *ops, vec *sums) { \
        static const void *const ways[] = {[TPI_LINE_NONE] = &&END,                 \
                                           WAYS(ADD),                               \
                                           WAYS(SUB),                               \
                                           WAYS(FROM),                              \
                                           WAYS(MUL),                               \
                                           WAYS(DIV),                               \
                                           WAYS(INTO),                              \
                                           WAYS(MAX),                               \
                                           WAYS(LARGER),                            \
                                           WAYS(MIN),                               \
                                           WAYS(SMALLER),                           \
                                           [TPI_LINE_RELU] = &&RELU,                \
                                           [TPI_LINE_LEAKY] = &&LEAKY_NUMBER,       \
                                           [TPI_LINE_BETWEEN] = &&END,              \
                                           [TPI_LINE_NEG] = &&NEG,                  \
                                           [TPI_LINE_ABS] = &&ABS,                  \
                                           [TPI_LINE_SQUARE] = &&SQUARE,            \
                                           [TPI_LINE_LOAD] = &&LOAD,                \
                                           [TPI_LINE_STORE] = &&STORE};             \
        vec __VA_ARGS__, s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];    \
        const tpi_line_op *op = ops;                                                \
        if (at + size > n) return at;                                               \
        goto *ways[op->code];                                                       \
        WITH_EITHER(ALL, ADD)                                                       \
        WITH_EITHER(ALL, SUB)                                                       \
        WITH_EITHER(ALL, FROM)                                                      \
        WITH_EITHER(ALL, MUL)                                                       \
        WITH_EITHER(ALL, DIV)                                                       \
        WITH_EITHER(ALL, INTO)                                                      \
        WITH_EITHER(ALL, MAX)                                                       \
        WITH_EITHER(ALL, LARGER)                                                    \
        WITH_EITHER(ALL, MIN)                                                       \
        WITH_EITHER(ALL, SMALLER)                                                   \
        WITH_NUMBER(ALL, LEAKY)                                                     \
        WITH_MEMORY(ALL, LOAD)                                                      \
        WITH_MEMORY(ALL, STORE)                                                     \
        ALONE(ALL, RELU)                                                            \
        ALONE(ALL, NEG)                                                             \
        ALONE(ALL, ABS)                                                             \
        ALONE(ALL, SQUARE)                                                          \
    END:                                                                            \
        ENDS at += size;                                                            \
        if (at + size <= n) {                                                       \
            op = ops;                                                               \
            goto *ways[op->code];                                                   \
        }                                                                           \
        sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;                     \
        return at;                                                                  \
    }
/* Compilers put sums, which only the end of a tile reads, on the stack to have more registers than they need; there
 * each addition waits for the last one's store. */
#define HOLD
DEFINE_TILES(wide_tiles, 64, EIGHT, LEFT_ALONE, a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO, a4 = ZERO, a5 = ZERO,
             a6 = ZERO, a7 = ZERO)
DEFINE_TILES(narrow_tiles, TPI_LANES, TWO, LEFT_ALONE, a0 = ZERO, a1 = ZERO)
#undef HOLD
#if defined(__AVX__)
#define HOLD __asm__("" : "+x"(s0), "+x"(s1), "+x"(s2), "+x"(s3));
#else
#define HOLD
#endif
DEFINE_TILES(wide_sums, 64, EIGHT, EIGHT_SUMMED, a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO, a4 = ZERO, a5 = ZERO,
             a6 = ZERO, a7 = ZERO)
DEFINE_TILES(narrow_sums, TPI_LINE_SUMS, FOUR, FOUR_SUMMED, a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO)
DEFINE_TILES(wide_maxima, 64, EIGHT, EIGHT_COMPARED, a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO, a4 = ZERO, a5 = ZERO,
             a6 = ZERO, a7 = ZERO)
DEFINE_TILES(narrow_maxima, TPI_LINE_SUMS, FOUR, FOUR_COMPARED, a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO)

/* Operations as they are for a block. */
static void move_to(int64_t done, int nops, const tpi_line_op *ops, tpi_line_op *now) {
    for (int k = 0; k <= nops; k++) {
        now[k] = ops[k];
        if (now[k].move) now[k].at += done * now[k].move;
    }
}

void TPI_ISA(tpi_line_run)(int64_t n, int64_t done, int nops, const tpi_line_op *ops) {
    tpi_line_op now[TPI_LINE_OPS];
    vec none[4] = {{0}};
    move_to(done, nops, ops, now);
    narrow_tiles(wide_tiles(0, n, now, none), n, now, none);
}

void TPI_ISA(tpi_line_fold)(tpi_line_end end, int64_t n, int64_t done, int nops, const tpi_line_op *ops, float *lanes) {
    tpi_line_op now[TPI_LINE_OPS];
    vec *s = (vec *)(void *)lanes;
    move_to(done, nops, ops, now);
    if (end == TPI_LINE_ENDS_IN_SUM)
        narrow_sums(wide_sums(0, n, now, s), n, now, s);
    else
        narrow_maxima(wide_maxima(0, n, now, s), n, now, s);
}

static inline float larger_of(float a, float b) { return a > b || a != a ? a : b; }

float TPI_ISA(tpi_line_total)(tpi_line_end end, const float *lanes) {
    const vec *s = (const vec *)(const void *)lanes;
    if (end == TPI_LINE_ENDS_IN_SUM) {
        const vec eight = (s[0] + s[2]) + (s[1] + s[3]);
        const float a = eight[0] + eight[4], b = eight[1] + eight[5], c = eight[2] + eight[6], d = eight[3] + eight[7];
        return (a + c) + (b + d);
    }
    const vec low = LARGER_OF(s[0], s[2]), high = LARGER_OF(s[1], s[3]), eight = LARGER_OF(low, high);
    const float a = larger_of(eight[0], eight[4]), b = larger_of(eight[1], eight[5]), c = larger_of(eight[2], eight[6]),
                d = larger_of(eight[3], eight[7]);
    return larger_of(larger_of(a, c), larger_of(b, d));
}
