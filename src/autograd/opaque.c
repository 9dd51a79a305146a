/* Opaque tensors: the tape adds, copies and begins with them by asking the language binding that computes with them. A
 * binding that watches is asked about all tensors. */
#include "autograd/node.h"
#include "tensor/check_arguments.h"

#include <taper/autograd.h>

static _Atomic(tp_opaque_fn) handler;

void tp_set_opaque_handler(tp_opaque_fn fn) { atomic_store(&handler, fn); }

_Atomic int tpi_watchers;

void tp_watch_tape(bool on) { atomic_fetch_add(&tpi_watchers, on ? 1 : -1); }

bool tp_set_opaque(tp_tensor *t, bool opaque) {
    if (TPI_ENDED(t, "a tensor")) return false;
    if (!t) return tpi_refuse(TP_ERR_TYPE, "expected a tensor, got NULL");
    if (opaque)
        t->flags |= TPI_OPAQUE;
    else
        t->flags &= (uint8_t)~TPI_OPAQUE;
    return true;
}

tp_tensor *tpi_ask_opaque(const char *what, tp_tensor *a, tp_tensor *b) {
    tp_opaque_fn ask = atomic_load(&handler);
    if (!ask)
        return tpi_fail(TP_ERR_RUNTIME, "%s: a tensor is opaque, and no binding says how to compute with it", what);
    return ask(what, a, b);
}
