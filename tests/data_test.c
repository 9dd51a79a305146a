/* Datasets that are read in C and loaders over them: PyTorch's order, on any number of threads; files; errors; and
 * going on where a loader stood. And storage that processes share. */
#include "tape_fixture.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <taper/share.h>
#include <unistd.h>

static tp_dataset *counting(int64_t n) { /* item i: i as int64, and (i, i + 0.5) */
    tp_dataset *d = NULL;
    TP_SCOPE {
        tp_tensor *i = tp_arange(tp_int(n)), *x = tp_to(i, .dtype = TP_FLOAT32);
        d = tp_dataset_of_tensors(TP_LIST(i, tp_stack(TP_LIST(x, tp_add(x, 0.5)), .dim = 1)));
    }
    assert_non_null(d);
    return d;
}

/* The indices of all batches of an epoch, -1 after each batch. */
static int epoch(tp_loader *l, int64_t *out) {
    int n = 0;
    while (tp_loader_next(l)) {
        tp_tensor *i = tp_loader_field(l, 0), *x = tp_loader_field(l, 1);
        const int64_t *v = tp_data(i);
        assert_int_equal(tp_size(x, 0), tp_numel(i));
        for (int64_t k = 0; k < tp_numel(i); k++) {
            out[n++] = v[k];
            assert_true(((float *)tp_data(x))[2 * k + 1] == (float)v[k] + 0.5f);
        }
        out[n++] = -1;
    }
    if (!tp_ok()) fail_msg("%s", tp_error());
    return n;
}

