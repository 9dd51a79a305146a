/* Anomaly mode: nodes remember the forward call that made them, and backward stops at the first NaN with both their names. */
#include <stdio.h>
#include <string.h>
#include <taper/autograd.h>
#include "autograd/tape.h"

atomic_bool tpi_anomaly;

bool tp_anomaly_enabled(void) { return atomic_load(&tpi_anomaly); }
void tp_set_anomaly(bool on) { atomic_store(&tpi_anomaly, on); }

/* ---- The forward call, as text: "mul(float32 [2, 3], float32 [3]" with the bracket left open for more inputs ---- */
enum { NOTE_ROOM = 512 };

bool tpi_note_begin(tpi_node *node) {
    node->note = tpi_malloc(NOTE_ROOM);
    if (!node->note) return false;
    snprintf(node->note, NOTE_ROOM, "%s(", node->cls->op);
    return true;
}

void tpi_note_input(tpi_node *node, const tp_tensor *input) {
    size_t used = strlen(node->note), room = NOTE_ROOM - used;
    const char *comma = node->note[used - 1] == '(' ? "" : ", ";
    if (!input)
        snprintf(node->note + used, room, "%snone", comma);
    else
        snprintf(node->note + used, room, "%s%s %s", comma, tp_dtype_name((tp_dtype)input->dtype), tpi_shape_text(tpi_shape(input)));
}

/* ---- NaN ------------------------------------------------------------------------------------------------------------- */

static bool nan_in_floats(const float *x, int64_t n) {
    bool found = false;
    for (int64_t i = 0; i < n; i++) found |= x[i] != x[i];
    return found;
}

static bool nan_in_doubles(const double *x, int64_t n) {
    bool found = false;
    for (int64_t i = 0; i < n; i++) found |= x[i] != x[i];
    return found;
}

/* Half and bfloat16 by their bits: all of the exponent set, and something of the fraction. */
static bool nan_in_bits(const uint16_t *x, int64_t n, uint16_t exponent) {
    bool found = false;
    for (int64_t i = 0; i < n; i++) found |= (x[i] & 0x7fff) > exponent;
    return found;
}

static bool nan_in(const void *data, tp_dtype dtype, int64_t n) {
    switch (dtype) {
    case TP_FLOAT16: return nan_in_bits(data, n, 0x7c00);
    case TP_BFLOAT16: return nan_in_bits(data, n, 0x7f80);
    case TP_FLOAT32: return nan_in_floats(data, n);
    case TP_FLOAT64: return nan_in_doubles(data, n);
    case TP_COMPLEX64: return nan_in_floats(data, 2 * n);
    case TP_COMPLEX128: return nan_in_doubles(data, 2 * n);
    default: return false;
    }
}

/* 1: there is one; 0: there is none; -1: an error is pending. */
static int has_nan(tp_tensor *t) {
    tp_tensor *host = tpi_device(t).type == TP_CPU ? tpi_contiguous_data(t) : tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    bool ok = host && (tpi_device(t).type == TP_CPU || tpi_copy_data(host, t));
    int found = ok ? nan_in(host->data, (tp_dtype)host->dtype, host->numel) : -1;
    tpi_release(host);
    return found;
}

bool tpi_anomaly_check(const tpi_node *node, const tp_tensor *const *grad_inputs) {
    for (uint32_t i = 0; i < node->nedges; i++) {
        int found = grad_inputs[i] ? has_nan((tp_tensor *)grad_inputs[i]) : 0;
        if (found < 0) return false;
        if (!found) continue;
        const tpi_node *call = node->inner ? node->inner : node;
        return tpi_refuse(TP_ERR_RUNTIME, "Function '%s' returned nan values in its %uth output; the forward call was %s%s, number %llu on the tape",
                          node->cls->name, i, call->note ? call->note : "made before anomaly mode was on: ", call->note ? ")" : call->cls->op,
                          (unsigned long long)call->sequence);
    }
    return true;
}
