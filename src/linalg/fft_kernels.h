/* The FFT's kernels for one type: included by fft.isa.c with T (float or double), INDEX (an integer of
 * its size), NAME (a suffix) and V (a vector's lanes) defined.
 *
 * Stockham's autosorting transform, decimation in frequency: a stage of radix r on a length n = r m with stride s reads
 * x[s (p + m k) + q] and writes w^(p k) times the r-point transform to y[s (r p + k) + q], for p < m, q < s. The next
 * stage has length m and stride s r. */
#define JOIN__(a, b) a##b
#define JOIN_(a, b)  JOIN__(a, b)
#define F(name)      JOIN_(name, NAME)
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
#define LANE_(l, d)     (l)
#define ALTERNATE(l, d) (2 * (l) + (d))
#define INTERLACE(l, d) (((l) + (d)) / 2 + (l) % 2 * V)

typedef T F(vector) __attribute__((vector_size(V * sizeof(T))));
typedef INDEX F(lanes) __attribute__((vector_size(V * sizeof(T))));

INLINE F(vector) F(get)(const T *p) {
    F(vector) x;
    memcpy(&x, p, sizeof x);
    return x;
}
INLINE void F(put)(T *p, F(vector) x) { memcpy(p, &x, sizeof x); }

INLINE F(vector) F(fma)(F(vector) a, F(vector) b, F(vector) c) {
#if defined(__AVX512F__)
    if (sizeof(T) == sizeof(double)) return (F(vector))_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
    return (F(vector))_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    if (sizeof(T) == sizeof(double)) return (F(vector))_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
    return (F(vector))_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

typedef struct F(complex_) {
    T re, im;
} F(complex_);

/* ---- Complex numbers in memory, as vectors of real and of imaginary parts ---- */

/* How they lie: as they are, or (swapped) with imaginary parts taken for real ones. A vector of them is two of numbers,
 * the second some numbers apart from the first. */
#if defined(__AVX512F__)
typedef struct F(order) {
    __m512i re, im, low, high;
} F(order);
INLINE F(order) F(order_of)(bool swapped) {
    const F(lanes) each = {LANES_(LANE_, 0)}, low = {LANES_(INTERLACE, 0)}, high = {LANES_(INTERLACE, V)};
    const INDEX turned = (INDEX)swapped;
    return (F(order)){(__m512i)(2 * each + turned), (__m512i)(2 * each + (1 - turned)), (__m512i)(low ^ (turned * V)),
                      (__m512i)(high ^ (turned * V))};
}
INLINE F(vector) F(pick)(F(vector) a, __m512i order, F(vector) b) {
    if (sizeof(T) == sizeof(double)) return (F(vector))_mm512_permutex2var_pd((__m512d)a, order, (__m512d)b);
    return (F(vector))_mm512_permutex2var_ps((__m512)a, order, (__m512)b);
}
INLINE void F(split)(F(order) o, const T *from, int64_t apart, F(vector) * re, F(vector) * im) {
    const F(vector) first = F(get)(from), second = F(get)(from + apart);
    *re = F(pick)(first, o.re, second);
    *im = F(pick)(first, o.im, second);
}
INLINE void F(join)(F(order) o, T *to, int64_t apart, F(vector) re, F(vector) im) {
    F(put)(to, F(pick)(re, o.low, im));
    F(put)(to + apart, F(pick)(re, o.high, im));
}
#else
typedef struct F(order) {
    F(lanes) swapped; /* all ones, or zeros */
} F(order);
INLINE F(order) F(order_of)(bool swapped) {
    const F(lanes) zero = {0};
    return (F(order)){zero - (INDEX)swapped};
}
INLINE void F(swap)(F(order) o, F(vector) * re, F(vector) * im) {
    const F(lanes) other = ((F(lanes)) * re ^ (F(lanes)) * im) & o.swapped;
    *re = (F(vector))((F(lanes)) * re ^ other);
    *im = (F(vector))((F(lanes)) * im ^ other);
}
INLINE void F(split)(F(order) o, const T *from, int64_t apart, F(vector) * re, F(vector) * im) {
    const F(vector) first = F(get)(from), second = F(get)(from + apart);
    *re = __builtin_shufflevector(first, second, LANES_(ALTERNATE, 0));
    *im = __builtin_shufflevector(first, second, LANES_(ALTERNATE, 1));
    F(swap)(o, re, im);
}
INLINE void F(join)(F(order) o, T *to, int64_t apart, F(vector) re, F(vector) im) {
    F(swap)(o, &re, &im);
    F(put)(to, __builtin_shufflevector(re, im, LANES_(INTERLACE, 0)));
    F(put)(to + apart, __builtin_shufflevector(re, im, LANES_(INTERLACE, V)));
}
#endif

/* ---- Transforms of a few vectors, in place ---- */
INLINE void F(times)(F(vector) * r, F(vector) * i, F(vector) wr, F(vector) wi) {
    const F(vector) re = *r;
    *r = F(fma)(re, wr, -(*i * wi));
    *i = F(fma)(re, wi, *i * wr);
}

INLINE void F(two)(F(vector) * r, F(vector) * i, int a, int b) {
    const F(vector) ar = r[a], ai = i[a];
    r[a] = ar + r[b];
    i[a] = ai + i[b];
    r[b] = ar - r[b];
    i[b] = ai - i[b];
}

INLINE void F(three)(F(vector) * r, F(vector) * i) {
    const F(vector) sr = r[1] + r[2], si = i[1] + i[2];
    const F(vector) dr = (T)0.86602540378443864676 * (r[1] - r[2]), di = (T)0.86602540378443864676 * (i[1] - i[2]);
    const F(vector) hr = r[0] - sr / 2, hi = i[0] - si / 2;
    r[0] += sr;
    i[0] += si;
    r[1] = hr + di;
    i[1] = hi - dr;
    r[2] = hr - di;
    i[2] = hi + dr;
}

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

INLINE void F(five)(F(vector) * r, F(vector) * i) {
    const F(vector) zero = {0}, c1 = zero + (T)0.30901699437494742410, c2 = zero - (T)0.80901699437494742410;
    const F(vector) s1 = zero + (T)0.95105651629515357212, s2 = zero + (T)0.58778525229247312917;
    const F(vector) pr = r[1] + r[4], pi = i[1] + i[4], mr = r[1] - r[4], mi = i[1] - i[4];
    const F(vector) ur = r[2] + r[3], ui = i[2] + i[3], vr = r[2] - r[3], vi = i[2] - i[3];
    const F(vector) ar = F(fma)(c2, ur, F(fma)(c1, pr, r[0])), ai = F(fma)(c2, ui, F(fma)(c1, pi, i[0]));
    const F(vector) br = F(fma)(c1, ur, F(fma)(c2, pr, r[0])), bi = F(fma)(c1, ui, F(fma)(c2, pi, i[0]));
    const F(vector) dr = F(fma)(s1, mr, s2 * vr), di = F(fma)(s1, mi, s2 * vi);
    const F(vector) er = F(fma)(s2, mr, -(s1 * vr)), ei = F(fma)(s2, mi, -(s1 * vi));
    r[0] += pr + ur;
    i[0] += pi + ui;
    r[1] = ar + di;
    i[1] = ai - dr;
    r[2] = br + ei;
    i[2] = bi - er;
    r[3] = br - ei;
    i[3] = bi + er;
    r[4] = ar - di;
    i[4] = ai + dr;
}

/* As butterfly_odd, whose comment says how. */
INLINE void F(seven)(F(vector) * r, F(vector) * i) {
    static const T cosine[] = {(T)0.62348980185873353053, (T)-0.22252093395631440429, (T)-0.90096886790241912624};
    static const T sine[] = {(T)0.78183148246802980871, (T)0.97492791218182360702, (T)0.43388373911755812048};
    const F(vector) zero = {0}, ar = r[0], ai = i[0];
    F(vector) sr[3], si[3], dr[3], di[3];
    UNROLL
    for (int j = 0; j < 3; j++) {
        sr[j] = r[j + 1] + r[6 - j];
        si[j] = i[j + 1] + i[6 - j];
        dr[j] = r[j + 1] - r[6 - j];
        di[j] = i[j + 1] - i[6 - j];
    }
    r[0] = ar + sr[0] + sr[1] + sr[2];
    i[0] = ai + si[0] + si[1] + si[2];
    UNROLL
    for (int k = 1; k <= 3; k++) {
        F(vector) er = ar, ei = ai, br = zero, bi = zero;
        UNROLL
        for (int j = 0; j < 3; j++) {
            const int at = (j + 1) * k % 7, place = at < 4 ? at - 1 : 6 - at;
            const F(vector) c = zero + cosine[place], s = at < 4 ? zero + sine[place] : zero - sine[place];
            er = F(fma)(c, sr[j], er);
            ei = F(fma)(c, si[j], ei);
            br = j ? F(fma)(s, dr[j], br) : s * dr[j];
            bi = j ? F(fma)(s, di[j], bi) : s * di[j];
        }
        r[k] = er + bi;
        i[k] = ei - br;
        r[7 - k] = er - bi;
        i[7 - k] = ei + br;
    }
}

/* Powers of two: by columns of radix / 4, a turn of each element by its row and column, and rows of four or two. Result
 * k ends up at PLACE(radix, k). */
#define PLACE(radix, k) ((radix) < 8 ? (k) : (radix) / 4 * ((k) % 4) + (k) / 4)
INLINE void F(butterfly)(const int radix, F(vector) * r, F(vector) * i) {
    static const T sixteenths[] = {
        1,  (T)0.92387953251128675613,  (T)0.70710678118654752440,  (T)0.38268343236508977173,
        0,  (T)-0.38268343236508977173, (T)-0.70710678118654752440, (T)-0.92387953251128675613,
        -1, (T)-0.92387953251128675613};
    const F(vector) zero = {0};
    const int columns = radix / 4;
    if (radix == 2) F(two)(r, i, 0, 1);
    if (radix == 3) F(three)(r, i);
    if (radix == 5) F(five)(r, i);
    if (radix == 7) F(seven)(r, i);
    if (radix % 4) return;
    UNROLL
    for (int j = 0; j < columns; j++) F(four)(r, i, j, j + columns, j + 2 * columns, j + 3 * columns);
    UNROLL
    for (int k = columns; k < radix; k++) {
        const int angle = k / columns * (k % columns) * (16 / radix); /* sixteenths of a circle: 0 to 9 */
        if (angle == 4) {
            const F(vector) re = r[k];
            r[k] = i[k];
            i[k] = -re;
        } else if (angle)
            F(times)(r + k, i + k, sixteenths[angle] + zero, -sixteenths[angle < 4 ? 4 - angle : angle - 4] + zero);
    }
    UNROLL
    for (int k = 0; k < radix && columns > 1; k += columns)
        if (columns == 4)
            F(four)(r, i, k, k + 1, k + 2, k + 3);
        else
            F(two)(r, i, k, k + 1);
}

/* Radixes 11 and 13. With s_j and d_j, the sum and the difference of elements j and radix - j, result k is A - iB
 * and result radix - k is A + iB, where A is element 0 and the sum of cos(2 pi jk / radix) s_j, and B that of sin(...)
 * d_j. `roots` holds exp(-2 pi i j / radix). */
static void F(butterfly_odd)(int radix, const F(complex_) * roots, F(vector) * r, F(vector) * i) {
    enum { MOST = TPI_FFT_LARGEST_ODD / 2 };
    const int pairs = radix / 2;
    const F(vector) zero = {0}, ar = r[0], ai = i[0];
    F(vector) sr[MOST], si[MOST], dr[MOST], di[MOST];
    for (int j = 0; j < pairs; j++) {
        sr[j] = r[j + 1] + r[radix - 1 - j];
        si[j] = i[j + 1] + i[radix - 1 - j];
        dr[j] = r[j + 1] - r[radix - 1 - j];
        di[j] = i[j + 1] - i[radix - 1 - j];
        r[0] += sr[j];
        i[0] += si[j];
    }
    for (int k = 1; k <= pairs; k++) {
        F(vector) er = ar, ei = ai, br = zero, bi = zero;
        for (int j = 0, at = k; j < pairs; j++, at = at + k < radix ? at + k : at + k - radix) {
            const F(vector) cosine = roots[at].re - zero, sine = -roots[at].im - zero;
            er = F(fma)(cosine, sr[j], er);
            ei = F(fma)(cosine, si[j], ei);
            br = F(fma)(sine, dr[j], br);
            bi = F(fma)(sine, di[j], bi);
        }
        r[k] = er + bi;
        i[k] = ei - br;
        r[radix - k] = er - bi;
        i[radix - k] = ei + br;
    }
}

/* ---- Stages ---- */

/* One stage. `from`: the first one's elements are complex numbers in memory, s of them beside each other and
 * `from_step` numbers from one element to the next. `to`: the last one's results go there, times scale: in rows of
 * `lanes`, to_step numbers from one row to the next and leap from result k of each to k + 1. */
typedef struct F(pass) {
    int radix;
    bool swapped, pair; /* pair: a vector's halves belong to two lines, the second `apart` numbers behind the first */
    int64_t m, s, lanes, from_step, to_step, leap, apart;
    const F(complex_) * w, *roots; /* w: radix - 1 factors for each p */
    const T *xr, *xi, *from;
    T *yr, *yi, *to, scale;
} F(pass);

INLINE void F(take)(const F(pass) * c, bool memory, F(order) o, int64_t element, int64_t q, F(vector) * r,
                    F(vector) * i) {
    if (memory) {
        F(split)(o, c->from + element * c->from_step + 2 * q, V, r, i);
        return;
    }
    *r = F(get)(c->xr + element * c->s + q);
    *i = F(get)(c->xi + element * c->s + q);
}

/* Result k of p, lanes from q on. */
INLINE void F(give)(const F(pass) * c, int64_t p, int k, int64_t q, F(vector) r, F(vector) i) {
    const int64_t at = (p * c->radix + k) * c->s + q;
    if (k && c->m > 1) {
        const F(vector) zero = {0};
        const F(complex_) *w = c->w + p * (c->radix - 1) + k - 1;
        F(times)(&r, &i, w->re - zero, w->im - zero);
    }
    F(put)(c->yr + at, r);
    F(put)(c->yi + at, i);
}

/* The last of a row of lanes in `to`. */
INLINE T *F(place_of)(const F(pass) * c, int64_t row, int64_t lane) {
    return c->to + row * c->to_step + (c->pair ? lane : 2 * lane);
}

/* A row's last vector is taken together with some elements that were there before. A row may also be shorter than a
 * vector, in stages between arrays alone: then what is behind its results is written too, and written over, as results
 * are written in order, the last into the arrays' slack. */
#define OPEN_STAGE                                                                      \
    const F(order) o = F(order_of)(c->swapped);                                         \
    const int64_t length = c->to ? c->lanes : c->s, most = length < V ? 0 : length - V; \
    for (int64_t p = 0; p < c->m; p++)                                                  \
        for (int64_t row = 0; row * length < c->s; row++)                               \
            for (int64_t next = 0; next < length; next += V) {                          \
                const int64_t lane = next < most ? next : most, q = row * length + lane;
#define CLOSE_STAGE }

INLINE void F(stage)(const F(pass) * c, const int radix) {
    F(vector) r[TPI_FFT_LARGEST_RADIX], i[TPI_FFT_LARGEST_RADIX];
    OPEN_STAGE
    const int64_t s = c->s;
    if (c->from) {
        const T *from = c->from + p * c->from_step + 2 * q;
        const int64_t step = c->m * c->from_step;
        UNROLL
        for (int k = 0; k < radix; k++) F(split)(o, from + k * step, V, r + k, i + k);
    } else {
        const T *xr = c->xr + p * s + q, *xi = c->xi + p * s + q;
        const int64_t step = c->m * s;
        UNROLL
        for (int k = 0; k < radix; k++) {
            r[k] = F(get)(xr + k * step);
            i[k] = F(get)(xi + k * step);
        }
    }
    F(butterfly)(radix, r, i);
    if (c->to) {
        T *to = F(place_of)(c, row, lane);
        const int64_t leap = c->leap, apart = c->apart;
        const F(vector) scale = c->scale - (F(vector)){0};
        UNROLL
        for (int k = 0; k < radix; k++)
            F(join)(o, to + k * leap, apart, r[PLACE(radix, k)] * scale, i[PLACE(radix, k)] * scale);
        continue;
    }
    T *yr = c->yr + p * radix * s + q, *yi = c->yi + p * radix * s + q;
    if (c->m > 1) {
        const F(complex_) *w = c->w + p * (radix - 1) - 1;
        const F(vector) zero = {0};
        UNROLL
        for (int k = 1; k < radix; k++)
            F(times)(r + PLACE(radix, k), i + PLACE(radix, k), w[k].re - zero, w[k].im - zero);
    }
    UNROLL
    for (int k = 0; k < radix; k++) {
        F(put)(yr + k * s, r[PLACE(radix, k)]);
        F(put)(yi + k * s, i[PLACE(radix, k)]);
    }
    CLOSE_STAGE
}

static void F(radix2)(const F(pass) * c) { F(stage)(c, 2); }
static void F(radix3)(const F(pass) * c) { F(stage)(c, 3); }
static void F(radix4)(const F(pass) * c) { F(stage)(c, 4); }
static void F(radix5)(const F(pass) * c) { F(stage)(c, 5); }
static void F(radix7)(const F(pass) * c) { F(stage)(c, 7); }
static void F(radix8)(const F(pass) * c) { F(stage)(c, 8); }
#ifdef __AVX512F__
static void F(radix16)(const F(pass) * c) { F(stage)(c, 16); }
#endif

static void F(radix_odd)(const F(pass) * c) {
    F(vector) r[TPI_FFT_LARGEST_ODD], i[TPI_FFT_LARGEST_ODD];
    OPEN_STAGE
    for (int k = 0; k < c->radix; k++) F(take)(c, c->from, o, p + k * c->m, q, r + k, i + k);
    F(butterfly_odd)(c->radix, c->roots, r, i);
    for (int k = 0; k < c->radix; k++)
        if (c->to)
            F(join)(o, F(place_of)(c, row, lane) + k * c->leap, c->apart, r[k] * c->scale, i[k] * c->scale);
        else
            F(give)(c, p, k, q, r[k], i[k]);
    CLOSE_STAGE
}

/* a * b + c, rounded as vectors do it. */
#ifdef __FMA__
#define MULTIPLY_ADD_(a, b, c) \
    (sizeof(T) == sizeof(float) ? (T)__builtin_fmaf((float)(a), (float)(b), (float)(c)) : (T)__builtin_fma(a, b, c))
#else
#define MULTIPLY_ADD_(a, b, c) ((a) * (b) + (c))
#endif

/* Multiplies element k of all lanes by w[k]. A lane's bits do not depend on its place. */
static void F(multiply_lines)(int64_t n, int64_t lanes, T *re, T *im, const F(complex_) * w) {
    const F(vector) zero = {0};
    for (int64_t k = 0; k < n; k++, re += lanes, im += lanes) {
        int64_t l = 0;
        for (; l + V <= lanes; l += V) {
            F(vector) r = F(get)(re + l), i = F(get)(im + l);
            F(times)(&r, &i, w[k].re - zero, w[k].im - zero);
            F(put)(re + l, r);
            F(put)(im + l, i);
        }
        for (; l < lanes; l++) {
            const T r = MULTIPLY_ADD_(re[l], w[k].re, -(im[l] * w[k].im));
            im[l] = MULTIPLY_ADD_(re[l], w[k].im, im[l] * w[k].re);
            re[l] = r;
        }
    }
}

/* ---- Lines beside each other ---- */
void TPI_ISA(F(tpi_fft_load_across))(int64_t n, int64_t lanes, const T *from, int64_t step, T *re, T *im) {
    const F(order) o = F(order_of)(false);
    for (int64_t k = 0; k < n; k++, from += step, re += lanes, im += lanes) {
        int64_t l = 0;
        for (; l + V <= lanes; l += V) {
            F(vector) r, i;
            F(split)(o, from + 2 * l, V, &r, &i);
            F(put)(re + l, r);
            F(put)(im + l, i);
        }
        for (; l < lanes; l++) {
            re[l] = from[2 * l];
            im[l] = from[2 * l + 1];
        }
    }
}

void TPI_ISA(F(tpi_fft_store_across))(int64_t n, int64_t lanes, const T *re, const T *im, T scale, T *to,
                                      int64_t step) {
    const F(order) o = F(order_of)(false);
    for (int64_t k = 0; k < n; k++, to += step, re += lanes, im += lanes) {
        int64_t l = 0;
        for (; l + V <= lanes; l += V) F(join)(o, to + 2 * l, V, F(get)(re + l) * scale, F(get)(im + l) * scale);
        for (; l < lanes; l++) {
            to[2 * l] = scale * re[l];
            to[2 * l + 1] = scale * im[l];
        }
    }
}

/* A real line of 2h elements was transformed as Z, h complex ones. With w = exp(-i pi k / h), X[k] = E + w O where
 * E = (Z[k] + conj Z[h-k]) / 2 transforms the even elements and O = (Z[k] - conj Z[h-k]) / 2i the odd ones. Gives X of
 * a tile of k <= h, all lanes side by side, and writes into the slack behind them. */
void TPI_ISA(F(tpi_fft_make_half))(int64_t first, int64_t last, int64_t h, const T *half, int64_t lanes, const T *re,
                                   const T *im, T *xr, T *xi) {
    const F(vector) zero = {0};
    for (int64_t k = first; k < last; k++, xr += lanes, xi += lanes) {
        const int64_t one = k == h ? 0 : k, other = k == 0 ? 0 : h - k;
        const F(vector) wr = half[2 * k] - zero, wi = half[2 * k + 1] - zero;
        for (int64_t l = 0; l < lanes; l += V) {
            const F(vector) ar = F(get)(re + one * lanes + l), ai = F(get)(im + one * lanes + l);
            const F(vector) br = F(get)(re + other * lanes + l), bi = F(get)(im + other * lanes + l);
            F(vector) tr = (ai + bi) / 2, ti = (br - ar) / 2;
            F(times)(&tr, &ti, wr, wi);
            F(put)(xr + l, (ar + br) / 2 + tr);
            F(put)(xi + l, (ai - bi) / 2 + ti);
        }
    }
}

/* The way back, of a tile of k < h: Z[k] = 2 E + 2 i O from X[0 .. h], of which x has X[first] and those after it, y
 * has X[h - last + 1] and those after it, up to X[h - first]. The imaginary parts of X[0] and X[h] do not count. */
void TPI_ISA(F(tpi_fft_load_half))(int64_t first, int64_t last, const T *half, int64_t lanes, const T *xr, const T *xi,
                                   const T *yr, const T *yi, T *re, T *im) {
    const F(vector) zero = {0};
    for (int64_t k = first; k < last; k++) {
        const int64_t one = (k - first) * lanes, other = (last - 1 - k) * lanes;
        const F(vector) wr = half[2 * k] - zero, wi = half[2 * k + 1] - zero;
        for (int64_t l = 0; l < lanes; l += V) {
            const F(vector) ar = F(get)(xr + one + l), br = F(get)(yr + other + l);
            const F(vector) ai = k ? F(get)(xi + one + l) : zero, bi = k ? F(get)(yi + other + l) : zero;
            F(vector) tr = ar - br, ti = ai + bi; /* b stands for its conjugate */
            F(times)(&tr, &ti, wr, -wi);
            F(put)(re + k * lanes + l, ar + br - ti);
            F(put)(im + k * lanes + l, ai - bi + tr);
        }
    }
}

static void F(exchange)(T **a, T **b) {
    T *held = *a;
    *a = *b;
    *b = held;
}

/* The stages from `first` on, with stride s there. */
static void F(run_stages)(const tpi_fft_plan *plan, int first, int64_t s, const tpi_fft_ends *ends, T **work) {
    const F(complex_) *tables = plan->tables;
    int64_t n = plan->n;
    for (int i = 0; i < first; i++) n /= plan->stage[i].radix;
    F(pass)
    c = {.s = s,
         .swapped = ends->swapped,
         .pair = first && plan->together == 2,
         .from_step = ends->from_step,
         .to_step = ends->to_step,
         .scale = (T)ends->scale};
    c.apart = c.pair ? ends->to_step : V;
    for (int i = first; i < plan->stages; i++) {
        const tpi_fft_stage *stage = &plan->stage[i];
        const bool last = i == plan->stages - 1 && ends->to;
        n /= stage->radix;
        c.radix = stage->radix;
        c.m = n;
        c.w = tables + stage->twiddles;
        c.roots = tables + stage->roots;
        c.xr = work[0];
        c.xi = work[1];
        c.yr = work[2];
        c.yi = work[3];
        c.from = i == 0 ? ends->from : NULL;
        c.to = last ? ends->to : NULL;
        c.lanes = first ? c.s : s;
        c.leap = c.pair ? c.s : first ? 2 * c.s : c.s / s * c.to_step;
        switch (stage->radix) {
        case 2: F(radix2)(&c); break;
        case 3: F(radix3)(&c); break;
        case 4: F(radix4)(&c); break;
        case 5: F(radix5)(&c); break;
        case 7: F(radix7)(&c); break;
        case 8: F(radix8)(&c); break;
#ifdef __AVX512F__
        case 16: F(radix16)(&c); break;
#endif
        default: F(radix_odd)(&c);
        }
        if (last) return;
        F(exchange)(&work[0], &work[2]);
        F(exchange)(&work[1], &work[3]);
        c.s *= stage->radix;
    }
}

/* Bluestein: with c[k] = exp(-i pi k^2 / n), X[k] = c[k] sum_j (x[j] c[j]) conj(c[k - j]): a convolution, done by
 * transforms of a power of two. */
static void F(run_chirp)(const tpi_fft_plan *plan, int64_t lanes, T **work) {
    const F(complex_) *tables = plan->tables;
    int64_t n = plan->n, size = plan->inner->n;
    const tpi_fft_ends none = {0};
    F(multiply_lines)(n, lanes, work[0], work[1], tables + plan->chirp);
    memset(work[0] + n * lanes, 0, (size_t)((size - n) * lanes) * sizeof(T));
    memset(work[1] + n * lanes, 0, (size_t)((size - n) * lanes) * sizeof(T));
    F(run_stages)(plan->inner, 0, lanes, &none, work);
    F(multiply_lines)(size, lanes, work[0], work[1], tables + plan->chirp_fft);
    F(exchange)(&work[0], &work[1]); /* the inverse */
    F(run_stages)(plan->inner, 0, lanes, &none, work);
    F(exchange)(&work[0], &work[1]);
    F(multiply_lines)(n, lanes, work[0], work[1], tables + plan->chirp);
}

void TPI_ISA(F(tpi_fft_run))(const tpi_fft_plan *plan, int64_t lanes, const tpi_fft_ends *ends, T **work) {
    if (plan->inner)
        F(run_chirp)(plan, lanes, work);
    else
        F(run_stages)(plan, 0, lanes, ends, work);
}

#include "linalg/fft_line.h"

#undef JOIN__
#undef JOIN_
#undef F
#undef MULTIPLY_ADD_
#undef LANES_
#undef LANE_
#undef ALTERNATE
#undef INTERLACE
#undef PLACE
#undef OPEN_STAGE
#undef CLOSE_STAGE
