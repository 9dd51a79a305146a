/* Datasets: the caller's own, rows of tensors, parts of others, and fields in other units. A dataset writes an item's
 * fields to the places it is given, which are rows of a batch, so that a batch is made without a copy in between. */
#include "data/dataset.h"
#include "tensor/check_arguments.h"
#include <string.h>
#include <taper/io.h>
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "tensor/tensor.h"

#define given(d) tpi_given(d, __func__, "dataset", "a dataset")

static void dataset_free(tp_dataset *d) {
    if (d->release) d->release(d->context);
    for (int64_t f = 0; f < d->nfields; f++) tpi_mfree(d->shapes[f]);
    tpi_handle_mfree(d);
}

static bool field_set(tp_dataset *d, int64_t f, const tp_field *field) {
    int64_t bytes = tp_dtype_size(field->dtype);
    if (bytes <= 0) return tpi_refuse(TP_ERR_TYPE, "argument 'fields': field %lld has no dtype", (long long)f);
    if (field->shape.n < 0 || field->shape.n >= TP_MAX_DIMS)
        return tpi_refuse(TP_ERR_VALUE, "argument 'fields': field %lld has %lld dimensions", (long long)f,
                          (long long)field->shape.n);
    for (int64_t k = 0; k < field->shape.n; k++)
        if (field->shape.v[k] < 0 || __builtin_mul_overflow(bytes, field->shape.v[k], &bytes))
            return tpi_refuse(TP_ERR_VALUE, "argument 'fields': field %lld has the shape %s", (long long)f,
                              tpi_shape_text(field->shape));
    d->shapes[f] = tpi_malloc(sizeof(int64_t) * (size_t)(field->shape.n + 1));
    if (!d->shapes[f]) return false;
    if (field->shape.n) memcpy(d->shapes[f], field->shape.v, sizeof(int64_t) * (size_t)field->shape.n);
    d->ndims[f] = field->shape.n;
    d->dtypes[f] = field->dtype;
    d->bytes[f] = bytes;
    return true;
}

tp_dataset *tp_dataset_new(int64_t count, int64_t nfields, const tp_field *fields,
                           bool (*read)(void *context, int64_t i, void *const *into), void (*release)(void *context),
                           void *context) {
    if (count < 0) return tpi_fail(TP_ERR_VALUE, "argument 'count': expected 0 or more, got %lld", (long long)count);
    if (nfields < 1 || nfields > TP_MAX_FIELDS)
        return tpi_fail(TP_ERR_VALUE, "argument 'nfields': expected 1 to %d, got %lld", TP_MAX_FIELDS,
                        (long long)nfields);
    if (!TPI_GIVEN(fields, "an array") || !TPI_GIVEN(read, "a function")) return NULL;
    tp_dataset *d = tpi_malloc(sizeof *d);
    if (!d) return NULL;
    *d = (tp_dataset){.count = count, .read = read, .context = context};
    atomic_init(&d->refs, 1);
    tpi_handle_made(d, "dataset");
    for (; d->nfields < nfields; d->nfields++) {
        if (field_set(d, d->nfields, &fields[d->nfields])) continue;
        dataset_free(d);
        return NULL;
    }
    d->release = release;
    return d;
}

tp_dataset *tp_dataset_retain(tp_dataset *d) {
    if (!given(d)) return NULL;
    atomic_fetch_add(&d->refs, 1);
    return d;
}

void tp_dataset_release(tp_dataset *d) {
    if (!TPI_ENDS(d, "dataset", "a dataset")) return;
    if (atomic_fetch_sub(&d->refs, 1) == 1) dataset_free(d);
}

int64_t tp_dataset_count(const tp_dataset *d) { return given(d) ? d->count : -1; }
int64_t tp_dataset_fields(const tp_dataset *d) { return given(d) ? d->nfields : -1; }

static bool has_field(const tp_dataset *d, int64_t f, const char *function) {
    return (f >= 0 && f < d->nfields) ||
           tpi_refuse(TP_ERR_INDEX, "%s: argument 'field': the dataset has %lld fields, got %lld", function,
                      (long long)d->nfields, (long long)f);
}

