/* The machine that runs register programs (register_program.h): all operations on a tile of 64 elements in registers,
 * tile after tile; what is left goes by smaller ones. */
#include "device/cpu/register_program.h"

typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(32)));

/* LARGER_OF and SMALLER_OF are el_max and el_min: the second unless the first is larger or not a number. */
#if defined(__AVX__)
#define PICK(first, a, b) __builtin_ia32_blendvps256(b, a, (vec)(first))
#define LARGER_OF(a, b)   PICK(a != a, a, __builtin_ia32_maxps256(a, b))
#define SMALLER_OF(a, b)  PICK(a != a, a, __builtin_ia32_minps256(a, b))
#else
#define PICK(first, a, b) ((vec)(((first) & (mask)(a)) | (~(first) & (mask)(b))))
#define LARGER_OF(a, b)   PICK((a > b) | (a != a), a, b)
#define SMALLER_OF(a, b)  PICK((a < b) | (a != a), a, b)
#endif

/* Made where they are used: a register that kept one would be one too many. */
#define ZERO     ((vec){0})
#define SPLAT(f) ((vec){f, f, f, f, f, f, f, f})
#define ONE      SPLAT(1.0f)

/* What opgen's texts are made of, and the two operations that are no operator's. */
#define MEMORY(v)       (((vec *)m)[v])
#define UNLESS(c, a)    ((vec)((mask)(a) & ~(mask)(c))) /* zero where c holds */
#define WITHOUT_SIGN(a) ((vec)((mask)(a)&0x7fffffff))
#define IS_LOAD(a, v)   MEMORY(v)
#define IS_STORE(a, v)  (MEMORY(v) = a)

#define EIGHT(IS)                                                                                                   \
    a0 = IS(a0, 0), a1 = IS(a1, 1), a2 = IS(a2, 2), a3 = IS(a3, 3), a4 = IS(a4, 4), a5 = IS(a5, 5), a6 = IS(a6, 6), \
    a7 = IS(a7, 7)
#define FOUR(IS) a0 = IS(a0, 0), a1 = IS(a1, 1), a2 = IS(a2, 2), a3 = IS(a3, 3)
#define TWO(IS)  a0 = IS(a0, 0), a1 = IS(a1, 1)

/* An operation with memory, with a number, with two, with none of these; each goes on to the next by a jump of its
 * own, which processors learn to foresee. */
