/* Words of the language on tensors, which say what a tensor is or make one from plain values; and those that ask the
 * library itself. */
#include "base/error.h"
#include "base/memory.h"
#include "io/script/program.h"
#include "ops/native.h"
#include <math.h>
#include <stdlib.h>
#include <taper/autograd.h>
#include <taper/device.h>
#include <taper/random.h>
#include <taper/sequence.h>
#include "tpi_ops.h"

/* ---- dtypes ---- */

static const tp_dtype dtypes[] = {TP_UINT8,           TP_INT8,
                                  TP_INT16,           TP_INT32,
                                  TP_INT64,           TP_FLOAT16,
                                  TP_FLOAT32,         TP_FLOAT64,
                                  TP_COMPLEX32,       TP_COMPLEX64,
                                  TP_COMPLEX128,      TP_BOOL,
                                  TP_QINT8,           TP_QUINT8,
                                  TP_QINT32,          TP_BFLOAT16,
                                  TP_QUINT4X2,        TP_QUINT2X4,
                                  TP_BITS1X8,         TP_BITS2X4,
                                  TP_BITS4X2,         TP_BITS8,
                                  TP_BITS16,          TP_FLOAT8_E5M2,
                                  TP_FLOAT8_E4M3FN,   TP_FLOAT8_E5M2FNUZ,
                                  TP_FLOAT8_E4M3FNUZ, TP_UINT16,
                                  TP_UINT32,          TP_UINT64};

tp_dtype tpi_dtype_of_number(int64_t number) {
    return number >= 0 && number < (int64_t)(sizeof dtypes / sizeof *dtypes) ? dtypes[number] : TP_NO_DTYPE;
}
int64_t tpi_number_of_dtype(tp_dtype dtype) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i] == dtype) return (int64_t)i;
    return -1;
}

/* ---- What a tensor is ---- */

static tp_tensor *self(const tpi_script_call *c) {
    return c->n && c->args[0].kind == TP_IVALUE_TENSOR ? c->args[0].as.tensor : NULL;
}

static tpi_item ints(tpi_script_call *c, tp_ints v) {
    tpi_item list = tpi_item_box(&c->run->program->heap, TP_IVALUE_LIST, v.n);
    for (int64_t i = 0; list.kind && i < v.n; i++) list.as.box->items[i] = tpi_item_int(v.v[i]);
    return list;
}

static tpi_done size_or_stride(tpi_script_call *c, tp_ints all, int64_t (*one)(const tp_tensor *, int64_t)) {
    const tpi_item *dim = tpi_script_argument(c, 1, "dim");
    if (!dim) return tpi_script_return(c, ints(c, all));
    if (!tpi_item_is_int(dim)) return TPI_OTHER;
    int64_t n = one(self(c), dim->as.number.as.i);
    return tp_ok() ? tpi_script_return(c, tpi_item_int(n)) : TPI_FAILED_WORD;
}
static tpi_done w_size(tpi_script_call *c) {
    return self(c) ? size_or_stride(c, tp_shape(self(c)), tp_size) : TPI_OTHER;
}
static tpi_done w_stride(tpi_script_call *c) {
    return self(c) ? size_or_stride(c, tp_strides(self(c)), tp_stride) : TPI_OTHER;
}
static tpi_done w_dim(tpi_script_call *c) {
    return self(c) ? tpi_script_return(c, tpi_item_int(self(c)->ndim)) : TPI_OTHER;
}
static tpi_done w_numel(tpi_script_call *c) {
    return self(c) ? tpi_script_return(c, tpi_item_int(self(c)->numel)) : TPI_OTHER;
}
static tpi_done w_len(tpi_script_call *c) {
    if (!self(c)) return TPI_OTHER;
    int64_t n = tp_size(self(c), 0);
    return tp_ok() ? tpi_script_return(c, tpi_item_int(n)) : TPI_FAILED_WORD;
}
static tpi_done w_dtype(tpi_script_call *c) {
    return self(c) ? tpi_script_return(c, tpi_item_int(tpi_number_of_dtype(tp_dtype_of(self(c))))) : TPI_OTHER;
}
static tpi_done w_device_of(tpi_script_call *c) {
    return self(c) ? tpi_script_return(c, tpi_item_device(tp_device_of(self(c)))) : TPI_OTHER;
}
static tpi_done w_item(tpi_script_call *c) {
    if (!self(c)) return TPI_OTHER;
    tp_scalar s = tp_item_scalar(self(c));
    return tp_ok() ? tpi_script_return(c, tpi_item_number(s)) : TPI_FAILED_WORD;
}

