/* The FFT's kernels for one type: included by fft.isa.c with T (float or double), NAME (a suffix for it) and V (a
 * vector's lanes) defined.
 *
 * Stockham's autosorting transform, decimation in frequency: a stage of radix r on a length n = r m with stride s reads
 * x[s (p + m k) + q] and writes w^(p k) times the r-point transform to y[s (r p + k) + q], for p < m, q < s. The next
 * stage has length m and stride s r. */
#define JOIN__(a, b) a##b
#define JOIN_(a, b)  JOIN__(a, b)
#define F(name)      JOIN_(name, NAME)
/* The two work arrays never overlap; there are too many pointers for the compiler to check that by itself. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define SIN60 ((T)0.86602540378443864676)

typedef T F(vector) __attribute__((vector_size(V * sizeof(T))));

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

typedef struct F(pass) {
    int64_t m, s;
    const F(complex_) * w; /* radix - 1 factors for each p */
    const T *xr, *xi;
    T *yr, *yi;
} F(pass);

/* a * b + c, in one step where the processor has one. */
#ifdef __FMA__
#define MULTIPLY_ADD_(a, b, c) \
    (sizeof(T) == sizeof(float) ? (T)__builtin_fmaf((float)(a), (float)(b), (float)(c)) : (T)__builtin_fma(a, b, c))
#else
#define MULTIPLY_ADD_(a, b, c) ((a) * (b) + (c))
#endif
/* y = (r + i m) times w */
#define STORE(k, re_, im_, w_)                                           \
    do {                                                                 \
        T re__ = (re_), im__ = (im_);                                    \
        yr[(k)*s + q] = MULTIPLY_ADD_(re__, (w_).re, -(im__ * (w_).im)); \
        yi[(k)*s + q] = MULTIPLY_ADD_(re__, (w_).im, im__ * (w_).re);    \
    } while (0)
#define OPEN_PASS(radix)                                                              \
    const int64_t m = c->m, s = c->s, step = m * s;                                   \
    for (int64_t p = 0; p < m; p++) {                                                 \
        const T *restrict xr = c->xr + s * p, *restrict xi = c->xi + s * p;           \
        T *restrict yr = c->yr + s * (radix)*p, *restrict yi = c->yi + s * (radix)*p; \
        const F(complex_) *w = c->w + p * ((radix)-1);
#define CLOSE_PASS }

static void F(radix2)(const F(pass) * c) {
    OPEN_PASS(2)
    const F(complex_) w1 = w[0];
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
        T ar = xr[q], ai = xi[q], br = xr[q + step], bi = xi[q + step];
        yr[q] = ar + br;
        yi[q] = ai + bi;
        STORE(1, ar - br, ai - bi, w1);
    }
    CLOSE_PASS
}

static void F(radix3)(const F(pass) * c) {
    OPEN_PASS(3)
    const F(complex_) w1 = w[0], w2 = w[1];
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
        T ar = xr[q], ai = xi[q], br = xr[q + step], bi = xi[q + step], cr = xr[q + 2 * step], ci = xi[q + 2 * step];
        T sr = br + cr, si = bi + ci, dr = SIN60 * (br - cr), di = SIN60 * (bi - ci);
        T hr = ar - sr / 2, hi = ai - si / 2;
        yr[q] = ar + sr;
        yi[q] = ai + si;
        STORE(1, hr + di, hi - dr, w1);
        STORE(2, hr - di, hi + dr, w2);
    }
    CLOSE_PASS
}

static void F(radix4)(const F(pass) * c) {
    OPEN_PASS(4)
    const F(complex_) w1 = w[0], w2 = w[1], w3 = w[2];
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
        T ar = xr[q], ai = xi[q], br = xr[q + step], bi = xi[q + step];
        T cr = xr[q + 2 * step], ci = xi[q + 2 * step], dr = xr[q + 3 * step], di = xi[q + 3 * step];
        T er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci, gr = br + dr, gi = bi + di, hr = br - dr,
          hi = bi - di;
        yr[q] = er + gr;
        yi[q] = ei + gi;
        STORE(1, fr + hi, fi - hr, w1);
        STORE(2, er - gr, ei - gi, w2);
        STORE(3, fr - hi, fi + hr, w3);
    }
    CLOSE_PASS
}

