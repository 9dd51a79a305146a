/* For each element the product of all others along a dim: the derivative of a product, right where elements are zero
 * too. Lines are cut into pieces of a fixed size: the pieces' products, for each piece the product of the others, by
 * the same function, and from there on the elements of each piece. */
#include "base/scratch.h"
#include "ops/native.h"
#include "ops/reduce/product_of_others.h"

enum {
    WIDTH = 64,     /* columns that go together, at most */
    PIECE = 8192,   /* elements of a piece, all columns together, */
    LEAST_ROWS = 64 /* and the fewest of one column */
};

typedef struct others_job {
    tp_dtype dtype;
    int64_t outer, n, inner, piece, pieces, blocks, item;
    const char *x;
    char *products;    /* (outer, pieces, inner) of the pieces, while they are made; */
    const char *start; /* then, in the same order, of all other pieces; NULL: there is one piece */
    char *out;         /* NULL: the pieces' products are wanted */
    tpi_scratch scratch;
} others_job;

/* What a task needs beside its operands: the tree, and a copy of x and of the results where columns are a part of rows.
 */
static size_t scratch_bytes(const others_job *j) {
    const int64_t width = j->inner < WIDTH ? j->inner : WIDTH, copies = j->inner > WIDTH ? 2 * j->piece * width : 0;
    return (size_t)((TPI_OTHERS_SCRATCH(j->piece, width) + copies) * j->item);
}

static void move_rows(const others_job *j, int64_t rows, int64_t width, const char *from, int64_t from_row, char *to,
                      int64_t to_row) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * to_row * j->item, from + i * from_row * j->item, (size_t)(width * j->item));
}

static void one_piece(int64_t task, void *context) {
    const others_job *j = context;
    const int64_t block = task % j->blocks, piece = task / j->blocks % j->pieces, outer = task / j->blocks / j->pieces;
    const int64_t from = piece * j->piece, n = j->n - from < j->piece ? j->n - from : j->piece;
    const int64_t column = block * WIDTH, width = j->inner - column < WIDTH ? j->inner - column : WIDTH;
    const int64_t at = ((outer * j->n + from) * j->inner + column) * j->item,
                  total = ((outer * j->pieces + piece) * j->inner + column) * j->item;
    _Alignas(64) char stack[TPI_SCRATCH_STACK];
    char *scratch = tpi_scratch_acquire(&j->scratch, stack), *tree = scratch;
    const bool apart = j->inner > WIDTH;
    const char *x = j->x + at;
    if (apart) {
        move_rows(j, n, width, x, j->inner, scratch, width);
        x = scratch;
        tree += 2 * j->piece * WIDTH * j->item;
    }
    const char *product = TPI_ISA_PICK(tpi_product_tree)(j->dtype, n, width, x, tree);
    if (!j->out) {
        memcpy(j->products + total, product, (size_t)(width * j->item));
    } else {
        char *out = apart ? scratch + j->piece * WIDTH * j->item : j->out + at;
        TPI_ISA_PICK(tpi_products_of_others)(j->dtype, n, width, x, tree, j->start ? j->start + total : NULL, out);
        if (apart) move_rows(j, n, width, out, width, j->out + at, j->inner);
    }
    tpi_scratch_release(&j->scratch, scratch);
}

static bool run_pieces(others_job *j) {
    const int64_t tasks = j->outer * j->pieces * j->blocks;
    const bool worth = j->outer * j->n * j->inner * j->item >= TPI_WORTH_BYTES;
    if (!tpi_scratch_make(&j->scratch, scratch_bytes(j), tasks, worth)) return false;
    tpi_parallel_for(tasks, worth, one_piece, j);
    tpi_scratch_free(&j->scratch);
    return true;
}

static bool others(tp_dtype dtype, int64_t outer, int64_t n, int64_t inner, const char *x, char *out) {
    others_job j = {.dtype = dtype, .outer = outer, .n = n, .inner = inner, .x = x, .item = tpi_dtype_bytes[dtype]};
    j.piece = PIECE / (inner < WIDTH ? inner : WIDTH);
    if (j.piece < LEAST_ROWS) j.piece = LEAST_ROWS;
    if (j.piece > n) j.piece = n;
    j.pieces = tpi_ceil_div(n, j.piece);
    j.blocks = tpi_ceil_div(inner, WIDTH);
    if (j.pieces == 1) {
        j.out = out;
        return run_pieces(&j);
    }
    const size_t bytes = (size_t)(outer * j.pieces * inner * j.item);
    char *products = tpi_alloc(2 * bytes);
    if (!products) return false;
    j.products = products;
    bool ok = run_pieces(&j) && others(dtype, outer, j.pieces, inner, products, products + bytes);
    j.start = products + bytes;
    j.out = out;
    ok = ok && run_pieces(&j);
    tpi_free(products, 2 * bytes);
    return ok;
}

tp_tensor *tpi_native_prod_of_others(tp_tensor *self, int64_t dim) {
    const int d = TPI_DIM(self, dim);
    if (d < 0) return NULL;
    const tp_dtype dtype = (tp_dtype)self->dtype,
                   compute = dtype == TP_FLOAT16 || dtype == TP_BFLOAT16 ? TP_FLOAT32 : dtype;
    if (!(tpi_dtype_category[dtype] & (TPI_CAT_FLOAT | TPI_CAT_COMPLEX)))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected a floating point or complex tensor, got %s",
                        tp_dtype_name(dtype));
    tp_tensor *wide = tpi_as_dtype_data(self, compute),
              *x = wide ? tpi_release_then(wide, tpi_contiguous_data(wide)) : NULL;
    tp_tensor *out = x ? tpi_empty(tpi_shape(self), compute, tpi_device(self)) : NULL;
    bool ok = out != NULL;
    if (ok && out->numel) {
        int64_t n = self->ndim ? self->shape[d] : 1, inner = 1;
        for (int i = d + 1; i < self->ndim; i++) inner *= self->shape[i];
        ok = others(compute, out->numel / (n * inner), n, inner, x->data, out->data);
    }
    tpi_release(x);
    return ok ? tpi_release_then(out, tpi_as_dtype_data(out, dtype)) : tpi_release_then(out, NULL);
}
