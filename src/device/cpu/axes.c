/* Sorting and merging the dims of reductions and scans, and their states; see axes.h. */
#include "device/cpu/axes.h"
#include "device/launch.h"
#include <stdlib.h>

static void swap_axes(tpi_axes *a, int i, int j, int nout) {
    int64_t *lists[2 + TPI_AXES_OUTS] = {a->size, a->x, a->out[0], a->out[1], a->out[2], a->out[3]};
    for (int k = 0; k < 2 + nout; k++) {
        int64_t moved = lists[k][i];
        lists[k][i] = lists[k][j];
        lists[k][j] = moved;
    }
}

/* Sizes and strides of a tensor without elements may be any, and nobody follows them: their products wrap. */
static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static bool continues(const tpi_axes *a, int inner, int outer, int nout) {
    if (a->x[outer] != times(a->x[inner], a->size[inner])) return false;
    for (int k = 0; k < nout; k++)
        if (a->out[k][outer] != times(a->out[k][inner], a->size[inner])) return false;
    return true;
}

void tpi_axes_select(tpi_axes *a, const tp_tensor *x, int nout, tp_tensor *const *outs, const bool *mask, bool which,
                     bool in_order) {
    a->ndim = 0;
    a->total = 1;
    int before = 0; /* dims taken that come before d: d's place in a result that has only these */
    for (int d = 0; d < x->ndim; d++) before += mask[d] == which;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (mask[d] != which) continue;
        before--;
        a->total = times(a->total, x->shape[d]);
        if (x->shape[d] == 1) continue;
        int at = a->ndim++;
        a->size[at] = x->shape[d];
        a->x[at] = times(x->strides[d], (int64_t)tpi_itemsize(x));
        for (int k = 0; k < nout; k++)
            a->out[k][at] =
                times(outs[k]->strides[outs[k]->ndim == x->ndim ? d : before], (int64_t)tpi_itemsize(outs[k]));
    }
    for (int i = 1; i < a->ndim && !in_order; i++)
        for (int j = i; j > 0 && llabs(a->x[j]) < llabs(a->x[j - 1]); j--) swap_axes(a, j, j - 1, nout);
    int last = 0;
    for (int i = 1; i < a->ndim; i++) {
        if (continues(a, last, i, nout))
            a->size[last] *= a->size[i];
        else if (++last != i)
            swap_axes(a, last, i, nout);
    }
    if (a->ndim) a->ndim = last + 1;
}

int64_t tpi_columns_blocks(const tpi_axes *kept, int64_t width) {
    if (kept->ndim == 0 || kept->total == 0) return kept->total;
    return (kept->size[0] + width - 1) / width * (kept->total / kept->size[0]);
}

tpi_columns tpi_columns_at(const tpi_axes *kept, const tp_tensor *x, int nout, tp_tensor *const *outs, int64_t width,
                           int64_t block) {
    tpi_columns c = {.count = 1, .x = x->data};
    for (int k = 0; k < nout; k++) c.out[k] = outs[k]->data;
    if (kept->ndim == 0) return c;
    int64_t per_run = (kept->size[0] + width - 1) / width, at = block % per_run * width, outer = block / per_run;
    c.first = outer * kept->size[0] + at;
    c.count = kept->size[0] - at < width ? kept->size[0] - at : width;
    for (int d = 0; d < kept->ndim; d++) {
        int64_t i = d == 0 ? at : outer % kept->size[d];
        if (d) outer /= kept->size[d];
        c.x += i * kept->x[d];
        for (int k = 0; k < nout; k++) c.out[k] += i * kept->out[k][d];
    }
    return c;
}

tpi_states tpi_states_for(int n, const uint8_t *types, tpi_ctype compute) {
    tpi_states s = {.n = n};
    for (int v = 0; v < n; v++) s.size[v] = tpi_dtype_bytes[tpi_state_dtype(types[v], compute)];
    return s;
}

bool tpi_states_make(tpi_states *s, int64_t pieces, int64_t columns) {
    size_t offset[TPI_STATES];
    s->columns = columns;
    s->bytes = 0;
    for (int v = 0; v < s->n; v++) {
        offset[v] = s->bytes;
        s->bytes += ((size_t)(pieces * columns * s->size[v]) + TPI_ALIGN - 1) / TPI_ALIGN * TPI_ALIGN;
    }
    if (s->bytes == 0) return true;
    char *block = tpi_alloc(s->bytes);
    if (!block) return false;
    for (int v = 0; v < s->n; v++) s->at[v] = block + offset[v];
    return true;
}

void tpi_states_free(tpi_states *s) {
    if (s->at[0]) tpi_free(s->at[0], s->bytes);
}

void tpi_states_of(const tpi_states *s, const tpi_columns *c, int64_t piece, char **state) {
    for (int v = 0; v < s->n; v++) state[v] = s->at[v] + (piece * s->columns + c->first) * s->size[v];
}