/* Two transforms of four, of the sums and of the differences of elements half a line apart; these turned by eighths. */
static void F(radix8)(const F(pass) * c) {
    const T sqrt_half = (T)0.70710678118654752440;
    OPEN_PASS(8)
    const F(complex_) w1 = w[0], w2 = w[1], w3 = w[2], w4 = w[3], w5 = w[4], w6 = w[5], w7 = w[6];
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
        T a0r = xr[q], a0i = xi[q], a4r = xr[q + 4 * step], a4i = xi[q + 4 * step];
        T a2r = xr[q + 2 * step], a2i = xi[q + 2 * step], a6r = xr[q + 6 * step], a6i = xi[q + 6 * step];
        T b0r = a0r + a4r, b0i = a0i + a4i, b1r = a0r - a4r, b1i = a0i - a4i;
        T b2r = a2r + a6r, b2i = a2i + a6i, b3r = a2r - a6r, b3i = a2i - a6i;
        T a1r = xr[q + step], a1i = xi[q + step], a5r = xr[q + 5 * step], a5i = xi[q + 5 * step];
        T a3r = xr[q + 3 * step], a3i = xi[q + 3 * step], a7r = xr[q + 7 * step], a7i = xi[q + 7 * step];
        T b4r = a1r + a5r, b4i = a1i + a5i, b5r = a1r - a5r, b5i = a1i - a5i;
        T b6r = a3r + a7r, b6i = a3i + a7i, b7r = a3r - a7r, b7i = a3i - a7i;
        T c0r = b0r + b2r, c0i = b0i + b2i, c1r = b0r - b2r, c1i = b0i - b2i;
        T c2r = b4r + b6r, c2i = b4i + b6i, c3r = b4r - b6r, c3i = b4i - b6i;
        yr[q] = c0r + c2r;
        yi[q] = c0i + c2i;
        STORE(2, c1r + c3i, c1i - c3r, w2);
        STORE(4, c0r - c2r, c0i - c2i, w4);
        STORE(6, c1r - c3i, c1i + c3r, w6);
        T d1r = sqrt_half * (b5r + b5i), d1i = sqrt_half * (b5i - b5r);
        T d3r = sqrt_half * (b7i - b7r), d3i = -sqrt_half * (b7r + b7i);
        T f0r = b1r + b3i, f0i = b1i - b3r, f1r = b1r - b3i, f1i = b1i + b3r;
        T f2r = d1r + d3r, f2i = d1i + d3i, f3r = d1r - d3r, f3i = d1i - d3i;
        STORE(1, f0r + f2r, f0i + f2i, w1);
        STORE(3, f1r + f3i, f1i - f3r, w3);
        STORE(5, f0r - f2r, f0i - f2i, w5);
        STORE(7, f1r - f3i, f1i + f3r, w7);
    }
    CLOSE_PASS
}

