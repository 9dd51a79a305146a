/* Runs and N-dimensional walks of one operand to and from contiguous blocks of another dtype: what drivers use to
 * gather what a kernel cannot read in place. No allocation, nothing fails. */
#include "device/cpu/convert.h"

enum { BETWEEN = 512 }; /* elements that are packed before they are converted */

void tpi_load_run(int64_t n, const char *src, int64_t stride, int from, char *dst, int to) {
    int in = tpi_dtype_bytes[from], out = tpi_dtype_bytes[to];
    if (stride == in) {
        TPI_ISA_PICK(tpi_convert_run)(n, src, from, dst, to);
        return;
    }
    if (stride == 0) {
        char one[16];
        TPI_ISA_PICK(tpi_convert_run)(1, src, from, one, to);
        TPI_ISA_PICK(tpi_repeat)(n, one, dst, out);
        return;
    }
    if (from == to) {
        TPI_ISA_PICK(tpi_pack_rows)(1, n, src, 0, stride, dst, in);
        return;
    }
    _Alignas(64) char packed[BETWEEN * 16];
    for (int64_t i = 0; i < n; i += BETWEEN) {
        int64_t m = n - i < BETWEEN ? n - i : BETWEEN;
        TPI_ISA_PICK(tpi_pack_rows)(1, m, src + i * stride, 0, stride, packed, in);
        TPI_ISA_PICK(tpi_convert_run)(m, packed, from, dst + i * out, to);
    }
}

void tpi_store_run(int64_t n, const char *src, int from, char *dst, int64_t stride, int to) {
    int in = tpi_dtype_bytes[from], out = tpi_dtype_bytes[to];
    if (stride == out) {
        TPI_ISA_PICK(tpi_convert_run)(n, src, from, dst, to);
        return;
    }
    if (from == to) {
        TPI_ISA_PICK(tpi_unpack_rows)(1, n, src, dst, 0, stride, out);
        return;
    }
    _Alignas(64) char packed[BETWEEN * 16];
    for (int64_t i = 0; i < n; i += BETWEEN) {
        int64_t m = n - i < BETWEEN ? n - i : BETWEEN;
        TPI_ISA_PICK(tpi_convert_run)(m, src + i * in, from, packed, to);
        TPI_ISA_PICK(tpi_unpack_rows)(1, m, packed, dst + i * stride, 0, stride, out);
    }
}

int64_t tpi_walk_offset(const tpi_walk *w, int64_t at) {
    int64_t offset = 0;
    for (int d = 0; at && d < w->ndim; d++) {
        int64_t i = d == w->ndim - 1 ? at : at % w->shape[d];
        offset += i * w->stride[d];
        at = (at - i) / w->shape[d];
    }
    return offset;
}

bool tpi_walk_is_packed(const tpi_walk *w, int64_t size) {
    for (int d = 0; d < w->ndim; d++) {
        if (w->stride[d] != size) return false;
        size *= w->shape[d];
    }
    return true;
}

/* A position in a walk, moved forward by pieces of its two fastest dimensions. */
typedef struct cursor {
    int64_t index[TP_MAX_DIMS];
    int64_t offset;
} cursor;

static void cursor_set(cursor *c, const tpi_walk *w, int64_t at) {
    c->offset = 0;
    for (int d = 0; d < w->ndim; d++) {
        c->index[d] = at % w->shape[d];
        at /= w->shape[d];
        c->offset += c->index[d] * w->stride[d];
    }
}

/* The largest piece of at most n elements that is rows x cols in the two fastest dimensions. */
static void cursor_piece(const cursor *c, const tpi_walk *w, int64_t n, int64_t *rows, int64_t *cols) {
    *rows = 1;
    *cols = 1;
    if (w->ndim == 0) return;
    int64_t left = w->shape[0] - c->index[0];
    *cols = left < n ? left : n;
    if (w->ndim < 2 || c->index[0] || n < 2 * w->shape[0]) return;
    int64_t most = w->shape[1] - c->index[1], wanted = n / w->shape[0];
    *rows = most < wanted ? most : wanted;
}

static void cursor_advance(cursor *c, const tpi_walk *w, int64_t rows, int64_t cols) {
    if (w->ndim == 0) return;
    int d = rows == 1 ? 0 : 1; /* the dimension that moves */
    int64_t by = rows == 1 ? cols : rows;
    c->index[d] += by;
    c->offset += by * w->stride[d];
    for (; d < w->ndim - 1 && c->index[d] == w->shape[d]; d++) {
        c->offset += w->stride[d + 1] - c->index[d] * w->stride[d];
        c->index[d] = 0;
        c->index[d + 1]++;
    }
}

/* n elements from the cursor on, same dtype: packed into the block or unpacked from it. */
static void move_packed(cursor *c, const tpi_walk *w, int64_t n, char *data, char *block, int size, bool store) {
    int64_t row = w->ndim > 1 ? w->stride[1] : 0, col = w->ndim > 0 ? w->stride[0] : size;
    while (n > 0) {
        int64_t rows, cols;
        cursor_piece(c, w, n, &rows, &cols);
        if (store)
            TPI_ISA_PICK(tpi_unpack_rows)(rows, cols, block, data + c->offset, row, col, size);
        else
            TPI_ISA_PICK(tpi_pack_rows)(rows, cols, data + c->offset, row, col, block, size);
        cursor_advance(c, w, rows, cols);
        block += rows * cols * size;
        n -= rows * cols;
    }
}

void tpi_load_walk(const tpi_walk *w, int64_t at, int64_t n, const char *data, int from, char *dst, int to) {
    int in = tpi_dtype_bytes[from], out = tpi_dtype_bytes[to];
    if (tpi_walk_is_packed(w, in)) {
        TPI_ISA_PICK(tpi_convert_run)(n, data + at * in, from, dst, to);
        return;
    }
    cursor c;
    cursor_set(&c, w, at);
    if (from == to) {
        move_packed(&c, w, n, (char *)data, dst, in, false);
        return;
    }
    _Alignas(64) char packed[BETWEEN * 16];
    for (int64_t i = 0; i < n; i += BETWEEN) {
        int64_t m = n - i < BETWEEN ? n - i : BETWEEN;
        move_packed(&c, w, m, (char *)data, packed, in, false);
        TPI_ISA_PICK(tpi_convert_run)(m, packed, from, dst + i * out, to);
    }
}

void tpi_store_walk(const tpi_walk *w, int64_t at, int64_t n, const char *src, int from, char *data, int to) {
    int in = tpi_dtype_bytes[from], out = tpi_dtype_bytes[to];
    if (tpi_walk_is_packed(w, out)) {
        TPI_ISA_PICK(tpi_convert_run)(n, src, from, data + at * out, to);
        return;
    }
    cursor c;
    cursor_set(&c, w, at);
    if (from == to) {
        move_packed(&c, w, n, data, (char *)src, out, true);
        return;
    }
    _Alignas(64) char packed[BETWEEN * 16];
    for (int64_t i = 0; i < n; i += BETWEEN) {
        int64_t m = n - i < BETWEEN ? n - i : BETWEEN;
        TPI_ISA_PICK(tpi_convert_run)(m, src + i * in, from, packed, to);
        move_packed(&c, w, m, data, packed, out, true);
    }
}
