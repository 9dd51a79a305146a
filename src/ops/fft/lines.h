/* Lines between tensors and the FFT's work arrays, for one type: included by fft.c with T and NAME defined.
 * work[0] and work[1] hold real and imaginary parts, element k of lane l at [k * lanes + l]. */
#define JOIN__(a, b) a##b
#define JOIN_(a, b)  JOIN__(a, b)
#define F(name)      JOIN_(name, NAME)

/* Each function takes the elements from k = first to before last, so that a tile of a group's lines, some elements of
 * each, is moved at once: element by element of a whole line, every line of the work arrays' cache would be fetched
 * once per lane. */

/* Do lines of items that big lie beside each other? */
static inline bool F(beside)(const int64_t *at, int64_t lanes, size_t item) {
    for (int64_t l = 1; l < lanes; l++)
        if (at[l] != at[0] + l * (int64_t)item) return false;
    return lanes > 1;
}

/* n elements of complex lines, `stride` bytes apart, that begin at from + at[l]; they go to re and im from their
 * beginning on. */
static inline void F(load)(int64_t n, int64_t lanes, const char *from, const int64_t *at, int64_t stride, T *re,
                           T *im) {
    if (sizeof(T) == sizeof(float) && lanes % SOME_LANES == 0 && stride == 2 * sizeof(T) && n >= 4) {
        const float *line[MOST_LANES];
        for (int64_t l = 0; l < lanes; l++) line[l] = (const float *)(const void *)(from + at[l]);
        TPI_ISA_PICK(tpi_fft_load_lines)(n, lanes, line, (float *)re, (float *)im);
        return;
    }
    if (F(beside)(at, lanes, 2 * sizeof(T))) {
        F(load_across)(n, lanes, (const T *)(const void *)(from + at[0]), stride / (int64_t)sizeof(T), re, im);
        return;
    }
    for (int64_t l = 0; l < lanes; l++)
        for (int64_t k = 0; k < n; k++) {
            const T *x = (const T *)(const void *)(from + at[l] + k * stride);
            re[k * lanes + l] = x[0];
            im[k * lanes + l] = x[1];
        }
}

static inline void F(store)(int64_t n, int64_t lanes, const T *re, const T *im, T scale, char *to, const int64_t *at,
                            int64_t stride) {
    if (sizeof(T) == sizeof(float) && lanes % SOME_LANES == 0 && stride == 2 * sizeof(T) && n >= 4) {
        float *line[MOST_LANES];
        for (int64_t l = 0; l < lanes; l++) line[l] = (float *)(void *)(to + at[l]);
        TPI_ISA_PICK(tpi_fft_store_lines)(n, lanes, (const float *)re, (const float *)im, (float)scale, line);
        return;
    }
    if (F(beside)(at, lanes, 2 * sizeof(T))) {
        F(store_across)(n, lanes, re, im, scale, (T *)(void *)(to + at[0]), stride / (int64_t)sizeof(T));
        return;
    }
    for (int64_t l = 0; l < lanes; l++)
        for (int64_t k = 0; k < n; k++) {
            T *y = (T *)(void *)(to + at[l] + k * stride);
            y[0] = scale * re[k * lanes + l];
            y[1] = scale * im[k * lanes + l];
        }
}

/* Real lines of 2h elements as h complex ones, or (odd lengths) of n elements with no imaginary part. */
static inline void F(read_real)(const job *j, int64_t first, int64_t last, const int64_t *at, int64_t lanes, T *re,
                                T *im) {
    const bool beside = F(beside)(at, lanes, sizeof(T));
    const int64_t stride = j->from_stride, parts = j->even ? 2 : 1;
    for (int64_t k = first; k < last; k++)
        for (int64_t part = 0; part < 2; part++) {
            const char *from = j->from + (parts * k + part) * stride;
            T *to = (part ? im : re) + k * lanes;
            if (part == parts)
                for (int64_t l = 0; l < lanes; l++) to[l] = 0;
            else if (beside)
                memcpy(to, from + at[0], (size_t)lanes * sizeof(T));
            else
                for (int64_t l = 0; l < lanes; l++) to[l] = *(const T *)(const void *)(from + at[l]);
        }
}

