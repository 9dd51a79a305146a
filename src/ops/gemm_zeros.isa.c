/* The float32 product where much of a is zero, as behind a ReLU: see gemm.h.
 *
 * A bit per element of a says whether it is zero. A row of c takes eight vectors of columns at a time through the elements that are not, so a zero
 * costs nothing; sums are made in the order of k and 0 * x adds nothing to a sum, so the bits are those of the other kernels. That x is
 * finite shows in the first row, which skips nothing: an infinity or a NaN anywhere in b would be in its sums. */
#include "ops/gemm.h"
#include "ops/float_vectors.h"
#include "ops/turn.h"

enum {
    WORD = 64,                          /* bits of a mask: the k that is worked on at a time */
    WIDE = 8 * LANES,                   /* columns of c in registers; WORD rows of b as wide stay in the first cache */
    WORDS = TPI_GEMM_DEPTH / WORD,
    MOST_ROWS = 512,
    SAMPLES = 32, SAMPLED_ZEROS = 10,   /* that many zeros among so many elements are worth a closer look */
    LARGEST = 5                         /* eighths of a that may be other than zero */
};

typedef struct zeros {
    uint64_t word[WORDS][MOST_ROWS]; /* bit p of word[w][i]: a[i][w * WORD + p] is not zero */
    int64_t others;
} zeros;

/* Do a few elements, spread over a, have enough zeros among them? */
static bool looks_sparse(const tpi_gemm *g) {
    int64_t i = 0, p = 0, down = g->m * 5 / 13 + 1, along = g->k * 8 / 13 + 1;
    int found = 0;
    for (int s = 0; s < SAMPLES; s++) {
        found += g->a[i * g->a_row + p * g->a_col] == 0;
        i += down, p += along;
        if (i >= g->m) i -= g->m;
        if (p >= g->k) p -= g->k;
    }
    return found >= SAMPLED_ZEROS;
}

/* Bit i: x[i] is not zero, of eight. */
INLINE uint64_t others_of_eight(const float *x) {
#ifdef __AVX2__
    return (uint64_t)(unsigned)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_setzero_ps(), _CMP_NEQ_UQ));
#else
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) bits |= (uint64_t)(x[i] != 0) << i;
    return bits;
#endif
}

/* Eight bytes as an 8 by 8 matrix of bits, transposed: halves change places, then quarters, then single bits. */
INLINE uint64_t turn_bits(uint64_t x) {
    uint64_t t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0u;
    x ^= t ^ (t << 28);
    t = (x ^ (x >> 14)) & 0x0000cccc0000ccccu;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aau;
    return x ^ t ^ (t << 7);
}

/* One word of every row, `depth` elements from a on: rows are contiguous ... */
static int64_t words_along(const float *a, int64_t a_row, int64_t rows, int64_t depth, uint64_t *word) {
    int64_t others = 0;
    for (int64_t i = 0; i < rows; i++, a += a_row) {
        uint64_t bits = 0;
        for (int64_t p = 0; p < depth; p += 8) bits |= others_of_eight(a + p) << p;
        word[i] = bits, others += __builtin_popcountll(bits);
    }
    return others;
}

/* ... or columns are. */
static int64_t words_across(const float *a, int64_t a_col, int64_t rows, int64_t depth, uint64_t *word) {
    int64_t others = 0;
    for (int64_t i = 0; i < rows; i += 8, word += 8) {
        uint64_t of_row[8] = {0};
        for (int64_t p = 0; p < depth; p += 8) {
            uint64_t bytes = 0;
            UNROLL for (int q = 0; q < 8; q++) bytes |= others_of_eight(a + i + (p + q) * a_col) << (8 * q);
            others += __builtin_popcountll(bytes);
            bytes = turn_bits(bytes);
            UNROLL for (int r = 0; r < 8; r++) of_row[r] |= (bytes >> (8 * r) & 0xff) << p;
        }
        memcpy(word, of_row, sizeof of_row);
    }
    return others;
}

