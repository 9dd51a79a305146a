/* Sparse tensors as objects. All work is done by the operators of tables/operators/sparse.op, so that gradients flow
 * to values, on every device that those have. */
#include "autograd/glue.h"
#include "base/handle.h"
#include "base/memory.h"
#include "tensor/tensor.h"
#include <taper/ops.h>
#include <taper/sparse.h>

struct tp_sparse {
    tp_tensor *values;
    tp_tensor *indices;    /* by places: (dims, stored); NULL: by rows */
    tp_tensor *crow, *col; /* by rows; NULL: by places */
    bool coalesced;
    int64_t ndim, size[TP_MAX_DIMS];
};

#define given(s) tpi_given(s, __func__, "sparse", "a sparse tensor")

static tp_ints size_of(const tp_sparse *s) { return tp_ints_view(s->size, s->ndim); }

/* Takes own references to the tensors. */
static tp_sparse *sparse_new(tp_sparse like, tp_ints size) {
    tp_sparse *s = tpi_new0(sizeof *s);
    if (!s) return NULL;
    *s = like;
    s->ndim = size.n;
    for (int64_t i = 0; i < size.n; i++) s->size[i] = size.v[i];
    s->values = tp_retain(s->values);
    s->indices = tp_retain(s->indices);
    s->crow = tp_retain(s->crow);
    s->col = tp_retain(s->col);
    tpi_handle_made(s, "sparse tensor");
    return s;
}

void tp_sparse_free(tp_sparse *s) {
    if (!TPI_ENDS(s, "sparse", "a sparse tensor")) return;
    tp_release(s->values);
    tp_release(s->indices);
    tp_release(s->crow);
    tp_release(s->col);
    tpi_handle_delete(s, sizeof *s);
}

/* ---- Making ---- */

static bool is_index(const tp_tensor *t, const char *function, const char *argument, int64_t ndim) {
    if (!tpi_is_tensor_of(t, argument, function)) return false;
    bool whole = t->dtype == TP_INT64 || t->dtype == TP_INT32;
    return (whole && t->ndim == ndim) ||
           tpi_refuse(TP_ERR_TYPE,
                      "%s: argument '%s': expected int64 or int32 with %lld dimensions, got %s of shape %s", function,
                      argument, (long long)ndim, tp_dtype_name((tp_dtype)t->dtype), tpi_shape_text(tpi_shape(t)));
}

static bool is_size(tp_ints size, const char *function, int64_t least, int64_t most) {
    bool fine = size.v && size.n >= least && size.n <= most;
    for (int64_t i = 0; fine && i < size.n; i++) fine = size.v[i] >= 0;
    return fine ||
           tpi_refuse(TP_ERR_VALUE, "%s: argument 'size': expected %lld to %lld sizes of 0 or more, got %s", function,
                      (long long)least, (long long)most, size.v && size.n >= 0 ? tpi_shape_text(size) : "none");
}

static bool is_values(const tp_tensor *values, const char *function, int64_t stored) {
    if (!tpi_is_tensor_of(values, "values", function)) return false;
    return (values->ndim == 1 && values->numel == stored) ||
           tpi_refuse(TP_ERR_VALUE,
                      "%s: argument 'values': expected %lld values in a row, one for each place, got shape %s",
                      function, (long long)stored, tpi_shape_text(tpi_shape(values)));
}

/* Are all numbers of a tensor from 0 to end - 1? */
static bool within(tp_tensor *numbers, int64_t end, const char *function, const char *argument) {
    bool fine = true;
    if (!numbers->numel) return true;
    double least = 0, most = 0;
    TP_SCOPE {
        least = tp_item(tp_min(numbers));
        most = tp_item(tp_max(numbers));
        fine = tp_ok();
    }
    if (!fine) return false;
    if (least >= 0 && most < (double)end) return true;
    return tpi_refuse(TP_ERR_INDEX, "%s: argument '%s': expected numbers from 0 to %lld, got one that is %.0f",
                      function, argument, (long long)end - 1, least < 0 ? least : most);
}

