/* Datasets made of others: one behind the other, sent through a function, split at random. */
#include "autograd/glue.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "tensor/check_arguments.h"
#include <math.h>
#include <string.h>
#include <taper/autograd.h>
#include <taper/ops.h>

/* ---- one behind the other ---- */
struct row_of {
    int64_t n;
    struct {
        tp_dataset *dataset;
        int64_t end; /* items up to here, those before it included */
    } parts[];
};

static bool row_read(void *context, int64_t i, void *const *into) {
    const struct row_of *r = context;
    int64_t low = 0, high = r->n - 1; /* the first part that ends behind i */
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (r->parts[middle].end > i)
            high = middle;
        else
            low = middle + 1;
    }
    return tpi_read_item(r->parts[low].dataset, i - (low ? r->parts[low - 1].end : 0), into);
}
static void row_free(void *context) {
    struct row_of *r = context;
    for (int64_t i = 0; i < r->n; i++) tp_dataset_release(r->parts[i].dataset);
    tpi_mfree(r);
}

static bool same_fields(const tp_dataset *a, const tp_dataset *b, int64_t which) {
    bool same = a->nfields == b->nfields;
    for (int64_t f = 0; same && f < a->nfields; f++) {
        same = a->dtypes[f] == b->dtypes[f] && a->ndims[f] == b->ndims[f];
        for (int64_t d = 0; same && d < a->ndims[f]; d++) same = a->shapes[f][d] == b->shapes[f][d];
    }
    return same || tpi_refuse(TP_ERR_VALUE,
                              "tp_dataset_concat: argument 'datasets': dataset %lld has other fields than dataset 0",
                              (long long)which);
}

tp_dataset *tp_dataset_concat(int64_t n, tp_dataset *const *datasets) {
    if (!TPI_LIST_GIVEN(datasets, n)) return NULL;
    if (n < 1)
        return tpi_fail(TP_ERR_VALUE, "tp_dataset_concat: argument 'n': datasets should not be an empty iterable");
    for (int64_t i = 0; i < n; i++) {
        if (!datasets[i])
            return tpi_fail(TP_ERR_TYPE, "tp_dataset_concat: argument 'datasets': dataset %lld is NULL", (long long)i);
        if (!same_fields(datasets[0], datasets[i], i)) return NULL;
    }
    struct row_of *r = tpi_malloc(sizeof *r + sizeof r->parts[0] * (size_t)n);
    if (!r) return NULL;
    int64_t end = 0;
    for (r->n = 0; r->n < n; r->n++) {
        end += datasets[r->n]->count;
        r->parts[r->n].dataset = tp_dataset_retain(datasets[r->n]);
        r->parts[r->n].end = end;
    }
    tp_field fields[TP_MAX_FIELDS];
    tp_dataset *d = tp_dataset_new(end, tpi_fields_of(datasets[0], fields), fields, row_read, row_free, r);
    if (!d) row_free(r);
    return d;
}

/* ---- side by side ---- */
struct stack_of {
    int64_t n;
    tp_dataset *parts[];
};

static bool stack_read(void *context, int64_t i, void *const *into) {
    const struct stack_of *stack = context;
    int64_t field = 0;
    for (int64_t k = 0; k < stack->n; k++) {
        if (!tpi_read_item(stack->parts[k], i, into + field)) return false;
        field += stack->parts[k]->nfields;
    }
    return true;
}
static void stack_free(void *context) {
    struct stack_of *stack = context;
    for (int64_t i = 0; i < stack->n; i++) tp_dataset_release(stack->parts[i]);
    tpi_mfree(stack);
}

