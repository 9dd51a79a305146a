/* Numbers in eight bits, and linear and recurrent layers that keep their weights so. The formulas are those of
 * python/taper/_quantized.py and taper.ao.nn.quantized.dynamic, over the same operators. */
#include "autograd/glue.h"
#include "base/memory.h"
#include "nn/layer.h"
#include "tpi_ops.h"
#include "tpi_layers.h"
#include <math.h>
#include <stdio.h>
#include <taper/ops.h>
#include <taper/quantized.h>

static const double least_scale = 1.1920928955078125e-07; /* float32's epsilon */

bool tp_choose_qparams(double least, double most, int64_t lowest, int64_t highest, double *scale, int64_t *zero_point) {
    if (!TPI_GIVEN(scale, "a place for the scale") || !TPI_GIVEN(zero_point, "a place for the zero point"))
        return false;
    if (!isfinite(least) || !isfinite(most) || least > most)
        return tpi_refuse(TP_ERR_VALUE,
                          "tp_choose_qparams: argument 'most': expected finite numbers that rise, got %g and %g", least,
                          most);
    if (lowest >= highest)
        return tpi_refuse(TP_ERR_VALUE, "tp_choose_qparams: argument 'highest': expected more than %lld, got %lld",
                          (long long)lowest, (long long)highest);
    least = fmin(least, 0);
    most = fmax(most, 0);
    *scale = fmax((most - least) / ((double)highest - (double)lowest), least_scale);
    double zero = nearbyint((double)lowest - least / *scale);
    *zero_point = (int64_t)fmin(fmax(zero, (double)lowest), (double)highest);
    return true;
}

static bool is_scale(double scale, const char *function) {
    return (isfinite(scale) && scale > 0) ||
           tpi_refuse(TP_ERR_VALUE, "%s: argument 'scale': expected a number above 0, got %g", function, scale);
}

/* The nearest whole numbers as floats. */
static tp_tensor *numbers_of(tp_tensor *x, double scale, int64_t zero_point, double lowest, double highest) {
    tp_tensor *rounded = tp_add(tp_round(tp_div(x, scale)), zero_point);
    return tp_clamp(rounded, .min = TP_SCALAR(lowest), .max = TP_SCALAR(highest));
}

tp_tensor *tp_quantize_per_tensor(tp_tensor *self, double scale, int64_t zero_point, tp_dtype dtype) {
    double lowest = dtype == TP_INT8 ? -128 : dtype == TP_UINT8 ? 0 : -2147483648.0;
    double highest = dtype == TP_INT8 ? 127 : dtype == TP_UINT8 ? 255 : 2147483647.0;
    if (!tpi_is_tensor(self, "self") || !is_scale(scale, __func__)) return NULL;
    if (dtype != TP_INT8 && dtype != TP_UINT8 && dtype != TP_INT32)
        return tpi_fail(TP_ERR_TYPE, "tp_quantize_per_tensor: argument 'dtype': expected int8, uint8 or int32, got %s",
                        tp_dtype_name(dtype) ? tp_dtype_name(dtype) : "none");
    tp_tensor *made = NULL;
    TP_SCOPE
        made = tp_keep(tp_to(numbers_of(tp_detach(self), scale, zero_point, lowest, highest), .dtype = dtype));
    return made;
}

tp_tensor *tp_dequantize(tp_tensor *self, double scale, int64_t zero_point) {
    if (!tpi_is_tensor(self, "self") || !is_scale(scale, __func__)) return NULL;
    tp_tensor *made = NULL;
    TP_SCOPE
        made = tp_keep(tp_mul(tp_sub(tp_to(self, .dtype = TP_FLOAT32), zero_point), scale));
    return made;
}

tp_tensor *tp_fake_quantize_per_tensor_affine(tp_tensor *self, double scale, int64_t zero_point, int64_t quant_min,
                                              int64_t quant_max) {
    if (!tpi_is_tensor(self, "self") || !is_scale(scale, __func__)) return NULL;
    if (quant_min > quant_max)
        return tpi_fail(TP_ERR_VALUE,
                        "tp_fake_quantize_per_tensor_affine: argument 'quant_max': expected %lld or more, got %lld",
                        (long long)quant_min, (long long)quant_max);
    tp_tensor *made = NULL;
    TP_SCOPE {
        tp_tensor *x = tp_detach(self);
        tp_tensor *rounded = tp_add(tp_round(tp_div(x, scale)), zero_point);
        tp_tensor *inside = tp_logical_and(tp_ge(rounded, quant_min), tp_le(rounded, quant_max));
        tp_tensor *numbers = tp_clamp(rounded, .min = TP_SCALAR(quant_min), .max = TP_SCALAR(quant_max));
        tp_tensor *value = tp_mul(tp_sub(numbers, zero_point), scale);
        /* The value, and beside it a zero whose gradient is the input's where nothing was cut off. */
        tp_tensor *path = tp_mul(tp_sub(self, x), inside);
        made = tp_keep(tp_requires_grad(self) ? tp_add(value, path) : value);
    }
    return made;
}

