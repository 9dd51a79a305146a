/* Factorisations, a block per matrix (matrix.h says what goes before this text, and how matrices lie), with LAPACK's meanings and signs.
 *
 *   lu           A = P L U in place of A, m by n; pivots from 1, and info: 0, or the first column without a pivot, from 1
 *   solve        a thread per right-hand side: b becomes the solution of A b' = b, with what lu made
 *   determinant  a thread per matrix: the determinant of what lu made (LOGARITHM: its sign, and the logarithm of its size)
 *   permutation  a thread per matrix: ones in m by m zeros, where the k row exchanges of lu put them; a row that is none is a fault
 *   cholesky     the lower factor in place of A, of which the lower triangle is read; info as LAPACK's
 *   reflectors   QR: R in the upper triangle of A, the reflectors I - tau v v^H below it and in tau
 *   product      the first n columns of the product of k reflectors, in their place */
#include "matrix.h"
#include "fault.h"

#ifdef KERNEL_lu
KERNEL(entry)(PTR(a), PTR(pivots), PTR(info), const int m, const int n) {
    SHARED A sizes[TEAM];
    SHARED int places[TEAM];
    const int least = m < n ? m : n;
    GLOBAL num *x = AT(num, a) + (int64_t)BLOCK * m * n;
    int bad = 0;
    for (int j = 0; j < least; j++) {
        GLOBAL num *column = x + (int64_t)j * m;
        A most = -1;
        int at = j;
        for (int i = j + THREAD; i < m; i += TEAM)
            if (SIZE(column[i]) > most) most = SIZE(column[i]), at = i;
        sizes[THREAD] = most, places[THREAD] = at;
        for (int h = TEAM / 2; h > 0; h /= 2) { /* of two that are equal the first */
            SYNC();
            const int o = THREAD + h;
            if (THREAD < h && (sizes[o] > sizes[THREAD] || (sizes[o] == sizes[THREAD] && places[o] < places[THREAD]))) sizes[THREAD] = sizes[o], places[THREAD] = places[o];
        }
        SYNC();
        most = sizes[0], at = places[0];
        for (int c = THREAD; c < n && at != j; c += TEAM) {
            const num held = x[(int64_t)c * m + j];
            x[(int64_t)c * m + j] = x[(int64_t)c * m + at];
            x[(int64_t)c * m + at] = held;
        }
        SYNC();
        if (THREAD == 0) AT(int32_t, pivots)[(int64_t)BLOCK * least + j] = at + 1;
        if (most == 0) {
            if (!bad) bad = j + 1;
            continue;
        }
        const num pivot = column[j];
        for (int i = j + 1 + THREAD; i < m; i += TEAM) column[i] = over(column[i], pivot);
        SYNC();
        for (int c = j + 1 + THREAD / LANES; c < n; c += COLUMNS) {
            GLOBAL num *y = x + (int64_t)c * m;
            const num by = y[j];
            for (int i = j + 1 + LANE; i < m; i += LANES) y[i] = minus(y[i], times(column[i], by));
        }
        SYNC();
    }
    if (THREAD == 0) AT(int32_t, info)[BLOCK] = bad;
}
#endif

