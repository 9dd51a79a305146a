/* embedding and embedding_bag in torch.nn.functional's form, as calls of other operators. They differentiate
 * themselves. */
#include <string.h>
#include "ops/temporaries.h"
#include "ops/native.h"
#include "tpi_ops.h"
#include <taper/autograd.h>

bool tpi_check_bag_indices(
    tp_tensor *indices, int64_t rows); /* embedding.c: a bag refuses in other words than a lookup; on the CPU alone */
bool tpi_native_embedding_renorm(tp_tensor *self, tp_tensor *indices, double max_norm,
                                 double norm_type); /* embedding.c: in place, no tape */

/* A padding index counts from the end when negative; -1 afterwards means there is none. */
static bool read_padding(int64_t *padding_idx, const tp_tensor *weight, bool of_bag) {
    if (weight->ndim != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "'weight' must be 2-D, got %s", tpi_shape_text(tpi_shape(weight)));
    if (*padding_idx == TP_NONE) {
        *padding_idx = -1;
        return true;
    }
    if ((*padding_idx < -weight->shape[0] || *padding_idx >= weight->shape[0]) && of_bag)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "padding_idx must be within the number of embeddings, -%lld through %lld, but got %lld",
                          (long long)weight->shape[0], (long long)weight->shape[0] - 1, (long long)*padding_idx);
    if (*padding_idx < -weight->shape[0] || *padding_idx >= weight->shape[0])
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'padding_idx': Padding_idx must be within num_embeddings %lld, got %lld",
                          (long long)weight->shape[0], (long long)*padding_idx);
    if (*padding_idx < 0) *padding_idx += weight->shape[0];
    return true;
}

/* The rows that the indices name are held to a norm, unseen by the tape. */
static bool renorm(tp_tensor *weight, tp_tensor *input, double max_norm, double norm_type) {
    bool before = tp_grad_enabled();
    tp_set_grad_enabled(false);
    tp_tensor *same = tpo_embedding_renorm_(weight, input, max_norm, norm_type);
    tp_set_grad_enabled(before);
    return same;
}

tp_tensor *tpi_compose_embedding(tp_tensor *input, tp_tensor *weight, int64_t padding_idx, double max_norm,
                                 double norm_type, bool scale_grad_by_freq, bool sparse) {
    if (sparse && weight->requires_grad && tp_grad_enabled())
        return tpi_fail(TP_ERR_MISSING, "argument 'sparse': sparse gradients are not available");
    if (!read_padding(&padding_idx, weight, false)) return NULL;
    if (max_norm == max_norm && !renorm(weight, input, max_norm, norm_type)) return NULL;
    return tpo_embedding_rows(weight, input, padding_idx, scale_grad_by_freq);
}

/* How many rows each bag holds, as a column of the dtype. */
static tp_tensor *bag_sizes(tp_tensor *bag, int64_t bags, tp_dtype dtype) {
    tp_tensor *ones = tpo_full(TP_INTS(bag->numel, 1), tp_int(1), dtype, tpi_device(bag));
    return ones ? tpi_release_then(ones, tpo_segment_sum(ones, bag, bags)) : NULL;
}

/* The same on a GPU: the sums of a table of ones, by which no index is sorted. */
static tp_tensor *sizes_of(tp_tensor *weight, tp_tensor *indices, tp_tensor *offsets, tp_tensor *bag, int64_t bags,
                           int64_t padding_idx) {
    if (tpi_device(weight).type == TP_CPU) return bag_sizes(bag, bags, (tp_dtype)weight->dtype);
    tp_tensor *ones = tpo_full(TP_INTS(weight->shape[0], 1), tp_int(1), (tp_dtype)weight->dtype, tpi_device(weight));
    return ones ? tpi_release_then(ones, tpo_bag_sum(ones, indices, offsets, bag, bags, padding_idx, false)) : NULL;
}