tp_field tp_dataset_field(const tp_dataset *d, int64_t f) {
    if (!given(d) || !has_field(d, f, __func__)) return (tp_field){TP_NO_DTYPE, tp_no_ints()};
    return (tp_field){d->dtypes[f], tp_ints_view(d->shapes[f], d->ndims[f])};
}

/* ---- Reading ---- */
bool tpi_read_item(const tp_dataset *d, int64_t i, void *const *into) {
    if (i < 0 || i >= d->count)
        return tpi_refuse(TP_ERR_INDEX, "index %lld is out of range for a dataset of %lld items", (long long)i,
                          (long long)d->count);
    return d->read(d->context, i, into) ||
           (!tp_ok() ? false : tpi_refuse(TP_ERR_IO, "item %lld of the dataset could not be read", (long long)i));
}

static bool batch_new(const tp_dataset *d, int64_t n, tp_tensor **fields) {
    for (int64_t f = 0; f < d->nfields; f++) {
        int64_t shape[TP_MAX_DIMS] = {n};
        if (d->ndims[f]) memcpy(shape + 1, d->shapes[f], sizeof(int64_t) * (size_t)d->ndims[f]);
        fields[f] = tpi_empty(tp_ints_view(n < 0 ? shape + 1 : shape, d->ndims[f] + (n >= 0)), d->dtypes[f],
                              (tp_device){TP_CPU, 0});
        if (fields[f]) continue;
        while (f--) tp_release(fields[f]);
        return false;
    }
    return true;
}

static bool fill(const tp_dataset *d, const int64_t *indices, int64_t n, tp_tensor **fields) {
    for (int64_t row = 0; row < n; row++) {
        void *into[TP_MAX_FIELDS];
        for (int64_t f = 0; f < d->nfields; f++) into[f] = fields[f]->data + row * d->bytes[f];
        if (tpi_read_item(d, indices[row], into)) continue;
        for (int64_t f = 0; f < d->nfields; f++) tp_release(fields[f]);
        return false;
    }
    return true;
}

bool tpi_read_batch(const tp_dataset *d, tp_ints indices, tp_tensor **fields) {
    return batch_new(d, indices.n, fields) && fill(d, indices.v, indices.n, fields);
}

bool tp_dataset_get(const tp_dataset *d, int64_t i, tp_tensor **fields) {
    if (!given(d)) return false;
    if (!TPI_GIVEN(fields, "an array")) return false;
    return batch_new(d, -1, fields) && fill(d, &i, 1, fields);
}

/* ---- Rows of tensors ---- */
struct rows {
    int64_t n, bytes[TP_MAX_FIELDS];
    tp_tensor *tensors[TP_MAX_FIELDS]; /* contiguous */
};

static bool rows_read(void *context, int64_t i, void *const *into) {
    const struct rows *r = context;
    for (int64_t f = 0; f < r->n; f++) memcpy(into[f], r->tensors[f]->data + i * r->bytes[f], (size_t)r->bytes[f]);
    return true;
}

static void rows_free(void *context) {
    struct rows *r = context;
    for (int64_t f = 0; f < r->n; f++) tp_release(r->tensors[f]);
    tpi_mfree(r);
}

static bool rows_fit(const tp_tensor *t, const tp_tensor *first, int64_t f) {
    if (!t) return tpi_refuse(TP_ERR_TYPE, "argument 'tensors': tensor %lld is NULL", (long long)f);
    if (tp_device_of(t).type != TP_CPU || !t->ndim)
        return tpi_refuse(TP_ERR_VALUE, "argument 'tensors': tensor %lld has no rows in the CPU's memory",
                          (long long)f);
    return t->shape[0] == first->shape[0] ||
           tpi_refuse(TP_ERR_VALUE,
                      "argument 'tensors': Size mismatch between tensors: tensor 0 has %lld rows, "
                      "tensor %lld has %lld",
                      (long long)first->shape[0], (long long)f, (long long)t->shape[0]);
}

