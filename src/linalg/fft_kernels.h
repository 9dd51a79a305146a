/* The FFT's kernels for one type: included by fft.isa.c with T (float or double) and NAME (a suffix for it) defined.
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
        yr[q] = ar + br, yi[q] = ai + bi;
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
        yr[q] = ar + sr, yi[q] = ai + si;
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
        yr[q] = er + gr, yi[q] = ei + gi;
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
        yr[q] = c0r + c2r, yi[q] = c0i + c2i;
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
        yr[q] = ar + pr + ur, yi[q] = ai + pi + ui;
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
            im[l] = re[l] * w[k].im + im[l] * w[k].re, re[l] = r;
        }
}

/* Radixes 7, 11 and 13, by the definition; `roots` holds exp(-2 pi i j / radix). */
static void F(radix_any)(const F(pass) * c, int radix, const F(complex_) * roots) {
    OPEN_PASS(radix)
    for (int k = 0; k < radix; k++) {
        const F(complex_) one = {1, 0}, turn = k ? w[k - 1] : one;
        T *re = yr + k * s, *im = yi + k * s;
        memcpy(re, xr, (size_t)s * sizeof(T));
        memcpy(im, xi, (size_t)s * sizeof(T));
        for (int j = 1; j < radix; j++) {
            const F(complex_) root = roots[j * k % radix];
            const T *vr = xr + j * step, *vi = xi + j * step;
            INDEPENDENT
            for (int64_t q = 0; q < s; q++)
                re[q] += vr[q] * root.re - vi[q] * root.im, im[q] += vr[q] * root.im + vi[q] * root.re;
        }
        F(multiply_lines)(1, s, re, im, &turn);
    }
    CLOSE_PASS
}

/* ---- Lines beside each other ---- */
void TPI_ISA(F(tpi_fft_take_across))(int64_t n, int64_t lanes, const T *restrict from, int64_t step, T *restrict re,
                                     T *restrict im) {
    for (int64_t k = 0; k < n; k++, from += step, re += lanes, im += lanes)
        for (int64_t l = 0; l < lanes; l++) re[l] = from[2 * l], im[l] = from[2 * l + 1];
}

void TPI_ISA(F(tpi_fft_give_across))(int64_t n, int64_t lanes, const T *restrict re, const T *restrict im, T scale,
                                     T *restrict to, int64_t step) {
    for (int64_t k = 0; k < n; k++, to += step, re += lanes, im += lanes)
        for (int64_t l = 0; l < lanes; l++) to[2 * l] = scale * re[l], to[2 * l + 1] = scale * im[l];
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
            xr[l] = er + wr * or_ - wi * oi, xi[l] = ei + wr * oi + wi * or_;
        }
    }
}

/* The way back, of a tile of k < h: Z[k] = 2 E + 2 i O from X[0 .. h], of which x has X[first] and those after it, y
 * has X[h - last + 1] and those after it, up to X[h - first]. The imaginary parts of X[0] and X[h] do not count. */
void TPI_ISA(F(tpi_fft_take_half))(int64_t first, int64_t last, const T *half, int64_t lanes, const T *xr, const T *xi,
                                   const T *yr, const T *yi, T *restrict re, T *restrict im) {
    for (int64_t k = first; k < last; k++) {
        const T *ar = xr + (k - first) * lanes, *ai = xi + (k - first) * lanes, *br = yr + (last - 1 - k) * lanes,
                *bi = yi + (last - 1 - k) * lanes;
        T wr = half[2 * k], wi = -half[2 * k + 1], *to_re = re + k * lanes, *to_im = im + k * lanes;
        for (int64_t l = 0; l < lanes; l++) {
            T pi = k ? ai[l] : 0, qi = k ? -bi[l] : 0; /* q: the conjugate of X[h-k] */
            T dr = ar[l] - br[l], di = pi - qi, or_ = wr * dr - wi * di, oi = wr * di + wi * dr;
            to_re[l] = ar[l] + br[l] - oi, to_im[l] = pi + qi + or_;
        }
    }
}

static void F(exchange)(T **a, T **b) {
    T *held = *a;
    *a = *b, *b = held;
}

static void F(run_stages)(const tpi_fft_plan *plan, int64_t lanes, T **work) {
    const F(complex_) *tables = plan->tables;
    int64_t n = plan->n, s = lanes;
    for (int i = 0; i < plan->stages; i++) {
        const tpi_fft_stage *stage = &plan->stage[i];
        F(pass) c = {n / stage->radix, s, tables + stage->twiddles, work[0], work[1], work[2], work[3]};
        switch (stage->radix) {
        case 2: F(radix2)(&c); break;
        case 3: F(radix3)(&c); break;
        case 4: F(radix4)(&c); break;
        case 5: F(radix5)(&c); break;
        case 8: F(radix8)(&c); break;
        default: F(radix_any)(&c, stage->radix, tables + stage->roots);
        }
        F(exchange)(&work[0], &work[2]);
        F(exchange)(&work[1], &work[3]);
        n /= stage->radix, s *= stage->radix;
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
    F(run_stages)(plan->inner, lanes, work);
    F(multiply_lines)(size, lanes, work[0], work[1], tables + plan->chirp_fft);
    F(exchange)(&work[0], &work[1]); /* the inverse */
    F(run_stages)(plan->inner, lanes, work);
    F(exchange)(&work[0], &work[1]);
    F(multiply_lines)(n, lanes, work[0], work[1], tables + plan->chirp);
}

void TPI_ISA(F(tpi_fft_run))(const tpi_fft_plan *plan, int64_t lanes, T **work) {
    if (plan->inner)
        F(run_chirp)(plan, lanes, work);
    else
        F(run_stages)(plan, lanes, work);
}

#undef JOIN__
#undef JOIN_
#undef F
#undef SIN60
#undef INDEPENDENT
#undef STORE
#undef MULTIPLY_ADD_
#undef OPEN_PASS
#undef CLOSE_PASS