static tpi_done yes(tpi_script_call *c, bool answer) {
    return self(c) ? tpi_script_return(c, tpi_item_bool(answer)) : TPI_OTHER;
}
static tpi_done w_is_floating(tpi_script_call *c) {
    return yes(c, self(c) && tp_dtype_is_floating(tp_dtype_of(self(c))));
}
static tpi_done w_is_complex(tpi_script_call *c) {
    return yes(c, self(c) && tp_dtype_is_complex(tp_dtype_of(self(c))));
}
static tpi_done w_is_cuda(tpi_script_call *c) { return yes(c, self(c) && tp_device_of(self(c)).type == TP_CUDA); }
static tpi_done w_is_cpu(tpi_script_call *c) { return yes(c, self(c) && tp_device_of(self(c)).type == TP_CPU); }
static tpi_done w_is_xpu(tpi_script_call *c) { return yes(c, self(c) && tp_device_of(self(c)).type == TP_XPU); }
static tpi_done w_is_meta(tpi_script_call *c) { return yes(c, self(c) && tp_device_of(self(c)).type == TP_META); }
static tpi_done w_never(tpi_script_call *c) {
    return yes(c, false);
} /* kinds of tensors that programs cannot be given */
static tpi_done w_requires_grad(tpi_script_call *c) { return yes(c, self(c) && tp_requires_grad(self(c))); }
static tpi_done w_is_leaf(tpi_script_call *c) { return yes(c, self(c) && tp_is_leaf(self(c))); }
static tpi_done w_is_contiguous(tpi_script_call *c) { return yes(c, self(c) && tp_is_contiguous(self(c))); }
static tpi_done w_is_signed(tpi_script_call *c) {
    if (!self(c)) return TPI_OTHER;
    tp_dtype d = tp_dtype_of(self(c));
    return yes(c, d != TP_BOOL && d != TP_UINT8 && d != TP_UINT16 && d != TP_UINT32 && d != TP_UINT64);
}
static tpi_done w_layout(tpi_script_call *c) { return self(c) ? tpi_script_return(c, tpi_item_int(0)) : TPI_OTHER; }
static tpi_done w_offset(tpi_script_call *c) {
    return self(c) ? tpi_script_return(c, tpi_item_int(tp_storage_offset(self(c)))) : TPI_OTHER;
}
static tpi_done w_is_nonzero(tpi_script_call *c) {
    bool truth = false;
    if (!self(c)) return TPI_OTHER;
    return tpi_is_true(&c->args[0], &truth) ? tpi_script_return(c, tpi_item_bool(truth)) : TPI_FAILED_WORD;
}

/* ---- The tape ---- */

