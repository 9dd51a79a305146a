/* Singular values and eigenvalues by Jacobi's rotations, a block per matrix (matrix_gpu_kernel.h says what goes before
 * this text, and how matrices lie).
 *
 *   jacobi   m by n, m no less than n: pairs of columns are rotated until all are orthogonal. OPTION: a then holds U
 *            diag(S), vectors the matrix V of
 *            A = U diag(S) V^H, and values S, in no order. Without it only the values are of use: values in no order,
 *            sorted from the largest
 *   eigen    Hermitian, n by n, of which the lower triangle is read (upper: the other): columns and rows are rotated
 *            until nothing is beside the diagonal. values:
 *            from the smallest, and (OPTION) vectors in the same order; a is scratch
 *
 * A round is n / 2 pairs that have no column in common, so lanes of different pairs never meet. Sums are double. */
#include "matrix_gpu_kernel.h"

#if WIDE
#define CLOSE 4.5e-16 /* columns that are orthogonal up to this stay as they are */
#define SMALL 1.1e-16 /* of what a matrix measures: what is no more beside the diagonal counts as nothing */
#else
#define CLOSE 2.4e-7
#define SMALL 6.0e-8
#endif
#define SWEEPS 30

/* All columns sit around a table but one, who sits still; everyone moves on by a seat each round. An odd one has a
 * round without a partner. */
typedef struct pair_t {
    int p, q, there;
} pair_t;
INLINE pair_t pair_of(const int round, const int pair, const int n) {
    const int even = n + n % 2, around = even - 1, on = round + pair, back = round - pair;
    pair_t at;
    at.p = pair == 0 ? around : on < around ? on : on - around;
    at.q = back < 0 ? back + around : back;
    at.there = pair < even / 2 && at.p < n && at.q < n;
    if (!at.there) at.p = at.q = 0;
    return at;
}

/* How two columns are rotated, from pp, qq and g, the size of what is to vanish: tangent, cosine and sine. */
typedef struct rotation {
    A t, c, s;
} rotation;
INLINE rotation rotation_of(double pp, double qq, double g) {
    const A zeta = (A)((qq - pp) / (2 * g)), one = 1;
    rotation r;
    r.t = (zeta < 0 ? -one : one) / (FABS(zeta) + SQRT(one + zeta * zeta)); /* 0 where the square overflows */
    r.c = one / SQRT(one + r.t * r.t);
    r.s = r.c * r.t;
    return r;
}
/* exp(-i angle of re + i im), where g is its size. */
INLINE num rotation_phase(double re, double im, double g) {
#if COMPLEX
    return number((A)(re / g), (A)(-im / g));
#else
    return re < 0 ? -ONE : ONE;
#endif
}

/* Is value j before value c in order? NaN is the largest; of two that are equal the first comes first. */
#define ABOVE(x, y)                 ((x) > (y) || ((x) != (x) && (y) == (y)))
#define BEFORE(first, second, j, c) (ABOVE(first, second) || (!ABOVE(second, first) && (j) < (c)))

INLINE void start_with_ones(WHERE num *v, int n) {
    for (int i = THREAD; i < n * n; i += TEAM) v[i / n * DOWN(n) + i % n] = i / n == i % n ? ONE : NOTHING;
}

#ifdef KERNEL_jacobi
typedef struct dots { /* of two columns p and q: p.p, q.q, p^H q */
    double pp, qq, re, im;
} dots;

INLINE dots lanes_dots(dots x, SHARED_OF dots *room) {
#if IN_STEP
    UNROLL
    for (int by = LANES / 2; by > 0; by /= 2) {
        x.pp += SWAP(x.pp, by);
        x.qq += SWAP(x.qq, by);
        x.re += SWAP(x.re, by);
        if (COMPLEX) x.im += SWAP(x.im, by);
    }
#else
    room[THREAD] = x;
    for (int h = LANES / 2; h > 0; h /= 2) {
        SYNC();
        if (LANE < h) {
            const dots y = room[THREAD + h];
            room[THREAD].pp += y.pp;
            room[THREAD].qq += y.qq;
            room[THREAD].re += y.re;
            room[THREAD].im += y.im;
        }
    }
    SYNC();
    x = room[THREAD - LANE];
    SYNC();
#endif
    return x;
}

INLINE int are_apart(dots d, double g) { /* squares of floats neither overflow nor vanish */
    return WIDE ? g > CLOSE * sqrt(d.pp) * sqrt(d.qq) : g * g > CLOSE * CLOSE * d.pp * d.qq;
}