static void F(radix5)(const F(pass) * c) {
    const T c1 = (T)0.30901699437494742410, c2 = (T)-0.80901699437494742410, s1 = (T)0.95105651629515357212,
            s2 = (T)0.58778525229247312917;
    OPEN_PASS(5)
    const F(complex_) w1 = w[0], w2 = w[1], w3 = w[2], w4 = w[3];
    INDEPENDENT
    for (int64_t q = 0; q < s; q++) {
        T ar = xr[q], ai = xi[q], br = xr[q + step], bi = xi[q + step], er = xr[q + 4 * step], ei = xi[q + 4 * step];
        T cr = xr[q + 2 * step], ci = xi[q + 2 * step], dr = xr[q + 3 * step], di = xi[q + 3 * step];
        T pr = br + er, pi = bi + ei, mr = br - er, mi = bi - ei, ur = cr + dr, ui = ci + di, vr = cr - dr,
          vi = ci - di;
        T h1r = ar + c1 * pr + c2 * ur, h1i = ai + c1 * pi + c2 * ui, h2r = ar + c2 * pr + c1 * ur,
          h2i = ai + c2 * pi + c1 * ui;
        T t1r = s1 * mr + s2 * vr, t1i = s1 * mi + s2 * vi, t2r = s2 * mr - s1 * vr, t2i = s2 * mi - s1 * vi;
        yr[q] = ar + pr + ur;
        yi[q] = ai + pi + ui;
        STORE(1, h1r + t1i, h1i - t1r, w1);
        STORE(2, h2r + t2i, h2i - t2r, w2);
        STORE(3, h2r - t2i, h2i + t2r, w3);
        STORE(4, h1r - t1i, h1i + t1r, w4);
    }
    CLOSE_PASS
}

/* Multiplies element k of all lanes by w[k]. */
static void F(multiply_lines)(int64_t n, int64_t lanes, T *restrict re, T *restrict im, const F(complex_) * w) {
    for (int64_t k = 0; k < n; k++)
        for (int64_t l = k * lanes; l < (k + 1) * lanes; l++) {
            T r = re[l] * w[k].re - im[l] * w[k].im;
            im[l] = re[l] * w[k].im + im[l] * w[k].re;
            re[l] = r;
        }
}

/* The first n of a vector's lanes, by parts of constant sizes, which need no call. */
#define PARTS(MOVE) MOVE(8) MOVE(4) MOVE(2) MOVE(1)
INLINE F(vector) F(get_some)(const T *p, int64_t n) {
    if (n == V) return F(get)(p);
    F(vector) x = {0};
    char *to = (char *)&x;
#define TAKE(part)                         \
    if ((part) < V && (n & (part))) {      \
        memcpy(to, p, (part) * sizeof(T)); \
        to += (part) * sizeof(T);          \
        p += (part);                       \
    }
    PARTS(TAKE)
#undef TAKE
    return x;
}
INLINE void F(put_some)(T *p, F(vector) x, int64_t n) {
    if (n == V) {
        F(put)(p, x);
        return;
    }
    const char *from = (const char *)&x;
#define GIVE(part)                           \
    if ((part) < V && (n & (part))) {        \
        memcpy(p, from, (part) * sizeof(T)); \
        from += (part) * sizeof(T);          \
        p += (part);                         \
    }
    PARTS(GIVE)
#undef GIVE
}

/* (re + i im) times w. */
INLINE void F(put_rotated)(T *yr, T *yi, F(vector) re, F(vector) im, const F(complex_) * w, int64_t n) {
    const F(vector) zero = {0}, wr = w->re - zero, wi = w->im - zero;
    F(put_some)(yr, F(fma)(re, wr, -(im * wi)), n);
    F(put_some)(yi, F(fma)(re, wi, im * wr), n);
}

/* Radixes 7, 11 and 13. With s_j and d_j, the sum and the difference of elements j and radix - j, result k is A - iB
 * and result radix - k is A + iB, where A is element 0 and the sum of cos(2 pi jk / radix) s_j, and B that of sin(...)
 * d_j. `roots` holds exp(-2 pi i j / radix). */