static tpi_done w_detach(tpi_script_call *c) {
    return self(c) ? tpi_script_return(c, tpi_item_tensor(tp_detach(self(c)))) : TPI_OTHER;
}
static tpi_done w_detach_(tpi_script_call *c) {
    if (!self(c)) return TPI_OTHER;
    return tp_detach_(self(c)) ? tpi_script_return(c, tpi_item_retain(c->args[0])) : TPI_FAILED_WORD;
}
static tpi_done w_data(tpi_script_call *c) {
    return self(c) ? tpi_script_return(c, tpi_item_tensor(tp_data_alias(self(c)))) : TPI_OTHER;
}
static tpi_done w_grad(tpi_script_call *c) {
    if (!self(c)) return TPI_OTHER;
    tp_tensor *grad = tp_grad(self(c));
    return tpi_script_return(c, grad ? tpi_item_tensor(tpi_retain(grad)) : tpi_item_none());
}
static tpi_done w_requires_grad_(tpi_script_call *c) {
    if (!self(c)) return TPI_OTHER;
    const tpi_item *on = tpi_script_argument(c, 1, "requires_grad");
    bool truth = true;
    if (on && !tpi_is_true(on, &truth)) return TPI_FAILED_WORD;
    return tp_set_requires_grad(self(c), truth) ? tpi_script_return(c, tpi_item_retain(c->args[0])) : TPI_FAILED_WORD;
}
static tpi_done w_is_grad_enabled(tpi_script_call *c) { return tpi_script_return(c, tpi_item_bool(tp_grad_enabled())); }
static tpi_done w_set_grad_enabled(tpi_script_call *c) {
    bool on = false;
    if (c->n != 1) return TPI_OTHER;
    if (!tpi_is_true(&c->args[0], &on)) return TPI_FAILED_WORD;
    tp_set_grad_enabled(on);
    return tpi_script_return(c, tpi_item_none());
}

/* ---- Tensors from plain values ---- */

enum { DEEPEST_LIST = 64 };

static bool list_shape(const tpi_item *v, int64_t *shape, int *ndim, tp_dtype *dtype) {
    while (v->kind == TP_IVALUE_LIST || v->kind == TP_IVALUE_TUPLE) {
        if (*ndim == DEEPEST_LIST) return tpi_refuse(TP_ERR_VALUE, "tensor: its list is nested too deep");
        shape[(*ndim)++] = v->as.box->n;
        if (!v->as.box->n) return true;
        v = &v->as.box->items[0];
    }
    bool tensor = v->kind == TP_IVALUE_TENSOR;
    if (!tensor && v->kind != TP_IVALUE_NUMBER)
        return tpi_refuse(TP_ERR_TYPE, "tensor: expected numbers, got %s", tpi_item_kind_name(v));
    if (tensor)
        *dtype = tp_dtype_of(v->as.tensor);
    else if (tpi_item_is_int(v))
        *dtype = TP_INT64;
    else if (tpi_item_is_bool(v))
        *dtype = TP_BOOL;
    return true;
}

/* The numbers of a list in order, as scalars. */
static bool fill(const tpi_item *v, const int64_t *shape, int ndim, tp_scalar **at) {
    if (!ndim) {
        bool tensor = v->kind == TP_IVALUE_TENSOR;
        if (!tensor && v->kind != TP_IVALUE_NUMBER) return tpi_refuse(TP_ERR_VALUE, "tensor: lists of different depth");
        *(*at)++ = tensor ? tp_item_scalar(v->as.tensor) : v->as.number;
        return tp_ok();
    }
    bool list = v->kind == TP_IVALUE_LIST || v->kind == TP_IVALUE_TUPLE;
    if (!list || v->as.box->n != shape[0])
        return tpi_refuse(TP_ERR_VALUE, "tensor: expected lists of %lld items", (long long)shape[0]);
    for (int64_t i = 0; i < shape[0]; i++)
        if (!fill(&v->as.box->items[i], shape + 1, ndim - 1, at)) return false;
    return true;
}

static tp_tensor *tensor_of_scalars(const tp_scalar *values, tp_ints shape, int64_t n, tp_dtype dtype) {
    bool floats = tp_dtype_is_floating(dtype), complex = tp_dtype_is_complex(dtype);
    size_t item = complex ? 16 : 8;
    char *data = tpi_malloc((size_t)n * item + 1);
    if (!data) return NULL;
    for (int64_t i = 0; i < n; i++) {
        if (complex) {
            double *z = (double *)data + 2 * i;
            bool both = values[i].kind == TP_SCALAR_COMPLEX;
            z[0] = both ? values[i].as.d[0] : tp_scalar_to_double(values[i]);
            z[1] = both ? values[i].as.d[1] : 0;
        } else if (floats) {
            ((double *)data)[i] = tp_scalar_to_double(values[i]);
        } else {
            ((int64_t *)data)[i] = dtype == TP_BOOL ? tp_scalar_to_bool(values[i]) : tp_scalar_to_int(values[i]);
        }
    }
    tp_dtype wide = complex ? TP_COMPLEX128 : floats ? TP_FLOAT64 : TP_INT64;
    tp_tensor *t = tp_from_data(data, wide, shape);
    tpi_mfree(data);
    return t && wide != dtype ? tpi_release_then(t, tpo_to_dtype(t, dtype)) : t;
}

