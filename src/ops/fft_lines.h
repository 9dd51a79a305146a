/* Lines between tensors and the FFT's work arrays, for one type: included by fft.c with T and NAME defined.
 * work[0] and work[1] hold real and imaginary parts, element k of lane l at [k * lanes + l]. */
#define JOIN__(a, b) a##b
#define JOIN_(a, b) JOIN__(a, b)
#define F(name) JOIN_(name, NAME)

/* A complex line of n elements, `stride` bytes apart. */
static void F(read_complex)(int64_t n, const char *from, int64_t stride, int64_t lanes, int64_t l, T *re, T *im) {
    for (int64_t k = 0; k < n; k++, from += stride) re[k * lanes + l] = ((const T *)from)[0], im[k * lanes + l] = ((const T *)from)[1];
}

static void F(write_complex)(int64_t n, char *to, int64_t stride, int64_t lanes, int64_t l, const T *re, const T *im, T scale) {
    for (int64_t k = 0; k < n; k++, to += stride) ((T *)to)[0] = scale * re[k * lanes + l], ((T *)to)[1] = scale * im[k * lanes + l];
}

/* A real line of 2h elements as h complex ones, or (odd lengths) of n elements with no imaginary part. */
static void F(read_real)(int64_t n, bool even, const char *from, int64_t stride, int64_t lanes, int64_t l, T *re, T *im) {
    if (even)
        for (int64_t k = 0; k < n / 2; k++, from += 2 * stride) re[k * lanes + l] = *(const T *)from, im[k * lanes + l] = *(const T *)(from + stride);
    else
        for (int64_t k = 0; k < n; k++, from += stride) re[k * lanes + l] = *(const T *)from, im[k * lanes + l] = 0;
}

static void F(write_real)(int64_t n, bool even, char *to, int64_t stride, int64_t lanes, int64_t l, const T *re, const T *im, T scale) {
    if (even)
        for (int64_t k = 0; k < n / 2; k++, to += 2 * stride) *(T *)to = scale * re[k * lanes + l], *(T *)(to + stride) = scale * im[k * lanes + l];
    else
        for (int64_t k = 0; k < n; k++, to += stride) *(T *)to = scale * re[k * lanes + l];
}

/* A real line of 2h elements was transformed as Z, h complex ones. With w = exp(-i pi k / h), X[k] = E + w O where
 * E = (Z[k] + conj Z[h-k]) / 2 transforms the even elements and O = (Z[k] - conj Z[h-k]) / 2i the odd ones. Writes X[0 .. h]. */
static void F(write_half)(int64_t h, const T *half, char *to, int64_t stride, int64_t lanes, int64_t l, const T *re, const T *im, T scale) {
    for (int64_t k = 0; k <= h; k++, to += stride) {
        int64_t a = (k == h ? 0 : k) * lanes + l, b = (k == 0 ? 0 : h - k) * lanes + l;
        T er = (re[a] + re[b]) / 2, ei = (im[a] - im[b]) / 2, or_ = (im[a] + im[b]) / 2, oi = (re[b] - re[a]) / 2;
        T wr = half[2 * k], wi = half[2 * k + 1];
        ((T *)to)[0] = scale * (er + wr * or_ - wi * oi), ((T *)to)[1] = scale * (ei + wr * oi + wi * or_);
    }
}

/* The way back: Z[k] = 2 E + 2 i O from X[0 .. h]. The imaginary parts of X[0] and X[h] do not count. */
static void F(read_half)(int64_t h, const T *half, const char *from, int64_t stride, int64_t lanes, int64_t l, T *re, T *im) {
    for (int64_t k = 0; k < h; k++) {
        const T *x = (const T *)(from + k * stride), *y = (const T *)(from + (h - k) * stride);
        T xr = x[0], xi = k ? x[1] : 0, yr = y[0], yi = k ? -y[1] : 0; /* y: the conjugate of X[h-k] */
        T dr = xr - yr, di = xi - yi, wr = half[2 * k], wi = -half[2 * k + 1];
        T or_ = wr * dr - wi * di, oi = wr * di + wi * dr;
        re[k * lanes + l] = xr + yr - oi, im[k * lanes + l] = xi + yi + or_;
    }
}

/* An odd length: the other half is the conjugate of the first. */
static void F(read_mirrored)(int64_t n, const char *from, int64_t stride, int64_t lanes, int64_t l, T *re, T *im) {
    re[l] = *(const T *)from, im[l] = 0;
    for (int64_t k = 1; k <= n / 2; k++) {
        const T *x = (const T *)(from + k * stride);
        re[k * lanes + l] = re[(n - k) * lanes + l] = x[0];
        im[k * lanes + l] = x[1], im[(n - k) * lanes + l] = -x[1];
    }
}

/* Up to j->lanes lines from j->walk's place on. */
static void F(run_lines)(const job *j, tpi_walk *walk, int64_t lanes, T **work) {
    const T *half = (const T *)j->plan->tables + 2 * j->plan->half;
    int64_t from[MOST_LANES], to[MOST_LANES];
    for (int64_t l = 0; l < lanes; l++) {
        from[l] = walk->offset[0], to[l] = walk->offset[1];
        tpi_walk_next(walk);
        if (j->kind == COMPLEX) F(read_complex)(j->n, j->from + from[l], j->from_stride, lanes, l, work[0], work[1]);
        else if (j->kind == FROM_REAL) F(read_real)(j->n, j->even, j->from + from[l], j->from_stride, lanes, l, work[0], work[1]);
        else if (j->even) F(read_half)(j->n / 2, half, j->from + from[l], j->from_stride, lanes, l, work[0], work[1]);
        else F(read_mirrored)(j->n, j->from + from[l], j->from_stride, lanes, l, work[0], work[1]);
    }
    T *arrays[4] = {work[j->forward ? 0 : 1], work[j->forward ? 1 : 0], work[2], work[3]};
    F(run_plan)(j->plan, lanes, arrays);
    const T *re = arrays[j->forward ? 0 : 1], *im = arrays[j->forward ? 1 : 0];
    T scale = (T)j->scale;
    for (int64_t l = 0; l < lanes; l++) {
        if (j->kind == COMPLEX) F(write_complex)(j->n, j->to + to[l], j->to_stride, lanes, l, re, im, scale);
        else if (j->kind == TO_REAL) F(write_real)(j->n, j->even, j->to + to[l], j->to_stride, lanes, l, re, im, scale);
        else if (j->even) F(write_half)(j->n / 2, half, j->to + to[l], j->to_stride, lanes, l, re, im, scale);
        else F(write_complex)(j->n / 2 + 1, j->to + to[l], j->to_stride, lanes, l, re, im, scale);
    }
}

#undef JOIN__
#undef JOIN_
#undef F