/* Fills fields with those of all datasets; how many, or -1 and an error. */
static int64_t stacked_fields(int64_t n, tp_dataset *const *datasets, tp_field *fields) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        tp_dataset *d = datasets[i];
        if (!tpi_given(d, "tp_dataset_stack", "datasets", "datasets")) return -1;
        if (d->count != datasets[0]->count) {
            tpi_fail(TP_ERR_VALUE,
                     "tp_dataset_stack: argument 'datasets': Size mismatch between datasets: %lld and %lld",
                     (long long)datasets[0]->count, (long long)d->count);
            return -1;
        }
        if (count + d->nfields > TP_MAX_FIELDS) {
            tpi_fail(TP_ERR_VALUE, "tp_dataset_stack: argument 'datasets': more than %d fields", TP_MAX_FIELDS);
            return -1;
        }
        for (int64_t f = 0; f < d->nfields; f++) fields[count++] = tp_dataset_field(d, f);
    }
    return count;
}

tp_dataset *tp_dataset_stack(int64_t n, tp_dataset *const *datasets) {
    tp_field fields[TP_MAX_FIELDS];
    if (!TPI_LIST_GIVEN(datasets, n)) return NULL;
    if (n < 1) return tpi_fail(TP_ERR_VALUE, "tp_dataset_stack: argument 'n': At least one dataset should be passed");
    int64_t nfields = stacked_fields(n, datasets, fields);
    struct stack_of *stack = nfields > 0 ? tpi_malloc(sizeof *stack + sizeof *stack->parts * (size_t)n) : NULL;
    if (!stack) return NULL;
    stack->n = n;
    for (int64_t i = 0; i < n; i++) stack->parts[i] = tp_dataset_retain(datasets[i]);
    tp_dataset *made = tp_dataset_new(datasets[0]->count, nfields, fields, stack_read, stack_free, stack);
    if (!made) stack_free(stack);
    return made;
}

/* ---- sent through a function ---- */
struct mapped {
    tp_dataset *raw, *self; /* self is borrowed: it says what comes out */
    tp_map_fn map;
    void (*release)(void *context);
    void *context;
};

/* The function's tensors go to the places of the batch, in the dtype and shape that was promised. */
static bool put_out(const struct mapped *m, tp_tensor *const *out, void *const *into) {
    const tp_dataset *d = m->self;
    for (int64_t f = 0; f < d->nfields; f++) {
        const tp_ints shape = tp_ints_view(d->shapes[f], d->ndims[f]);
        if (!out[f])
            return tp_ok() ? tpi_refuse(TP_ERR_VALUE, "tp_dataset_map: the function gave no field %lld", (long long)f)
                           : false;
        tp_tensor *t = tp_contiguous(tp_resolve_neg(tp_resolve_conj(out[f])));
        if (!t) return false;
        if ((tp_dtype)t->dtype != d->dtypes[f] || t->numel * tp_item_bytes(t) != d->bytes[f] || t->ndim != shape.n ||
            (shape.n && memcmp(t->shape, shape.v, sizeof(int64_t) * (size_t)shape.n)))
            return tpi_refuse(TP_ERR_VALUE, "tp_dataset_map: field %lld: expected %s %s, the function gave %s %s",
                              (long long)f, tp_dtype_name(d->dtypes[f]), tpi_shape_text(shape),
                              tp_dtype_name((tp_dtype)t->dtype), tpi_shape_text(tpi_shape(t)));
        if (!tp_copy_out(t, into[f], (size_t)d->bytes[f])) return false;
    }
    return true;
}

static bool mapped_read(void *context, int64_t i, void *const *into) {
    const struct mapped *m = context;
    tp_tensor *in[TP_MAX_FIELDS] = {NULL}, *out[TP_MAX_FIELDS] = {NULL};
    if (!tp_dataset_get(m->raw, i, in)) return false;
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE
            fine = m->map(m->context, tp_list(m->raw->nfields, in), out) && tp_ok() && put_out(m, out, into);
    for (int64_t f = 0; f < m->raw->nfields; f++) tp_release(in[f]);
    return fine;
}
static void mapped_free(void *context) {
    struct mapped *m = context;
    if (m->release) m->release(m->context);
    tp_dataset_release(m->raw);
    tpi_mfree(m);
}

