/* Products of two sparse matrices, in two steps: which places the product has, and the sums at these places. The second
 * step is an operator of its own, since its derivatives are of the same kind. */
#include <stdatomic.h>
#include "ops/compute_dtype.h"
#include "ops/sparse/sparse.h"
#include "tensor/sizes.h"

enum {
    CHUNK = 65536,  /* products of two elements that are worth a task */
    MOST_TASKS = 8, /* each has room for a number per column */
};

/* How many products of two elements a @ b has. */
static int64_t count_products(const tpi_row_index *a, const tpi_row_index *b) {
    int64_t products = 0;
    for (int64_t k = 0; k < a->stored; k++) products += b->begins[a->columns[k] + 1] - b->begins[a->columns[k]];
    return products;
}

static int64_t tasks_for(int64_t products, int64_t rows) {
    int64_t tasks = 1 + products / CHUNK;
    tasks = tasks < MOST_TASKS ? tasks : MOST_TASKS;
    return tasks < rows ? tasks : rows > 0 ? rows : 1;
}

/* Do the columns of a name rows of b, and the columns of b one of so many? */
static bool factors_fit(const tpi_row_index *a, const tpi_row_index *b, int64_t columns) {
    return tpi_sparse_check_range(a->columns, a->stored, b->rows, "col_a") &&
           tpi_sparse_check_range(b->columns, b->stored, columns, "col_b");
}

/* ---- Places ---- */

/* A set of columns: a bit for each, and a bit for each word of these that is not zero. So its members come out in
 * order, and emptying it costs no more than what is in it. */
typedef struct column_set {
    uint64_t *bits, *words;
} column_set;

static size_t words_for(int64_t bits) { return (size_t)(bits / 64 + (bits % 64 != 0)); }

static bool set_add(column_set *s, int64_t column) {
    uint64_t *word = s->bits + column / 64, bit = (uint64_t)1 << (column % 64);
    if (*word & bit) return false;
    *word |= bit;
    s->words[column / 4096] |= (uint64_t)1 << (column / 64 % 64);
    return true;
}

/* Empties the set, and writes its members to `to` unless that is NULL. */
static void set_drain(column_set *s, size_t summary, int64_t *to) {
    for (size_t w = 0; w < summary; w++)
        for (; s->words[w]; s->words[w] &= s->words[w] - 1) {
            int64_t word = (int64_t)w * 64 + __builtin_ctzll(s->words[w]);
            for (uint64_t left = s->bits[word]; to && left; left &= left - 1) *to++ = word * 64 + __builtin_ctzll(left);
            s->bits[word] = 0;
        }
}

typedef struct pattern_job {
    tpi_row_index a, b;
    int64_t tasks, *begins, *columns; /* columns NULL: begins[i + 1] becomes the number of columns of row i */
    size_t words, summary;            /* of one task's set */
    uint64_t *scratch;
} pattern_job;

static void find_columns(int64_t task, void *context) {
    pattern_job *j = context;
    uint64_t *scratch = j->scratch + (size_t)task * (j->words + j->summary);
    column_set set = {scratch, scratch + j->words};
    for (int64_t i = task * j->a.rows / j->tasks, last = (task + 1) * j->a.rows / j->tasks; i < last; i++) {
        int64_t count = 0;
        for (int64_t k = j->a.begins[i]; k < j->a.begins[i + 1]; k++)
            for (int64_t row = j->a.columns[k], m = j->b.begins[row]; m < j->b.begins[row + 1]; m++)
                count += set_add(&set, j->b.columns[m]);
        set_drain(&set, j->summary, j->columns ? j->columns + j->begins[i] : NULL);
        if (!j->columns) j->begins[i + 1] = count;
    }
}

