/* tp_backward and tp_gradients: options and inputs become a run of the engine. */
#include <taper/autograd.h>
#include "autograd/tape.h"
#include "dispatch/call.h"
#include "tensor/check_arguments.h"

/* Reads a field only if the caller's struct, whose size it says, has it. */
#define HAS(o, type, field)    ((o) && (o)->size >= (int64_t)(offsetof(type, field) + sizeof((o)->field)))
#define OPTION(o, type, field) (HAS(o, type, field) && (o)->field)

/* Inputs that are not leaves keep their gradients as if the user had called tp_retain_grad. */
static bool retain_inputs(tp_tensors inputs) {
    for (int64_t i = 0; i < inputs.n; i++)
        if (inputs.v[i] && tpi_has_history(inputs.v[i]) && !tp_retain_grad(inputs.v[i])) return false;
    return true;
}

bool tp_backward_many(tp_tensors roots, tp_tensor *const *gradients, const tp_backward_options *o) {
    TPI_STOP_ON_ERROR(false);
    const char *before = tpi_op_enter("backward");
    tp_tensors inputs = HAS(o, tp_backward_options, inputs) ? o->inputs : (tp_tensors){NULL, 0};
    bool ok = (!o || tpi_sound_size(o->size, "options")) && TPI_TENSORS_GIVEN(roots) && TPI_TENSORS_GIVEN(inputs) &&
              retain_inputs(inputs) &&
              tpi_run(&(tpi_run_request){.nroots = roots.n,
                                         .roots = roots.v,
                                         .root_grads = gradients,
                                         .ninputs = inputs.n,
                                         .inputs = inputs.v,
                                         .only_inputs = inputs.n > 0,
                                         .accumulate = inputs.n > 0,
                                         .retain_graph = OPTION(o, tp_backward_options, retain_graph),
                                         .create_graph = OPTION(o, tp_backward_options, create_graph)});
    tpi_op_leave(before);
    return ok;
}

bool tp_backward_with(tp_tensor *root, const tp_backward_options *o) {
    TPI_STOP_ON_ERROR(false);
    tp_tensor *gradient = HAS(o, tp_backward_options, gradient) ? o->gradient : NULL;
    return tp_backward_many((tp_tensors){&root, 1}, &gradient, o);
}

static bool check_used(tp_tensors inputs, tp_tensor **grads) {
    for (int64_t i = 0; i < inputs.n; i++)
        if (!grads[i])
            return tpi_refuse(TP_ERR_RUNTIME,
                              "The differentiated Tensor at index %lld appears to not have been used in the graph. Set "
                              "allow_unused=True if this is the desired behavior.",
                              (long long)i);
    return true;
}

/* Zeros for inputs that were not used; they require gradients where the backward was recorded, as PyTorch's do. */
static bool fill_unused(tp_tensors inputs, tp_tensor **grads, bool recorded) {
    for (int64_t i = 0; i < inputs.n; i++) {
        if (grads[i]) continue;
        if (!(grads[i] = tpi_empty_like(inputs.v[i], (tp_dtype)inputs.v[i]->dtype)) ||
            !tpi_fill_data(grads[i], tp_int(0)))
            return false;
        if (recorded && !tp_set_requires_grad(grads[i], true)) return false;
    }
    return true;
}

bool tp_gradients(tp_tensors outputs, tp_tensors inputs, tp_tensor *const *grad_outputs, tp_tensor **grads,
                  const tp_grad_options *o) {
    if (!TPI_TENSORS_GIVEN(outputs) || !TPI_TENSORS_GIVEN(inputs)) return false;
    const char *before = tpi_op_enter("gradients");
    bool ok = (!o || tpi_sound_size(o->size, "options")) &&
              tpi_run(&(tpi_run_request){.nroots = outputs.n,
                                         .roots = outputs.v,
                                         .root_grads = grad_outputs,
                                         .ninputs = inputs.n,
                                         .inputs = inputs.v,
                                         .grads = grads,
                                         .only_inputs = true,
                                         .stop_at_inputs = OPTION(o, tp_grad_options, stop_at_inputs),
                                         .retain_graph = OPTION(o, tp_grad_options, retain_graph),
                                         .create_graph = OPTION(o, tp_grad_options, create_graph)});
    bool zeros = OPTION(o, tp_grad_options, materialize_grads);
    bool handed = ok && (zeros ? fill_unused(inputs, grads, OPTION(o, tp_grad_options, create_graph))
                               : OPTION(o, tp_grad_options, allow_unused) || check_used(inputs, grads));
    for (int64_t i = 0; i < inputs.n && ok; i++) {
        if (handed)
            handed = !grads[i] || (grads[i] = tpi_to_scope(grads[i]));
        else
            grads[i] = tpi_release_then(grads[i], NULL);
    }
    tpi_op_leave(before);
    return handed;
}
