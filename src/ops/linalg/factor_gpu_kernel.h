/* Factorisations, a block per matrix (matrix_gpu_kernel.h says what goes before this text, and how matrices lie), with
 * LAPACK's meanings and signs.
 *
 *   lu           A = P L U in place of A, m by n; pivots from 1, and info: 0, or the first column without a pivot,
 *                from 1
 *   solve        a thread per right-hand side: b becomes the solution of A b' = b, with what lu made
 *   systems      both at once, for what is held in shared memory: A is left as it is; OPTION: b is made the inverse,
 *                whatever it was
 *   determinant  the determinant of what lu made (OPTION: its sign, and the logarithm of its size)
 *   permutation  a thread per matrix: ones in m by m zeros, where the k row exchanges of lu put them; a row that is
 *                none is a fault
 *   cholesky     the lower factor in place of A, of which the lower triangle is read; info as LAPACK's
 *   reflectors   QR: R in the upper triangle of A, the reflectors I - tau v v^H below it and in tau
 *   product      the first n columns of the product of k reflectors, in their place */
#include "matrix_gpu_kernel.h"
#include "fault.h"

#if defined(KERNEL_lu) || defined(KERNEL_systems)
typedef struct largest { /* of a column, and its row */
    A size;
    int at;
} largest;
INLINE largest larger(largest a, A size, int at) { /* of two that are equal the first */
    if (size > a.size || (size == a.size && at < a.at)) {
        a.size = size;
        a.at = at;
    }
    return a;
}

/* Of rows j and on; every thread gets it. */
INLINE largest find_pivot(WHERE const num *column, const int j, const int m, SHARED_OF largest *room) {
#if IN_STEP /* each warp looks for itself */
    const int span = TEAM < WARP ? TEAM : WARP;
#else
    const int span = TEAM;
#endif
    largest best;
    best.size = -1;
    best.at = j;
    for (int i = j + THREAD % span; i < m; i += span) best = larger(best, SIZE(column[i]), i);
#if IN_STEP
    UNROLL
    for (int by = span / 2; by > 0; by /= 2) {
        const A size = SWAP(best.size, by);
        const int at = SWAP(best.at, by);
        best = larger(best, size, at);
    }
#else
    room[THREAD] = best;
    for (int h = TEAM / 2; h > 0; h /= 2) {
        SYNC();
        if (THREAD < h) room[THREAD] = larger(room[THREAD], room[THREAD + h].size, room[THREAD + h].at);
    }
    SYNC();
    best = room[0];
#endif
    SYNC();
    return best;
}

/* The first `least` columns of x, m by n, become L and U; those behind them take part in all that is done to rows.
 * pivots may be NULL. Returns info. */
INLINE int eliminate(WHERE num *x, const int m, const int n, const int least, GLOBAL int32_t *pivots,
                     SHARED_OF largest *room) {
    int bad = 0;
    for (int j = 0; j < least; j++) {
        WHERE num *column = x + j * DOWN(m);
        const largest best = find_pivot(column, j, m, room);
        for (int c = THREAD; c < n && best.at != j; c += TEAM) {
            const num other = x[c * DOWN(m) + j];
            x[c * DOWN(m) + j] = x[c * DOWN(m) + best.at];
            x[c * DOWN(m) + best.at] = other;
        }
        SYNC();
        if (THREAD == 0 && pivots) pivots[j] = best.at + 1;
        if (best.size == 0) {
            if (!bad) bad = j + 1;
            continue;
        }
        const num pivot = column[j];
        for (int i = j + 1 + THREAD; i < m; i += TEAM) column[i] = over(column[i], pivot);
        SYNC();
        for (int c = j + 1 + THREAD / LANES; c < n; c += COLUMNS) {
            WHERE num *y = x + c * DOWN(m);
            const num by = y[j];
            for (int i = j + 1 + LANE; i < m; i += LANES) y[i] = minus(y[i], times(column[i], by));
        }
        SYNC();
    }
    return bad;
}
#endif

#ifdef KERNEL_lu
KERNEL(entry)
(PTR(a), PTR(pivots), PTR(info), const int m, const int n) {
    SHARED largest room[TEAM];
    SHARED num held[ROOM];
    const int least = m < n ? m : n;
    GLOBAL num *lies = AT(num, a) + (int64_t)BLOCK * m * n;
    WHERE num *x = taken(lies, held, m, n);
    const int bad = eliminate(x, m, n, least, AT(int32_t, pivots) + (int64_t)BLOCK * least, room);
    given_back(lies, x, m, n);
    if (THREAD == 0) AT(int32_t, info)[BLOCK] = bad;
}
#endif

