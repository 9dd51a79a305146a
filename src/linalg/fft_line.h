/* The transform of one line, for one type: included by fft.isa.c behind fft_kernels.h's names, with V, the lanes of a
 * vector of T, defined.
 *
 * The first stage has radix V and a stride of one: a vector holds V neighbouring elements, and V vectors of results,
 * turned over, are V rows of V that lie one behind the other. All stages after it have strides of V and more, so every
 * vector is a whole one, and a line of some thousand elements stays in the first cache. */
/* One shuffle's lanes: M gives each of them from its number and d. */
#if V == 16
#define LANES_(M, d)                                                                                              \
    M(0, d), M(1, d), M(2, d), M(3, d), M(4, d), M(5, d), M(6, d), M(7, d), M(8, d), M(9, d), M(10, d), M(11, d), \
        M(12, d), M(13, d), M(14, d), M(15, d)
#elif V == 8
#define LANES_(M, d) M(0, d), M(1, d), M(2, d), M(3, d), M(4, d), M(5, d), M(6, d), M(7, d)
#elif V == 4
#define LANES_(M, d) M(0, d), M(1, d), M(2, d), M(3, d)
#else
#define LANES_(M, d) M(0, d), M(1, d)
#endif
#define LOW_(l, d)      ((l) & (d) ? V + (l) - (d) : (l))
#define HIGH_(l, d)     ((l) & (d) ? V + (l) : (l) + (d))
#define ALTERNATE(l, d) (2 * (l) + (d))

/* Rows and columns of a square of V by V change places, one bit of their numbers at a time. */
#define TRANSPOSE_BIT(d)                                                          \
    UNROLL                                                                        \
    for (int i = 0; i < V; i++)                                                   \
        if (!(i & (d))) {                                                         \
            const F(vector) upper = x[i], lower = x[i + (d)];                     \
            x[i] = __builtin_shufflevector(upper, lower, LANES_(LOW_, d));        \
            x[i + (d)] = __builtin_shufflevector(upper, lower, LANES_(HIGH_, d)); \
        }
INLINE void F(transpose)(F(vector) * x) {
    TRANSPOSE_BIT(1)
#if V >= 4
    TRANSPOSE_BIT(2)
#endif
#if V >= 8
    TRANSPOSE_BIT(4)
#endif
#if V >= 16
    TRANSPOSE_BIT(8)
#endif
}

INLINE void F(two)(F(vector) * r, F(vector) * i, int a, int b) {
    const F(vector) ar = r[a], ai = i[a];
    r[a] = ar + r[b];
    i[a] = ai + i[b];
    r[b] = ar - r[b];
    i[b] = ai - i[b];
}

/* The transform of four vectors, in place. */
INLINE void F(four)(F(vector) * r, F(vector) * i, int a, int b, int c, int d) {
    const F(vector) er = r[a] + r[c], ei = i[a] + i[c], fr = r[a] - r[c], fi = i[a] - i[c];
    const F(vector) gr = r[b] + r[d], gi = i[b] + i[d], hr = r[b] - r[d], hi = i[b] - i[d];
    r[a] = er + gr;
    i[a] = ei + gi;
    r[b] = fr + hi;
    i[b] = fi - hr;
    r[c] = er - gr;
    i[c] = ei - gi;
    r[d] = fr - hi;
    i[d] = fi + hr;
}

INLINE void F(times)(F(vector) * r, F(vector) * i, F(vector) wr, F(vector) wi) {
    const F(vector) re = *r;
    *r = F(fma)(re, wr, -(*i * wi));
    *i = F(fma)(re, wi, *i * wr);
}

/* V vectors' transform, in place: by columns of V / 4, a turn of each element by its row and column, and rows of four
 * or two. Result k ends up at PLACE(k). */
#define COLUMNS     (V >= 4 ? V / 4 : 1)
#define POSITION(k) (V >= 4 ? COLUMNS * ((k) % 4) + (k) / 4 : (k))
INLINE void F(transform_vectors)(F(vector) * r, F(vector) * i) {
    static const T sixteenths[] = {
        1,  (T)0.92387953251128675613,  (T)0.70710678118654752440,  (T)0.38268343236508977173,
        0,  (T)-0.38268343236508977173, (T)-0.70710678118654752440, (T)-0.92387953251128675613,
        -1, (T)-0.92387953251128675613};
    if (V == 2) {
        F(two)(r, i, 0, 1);
        return;
    }
    UNROLL
    for (int j = 0; j < COLUMNS; j++) F(four)(r, i, j, j + COLUMNS, j + 2 * COLUMNS, j + 3 * COLUMNS);
    UNROLL
    for (int k = COLUMNS; k < V; k++) {
        const int angle = k / COLUMNS * (k % COLUMNS) * (16 / V); /* sixteenths of a circle: 0 to 9, as exp(-i angle) */
        const F(vector) zero = {0};
        if (angle)
            F(times)(r + k, i + k, sixteenths[angle] + zero, -sixteenths[angle < 4 ? 4 - angle : angle - 4] + zero);
    }
    UNROLL
    for (int k = 0; k < V && COLUMNS > 1; k += COLUMNS)
        if (COLUMNS == 4)
            F(four)(r, i, k, k + 1, k + 2, k + 3);
        else
            F(two)(r, i, k, k + 1);
}