/* ---- A linear layer ---- */

/* An input as whole numbers of seven bits, less the zero point, as PyTorch rounds it where not every processor has
 * products of eight. */
static tp_tensor *input_numbers(tp_tensor *x, double *scale) {
    int64_t zero_point;
    double least = tp_item(tp_min(x)), most = tp_item(tp_max(x));
    if (!tp_ok() || !tp_choose_qparams(least, most, 0, 127, scale, &zero_point)) return NULL;
    return tp_sub(numbers_of(x, *scale, zero_point, 0, 127), zero_point);
}

static tp_tensor *product_of(tp_module *m, tp_tensor *x) {
    tp_tensor *weight = tp_module_tensor(m, "weight"), *scale = tp_module_tensor(m, "scale");
    tp_tensor *bias = tpi_find_module_slot(m, "bias")->tensor;
    double by = 1;
    if (!x || !weight || !scale) return NULL;
    if (x->ndim == 0 || x->shape[x->ndim - 1] != weight->shape[1])
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected %lld features, got shape %s",
                        (long long)weight->shape[1], tpi_shape_text(tpi_shape(x)));
    tp_tensor *numbers = input_numbers(x, &by);
    if (!numbers) return NULL;
    tp_tensor *rows = tp_reshape(tp_to(numbers, .dtype = TP_INT8), TP_INTS(-1, tp_size(weight, 1)));
    tp_tensor *sums = rows ? tpi_to_scope(tpo_byte_product(rows, tp_transpose(weight, 0, 1))) : NULL;
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[x->ndim - 1] = tp_size(weight, 0);
    tp_tensor *product = tp_mul(tp_to(sums, .dtype = tp_dtype_of(x)), by * tp_item(scale));
    product = tp_reshape(product, tp_ints_view(shape, x->ndim));
    return bias ? tp_add(product, bias) : product;
}

static bool forward(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    if (nargs != 1 || args[0].kind != TP_K_TENSOR || nresults < 1)
        return tpi_refuse(TP_ERR_TYPE, "DynamicQuantizedLinear: expected one tensor, got %lld values",
                          (long long)nargs);
    tp_tensor *made = NULL;
    TP_SCOPE
        made = tp_retain(product_of(m, tp_detach(args[0].as.tensor)));
    results[0] = tp_value_tensor(made);
    return made != NULL;
}
static const tpi_layer quantized = {.name = "DynamicQuantizedLinear", .call = forward};

/* A weight in eight bits, symmetric about zero, and its scale, as buffers of m. */
static bool hold_weight(tp_module *m, const char *name, const char *scale_name, tp_tensor *weight) {
    tp_tensor *floats = tp_to(tp_detach(weight), .dtype = TP_FLOAT32);
    double scale = fmax(tp_item(tp_max(tp_abs(floats))) / 127.5, least_scale);
    tp_tensor *numbers = tp_ok() ? tp_quantize_per_tensor(floats, scale, 0, TP_INT8) : NULL;
    tp_tensor *kept = tp_full(tp_ints_view(NULL, 0), tp_float(scale), .dtype = TP_FLOAT64);
    return numbers && kept && tp_module_add_buffer(m, name, numbers, true) &&
           tp_module_add_buffer(m, scale_name, kept, true);
}

tp_module *tpi_quantize_linear(const tp_module *linear) {
    tp_module *from = (tp_module *)(uintptr_t)linear, *m = tpi_module_of(&quantized);
    bool fine = m != NULL;
    TP_SCOPE {
        tp_tensor *bias = tpi_find_module_slot(from, "bias")->tensor;
        fine = fine && hold_weight(m, "weight", "scale", tp_module_tensor(from, "weight")) &&
               tp_module_add_buffer(m, "bias", bias ? tp_clone(tp_detach(bias)) : NULL, true);
    }
    if (fine && tp_ok()) return m;
    tp_module_release(m);
    return NULL;
}

tp_module *tp_quantized_linear(const tp_module *linear) {
    if (!TPI_HANDLE_GIVEN(linear, "a module")) return NULL;
    if (!linear->layer || linear->layer->quantize != tpi_quantize_linear)
        return tpi_fail(TP_ERR_TYPE, "tp_quantized_linear: argument 'linear': expected a Linear, got a %s",
                        tp_module_name(linear));
    return tpi_quantize_linear(linear);
}