static void F(radix_odd)(const F(pass) * c, int radix, const F(complex_) * roots) {
    enum { MOST = TPI_FFT_LARGEST_RADIX / 2 };
    const int pairs = radix / 2;
    const F(vector) zero = {0};
    F(vector) sr[MOST], si[MOST], dr[MOST], di[MOST];
    OPEN_PASS(radix)
    for (int64_t q = 0; q < s; q += V) {
        const int64_t n = s - q < V ? s - q : V;
        const F(vector) ar = F(get_some)(xr + q, n), ai = F(get_some)(xi + q, n);
        F(vector) tr = ar, ti = ai;
        for (int j = 0; j < pairs; j++) {
            const int64_t one = q + (j + 1) * step, other = q + (radix - 1 - j) * step;
            const F(vector) br = F(get_some)(xr + one, n), bi = F(get_some)(xi + one, n);
            const F(vector) er = F(get_some)(xr + other, n), ei = F(get_some)(xi + other, n);
            sr[j] = br + er;
            si[j] = bi + ei;
            dr[j] = br - er;
            di[j] = bi - ei;
            tr += sr[j];
            ti += si[j];
        }
        F(put_some)(yr + q, tr, n);
        F(put_some)(yi + q, ti, n);
        for (int k = 1; k <= pairs; k++) {
            F(vector) er = ar, ei = ai, br = zero, bi = zero;
            for (int j = 0, at = k; j < pairs; j++, at = at + k < radix ? at + k : at + k - radix) {
                const F(vector) cosine = roots[at].re - zero, sine = -roots[at].im - zero;
                er = F(fma)(cosine, sr[j], er);
                ei = F(fma)(cosine, si[j], ei);
                br = F(fma)(sine, dr[j], br);
                bi = F(fma)(sine, di[j], bi);
            }
            F(put_rotated)(yr + k * s + q, yi + k * s + q, er + bi, ei - br, w + k - 1, n);
            F(put_rotated)(yr + (radix - k) * s + q, yi + (radix - k) * s + q, er - bi, ei + br, w + radix - k - 1, n);
        }
    }
    CLOSE_PASS
}

/* ---- Lines beside each other ---- */
void TPI_ISA(F(tpi_fft_load_across))(int64_t n, int64_t lanes, const T *restrict from, int64_t step, T *restrict re,
                                     T *restrict im) {
    for (int64_t k = 0; k < n; k++, from += step, re += lanes, im += lanes)
        for (int64_t l = 0; l < lanes; l++) {
            re[l] = from[2 * l];
            im[l] = from[2 * l + 1];
        }
}

void TPI_ISA(F(tpi_fft_store_across))(int64_t n, int64_t lanes, const T *restrict re, const T *restrict im, T scale,
                                      T *restrict to, int64_t step) {
    for (int64_t k = 0; k < n; k++, to += step, re += lanes, im += lanes)
        for (int64_t l = 0; l < lanes; l++) {
            to[2 * l] = scale * re[l];
            to[2 * l + 1] = scale * im[l];
        }
}

/* A real line of 2h elements was transformed as Z, h complex ones. With w = exp(-i pi k / h), X[k] = E + w O where
 * E = (Z[k] + conj Z[h-k]) / 2 transforms the even elements and O = (Z[k] - conj Z[h-k]) / 2i the odd ones. Gives X of
 * a tile of k <= h, all lanes side by side. */
void TPI_ISA(F(tpi_fft_make_half))(int64_t first, int64_t last, int64_t h, const T *half, int64_t lanes, const T *re,
                                   const T *im, T *restrict xr, T *restrict xi) {
    for (int64_t k = first; k < last; k++, xr += lanes, xi += lanes) {
        const T *ar = re + (k == h ? 0 : k) * lanes, *ai = im + (k == h ? 0 : k) * lanes,
                *br = re + (k == 0 ? 0 : h - k) * lanes, *bi = im + (k == 0 ? 0 : h - k) * lanes;
        T wr = half[2 * k], wi = half[2 * k + 1];
        for (int64_t l = 0; l < lanes; l++) {
            T er = (ar[l] + br[l]) / 2, ei = (ai[l] - bi[l]) / 2, or_ = (ai[l] + bi[l]) / 2, oi = (br[l] - ar[l]) / 2;
            xr[l] = er + wr * or_ - wi * oi;
            xi[l] = ei + wr * oi + wi * or_;
        }
    }
}

/* The way back, of a tile of k < h: Z[k] = 2 E + 2 i O from X[0 .. h], of which x has X[first] and those after it, y
 * has X[h - last + 1] and those after it, up to X[h - first]. The imaginary parts of X[0] and X[h] do not count. */