tp_sparse *tp_sparse_from_coo(tp_tensor *indices, tp_tensor *values, tp_ints size) {
    if (!is_index(indices, __func__, "indices", 2) || !is_size(size, __func__, 1, TP_MAX_DIMS)) return NULL;
    if (tp_size(indices, 0) != size.n)
        return tpi_fail(TP_ERR_VALUE,
                        "tp_sparse_from_coo: argument 'indices': expected %lld rows, one per dimension, got %lld",
                        (long long)size.n, (long long)tp_size(indices, 0));
    if (!is_values(values, __func__, tp_size(indices, 1))) return NULL;
    for (int64_t d = 0; d < size.n; d++) {
        bool fine = true;
        TP_SCOPE
            fine = within(tp_select(indices, 0, d), size.v[d], __func__, "indices");
        if (!fine) return NULL;
    }
    return sparse_new((tp_sparse){.values = values, .indices = indices, .coalesced = tp_size(indices, 1) < 2}, size);
}

tp_sparse *tp_sparse_from_csr(tp_tensor *crow, tp_tensor *col, tp_tensor *values, tp_ints size) {
    if (TPI_ENDED(crow, "a tensor") || TPI_ENDED(col, "a tensor") || TPI_ENDED(values, "a tensor")) return NULL;
    if (!is_size(size, __func__, 2, 2) || !is_index(crow, __func__, "crow", 1) || !is_index(col, __func__, "col", 1) ||
        !is_values(values, __func__, col->numel) || !within(col, size.v[1], __func__, "col"))
        return NULL;
    bool fine = crow->numel == size.v[0] + 1;
    if (fine) {
        TP_SCOPE {
            tp_tensor *steps = tp_diff(crow);
            fine = tp_item(tp_select(crow, 0, 0)) == 0 && tp_item(tp_select(crow, 0, -1)) == (double)col->numel &&
                   (!steps || !tp_numel(steps) || tp_item(tp_min(steps)) >= 0);
        }
    }
    if (!tp_ok()) return NULL;
    if (!fine)
        return tpi_fail(
            TP_ERR_VALUE,
            "tp_sparse_from_csr: argument 'crow': expected %lld numbers that rise from 0 to %lld, got shape %s",
            (long long)size.v[0] + 1, (long long)col->numel, tpi_shape_text(tpi_shape(crow)));
    return sparse_new((tp_sparse){.values = values, .crow = crow, .col = col}, size);
}

tp_sparse *tp_sparse_from_dense(tp_tensor *dense) {
    if (!tpi_is_tensor(dense, "dense") || !is_size(tp_shape(dense), __func__, 1, TP_MAX_DIMS)) return NULL;
    tp_sparse *made = NULL;
    TP_SCOPE {
        tp_tensor *nonzero = tp_nonzero(dense);
        tp_tensor *indices = tp_contiguous(tp_transpose(nonzero, 0, 1));
        tp_tensor *values = tp_masked_select(dense, tp_ne(dense, 0));
        if (indices && values)
            made = sparse_new((tp_sparse){.values = values, .indices = indices, .coalesced = true}, tp_shape(dense));
    }
    return made;
}

/* ---- Looking ---- */

bool tp_sparse_is_csr(const tp_sparse *s) { return given(s) && s->crow; }
bool tp_sparse_is_coalesced(const tp_sparse *s) { return given(s) && s->coalesced; }
int64_t tp_sparse_nnz(const tp_sparse *s) { return given(s) ? s->values->numel : -1; }
tp_ints tp_sparse_size(const tp_sparse *s) { return given(s) ? size_of(s) : tp_no_ints(); }
tp_tensor *tp_sparse_values(const tp_sparse *s) { return given(s) ? s->values : NULL; }

static tp_tensor *part(const tp_sparse *s, tp_tensor *wanted, const char *function, const char *layout) {
    if (wanted) return wanted;
    return tpi_fail(TP_ERR_VALUE, "%s: argument 'sparse': expected one %s, got one %s", function, layout,
                    s->crow ? "by rows" : "by places");
}
tp_tensor *tp_sparse_indices(const tp_sparse *s) {
    return given(s) ? part(s, s->indices, __func__, "by places") : NULL;
}
tp_tensor *tp_sparse_crow_indices(const tp_sparse *s) {
    return given(s) ? part(s, s->crow, __func__, "by rows") : NULL;
}
tp_tensor *tp_sparse_col_indices(const tp_sparse *s) { return given(s) ? part(s, s->col, __func__, "by rows") : NULL; }