tpi_item tpi_tensor_of_items(const tpi_item *v, tp_dtype dtype, tp_device device, bool requires_grad) {
    int64_t shape[DEEPEST_LIST], n = 1;
    int ndim = 0;
    tp_dtype own = tp_default_dtype();
    if (tpi_item_is(v, TP_SCALAR_COMPLEX)) own = own == TP_FLOAT64 ? TP_COMPLEX128 : TP_COMPLEX64;
    if (!list_shape(v, shape, &ndim, &own)) return tpi_item_nothing();
    for (int i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(n, shape[i], &n)) n = -1;
    if (n < 0 || n > (int64_t)1 << 40) {
        tpi_fail(TP_ERR_VALUE, "tensor: its list is too long");
        return tpi_item_nothing();
    }
    tp_scalar *values = tpi_malloc((size_t)n * sizeof *values + 1), *at = values;
    tp_tensor *t = NULL;
    if (values && (!n || fill(v, shape, ndim, &at)))
        t = tensor_of_scalars(values, tp_ints_view(shape, ndim), n, dtype ? dtype : own);
    tpi_mfree(values);
    if (t && device.type && device.type != TP_CPU) t = tpi_release_then(t, tpo_to_device(t, device));
    if (t && requires_grad && !tp_set_requires_grad(t, true)) {
        tp_release(t);
        t = NULL;
    }
    return tpi_item_tensor(t);
}

static tpi_done w_tensor(tpi_script_call *c) {
    if (!c->n) return TPI_OTHER;
    const tpi_item *dtype = tpi_script_argument(c, 1, "dtype"), *device = tpi_script_argument(c, 2, "device");
    const tpi_item *grad = tpi_script_argument(c, 3, "requires_grad");
    tp_dtype d = dtype && tpi_item_is_int(dtype) ? tpi_dtype_of_number(dtype->as.number.as.i) : TP_NO_DTYPE;
    tp_device where = device && device->kind == TP_IVALUE_DEVICE ? device->as.device : (tp_device){0};
    bool wanted = grad && tpi_item_is_bool(grad) && grad->as.number.as.i;
    if (self(c)) { /* a copy with another dtype or on another device */
        tp_tensor *t = tpo_to(self(c), d, where, strcmp(c->name, "as_tensor") != 0, TP_PRESERVE, false);
        return tpi_script_return(c, tpi_item_tensor(t));
    }
    return tpi_script_return(c, tpi_tensor_of_items(&c->args[0], d, where, wanted));
}

static tpi_done w_num_to_tensor(tpi_script_call *c) {
    if (c->n != 1 || c->args[0].kind != TP_IVALUE_NUMBER) return TPI_OTHER;
    bool floating = tpi_item_is_float(&c->args[0]);
    return tpi_script_return(
        c, tpi_item_tensor(tp_scalar_tensor_of(c->args[0].as.number, floating ? TP_FLOAT64 : TP_NO_DTYPE)));
}