static bool find_zeros(const tpi_gemm *g, zeros *z) {
    z->others = 0;
    for (int64_t p = 0; p < g->k; p += WORD) {
        int64_t depth = g->k - p < WORD ? g->k - p : WORD;
        const float *a = g->a + p * g->a_col;
        uint64_t *word = z->word[p / WORD];
        z->others += g->a_col == 1 ? words_along(a, g->a_row, g->m, depth, word) : words_across(a, g->a_col, g->m, depth, word);
    }
    return z->others * 8 <= g->m * g->k * LARGEST;
}

typedef struct panel { /* WORD rows, or fewer, of b by some vectors */
    const float *b;
    int64_t b_row, first, depth, j;
} panel;

/* Rows of c, one panel of b. Sums of earlier panels lie in c; the last one adds where c starts. */
INLINE bool rows_of(int vectors, const tpi_gemm *g, const panel *q, const zeros *z) {
    const uint64_t *word = z->word[q->first / WORD];
    bool last = q->first + q->depth == g->k;
    uint64_t all = q->depth == WORD ? ~(uint64_t)0 : ((uint64_t)1 << q->depth) - 1;
    vector finite = {0}, start[8];
    UNROLL for (int v = 0; v < vectors; v++) start[v] = g->every_row ? load(g->every_row + q->j + v * LANES) : (vector){0};
    for (int64_t i = 0; i < g->m; i++) {
        const float *a = g->a + i * g->a_row + q->first * g->a_col;
        float *c = g->c + i * g->c_row + q->j;
        vector sum[8];
        UNROLL for (int v = 0; v < vectors; v++) sum[v] = q->first ? load(c + v * LANES) : (vector){0};
        for (uint64_t bits = i ? word[i] : all; bits; bits &= bits - 1) {
            int64_t p = __builtin_ctzll(bits);
            vector x = broadcast(a[p * g->a_col]);
            const float *b = q->b + p * q->b_row;
            UNROLL for (int v = 0; v < vectors; v++) sum[v] = multiply_add(x, load(b + v * LANES), sum[v]);
        }
        if (i == 0) UNROLL for (int v = 0; v < vectors; v++) finite += sum[v] * 0.0f;
        if (last) UNROLL for (int v = 0; v < vectors; v++) sum[v] = g->alpha * sum[v] + start[v];
        UNROLL for (int v = 0; v < vectors; v++) store(c + v * LANES, sum[v]);
        if (i == 0)
            for (int v = 0; v < LANES; v++)
                if (finite[v] != 0) return false;
    }
    return true;
}

static bool rows_of_eight(const tpi_gemm *g, const panel *q, const zeros *z) { return rows_of(8, g, q, z); }
static bool rows_of_four(const tpi_gemm *g, const panel *q, const zeros *z) { return rows_of(4, g, q, z); }

static bool panel_rows(const tpi_gemm *g, const zeros *z, int64_t first, int64_t j) {
    _Alignas(64) float room[WORD * WIDE];
    panel q = {g->b + first * g->b_row + j * g->b_col, g->b_row, first, g->k - first < WORD ? g->k - first : WORD, j};
    int64_t columns = g->n - j < WIDE ? WIDE / 2 : WIDE;
    if (g->b_col != 1) {
        for (int64_t at = 0; at < columns; at += 8) {
            const float *from[8];
            for (int64_t i = 0; i < 8; i++) from[i] = q.b + (at + i) * g->b_col;
            turn_eight(from, q.depth, room + at, WIDE);
        }
        q.b = room, q.b_row = WIDE;
    }
    return (columns == WIDE ? rows_of_eight : rows_of_four)(g, &q, z);
}

bool TPI_ISA(tpi_gemm_skipping)(const tpi_gemm *g) {
    zeros z;
    bool rows = g->a_col == 1 && g->k % 8 == 0, columns = g->a_row == 1 && g->k % 8 == 0 && g->m % 8 == 0;
    if (!(rows || columns) || (g->b_col != 1 && g->b_row != 1) || g->k > TPI_GEMM_DEPTH || g->m > MOST_ROWS || g->n % (WIDE / 2) || g->beta != 0 || g->packed) return false;
    if (!looks_sparse(g) || !find_zeros(g, &z)) return false;
    for (int64_t first = 0; first < g->k; first += WORD)
        for (int64_t j = 0; j < g->n; j += WIDE)
            if (!panel_rows(g, &z, first, j)) return false;
    return true;
}
