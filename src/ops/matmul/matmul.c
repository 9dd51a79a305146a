/* Matrix products of tensors: mm, bmm, mv, dot, addmm, addmv, baddbmm and linear, on the CPU and on GPUs.
 *
 * Operands with a transposed or sliced layout go to the BLAS as they are; only layouts it cannot read are copied.
 * 16-bit floats are multiplied in float32 (bfloat16s as they are, where the processor has that) and rounded once, small
 * integers in int32; integers wrap. On GPUs ops/matmul/matmul_gpu.c does the same. */
#include "linalg/blas.h"
#include "linalg/gemm.h"
#include "ops/matmul/matmul_gpu.h"
#include "ops/native.h"

enum { WORTH_PAIRS = 1 << 12 }; /* multiply-adds of bfloat16s; fewer of them are as quick in float32 */

/* How a tensor is read as a (batch of) matrix. */
typedef enum reading {
    MATRIX,     /* its last two dims */
    TRANSPOSED, /* the same, transposed */
    COLUMN,     /* a vector as (n, 1) */
    ROW,        /* a vector as (1, n) */
    ROWS        /* (..., n) as one matrix (rows, n) */
} reading;

typedef struct side {
    tp_tensor *held; /* what m points into, owned */
    int64_t rows, cols;
    tpi_operand_matrix m;
} side;

static bool read_rows(side *s) {
    tp_tensor *t = s->held;
    s->cols = t->ndim ? t->shape[t->ndim - 1] : 1;
    s->rows = s->cols ? t->numel / s->cols : 1;
    if (!s->cols)
        for (int d = 0; d + 1 < t->ndim; d++) s->rows *= t->shape[d];
    int64_t shape[2] = {s->rows, s->cols}, strides[2];
    if (!tpi_view_strides(t, tp_ints_view(shape, 2), strides)) return false;
    s->m = (tpi_operand_matrix){t->data, 0, strides[0], strides[1]};
    return true;
}

static bool read_layout(side *s, reading how) {
    tp_tensor *t = s->held;
    int n = t->ndim;
    switch (how) {
    case COLUMN:
        s->rows = t->shape[0];
        s->cols = 1;
        s->m = (tpi_operand_matrix){t->data, 0, t->strides[0], 1};
        break;
    case ROW:
        s->rows = 1;
        s->cols = t->shape[0];
        s->m = (tpi_operand_matrix){t->data, 0, s->cols, t->strides[0]};
        break;
    case ROWS:
        if (!read_rows(s)) return false;
        break;
    default: {
        int r = how == MATRIX ? n - 2 : n - 1, c = how == MATRIX ? n - 1 : n - 2;
        s->rows = t->shape[r];
        s->cols = t->shape[c];
        s->m = (tpi_operand_matrix){t->data, n > 2 ? t->strides[0] : 0, t->strides[r], t->strides[c]};
    }
    }
    return tpi_blas_fits(s->rows, s->cols, s->m.row, s->m.col);
}

static bool load_side(side *s, tp_tensor *t, tp_dtype compute, reading how) {
    s->held = tpi_as_dtype_data(t, compute);
    if (!s->held) return false;
    if (read_layout(s, how)) return true;
    /* A contiguous copy, even of a tensor that counts as contiguous: strides of dims of size one mean nothing. */
    tp_tensor *copy = tpi_empty(tpi_shape(s->held), compute, tpi_device(s->held));
    if (!copy || !tpi_copy_data(copy, s->held)) {
        tpi_release(copy);
        return false;
    }
    tpi_release(s->held);
    s->held = copy;
    return read_layout(s, how) || tpi_refuse(TP_ERR_RUNTIME, "a matrix of shape %s is too large for the BLAS",
                                             tpi_shape_text(tpi_shape(copy)));
}

static tp_dtype compute_dtype(const tp_tensor *t) {
    if (t->dtype == TP_BOOL) {
        tpi_fail(TP_ERR_MISSING, "argument 'self': not implemented for bool, expected a number's dtype");
        return TP_NO_DTYPE;
    }
    return tpi_ctype_dtype((tpi_ctype)tpi_dtype_ctype[t->dtype]);
}

