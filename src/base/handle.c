#include "base/handle.h"
#include "base/memory.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

bool tpi_keeps_freed(void) {
    static atomic_int known; /* 0: not asked yet, 1: no, 2: yes */
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (!now) {
        const char *debug = getenv("TAPER_DEBUG");
        now = debug && *debug && strcmp(debug, "0") ? 2 : 1;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now == 2;
}

void tpi_handle_delete(void *handle, size_t bytes) {
    if (!tpi_keeps_freed()) tpi_delete(handle, bytes);
}

bool tpi_handle_given(const void *handle, uint32_t alive, const char *function, const char *argument,
                      const char *what) {
    if (handle && alive == TPI_HANDLE_ALIVE) return true;
    if (!tpi_given(handle, function, argument, what)) return false;
    const char *before = tpi_op_enter(function);
    tpi_fail(TP_ERR_VALUE, "argument '%s': expected %s, got one that was released before", argument, what);
    tpi_op_leave(before);
    return false;
}