static inline void F(write_real)(const job *j, int64_t first, int64_t last, const int64_t *at, int64_t lanes,
                                 const T *re, const T *im, T scale) {
    const bool beside = F(beside)(at, lanes, sizeof(T));
    const int64_t stride = j->to_stride, parts = j->even ? 2 : 1;
    for (int64_t k = first; k < last; k++)
        for (int64_t part = 0; part < parts; part++) {
            const T *from = (part ? im : re) + k * lanes;
            char *to = j->to + (parts * k + part) * stride;
            if (beside)
                for (int64_t l = 0; l < lanes; l++) ((T *)(void *)(to + at[0]))[l] = scale * from[l];
            else
                for (int64_t l = 0; l < lanes; l++) *(T *)(void *)(to + at[l]) = scale * from[l];
        }
}

/* An odd length: the other half is the conjugate of the first. */
static void F(read_mirrored)(int64_t n, const char *from, int64_t stride, int64_t lanes, int64_t l, T *re, T *im) {
    re[l] = *(const T *)from;
    im[l] = 0;
    for (int64_t k = 1; k <= n / 2; k++) {
        const T *x = (const T *)(from + k * stride);
        re[k * lanes + l] = re[(n - k) * lanes + l] = x[0];
        im[k * lanes + l] = x[1];
        im[(n - k) * lanes + l] = -x[1];
    }
}

/* Whole groups, which nearly all are, have a number of lanes that the compiler knows. */
static inline void F(read_tile)(const job *j, int64_t first, int64_t last, const int64_t *at, int64_t lanes, T **work) {
    if (j->kind == TO_REAL) {
        T x[2][TILE * MOST_LANES + TPI_FFT_SLACK], y[2][TILE * MOST_LANES + TPI_FFT_SLACK];
        int64_t h = j->n / 2;
        F(load)(last - first, lanes, j->from + first * j->from_stride, at, j->from_stride, x[0], x[1]);
        F(load)(last - first, lanes, j->from + (h - last + 1) * j->from_stride, at, j->from_stride, y[0], y[1]);
        F(load_half)
        (first, last, (const T *)j->plan->tables + 2 * j->plan->half, lanes, x[0], x[1], y[0], y[1], work[0], work[1]);
        return;
    }
    const bool pairs =
        j->kind == FROM_REAL && j->even && j->from_stride == sizeof(T); /* lie in memory as complex numbers do */
    if (j->kind == COMPLEX || pairs) {
        const int64_t stride = pairs ? 2 * (int64_t)sizeof(T) : j->from_stride;
        F(load)
        (last - first, lanes, j->from + first * stride, at, stride, work[0] + first * lanes, work[1] + first * lanes);
        return;
    }
    F(read_real)(j, first, last, at, lanes, work[0], work[1]);
}

static inline void F(write_tile)(const job *j, int64_t first, int64_t last, const int64_t *at, int64_t lanes,
                                 const T *re, const T *im) {
    T scale = (T)j->scale;
    if (j->kind == FROM_REAL && j->even) {
        T x[2][TILE * MOST_LANES + TPI_FFT_SLACK];
        F(make_half)(first, last, j->n / 2, (const T *)j->plan->tables + 2 * j->plan->half, lanes, re, im, x[0], x[1]);
        F(store)(last - first, lanes, x[0], x[1], scale, j->to + first * j->to_stride, at, j->to_stride);
        return;
    }
    const bool pairs = j->kind == TO_REAL && j->even && j->to_stride == sizeof(T);
    if (j->kind != TO_REAL || pairs) {
        const int64_t stride = pairs ? 2 * (int64_t)sizeof(T) : j->to_stride;
        F(store)
        (last - first, lanes, re + first * lanes, im + first * lanes, scale, j->to + first * stride, at, stride);
        return;
    }
    F(write_real)(j, first, last, at, lanes, re, im, scale);
}

