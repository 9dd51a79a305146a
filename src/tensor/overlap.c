/* See overlap.h. */
#include "tensor/overlap.h"

/* The bytes between a tensor's first element and the end of its last. */
static void extent(const tp_tensor *t, const char **low, const char **high) {
    int64_t item = (int64_t)tpi_itemsize(t), first = 0, last = 0;
    for (int d = 0; d < t->ndim; d++) {
        int64_t reach = (t->shape[d] - 1) * t->strides[d];
        if (reach < 0)
            first += reach;
        else
            last += reach;
    }
    *low = t->data + first * item;
    *high = t->data + (last + 1) * item;
}

static bool extents_meet(const tp_tensor *a, const tp_tensor *b) {
    const char *a_low, *a_high, *b_low, *b_high;
    extent(a, &a_low, &a_high);
    extent(b, &b_low, &b_high);
    return a_low < b_high && b_low < a_high;
}

static bool same_elements(const tp_tensor *a, const tp_tensor *b) {
    if (a->data != b->data || a->dtype != b->dtype || a->ndim != b->ndim) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d] || (a->shape[d] > 1 && a->strides[d] != b->strides[d])) return false;
    return true;
}

bool tpi_shares_memory(const tp_tensor *a, const tp_tensor *b) {
    return a->numel && b->numel && !same_elements(a, b) && extents_meet(a, b);
}

bool tpi_check_no_shared_elements(const tp_tensor *t) {
    if (!tpi_overlaps_itself(t)) return true;
    return tpi_refuse(
        TP_ERR_RUNTIME,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation.");
}

bool tpi_check_overlap(const tp_tensor *written, const tp_tensor *input, tpi_overlap_rule rule) {
    if (!input || written->storage != input->storage || !written->numel || !input->numel) return true;
    if (rule == TPI_OVERLAP_SAME && (written == input || same_elements(written, input))) return true;
    if (written != input && !(tpi_is_dense(written) && tpi_is_dense(input) && extents_meet(written, input)))
        return true;
    return tpi_refuse(
        TP_ERR_RUNTIME,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
        "location. Please clone() the tensor before performing the operation.");
}