static void assert_epoch(tp_loader *l, int n, const int64_t *want) {
    int64_t got[256];
    assert_int_equal(epoch(l, got), n);
    for (int i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("place %d: got %lld, expected %lld", i, (long long)got[i], (long long)want[i]);
}
#define ASSERT_EPOCH(l, ...) assert_epoch(l, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

static void side_by_side(void **state) {
    (void)state;
    tp_dataset *ten = counting(10), *twelve = counting(12), *two[] = {ten, ten}, *odd[] = {ten, twelve};
    tp_dataset *both = tp_dataset_stack(2, two);
    assert_non_null(both);
    assert_int_equal(tp_dataset_count(both), 10);
    assert_int_equal(tp_dataset_fields(both), 4);
    tp_tensor *fields[4];
    assert_true(tp_dataset_get(both, 7, fields));
    TP_SCOPE {
        assert_true(tp_item(fields[0]) == 7);
        assert_true(tp_item(fields[2]) == 7);
        assert_true(tp_equal(fields[1], fields[3]));
    }
    for (int f = 0; f < 4; f++) tp_release(fields[f]);
    tp_dataset_release(both);
    assert_null(tp_dataset_stack(2, odd));
    assert_error("tp_dataset_stack: argument 'datasets': Size mismatch between datasets: 10 and 12");
    TP_SCOPE {
        tp_tensor *order = tp_from_data((int64_t[]){2, 0, 3, 1}, TP_INT64, TP_INTS(4));
        tp_tensor *back = tp_invert_permutation(order);
        assert_true(tp_equal(tp_index_select(order, 0, back), tp_arange(4)));
    }
    tp_dataset_release(ten);
    tp_dataset_release(twelve);
}

static void orders_are_pytorchs(void **state) { /* the numbers of tests/python/programs/data_orders.txt */
    (void)state;
    tp_dataset *d = counting(10);
    for (int threads = 0; threads < 4; threads++) {
        tp_manual_seed(3);
        tp_loader *l = tp_loader_new(d, .batch = 4, .shuffle = true, .threads = threads);
        assert_int_equal(tp_loader_batches(l), 3);
        ASSERT_EPOCH(l, 6, 2, 0, 1, -1, 8, 3, 5, 4, -1, 7, 9, -1);
        ASSERT_EPOCH(l, 3, 4, 0, 9, -1, 6, 7, 1, 2, -1, 5, 8, -1);
        TP_SCOPE
            assert_true((float)tp_item(tp_rand(TP_INTS(1))) == 0.5944212079048157f);
        tp_loader_free(l);

        tp_generator *own = tp_generator_new(5);
        l = tp_loader_new(d, .batch = 4, .shuffle = true, .drop_last = true, .threads = threads, .ahead = 1,
                          .generator = own);
        ASSERT_EPOCH(l, 7, 4, 8, 1, -1, 2, 3, 6, 5, -1);
        ASSERT_EPOCH(l, 2, 1, 6, 3, -1, 5, 9, 4, 7, -1);
        tp_loader_free(l);
        tp_generator_free(own);

        l = tp_loader_new(d, .batch = 6, .threads = threads, .ahead = 7);
        ASSERT_EPOCH(l, 0, 1, 2, 3, 4, 5, -1, 6, 7, 8, 9, -1);
        tp_loader_free(l);
    }
    tp_dataset_release(d);
}

static void goes_on_where_it_stood(void **state) {
    (void)state;
    tp_dataset *d = counting(23);
    int64_t whole[64], second[64], third[64], again[64];
    for (int threads = 0; threads < 3; threads++)
        for (int stop = -1; stop <= 6; stop++) { /* after so many batches of the second epoch; -1: before it */
            tp_manual_seed(1);
            tp_loader *l = tp_loader_new(d, .batch = 4, .shuffle = true, .threads = threads);
            epoch(l, whole);
            tp_tensor *at = stop < 0 ? tp_loader_get_state(l) : NULL,
                      *seed = tp_generator_get_state(tp_default_generator());
            int n = epoch(l, second), m = epoch(l, third);
            tp_generator_set_state(tp_default_generator(), seed);
            for (int i = 0; i < stop; i++) assert_true(tp_loader_next(l));
            if (stop == 0)
                TP_SCOPE
                    assert_true(tp_loader_next(l) && tp_loader_set_state(l, tp_loader_get_state(l)));
            if (!at) at = tp_loader_get_state(l);
            tp_loader_free(l);

            tp_manual_seed(99);
            l = tp_loader_new(d, .batch = 4, .shuffle = true, .threads = threads);
            tp_loader_next(l);
            assert_true(tp_loader_set_state(l, at));
            int read = epoch(l, again), skipped = stop < 0 ? 0 : 5 * (stop ? stop : 1) - (stop == 6);
            assert_int_equal(read, n - skipped);
            assert_memory_equal(again, second + skipped, sizeof(int64_t) * (size_t)read);
            assert_int_equal(epoch(l, again), m);
            assert_memory_equal(again, third, sizeof(int64_t) * (size_t)m);
            tp_loader_free(l);
            tp_release(at);
            tp_release(seed);
        }
    tp_loader *small = tp_loader_new(d, .batch = 23), *large = tp_loader_new(d);
    assert_true(tp_loader_next(large));
    assert_true(tp_loader_next(large));
    TP_SCOPE {
        assert_false(tp_loader_set_state(small, tp_loader_get_state(large)));
        assert_error(
            "another loader's place: that of 23 items in 23 batches of 1, expected 23 items in 1 batches of 23");
        assert_false(tp_loader_set_state(small, tp_zeros(TP_INTS(3))));
        assert_error("argument 'state': expected what tp_loader_get_state gave");
    }
    tp_loader_free(small);
    tp_loader_free(large);
    tp_dataset_release(d);
}

/* ---- A dataset of one's own ---- */
static bool read_square(void *context, int64_t i, void *const *into) {
    (*(int *)context)++; /* with one thread at most */
    if (i == 5) return false;
    *(double *)into[0] = (double)(i * i);
    memset(into[1], (int)i, 6);
    return true;
}
static void count_release(void *context) { *(int *)context = -1; }

static void datasets_of_ones_own(void **state) {
    (void)state;
    int calls = 0;
    const tp_field fields[] = {{TP_FLOAT64, tp_no_ints()}, {TP_UINT8, TP_INTS(2, 3)}};
    tp_dataset *d = tp_dataset_new(8, 2, fields, read_square, count_release, &calls);
    assert_int_equal(tp_dataset_count(d), 8);
    assert_int_equal(tp_dataset_fields(d), 2);
    assert_int_equal(tp_dataset_field(d, 1).shape.v[1], 3);
    tp_tensor *item[2];
    assert_true(tp_dataset_get(d, 3, item));
    assert_true(tp_item(item[0]) == 9);
    assert_true(tp_ndim(item[0]) == 0);
    assert_true(tp_ndim(item[1]) == 2);
    tp_release(item[0]);
    tp_release(item[1]);
    assert_false(tp_dataset_get(d, 8, item));
    assert_error("index 8 is out of range for a dataset of 8 items");

    for (int threads = 0; threads < 2; threads++) {
        tp_loader *l = tp_loader_new(d, .batch = 2, .threads = threads);
        assert_true(tp_loader_next(l));
        assert_true(tp_loader_next(l));
        assert_false(tp_loader_next(l));
        assert_null(tp_loader_field(l, 0));
        assert_error("item 5 of the dataset could not be read");
        assert_true(tp_loader_next(l)); /* the others are there */
        assert_true(((double *)tp_data(tp_loader_field(l, 0)))[1] == 49);
        assert_false(tp_loader_next(l));
        assert_true(tp_ok());
        tp_loader_free(l);
    }
    tp_dataset *part = tp_dataset_subset(d, TP_INTS(7, 2));
    tp_dataset_release(d);
    assert_true(tp_dataset_count(part) == 2);
    assert_true(calls > 0);
    assert_true(tp_dataset_get(part, 0, item));
    assert_true(tp_item(item[0]) == 49);
    tp_release(item[0]);
    tp_release(item[1]);
    tp_dataset_release(part);
    assert_int_equal(calls, -1);
}

static void wrong_arguments(void **state) {
    (void)state;
    tp_dataset *d = counting(4);
    assert_null(tp_dataset_subset(d, TP_INTS(1, 4)));
    assert_error("argument 'indices': index 4 is out of range for a dataset of 4 items");
    TP_SCOPE {
        assert_null(tp_dataset_of_tensors(TP_LIST(tp_zeros(TP_INTS(2)), tp_zeros(TP_INTS(3)))));
        assert_error("Size mismatch between tensors: tensor 0 has 2 rows, tensor 1 has 3");
        assert_null(tp_dataset_of_tensors(TP_LIST(tp_zeros(tp_no_ints()))));
        assert_error("tensor 0 has no rows");
    }
    assert_null(tp_dataset_normalised(d, 2, 1, tp_no_floats(), tp_no_floats()));
    assert_error("the dataset has 2 fields, got 2");
    assert_null(tp_dataset_normalised(d, 1, 1, TP_FLOATS(1, 2, 3), tp_no_floats()));
    assert_error("argument 'mean': expected 1 number or one for each of 1 channels, got 3");
    assert_null(tp_loader_new(d, .batch = -1));
    assert_error("option 'batch': expected 1 or more, got -1");
    assert_null(tp_loader_new(NULL));
    assert_error("argument 'dataset': expected a dataset, got NULL");
    tp_reader *r = tp_reader_new(d, 1, 1);
    tp_tensor *fields[2];
    assert_false(tp_reader_take(r, fields));
    assert_error("no batch was asked for");
    assert_true(tp_reader_ask(r, TP_INTS(1)));
    assert_false(tp_reader_ask(r, TP_INTS(1)));
    assert_error("1 batches wait already");
    tp_reader_free(r); /* what was asked for is thrown away */
    tp_dataset_release(d);
}

/* ---- Files ---- */
static char folder[] = "/tmp/taper_data_XXXXXX";
static const char *file_with(const char *name, const void *bytes, size_t n) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_true(f);
    assert_true(fwrite(bytes, 1, n, f) == n);
    assert_true(fclose(f) == 0);
    return path;
}