/* The first stage, from complex numbers as they lie in memory; `swapped`: real parts are taken for imaginary ones. The
 * last elements are taken together with some that were there before. */
INLINE void F(first_stage)(const tpi_fft_plan *plan, const T *from, bool swapped, T *yr, T *yi) {
    const int64_t m = plan->n / V;
    const T *table = (const T *)plan->tables + 2 * plan->stage[0].twiddles;
    for (int64_t next = 0; next < m; next += V) {
        const int64_t p = next < m - V ? next : m - V;
        F(vector) r[V], i[V], xr[V], xi[V];
        UNROLL
        for (int k = 0; k < V; k++) {
            const F(vector) first = F(get)(from + 2 * (p + m * k)), second = F(get)(from + 2 * (p + m * k) + V);
            r[k] = __builtin_shufflevector(first, second, LANES_(ALTERNATE, 0));
            i[k] = __builtin_shufflevector(first, second, LANES_(ALTERNATE, 1));
        }
        if (swapped)
            F(transform_vectors)(i, r);
        else
            F(transform_vectors)(r, i);
        UNROLL
        for (int k = 0; k < V; k++) {
            xr[k] = swapped ? i[POSITION(k)] : r[POSITION(k)];
            xi[k] = swapped ? r[POSITION(k)] : i[POSITION(k)];
            if (k) F(times)(xr + k, xi + k, F(get)(table + (2 * k - 2) * m + p), F(get)(table + (2 * k - 1) * m + p));
        }
        F(transpose)(xr);
        F(transpose)(xi);
        UNROLL
        for (int l = 0; l < V; l++) {
            F(put)(yr + (p + l) * V, xr[l]);
            F(put)(yi + (p + l) * V, xi[l]);
        }
    }
}

void TPI_ISA(F(tpi_fft_line))(const tpi_fft_plan *plan, const T *from, bool swapped, T **work) {
    if (swapped)
        F(first_stage)(plan, from, true, work[0], work[1]);
    else
        F(first_stage)(plan, from, false, work[0], work[1]);
    F(run_stages)(plan, 1, V, work);
}

/* tpi_fft_make_half of one line: complex numbers as they lie in memory, times scale. */
void TPI_ISA(F(tpi_fft_make_half_line))(int64_t h, const T *half, const T *re, const T *im, T scale, T *restrict to) {
    to[0] = scale * (re[0] + im[0]);
    to[1] = 0;
    to[2 * h] = scale * (re[0] - im[0]);
    to[2 * h + 1] = 0;
    INDEPENDENT
    for (int64_t k = 1; k < h; k++) {
        const T er = (re[k] + re[h - k]) / 2, ei = (im[k] - im[h - k]) / 2;
        const T or_ = (im[k] + im[h - k]) / 2, oi = (re[h - k] - re[k]) / 2;
        const T wr = half[2 * k], wi = half[2 * k + 1];
        to[2 * k] = scale * (er + wr * or_ - wi * oi);
        to[2 * k + 1] = scale * (ei + wr * oi + wi * or_);
    }
}

/* tpi_fft_load_half of one line, to complex numbers as they lie in memory. */
void TPI_ISA(F(tpi_fft_load_half_line))(int64_t h, const T *half, const T *from, T *restrict to) {
    to[0] = from[0] + from[2 * h];
    to[1] = from[0] - from[2 * h];
    INDEPENDENT
    for (int64_t k = 1; k < h; k++) {
        const T ar = from[2 * k], ai = from[2 * k + 1], br = from[2 * (h - k)], bi = -from[2 * (h - k) + 1];
        const T wr = half[2 * k], wi = -half[2 * k + 1];
        const T dr = ar - br, di = ai - bi;
        to[2 * k] = ar + br - (wr * di + wi * dr);
        to[2 * k + 1] = ai + bi + (wr * dr - wi * di);
    }
}

#undef LANES_
#undef LOW_
#undef HIGH_
#undef ALTERNATE
#undef TRANSPOSE_BIT
#undef COLUMNS
#undef POSITION