static bool is_matrix(const tp_sparse *s, const char *function, const char *argument) {
    if (!tpi_given(s, function, argument, "a sparse tensor")) return false;
    return s->ndim == 2 || tpi_refuse(TP_ERR_VALUE, "%s: argument '%s': expected a matrix, got %lld dimensions",
                                      function, argument, (long long)s->ndim);
}

/* ---- Other layouts ---- */

tp_sparse *tp_sparse_coalesced(const tp_sparse *s) {
    if (!given(s)) return NULL;
    tp_sparse *coo = tp_sparse_as_coo(s), *made = NULL;
    if (!coo || coo->coalesced) return coo;
    TP_SCOPE {
        tp_sparse_coalesce_result found = tp_sparse_coalesce(coo->indices, size_of(coo));
        tp_tensor *column = tp_unsqueeze(coo->values, 1);
        tp_tensor *sums = tp_sparse_mm_rows(found.begins, found.order, NULL, column); /* of the values of each place */
        tp_tensor *values = tp_squeeze_dim(sums, 1);
        if (values)
            made = sparse_new((tp_sparse){.values = values, .indices = found.places, .coalesced = true}, size_of(s));
    }
    tp_sparse_free(coo);
    return made;
}

tp_sparse *tp_sparse_as_coo(const tp_sparse *s) {
    if (!given(s)) return NULL;
    if (s->indices) return sparse_new(*s, size_of(s));
    tp_sparse *made = NULL;
    TP_SCOPE {
        tp_tensor *indices = tp__convert_indices_from_csr_to_coo(s->crow, s->col);
        if (indices) made = sparse_new((tp_sparse){.values = s->values, .indices = indices}, size_of(s));
    }
    return made;
}

tp_sparse *tp_sparse_as_csr(const tp_sparse *s) {
    if (!is_matrix(s, __func__, "sparse")) return NULL;
    if (s->crow) return sparse_new(*s, size_of(s));
    tp_sparse *coo = tp_sparse_coalesced(s), *made = NULL;
    if (!coo) return NULL;
    TP_SCOPE {
        tp_tensor *rows = tp_contiguous(tp_select(coo->indices, 0, 0));
        tp_tensor *crow = tp__convert_indices_from_coo_to_csr(rows, s->size[0]);
        tp_tensor *col = tp_contiguous(tp_select(coo->indices, 0, 1));
        if (crow && col)
            made =
                sparse_new((tp_sparse){.values = coo->values, .crow = crow, .col = col, .coalesced = true}, size_of(s));
    }
    tp_sparse_free(coo);
    return made;
}

tp_sparse *tp_sparse_transposed(const tp_sparse *s) {
    if (!is_matrix(s, __func__, "sparse")) return NULL;
    tp_sparse *coo = tp_sparse_as_coo(s), *made = NULL;
    if (!coo) return NULL;
    TP_SCOPE {
        tp_tensor *indices = tp_flip(coo->indices, TP_INTS(0));
        if (indices)
            made = sparse_new((tp_sparse){.values = coo->values, .indices = indices}, TP_INTS(s->size[1], s->size[0]));
    }
    tp_sparse_free(coo);
    return made;
}

/* Places as numbers of elements in row-major order. */
static tp_tensor *flat_indices(const tp_sparse *s) {
    tp_tensor *flat = tp_to(tp_select(s->indices, 0, 0), .dtype = TP_INT64);
    for (int64_t d = 1; d < s->ndim; d++) flat = tp_add(tp_mul(flat, s->size[d]), tp_select(s->indices, 0, d));
    return flat;
}

tp_tensor *tp_sparse_to_dense(const tp_sparse *s) {
    if (!given(s)) return NULL;
    tp_sparse *coo = tp_sparse_as_coo(s);
    if (!coo) return NULL;
    tp_tensor *dense = NULL;
    TP_SCOPE {
        int64_t numel = 1;
        for (int64_t d = 0; d < s->ndim; d++) numel *= s->size[d];
        tp_tensor *zeros =
            tp_zeros(TP_INTS(numel), .dtype = (tp_dtype)s->values->dtype, .device = tp_device_of(s->values));
        dense = tp_keep(tp_reshape(tp_index_add(zeros, 0, flat_indices(coo), s->values), size_of(s)));
    }
    tp_sparse_free(coo);
    return dense;
}

