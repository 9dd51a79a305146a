/* The bodies of a matrix product's kernels: see gemm.h. gemm.isa.c includes this for float, gemm_f64.isa.c for double,
 * gemm_bf16.c for pairs of bfloat16.
 *
 * A kernel keeps a few rows by two vectors of c in registers while k runs over a block; b comes in panels as wide as
 * those two vectors, packed where its columns are not contiguous or its rows would push each other out of the cache; a
 * is read where it is when k is contiguous or short, else it is packed too. Edges go through the same arithmetic.
 *
 * The including file has float_vectors.h's names (REAL is the type of c, and as large as an element of a) and defines
 *   G(name)                this product's name for a function
 *   BROADCAST(pointer)     a vector of one of a's elements
 *   MULTIPLY_ADD(x, y, z)  x * y + z
 *   ALWAYS_PACKS           is b never read where it is, and a contiguous in k?
 *   pack_panel(g, first, depth, j, columns, to)
 *                          a panel, depth by PANEL: `columns` columns of b from j on, from k = first on. What is
 * missing repeats the last one, or is zero: nobody looks at what comes of it. */
enum {
    FEW_ROWS = 2 * HEIGHT,
    ROW_STEP = TPI_GEMM_DEPTH + 16, /* rows a power of two apart would share cache sets */
    SAME_SETS = 1024,               /* floats: lines that far apart do share them */
    PAGE = 4096,                    /* bytes: the same */
    NARROW = 256 /* what is at most that wide, and shallow, reads a where it is, whatever its layout */
};

void G(kernel_size)(int64_t *rows, int64_t *columns) {
    *rows = HEIGHT;
    *columns = PANEL;
}

/* ---- Packing ---- */
void G(pack)(const tpi_gemm *g, int64_t first, int64_t columns, void *packed) {
    for (int64_t j = first; j < first + columns; j += PANEL)
        pack_panel(g, 0, g->k, j, first + columns - j < PANEL ? first + columns - j : PANEL, (REAL *)packed + j * g->k);
}

/* Rows of a, `step` apart, contiguous in k. */
static void pack_rows(const REAL *a, int64_t a_row, int64_t a_col, int64_t rows, int64_t depth, REAL *to,
                      int64_t step) {
    if (a_col == 1) {
        for (int64_t i = 0; i < rows; i++) memcpy(to + i * step, a + i * a_row, (size_t)depth * sizeof *to);
        return;
    }
    int64_t across = a_row == 1 ? depth / 8 * 8 : 0;
    for (int64_t p = 0; p < across; p += 8) {
        const REAL *from[8];
        for (int i = 0; i < 8; i++) from[i] = a + (p + i) * a_col;
        transpose_eight(from, rows, to + p, step);
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t p = across; p < depth; p++) to[i * step + p] = a[i * a_row + p * a_col];
}

void G(pack_rows)(const tpi_gemm *g, int64_t first, int64_t rows, void *packed, int64_t step) {
    pack_rows((const REAL *)g->a + first * g->a_row, g->a_row, g->a_col, rows, g->k, (REAL *)packed + first * step,
              step);
}

/* ---- The kernel ---- */
typedef struct operands {
    const REAL *a, *b;
    int64_t a_row, a_col, b_row;
} operands;

/* What becomes of a kernel's sums. */
typedef struct target {
    REAL *c;
    int64_t c_row, columns;
    REAL alpha, beta;
    const REAL *start; /* of the panel's columns; NULL: beta * c */
} target;

/* The same for a panel of fewer columns. */
static void finish_edge(int rows, const REAL (*sum)[PANEL], const target *t) {
    for (int64_t i = 0; i < rows; i++) {
        REAL *c = t->c + i * t->c_row;
        for (int64_t j = 0; j < t->columns; j++)
            c[j] = t->alpha * sum[i][j] + (t->start ? t->start[j] : t->beta != 0 ? t->beta * c[j] : 0);
    }
}

INLINE void finish(int rows, vector (*sum)[2], const target *t) {
    if (t->columns < PANEL) {
        REAL scratch[HEIGHT][PANEL];
        UNROLL
        for (int i = 0; i < rows; i++) {
            store(scratch[i], sum[i][0]);
            store(scratch[i] + LANES, sum[i][1]);
        }
        finish_edge(rows, (const REAL(*)[PANEL])scratch, t);
        return;
    }
    REAL *c = t->c;
    vector start[2] = {{0}, {0}};
    if (!t->start && t->beta != 0) {
        UNROLL
        for (int i = 0; i < rows; i++, c += t->c_row) {
            store(c, t->alpha * sum[i][0] + t->beta * load(c));
            store(c + LANES, t->alpha * sum[i][1] + t->beta * load(c + LANES));
        }
        return;
    }
    if (t->start) {
        start[0] = load(t->start);
        start[1] = load(t->start + LANES);
    }
    UNROLL
    for (int i = 0; i < rows; i++, c += t->c_row) {
        store(c, t->alpha * sum[i][0] + start[0]);
        store(c + LANES, t->alpha * sum[i][1] + start[1]);
    }
}

INLINE void kernel(int rows, int64_t depth, operands o, const target *t) {
    vector sum[HEIGHT][2];
    UNROLL
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (vector){0};
    for (int64_t p = 0; p < depth; p++, o.b += o.b_row, o.a += o.a_col) {
        vector left = load(o.b), right = load(o.b + LANES);
        UNROLL
        for (int i = 0; i < rows; i++) {
            vector x = BROADCAST(o.a + i * o.a_row);
            sum[i][0] = MULTIPLY_ADD(x, left, sum[i][0]);
            sum[i][1] = MULTIPLY_ADD(x, right, sum[i][1]);
        }
    }
    finish(rows, sum, t);
}