static bool check_broadcasts_to(const tp_tensor *t, const char *name, tp_ints shape) {
    bool fits = t->ndim <= shape.n;
    for (int d = 1; fits && d <= t->ndim; d++)
        fits = t->shape[t->ndim - d] == 1 || t->shape[t->ndim - d] == shape.v[shape.n - d];
    return fits || tpi_refuse(TP_ERR_RUNTIME, "argument '%s': shape %s does not broadcast to the product's shape %s",
                              name, tpi_shape_text(tpi_shape(t)), tpi_shape_text(shape));
}

/* What is computed beside the product itself. */
typedef struct extra {
    tp_tensor *start; /* NULL: none */
    const char *name; /* what messages call it */
    tp_scalar alpha, beta;
    bool recurrent; /* of a recurrent layer: see tpi_product */
} extra;
static const extra PLAIN = {.alpha = {TP_SCALAR_INT, {1}}, .beta = {TP_SCALAR_INT, {0}}};

static bool is_zero(tp_scalar s) { return s.kind == TP_SCALAR_NONE || !tp_scalar_to_bool(s); }

/* Fills the result with what the product is added to; a vector over the columns is left to the tiles (*row is then
 * owned). */
static bool lay_start(tp_tensor *out, const extra *x, tpi_product *p, tp_tensor **row) {
    if (!x->start || is_zero(x->beta)) return true;
    if (!check_broadcasts_to(x->start, x->name, tpi_shape(out))) return false;
    bool unit = x->beta.kind != TP_SCALAR_COMPLEX && tp_scalar_to_double(x->beta) == 1;
    if (unit && x->start->ndim == 1 && x->start->shape[0] == p->n && !tp_dtype_is_integral(p->dtype)) {
        tp_tensor *same = tpi_as_dtype_data(x->start, p->dtype);
        *row = same ? tpi_contiguous_data(same) : NULL;
        tpi_release(same);
        if (!*row) return false;
        p->every_row = (*row)->data;
        return true;
    }
    p->beta = x->beta;
    return tpi_copy_data(out, x->start);
}

static tpi_product product_of_sides(tp_dtype dtype, int64_t batches, const side *a, const side *b, const extra *x) {
    return (tpi_product){.dtype = dtype,
                         .batches = batches,
                         .m = a->rows,
                         .n = b->cols,
                         .k = a->cols,
                         .a = a->m,
                         .b = b->m,
                         .c_batch = a->rows * b->cols,
                         .c_row = b->cols > 1 ? b->cols : 1,
                         .alpha = x->alpha,
                         .beta = tp_int(0)};
}

/* The product of two sides as a new tensor of the shape, in the dtype. */
static tp_tensor *multiply(tp_ints shape, tp_dtype dtype, tp_tensor *like, int64_t batches, const side *a,
                           const side *b, extra x) {
    tp_dtype compute = tpi_ctype_dtype((tpi_ctype)tpi_dtype_ctype[dtype]);
    /* A side may be as it came: both where their product is of pairs, else the matrix beside a vector. */
    const tp_dtype held_a = (tp_dtype)a->held->dtype, held_b = (tp_dtype)b->held->dtype;
    const bool pairs = held_a == TP_BFLOAT16 && held_b == TP_BFLOAT16;
    tp_tensor *out = tpi_empty(shape, compute, tpi_device(like)), *row = NULL;
    if (!out) return NULL;
    tpi_product p = product_of_sides(compute, batches, a, b, &x);
    p.c = out->data;
    bool ok = lay_start(out, &x, &p, &row);
    if (pairs) p.dtype = TP_BFLOAT16;
    if (ok && pairs)
        ok = tpi_gemm_multiply(&p);
    else if (ok && held_a != held_b)
        ok = tpi_multiply_narrow(&p, held_a == compute ? held_b : held_a);
    else if (ok)
        tpi_multiply(&p);
    tpi_release(row);
    if (!ok) return tpi_release_then(out, NULL);
    return compute == dtype ? out : tpi_release_then(out, tpi_as_dtype_data(out, dtype));
}

/* The same on a GPU: both sides are of the result's dtype, and what the product is added to is bias or laid down first.
 */
