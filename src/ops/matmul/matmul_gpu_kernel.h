/* Products of matrices of any dtype and strides: C = alpha A B + beta C + bias, row by row. matmul_gpu.c writes before
 * this text:
 *
 *   s_t, c_t, a_t   storage type, compute type, and the type that sums: c_t, unsigned for integers, which wrap
 *   GET(s), SET(v)  from and to storage
 *   NUMBER(p)       the member of a param_t that holds a c_t
 *   COMPLEX, HAS_C (beta is not 0), HAS_BIAS (one number per column)
 *   TILED           SIDE x SIDE threads make a tile of C, 4 x 4 elements each, from strips of A and B in shared memory
 *   A_DOWN, B_DOWN  neighbouring elements lie in columns (else in rows), and neighbouring threads read those
 *
 * Without TILED a group of threads makes an element of C, each over its part of k; without SHARING a thread makes a
 * small block of C alone. */
typedef struct product_t {
    int64_t m, n, k, batches;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row; /* strides in elements */
    int64_t group;                                                        /* threads per element: its exponent */
    param_t alpha, beta;
} product_t;

#if COMPLEX
INLINE a_t times(a_t x, a_t y) {
    a_t z;
    z.re = x.re * y.re - x.im * y.im;
    z.im = x.re * y.im + x.im * y.re;
    return z;
}
INLINE a_t plus(a_t x, a_t y) {
    x.re += y.re;
    x.im += y.im;
    return x;
}
INLINE a_t zero(void) {
    a_t z;
    z.re = 0;
    z.im = 0;
    return z;
}
#define VALUE(s) GET(s)
#else
INLINE a_t times(a_t x, a_t y) { return x * y; }
INLINE a_t plus(a_t x, a_t y) { return x + y; }
INLINE a_t zero(void) { return 0; }
#define VALUE(s) ((a_t)GET(s))
#endif

INLINE void write_element(GLOBAL s_t *c, GLOBAL const s_t *bias, const product_t *p, int64_t batch, int64_t row,
                          int64_t col, a_t sum) {
    GLOBAL s_t *to = c + batch * p->c_batch + row * p->c_row + col;
    a_t r = times((a_t)NUMBER(p->alpha), sum);
#if HAS_C
    r = plus(r, times((a_t)NUMBER(p->beta), VALUE(*to)));
#endif
#if HAS_BIAS
    r = plus(r, VALUE(bias[col]));
#endif
    *to = SET(r);
}

#if TILED
#define TILE  (4 * SIDE)
#define DEPTH 16