tp_dataset *tp_dataset_of_tensors(tp_tensors tensors) {
    if (!TPI_TENSORS_GIVEN(tensors)) return NULL;
    if (tensors.n < 1 || tensors.n > TP_MAX_FIELDS)
        return tpi_fail(TP_ERR_VALUE, "argument 'tensors': expected 1 to %d tensors, got %lld", TP_MAX_FIELDS,
                        (long long)tensors.n);
    tp_field fields[TP_MAX_FIELDS];
    struct rows *r = tpi_malloc(sizeof *r);
    if (!r) return NULL;
    for (r->n = 0; r->n < tensors.n; r->n++) {
        tp_tensor *t = tensors.v[r->n];
        if (!rows_fit(t, tensors.v[0], r->n) || !(r->tensors[r->n] = t = tpi_contiguous_data(t))) {
            rows_free(r);
            return NULL;
        }
        fields[r->n] = (tp_field){t->dtype, tp_ints_view(t->shape + 1, t->ndim - 1)};
        r->bytes[r->n] = t->shape[0] ? t->numel / t->shape[0] * (int64_t)tpi_itemsize(t) : 0;
    }
    tp_dataset *d = tp_dataset_new(r->tensors[0]->shape[0], r->n, fields, rows_read, rows_free, r);
    if (!d) rows_free(r);
    return d;
}

tp_dataset *tp_dataset_of_file(const char *path, int64_t n, const char *const *names) {
    if (n < 1 || n > TP_MAX_FIELDS)
        return tpi_fail(TP_ERR_VALUE, "argument 'n': expected 1 to %d names, got %lld", TP_MAX_FIELDS, (long long)n);
    if (!TPI_LIST_GIVEN(names, n)) return NULL;
    tp_file *file = tp_open_file(path, &(tp_file_options){.size = (int64_t)sizeof(tp_file_options), .map = true});
    tp_tensor *tensors[TP_MAX_FIELDS] = {0};
    bool ok = file != NULL;
    for (int64_t f = 0; f < n && ok; f++)
        ok = (tensors[f] = tp_own(tp_saved_tensor(tp_saved_get(tp_file_value(file), names[f])))) != NULL;
    tp_dataset *d = ok ? tp_dataset_of_tensors((tp_tensors){tensors, n}) : NULL;
    for (int64_t f = 0; f < n; f++) tp_release(tensors[f]);
    tp_close_file(file);
    return d;
}

/* ---- Some of another's items ---- */
struct part {
    tp_dataset *whole;
    int64_t indices[];
};

static bool part_read(void *context, int64_t i, void *const *into) {
    const struct part *p = context;
    return tpi_read_item(p->whole, p->indices[i], into);
}

static void part_free(void *context) {
    struct part *p = context;
    tp_dataset_release(p->whole);
    tpi_mfree(p);
}

int64_t tpi_fields_of(const tp_dataset *d, tp_field *fields) {
    for (int64_t f = 0; f < d->nfields; f++) fields[f] = tp_dataset_field(d, f);
    return d->nfields;
}

tp_dataset *tp_dataset_subset(tp_dataset *whole, tp_ints indices) {
    if (!given(whole) || !TPI_LIST_GIVEN(indices.v, indices.n)) return NULL;
    for (int64_t k = 0; k < indices.n; k++)
        if (indices.v[k] < 0 || indices.v[k] >= whole->count)
            return tpi_fail(TP_ERR_INDEX, "argument 'indices': index %lld is out of range for a dataset of %lld items",
                            (long long)indices.v[k], (long long)whole->count);
    tp_field fields[TP_MAX_FIELDS];
    struct part *p = tpi_malloc(sizeof *p + sizeof(int64_t) * (size_t)(indices.n ? indices.n : 1));
    if (!p) return NULL;
    p->whole = tp_dataset_retain(whole);
    if (indices.n) memcpy(p->indices, indices.v, sizeof(int64_t) * (size_t)indices.n);
    tp_dataset *d = tp_dataset_new(indices.n, tpi_fields_of(whole, fields), fields, part_read, part_free, p);
    if (!d) part_free(p);
    return d;
}

