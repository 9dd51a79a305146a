/* Max pooling, whose layers give where the largest elements stand as a second result if they were asked to. */
#include "nn/layer.h"
#include "tpi_layers.h"
#include "tpi_ops.h"

typedef struct window {
    tp_tensor *input;
    tp_ints kernel, stride, padding, dilation;
    bool ceil_mode, indices;
} window;

static bool window_of(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, window *w) {
    w->indices = tpi_get_bool(m, "return_indices");
    if (nargs != 1 || args[0].kind != TP_K_TENSOR || !args[0].as.tensor)
        return tpi_refuse(TP_ERR_TYPE, "forward takes one tensor");
    if (nresults != (w->indices ? 2 : 1))
        return tpi_refuse(TP_ERR_TYPE, "forward gives %s", w->indices ? "2 results, values and indices" : "1 result");
    w->input = args[0].as.tensor;
    w->kernel = tpi_get_ints(m, "kernel_size");
    w->stride = tpi_get_ints(m, "stride");
    w->padding = tpi_get_ints(m, "padding");
    w->dilation = tpi_get_ints(m, "dilation");
    w->ceil_mode = tpi_get_bool(m, "ceil_mode");
    return true;
}

static bool set_results(tp_tensor *out, tp_tensor **both, bool fine, tp_value *results) {
    if (both) {
        if (fine) {
            results[0] = tp_value_tensor(both[0]);
            results[1] = tp_value_tensor(both[1]);
        }
        return fine;
    }
    results[0] = tpi_box_tensor(out);
    return out != NULL;
}

#define MAX_POOL(n)                                                                                                   \
    bool tpi_forward_max_pool##n##d(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults,              \
                                    tp_value *results) {                                                              \
        window w;                                                                                                     \
        tp_tensor *both[2] = {NULL, NULL};                                                                            \
        if (!window_of(m, nargs, args, nresults, &w)) return false;                                                   \
        if (w.indices)                                                                                                \
            return set_results(NULL, both,                                                                            \
                               tpo_max_pool##n##d_with_indices(w.input, w.kernel, w.stride, w.padding, w.dilation,    \
                                                               w.ceil_mode, both),                                    \
                               results);                                                                              \
        return set_results(tpo_max_pool##n##d(w.input, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode), NULL, \
                           true, results);                                                                            \
    }
MAX_POOL(1)
MAX_POOL(2)
MAX_POOL(3)