tp_dataset *tp_dataset_map(tp_dataset *dataset, int64_t nfields, const tp_field *fields, tp_map_fn map,
                           void (*release)(void *), void *context) {
    if (!TPI_GIVEN(dataset, "a dataset") || !TPI_GIVEN(map, "a function")) return NULL;
    struct mapped *m = tpi_malloc(sizeof *m);
    if (!m) return NULL;
    tp_dataset *d = tp_dataset_new(dataset->count, nfields, fields, mapped_read, NULL, m);
    if (!d) {
        tpi_mfree(m);
        return NULL;
    }
    *m = (struct mapped){tp_dataset_retain(dataset), d, map, release, context};
    d->release = mapped_free;
    return d;
}

/* ---- split at random ---- */
static bool split(tp_dataset *d, const int64_t *lengths, int64_t n, tp_generator *generator, tp_dataset **parts) {
    for (int64_t i = 0; i < n; i++) parts[i] = NULL;
    bool fine = true;
    TP_SCOPE {
        tp_tensor *order = tp_randperm(d->count, .generator = generator);
        fine = order != NULL;
        for (int64_t i = 0, at = 0; fine && i < n; at += lengths[i++]) {
            parts[i] = tp_dataset_subset(d, tp_ints_view((const int64_t *)order->data + at, lengths[i]));
            fine = parts[i] != NULL;
        }
    }
    for (int64_t i = 0; !fine && i < n; i++) {
        tp_dataset_release(parts[i]);
        parts[i] = NULL;
    }
    return fine;
}

bool tp_dataset_random_split(tp_dataset *dataset, tp_ints lengths, tp_generator *generator, tp_dataset **parts) {
    if (TPI_ENDED(generator, "a generator")) return false;
    if (!TPI_GIVEN(dataset, "a dataset") || !TPI_LIST_GIVEN(lengths.v, lengths.n) || !TPI_GIVEN(parts, "an array"))
        return false;
    int64_t sum = 0;
    bool fits = true;
    for (int64_t i = 0; fits && i < lengths.n; i++)
        fits = lengths.v[i] >= 0 && !__builtin_add_overflow(sum, lengths.v[i], &sum);
    if (!fits || sum != dataset->count)
        return tpi_refuse(TP_ERR_VALUE,
                          "tp_dataset_random_split: argument 'lengths': Sum of input lengths does not equal the length "
                          "of the input dataset!");
    return split(dataset, lengths.v, lengths.n, generator, parts);
}

bool tp_dataset_random_shares(tp_dataset *dataset, tp_floats shares, tp_generator *generator, tp_dataset **parts) {
    if (TPI_ENDED(generator, "a generator")) return false;
    if (!TPI_GIVEN(dataset, "a dataset") || !TPI_LIST_GIVEN(shares.v, shares.n) || !TPI_GIVEN(parts, "an array"))
        return false;
    double sum = 0;
    bool fits = shares.n > 0;
    for (int64_t i = 0; i < shares.n; i++) {
        fits = fits && shares.v[i] >= 0 && shares.v[i] <= 1;
        sum += shares.v[i];
    }
    if (!fits || fabs(sum - 1) > 1e-9)
        return tpi_refuse(TP_ERR_VALUE,
                          "tp_dataset_random_shares: argument 'shares': expected numbers from 0 to 1 that add up to 1");
    int64_t *lengths = tpi_malloc(sizeof *lengths * (size_t)shares.n), left = dataset->count;
    if (!lengths) return false;
    for (int64_t i = 0; i < shares.n; i++) {
        lengths[i] = (int64_t)floor((double)dataset->count * shares.v[i]);
        left -= lengths[i];
    }
    for (int64_t i = 0; left > 0; i = (i + 1) % shares.n, left--) lengths[i]++; /* what is over, one by one */
    bool fine = split(dataset, lengths, shares.n, generator, parts);
    tpi_mfree(lengths);
    return fine;
}
