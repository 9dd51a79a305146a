/* Numbers of matrices, real or complex, and teams: the threads of a block, which work on one matrix. Before this text:
 * A the type, float or double, of a number or of its parts (COMPLEX: it has two); TEAM, how many threads a block has,
 * and LANES, how many of them take a column together (powers of two). A team of one has no barriers: some compilers
 * take seconds over each. Matrices lie in column order, one behind the other.
 *
 * HELD is how many numbers a block holds in shared memory: matrices that are small are worked on there, those that are
 * not (HELD is 0) where they lie. OPTION is what a kernel makes of it. */
#ifndef MATRIX_H
#define MATRIX_H

#if COMPLEX
typedef struct num {
    A re, im;
} num;
INLINE num number(A re, A im) {
    num x;
    x.re = re;
    x.im = im;
    return x;
}
#define RE(x) ((x).re)
#define IM(x) ((x).im)
INLINE num plus(num a, num b) { return number(a.re + b.re, a.im + b.im); }
INLINE num minus(num a, num b) { return number(a.re - b.re, a.im - b.im); }
INLINE num times(num a, num b) { return number(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }
INLINE num scaled(num a, A by) { return number(a.re * by, a.im * by); }
INLINE num mirrored(num a) { return number(a.re, -a.im); } /* its conjugate */
INLINE num over(num a, num b) { /* by the larger part first, so that squares do not overflow */
    if (FABS(b.re) >= FABS(b.im)) {
        const A r = b.im / b.re, d = b.re + b.im * r;
        return number((a.re + a.im * r) / d, (a.im - a.re * r) / d);
    }
    const A r = b.re / b.im, d = b.re * r + b.im;
    return number((a.re * r + a.im) / d, (a.im * r - a.re) / d);
}
#else
typedef A num;
#define number(re, im) (re)
#define RE(x)          (x)
#define IM(x)          ((A)0)
#define plus(a, b)     ((a) + (b))
#define minus(a, b)    ((a) - (b))
#define times(a, b)    ((a) * (b))
#define scaled(a, by)  ((a) * (by))
#define mirrored(a)    (a)
#define over(a, b)     ((a) / (b))
#endif
#define NOTHING number((A)0, (A)0)
#define ONE     number((A)1, (A)0)
#define SIZE(x) (FABS(RE(x)) + FABS(IM(x))) /* as LAPACK compares them */

#if TEAM > 1
#define SYNC() BARRIER()
#else
#define SYNC() (void)0
#endif
#define LANE    (THREAD % LANES)
#define COLUMNS (TEAM / LANES) /* that a team takes at once */

/* One number of each thread's to one of all; a and b are two of them. */
#define TEAM_FOLD(NAME, JOINED)                                 \
    INLINE A NAME(A x, SHARED_OF A *room) {                     \
        room[THREAD] = x;                                       \
        for (int h = TEAM / 2; h > 0; h /= 2) {                 \
            SYNC();                                             \
            if (THREAD < h) {                                   \
                const A a = room[THREAD], b = room[THREAD + h]; \
                room[THREAD] = JOINED;                          \
            }                                                   \
        }                                                       \
        SYNC();                                                 \
        x = room[0];                                            \
        SYNC();                                                 \
        return x;                                               \
    }
TEAM_FOLD(team_sum, a + b)
TEAM_FOLD(team_most, b > a ? b : a)

/* ---- Where a matrix is while it is worked on; columns are DOWN(rows) apart there, so that rows too are spread over
 * the banks ---- */
#if HELD
#define WHERE   SHARED_OF
#define DOWN(m) ((m) | 1)
INLINE WHERE num *taken(GLOBAL const num *from, SHARED_OF num *room, int m, int n) {
    for (int i = THREAD; i < m * n; i += TEAM) room[i / m * DOWN(m) + i % m] = from[i];
    SYNC();
    return room;
}
INLINE void given_back(GLOBAL num *to, WHERE const num *x, int m, int n) {
    SYNC();
    for (int i = THREAD; i < m * n; i += TEAM) to[i] = x[i / m * DOWN(m) + i % m];
}
#define ROOM HELD
#else
#define WHERE   GLOBAL
#define DOWN(m) ((int64_t)(m))
INLINE WHERE num *taken(GLOBAL num *from, SHARED_OF num *room, int m, int n) { return from; }
INLINE void given_back(GLOBAL num *to, WHERE const num *x, int m, int n) {}
#define ROOM    1
#endif

/* Each column's lanes together; every one of them gets the sum. */
#if defined(SWAP) && LANES > 1 && LANES <= WARP
#define IN_STEP 1 /* by what threads of a warp see of each other */
INLINE num swapped(num x, int by) { return number(SWAP(RE(x), by), SWAP(IM(x), by)); }
INLINE num lanes_sum(num x, SHARED_OF num *room) {
    UNROLL
    for (int by = LANES / 2; by > 0; by /= 2) x = plus(x, swapped(x, by));
    return x;
}
#else
#define IN_STEP 0
INLINE num lanes_sum(num x, SHARED_OF num *room) {
    room[THREAD] = x;
    for (int h = LANES / 2; h > 0; h /= 2) {
        SYNC();
        if (LANE < h) room[THREAD] = plus(room[THREAD], room[THREAD + h]);
    }
    SYNC();
    x = room[THREAD - LANE];
    SYNC();
    return x;
}
#endif
#endif
