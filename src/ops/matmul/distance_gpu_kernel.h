/* Distances between all pairs of rows: out[b][i][j] of x1[b][i] and x2[b][j], m columns, by tiles of 16 by 16 pairs in
 * shared memory. Before this text: A the type to compute in, X the dtype; NORM 0 counts differences, 1 adds them up, 2
 * is Euclid's, 3 any power p, 4 takes the largest. */
#define TILE      16
#define IS_NAN(x) ((x) != (x))

KERNEL(entry)
(PTR(out), PTR(x1), PTR(x2), const int64_t r1, const int64_t r2, const int64_t m, const A p) {
    SHARED A one[TILE][TILE + 1];
    SHARED A two[TILE][TILE + 1];
    const int tx = THREAD % TILE, ty = THREAD / TILE;
    const int64_t i = (int64_t)BLOCK_Y * TILE + ty, j = (int64_t)BLOCK * TILE + tx, other = (int64_t)BLOCK * TILE + ty;
    GLOBAL const T_X *a = AT(const T_X, x1) + (int64_t)BLOCK_Z * r1 * m,
                     *b = AT(const T_X, x2) + (int64_t)BLOCK_Z * r2 * m;
    A sum = 0;
    for (int64_t from = 0; from < m; from += TILE) {
        one[ty][tx] = i < r1 && from + tx < m ? GET_X(a[i * m + from + tx]) : 0;
        two[ty][tx] = other < r2 && from + tx < m ? GET_X(b[other * m + from + tx]) : 0;
        BARRIER();
        for (int k = 0; k < TILE; k++) {
            const A d = FABS(one[ty][k] - two[tx][k]);
#if NORM == 0
            sum += d != 0 ? 1 : 0;
#elif NORM == 1
            sum += d;
#elif NORM == 2
            sum += d * d;
#elif NORM == 3
            sum += d != 0 ? POW(d, p) : 0;
#else
            sum = IS_NAN(d) || d > sum ? d : sum;
#endif
        }
        BARRIER();
    }
#if NORM == 2
    sum = SQRT(sum);
#elif NORM == 3
    sum = POW(sum, 1 / p);
#endif
    if (i < r1 && j < r2) AT(T_X, out)[((int64_t)BLOCK_Z * r1 + i) * r2 + j] = SET_X(sum);
}
