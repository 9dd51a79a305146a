/* Transforms of single lines, for one type: included by fft.isa.c behind fft_kernels.h's names, with V, the lanes of a
 * vector of T, defined.
 *
 * The first stage has a stride of one: a vector holds neighbouring elements, and its vectors of results, turned over,
 * are rows of results that lie one behind the other. All stages after it have strides of V and more, so every vector is
 * a whole one, and a line of some thousand elements stays in the first cache. Either the first radix is V, or half or a
 * quarter of it: then a vector's halves or quarters belong to two or four lines. */
#define LOW_(l, d)     ((l) & (d) ? V + (l) - (d) : (l))
#define HIGH_(l, d)    ((l) & (d) ? V + (l) : (l) + (d))
#define BACKWARD(l, d) (V - 1 - (l))
#define REPEATED(l, d) ((l) % (d))

/* Rows and columns of squares of `width` by `width` change places, one bit of their numbers at a time. */
#define TRANSPOSE_BIT(d)                                                              \
    if ((d) < width) {                                                                \
        UNROLL                                                                        \
        for (int i = 0; i < width; i++)                                               \
            if (!(i & (d))) {                                                         \
                const F(vector) upper = x[i], lower = x[i + (d)];                     \
                x[i] = __builtin_shufflevector(upper, lower, LANES_(LOW_, d));        \
                x[i + (d)] = __builtin_shufflevector(upper, lower, LANES_(HIGH_, d)); \
            }                                                                         \
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

typedef T F(half) __attribute__((vector_size(V / 2 * sizeof(T))));
#if V >= 8
typedef T F(quarter) __attribute__((vector_size(V / 4 * sizeof(T))));
#endif

/* A vector of `width` factors, again for each line. gcc doubles vectors, but would take a quarter through memory. */
INLINE F(vector) F(factors)(const int width, const T *from) {
    F(half) x;
    if (width == V) return F(get)(from);
#if V >= 8
    if (width == V / 4) {
        F(quarter) part;
        memcpy(&part, from, sizeof part);
#if V == 16
        x = __builtin_shufflevector(part, part, 0, 1, 2, 3, 0, 1, 2, 3);
#else
        x = __builtin_shufflevector(part, part, 0, 1, 0, 1);
#endif
    } else
#endif
        memcpy(&x, from, sizeof x);
    return __builtin_shufflevector(x, x, LANES_(REPEATED, V / 2));
}

/* V / width lines' elements from e on, side by side. */
INLINE void F(take_lines)(F(order) o, const int width, const T *const *from, int64_t e, F(vector) * r, F(vector) * i) {
    const T *second = width == V ? from[0] + V : from[1];
    if (width >= V / 2) {
        F(split)(o, from[0] + 2 * e, second - from[0], r, i);
        return;
    }
#if V >= 8
    F(half) part[4];
    UNROLL
    for (int l = 0; l < 4; l++) memcpy(&part[l], from[l] + 2 * e, sizeof part[l]);
    const F(vector) pair[2] = {__builtin_shufflevector(part[0], part[1], LANES_(LANE_, 0)),
                               __builtin_shufflevector(part[2], part[3], LANES_(LANE_, 0))};
    F(split)(o, (const T *)pair, V, r, i);
#endif
}

/* The first stage, of radix `width`, from complex numbers as they lie in memory. The last elements are taken together
 * with some that were there before. */
INLINE void F(first_stage)(const tpi_fft_plan *plan, const int width, const T *const *from, bool swapped, T *yr,
                           T *yi) {
    const int64_t m = plan->n / width;
    const T *table = (const T *)plan->tables + 2 * plan->stage[0].twiddles;
    const F(order) o = F(order_of)(swapped);
    for (int64_t next = 0; next < m; next += width) {
        const int64_t p = next < m - width ? next : m - width;
        F(vector) r[V], i[V], xr[V], xi[V];
        UNROLL
        for (int k = 0; k < width; k++) F(take_lines)(o, width, from, p + m * k, r + k, i + k);
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

void TPI_ISA(F(tpi_fft_line))(const tpi_fft_plan *plan, const T *const *from, T *const *to, T scale, bool swapped,
                              T **work) {
    const int64_t together = plan->together;
    const tpi_fft_ends ends = {.to = together == 4 ? work[4] : to[0],
                               .to_step = together == 2 ? to[1] - to[0] : 0,
                               .scale = scale,
                               .swapped = swapped};
    T *stage[4] = {work[0], work[1], work[2], work[3]};
    if (V >= 8 && together == 4)
        F(first_stage)(plan, V / 4, from, swapped, stage[0], stage[1]);
    else if (V >= 4 && together == 2)
        F(first_stage)(plan, V / 2, from, swapped, stage[0], stage[1]);
    else
        F(first_stage)(plan, V, from, swapped, stage[0], stage[1]);
    F(run_stages)(plan, 1, V, &ends, stage);
    if (together == 4) /* V / 4 elements of each line in turn */
        for (int64_t at = 0; at < 2 * plan->n; at += V / 2) {
            UNROLL
            for (int l = 0; l < 4; l++) memcpy(to[l] + at, work[4] + 4 * at + l * (V / 2), V / 2 * sizeof(T));
        }
}

INLINE F(vector) F(backward)(F(vector) x) { return __builtin_shufflevector(x, x, LANES_(BACKWARD, 0)); }

/* Elements k and on of z, and those from the other end, in the opposite order. */
INLINE void F(split_ends)(F(order) o, const T *z, int64_t k, int64_t other, F(vector) * ar, F(vector) * ai,
                          F(vector) * br, F(vector) * bi) {
    F(split)(o, z + 2 * k, V, ar, ai);
    F(split)(o, z + 2 * other, V, br, bi);
    *br = F(backward)(*br);
    *bi = F(backward)(*bi);
}

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
        F(split)(o, half + 2 * k, V, &wr, &wi);
        F(split_ends)(o, z, k, other, &ar, &ai, &br, &bi);
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
        F(split)(o, half + 2 * k, V, &wr, &wi);
        F(split_ends)(o, x, k, other, &ar, &ai, &br, &bi);
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
#undef REPEATED
#undef TRANSPOSE_BIT
