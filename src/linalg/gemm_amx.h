/* A product's tiles by AMX: see gemm.h. gemm_amx.c includes this for pairs of bfloat16s, gemm_amx_bytes.c for quads of
 * bytes; both are called on processors that have the instructions and where the system allows them
 * (device/cpu/instruction_set.c).
 *
 * An instruction multiplies 16 rows by 16 pairs or quads with as many by 16 columns and adds to 16 by 16 sums. A kernel
 * has two by two of those; its last rows are fewer by another configuration, its last pairs are filled up with zeros,
 * so an element's bits depend on its row and its column alone.
 *
 * The including file defines G and MULTIPLY_TILES(sums, a, b), and includes what packs panels. */
#ifndef TPI_GEMM_AMX_H
#define TPI_GEMM_AMX_H
enum { SIDE = 16, STRIP = 2 * SIDE, STEP_BYTES = 64, PALETTE = 1 };
/* The tiles: gcc pastes their numbers into instructions, so they are no constants of C. */
#define C00   0
#define C01   1
#define C10   2
#define C11   3
#define A0    4
#define A1    5
#define B0    6
#define B1    7
#define TILES 8

/* gcc's intrinsics do not say that they read memory: what was written to arrays that nothing else reads must be there
 * before they do. */
#define WRITTEN() __asm__ volatile("" ::: "memory")

/* What LDTILECFG reads. */
typedef struct configuration {
    uint8_t palette, start, zeros[14];
    uint16_t bytes[16]; /* of a tile's row */
    uint8_t rows[16];
} configuration;

/* A strip has up to 32 rows, of which the second tile has those behind the first 16. */
static void configure(int64_t rows) {
    configuration c = {.palette = PALETTE};
    const uint8_t upper = (uint8_t)(rows < SIDE ? rows : SIDE), lower = (uint8_t)(rows > SIDE ? rows - SIDE : 1);
    const uint8_t height[TILES] = {upper, upper, lower, lower, upper, lower, SIDE, SIDE};
    for (int t = 0; t < TILES; t++) {
        c.bytes[t] = STEP_BYTES;
        c.rows[t] = height[t];
    }
    WRITTEN();
    _tile_loadconfig(&c);
}

/* A strip of a, a panel of b, and the sums of a block of k. */
typedef struct strip {
    const REAL *a;
    int64_t a_row, rows;
    const REAL *panel;
    int64_t depth;
} strip;

static void step(const REAL *a, int64_t a_row, bool two, const REAL *panel) {
    const size_t a_bytes = (size_t)a_row * sizeof *a, b_bytes = PANEL * sizeof *panel;
    _tile_loadd(B0, panel, b_bytes);
    _tile_loadd(B1, panel + LANES, b_bytes);
    _tile_loadd(A0, a, a_bytes);
    MULTIPLY_TILES(C00, A0, B0);
    MULTIPLY_TILES(C01, A0, B1);
    if (!two) return;
    _tile_loadd(A1, a + SIDE * a_row, a_bytes);
    MULTIPLY_TILES(C10, A1, B0);
    MULTIPLY_TILES(C11, A1, B1);
}

/* The last pairs or quads of a block, filled up with zeros. */
static void last_step(const strip *s, int64_t at) {
    _Alignas(64) REAL a[STRIP * SIDE] = {0}, panel[SIDE * PANEL] = {0};
    const size_t left = (size_t)(s->depth - at);
    for (int64_t i = 0; i < s->rows; i++) memcpy(a + i * SIDE, s->a + i * s->a_row + at, left * sizeof *a);
    memcpy(panel, s->panel + at * PANEL, left * PANEL * sizeof *panel);
    WRITTEN();
    step(a, SIDE, s->rows > SIDE, panel);
}

static void multiply_strip(const strip *s, REAL (*sum)[PANEL]) {
    const bool two = s->rows > SIDE;
    const size_t bytes = PANEL * sizeof(REAL);
    _tile_zero(C00);
    _tile_zero(C01);
    _tile_zero(C10);
    _tile_zero(C11);
    int64_t p = 0;
    for (; p + SIDE <= s->depth; p += SIDE) step(s->a + p, s->a_row, two, s->panel + p * PANEL);
    if (p < s->depth) last_step(s, p);
    _tile_stored(C00, sum[0], bytes);
    _tile_stored(C01, sum[0] + LANES, bytes);
    if (!two) return;
    _tile_stored(C10, sum[SIDE], bytes);
    _tile_stored(C11, sum[SIDE] + LANES, bytes);
}

/* c = alpha sum + start, or c += alpha sum after the first block of k. */
static void finish_strip(const tpi_gemm *g, REAL (*sum)[PANEL], int64_t i, int64_t rows, int64_t j, int64_t columns,
                         bool first) {
    const REAL alpha = (REAL)g->alpha, beta = first ? (REAL)g->beta : 1;
    const REAL *start = first && g->every_row ? (const REAL *)g->every_row + j : NULL;
    for (int64_t r = 0; r < rows; r++) {
        REAL *c = (REAL *)g->c + (i + r) * g->c_row + j;
        if (start)
            for (int64_t x = 0; x < columns; x++) c[x] = alpha * sum[r][x] + start[x];
        else if (beta != 0)
            for (int64_t x = 0; x < columns; x++) c[x] = alpha * sum[r][x] + beta * c[x];
        else
            for (int64_t x = 0; x < columns; x++) c[x] = alpha * sum[r][x];
    }
}

void G(tile)(const tpi_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t columns) {
    _Alignas(64) REAL scratch[TPI_GEMM_DEPTH * PANEL], sum[STRIP][PANEL];
    int64_t configured = 0;
    for (int64_t first = 0; first < g->k; first += TPI_GEMM_DEPTH) {
        const int64_t depth = g->k - first < TPI_GEMM_DEPTH ? g->k - first : TPI_GEMM_DEPTH;
        for (int64_t at = j; at < j + columns; at += PANEL) {
            const int64_t width = j + columns - at < PANEL ? j + columns - at : PANEL;
            const REAL *panel = scratch;
            if (g->packed)
                panel = (const REAL *)g->packed + at * g->k + first * PANEL;
            else
                pack_panel(g, first, depth, at, width, scratch);
            WRITTEN();
            for (int64_t r = 0; r < rows; r += STRIP) {
                strip s = {(const REAL *)g->a + (i + r) * g->a_row + first, g->a_row,
                           rows - r < STRIP ? rows - r : STRIP, panel, depth};
                if (s.rows != configured) configure(s.rows);
                configured = s.rows;
                multiply_strip(&s, sum);
                finish_strip(g, sum, i + r, s.rows, at, width, first == 0);
            }
        }
    }
    _tile_release();
}
#endif