#ifdef KERNEL_solve
KERNEL(entry)(PTR(a), PTR(pivots), PTR(b), const int64_t systems, const int n, const int sides) {
    const int64_t t = (int64_t)BLOCK * THREADS + THREAD, s = t / sides;
    if (s >= systems) return;
    GLOBAL const num *x = AT(const num, a) + s * n * n;
    GLOBAL const int32_t *p = AT(const int32_t, pivots) + s * n;
    GLOBAL num *y = AT(num, b) + t * n;
    for (int i = 0; i < n; i++) {
        const num held = y[i];
        y[i] = y[p[i] - 1], y[p[i] - 1] = held;
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
KERNEL(entry)(PTR(a), PTR(pivots), PTR(sign), PTR(logarithm), const int64_t systems, const int n) {
    const int64_t s = (int64_t)BLOCK * THREADS + THREAD;
    if (s >= systems) return;
    double re = 1, im = 0, log_size = 0;
    for (int j = 0; j < n; j++) {
        const num d = AT(const num, a)[(s * n + j) * n + j];
        double x = RE(d), y = IM(d);
        if (AT(const int32_t, pivots)[s * n + j] != j + 1) x = -x, y = -y;
#if LOGARITHM
        const double size = COMPLEX ? hypot(x, y) : fabs(x);
        log_size += log(size);
        if (size > 0) x /= size, y /= size;
#endif
        const double r = re * x - im * y;
        im = re * y + im * x, re = r;
    }
    AT(num, sign)[s] = number((A)re, (A)im);
    if (LOGARITHM) AT(A, logarithm)[s] = (A)log_size;
}
#endif

#ifdef KERNEL_permutation
KERNEL(entry)(FAULT, PTR(out), PTR(pivots), PTR(rows), const int64_t systems, const int m, const int k) {
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
        row[i] = row[other], row[other] = held;
    }
    for (int i = 0; i < m; i++) AT(num, out)[(s * m + i) * m + row[i]] = ONE;
}
#endif

#ifdef KERNEL_cholesky
KERNEL(entry)(PTR(a), PTR(info), const int n) {
    GLOBAL num *x = AT(num, a) + (int64_t)BLOCK * n * n;
    int bad = 0;
    for (int j = 0; j < n && !bad; j++) {
        GLOBAL num *column = x + (int64_t)j * n;
        const A d = RE(column[j]);
        SYNC();
        if (!(d > 0)) {
            bad = j + 1;
            continue;
        }
        const A root = SQRT(d);
        for (int i = j + THREAD; i < n; i += TEAM) column[i] = i == j ? number(root, (A)0) : scaled(column[i], 1 / root);
        SYNC();
        for (int c = j + 1 + THREAD / LANES; c < n; c += COLUMNS) {
            GLOBAL num *y = x + (int64_t)c * n;
            const num by = mirrored(column[c]);
            for (int i = c + LANE; i < n; i += LANES) y[i] = minus(y[i], times(column[i], by));
        }
        SYNC();
    }
    if (THREAD == 0) AT(int32_t, info)[BLOCK] = bad;
}
#endif

/* Columns j + 1 to n of x become (I - tau v v^H) times themselves; v is column j from row j on, where it counts as 1. */
#if defined(KERNEL_reflectors) || defined(KERNEL_product)
INLINE void reflect(GLOBAL num *x, int m, int n, int j, num tau, SHARED_OF num *room) {
    GLOBAL const num *v = x + (int64_t)j * m;
    for (int first = j + 1; first < n; first += COLUMNS) {
        const int c = first + THREAD / LANES;
        GLOBAL num *y = x + (int64_t)c * m;
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
KERNEL(entry)(PTR(a), PTR(taus), const int m, const int n) {
    SHARED num room[TEAM];
    SHARED A sizes[TEAM];
    const int least = m < n ? m : n;
    GLOBAL num *x = AT(num, a) + (int64_t)BLOCK * m * n;
    for (int j = 0; j < least; j++) {
        GLOBAL num *column = x + (int64_t)j * m;
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
        sum = team_sum(sum, sizes), below = team_sum(below, sizes);
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
}
#endif

#ifdef KERNEL_product
KERNEL(entry)(PTR(a), PTR(taus), const int m, const int n, const int k) {
    SHARED num room[TEAM];
    GLOBAL num *x = AT(num, a) + (int64_t)BLOCK * m * n;
    for (int c = k; c < n; c++)
        for (int i = THREAD; i < m; i += TEAM) x[(int64_t)c * m + i] = i == c ? ONE : NOTHING;
    SYNC();
    for (int j = k - 1; j >= 0; j--) {
        GLOBAL num *column = x + (int64_t)j * m;
        const num tau = AT(const num, taus)[(int64_t)BLOCK * k + j];
        reflect(x, m, n, j, tau, room);
        for (int i = THREAD; i < m; i += TEAM) column[i] = i < j ? NOTHING : i == j ? minus(ONE, tau) : minus(NOTHING, times(tau, column[i]));
        SYNC();
    }
}
#endif