static void idx_files(void **state) {
    (void)state;
    const char *path = file_with("a", "\0\0\x0B\2\0\0\0\1\0\0\0\2\1\2\xff\xfe", 16);
    TP_SCOPE {
        tp_tensor *t = tp_read_idx(path);
        assert_int_equal(tp_dtype_of(t), TP_INT16);
        assert_true(((int16_t *)tp_data(t))[0] == 258);
        assert_true(((int16_t *)tp_data(t))[1] == -2);
        assert_true(tp_size(t, 1) == 2);
    }
    assert_null(tp_read_idx(file_with("a", "\0\0\x0B\2\0\0\0\1\0\0\0\2\1\2\xff", 15)));
    assert_error("ends 1 bytes too early");
    assert_null(tp_read_idx(file_with("a", "\0\0\x08\1\0\0\0\1xy", 10)));
    assert_error("is longer than its sizes say");
    assert_null(tp_read_idx(file_with("a", "GIF89a", 6)));
    assert_error("is not in MNIST's format");
    assert_null(tp_read_idx("/nowhere"));
    assert_error("could not open '/nowhere': No such file or directory");
}

static void mnist_files(void **state) {
    (void)state;
    char images[4096], labels[4096];
    const char *source = getenv("TAPER_SOURCE_DIR");
    snprintf(images, sizeof images, "%s/examples/data/test-images.idx.gz", source ? source : "..");
    snprintf(labels, sizeof labels, "%s/examples/data/test-labels.idx.gz", source ? source : "..");
    tp_dataset *d = tp_dataset_mnist(images, labels);
    if (!d) fail_msg("%s", tp_error());
    assert_int_equal(tp_dataset_count(d), 2000);
    tp_loader *l = tp_loader_new(d, .batch = 64, .shuffle = true, .threads = 2);
    int n = 0;
    while (tp_loader_next(l))
        TP_SCOPE {
            tp_tensor *x = tp_loader_field(l, 0), *y = tp_loader_field(l, 1);
            assert_true(tp_ndim(x) == 4);
            assert_true(tp_size(x, 1) == 1);
            assert_true(tp_dtype_of(x) == TP_FLOAT32);
            assert_true(tp_dtype_of(y) == TP_INT64);
            assert_true(tp_item(tp_amax(x)) == 1);
            assert_true(tp_item(tp_amin(x)) == 0);
            assert_true(tp_item(tp_amax(y)) <= 9);
            n += (int)tp_size(x, 0);
        }
    assert_int_equal(n, 2000);
    tp_loader_free(l);
    tp_dataset *standard = tp_dataset_normalised(d, 0, 1, TP_FLOATS(0.1307), TP_FLOATS(0.3081));
    tp_tensor *raw[2], *item[2];
    assert_true(tp_dataset_get(standard, 7, item));
    assert_true(tp_dataset_get(d, 7, raw));
    for (int i = 0; i < 784; i++)
        assert_true(((float *)tp_data(item[0]))[i] == (((float *)tp_data(raw[0]))[i] - 0.1307f) / 0.3081f);
    tp_release(item[0]);
    tp_release(item[1]);
    tp_release(raw[0]);
    tp_release(raw[1]);
    tp_dataset_release(standard);
    tp_dataset_release(d);
    assert_null(tp_dataset_mnist(images, images));
    assert_error("expected images and as many labels");
}

