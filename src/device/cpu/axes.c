/* Sorting and merging the dims of reductions and scans; see axes.h. */
#include "device/cpu/axes.h"
#include <stdlib.h>

static void swap_axes(tpi_axes *a, int i, int j, int nout) {
    int64_t *lists[2 + TPI_AXES_OUTS] = {a->size, a->x, a->out[0], a->out[1], a->out[2], a->out[3]};
    for (int k = 0; k < 2 + nout; k++) {
        int64_t moved = lists[k][i];
        lists[k][i] = lists[k][j], lists[k][j] = moved;
    }
}

static bool continues(const tpi_axes *a, int inner, int outer, int nout) {
    if (a->x[outer] != a->x[inner] * a->size[inner]) return false;
    for (int k = 0; k < nout; k++)
        if (a->out[k][outer] != a->out[k][inner] * a->size[inner]) return false;
    return true;
}

void tpi_axes_take(tpi_axes *a, const tp_tensor *x, int nout, tp_tensor *const *outs, const bool *mask, bool which, bool in_order) {
    a->ndim = 0, a->total = 1;
    int before = 0; /* dims taken that come before d: d's place in a result that has only these */
    for (int d = 0; d < x->ndim; d++) before += mask[d] == which;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (mask[d] != which) continue;
        before--;
        a->total *= x->shape[d];
        if (x->shape[d] == 1) continue;
        int at = a->ndim++;
        a->size[at] = x->shape[d], a->x[at] = x->strides[d] * (int64_t)tpi_itemsize(x);
        for (int k = 0; k < nout; k++) a->out[k][at] = outs[k]->strides[outs[k]->ndim == x->ndim ? d : before] * (int64_t)tpi_itemsize(outs[k]);
    }
    for (int i = 1; i < a->ndim && !in_order; i++)
        for (int j = i; j > 0 && llabs(a->x[j]) < llabs(a->x[j - 1]); j--) swap_axes(a, j, j - 1, nout);
    int last = 0;
    for (int i = 1; i < a->ndim; i++) {
        if (continues(a, last, i, nout)) a->size[last] *= a->size[i];
        else if (++last != i) swap_axes(a, last, i, nout);
    }
    if (a->ndim) a->ndim = last + 1;
}

int64_t tpi_columns_blocks(const tpi_axes *kept, int64_t width) {
    if (kept->ndim == 0 || kept->total == 0) return kept->total;
    return (kept->size[0] + width - 1) / width * (kept->total / kept->size[0]);
}

tpi_columns tpi_columns_at(const tpi_axes *kept, const tp_tensor *x, int nout, tp_tensor *const *outs, int64_t width, int64_t block) {
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