static tp_tensor *multiply_there(tp_ints shape, tp_dtype dtype, tp_tensor *like, int64_t batches, const side *a,
                                 const side *b, extra x) {
    tp_tensor *out = tpi_empty(shape, dtype, tpi_device(like)), *row = NULL;
    if (!out) return NULL;
    tpi_product p = product_of_sides(dtype, batches, a, b, &x);
    p.recurrent = x.recurrent;
    bool ok = lay_start(out, &x, &p, &row) && tpi_gpu_multiply(out, &p, row);
    tpi_release(row);
    return ok ? out : tpi_release_then(out, NULL);
}

/* Are all sums of k products of such numbers whole numbers that float32 holds? Then its kernels serve, which are twice
 * as fast as those of int32. */
static bool exact_in_float(tp_dtype dtype, int64_t k, const extra *x) {
    int64_t largest = dtype == TP_INT8 ? 128 : dtype == TP_UINT8 ? 255 : 0;
    return largest && !x->start && largest * largest * k <= 1 << 24;
}

typedef struct sizes {
    int64_t m, n, k;
} sizes;

/* Of a product whose left side has elements and is no single row. */
static sizes sizes_of(const tp_tensor *a, reading how_a, const tp_tensor *b, reading how_b) {
    const int64_t k = a->shape[a->ndim - 1];
    return (sizes){.m = how_a == MATRIX ? a->shape[a->ndim - 2] : a->numel / k,
                   .n = how_b == COLUMN ? 1 : b->shape[how_b == TRANSPOSED ? b->ndim - 2 : b->ndim - 1],
                   .k = k};
}

/* Does the BLAS read it as it lies? A copy in another order has other sums. */
static bool is_plain_matrix(const tp_tensor *t) {
    return t->ndim == 2 && tpi_blas_fits(t->shape[0], t->shape[1], t->strides[0], t->strides[1]);
}

/* The dtypes in which two sides of 16-bit floats are multiplied: both as they are, where this processor does that to
 * bfloat16s and a product of such sizes gains by it; float32; or the matrix beside a vector as it is, which is read
 * once. */
static void choose_narrow(const tp_tensor *a, reading how_a, const tp_tensor *b, reading how_b, tp_dtype *left,
                          tp_dtype *right) {
    const tp_dtype dtype = (tp_dtype)a->dtype;
    if ((dtype != TP_BFLOAT16 && dtype != TP_FLOAT16) || !a->numel || (how_a != MATRIX && how_a != ROWS)) return;
    const sizes s = sizes_of(a, how_a, b, how_b);
    const bool pairs = dtype == TP_BFLOAT16 && how_b != COLUMN && s.m * s.n * s.k >= WORTH_PAIRS &&
                       tpi_gemm_serves_bf16(s.m, s.n, s.k);
    const bool of_vector = !pairs && tpi_multiplies_narrow(s.m, s.n, s.k) && is_plain_matrix(s.n == 1 ? a : b);
    if (pairs || (of_vector && s.n == 1)) *left = dtype;
    if (pairs || (of_vector && s.m == 1)) *right = dtype;
}

/* The product in float32, as the integers it is made of: they wrap. */
static tp_tensor *as_integers(tp_tensor *product, tp_dtype dtype) {
    tp_tensor *wide = product ? tpi_release_then(product, tpi_as_dtype_data(product, TP_INT32)) : NULL;
    return wide ? tpi_release_then(wide, tpi_as_dtype_data(wide, dtype)) : NULL;
}

static tp_tensor *product_of(tp_ints shape, int64_t batches, tp_tensor *a, reading how_a, tp_tensor *b, reading how_b,
                             extra x) {
    side left = {0}, right = {0};
    tp_dtype compute = compute_dtype(a), dtype = (tp_dtype)a->dtype;
    bool here = tpi_device(a).type == TP_CPU;
    if (compute && !here) compute = dtype; /* kernels convert */
    bool small = here && how_a == MATRIX && exact_in_float(dtype, a->shape[a->ndim - 1], &x);
    if (small) compute = TP_FLOAT32;
    tp_dtype of_a = compute, of_b = compute;
    if (here && compute) choose_narrow(a, how_a, b, how_b, &of_a, &of_b);
    tp_tensor *out = NULL;
    if (compute && load_side(&left, a, of_a, how_a) && load_side(&right, b, of_b, how_b))
        out = (here ? multiply : multiply_there)(shape, small ? TP_FLOAT32 : dtype, a, batches, &left, &right, x);
    tpi_release(left.held);
    tpi_release(right.held);
    return small ? as_integers(out, dtype) : out;
}