/* A tensor's elements as lists in lists. */
static tpi_item nested(tpi_script_call *c, tp_tensor *t) {
    if (!t->ndim) {
        tp_scalar s = tp_item_scalar(t);
        return tp_ok() ? tpi_item_number(s) : tpi_item_nothing();
    }
    tpi_item v = tpi_item_box(&c->run->program->heap, TP_IVALUE_LIST, t->shape[0]);
    for (int64_t i = 0; v.kind && i < v.as.box->n; i++) {
        tp_tensor *row = tpo_select(t, 0, i);
        v.as.box->items[i] = row ? nested(c, row) : tpi_item_nothing();
        tp_release(row);
        if (v.as.box->items[i].kind) continue;
        tpi_item_release(v);
        return tpi_item_nothing();
    }
    return v;
}
static tpi_done w_tolist(tpi_script_call *c) { return self(c) ? tpi_script_return(c, nested(c, self(c))) : TPI_OTHER; }

/* ---- Packed sequences ---- */

static tpi_done return_pair(tpi_script_call *c, tp_tensor *first, tp_tensor *second) {
    tpi_item both = first && second ? tpi_item_box(&c->run->program->heap, TP_IVALUE_TUPLE, 2) : tpi_item_nothing();
    if (!both.kind) {
        tp_release(first);
        tp_release(second);
        return TPI_FAILED_WORD;
    }
    both.as.box->items[0] = tpi_item_tensor(first);
    both.as.box->items[1] = tpi_item_tensor(second);
    return tpi_script_return(c, both);
}

static bool are_tensors(const tpi_script_call *c) {
    return c->n > 1 && c->args[0].kind == TP_IVALUE_TENSOR && c->args[1].kind == TP_IVALUE_TENSOR;
}

static bool is_first(const tpi_script_call *c) {
    const tpi_item *batch_first = tpi_script_argument(c, 2, "batch_first");
    bool on = false;
    return batch_first && tpi_is_true(batch_first, &on) && on;
}

static tpi_done w_pack_padded(tpi_script_call *c) {
    if (!are_tensors(c)) return TPI_OTHER;
    tp_packed p = tp_pack_padded_sequence(c->args[0].as.tensor, c->args[1].as.tensor, is_first(c), true);
    tp_tensor *data = tp_retain(p.data), *sizes = tp_retain(p.batch_sizes);
    tp_packed_release(p);
    return return_pair(c, data, sizes);
}

static tpi_done w_pad_packed(tpi_script_call *c) {
    const tpi_item *padding = tpi_script_argument(c, 3, "padding_value"),
                   *total = tpi_script_argument(c, 4, "total_length");
    if (!are_tensors(c) || (padding && padding->kind != TP_IVALUE_NUMBER)) return TPI_OTHER;
    const tp_packed p = {.data = c->args[0].as.tensor, .batch_sizes = c->args[1].as.tensor};
    tp_tensor *lengths = NULL;
    tp_tensor *padded = tp_pad_packed_sequence(
        p, is_first(c), padding ? tp_scalar_to_double(padding->as.number) : 0,
        total && tpi_item_is_int(total) && total->as.number.as.i >= 0 ? total->as.number.as.i : TP_NONE, &lengths);
    return return_pair(c, padded, lengths);
}

static tpi_done w_broadcast_shapes(tpi_script_call *c) {
    int64_t shape[TP_MAX_DIMS];
    int ndim = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const tpi_box *b = c->args[i].kind == TP_IVALUE_LIST ? c->args[i].as.box : NULL;
        if (!b || b->n > TP_MAX_DIMS) return TPI_OTHER;
        if (b->n > ndim) ndim = (int)b->n;
    }
    for (int k = 0; k < ndim; k++) shape[k] = 1;
    for (int64_t i = 0; i < c->n; i++) {
        const tpi_box *b = c->args[i].as.box;
        for (int64_t k = 0; k < b->n; k++) {
            int64_t size = b->items[k].as.number.as.i, *to = &shape[ndim - b->n + k];
            if (!tpi_item_is_int(&b->items[k])) return TPI_OTHER;
            if (size != 1 && *to != 1 && size != *to) {
                tpi_fail(TP_ERR_RUNTIME, "broadcast_shapes: %lld and %lld do not fit", (long long)*to, (long long)size);
                return TPI_FAILED_WORD;
            }
            if (size != 1) *to = size;
        }
    }
    return tpi_script_return(c, ints(c, tp_ints_view(shape, ndim)));
}