/* ---- A field in other units ---- */
struct normalised {
    tp_dataset *raw;
    int64_t field, channels, per_channel; /* elements: channels x per_channel */
    float divisor;
    float *mean, *std; /* one per channel */
};

static float element(const char *at, tp_dtype dtype, int64_t i) {
    return dtype == TP_UINT8 ? ((const uint8_t *)at)[i]
                             : (float)tp_scalar_to_double(tpi_load_scalar(at + i * tp_dtype_size(dtype), dtype));
}

static bool normalised_read(void *context, int64_t i, void *const *into) {
    const struct normalised *n = context;
    int64_t bytes = n->raw->bytes[n->field];
    char *raw = tpi_alloc((size_t)bytes);
    if (!raw) return false;
    void *rows[TP_MAX_FIELDS];
    for (int64_t f = 0; f < n->raw->nfields; f++) rows[f] = f == n->field ? raw : into[f];
    bool ok = tpi_read_item(n->raw, i, rows);
    float *out = into[n->field];
    for (int64_t c = 0; ok && c < n->channels; c++)
        for (int64_t k = 0; k < n->per_channel; k++, out++)
            *out =
                (element(raw, n->raw->dtypes[n->field], c * n->per_channel + k) / n->divisor - n->mean[c]) / n->std[c];
    tpi_free(raw, (size_t)bytes);
    return ok;
}

static void normalised_free(void *context) {
    struct normalised *n = context;
    tp_dataset_release(n->raw);
    tpi_mfree(n->mean);
    tpi_mfree(n);
}

static bool numbers_fit(const char *name, tp_floats numbers, int64_t channels) {
    return numbers.n <= 1 || numbers.n == channels ||
           tpi_refuse(TP_ERR_VALUE, "argument '%s': expected 1 number or one for each of %lld channels, got %lld", name,
                      (long long)channels, (long long)numbers.n);
}

tp_dataset *tp_dataset_normalised(tp_dataset *raw, int64_t field, double divisor, tp_floats mean, tp_floats std) {
    if (!given(raw) || !has_field(raw, field, __func__)) return NULL;
    tp_field fields[TP_MAX_FIELDS];
    int64_t nfields = tpi_fields_of(raw, fields), elements = raw->bytes[field] / tp_dtype_size(raw->dtypes[field]);
    int64_t channels = raw->ndims[field] > 1 ? raw->shapes[field][0] : 1;
    if (tp_dtype_is_complex(raw->dtypes[field]))
        return tpi_fail(TP_ERR_TYPE, "argument 'field': complex numbers cannot be normalised");
    if (!numbers_fit("mean", mean, channels) || !numbers_fit("std", std, channels)) return NULL;
    struct normalised *n = tpi_malloc(sizeof *n);
    float *numbers = n ? tpi_malloc(sizeof(float) * 2 * (size_t)(channels + 1)) : NULL;
    if (!numbers) {
        tpi_mfree(n);
        return NULL;
    }
    *n = (struct normalised){.raw = tp_dataset_retain(raw),
                             .field = field,
                             .channels = channels,
                             .per_channel = channels ? elements / channels : 0,
                             .divisor = (float)divisor,
                             .mean = numbers,
                             .std = numbers + channels};
    for (int64_t c = 0; c < channels; c++) {
        n->mean[c] = mean.n ? (float)mean.v[mean.n > 1 ? c : 0] : 0;
        n->std[c] = std.n ? (float)std.v[std.n > 1 ? c : 0] : 1;
    }
    fields[field].dtype = TP_FLOAT32;
    tp_dataset *d = tp_dataset_new(raw->count, nfields, fields, normalised_read, normalised_free, n);
    if (!d) normalised_free(n);
    return d;
}