/* The largest row of each bag, column by column; zeros for an empty bag. */
static tp_tensor *bag_max(tp_tensor *rows, tp_tensor *bag, int64_t bags) {
    if (rows->shape[0] == 0) return tpo_segment_sum(rows, bag, bags);
    tpi_temporaries held = {0};
    tp_tensor *indices = tpi_put(&held, tpo_segment_argmax(rows, bag, bags)),
              *values = tpi_put(&held, indices ? tpo_gather(rows, 0, indices, false) : NULL);
    tp_tensor *sizes = tpi_put(&held, values ? bag_sizes(bag, bags, (tp_dtype)rows->dtype) : NULL),
              *full = tpi_put(&held, sizes ? tpo_clamp_max(sizes, tp_operand_int(1)) : NULL);
    return tpi_release_temporaries(&held, full ? tpo_mul(tp_operand_tensor(values), tp_operand_tensor(full)) : NULL);
}

/* What PyTorch asks of the arguments, in its words. */
static bool check_bag_arguments(const tp_tensor *input, const tp_tensor *weight, const tp_tensor *offsets,
                                const char *mode, bool sparse, const tp_tensor *per_sample_weights) {
    bool sums = !strcmp(mode, "sum");
    if (sparse && weight->requires_grad && tp_grad_enabled())
        return tpi_refuse(TP_ERR_MISSING, "argument 'sparse': sparse gradients are not available");
    if (!sums && strcmp(mode, "mean") && strcmp(mode, "max"))
        return tpi_refuse(TP_ERR_VALUE, "argument 'mode': mode has to be one of sum, mean or max, but got '%s'", mode);
    if (per_sample_weights && !sums)
        return tpi_refuse(TP_ERR_MISSING,
                          "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                          "mode='sum' (got mode='%s')",
                          mode);
    if (per_sample_weights && per_sample_weights->dtype != weight->dtype)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'per_sample_weights': expected per_sample_weights (%s) to have the same type as weight (%s)",
            tp_dtype_word((tp_dtype)per_sample_weights->dtype), tp_dtype_word((tp_dtype)weight->dtype));
    if (per_sample_weights && !tpi_same_shape(per_sample_weights, input))
        return tpi_refuse(TP_ERR_VALUE,
                          "embedding_bag: If per_sample_weights (of shape %s) is not None, then it must have the same "
                          "shape as the input (%s)",
                          tpi_shape_text(tpi_shape(per_sample_weights)), tpi_shape_text(tpi_shape(input)));
    if (input->ndim != 1 && input->ndim != 2)
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'input': input has to be 1D or 2D Tensor, but got Tensor of dimension %d",
                          input->ndim);
    if ((input->ndim == 2) != !offsets)
        return tpi_refuse(TP_ERR_VALUE, input->ndim == 2 ? "if input is 2D, then offsets has to be None, as input is "
                                                           "treated is a mini-batch of fixed length sequences"
                                                         : "offsets has to be a 1D Tensor but got None");
    if (offsets && offsets->ndim != 1)
        return tpi_refuse(TP_ERR_VALUE, "offsets has to be a 1D Tensor but got Tensor of dimension %d", offsets->ndim);
    if (weight->ndim != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "weight has to be a 2D Tensor, but got Tensor of dimension %d", weight->ndim);
    return true;
}

/* The start of each bag where every row of the input is one. */
static tp_tensor *row_offsets(const tp_tensor *input) {
    bool empty = !input->shape[1];
    return tpo_arange_start_step(tp_int(0), tp_int(empty ? input->shape[0] : input->numel),
                                 tp_int(empty ? 1 : input->shape[1]), TP_INT64, tpi_device(input));
}

/* The rows that the indices name, each times its weight. The products of 16-bit numbers are not rounded: they are
 * summed first. */