static void cifar_files(void **state) {
    (void)state;
    static unsigned char records[2][2 + 3072];
    for (int i = 0; i < 2; i++) {
        memset(records[i], 51 * (i + 1), sizeof records[i]);
        records[i][0] = (unsigned char)i;
        records[i][1] = (unsigned char)(90 + i);
    }
    const char *paths[] = {file_with("a", records, sizeof records), file_with("b", records[1], sizeof records[1])};
    tp_dataset *d = tp_dataset_cifar(2, paths, 100);
    if (!d) fail_msg("%s", tp_error());
    assert_int_equal(tp_dataset_count(d), 3);
    tp_tensor *item[2];
    assert_true(tp_dataset_get(d, 2, item));
    assert_true(tp_item_int(item[1]) == 91);
    assert_true(tp_size(item[0], 0) == 3);
    assert_true(((float *)tp_data(item[0]))[3071] == 102 / 255.0f);
    tp_release(item[0]);
    tp_release(item[1]);
    tp_dataset_release(d);
    assert_null(tp_dataset_cifar(2, paths, 10));
    assert_error("6148 bytes are no whole number of CIFAR's records of 3073");
    assert_null(tp_dataset_cifar(2, paths, 11));
    assert_error("argument 'classes': expected 10 or 100, got 11");
}

static void tensor_files(void **state) {
    (void)state;
    const char *names[] = {"x", "y"}, *endings[] = {"npz", "safetensors", "pt"};
    for (int i = 0; i < 3; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/tensors.%s", folder, endings[i]);
        TP_SCOPE {
            tp_tensor *x = tp_arange(tp_int(6)), *tensors[] = {tp_reshape(x, TP_INTS(3, 2)), tp_arange(tp_int(3))};
            assert_true(tp_save(path, 2, names, tensors));
        }
        tp_dataset *d = tp_dataset_of_file(path, 2, names);
        assert_non_null(d);
        tp_tensor *item[2];
        assert_true(tp_dataset_get(d, 2, item));
        assert_true(tp_item_int(item[1]) == 2);
        assert_true(((int64_t *)tp_data(item[0]))[1] == 5);
        tp_release(item[0]);
        tp_release(item[1]);
        tp_dataset_release(d);
        assert_null(tp_dataset_of_file(path, 1, (const char *[]){"zebra"}));
        assert_error("zebra");
    }
}

/* ---- Memory that runs out ---- */
static bool use_a_loader(int threads) {
    int64_t numbers[] = {3, 1, 2, 0};
    tp_tensor *t = tp_from_data(numbers, TP_INT64, TP_INTS(4));
    tp_dataset *rows = tp_dataset_of_tensors(TP_LIST(t)), *part = rows ? tp_dataset_subset(rows, TP_INTS(2, 1)) : NULL;
    tp_dataset *d = part ? tp_dataset_normalised(part, 0, 2, tp_no_floats(), tp_no_floats()) : NULL;
    tp_loader *l = d ? tp_loader_new(d, .batch = 1, .shuffle = true, .threads = threads) : NULL;
    int n = 0;
    while (l && tp_loader_next(l)) n++;
    tp_tensor *at = l ? tp_loader_get_state(l) : NULL;
    bool ok = at && tp_loader_set_state(l, at) && n == 2;
    tp_release(at);
    tp_loader_free(l);
    tp_dataset_release(d);
    tp_dataset_release(part);
    tp_dataset_release(rows);
    tp_release(t);
    return ok;
}