/* (p, q) becomes (c p - s q e, s p + c q e) with e = exp(-i angle of p^H q). */
INLINE void rotate(WHERE num *p, WHERE num *q, int rows, rotation r, num e) {
    for (int i = LANE; i < rows; i += LANES) {
        const num x = p[i], y = times(q[i], e);
        p[i] = minus(scaled(x, r.c), scaled(y, r.s));
        q[i] = plus(scaled(x, r.s), scaled(y, r.c));
    }
}

KERNEL(entry)
(PTR(a), PTR(vectors), PTR(values), PTR(sorted), const int m, const int n) {
    SHARED dots room[IN_STEP ? 1 : TEAM];
    SHARED num held[ROOM];
    SHARED int rotated[1];
    GLOBAL num *lies = AT(num, a) + (int64_t)BLOCK * m * n, *v_lies = AT(num, vectors) + (int64_t)BLOCK * n * n;
    WHERE num *x = taken(lies, held, m, n);
#if HELD
    WHERE num *v = x + n * DOWN(m);
#else
    WHERE num *v = v_lies;
#endif
    if (OPTION) start_with_ones(v, n);
    const int even = n + n % 2;
    for (int sweep = 0, more = n > 1; sweep < SWEEPS && more; sweep++) {
        SYNC();
        if (THREAD == 0) rotated[0] = 0;
        SYNC();
        for (int round = 0; round < even - 1; round++) {
            for (int first = 0; first < even / 2; first += COLUMNS) {
                const pair_t at = pair_of(round, first + THREAD / LANES, n);
                WHERE num *p = x + at.p * DOWN(m), *q = x + at.q * DOWN(m);
                dots d;
                d.pp = d.qq = d.re = d.im = 0;
                for (int i = LANE; i < m && at.there; i += LANES) {
                    const double yr = RE(p[i]), zr = RE(q[i]);
                    d.pp += yr * yr;
                    d.qq += zr * zr;
                    d.re += yr * zr;
#if COMPLEX
                    const double yi = IM(p[i]), zi = IM(q[i]);
                    d.pp += yi * yi;
                    d.qq += zi * zi;
                    d.re += yi * zi;
                    d.im += yr * zi - yi * zr;
#endif
                }
                d = lanes_dots(d, room);
                const double g = COMPLEX ? hypot(d.re, d.im) : fabs(d.re);
                if (at.there && are_apart(d, g)) {
                    const rotation r = rotation_of(d.pp, d.qq, g);
                    const num e = rotation_phase(d.re, d.im, g);
                    rotate(p, q, m, r, e);
                    if (OPTION) rotate(v + at.p * DOWN(n), v + at.q * DOWN(n), n, r, e);
                    rotated[0] = 1;
                }
            }
            SYNC();
        }
        more = rotated[0];
    }
    SYNC();
    GLOBAL A *s = AT(A, values) + (int64_t)BLOCK * n;
    for (int c = THREAD; c < n; c += TEAM) {
        double sum = 0;
        for (int i = 0; i < m; i++)
            sum += (double)RE(x[c * DOWN(m) + i]) * RE(x[c * DOWN(m) + i]) +
                   (double)IM(x[c * DOWN(m) + i]) * IM(x[c * DOWN(m) + i]);
        s[c] = (A)sqrt(sum);
    }
#if OPTION
    given_back(lies, x, m, n);
    given_back(v_lies, v, n, n);
#else
    SYNC();
    for (int c = THREAD; c < n; c += TEAM) {
        int place = 0;
        for (int j = 0; j < n; j++) place += BEFORE(s[j], s[c], j, c);
        AT(A, sorted)[(int64_t)BLOCK * n + place] = s[c];
    }
#endif
}
#endif

#ifdef KERNEL_eigen
#define PAIRS 64 /* half of what n may be */

typedef struct pair_rotation { /* of columns and rows p and q, and what they have on the diagonal then */
    pair_t at;
    rotation by;
    num e;
    A p, q;
} pair_rotation;

/* What is read becomes the whole matrix; returns what counts as nothing beside its diagonal. */
INLINE double make_whole(WHERE num *x, int n, int upper, SHARED_OF double *room) {
    double sum = 0;
    for (int k = THREAD; k < n * n; k += TEAM) {
        const int c = k / n, i = k % n;
        if (i == c) {
            x[c * DOWN(n) + i] = number(RE(x[c * DOWN(n) + i]), (A)0);
        } else if ((i > c) != upper) { /* as much on the other side, where no other thread is */
            x[i * DOWN(n) + c] = mirrored(x[c * DOWN(n) + i]);
        } else {
            continue;
        }
        const double re = RE(x[c * DOWN(n) + i]), im = IM(x[c * DOWN(n) + i]);
        sum += (i == c ? 1 : 2) * (re * re + im * im);
    }
    room[THREAD] = sum;
    for (int h = TEAM / 2; h > 0; h /= 2) {
        SYNC();
        if (THREAD < h) room[THREAD] += room[THREAD + h];
    }
    SYNC();
    return SMALL * sqrt(room[0]) / n;
}