static bool check_ndim(const tp_tensor *t, const char *name, int ndim) {
    if (t->ndim == ndim) return true;
    static const char *const kinds[] = {"", "vector", "matrix", "batch of matrices"};
    return tpi_refuse(TP_ERR_RUNTIME,
                      "argument '%s': %s must be a %s: expected a %dD tensor, got %d-D tensor of shape %s", name, name,
                      kinds[ndim], ndim, t->ndim, tpi_shape_text(tpi_shape(t)));
}

static bool check_product_dtype(const tp_tensor *a, const char *a_name, const tp_tensor *b, const char *b_name) {
    return a->dtype == b->dtype ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "arguments '%s' and '%s': mat1 and mat2 must have the same dtype, but got %s and %s", a_name,
                      b_name, tp_dtype_word((tp_dtype)a->dtype), tp_dtype_word((tp_dtype)b->dtype));
}

static bool check_inner(const tp_tensor *a, const char *a_name, const tp_tensor *b, const char *b_name, int64_t inner,
                        int64_t other) {
    if (inner != other && a->ndim >= 2 && b->ndim == 2)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "arguments '%s' and '%s': mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", a_name,
            b_name, (long long)(inner ? a->numel / inner : 0), (long long)inner, (long long)other,
            (long long)(other ? b->numel / other : 0));
    return inner == other ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "arguments '%s' and '%s': shapes %s and %s cannot be multiplied (%lld against %lld)", a_name,
                      b_name, tpi_shape_text(tpi_shape(a)), tpi_shape_text(tpi_shape(b)), (long long)inner,
                      (long long)other);
}

static bool check_pair(const tp_tensor *a, const char *a_name, int a_ndim, const tp_tensor *b, const char *b_name,
                       int b_ndim) {
    return check_ndim(a, a_name, a_ndim) && check_ndim(b, b_name, b_ndim) && check_product_dtype(a, a_name, b, b_name);
}

static tp_tensor *mm_with(tp_tensor *a, const char *a_name, tp_tensor *b, const char *b_name, extra x) {
    if (!check_pair(a, a_name, 2, b, b_name, 2) || !check_inner(a, a_name, b, b_name, a->shape[1], b->shape[0]))
        return NULL;
    return product_of(TP_INTS(a->shape[0], b->shape[1]), 1, a, MATRIX, b, MATRIX, x);
}

tp_tensor *tpi_native_mm(tp_tensor *self, tp_tensor *mat2) { return mm_with(self, "self", mat2, "mat2", PLAIN); }

tp_tensor *tpi_native_addmm(tp_tensor *self, tp_tensor *mat1, tp_tensor *mat2, tp_scalar beta, tp_scalar alpha) {
    if (!tpi_check_same_dtype(self, "self", mat1, "mat1")) return NULL;
    return mm_with(mat1, "mat1", mat2, "mat2", (extra){self, "self", alpha, beta, .recurrent = false});
}

static tp_tensor *bmm_with(tp_tensor *a, const char *a_name, tp_tensor *b, const char *b_name, extra x) {
    for (int i = 0; i < 2; i++) {
        const tp_tensor *t = i ? b : a;
        if (t->ndim != 3)
            return tpi_fail(TP_ERR_RUNTIME, "argument '%s': batch%d must be a 3D tensor, got %dD of shape %s",
                            i ? b_name : a_name, i + 1, t->ndim, tpi_shape_text(tpi_shape(t)));
    }
    if (!check_pair(a, a_name, 3, b, b_name, 3)) return NULL;
    if (a->shape[0] != b->shape[0] || a->shape[2] != b->shape[1])
        return tpi_fail(TP_ERR_RUNTIME,
                        "arguments '%s' and '%s': Expected size for first two dimensions of batch2 tensor to be: "
                        "[%lld, %lld] but got: [%lld, %lld].",
                        a_name, b_name, (long long)a->shape[0], (long long)a->shape[2], (long long)b->shape[0],
                        (long long)b->shape[1]);
    return product_of(TP_INTS(a->shape[0], a->shape[1], b->shape[2]), a->shape[0], a, MATRIX, b, MATRIX, x);
}

tp_tensor *tpi_native_bmm(tp_tensor *self, tp_tensor *mat2) { return bmm_with(self, "self", mat2, "mat2", PLAIN); }