/* ---- Computing ---- */

tp_tensor *tp_sparse_matmul(const tp_sparse *s, tp_tensor *dense) {
    if (!is_matrix(s, __func__, "sparse") || !tpi_is_tensor(dense, "dense")) return NULL;
    if ((dense->ndim != 1 && dense->ndim != 2) || tp_size(dense, 0) != s->size[1])
        return tpi_fail(TP_ERR_VALUE, "tp_sparse_matmul: argument 'dense': expected %lld rows, got shape %s",
                        (long long)s->size[1], tpi_shape_text(tpi_shape(dense)));
    tp_tensor *made = NULL;
    TP_SCOPE {
        bool vector = dense->ndim == 1;
        tp_tensor *matrix = vector ? tp_unsqueeze(dense, 1) : dense;
        tp_tensor *product = s->crow ? tp_sparse_mm_rows(s->crow, s->col, s->values, matrix)
                                     : tp_sparse_mm_coo(s->indices, s->values, matrix, s->size[0]);
        made = tp_keep(vector ? tp_squeeze_dim(product, 1) : product);
    }
    return made;
}

static tp_sparse *product_of_rows(const tp_sparse *a, const tp_sparse *b) {
    tp_sparse *made = NULL;
    TP_SCOPE {
        tp_sparse_mm_pattern_result at = tp_sparse_mm_pattern(a->crow, a->col, b->crow, b->col, b->size[1]);
        tp_tensor *values =
            tp_sparse_mm_sampled(at.crow, at.col, a->crow, a->col, a->values, b->crow, b->col, b->values, b->size[1]);
        if (values)
            made = sparse_new((tp_sparse){.values = values, .crow = at.crow, .col = at.col, .coalesced = true},
                              TP_INTS(a->size[0], b->size[1]));
    }
    return made;
}

tp_sparse *tp_sparse_product(const tp_sparse *left, const tp_sparse *right) {
    if (!is_matrix(left, __func__, "left") || !is_matrix(right, __func__, "right")) return NULL;
    if (left->size[1] != right->size[0])
        return tpi_fail(TP_ERR_VALUE, "tp_sparse_product: argument 'right': expected %lld rows, got %lld",
                        (long long)left->size[1], (long long)right->size[0]);
    tp_sparse *a = tp_sparse_as_csr(left), *b = a ? tp_sparse_as_csr(right) : NULL;
    tp_sparse *made = b ? product_of_rows(a, b) : NULL;
    tp_sparse_free(a);
    tp_sparse_free(b);
    return made;
}

tp_sparse *tp_sparse_plus(const tp_sparse *left, const tp_sparse *right) {
    if (!TPI_GIVEN(left, "a sparse tensor") || !TPI_GIVEN(right, "a sparse tensor")) return NULL;
    bool same = left->ndim == right->ndim;
    for (int64_t d = 0; same && d < left->ndim; d++) same = left->size[d] == right->size[d];
    if (!same)
        return tpi_fail(TP_ERR_VALUE, "tp_sparse_plus: argument 'right': expected the size %s, got %s",
                        tpi_shape_text(size_of(left)), tpi_shape_text(size_of(right)));
    tp_sparse *a = tp_sparse_as_coo(left), *b = a ? tp_sparse_as_coo(right) : NULL, *both = NULL;
    if (b) {
        TP_SCOPE {
            tp_tensor *indices = tp_cat(TP_LIST(a->indices, b->indices), .dim = 1);
            tp_tensor *values = tp_cat(TP_LIST(a->values, b->values));
            if (indices && values) both = sparse_new((tp_sparse){.values = values, .indices = indices}, size_of(left));
        }
    }
    tp_sparse *made = both ? tp_sparse_coalesced(both) : NULL;
    tp_sparse_free(a);
    tp_sparse_free(b);
    tp_sparse_free(both);
    return made;
}