/* A group of lines from walk's place on. */
static void F(run_lines)(const job *j, tpi_odometer *walk, int64_t lanes, T **work) {
    if (j->direct) {
        const int64_t item = sizeof(T);
        const tpi_fft_ends ends = {j->from + walk->offset[0],
                                   j->to + walk->offset[1],
                                   j->from_stride / item,
                                   j->to_stride / item,
                                   j->scale,
                                   !j->forward};
        F(run_plan)(j->plan, lanes, &ends, work);
        return;
    }
    int64_t from[MOST_LANES], to[MOST_LANES], n = j->even ? j->n / 2 : j->n; /* n: elements of the transform */
    for (int64_t l = 0; l < lanes; l++) {
        from[l] = walk->offset[0];
        to[l] = walk->offset[1];
        tpi_odometer_next(walk);
    }
    if (j->kind == TO_REAL && !j->even)
        for (int64_t l = 0; l < lanes; l++)
            F(read_mirrored)(j->n, j->from + from[l], j->from_stride, lanes, l, work[0], work[1]);
    else
        for (int64_t k = 0; k < n; k += TILE) {
            if (lanes == MOST_LANES)
                F(read_tile)(j, k, k + TILE < n ? k + TILE : n, from, MOST_LANES, work);
            else if (lanes == SOME_LANES)
                F(read_tile)(j, k, k + TILE < n ? k + TILE : n, from, SOME_LANES, work);
            else
                F(read_tile)(j, k, k + TILE < n ? k + TILE : n, from, lanes, work);
        }
    T *arrays[4] = {work[j->forward ? 0 : 1], work[j->forward ? 1 : 0], work[2], work[3]};
    F(run_plan)(j->plan, lanes, &(tpi_fft_ends){0}, arrays);
    const T *re = arrays[j->forward ? 0 : 1], *im = arrays[j->forward ? 1 : 0];
    int64_t out = j->kind == FROM_REAL ? j->n / 2 + 1 : n;
    for (int64_t k = 0; k < out; k += TILE) {
        if (lanes == MOST_LANES)
            F(write_tile)(j, k, k + TILE < out ? k + TILE : out, to, MOST_LANES, re, im);
        else if (lanes == SOME_LANES)
            F(write_tile)(j, k, k + TILE < out ? k + TILE : out, to, SOME_LANES, re, im);
        else
            F(write_tile)(j, k, k + TILE < out ? k + TILE : out, to, lanes, re, im);
    }
}

/* The same where they lie as complex numbers do, as many at a time as the plan takes. The last may be fewer: then the
 * first of them stands for those that are missing. */
static void F(run_single_lines)(const job *j, tpi_odometer *walk, int64_t lines, T **work) {
    const int64_t n = j->plan->n, together = j->plan->together;
    const T *half = (const T *)j->plan->tables + 2 * j->plan->half;
    for (int64_t l = 0; l < lines; l += together) {
        const int64_t there = lines - l < together ? lines - l : together;
        const T *from[4] = {0};
        T *to[4] = {0}, *end[4] = {0};
        for (int64_t i = 0; i < together; i++) {
            from[i] = i < there ? (const T *)(const void *)(j->from + walk->offset[0]) : from[0];
            end[i] = i < there ? (T *)(void *)(j->to + walk->offset[1]) : end[0];
            to[i] = j->kind == FROM_REAL ? work[6] + 2 * n * (i < there ? i : 0) : end[i];
            if (i < there) tpi_odometer_next(walk);
        }
        for (int64_t i = 0; i < together && j->kind == TO_REAL; i++) {
            T *z = work[6] + 2 * n * (i < there ? i : 0);
            if (i < there) F(load_half_line)(n, half, from[i], z);
            from[i] = z;
        }
        F(run_line)(j->plan, from, to, j->kind == FROM_REAL ? 1 : (T)j->scale, !j->forward, work);
        for (int64_t i = 0; i < there && j->kind == FROM_REAL; i++)
            F(make_half_line)(n, half, to[i], (T)j->scale, end[i]);
    }
}

#undef JOIN__
#undef JOIN_
#undef F