/* ---- Devices, errors, and what asks the library ---- */

tpi_done tpi_script_device(tpi_script_call *c) {
    if (c->n == 1 && c->args[0].kind == TP_IVALUE_DEVICE) return tpi_script_return(c, c->args[0]);
    if (c->n < 1 || c->args[0].kind != TP_IVALUE_TEXT) return TPI_OTHER;
    const char *text = c->args[0].as.box->text, *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    for (int type = TP_CPU; type < TP_DEVICE_TYPES; type++) {
        const char *name = tp_device_type_name((tp_device_type)type);
        if (strlen(name) != n || strncmp(name, text, n) != 0) continue;
        int64_t index = colon ? strtol(colon + 1, NULL, 10) : 0;
        if (c->n > 1 && tpi_item_is_int(&c->args[1])) index = c->args[1].as.number.as.i;
        return tpi_script_return(c, tpi_item_device((tp_device){(int16_t)type, (int16_t)index}));
    }
    tpi_fail(TP_ERR_MISSING, "'%s' is no device that Taper has", text);
    return TPI_FAILED_WORD;
}
static tpi_done w_device_type(tpi_script_call *c) {
    if (c->n != 1 || c->args[0].kind != TP_IVALUE_DEVICE) return TPI_OTHER;
    const char *name = tp_device_type_name((tp_device_type)c->args[0].as.device.type);
    return tpi_script_return(c, tpi_item_text(name, strlen(name)));
}
static tpi_done w_device_index(tpi_script_call *c) {
    if (c->n != 1 || c->args[0].kind != TP_IVALUE_DEVICE) return TPI_OTHER;
    bool host = c->args[0].as.device.type == TP_CPU;
    return tpi_script_return(c, host ? tpi_item_none() : tpi_item_int(c->args[0].as.device.index));
}
static tpi_done w_cpu(tpi_script_call *c) {
    if (!self(c)) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_tensor(tpo_to_device(self(c), (tp_device){TP_CPU, 0})));
}
static tpi_done w_cuda(tpi_script_call *c) {
    if (!self(c)) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_tensor(tpo_to_device(self(c), (tp_device){TP_CUDA, 0})));
}

static tpi_done w_raise(tpi_script_call *c) {
    bool text = c->n && c->args[0].kind == TP_IVALUE_TEXT;
    const char *cls = c->n > 1 && c->args[1].kind == TP_IVALUE_TEXT ? c->args[1].as.box->text : "";
    const char *name = strrchr(cls, '.');
    tpi_fail(TP_ERR_RUNTIME, "%s%s%s", name ? name + 1 : cls, *cls ? ": " : "",
             text ? c->args[0].as.box->text : "an exception");
    return TPI_FAILED_WORD;
}

static tpi_done w_nothing(tpi_script_call *c) { return tpi_script_return(c, tpi_item_none()); }
static tpi_done w_false(tpi_script_call *c) { return tpi_script_return(c, tpi_item_bool(false)); }
static tpi_done w_same(tpi_script_call *c) {
    return c->n ? tpi_script_return(c, tpi_item_retain(c->args[0])) : TPI_OTHER;
}

static tpi_done w_manual_seed(tpi_script_call *c) {
    if (c->n != 1 || !tpi_item_is_int(&c->args[0])) return TPI_OTHER;
    tp_manual_seed((uint64_t)c->args[0].as.number.as.i);
    return tpi_script_return(c, tpi_item_none());
}
static tpi_done w_default_dtype(tpi_script_call *c) {
    return tpi_script_return(c, tpi_item_int(tpi_number_of_dtype(tp_default_dtype())));
}