static void without_threads(void) { assert_true(use_a_loader(0) || !tp_ok()); }
static void with_a_thread(void) { assert_true(use_a_loader(1) || !tp_ok()); }

static void every_allocation_may_fail(void **state) {
    (void)state;
    fail_each_allocation(without_threads);
    fail_each_allocation(with_a_thread);
}

/* ---- Storage that processes share ---- */
static void shared_storage(void **state) {
    (void)state;
    tp_storage *s = tp_storage_new_shared(1000);
    assert_true(tp_storage_is_shared(s));
    assert_true(tp_storage_shared_fd(s) >= 0);
    assert_true(!tp_storage_shared_path(s));
    assert_true(tp_storage_size(s) == 1000);
    char *mine = tp_storage_data(s);
    assert_true(mine[0] == 0);
    assert_true(mine[999] == 0);
    assert_true(tp_storage_shared_count(s, 2) == 2);
    pid_t child = fork();
    if (child == 0) {
        tp_storage *other = tp_storage_from_shared(dup(tp_storage_shared_fd(s)), 1000, true, NULL);
        char *theirs = tp_storage_data(other);
        if (!other || theirs == mine || theirs[5] != 0) _exit(1);
        theirs[5] = 7;
        _exit(tp_storage_shared_count(other, -1) == 1 ? 0 : 2);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_true(mine[5] == 7);
    assert_true(tp_storage_shared_count(s, 0) == 1);
    assert_ptr_equal(tp_storage_share(s, NULL), s);
    tp_storage_release(s);
    assert_null(tp_storage_from_shared(tp_storage_shared_fd(s), 5000, true, NULL));
    tp_error_clear();
    tp_storage_release(s);
}

static void shared_copies(void **state) {
    (void)state;
    tp_storage *s = tp_storage_new(1000, (tp_device){TP_CPU, 0});
    memset(tp_storage_data(s), 3, 1000);
    tp_storage *a = tp_storage_share(s, NULL), *b = tp_storage_share(s, NULL);
    assert_true(a == b);
    assert_true(a != s);
    assert_true(memcmp(tp_storage_data(a), tp_storage_data(s), 1000) == 0);
    assert_true(!tp_storage_is_shared(s));
    ((char *)tp_storage_data(s))[0] = 4; /* they differ now: what is shared from here on is as s is */
    tp_storage *c = tp_storage_share(s, NULL);
    assert_true(c != a);
    assert_true(((char *)tp_storage_data(c))[0] == 4);
    tp_storage_release(s);
    assert_true(((char *)tp_storage_data(a))[999] == 3);
    tp_storage_release(a);
    tp_storage_release(b);
    tp_storage_release(c);
}

static void shared_files(void **state) {
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/shared", folder);
    tp_storage *s = tp_storage_new_shared_file(path, 100);
    assert_true(tp_storage_shared_fd(s) == -1);
    assert_true(strcmp(tp_storage_shared_path(s), path) == 0);
    assert_true(access(path, F_OK) == 0);
    assert_null(tp_storage_new_shared_file(path, 100));
    assert_error("File exists");
    assert_true(access(path, F_OK) == 0);
    pid_t child = fork();
    if (child == 0) {
        tp_storage_release(s); /* the name is its maker's */
        _exit(access(path, F_OK));
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    tp_storage_release(s);
    assert_true(access(path, F_OK) != 0);
    assert_null(tp_storage_new_shared(-1));
    assert_error("argument 'bytes': expected 0 or more, got -1");
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {CASE(side_by_side),
                                       CASE(orders_are_pytorchs),
                                       CASE(goes_on_where_it_stood),
                                       CASE(datasets_of_ones_own),
                                       CASE(wrong_arguments),
                                       CASE(idx_files),
                                       CASE(mnist_files),
                                       CASE(cifar_files),
                                       CASE(tensor_files),
                                       CASE(every_allocation_may_fail),
                                       CASE(shared_storage),
                                       CASE(shared_copies),
                                       CASE(shared_files)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