#ifdef KERNEL_systems
KERNEL(entry)
(PTR(a), PTR(b), PTR(info), const int n, const int sides) {
    SHARED largest room[TEAM];
    SHARED num held[ROOM];
    GLOBAL num *solution = AT(num, b) + (int64_t)BLOCK * n * sides;
    WHERE num *x = taken(AT(num, a) + (int64_t)BLOCK * n * n, held, n, n), *right = x + n * DOWN(n);
    for (int i = THREAD; i < n * sides; i += TEAM) {
        const int c = i / n, r = i % n;
        right[c * DOWN(n) + r] = !OPTION ? solution[i] : r == c ? ONE : NOTHING;
    }
    SYNC();
    const int bad = eliminate(x, n, n + sides, n, 0, room);
    for (int j = n - 1; j >= 0; j--) {
        WHERE const num *column = x + j * DOWN(n);
        for (int c = THREAD / LANES; c < sides; c += COLUMNS) {
            WHERE num *y = right + c * DOWN(n);
            const num found = over(y[j], column[j]); /* it stays as it is there, for other lanes to read */
            if (LANE == 0) solution[c * n + j] = found;
            for (int i = LANE; i < j; i += LANES) y[i] = minus(y[i], times(column[i], found));
        }
        SYNC();
    }
    if (THREAD == 0) AT(int32_t, info)[BLOCK] = bad;
}
#endif

#ifdef KERNEL_solve
KERNEL(entry)
(PTR(a), PTR(pivots), PTR(b), const int64_t systems, const int n, const int sides) {
    const int64_t t = (int64_t)BLOCK * THREADS + THREAD, s = t / sides;
    if (s >= systems) return;
    GLOBAL const num *x = AT(const num, a) + s * n * n;
    GLOBAL const int32_t *p = AT(const int32_t, pivots) + s * n;
    GLOBAL num *y = AT(num, b) + t * n;
    for (int i = 0; i < n; i++) {
        const num held = y[i];
        y[i] = y[p[i] - 1];
        y[p[i] - 1] = held;
    }
    for (int j = 0; j < n; j++)
        for (int i = j + 1; i < n; i++) y[i] = minus(y[i], times(x[(int64_t)j * n + i], y[j]));
    for (int j = n - 1; j >= 0; j--) {
        y[j] = over(y[j], x[(int64_t)j * n + j]);
        for (int i = 0; i < j; i++) y[i] = minus(y[i], times(x[(int64_t)j * n + i], y[j]));
    }
}
#endif

#ifdef KERNEL_determinant
typedef struct product_t {
    double re, im, log_size;
} product_t;
INLINE product_t product_of(product_t a, double re, double im, double log_size) {
    const double r = a.re * re - a.im * im;
    a.im = a.re * im + a.im * re;
    a.re = r;
    a.log_size += log_size;
    return a;
}

KERNEL(entry)
(PTR(a), PTR(pivots), PTR(sign), PTR(logarithm), const int n) {
    SHARED product_t room[TEAM];
    const int64_t s = BLOCK;
    product_t mine;
    mine.re = 1;
    mine.im = 0;
    mine.log_size = 0;
    for (int j = THREAD; j < n; j += TEAM) {
        const num d = AT(const num, a)[(s * n + j) * n + j];
        double x = RE(d), y = IM(d), log_size = 0;
        if (AT(const int32_t, pivots)[s * n + j] != j + 1) {
            x = -x;
            y = -y;
        }
#if OPTION
        const double size = COMPLEX ? hypot(x, y) : fabs(x);
        log_size = log(size);
        if (size > 0) {
            x /= size;
            y /= size;
        }
#endif
        mine = product_of(mine, x, y, log_size);
    }
    room[THREAD] = mine;
    for (int h = TEAM / 2; h > 0; h /= 2) {
        SYNC();
        if (THREAD < h)
            room[THREAD] =
                product_of(room[THREAD], room[THREAD + h].re, room[THREAD + h].im, room[THREAD + h].log_size);
    }
    if (THREAD != 0) return;
    AT(num, sign)[s] = number((A)room[0].re, (A)room[0].im);
    if (OPTION) AT(A, logarithm)[s] = (A)room[0].log_size;
}
#endif

#ifdef KERNEL_permutation
KERNEL(entry)
(FAULT, PTR(out), PTR(pivots), PTR(rows), const int64_t systems, const int m, const int k) {
    const int64_t s = (int64_t)BLOCK * THREADS + THREAD;
    if (s >= systems) return;
    GLOBAL int32_t *row = AT(int32_t, rows) + s * m;
    for (int i = 0; i < m; i++) row[i] = i;
    for (int i = 0; i < k; i++) {
        const int other = AT(const int32_t, pivots)[s * k + i] - 1, held = row[i];
        if (other < 0 || other >= m) {
            NOTE_FAULT(other + 1, m + 1);
            continue;
        }
        row[i] = row[other];
        row[other] = held;
    }
    for (int i = 0; i < m; i++) AT(num, out)[(s * m + i) * m + row[i]] = ONE;
}
#endif

