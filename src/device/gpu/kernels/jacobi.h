/* Singular values by Jacobi's rotations, a block per matrix (matrix.h says what goes before this text, and how matrices lie): m by n, m no less than n. Pairs of
 * columns are turned until all are orthogonal; a then holds U diag(S), v the matrix V of A = U diag(S) V^H, and values S, in no order. Sums are double. A
 * round is n / 2 pairs that have no column in common, so lanes of different pairs never meet. */
#include "matrix.h"

#ifdef KERNEL_jacobi
#if WIDE
#define CLOSE 4.5e-16 /* columns that are orthogonal up to this stay as they are */
#else
#define CLOSE 2.4e-7
#endif
#define SWEEPS 30

typedef struct dots { /* of two columns p and q: p.p, q.q, p^H q */
    double pp, qq, re, im;
} dots;

INLINE dots lanes_dots(dots x, SHARED_OF dots *room) {
    room[THREAD] = x;
    for (int h = LANES / 2; h > 0; h /= 2) {
        SYNC();
        if (LANE < h) {
            const dots y = room[THREAD + h];
            room[THREAD].pp += y.pp, room[THREAD].qq += y.qq, room[THREAD].re += y.re, room[THREAD].im += y.im;
        }
    }
    SYNC();
    x = room[THREAD - LANE];
    SYNC();
    return x;
}

/* (p, q) becomes (c p - s q e, s p + c q e) with e = exp(-i angle of p^H q). */
INLINE void turn(GLOBAL num *p, GLOBAL num *q, int rows, A c, A s, num e) {
    for (int i = LANE; i < rows; i += LANES) {
        const num x = p[i], y = times(q[i], e);
        p[i] = minus(scaled(x, c), scaled(y, s)), q[i] = plus(scaled(x, s), scaled(y, c));
    }
}

KERNEL(entry)(PTR(a), PTR(vectors), PTR(values), const int m, const int n) {
    SHARED dots room[TEAM];
    SHARED int turned[1];
    GLOBAL num *x = AT(num, a) + (int64_t)BLOCK * m * n, *v = AT(num, vectors) + (int64_t)BLOCK * n * n;
    for (int c = 0; c < n; c++)
        for (int i = THREAD; i < n; i += TEAM) v[(int64_t)c * n + i] = i == c ? ONE : NOTHING;
    const int even = n + n % 2, around = even - 1;
    for (int sweep = 0, more = n > 1; sweep < SWEEPS && more; sweep++) {
        SYNC();
        if (THREAD == 0) turned[0] = 0;
        SYNC();
        for (int round = 0; round < around; round++) {
            for (int first = 0; first < even / 2; first += COLUMNS) { /* all sit around a table but one, who sits still */
                const int pair = first + THREAD / LANES;
                int p = pair == 0 ? around : (round + pair) % around, q = (round + around - pair % around) % around;
                const int there = pair < even / 2 && p < n && q < n;
                if (!there) p = q = 0;
                dots d;
                d.pp = d.qq = d.re = d.im = 0;
                for (int i = LANE; i < m && there; i += LANES) {
                    const num y = x[(int64_t)p * m + i], z = x[(int64_t)q * m + i];
                    const double yr = RE(y), yi = IM(y), zr = RE(z), zi = IM(z);
                    d.pp += yr * yr + yi * yi, d.qq += zr * zr + zi * zi, d.re += yr * zr + yi * zi, d.im += yr * zi - yi * zr;
                }
                d = lanes_dots(d, room);
                const double g = COMPLEX ? hypot(d.re, d.im) : fabs(d.re);
                if (there && g > CLOSE * sqrt(d.pp) * sqrt(d.qq)) {
                    const double zeta = (d.qq - d.pp) / (2 * g), t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta)), c = 1 / sqrt(1 + t * t);
                    const num e = number((A)(d.re / g), (A)(-d.im / g));
                    turn(x + (int64_t)p * m, x + (int64_t)q * m, m, (A)c, (A)(c * t), e);
                    turn(v + (int64_t)p * n, v + (int64_t)q * n, n, (A)c, (A)(c * t), e);
                    turned[0] = 1;
                }
            }
            SYNC();
        }
        more = turned[0];
    }
    SYNC();
    for (int c = THREAD; c < n; c += TEAM) {
        double sum = 0;
        for (int i = 0; i < m; i++) sum += (double)RE(x[(int64_t)c * m + i]) * RE(x[(int64_t)c * m + i]) + (double)IM(x[(int64_t)c * m + i]) * IM(x[(int64_t)c * m + i]);
        AT(A, values)[(int64_t)BLOCK * n + c] = (A)sqrt(sum);
    }
}
#endif