#define NEXT HOLD goto *ways[(++op)->code]
#define WITH_MEMORY(ALL, NAME)                   \
    NAME : {                                     \
        float *m = (float *)(void *)op->at + at; \
        ALL(IS_##NAME);                          \
        NEXT;                                    \
    }
#define WITH_NUMBER(ALL, NAME)                \
    NAME : {                                  \
        const vec number = SPLAT(op->number); \
        ALL(IS_##NAME);                       \
        NEXT;                                 \
    }
#define WITH_NUMBERS(ALL, NAME)                 \
    NAME : {                                    \
        const vec number = SPLAT(op->number);   \
        const vec number2 = SPLAT(op->number2); \
        ALL(IS_##NAME);                         \
        NEXT;                                   \
    }
#define ALONE(ALL, NAME) \
    NAME : {             \
        ALL(IS_##NAME);  \
        NEXT;            \
    }
#define WAY(NAME) [TPI_REGISTER_##NAME] = &&NAME,

/* What happens to a tile in the end. Sums, or the largest so far, are those of TPI_REGISTER_LANES lanes: four vectors.
 */
#define LEFT_ALONE
#define FOUR_SUMMED   s0 += a0, s1 += a1, s2 += a2, s3 += a3;
#define EIGHT_SUMMED  FOUR_SUMMED s0 += a4, s1 += a5, s2 += a6, s3 += a7;
#define FOUR_COMPARED s0 = LARGER_OF(a0, s0), s1 = LARGER_OF(a1, s1), s2 = LARGER_OF(a2, s2), s3 = LARGER_OF(a3, s3);
#define EIGHT_COMPARED \
    FOUR_COMPARED s0 = LARGER_OF(a4, s0), s1 = LARGER_OF(a5, s1), s2 = LARGER_OF(a6, s2), s3 = LARGER_OF(a7, s3);

/* Tiles of `size` elements, from element `at` of the block on; returns where those end. */
#define DEFINE_TILES(name, size, ALL, ENDS, ...)                                                  \
    static int64_t name(int64_t at, int64_t n, const tpi_register_op *ops, vec *sums) {           \
        static const void *const ways[] = {WAY(END) WAY(LOAD) WAY(STORE) TPI_REGISTERS_ALL(WAY)}; \
        vec __VA_ARGS__, s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];                  \
        const tpi_register_op *op = ops;                                                          \
        if (at + size > n) return at;                                                             \
        goto *ways[op->code];                                                                     \
        WITH_MEMORY(ALL, LOAD)                                                                    \
        WITH_MEMORY(ALL, STORE)                                                                   \
        TPI_REGISTERS_WITH_MEMORY(WITH_MEMORY, ALL)                                               \
        TPI_REGISTERS_WITH_NUMBER(WITH_NUMBER, ALL)                                               \
        TPI_REGISTERS_WITH_NUMBERS(WITH_NUMBERS, ALL)                                             \
        TPI_REGISTERS_WITH_NOTHING(ALONE, ALL)                                                    \
    END:                                                                                          \
        ENDS at += size;                                                                          \
        if (at + size <= n) {                                                                     \
            op = ops;                                                                             \
            goto *ways[op->code];                                                                 \
        }                                                                                         \
        sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;                                   \
        return at;                                                                                \
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
DEFINE_TILES(narrow_sums, TPI_REGISTER_LANES, FOUR, FOUR_SUMMED, a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO)
DEFINE_TILES(wide_maxima, 64, EIGHT, EIGHT_COMPARED, a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO, a4 = ZERO, a5 = ZERO,
             a6 = ZERO, a7 = ZERO)
DEFINE_TILES(narrow_maxima, TPI_REGISTER_LANES, FOUR, FOUR_COMPARED, a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO)

/* Operations as they are for a block. */
static void move_to(int64_t done, int nops, const tpi_register_op *ops, tpi_register_op *now) {
    for (int k = 0; k <= nops; k++) {
        now[k] = ops[k];
        if (now[k].move) now[k].at += done * now[k].move;
    }
}

void TPI_ISA(tpi_register_run)(int64_t n, int64_t done, int nops, const tpi_register_op *ops) {
    tpi_register_op now[TPI_REGISTER_OPS];
    vec none[4] = {{0}};
    move_to(done, nops, ops, now);
    narrow_tiles(wide_tiles(0, n, now, none), n, now, none);
}

void TPI_ISA(tpi_register_fold)(tpi_fold_end end, int64_t n, int64_t done, int nops, const tpi_register_op *ops,
                                float *lanes) {
    tpi_register_op now[TPI_REGISTER_OPS];
    vec *s = (vec *)(void *)lanes;
    move_to(done, nops, ops, now);
    if (end == TPI_FOLD_ENDS_IN_SUM)
        narrow_sums(wide_sums(0, n, now, s), n, now, s);
    else
        narrow_maxima(wide_maxima(0, n, now, s), n, now, s);
}

static inline float larger_of(float a, float b) { return a > b || a != a ? a : b; }

float TPI_ISA(tpi_register_total)(tpi_fold_end end, const float *lanes) {
    const vec *s = (const vec *)(const void *)lanes;
    if (end == TPI_FOLD_ENDS_IN_SUM) {
        const vec eight = (s[0] + s[2]) + (s[1] + s[3]);
        const float a = eight[0] + eight[4], b = eight[1] + eight[5], c = eight[2] + eight[6], d = eight[3] + eight[7];
        return (a + c) + (b + d);
    }
    const vec low = LARGER_OF(s[0], s[2]), high = LARGER_OF(s[1], s[3]), eight = LARGER_OF(low, high);
    const float a = larger_of(eight[0], eight[4]), b = larger_of(eight[1], eight[5]), c = larger_of(eight[2], eight[6]),
                d = larger_of(eight[3], eight[7]);
    return larger_of(larger_of(a, c), larger_of(b, d));
}
