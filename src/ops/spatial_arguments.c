/* See spatial_arguments.h. */
#include "ops/spatial_arguments.h"
#include <stdio.h>

const char *tpi_sizes_by_x(const int64_t *sizes, int n, const int64_t *around, char buffer[TPI_BY_X]) {
    int length = 0;
    for (int i = 0; i < n && length < TPI_BY_X; i++)
        length += snprintf(buffer + length, (size_t)(TPI_BY_X - length), "%s%lld", i ? " x " : "",
                           (long long)(sizes[i] + (around ? 2 * around[i] : 0)));
    return buffer;
}

bool tpi_expand_ints(const char *argument, tp_ints given, int n, const int64_t *fallback, int64_t *out) {
    if ((!given.v || given.n == 0) && fallback) {
        for (int i = 0; i < n; i++) out[i] = fallback[i];
        return true;
    }
    if (given.n != 1 && given.n != n)
        return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected one value or %d, got %lld", argument, n,
                          (long long)given.n);
    for (int i = 0; i < n; i++) out[i] = given.v[given.n == 1 ? 0 : i];
    return true;
}

bool tpi_expand_steps(const char *argument, tp_ints given, int n, const int64_t *fallback, int64_t *out) {
    if (!tpi_expand_ints(argument, given, n, fallback, out)) return false;
    for (int i = 0; i < n; i++)
        if (out[i] > INT32_MAX || out[i] < -INT32_MAX)
            return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': integer out of range, expected 31 bits, got %lld",
                              argument, (long long)out[i]);
    return true;
}