KERNEL(entry)
(PTR(a), PTR(b), PTR(c), PTR(bias), const product_t p) {
    SHARED a_t strip_a[DEPTH][TILE + 1], strip_b[DEPTH][TILE + 1];
    const int x = THREAD % SIDE, y = THREAD / SIDE;
    const int64_t row0 = (int64_t)BLOCK * TILE, col0 = (int64_t)BLOCK_Y * TILE;
    for (int64_t batch = BLOCK_Z; batch < p.batches; batch += 65535) { /* as many as a grid has at most */
        GLOBAL const s_t *ma = AT(const s_t, a) + batch * p.a_batch, *mb = AT(const s_t, b) + batch * p.b_batch;
        a_t sum[4][4];
        UNROLL
        for (int i = 0; i < 4; i++) UNROLL
        for (int j = 0; j < 4; j++) sum[i][j] = zero();
        for (int64_t k0 = 0; k0 < p.k; k0 += DEPTH) {
            BARRIER();
            for (int e = THREAD; e < TILE * DEPTH; e += SIDE * SIDE) {
                const int ka = A_DOWN ? e / TILE : e % DEPTH, ra = A_DOWN ? e % TILE : e / DEPTH;
                const int kb = B_DOWN ? e % DEPTH : e / TILE, cb = B_DOWN ? e / DEPTH : e % TILE;
                a_t va = zero(), vb = zero();
                if (k0 + ka < p.k && row0 + ra < p.m) va = VALUE(ma[(row0 + ra) * p.a_row + (k0 + ka) * p.a_col]);
                if (k0 + kb < p.k && col0 + cb < p.n) vb = VALUE(mb[(k0 + kb) * p.b_row + (col0 + cb) * p.b_col]);
                strip_a[ka][ra] = va;
                strip_b[kb][cb] = vb;
            }
            BARRIER();
            UNROLL
            for (int k = 0; k < DEPTH; k++) {
                a_t va[4], vb[4];
                UNROLL
                for (int i = 0; i < 4; i++) {
                    va[i] = strip_a[k][y + i * SIDE];
                    vb[i] = strip_b[k][x + i * SIDE];
                }
                UNROLL
                for (int i = 0; i < 4; i++) UNROLL
                for (int j = 0; j < 4; j++) sum[i][j] = plus(sum[i][j], times(va[i], vb[j]));
            }
        }
        UNROLL
        for (int i = 0; i < 4; i++) UNROLL
        for (int j = 0; j < 4; j++) {
            const int64_t row = row0 + y + i * SIDE, col = col0 + x + j * SIDE;
            if (row < p.m && col < p.n) write_element(AT(s_t, c), AT(const s_t, bias), &p, batch, row, col, sum[i][j]);
        }
    }
}
#elif !SHARING
#define WIDTH  16
#define HEIGHT 4
KERNEL(entry)
(PTR(a), PTR(b), PTR(c), PTR(bias), const product_t p) {
    const int64_t down = (p.m + HEIGHT - 1) / HEIGHT, strips = (p.n + WIDTH - 1) / WIDTH,
                  unit = (int64_t)BLOCK * (SIDE * SIDE) + THREAD;
    const int64_t batch = unit / (strips * down), row0 = unit % down * HEIGHT, col0 = unit / down % strips * WIDTH;
    if (batch >= p.batches) return;
    const int height = p.m - row0 < HEIGHT ? (int)(p.m - row0) : HEIGHT,
              width = p.n - col0 < WIDTH ? (int)(p.n - col0) : WIDTH;
    GLOBAL const s_t *va = AT(const s_t, a) + batch * p.a_batch + row0 * p.a_row,
                     *vb = AT(const s_t, b) + batch * p.b_batch + col0 * p.b_col;
    a_t sum[HEIGHT][WIDTH], across[WIDTH];
    for (int i = 0; i < HEIGHT; i++)
        for (int j = 0; j < WIDTH; j++) sum[i][j] = across[j] = zero();
    for (int64_t k = 0; k < p.k; k++) {
        if (width == WIDTH && p.b_col == 1)
            for (int j = 0; j < WIDTH; j++) across[j] = VALUE(vb[k * p.b_row + j]);
        else
            for (int j = 0; j < width; j++) across[j] = VALUE(vb[k * p.b_row + j * p.b_col]);
        for (int i = 0; i < HEIGHT; i++) {
            const a_t x = VALUE(va[(i < height ? i : 0) * p.a_row + k * p.a_col]);
            for (int j = 0; j < WIDTH; j++) sum[i][j] = plus(sum[i][j], times(x, across[j]));
        }
    }
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++)
            write_element(AT(s_t, c), AT(const s_t, bias), &p, batch, row0 + i, col0 + j, sum[i][j]);
}
#else
KERNEL(entry)
(PTR(a), PTR(b), PTR(c), PTR(bias), const product_t p) {
    SHARED a_t room[SIDE * SIDE];
    const int group = 1 << p.group, lane = THREAD & (group - 1);
    const int64_t element = (int64_t)BLOCK * ((SIDE * SIDE) >> p.group) + (THREAD >> p.group),
                  all = p.batches * p.m * p.n;
    const int64_t batch = element / (p.m * p.n), row = element / p.n % p.m, col = element % p.n;
    a_t sum = zero();
    if (element < all) {
        GLOBAL const s_t *va = AT(const s_t, a) + batch * p.a_batch + row * p.a_row,
                         *vb = AT(const s_t, b) + batch * p.b_batch + col * p.b_col;
        for (int64_t k = lane; k < p.k; k += group)
            sum = plus(sum, times(VALUE(va[k * p.a_col]), VALUE(vb[k * p.b_row])));
    }
    room[THREAD] = sum;
    for (int s = group / 2; s > 0; s /= 2) {
        BARRIER();
        if (lane < s) room[THREAD] = sum = plus(sum, room[THREAD + s]);
    }
    if (lane == 0 && element < all) write_element(AT(s_t, c), AT(const s_t, bias), &p, batch, row, col, sum);
}
#endif