void TPI_ISA(F(tpi_fft_load_half))(int64_t first, int64_t last, const T *half, int64_t lanes, const T *xr, const T *xi,
                                   const T *yr, const T *yi, T *restrict re, T *restrict im) {
    for (int64_t k = first; k < last; k++) {
        const T *ar = xr + (k - first) * lanes, *ai = xi + (k - first) * lanes, *br = yr + (last - 1 - k) * lanes,
                *bi = yi + (last - 1 - k) * lanes;
        T wr = half[2 * k], wi = -half[2 * k + 1], *to_re = re + k * lanes, *to_im = im + k * lanes;
        for (int64_t l = 0; l < lanes; l++) {
            T pi = k ? ai[l] : 0, qi = k ? -bi[l] : 0; /* q: the conjugate of X[h-k] */
            T dr = ar[l] - br[l], di = pi - qi, or_ = wr * dr - wi * di, oi = wr * di + wi * dr;
            to_re[l] = ar[l] + br[l] - oi;
            to_im[l] = pi + qi + or_;
        }
    }
}

static void F(exchange)(T **a, T **b) {
    T *held = *a;
    *a = *b;
    *b = held;
}

/* The stages from `first` on, with stride s there. */
static void F(run_stages)(const tpi_fft_plan *plan, int first, int64_t s, T **work) {
    const F(complex_) *tables = plan->tables;
    int64_t n = plan->n;
    for (int i = 0; i < first; i++) n /= plan->stage[i].radix;
    for (int i = first; i < plan->stages; i++) {
        const tpi_fft_stage *stage = &plan->stage[i];
        F(pass) c = {n / stage->radix, s, tables + stage->twiddles, work[0], work[1], work[2], work[3]};
        switch (stage->radix) {
        case 2: F(radix2)(&c); break;
        case 3: F(radix3)(&c); break;
        case 4: F(radix4)(&c); break;
        case 5: F(radix5)(&c); break;
        case 8: F(radix8)(&c); break;
        default: F(radix_odd)(&c, stage->radix, tables + stage->roots);
        }
        F(exchange)(&work[0], &work[2]);
        F(exchange)(&work[1], &work[3]);
        n /= stage->radix;
        s *= stage->radix;
    }
}

/* Bluestein: with c[k] = exp(-i pi k^2 / n), X[k] = c[k] sum_j (x[j] c[j]) conj(c[k - j]): a convolution, done by
 * transforms of a power of two. */
static void F(run_chirp)(const tpi_fft_plan *plan, int64_t lanes, T **work) {
    const F(complex_) *tables = plan->tables;
    int64_t n = plan->n, size = plan->inner->n;
    F(multiply_lines)(n, lanes, work[0], work[1], tables + plan->chirp);
    memset(work[0] + n * lanes, 0, (size_t)((size - n) * lanes) * sizeof(T));
    memset(work[1] + n * lanes, 0, (size_t)((size - n) * lanes) * sizeof(T));
    F(run_stages)(plan->inner, 0, lanes, work);
    F(multiply_lines)(size, lanes, work[0], work[1], tables + plan->chirp_fft);
    F(exchange)(&work[0], &work[1]); /* the inverse */
    F(run_stages)(plan->inner, 0, lanes, work);
    F(exchange)(&work[0], &work[1]);
    F(multiply_lines)(n, lanes, work[0], work[1], tables + plan->chirp);
}

void TPI_ISA(F(tpi_fft_run))(const tpi_fft_plan *plan, int64_t lanes, T **work) {
    if (plan->inner)
        F(run_chirp)(plan, lanes, work);
    else
        F(run_stages)(plan, 0, lanes, work);
}

#include "linalg/fft_line.h"

#undef JOIN__
#undef JOIN_
#undef F
#undef SIN60
#undef PARTS
#undef INDEPENDENT
#undef STORE
#undef MULTIPLY_ADD_
#undef OPEN_PASS
#undef CLOSE_PASS
