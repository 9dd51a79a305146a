/* Transforms of single lines, for one type: included by fft.isa.c behind fft_kernels.h's names, with V, the lanes of a
 * vector of T, defined.
 *
 * The first stage has a stride of one: a vector holds neighbouring elements, and its vectors of results, turned over,
 * are rows of results that lie one behind the other. All stages after it have strides of V and more, so every vector is
 * a whole one, and a line of some thousand elements stays in the first cache. Either the first radix is V, or half of
 * it: then each half of a vector belongs to one of two lines. */
#define LOW_(l, d)     ((l) & (d) ? V + (l) - (d) : (l))
#define HIGH_(l, d)    ((l) & (d) ? V + (l) : (l) + (d))
#define BACKWARD(l, d) (V - 1 - (l))
#define TWICE(l, d)    ((l) % (V / 2))

/* Rows and columns of squares of `width` by `width` change places, one bit of their numbers at a time. */
#define TRANSPOSE_BIT(d)                                                          \
    UNROLL                                                                        \
    for (int i = 0; i < width; i++)                                               \
        if (!(i & (d)) && (d) < width) {                                          \
            const F(vector) upper = x[i], lower = x[i + (d)];                     \
            x[i] = __builtin_shufflevector(upper, lower, LANES_(LOW_, d));        \
            x[i + (d)] = __builtin_shufflevector(upper, lower, LANES_(HIGH_, d)); \
        }
INLINE void F(transpose)(const int width, F(vector) * x) {
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

/* A vector of factors, or half a one for both lines. */
typedef T F(half) __attribute__((vector_size(V / 2 * sizeof(T))));
INLINE F(vector) F(factors)(const int width, const T *from) {
    if (width == V) return F(get)(from);
    F(half) x;
    memcpy(&x, from, sizeof x);
    return __builtin_shufflevector(x, x, LANES_(TWICE, 0));
}

/* The first stage, of radix `width`, from complex numbers as they lie in memory, the second line `apart` numbers behind
 * the first. The last elements are taken together with some that were there before. */
INLINE void F(first_stage)(const tpi_fft_plan *plan, const int width, const tpi_fft_ends *ends, T *yr, T *yi) {
    const int64_t m = plan->n / width, apart = width == V ? V : ends->from_step;
    const T *table = (const T *)plan->tables + 2 * plan->stage[0].twiddles, *from = ends->from;
    const F(order) o = F(order_of)(ends->swapped);
    for (int64_t next = 0; next < m; next += width) {
        const int64_t p = next < m - width ? next : m - width;
        F(vector) r[V], i[V], xr[V], xi[V];
        UNROLL
        for (int k = 0; k < width; k++) F(split)(o, from + 2 * (p + m * k), apart, r + k, i + k);
        F(butterfly)(width, r, i);
        UNROLL
        for (int k = 0; k < width; k++) {
            xr[k] = r[PLACE(width, k)];
            xi[k] = i[PLACE(width, k)];
            if (k) {
                const T *w = table + (2 * k - 2) * m + p;
                F(times)(xr + k, xi + k, F(factors)(width, w), F(factors)(width, w + m));
            }
        }
        F(transpose)(width, xr);
        F(transpose)(width, xi);
        UNROLL
        for (int l = 0; l < width; l++) {
            F(put)(yr + (p + l) * V, xr[l]);
            F(put)(yi + (p + l) * V, xi[l]);
        }
    }
}

void TPI_ISA(F(tpi_fft_line))(const tpi_fft_plan *plan, const tpi_fft_ends *ends, T **work) {
    if (V == 2 || plan->first == V)
        F(first_stage)(plan, V, ends, work[0], work[1]);
    else
        F(first_stage)(plan, V / 2, ends, work[0], work[1]);
    F(run_stages)(plan, 1, V, ends, work);
}

INLINE F(vector) F(backward)(F(vector) x) { return __builtin_shufflevector(x, x, LANES_(BACKWARD, 0)); }

/* Between Z, the transform of a real line's even and odd elements as one complex line of half the length h, and X, that
 * of the real line, times scale. Results k and h - k at a time, which are E + w O and the conjugate of E - w O. */
void TPI_ISA(F(tpi_fft_make_half_line))(int64_t h, const T *half, const T *z, T scale, T *x) {
    const F(order) o = F(order_of)(false);
    x[0] = scale * (z[0] + z[1]);
    x[1] = 0;
    x[2 * h] = scale * (z[0] - z[1]);
    x[2 * h + 1] = 0;
    for (int64_t k = 1; k <= h / 2; k += V) {
        const int64_t other = h - k - V + 1;
        F(vector) ar, ai, br, bi, wr, wi;
        F(split)(o, z + 2 * k, V, &ar, &ai);
        F(split)(o, z + 2 * other, V, &br, &bi);
        F(split)(o, half + 2 * k, V, &wr, &wi);
        br = F(backward)(br);
        bi = F(backward)(bi);
        const F(vector) er = (ar + br) * (scale / 2), ei = (ai - bi) * (scale / 2);
        F(vector) tr = (ai + bi) * (scale / 2), ti = (br - ar) * (scale / 2);
        F(times)(&tr, &ti, wr, wi);
        F(join)(o, x + 2 * k, V, er + tr, ei + ti);
        F(join)(o, x + 2 * other, V, F(backward)(er - tr), F(backward)(ti - ei));
    }
}

void TPI_ISA(F(tpi_fft_load_half_line))(int64_t h, const T *half, const T *x, T *z) {
    const F(order) o = F(order_of)(false);
    z[0] = x[0] + x[2 * h];
    z[1] = x[0] - x[2 * h];
    for (int64_t k = 1; k <= h / 2; k += V) {
        const int64_t other = h - k - V + 1;
        F(vector) ar, ai, br, bi, wr, wi;
        F(split)(o, x + 2 * k, V, &ar, &ai);
        F(split)(o, x + 2 * other, V, &br, &bi);
        F(split)(o, half + 2 * k, V, &wr, &wi);
        br = F(backward)(br);
        bi = F(backward)(bi);
        const F(vector) er = ar + br, ei = ai - bi;
        F(vector) tr = ar - br, ti = ai + bi;
        F(times)(&tr, &ti, wr, -wi);
        F(join)(o, z + 2 * k, V, er - ti, ei + tr);
        F(join)(o, z + 2 * other, V, F(backward)(er + ti), F(backward)(tr - ei));
    }
}

#undef LOW_
#undef HIGH_
#undef BACKWARD
#undef TWICE
#undef TRANSPOSE_BIT
