/* Averages of a network's weights: a module that holds a copy of the network and moves it towards what it is shown. */
#include "autograd/glue.h"
#include "nn/layer.h"
#include <math.h>
#include <taper/average.h>
#include <taper/ops.h>

static bool forward(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    return tpi_forward(tp_module_child(m, "module"), nargs, args, nresults, results);
}
static const tpi_layer averaged = {.name = "AveragedModel", .call = forward};

tp_module *tp_average_new(const tp_module *net, double decay, bool use_buffers) {
    if (!TPI_HANDLE_GIVEN(net, "a module")) return NULL;
    if (!isnan(decay) && !(decay >= 0 && decay <= 1))
        return tpi_fail(TP_ERR_VALUE,
                        "tp_average_new: argument 'decay': Invalid decay value %g provided. Please provide a value in "
                        "[0,1] range.",
                        decay);
    tp_module *m = tpi_module_of(&averaged);
    tp_tensor *count = m ? tp_own(tp_zeros(tp_ints_view(NULL, 0), .dtype = TP_INT64)) : NULL;
    bool fine = count && tp_module_add_buffer(m, "n_averaged", count, true) &&
                tpi_module_set(m, "decay", tp_value_double(decay)) &&
                tpi_module_set(m, "use_buffers", tp_value_bool(use_buffers)) &&
                tp_module_add(m, "module", tp_module_clone(net));
    tp_release(count);
    if (fine) return m;
    tp_module_release(m);
    return NULL;
}

/* average moves to current by weight, in place; whole numbers are rounded towards zero. */
static bool mix(tp_tensor *average, tp_tensor *current, double weight, bool copied) {
    tp_tensor *here = tp_to(current, .device = tpi_device(average));
    if (copied) return tp_copy_(average, here) != NULL;
    if (tp_dtype_is_floating((tp_dtype)average->dtype) || tp_dtype_is_complex((tp_dtype)average->dtype))
        return tp_lerp_(average, tp_to(here, .dtype = (tp_dtype)average->dtype), weight) != NULL;
    return tp_copy_(average, tp_add(tp_mul(average, 1 - weight), tp_mul(here, weight))) != NULL;
}

static bool mix_all(tp_state mine, tp_state theirs, double weight, bool copied) {
    if (mine.n < 0 || theirs.n < 0) return false;
    if (mine.n != theirs.n)
        return tpi_refuse(TP_ERR_VALUE,
                          "tp_average_update: argument 'net': expected the network that the average was made of: it "
                          "has %lld tensors, this one %lld",
                          (long long)mine.n, (long long)theirs.n);
    bool fine = true;
    for (int64_t i = 0; fine && i < mine.n; i++) {
        if (!tpi_same_shape(mine.tensors[i], theirs.tensors[i]))
            fine = tpi_refuse(TP_ERR_VALUE, "tp_average_update: argument 'net': '%s' has the shape %s, expected %s",
                              theirs.names[i], tpi_shape_text(tp_shape(theirs.tensors[i])),
                              tpi_shape_text(tp_shape(mine.tensors[i])));
        else
            TP_SCOPE
                fine = mix(mine.tensors[i], theirs.tensors[i], weight, copied);
    }
    return fine;
}

bool tp_average_update(tp_module *average, tp_module *net) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_HANDLE_GIVEN(average, "a module") || !TPI_HANDLE_GIVEN(net, "a module")) return false;
    if (average->layer != &averaged)
        return tpi_refuse(TP_ERR_TYPE,
                          "tp_average_update: argument 'average': expected a module of tp_average_new, got %s",
                          average->name);
    tp_tensor *seen = tpi_get_tensor(average, "n_averaged");
    const double before = (double)tp_item_int(seen), decay = tpi_get_float(average, "decay");
    const double weight = isnan(decay) ? 1 / (before + 1) : 1 - decay;
    tp_module *copy = tp_module_child(average, "module");
    tp_state mine[2] = {tp_module_parameters(copy), tp_module_buffers(copy)};
    tp_state theirs[2] = {tp_module_parameters(net), tp_module_buffers(net)};
    bool fine = true;
    TP_NO_GRAD
        TP_SCOPE {
            for (int i = 0; fine && i < 2; i++) {
                const bool copied = before == 0 || (i == 1 && !tpi_get_bool(average, "use_buffers"));
                fine = mix_all(mine[i], theirs[i], weight, copied);
            }
            fine = fine && tp_add_(seen, 1);
        }
    for (int i = 0; i < 2; i++) {
        tp_state_free(mine[i]);
        tp_state_free(theirs[i]);
    }
    return fine;
}