bool tpi_native_sparse_mm_pattern(tp_tensor *crow_a, tp_tensor *col_a, tp_tensor *crow_b, tp_tensor *col_b,
                                  int64_t columns, tp_tensor **out) {
    if (!tpi_sparse_check_size(columns, "columns")) return false;
    pattern_job j = {.words = words_for(columns)};
    bool ok = tpi_row_index_read(&j.a, crow_a, col_a) && tpi_row_index_read(&j.b, crow_b, col_b) &&
              factors_fit(&j.a, &j.b, columns);
    out[0] = ok ? tpi_empty(TP_INTS(j.a.rows + 1), TP_INT64, tpi_device(crow_a)) : NULL;
    out[1] = NULL;
    size_t bytes = 0;
    if (out[0]) {
        int64_t products = count_products(&j.a, &j.b);
        j.tasks = tasks_for(products, j.a.rows);
        j.summary = words_for((int64_t)j.words);
        j.begins = (int64_t *)(void *)out[0]->data;
        j.begins[0] = 0;
        bytes = tpi_size_bytes(tpi_size_plus(tpi_size_times(j.tasks, (int64_t)(j.words + j.summary)), 1),
                               sizeof *j.scratch);
        j.scratch = tpi_alloc(bytes);
    }
    if (j.scratch) {
        memset(j.scratch, 0, bytes);
        tpi_parallel_for(j.tasks, j.tasks > 1, find_columns, &j);
        for (int64_t i = 0; i < j.a.rows; i++) j.begins[i + 1] += j.begins[i];
        out[1] = tpi_empty(TP_INTS(j.begins[j.a.rows]), TP_INT64, tpi_device(crow_a));
    }
    if (out[1]) {
        j.columns = (int64_t *)(void *)out[1]->data;
        tpi_parallel_for(j.tasks, j.tasks > 1, find_columns, &j);
    }
    if (j.scratch) tpi_free(j.scratch, bytes);
    tpi_row_index_drop(&j.a);
    tpi_row_index_drop(&j.b);
    if (!out[1]) tpi_release(out[0]);
    return out[1] != NULL;
}

/* ---- Sums ---- */

typedef struct sum_job {
    const tpi_sparse_kernels *kernels;
    tpi_sparse_rows at, a, b;
    int64_t rows, tasks, columns;
    int32_t *slots;
    void *out;
} sum_job;

static void sum_rows(int64_t task, void *context) {
    sum_job *j = context;
    j->kernels->mm_sampled(&j->at, &j->a, &j->b, task * j->rows / j->tasks, (task + 1) * j->rows / j->tasks,
                           j->slots + task * j->columns, j->out);
}

/* The sums into out, which has a value per place of `at`. */
static bool sum_products(const tpi_row_index *at, const tpi_row_index *a, const tpi_row_index *b, const tp_tensor *x,
                         const tp_tensor *y, int64_t columns, tp_tensor *out) {
    sum_job j = {.kernels = TPI_ISA_PICK(tpi_sparse_kernels_for)(out->dtype),
                 .at = {at->begins, at->columns, NULL},
                 .a = {a->begins, a->columns, x->data},
                 .b = {b->begins, b->columns, y->data},
                 .rows = a->rows,
                 .columns = columns,
                 .out = out->data};
    j.tasks = tasks_for(count_products(a, b), a->rows);
    size_t bytes = tpi_size_bytes(tpi_size_plus(tpi_size_times(j.tasks, columns), 1), sizeof *j.slots);
    j.slots = tpi_alloc(bytes);
    if (!j.slots) return false;
    memset(j.slots, 0, bytes);
    tpi_parallel_for(j.tasks, j.tasks > 1, sum_rows, &j);
    tpi_free(j.slots, bytes);
    return true;
}

tp_tensor *tpi_native_sparse_mm_sampled(tp_tensor *crow, tp_tensor *col, tp_tensor *crow_a, tp_tensor *col_a,
                                        tp_tensor *a, tp_tensor *crow_b, tp_tensor *col_b, tp_tensor *b,
                                        int64_t columns) {
    tp_dtype compute = tpi_sparse_compute_dtype(a, "values_a");
    if (!compute || !tpi_check_same_dtype(b, "values_b", a, "values_a")) return NULL;
    if (!tpi_sparse_check_size(columns, "columns")) return NULL;
    tpi_row_index at, left = {0}, right = {0};
    bool ok = tpi_row_index_read(&at, crow, col) && tpi_row_index_read(&left, crow_a, col_a) &&
              tpi_row_index_read(&right, crow_b, col_b) && factors_fit(&left, &right, columns) &&
              tpi_sparse_check_range(at.columns, at.stored, columns, "col") &&
              (at.rows == left.rows || tpi_refuse(TP_ERR_RUNTIME, "argument 'crow': expected %lld rows, got %lld",
                                                  (long long)left.rows, (long long)at.rows)) &&
              tpi_check_shape(a, "values_a", TP_INTS(left.stored)) &&
              tpi_check_shape(b, "values_b", TP_INTS(right.stored));
    tp_tensor *x = ok ? tpi_to_compute(a, compute) : NULL, *y = x ? tpi_to_compute(b, compute) : NULL,
              *out = y ? tpi_empty(TP_INTS(at.stored), compute, tpi_device(a)) : NULL;
    ok = out && (at.stored == 0 || sum_products(&at, &left, &right, x, y, columns, out));
    tpi_row_index_drop(&at);
    tpi_row_index_drop(&left);
    tpi_row_index_drop(&right);
    tpi_release(x);
    tpi_release(y);
    return ok ? tpi_from_compute(out, (tp_dtype)a->dtype) : tpi_release_then(out, NULL);
}
