/* See join.h. Kernels take multiples of TPI_LANES elements. What is left over is joined together with elements that
 * were joined before: that changes nothing. */
#include "device/cpu/join.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "device/launch.h"

enum {
    BLOCK = 2048, /* elements of a long column that are joined at a time: they stay in the first cache */
    ENOUGH = 128, /* elements that are widened in the end */
};

tpi_join tpi_join_for(const tpi_fold_op *op, tp_dtype dtype) {
    tpi_join join = {.size = tpi_dtype_bytes[dtype]};
    const int narrow = tpi_narrow_of(dtype);
    if (narrow == TPI_NARROWS || tpi_dtype_ctype[dtype] != TPI_I32) return join;
    for (int k = 0; k < op->nstate && op->join[k]; k++) {
        const tpi_map_op *map = op->join[k];
        const tpi_block_fn *table = map->narrow[tpi_cpu_isa];
        /* a result of another size would not go where the elements do */
        const bool fits = tpi_dtype_bytes[tpi_result_dtype(map->result, dtype)] == join.size;
        if (!table || !table[narrow] || !fits) return (tpi_join){0};
        join.fn[join.n++] = table[narrow];
    }
    return join;
}

static void join_two(const tpi_join *join, int which, int64_t n, const char *x, const char *y, char *to) {
    join->fn[which](n, (char *const[]){to, (char *)x, (char *)y}, NULL);
}

int64_t tpi_join_column(const tpi_join *join, int which, int64_t n, const char *x, char *scratch) {
    if (n > 2 * BLOCK) {
        for (int64_t i = BLOCK; i < n; i += BLOCK) {
            const int64_t at = i + BLOCK < n ? i : n - BLOCK;
            join_two(join, which, BLOCK, i == BLOCK ? x : scratch, x + at * join->size, scratch);
        }
        x = scratch;
        n = BLOCK;
    }
    while (n > ENOUGH) {
        const int64_t half = tpi_ceil_div(tpi_ceil_div(n, 2), TPI_LANES) * TPI_LANES;
        join_two(join, which, half, x, x + (n - half) * join->size, scratch);
        x = scratch;
        n = half;
    }
    return n;
}

void tpi_join_rows(const tpi_join *join, int which, int64_t n, int64_t rows, const char *x, int64_t row,
                   char *scratch) {
    const int64_t whole = n / TPI_LANES * TPI_LANES, last = (n - TPI_LANES) * join->size;
    for (int64_t r = 1; r < rows; r++) {
        const char *before = r == 1 ? x : scratch, *next = x + r * row;
        join_two(join, which, whole, before, next, scratch);
        if (whole < n) join_two(join, which, TPI_LANES, before + last, next + last, scratch + last);
    }
}
