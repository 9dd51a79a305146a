/* The bodies of resample.isa.c, included once per element type with REAL and K(name) defined. One row each: (in, inner)
 * and (out, inner). */

void TPI_ISA(K(tpi_resample))(const tpi_taps *t, int64_t inner, const REAL *x, REAL *y) {
    for (int64_t o = 0; o < t->out; o++, y += inner) {
        const int64_t *index = t->index + o * t->width;
        const double *weight = t->weight + o * t->width;
        REAL w = (REAL)weight[0];
        const REAL *from = x + index[0] * inner;
        if (t->width == 1 && w == 1) {
            for (int64_t i = 0; i < inner; i++) y[i] = from[i];
            continue;
        }
        for (int64_t i = 0; i < inner; i++) y[i] = w * from[i];
        for (int64_t k = 1; k < t->width; k++) {
            w = (REAL)weight[k], from = x + index[k] * inner;
            if (w == 0) continue;
            for (int64_t i = 0; i < inner; i++) y[i] += w * from[i];
        }
    }
}

void TPI_ISA(K(tpi_resample_back))(const tpi_taps *t, int64_t inner, const REAL *y, REAL *x) {
    for (int64_t o = 0; o < t->out; o++, y += inner)
        for (int64_t k = 0; k < t->width; k++) {
            REAL w = (REAL)t->weight[o * t->width + k], *to = x + t->index[o * t->width + k] * inner;
            if (w == 0) continue;
            for (int64_t i = 0; i < inner; i++) to[i] += w * y[i];
        }
}
