/* The bodies of the kernels of blocked_factor.h: blocked_factor.isa.c includes this for float, blocked_factor_f64.isa.c
 * for double. The including file has float_vectors.h's and transpose.h's names and defines B(name), this type's name
 * for a function. */

enum {
    ROWS = 4,         /* of a triangle's rows go together: that many times two sums are in registers */
    SIZE = TPI_BLOCK, /* of a block in scratch memory */
    FEW = 4,          /* lanes that go one after the other */
    GROUP = 8,        /* columns that transpose_eight takes */
    APART = PANEL < GROUP ? GROUP : PANEL /* lanes of a row in scratch memory */
};

/* A triangle as a lower one in order of solution: the last row of an upper one comes first. `rest` holds what stands
 * left of the diagonal, negative, so that rows are added. Rows behind the last one are those of the identity. */
typedef struct packed_triangle {
    REAL rest[SIZE][SIZE], diagonal[SIZE];
    bool unit;
} packed_triangle;

static int64_t padded(int64_t n) {
    const int64_t bands = (n + ROWS - 1) / ROWS;
    return bands * ROWS;
}

static void pack_triangle(const tpi_triangle *t, int64_t n, packed_triangle *to) {
    const REAL *from = (const REAL *)t->at.data;
    int64_t row = t->at.row, col = t->at.col;
    if (t->upper) {
        from += (n - 1) * (row + col);
        row = -row;
        col = -col;
    }
    to->unit = t->unit;
    for (int64_t i = 0; i < padded(n); i++) {
        for (int64_t j = 0; j < padded(n); j++) to->rest[i][j] = i < n && j < i ? -from[i * row + j * col] : 0;
        to->diagonal[i] = i < n && !t->unit ? from[i * (row + col)] : 1;
    }
}

/* Rows [i, i + ROWS) of x, whose rows before them are solved. */
INLINE void solve_rows(const packed_triangle *t, int64_t i, REAL (*x)[APART]) {
    vector sum[ROWS][2] = {{{0}}};
    for (int64_t j = 0; j < i; j++) {
        const vector left = load(x[j]), right = load(x[j] + LANES);
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            const vector factor = broadcast(t->rest[i + r][j]);
            sum[r][0] = multiply_add(factor, left, sum[r][0]);
            sum[r][1] = multiply_add(factor, right, sum[r][1]);
        }
    }
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        UNROLL
        for (int j = 0; j < r; j++) {
            const vector factor = broadcast(t->rest[i + r][i + j]);
            sum[r][0] = multiply_add(factor, sum[j][0], sum[r][0]);
            sum[r][1] = multiply_add(factor, sum[j][1], sum[r][1]);
        }
        sum[r][0] += load(x[i + r]); /* last: the sum of small terms is exact to more places than their differences */
        sum[r][1] += load(x[i + r] + LANES);
        if (!t->unit) {
            const vector divisor = broadcast(t->diagonal[i + r]);
            sum[r][0] /= divisor;
            sum[r][1] /= divisor;
        }
        store(x[i + r], sum[r][0]);
        store(x[i + r] + LANES, sum[r][1]);
    }
}

/* Moves n rows of `lanes` lanes between b and x. Row i of x is b's row i, or n - 1 - i where `reversed`. */
static void load_lanes(const tpi_grid *b, bool reversed, int64_t n, int64_t lanes, REAL (*x)[APART]) {
    const REAL *from = (const REAL *)b->data;
    if (!reversed && b->row == 1 && lanes % GROUP == 0) {
        for (int64_t l = 0; l < lanes; l += GROUP) {
            const REAL *column[GROUP];
            for (int k = 0; k < GROUP; k++) column[k] = from + (l + k) * b->col;
            transpose_eight(column, n, x[0] + l, APART);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const REAL *row = from + (reversed ? n - 1 - i : i) * b->row;
        if (b->col == 1)
            memcpy(x[i], row, (size_t)lanes * sizeof *row);
        else
            for (int64_t l = 0; l < lanes; l++) x[i][l] = row[l * b->col];
    }
}

static void put_lanes(const tpi_grid *b, bool reversed, int64_t n, int64_t lanes, REAL (*x)[APART]) {
    REAL *to = (REAL *)b->data;
    int64_t done = 0;
    if (!reversed && b->row == 1 && lanes >= 4)
        for (; done + GROUP <= n; done += GROUP) {
            const REAL *row[GROUP];
            for (int k = 0; k < GROUP; k++) row[k] = x[done + k];
            transpose_eight(row, lanes, to + done, b->col);
        }
    for (int64_t i = done; i < n; i++) {
        REAL *row = to + (reversed ? n - 1 - i : i) * b->row;
        if (b->col == 1)
            memcpy(row, x[i], (size_t)lanes * sizeof *row);
        else
            for (int64_t l = 0; l < lanes; l++) row[l * b->col] = x[i][l];
    }
}

/* A few lanes, one after the other: an element that is solved is added, column by column of the triangle, to the sums
 * of those behind it. The terms and their order are those of solve_rows. */
static void solve_few(const tpi_triangle *t, int64_t n, const tpi_grid *b, int64_t lanes) {
    _Alignas(64) REAL column[SIZE][SIZE];
    const int64_t last = t->upper ? n - 1 : 0, step = t->upper ? -1 : 1, size = (n + LANES - 1) / LANES * LANES;
    const REAL *from = (const REAL *)t->at.data + last * (t->at.row + t->at.col);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < size; i++)
            column[j][i] = i >= j && i < n ? from[step * (i * t->at.row + j * t->at.col)] : 0;
    for (int64_t l = 0; l < lanes; l++) {
        _Alignas(64) REAL sum[SIZE] = {0};
        REAL *x = (REAL *)b->data + last * b->row + l * b->col;
        for (int64_t j = 0; j < n; j++) {
            const REAL rest = x[step * j * b->row] + sum[j], here = t->unit ? rest : rest / column[j][j];
            x[step * j * b->row] = here;
            const vector factor = broadcast(-here);
            for (int64_t i = (j + 1) / LANES * LANES; i < size; i += LANES)
                store(sum + i, multiply_add(factor, load(column[j] + i), load(sum + i)));
        }
    }
}