/* Columns p and q of x, and of the vectors. */
INLINE void rotate_columns(WHERE num *x, int n, pair_rotation t) {
    const pair_t at = t.at;
    for (int i = LANE; i < n; i += LANES) {
        const num y = x[at.p * DOWN(n) + i], z = times(x[at.q * DOWN(n) + i], t.e);
        x[at.p * DOWN(n) + i] = minus(scaled(y, t.by.c), scaled(z, t.by.s));
        x[at.q * DOWN(n) + i] = plus(scaled(y, t.by.s), scaled(z, t.by.c));
    }
}

/* Rows p and q; where they meet their own columns it is known what comes out, without the error that would never let it
 * end. */
INLINE void rotate_rows(WHERE num *x, int n, pair_rotation t) {
    const pair_t at = t.at;
    for (int c = LANE; c < n; c += LANES) {
        WHERE num *column = x + c * DOWN(n);
        const num y = column[at.p], z = times(column[at.q], mirrored(t.e));
        column[at.p] = c == at.p   ? number(t.p, (A)0)
                       : c == at.q ? NOTHING
                                   : minus(scaled(y, t.by.c), scaled(z, t.by.s));
        column[at.q] = c == at.q ? number(t.q, (A)0) : c == at.p ? NOTHING : plus(scaled(y, t.by.s), scaled(z, t.by.c));
    }
}

KERNEL(entry)
(PTR(a), PTR(scratch), PTR(vectors), PTR(values), const int n, const int upper) {
    SHARED double room[TEAM];
    SHARED pair_rotation rotations[PAIRS];
    SHARED num held[ROOM];
    SHARED int rotated[1];
    WHERE num *x = taken(AT(num, a) + (int64_t)BLOCK * n * n, held, n, n);
#if HELD
    WHERE num *v = x + n * DOWN(n);
#else
    WHERE num *v = AT(num, scratch) + (int64_t)BLOCK * n * n;
#endif
    if (OPTION) start_with_ones(v, n);
    const double nothing = make_whole(x, n, upper, room);
    const int even = n + n % 2;
    for (int sweep = 0, more = n > 1; sweep < SWEEPS && more; sweep++) {
        SYNC();
        if (THREAD == 0) rotated[0] = 0;
        SYNC();
        for (int round = 0; round < even - 1; round++) {
            for (int pair = THREAD; pair < even / 2; pair += TEAM) {
                const pair_t at = pair_of(round, pair, n);
                const num beside = x[at.q * DOWN(n) + at.p]; /* row p, column q */
                const double re = RE(beside), im = IM(beside), g = COMPLEX ? hypot(re, im) : fabs(re);
                pair_rotation t;
                t.at = at;
                t.at.there = at.there && g > nothing;
                if (t.at.there) {
                    const A pp = RE(x[at.p * DOWN(n) + at.p]), qq = RE(x[at.q * DOWN(n) + at.q]);
                    t.by = rotation_of(pp, qq, g);
                    t.e = rotation_phase(re, im, g);
                    t.p = pp - t.by.t * (A)g;
                    t.q = qq + t.by.t * (A)g;
                    rotated[0] = 1;
                }
                rotations[pair] = t;
            }
            SYNC();
            for (int pair = THREAD / LANES; pair < even / 2; pair += COLUMNS)
                if (rotations[pair].at.there) {
                    rotate_columns(x, n, rotations[pair]);
                    if (OPTION) rotate_columns(v, n, rotations[pair]);
                }
            SYNC();
            for (int pair = THREAD / LANES; pair < even / 2; pair += COLUMNS)
                if (rotations[pair].at.there) rotate_rows(x, n, rotations[pair]);
            SYNC();
        }
        more = rotated[0];
    }
    SYNC();
    for (int c = THREAD / LANES; c < n; c += COLUMNS) {
        const A own = RE(x[c * DOWN(n) + c]);
        int place = n - 1; /* as many are behind it */
        for (int j = 0; j < n; j++) place -= BEFORE(RE(x[j * DOWN(n) + j]), own, j, c);
        if (LANE == 0) AT(A, values)[(int64_t)BLOCK * n + place] = own;
        for (int i = LANE; i < n && OPTION; i += LANES)
            AT(num, vectors)[((int64_t)BLOCK * n + place) * n + i] = v[c * DOWN(n) + i];
    }
}
#endif