/* ---- Recurrent layers ---- */
/* The module has the layer's attributes, and for each of its weights a buffer of the same name in int8 and one
 * NAME_scale; biases are kept as they are. Its context is the layer's own table. */

static bool is_scale_of(const tp_module *m, int64_t i) { /* it stands behind its weight */
    return i > 0 && m->slots[i - 1].tensor && tp_dtype_of(m->slots[i - 1].tensor) == TP_INT8;
}

/* The layer with its weights turned back: a module for this call alone, as other threads may call m, too. */
static bool run_recurrent(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    tpi_module_slot *slots = tpi_malloc((size_t)(m->nslots + 1) * sizeof *slots);
    if (!slots) return false;
    tp_module whole = *m;
    whole.layer = m->context;
    whole.slots = slots;
    whole.nslots = 0;
    whole.training = false;
    bool fine = true;
    for (int64_t i = 0; i < m->nslots && fine; i++) {
        if (is_scale_of(m, i)) continue;
        tpi_module_slot *slot = &slots[whole.nslots++];
        *slot = m->slots[i];
        if (slot->tensor && tp_dtype_of(slot->tensor) == TP_INT8) {
            slot->tensor = tp_dequantize(slot->tensor, tp_item(m->slots[i + 1].tensor), 0);
            fine = slot->tensor != NULL;
        }
    }
    fine = fine && whole.layer->call(&whole, nargs, args, nresults, results);
    tpi_mfree(slots);
    return fine;
}
static bool forward_recurrent(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    bool fine = false;
    TP_SCOPE
        fine = run_recurrent(m, nargs, args, nresults, results);
    return fine;
}
static const tpi_layer quantized_lstm = {.name = "DynamicQuantizedLSTM", .call = forward_recurrent};
static const tpi_layer quantized_gru = {.name = "DynamicQuantizedGRU", .call = forward_recurrent};

static tp_module *quantize_recurrent(const tp_module *recurrent, const tpi_layer *form) {
    tp_module *m = tpi_module_of(form);
    if (!m) return NULL;
    m->context = (void *)(uintptr_t)recurrent->layer;
    bool fine = true;
    for (int64_t i = 0; i < recurrent->nattributes && fine; i++)
        fine = tpi_module_set(m, recurrent->attributes[i].name, recurrent->attributes[i].value);
    TP_SCOPE {
        for (int64_t i = 0; i < recurrent->nslots && fine; i++) {
            const tpi_module_slot *slot = &recurrent->slots[i];
            char scale_name[64];
            snprintf(scale_name, sizeof scale_name, "%s_scale", slot->name);
            if (slot->tensor && !strncmp(slot->name, "weight", 6))
                fine = hold_weight(m, slot->name, scale_name, slot->tensor);
            else
                fine =
                    tp_module_add_buffer(m, slot->name, slot->tensor ? tp_clone(tp_detach(slot->tensor)) : NULL, true);
        }
    }
    if (fine && tp_ok()) return m;
    tp_module_release(m);
    return NULL;
}

tp_module *tpi_quantize_lstm(const tp_module *m) { return quantize_recurrent(m, &quantized_lstm); }
tp_module *tpi_quantize_gru(const tp_module *m) { return quantize_recurrent(m, &quantized_gru); }

tp_module *tp_quantized_recurrent(const tp_module *recurrent) {
    if (!TPI_HANDLE_GIVEN(recurrent, "a module")) return NULL;
    const tpi_layer *l = recurrent->layer;
    if (!l || !l->quantize || !(l->facts & TPI_LAYER_WEIGHT_LIST))
        return tpi_fail(TP_ERR_TYPE,
                        "tp_quantized_recurrent: argument 'recurrent': expected an LSTM or a GRU, got a %s",
                        tp_module_name(recurrent));
    return l->quantize(recurrent);
}

int64_t tp_quantize_dynamic(tp_module *m) {
    if (!TPI_HANDLE_GIVEN(m, "a module")) return -1;
    int64_t done = 0;
    for (int64_t i = 0; i < m->nchildren; i++) {
        tp_module *child = m->children[i].module;
        int64_t below = 0;
        if (child->layer && child->layer->quantize) {
            tp_module *made = child->layer->quantize(child);
            if (!made || !tp_module_add(m, m->children[i].name, made)) return -1;
            below = 1;
        } else {
            below = tp_quantize_dynamic(child);
        }
        if (below < 0) return -1;
        done += below;
    }
    return done;
}