void B(solve)(const tpi_triangle *t, int64_t n, const tpi_grid *b, int64_t lanes) {
    _Alignas(64) REAL x[SIZE][APART];
    packed_triangle packed;
    if (lanes <= FEW) {
        solve_few(t, n, b, lanes);
        return;
    }
    pack_triangle(t, n, &packed);
    memset(x, 0, (size_t)padded(n) * sizeof *x);
    for (int64_t l = 0; l < lanes; l += PANEL) {
        const tpi_grid part = {b->data + l * b->col * (int64_t)sizeof(REAL), b->row, b->col};
        const int64_t some = lanes - l < PANEL ? lanes - l : PANEL;
        load_lanes(&part, t->upper, n, some, x);
        for (int64_t i = 0; i < n; i += ROWS) solve_rows(&packed, i, x);
        put_lanes(&part, t->upper, n, some, x);
    }
}

/* `sum` holds what is to be subtracted from each column. */
int B(cholesky)(int64_t n, const tpi_grid *a) {
    _Alignas(64) REAL sum[SIZE][SIZE] = {{0}}, column[SIZE] = {0};
    REAL *at = (REAL *)a->data;
    for (int64_t j = 0; j < n; j++) {
        REAL *to = at + j * a->col;
        const REAL square = to[j * a->row] - sum[j][j];
        if (!(square > 0)) return (int)j + 1;
        const REAL root = sizeof(REAL) == sizeof(float) ? (REAL)sqrtf((float)square) : (REAL)sqrt((double)square);
        for (int64_t i = j + 1; i < n; i++) column[i] = (to[i * a->row] - sum[j][i]) / root;
        to[j * a->row] = root;
        for (int64_t i = j + 1; i < n; i++) to[i * a->row] = column[i];
        for (int64_t c = j + 1; c < n; c++) {
            const vector factor = broadcast(column[c]);
            for (int64_t i = c / LANES * LANES; i < n; i += LANES)
                store(sum[c] + i, multiply_add(factor, load(column + i), load(sum[c] + i)));
        }
    }
    return 0;
}

/* The place of the largest element, the first of equals; 0 where the first is NaN. */
static int64_t largest(const REAL *x, int64_t n) {
    REAL most = 0;
    for (int64_t i = 0; i < n; i++) {
        const REAL size = x[i] < 0 ? -x[i] : x[i];
        most = size > most ? size : most;
    }
    if (x[0] != x[0]) return 0;
    int64_t at = 0;
    while (at < n - 1 && (x[at] < 0 ? -x[at] : x[at]) != most) at++;
    return at < n && (x[at] < 0 ? -x[at] : x[at]) == most ? at : 0;
}

/* multiply_add of single elements. */
INLINE REAL multiply_add_one(REAL x, REAL y, REAL z) {
#if defined(__AVX2__)
    return sizeof(REAL) == sizeof(float) ? (REAL)__builtin_fmaf((float)x, (float)y, (float)z)
                                         : (REAL)__builtin_fma((double)x, (double)y, (double)z);
#else
    return x * y + z;
#endif
}

/* to -= factor * x */
static void subtract(int64_t n, REAL factor, const REAL *x, REAL *to) {
    const vector times = broadcast(-factor);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, multiply_add(times, load(x + i), load(to + i)));
    for (; i < n; i++) to[i] = multiply_add_one(-factor, x[i], to[i]);
}

int B(lu)(int64_t m, int64_t n, const tpi_grid *a, int *pivots) {
    REAL *at = (REAL *)a->data;
    int info = 0;
    for (int64_t j = 0; j < n && j < m; j++) {
        REAL *column = at + j * a->col;
        const int64_t pivot = j + largest(column + j, m - j);
        pivots[j] = (int)pivot + 1;
        if (column[pivot] == 0) {
            if (!info) info = (int)j + 1;
        } else {
            for (int64_t c = 0; c < n && pivot != j; c++) {
                REAL *other = at + c * a->col, held = other[j];
                other[j] = other[pivot];
                other[pivot] = held;
            }
            const REAL divisor = column[j];
            for (int64_t i = j + 1; i < m; i++) column[i] /= divisor;
        }
        for (int64_t c = j + 1; c < n; c++) {
            REAL *other = at + c * a->col;
            subtract(m - j - 1, other[j], column + j + 1, other + j + 1);
        }
    }
    return info;
}
