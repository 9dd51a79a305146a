/* Grad modes: scopes without a tape, and inference scopes. A mode belongs to the thread and is put back when its scope
 * ends. */
#include <taper/autograd.h>
#include <taper/binding.h>
#include "dispatch/grad_mode.h"
#include "tensor/check_arguments.h"
#include "tensor/tensor.h"

TPI_THREAD_LOCAL bool tpi_grad_off;
TPI_THREAD_LOCAL bool tpi_inference;
TPI_THREAD_LOCAL bool tpi_keeps_inference;
TPI_THREAD_LOCAL uint64_t tpi_nodes_made;

bool tp_keep_inference(bool on) {
    bool before = tpi_keeps_inference;
    tpi_keeps_inference = on;
    return before;
}

tp_grad_mode tp_grad_mode_enter(bool grad_on, bool inference) {
    tp_grad_mode before = {tpi_grad_off, tpi_inference};
    tpi_inference |= inference;
    tpi_grad_off = !grad_on || tpi_inference; /* nothing is recorded in an inference scope, whatever opens inside */
    return before;
}

void tp_grad_mode_leave(tp_grad_mode *before) {
    if (!TPI_GIVEN(before, "a mode")) return;
    tpi_grad_off = before->grad_off;
    tpi_inference = before->inference;
}

bool tp_grad_enabled(void) { return !tpi_grad_off; }
void tp_set_grad_enabled(bool on) { tpi_grad_off = !on || tpi_inference; }
bool tp_inference_enabled(void) { return tpi_inference; }
bool tp_is_inference(const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    return t && (t->flags & TPI_INFERENCE);
}
