/* Losses over very many classes. AdaptiveLogSoftmaxWithLoss: the frequent classes are in the head, each further cluster
 * is one class of the head and a tail of fewer dimensions; results are each sample's log-probability of its target and
 * the mean loss, in the steps of python/taper/nn/modules/_adaptive.py. LinearCrossEntropyLoss: a Linear and its cross
 * entropy in one operator. */
#include "nn/layer.h"
#include "autograd/glue.h"
#include "tpi_layers.h"
#include <math.h>
#include <stdio.h>
#include <taper/ops.h>

enum { MOST_CUTOFFS = 63 };

static bool two_tensors(int64_t nargs, const tp_value *args) {
    if (nargs == 2 && args[0].kind == TP_K_TENSOR && args[1].kind == TP_K_TENSOR && args[0].as.tensor &&
        args[1].as.tensor)
        return true;
    return tpi_refuse(TP_ERR_TYPE, "forward takes an input and a target");
}

/* ---- AdaptiveLogSoftmaxWithLoss ---- */
bool tpi_build_adaptive(tp_module *m, int64_t in_features, int64_t n_classes, tp_ints cutoffs, double div_value,
                        bool head_bias, tp_device device, tp_dtype dtype) {
    if (!cutoffs.v || cutoffs.n < 1 || cutoffs.n > MOST_CUTOFFS)
        return tpi_refuse(TP_ERR_VALUE, "cutoffs should be a sequence of length larger than 0");
    int64_t ends[MOST_CUTOFFS + 1];
    for (int64_t i = 0; i < cutoffs.n; i++) {
        ends[i] = cutoffs.v[i];
        if (ends[i] <= (i ? ends[i - 1] : 0) || ends[i] > n_classes - 1)
            return tpi_refuse(TP_ERR_VALUE, "cutoffs should be a sequence of unique, positive integers sorted in an "
                                            "increasing order, where each value is between 1 and n_classes-1");
    }
    ends[cutoffs.n] = n_classes;
    if (!tpi_module_set(m, "in_features", tp_value_int(in_features)) ||
        !tpi_module_set(m, "n_classes", tp_value_int(n_classes)) ||
        !tpi_module_set(m, "cutoffs", tp_value_ints(tp_ints_view(ends, cutoffs.n + 1))))
        return false;
    tp_module *tail = NULL;
    if (!tp_module_add(
            m, "head",
            tp_nn_linear(in_features, ends[0] + cutoffs.n, .bias = head_bias, .device = device, .dtype = dtype)))
        return false;
    if (!tp_module_add(m, "tail", tail = tpi_module_list())) return false;
    for (int64_t i = 0; i < cutoffs.n; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        int64_t width = (int64_t)floor((double)in_features / pow(div_value, (double)(i + 1)));
        tp_module *first = tp_nn_linear(in_features, width, .bias = false, .device = device, .dtype = dtype);
        tp_module *second =
            first ? tp_nn_linear(width, ends[i + 1] - ends[i], .bias = false, .device = device, .dtype = dtype) : NULL;
        if (!tp_module_add(tail, name, tp_nn_sequential(first, second))) return false;
    }
    return true;
}

/* The samples whose targets are in [low, high): their log-probabilities within the cluster go to `output`, their class
 * in the head to `gather`. */
static int64_t one_cluster(tp_module *tail, tp_tensor *input, tp_tensor *target, int64_t low, int64_t high,
                           int64_t head_class, tp_tensor *output, tp_tensor *gather) {
    tp_tensor *rows = tp_squeeze_dim(tp_nonzero(tp_logical_and(tp_ge(target, low), tp_lt(target, high))), 1);
    if (!rows || tp_numel(rows) == 0) return 0;
    tp_tensor *own = tp_index_select(target, 0, rows);
    if (!tail) return tp_index_copy_(gather, 0, rows, own) ? tp_numel(rows) : 0;
    tp_tensor *scores = tp_log_softmax(tp_forward(tail, tp_index_select(input, 0, rows)), 1);
    tp_tensor *picked = tp_squeeze_dim(tp_gather(scores, 1, tp_unsqueeze(tp_sub(own, low), 1)), 1);
    return tp_index_copy_(output, 0, rows, picked) && tp_index_fill_(gather, 0, rows, tp_int(head_class))
               ? tp_numel(rows)
               : 0;
}