#ifdef KERNEL_cholesky
KERNEL(entry)
(PTR(a), PTR(info), const int n) {
    SHARED num held[ROOM];
    GLOBAL num *lies = AT(num, a) + (int64_t)BLOCK * n * n;
    WHERE num *x = taken(lies, held, n, n);
    int bad = 0;
    for (int j = 0; j < n && !bad; j++) {
        WHERE num *column = x + j * DOWN(n);
        const A d = RE(column[j]);
        SYNC();
        if (!(d > 0)) {
            bad = j + 1;
            continue;
        }
        const A root = SQRT(d);
        for (int i = j + THREAD; i < n; i += TEAM)
            column[i] = i == j ? number(root, (A)0) : scaled(column[i], 1 / root);
        SYNC();
        for (int c = j + 1 + THREAD / LANES; c < n; c += COLUMNS) {
            WHERE num *y = x + c * DOWN(n);
            const num by = mirrored(column[c]);
            for (int i = c + LANE; i < n; i += LANES) y[i] = minus(y[i], times(column[i], by));
        }
        SYNC();
    }
    given_back(lies, x, n, n);
    if (THREAD == 0) AT(int32_t, info)[BLOCK] = bad;
}
#endif

/* Columns j + 1 to n of x become (I - tau v v^H) times themselves; v is column j from row j on, where it counts as 1.
 */
#if defined(KERNEL_reflectors) || defined(KERNEL_product)
INLINE void reflect(WHERE num *x, int m, int n, int j, num tau, SHARED_OF num *room) {
    WHERE const num *v = x + j * DOWN(m);
    for (int first = j + 1; first < n; first += COLUMNS) {
        const int c = first + THREAD / LANES;
        WHERE num *y = x + c * DOWN(m);
        num sum = NOTHING;
        for (int i = j + LANE; i < m && c < n; i += LANES) sum = plus(sum, i == j ? y[i] : times(mirrored(v[i]), y[i]));
        sum = lanes_sum(sum, room);
        sum = times(tau, sum);
        for (int i = j + LANE; i < m && c < n; i += LANES) y[i] = minus(y[i], i == j ? sum : times(v[i], sum));
    }
    SYNC();
}
#endif

#ifdef KERNEL_reflectors
KERNEL(entry)
(PTR(a), PTR(taus), const int m, const int n) {
    SHARED num room[TEAM];
    SHARED A sizes[TEAM];
    SHARED num held[ROOM];
    const int least = m < n ? m : n;
    GLOBAL num *lies = AT(num, a) + (int64_t)BLOCK * m * n;
    WHERE num *x = taken(lies, held, m, n);
    for (int j = 0; j < least; j++) {
        WHERE num *column = x + j * DOWN(m);
        A most = 0, sum = 0, below = 0;
        for (int i = j + THREAD; i < m; i += TEAM) {
            const A size = SIZE(column[i]);
            most = size > most ? size : most;
        }
        most = team_most(most, sizes);
        const A scale = most > 0 ? most : 1; /* squares of what it leaves neither overflow nor vanish */
        for (int i = j + THREAD; i < m; i += TEAM) {
            const A re = RE(column[i]) / scale, im = IM(column[i]) / scale;
            sum += re * re + im * im;
            if (i > j) below += SIZE(column[i]);
        }
        sum = team_sum(sum, sizes);
        below = team_sum(below, sizes);
        const num alpha = column[j];
        SYNC();
        num tau = NOTHING;
        if (below != 0 || IM(alpha) != 0) {
            const A length = scale * SQRT(sum), beta = RE(alpha) < 0 ? length : -length;
            tau = number((beta - RE(alpha)) / beta, -IM(alpha) / beta);
            const num by = over(ONE, minus(alpha, number(beta, (A)0)));
            for (int i = j + THREAD; i < m; i += TEAM) column[i] = i == j ? number(beta, (A)0) : times(column[i], by);
        }
        SYNC();
        if (THREAD == 0) AT(num, taus)[(int64_t)BLOCK * least + j] = tau;
        reflect(x, m, n, j, mirrored(tau), room);
    }
    given_back(lies, x, m, n);
}
#endif

#ifdef KERNEL_product
KERNEL(entry)
(PTR(a), PTR(taus), const int m, const int n, const int k) {
    SHARED num room[TEAM];
    SHARED num held[ROOM];
    GLOBAL num *lies = AT(num, a) + (int64_t)BLOCK * m * n;
    WHERE num *x = taken(lies, held, m, n);
    for (int c = k; c < n; c++)
        for (int i = THREAD; i < m; i += TEAM) x[c * DOWN(m) + i] = i == c ? ONE : NOTHING;
    SYNC();
    for (int j = k - 1; j >= 0; j--) {
        WHERE num *column = x + j * DOWN(m);
        const num tau = AT(const num, taus)[(int64_t)BLOCK * k + j];
        reflect(x, m, n, j, tau, room);
        for (int i = THREAD; i < m; i += TEAM)
            column[i] = i < j ? NOTHING : i == j ? minus(ONE, tau) : minus(NOTHING, times(tau, column[i]));
        SYNC();
    }
    given_back(lies, x, m, n);
}
#endif
