/* Sharded checkpoints from C: saved on four ranks, loaded on others in other parts; in the background; damaged ones,
 * and ranks that disagree, are refused on all ranks with nothing changed. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include "ranks.h"

enum { ROWS = 10, COLUMNS = 6 };
static char folder[] = "/tmp/taper-sharded-XXXXXX";

/* Rows of a matrix of ROWS that a rank has, as evenly as it goes; the last ranks may have none. */
static int64_t first_row(int rank, int n) {
    const int64_t before = (int64_t)rank * ROWS;
    return before / n;
}

typedef struct model {
    tp_tensor *rows, *columns, *bias, *step;
    tp_shard shards[4];
} model;

/* Element (i, j) of the matrices is base + 100 i + j; rows are cut over the ranks, and columns of the other, transposed
 * in memory. */
static model make(int rank, int n, double base) {
    int64_t from = first_row(rank, n), count = first_row(rank + 1, n) - from, left = (int64_t)COLUMNS * rank / n,
            width = (int64_t)COLUMNS * (rank + 1) / n - left;
    model m = {
        .rows = tp_zeros(TP_INTS(count, COLUMNS)),
        .columns = tp_transpose(tp_zeros(TP_INTS(width, ROWS), .dtype = TP_FLOAT64), 0, 1),
        .bias = tp_zeros(TP_INTS(3)),
        .step = tp_zeros(TP_INTS(), .dtype = TP_INT64)
    };
    for (int64_t i = 0; base >= 0 && i < count; i++)
        for (int64_t j = 0; j < COLUMNS; j++)
            ((float *)tp_data(m.rows))[i * COLUMNS + j] = (float)(base + 100.0 * (double)(from + i) + (double)j);
    for (int64_t j = 0; base >= 0 && j < width; j++)
        for (int64_t i = 0; i < ROWS; i++)
            ((double *)tp_data(m.columns))[j * ROWS + i] = base + 100.0 * (double)i + (double)(left + j);
    for (int i = 0; base >= 0 && i < 3; i++) ((float *)tp_data(m.bias))[i] = (float)base + (float)i;
    if (base >= 0) *(int64_t *)tp_data(m.step) = (int64_t)base;
    static int64_t sizes[6];
    memcpy(
        sizes,
        (int64_t[]) {
            ROWS
            , COLUMNS, from, 0, 0, left
        },
        sizeof sizes);
    m.shards[0] = (tp_shard){"net.rows", m.rows, tp_ints_view(sizes, 2), tp_ints_view(sizes + 2, 2)};
    m.shards[1] = (tp_shard){"net.columns", m.columns, tp_ints_view(sizes, 2), tp_ints_view(sizes + 4, 2)};
    m.shards[2] = (tp_shard){.name = "bias", .part = m.bias};
    m.shards[3] = (tp_shard){.name = "step", .part = m.step};
    return m;
}

static bool same(const model *a, const model *b) {
    return tp_equal(a->rows, b->rows) && tp_equal(a->columns, b->columns) && tp_equal(a->bias, b->bias) &&
           tp_equal(a->step, b->step);
}

static bool save_7(int rank, int n) {
    model m = make(rank, n, 7);
    CHECK(tp_checkpoint_save(folder, NULL, 4, m.shards));
    return true;
}

static bool load_7(int rank, int n) {
    model m = make(rank, n, -1), wanted = make(rank, n, 7);
    m = make(rank, n, -1); /* the sizes that shards point at are this one's */
    CHECK(tp_checkpoint_load(folder, NULL, 4, m.shards));
    CHECK(same(&m, &wanted));
    return true;
}

static bool save_9_later(int rank, int n) {
    model m = make(rank, n, 9);
    tp_saving *saving = tp_checkpoint_save_async(folder, NULL, 4, m.shards);
    CHECK(saving);
    CHECK(tp_fill_(m.rows, tp_float(0)) && tp_fill_(m.step, tp_float(0))); /* what is saved was copied */
    CHECK(tp_dist_wait(tp_dist_barrier(NULL)));                            /* the job's own collectives go on */
    CHECK(tp_saving_wait(saving));
    return true;
}

static bool load_9(int rank, int n) {
    model wanted = make(rank, n, 9), m = make(rank, n, -1);
    CHECK(tp_checkpoint_load(folder, NULL, 4, m.shards) && same(&m, &wanted));
    return true;
}

static int parts(void) {
    int n = 0;
    DIR *open = opendir(folder);
    for (struct dirent *one; (one = readdir(open));) n += strstr(one->d_name, ".distcp") != NULL;
    closedir(open);
    return n;
}

static void new_folder(void) {
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
}

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void other_numbers_of_ranks(void **state) {
    (void)state;
    new_folder();
    run_ranks(4, save_7);
    assert_int_equal(parts(), 4);
    for (int n = 1; n <= 5; n++) run_ranks(n, load_7);
    run_ranks(3, save_9_later); /* over the first, whose parts go */
    assert_int_equal(parts(), 3);
    run_ranks(2, load_9);
    remove_folder();
}

/* ---- What is refused ---- */
static const char *words;
static bool refuse_load(int rank, int n) {
    model untouched = make(rank, n, 5), m = make(rank, n, 5);
    CHECK(!tp_checkpoint_load(folder, NULL, 4, m.shards));
    CHECK(strstr(tp_error(), words));
    tp_error_clear();
    CHECK(same(&m, &untouched));
    return true;
}

static char *part_path(int rank) {
    static char path[128];
    snprintf(path, sizeof path, "%s/__%d_0.distcp", folder, rank);
    return path;
}