bool tpi_forward_adaptive(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    if (!two_tensors(nargs, args)) return false;
    if (nresults != 1 && nresults != 2)
        return tpi_refuse(TP_ERR_TYPE, "forward gives the log-probabilities and the loss, or the first alone");
    tp_tensor *input = args[0].as.tensor, *target = args[1].as.tensor;
    if (input->ndim != 2 || target->ndim != 1 || tp_size(input, 0) != tp_size(target, 0))
        return tpi_refuse(TP_ERR_RUNTIME, "Input and target should have the same size in the batch dimension.");
    tp_ints ends = tpi_get_ints(m, "cutoffs");
    tp_module *tail = tp_module_child(m, "tail");
    bool fine = false;
    TP_SCOPE {
        int64_t n = tp_size(target, 0), used = 0;
        tp_tensor *output = tp_zeros(TP_INTS(n), .dtype = (tp_dtype)input->dtype),
                  *gather = tp_zeros(TP_INTS(n), .dtype = (tp_dtype)target->dtype);
        for (int64_t i = 0; output && gather && i < ends.n; i++)
            used += one_cluster(i ? tail->children[i - 1].module : NULL, input, target, i ? ends.v[i - 1] : 0,
                                ends.v[i], ends.v[0] + i - 1, output, gather);
        if (!tp_ok()) continue;
        if (used != n) {
            tpi_fail(TP_ERR_RUNTIME, "Target values should be in [0, %lld]", (long long)ends.v[ends.n - 1] - 1);
            continue;
        }
        tp_tensor *head = tp_log_softmax(tp_forward(tp_module_child(m, "head"), input), 1);
        output = tp_add(output, tp_squeeze_dim(tp_gather(head, 1, tp_unsqueeze(gather, 1)), 1));
        tp_tensor *loss = tp_mean(tp_neg(output));
        fine = output && loss && tp_ok();
        if (fine) results[0] = tp_value_tensor(tp_retain(output));
        if (fine && nresults == 2) results[1] = tp_value_tensor(tp_retain(loss));
    }
    return fine;
}

/* ---- LinearCrossEntropyLoss ---- */
bool tpi_build_linear_cross_entropy(tp_module *m, int64_t in_features, int64_t num_classes, tp_device device,
                                    tp_dtype dtype, tp_ints out_features, bool bias, const char *reduction,
                                    tp_tensor *weight, int64_t ignore_index, double label_smoothing) {
    const struct {
        const char *name;
        tp_value value;
    } attributes[] = {{"in_features", tp_value_int(in_features)},
                      {"num_classes", tp_value_int(num_classes)},
                      {"out_features", tp_value_ints(out_features)},
                      {"bias", tp_value_bool(bias)},
                      {"reduction", tp_value_string(reduction)},
                      {"ignore_index", tpi_box_int(ignore_index)},
                      {"label_smoothing", tp_value_double(label_smoothing)},
                      {"options", tp_value_none()}};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (!tpi_module_set(m, attributes[i].name, attributes[i].value)) return false;
    return tpi_module_hold(m, "weight", TPI_BUFFER, weight) &&
           tp_module_add(m, "linear",
                         tp_nn_linear(in_features, num_classes * tpi_product_of(out_features), .bias = bias,
                                      .device = device, .dtype = dtype));
}

/* (classes * d1 * d2, ...) as (classes, d1, d2, ...). */
static tp_tensor *shaped(tp_module *m, tp_tensor *parameter) {
    tp_ints out = tpi_get_ints(m, "out_features");
    if (!parameter || !out.n) return parameter;
    int64_t buffer[TP_MAX_DIMS], more[TP_MAX_DIMS];
    tp_ints shape = tpi_ints_joined(buffer, TP_INTS(tpi_get_int(m, "num_classes")), out);
    return tp_view(parameter,
                   parameter->ndim > 1 ? tpi_ints_joined(more, shape, TP_INTS(tp_size(parameter, 1))) : shape);
}

bool tpi_forward_linear_cross_entropy(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults,
                                      tp_value *results) {
    if (!two_tensors(nargs, args)) return false;
    if (nresults != 1) return tpi_refuse(TP_ERR_TYPE, "forward gives 1 result, not %lld", (long long)nresults);
    bool fine = false;
    TP_SCOPE {
        tp_module *linear = tp_module_child(m, "linear");
        tp_tensor *loss = tp_linear_cross_entropy(
            args[0].as.tensor, shaped(m, tpi_get_tensor(linear, "weight")), args[1].as.tensor,
            .linear_bias = shaped(m, tpi_get_tensor(linear, "bias")), .weight = tpi_get_tensor(m, "weight"),
            .reduction = tpi_get_string(m, "reduction"), .ignore_index = tpi_get_int(m, "ignore_index"),
            .label_smoothing = tpi_get_float(m, "label_smoothing"));
        if ((fine = loss != NULL)) results[0] = tp_value_tensor(tp_retain(loss));
    }
    return fine;
}
