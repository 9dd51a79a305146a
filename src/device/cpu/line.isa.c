/* The machine that runs lines (line.h): all operations on a tile of 64 elements in registers, tile after tile; what is left goes by groups of lanes. */
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

/* One tile at element `at` of the block. */
#define DEFINE_TILE(name, ALL, ...)                                                                                                                       \
    static inline void name(int64_t at, const tpi_line_op *op) {                                                                                          \
        static const void *const ways[] = {[TPI_LINE_NONE] = &&END, WAYS(ADD), WAYS(SUB), WAYS(FROM), WAYS(MUL), WAYS(DIV), WAYS(INTO), [TPI_LINE_RELU] = &&RELU, \
            [TPI_LINE_NEG] = &&NEG, [TPI_LINE_ABS] = &&ABS, [TPI_LINE_SQUARE] = &&SQUARE, [TPI_LINE_LOAD] = &&LOAD, [TPI_LINE_STORE] = &&STORE};          \
        const vec zero = {0};                                                                                                                             \
        vec __VA_ARGS__;                                                                                                                                  \
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
    END:;                                                                                                                                                 \
    }
DEFINE_TILE(wide_tile, EIGHT, a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero, a5 = zero, a6 = zero, a7 = zero)
DEFINE_TILE(narrow_tile, TWO, a0 = zero, a1 = zero)

void TPI_ISA(tpi_line_run)(int64_t n, int64_t done, int nops, const tpi_line_op *ops) {
    enum { WIDE = 64 };
    tpi_line_op now[TPI_LINE_OPS]; /* as they are for this block */
    for (int k = 0; k <= nops; k++) {
        now[k] = ops[k];
        if (now[k].move) now[k].at += done * now[k].move;
    }
    int64_t at = 0;
    for (; at + WIDE <= n; at += WIDE) wide_tile(at, now);
    for (; at < n; at += TPI_LANES) narrow_tile(at, now);
}