static void damaged_parts(void **state) {
    (void)state;
    new_folder();
    run_ranks(4, save_7);
    /* One bit of a weight: rank 3's rows begin with 7 + 100 * 7. */
    char *path = part_path(3), bytes[16384];
    int file = open(path, O_RDWR);
    ssize_t n = read(file, bytes, sizeof bytes), at = 0;
    const float first[] = {707, 708, 709};
    while (at < n && memcmp(bytes + at, first, sizeof first) != 0) at++;
    assert_true(at < n);
    bytes[at] ^= 1;
    assert_int_equal(pwrite(file, bytes + at, 1, at), 1);
    words = "__3_0.distcp";
    run_ranks(2, refuse_load); /* ranks that do not read it fail with the others */
    words = "'net.rows' in";
    run_ranks(1, refuse_load);
    words = "rank 1: ";
    run_ranks(2, refuse_load);
    bytes[at] ^= 1;
    assert_int_equal(pwrite(file, bytes + at, 1, at), 1);
    run_ranks(2, load_7);
    assert_int_equal(ftruncate(file, n / 2), 0);
    close(file);
    words = "it ends after ";
    run_ranks(2, refuse_load);
    unlink(path);
    words = "__3_0.distcp";
    run_ranks(3, refuse_load);
    char index[128];
    snprintf(index, sizeof index, "%s/.metadata", folder);
    file = open(index, O_WRONLY | O_TRUNC);
    assert_int_equal(write(file, "cos\nsystem\n(S'true'\ntR.", 23), 23);
    close(file);
    words = ".metadata'";
    run_ranks(1, refuse_load);
    unlink(index);
    words = "holds no complete checkpoint";
    run_ranks(2, refuse_load);
    remove_folder();
}

static bool disagree(int rank, int n) {
    model m = make(rank, n, 1);
    if (rank == 1) m.shards[2].part = tp_zeros(TP_INTS(4));
    CHECK(!tp_checkpoint_save(folder, NULL, 4, m.shards) &&
          strstr(tp_error(), "ranks disagree on what 'bias' is: rank 0 has float32, part and whole [3] [3]; rank 1 has "
                             "float32, [4] [4]"));
    tp_error_clear();
    m = make(rank, n, 1);
    tp_ints beyond = TP_INTS(8, 0);
    if (rank == 1) m.shards[0].offset = beyond;
    CHECK(!tp_checkpoint_save(folder, NULL, 4, m.shards) && strstr(tp_error(), "rank 1: ") &&
          strstr(tp_error(), "the part of 'net.rows' leaves the whole in dim 0"));
    tp_error_clear();
    return true;
}

static bool ask_for_others(int rank, int n) {
    model m = make(rank, n, -1);
    m.shards[2].name = "no such";
    CHECK(!tp_checkpoint_load(folder, NULL, 4, m.shards) && strstr(tp_error(), "holds no 'no such'"));
    tp_error_clear();
    tp_shard other = {.name = "bias", .part = tp_zeros(TP_INTS(4))};
    CHECK(!tp_checkpoint_load(folder, NULL, 1, &other) && strstr(tp_error(), "has shape [3], expected [4]"));
    tp_error_clear();
    tp_shard converted = {.name = "bias", .part = tp_zeros(TP_INTS(3), .dtype = TP_FLOAT64)};
    CHECK(tp_checkpoint_load(folder, NULL, 1, &converted) && tp_item(tp_sum(converted.part)) == 3 * 7 + 3);
    return true;
}

static void what_does_not_fit(void **state) {
    (void)state;
    new_folder();
    run_ranks(2, disagree);
    assert_int_equal(parts(), 0);
    run_ranks(2, save_7);
    run_ranks(2, ask_for_others);
    remove_folder();
}

/* Without a job; and tests/python/checkpoint_folder, which PyTorch 2.15 wrote. */
static void one_process(void **state) {
    (void)state;
    new_folder();
    TP_SCOPE {
        char path[512];
        model wanted = make(0, 1, 3), m = make(0, 1, 3);
        tp_saving *saving = tp_checkpoint_save_async(folder, NULL, 4, m.shards);
        assert_true(tp_saving_wait(saving));
        m = make(0, 1, -1);
        assert_true(tp_checkpoint_load(folder, NULL, 4, m.shards));
        assert_true(same(&m, &wanted));
        assert_false(tp_checkpoint_save("", NULL, 4, m.shards));
        tp_error_clear();
        snprintf(path, sizeof path, "%s/tests/python/checkpoint_folder",
                 getenv("TAPER_SOURCE_DIR") ? getenv("TAPER_SOURCE_DIR") : ".");
        tp_shard theirs[] = {{.name = "model.w", .part = tp_zeros(TP_INTS(2, 3))},
                             {.name = "step", .part = tp_zeros(TP_INTS(), .dtype = TP_INT64)},
                             {.name = "list.1", .part = tp_zeros(TP_INTS(3))},
                             {.name = "name", .part = tp_zeros(TP_INTS(1))}};
        assert_true(tp_checkpoint_load(path, NULL, 3, theirs));
        assert_true(tp_item(tp_sum(theirs[0].part)) == 15);
        assert_true(tp_item(theirs[1].part) == 3);
        assert_true(tp_item(tp_sum(theirs[2].part)) == 3);
        assert_true(!tp_checkpoint_load(path, NULL, 4, theirs));
        assert_true(strstr(tp_error(), "a text, which fills no tensor of shape [1]"));
        tp_error_clear();
    }
    remove_folder();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_numbers_of_ranks), cmocka_unit_test(damaged_parts),
                                       cmocka_unit_test(what_does_not_fit), cmocka_unit_test(one_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