/* Strides that are constants spare registers. */
#define KERNEL(ROWS)                                                               \
    static void kernel_##ROWS(int64_t depth, const operands *o, const target *t)   \
    {                                                                              \
        if (ALWAYS_PACKS || (o->a_col == 1 && o->b_row == PANEL))                  \
            kernel(ROWS, depth, (operands){o->a, o->b, o->a_row, 1, PANEL}, t);    \
        else if (o->a_row == 1)                                                    \
            kernel(ROWS, depth, (operands){o->a, o->b, 1, o->a_col, o->b_row}, t); \
        else                                                                       \
            kernel(ROWS, depth, *o, t);                                            \
    }
KERNEL(1)
KERNEL(2)
KERNEL(3)
KERNEL(4)
KERNEL(5)
KERNEL(6)
#if defined(__AVX512F__)
KERNEL(7)
KERNEL(8)
KERNEL(9)
KERNEL(10)
KERNEL(11)
KERNEL(12)
#endif
static void (*const by_height[HEIGHT])(int64_t depth, const operands *o, const target *t) = {
    kernel_1, kernel_2, kernel_3, kernel_4,  kernel_5,  kernel_6,
#if defined(__AVX512F__)
    kernel_7, kernel_8, kernel_9, kernel_10, kernel_11, kernel_12,
#endif
};

/* ---- A tile ---- */
typedef struct block { /* one block of k */
    int64_t first, depth;
    const REAL *a; /* row i's */
    int64_t a_row, a_col;
} block;

/* Is a panel of b packed before this tile reads it? Its rows would push each other out of the first cache where there
 * are many of them, unless they lie close together, or where they are a power of two apart. */
static bool packs_panel(const tpi_gemm *g, const block *k, int64_t rows, int64_t columns) {
    if (ALWAYS_PACKS || columns < PANEL || g->b_col != 1 || rows > TPI_GEMM_ROWS) return true;
    const bool many = k->depth > TPI_GEMM_SHALLOW && g->b_row > 2 * PANEL;
    return rows > FEW_ROWS && (many || g->b_row % SAME_SETS == 0);
}

static void panel_of_tile(const tpi_gemm *g, const block *k, int64_t i, int64_t rows, int64_t j, int64_t columns) {
    _Alignas(64) REAL scratch[TPI_GEMM_DEPTH * PANEL];
    operands o = {k->a, scratch, k->a_row, k->a_col, PANEL};
    if (g->packed)
        o.b = (const REAL *)g->packed + j * g->k + k->first * PANEL;
    else if (packs_panel(g, k, rows, columns))
        pack_panel(g, k->first, k->depth, j, columns, scratch);
    else {
        o.b = (const REAL *)g->b + k->first * g->b_row + j;
        o.b_row = g->b_row;
    }
    target t = {(REAL *)g->c + i * g->c_row + j,    g->c_row, columns, (REAL)g->alpha,
                k->first ? (REAL)1 : (REAL)g->beta, NULL};
    if (!k->first && g->every_row) t.start = (const REAL *)g->every_row + j;
    int64_t strips = (rows + HEIGHT - 1) / HEIGHT; /* of nearly the same height: a low one is slower than its share */
    for (int64_t s = 0; s < strips; s++) {
        int64_t height = rows / strips + (s < rows % strips);
        by_height[height - 1](k->depth, &o, &t);
        o.a += height * k->a_row;
        t.c += height * g->c_row;
    }
}

/* Would a kernel's rows of a, a page or more of them apart, push each other out of the first cache? */
static bool shares_sets(const tpi_gemm *g, const block *k, int64_t rows) {
    return rows >= HEIGHT && k->depth > TPI_GEMM_SHALLOW && g->a_row % (PAGE / (int64_t)sizeof(REAL)) == 0;
}

/* Are a's columns read where they are? */
static bool reads_across(const tpi_gemm *g, const block *k, int64_t columns) {
    return g->a_row == 1 && g->a_col % SAME_SETS && k->depth <= TPI_GEMM_SHALLOW && columns <= NARROW;
}

void G(tile)(const tpi_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t columns) {
    REAL *scratch = NULL;
    const size_t bytes = (size_t)(rows * ROW_STEP) * sizeof *scratch;
    for (int64_t first = 0; first < g->k || first == 0; first += TPI_GEMM_DEPTH) {
        block k = {first, g->k - first < TPI_GEMM_DEPTH ? g->k - first : TPI_GEMM_DEPTH,
                   (const REAL *)g->a + i * g->a_row + first * g->a_col, g->a_row, g->a_col};
        const bool packs_rows =
            columns > PANEL && (g->a_col == 1 ? shares_sets(g, &k, rows) : !reads_across(g, &k, columns));
        if (packs_rows && !scratch)
            scratch = tpi_gemm_scratch(bytes); /* too large for the stack; without it a is read where it is */
        if (packs_rows && scratch) {
            pack_rows(k.a, g->a_row, g->a_col, rows, k.depth, scratch, ROW_STEP);
            k.a = scratch;
            k.a_row = ROW_STEP;
            k.a_col = 1;
        }
        for (int64_t at = j; at < j + columns; at += PANEL)
            panel_of_tile(g, &k, i, rows, at, j + columns - at < PANEL ? j + columns - at : PANEL);
    }
    if (scratch) tpi_free(scratch, bytes);
}
