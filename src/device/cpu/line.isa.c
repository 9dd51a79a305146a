/* The machine that runs lines (line.h): all operations on a tile of 64 elements in registers, tile after tile; what is left goes by smaller ones. */
#include "device/cpu/line.h"

typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(32)));

#define MEMORY(v) (((vec *)m)[v])
#define IS_LOAD(a, v) MEMORY(v)
#define IS_ADD(a, v) (a + MEMORY(v))
#define IS_SUB(a, v) (a - MEMORY(v))
#define IS_FROM(a, v) (MEMORY(v) - a)
#define IS_MUL(a, v) (a * MEMORY(v))
#define IS_DIV(a, v) (a / MEMORY(v))
#define IS_INTO(a, v) (MEMORY(v) / a)
#define IS_ADD_NUMBER(a, v) (a + number)
#define IS_SUB_NUMBER(a, v) (a - number)
#define IS_FROM_NUMBER(a, v) (number - a)
#define IS_MUL_NUMBER(a, v) (a * number)
#define IS_DIV_NUMBER(a, v) (a / number)
#define IS_INTO_NUMBER(a, v) (number / a)
#define IS_RELU(a, v) ((vec)((mask)a & ~(a <= zero)))
#define IS_NEG(a, v) (-a)
#define IS_ABS(a, v) ((vec)((mask)a & 0x7fffffff))
#define IS_SQUARE(a, v) (a * a)
#define IS_STORE(a, v) (MEMORY(v) = a)

#define EIGHT(IS) a0 = IS(a0, 0), a1 = IS(a1, 1), a2 = IS(a2, 2), a3 = IS(a3, 3), a4 = IS(a4, 4), a5 = IS(a5, 5), a6 = IS(a6, 6), a7 = IS(a7, 7)
#define FOUR(IS) a0 = IS(a0, 0), a1 = IS(a1, 1), a2 = IS(a2, 2), a3 = IS(a3, 3)
#define TWO(IS) a0 = IS(a0, 0), a1 = IS(a1, 1)

/* An operation with memory, one with a number, one with neither; each goes on to the next by a jump of its own, which processors learn to foresee. */
#define NEXT goto *ways[(++op)->code]
#define WITH_MEMORY(ALL, NAME)                 \
    NAME : {                                   \
        float *m = (float *)(void *)op->at + at; \
        ALL(IS_##NAME);                        \
        NEXT;                                  \
    }
#define WITH_NUMBER(ALL, NAME)                                        \
    NAME##_NUMBER : {                                                 \
        const float f = op->number;                                   \
        const vec number = {f, f, f, f, f, f, f, f};                  \
        ALL(IS_##NAME##_NUMBER);                                      \
        NEXT;                                                         \
    }
#define ALONE(ALL, NAME)  \
    NAME : {              \
        ALL(IS_##NAME);   \
        NEXT;             \
    }
#define WITH_EITHER(ALL, NAME) WITH_MEMORY(ALL, NAME) WITH_NUMBER(ALL, NAME)
#define WAYS(NAME) [TPI_LINE_##NAME] = &&NAME, [TPI_LINE_NUMBER + TPI_LINE_##NAME] = &&NAME##_NUMBER

/* What happens to a tile in the end. Sums are those of TPI_LINE_SUMS lanes: four vectors. */
#define LEFT_ALONE
#define FOUR_SUMMED s0 += a0, s1 += a1, s2 += a2, s3 += a3;
#define EIGHT_SUMMED FOUR_SUMMED s0 += a4, s1 += a5, s2 += a6, s3 += a7;

/* Tiles of `size` elements, from element `at` of the block on; returns where those end. */
#define DEFINE_TILES(name, size, ALL, ENDS, ...)                                                                                                          \
    static int64_t name(int64_t at, int64_t n, const tpi_line_op *ops, vec *sums) {                                                                       \
        static const void *const ways[] = {[TPI_LINE_NONE] = &&END, WAYS(ADD), WAYS(SUB), WAYS(FROM), WAYS(MUL), WAYS(DIV), WAYS(INTO), [TPI_LINE_RELU] = &&RELU, \
            [TPI_LINE_NEG] = &&NEG, [TPI_LINE_ABS] = &&ABS, [TPI_LINE_SQUARE] = &&SQUARE, [TPI_LINE_LOAD] = &&LOAD, [TPI_LINE_STORE] = &&STORE};          \
        const vec zero = {0};                                                                                                                             \
        vec __VA_ARGS__, s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];                                                                          \
        const tpi_line_op *op = ops;                                                                                                                      \
        if (at + size > n) return at;                                                                                                                     \
        goto *ways[op->code];                                                                                                                             \
        WITH_EITHER(ALL, ADD)                                                                                                                             \
        WITH_EITHER(ALL, SUB)                                                                                                                             \
        WITH_EITHER(ALL, FROM)                                                                                                                            \
        WITH_EITHER(ALL, MUL)                                                                                                                             \
        WITH_EITHER(ALL, DIV)                                                                                                                             \
        WITH_EITHER(ALL, INTO)                                                                                                                            \
        WITH_MEMORY(ALL, LOAD)                                                                                                                            \
        WITH_MEMORY(ALL, STORE)                                                                                                                           \
        ALONE(ALL, RELU)                                                                                                                                  \
        ALONE(ALL, NEG)                                                                                                                                   \
        ALONE(ALL, ABS)                                                                                                                                   \
        ALONE(ALL, SQUARE)                                                                                                                                \
    END:                                                                                                                                                  \
        ENDS                                                                                                                                              \
        at += size;                                                                                                                                       \
        if (at + size <= n) {                                                                                                                             \
            op = ops;                                                                                                                                     \
            goto *ways[op->code];                                                                                                                         \
        }                                                                                                                                                 \
        sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;                                                                                           \
        return at;                                                                                                                                        \
    }
DEFINE_TILES(wide_tiles, 64, EIGHT, LEFT_ALONE, a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero, a6 = zero, a7 = zero)
DEFINE_TILES(narrow_tiles, TPI_LANES, TWO, LEFT_ALONE, a0 = zero, a1 = zero)
DEFINE_TILES(wide_sums, 64, EIGHT, EIGHT_SUMMED, a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero, a6 = zero, a7 = zero)
DEFINE_TILES(narrow_sums, TPI_LINE_SUMS, FOUR, FOUR_SUMMED, a0 = zero, a1 = zero, a2 = zero, a3 = zero)

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

void TPI_ISA(tpi_line_sum)(int64_t n, int64_t done, int nops, const tpi_line_op *ops, float *sums) {
    tpi_line_op now[TPI_LINE_OPS];
    move_to(done, nops, ops, now);
    narrow_sums(wide_sums(0, n, now, (vec *)(void *)sums), n, now, (vec *)(void *)sums);
}

float TPI_ISA(tpi_line_total)(const float *sums) {
    const vec *s = (const vec *)(const void *)sums, eight = (s[0] + s[2]) + (s[1] + s[3]);
    const float a = eight[0] + eight[4], b = eight[1] + eight[5], c = eight[2] + eight[6], d = eight[3] + eight[7];
    return (a + c) + (b + d);
}