tp_tensor *tpi_native_baddbmm(tp_tensor *self, tp_tensor *batch1, tp_tensor *batch2, tp_scalar beta, tp_scalar alpha) {
    if (!tpi_check_same_dtype(self, "self", batch1, "batch1")) return NULL;
    return bmm_with(batch1, "batch1", batch2, "batch2", (extra){self, "self", alpha, beta, .recurrent = false});
}

static tp_tensor *mv_with(tp_tensor *a, const char *a_name, tp_tensor *vec, extra x) {
    if (!check_pair(a, a_name, 2, vec, "vec", 1)) return NULL;
    if (a->shape[1] != vec->shape[0])
        return tpi_fail(
            TP_ERR_RUNTIME, "arguments '%s' and 'vec': size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
            a_name, (long long)a->shape[0], (long long)a->shape[0], (long long)a->shape[1], (long long)vec->shape[0]);
    return product_of(TP_INTS(a->shape[0]), 1, a, MATRIX, vec, COLUMN, x);
}

tp_tensor *tpi_native_mv(tp_tensor *self, tp_tensor *vec) { return mv_with(self, "self", vec, PLAIN); }

tp_tensor *tpi_native_addmv(tp_tensor *self, tp_tensor *mat, tp_tensor *vec, tp_scalar beta, tp_scalar alpha) {
    if (!tpi_check_same_dtype(self, "self", mat, "mat")) return NULL;
    return mv_with(mat, "mat", vec, (extra){self, "self", alpha, beta, .recurrent = false});
}

tp_tensor *tpi_native_dot(tp_tensor *self, tp_tensor *tensor) {
    if (self->ndim != 1 || tensor->ndim != 1)
        return tpi_fail(TP_ERR_RUNTIME, "1D tensors expected, but got %dD and %dD tensors", self->ndim, tensor->ndim);
    if (self->dtype != tensor->dtype)
        return tpi_fail(TP_ERR_RUNTIME, "dot : expected both vectors to have same dtype, but found %s and %s",
                        tp_dtype_word((tp_dtype)self->dtype), tp_dtype_word((tp_dtype)tensor->dtype));
    if (self->numel != tensor->numel)
        return tpi_fail(TP_ERR_RUNTIME,
                        "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of "
                        "elements, but got %lld and %lld elements respectively",
                        (long long)self->numel, (long long)tensor->numel, (long long)self->numel,
                        (long long)tensor->numel);
    return product_of(tp_ints_view(self->shape, 0), 1, self, ROW, tensor, COLUMN, PLAIN);
}

/* input (..., in), weight (out, in) or (in), bias broadcast over the result (..., out) or (...). */
static tp_tensor *linear_with(tp_tensor *input, tp_tensor *weight, extra x) {
    tp_tensor *bias = x.start;
    if (input->ndim < 1) return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected at least one dimension, got none");
    if (weight->ndim != 1 && weight->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'weight': expected 1 or 2 dimensions, got shape %s",
                        tpi_shape_text(tpi_shape(weight)));
    if (!check_product_dtype(input, "input", weight, "weight") ||
        (bias && !tpi_check_same_dtype(bias, "bias", input, "input")))
        return NULL;
    if (!check_inner(input, "input", weight, "weight", input->shape[input->ndim - 1], weight->shape[weight->ndim - 1]))
        return NULL;
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, input->shape, sizeof *shape * (size_t)input->ndim);
    if (weight->ndim == 2) shape[input->ndim - 1] = weight->shape[0];
    tp_ints result = tp_ints_view(shape, input->ndim - (weight->ndim == 1));
    return product_of(result, 1, input, ROWS, weight, weight->ndim == 2 ? TRANSPOSED : COLUMN, x);
}

tp_tensor *tpi_native_linear(tp_tensor *input, tp_tensor *weight, tp_tensor *bias) {
    return linear_with(input, weight, (extra){bias, "bias", tp_int(1), tp_int(1), .recurrent = false});
}

tp_tensor *tpi_native_rnn_linear(tp_tensor *input, tp_tensor *weight, tp_tensor *bias) {
    return linear_with(input, weight, (extra){bias, "bias", tp_int(1), tp_int(1), .recurrent = true});
}