static tp_tensor *weighted_rows(tpi_temporaries *held, tp_tensor *weight, tp_tensor *flat, int64_t padding_idx,
                                bool scale_grad_by_freq, tp_tensor *per_sample_weights) {
    if (!tpi_check_bag_indices(flat, weight->shape[0])) return NULL;
    tp_tensor *rows = tpi_put(held, tpo_embedding_rows(weight, flat, padding_idx, scale_grad_by_freq));
    if (!rows || !per_sample_weights) return rows;
    const bool narrow = weight->dtype == TP_FLOAT16 || weight->dtype == TP_BFLOAT16;
    tp_tensor *column = tpi_put(held, tpo_reshape(per_sample_weights, TP_INTS(-1, 1)));
    if (column && narrow) column = tpi_put(held, tpo_to_dtype(column, TP_FLOAT32));
    return column ? tpi_put(held, tpo_mul(tp_operand_tensor(rows), tp_operand_tensor(column))) : NULL;
}

/* One operator sums bags without a table of their rows, where it has the dtype. */
static bool sums_at_once(const tp_tensor *weight) {
    return weight->dtype == TP_FLOAT32 || weight->dtype == TP_FLOAT64 ||
           (tpi_device(weight).type != TP_CPU && tp_dtype_is_floating((tp_dtype)weight->dtype));
}

tp_tensor *tpi_compose_embedding_bag(tp_tensor *input, tp_tensor *weight, tp_tensor *offsets, double max_norm,
                                     double norm_type, bool scale_grad_by_freq, const char *mode, bool sparse,
                                     tp_tensor *per_sample_weights, bool include_last_offset, int64_t padding_idx) {
    if (weight->dtype == TP_INT64 &&
        tp_dtype_is_floating((tp_dtype)input->dtype)) { /* the order of PyTorch's first versions */
        tp_tensor *table = input;
        input = weight;
        weight = table;
    }
    if (!check_bag_arguments(input, weight, offsets, mode, sparse, per_sample_weights)) return NULL;
    if (!read_padding(&padding_idx, weight, true)) return NULL;
    if (max_norm == max_norm && !renorm(weight, input, max_norm, norm_type)) return NULL;
    tpi_temporaries held = {0};
    bool mean = !strcmp(mode, "mean"), max = !strcmp(mode, "max");
    int64_t bags = offsets ? offsets->numel - include_last_offset : input->shape[0];
    if (!offsets) offsets = tpi_put(&held, row_offsets(input));
    tp_tensor *flat = tpi_put(&held, tpo_reshape(input, TP_INTS(-1)));
    tp_tensor *bag =
        tpi_put(&held, flat && offsets ? tpo_bag_of(flat, offsets, include_last_offset && input->ndim == 1, padding_idx)
                                       : NULL);
    if (!bag) return tpi_release_temporaries(&held, NULL);
    tp_tensor *sum;
    if (!max && !per_sample_weights && sums_at_once(weight)) {
        sum = tpi_put(&held, tpo_bag_sum(weight, flat, offsets, bag, bags, padding_idx, scale_grad_by_freq));
    } else {
        tp_tensor *rows = weighted_rows(&held, weight, flat, padding_idx, scale_grad_by_freq, per_sample_weights);
        if (max) return tpi_release_temporaries(&held, rows ? bag_max(rows, bag, bags) : NULL);
        sum = rows ? tpi_put(&held, tpo_segment_sum(rows, bag, bags)) : NULL;
        if (sum && sum->dtype != weight->dtype) sum = tpi_put(&held, tpo_to_dtype(sum, (tp_dtype)weight->dtype));
    }
    if (!sum) return tpi_release_temporaries(&held, NULL);
    if (!mean) return tpi_release_temporaries(&held, tpi_retain(sum));
    tp_tensor *sizes = tpi_put(&held, sizes_of(weight, flat, offsets, bag, bags, padding_idx)),
              *some = tpi_put(&held, sizes ? tpo_clamp_min(sizes, tp_operand_int(1)) : NULL);
    return tpi_release_temporaries(&held, some ? tpo_div(tp_operand_tensor(sum), tp_operand_tensor(some)) : NULL);
}