/* Files of version 3 and before: integers divided by integers stay integers. */
static tpi_done w_div(tpi_script_call *c) {
    if (c->run->program->version >= 4 || c->n != 2 || c->names) return TPI_OTHER;
    tp_operand given[2];
    for (int i = 0; i < 2; i++) {
        const tpi_item *v = &c->args[i];
        bool tensor = v->kind == TP_IVALUE_TENSOR;
        if (!tensor && !tpi_item_is_int(v)) return TPI_OTHER;
        tp_dtype d = tensor ? tp_dtype_of(v->as.tensor) : TP_INT64;
        if (tp_dtype_is_floating(d) || tp_dtype_is_complex(d)) return TPI_OTHER;
        given[i] = tensor ? tp_operand_tensor(v->as.tensor) : tp_operand_scalar(v->as.number);
    }
    if (!given[0].tensor && !given[1].tensor) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_tensor(tpo_div_mode(given[0], given[1], "trunc")));
}

static const tpi_script_word words[] = {
    {"div", w_div},
    {"size", w_size},
    {"sym_size", w_size},
    {"stride", w_stride},
    {"dim", w_dim},
    {"ndimension", w_dim},
    {"prim.ndim", w_dim},
    {"numel", w_numel},
    {"prim.shape", w_size},
    {"len", w_len},
    {"prim.dtype", w_dtype},
    {"prim.device", w_device_of},
    {"item", w_item},
    {"prim.item", w_item},
    {"is_floating_point", w_is_floating},
    {"is_complex", w_is_complex},
    {"is_signed", w_is_signed},
    {"prim.is_cuda", w_is_cuda},
    {"prim.is_cpu", w_is_cpu},
    {"prim.is_xpu", w_is_xpu},
    {"prim.is_meta", w_is_meta},
    {"prim.is_sparse", w_never},
    {"prim.is_sparse_csr", w_never},
    {"prim.is_nested", w_never},
    {"prim.is_quantized", w_never},
    {"prim.is_mkldnn", w_never},
    {"prim.is_mps", w_never},
    {"prim.is_vulkan", w_never},
    {"prim.is_ipu", w_never},
    {"prim.is_maia", w_never},
    {"prim.is_mtia", w_never},
    {"prim.is_xla", w_never},
    {"is_inference", w_never},
    {"prim.requires_grad", w_requires_grad},
    {"requires_grad", w_requires_grad},
    {"is_leaf", w_is_leaf},
    {"prim.is_leaf", w_is_leaf},
    {"is_contiguous", w_is_contiguous},
    {"is_nonzero", w_is_nonzero},
    {"prim.layout", w_layout},
    {"storage_offset", w_offset},
    {"detach", w_detach},
    {"detach_", w_detach_},
    {"prim.data", w_data},
    {"data", w_data},
    {"prim.grad", w_grad},
    {"requires_grad_", w_requires_grad_},
    {"is_grad_enabled", w_is_grad_enabled},
    {"set_grad_enabled", w_set_grad_enabled},
    {"tensor", w_tensor},
    {"as_tensor", w_tensor},
    {"prim.NumToTensor", w_num_to_tensor},
    {"prim.tolist", w_tolist},
    {"broadcast_shapes", w_broadcast_shapes},
    {"_pack_padded_sequence", w_pack_padded},
    {"_pad_packed_sequence", w_pad_packed},
    {"device", tpi_script_device},
    {"prim.type", w_device_type},
    {"prim.index", w_device_index},
    {"cpu", w_cpu},
    {"cuda", w_cuda},
    {"prim.RaiseException", w_raise},
    {"warn", w_nothing},
    {"word.print", w_nothing},
    {"prim.Print", w_nothing},
    {"is_autocast_enabled", w_false},
    {"is_autocast_cpu_enabled", w_false},
    {"is_scripting", w_false},
    {"is_tracing", w_false},
    {"manual_seed", w_manual_seed},
    {"get_default_dtype", w_default_dtype},
    {"prim.unchecked_cast", w_same},
    {"prim.unchecked_unwrap_optional", w_same},
    {"_unwrap_optional", w_same},
    {"lift_fresh", w_same},
    {"pin_memory", w_same},
};

const tpi_script_word *tpi_script_tensor_word(const char *name) {
    return tpi_script_word_in(words, sizeof words / sizeof *words, name);
}
