/* The process's wish for results that do not vary from run to run. Operators with a faster way that varies ask for it;
 * those of the CPU have none. And whether memory of new tensors is filled with NaN in a deterministic run. */
#include <stdatomic.h>
#include "base/error.h"

static atomic_int wish;

tp_determinism tp_deterministic(void) { return (tp_determinism)atomic_load_explicit(&wish, memory_order_relaxed); }

bool tp_set_deterministic(tp_determinism mode) {
    if ((unsigned)mode > TP_DETERMINISTIC_ERROR)
        return tpi_refuse(TP_ERR_VALUE, "argument 'mode': expected a tp_determinism from 0 to %d, got %d",
                          (int)TP_DETERMINISTIC_ERROR, (int)mode);
    atomic_store_explicit(&wish, mode, memory_order_relaxed);
    return true;
}

/* The opposite of what is asked: filling is on until a program turns it off. */
static atomic_bool leaves_memory;

bool tp_fill_uninitialized(void) { return !atomic_load_explicit(&leaves_memory, memory_order_relaxed); }
void tp_set_fill_uninitialized(bool on) { atomic_store_explicit(&leaves_memory, !on, memory_order_relaxed); }
