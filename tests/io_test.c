/* Files of named tensors: what is saved comes back, NumPy's files are read, nothing is lost on failure, and damage is
 * found. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <taper/io.h>
#include <unistd.h>
#include "io/checkpoint/zip.h"
#include "tensor/tensor.h"

static const tp_device cpu = {TP_CPU, 0};
static char folder[] = "/tmp/taper_io_XXXXXX";
static char path[64], other[64];

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/a.npz", folder);
    snprintf(other, sizeof other, "%s/b.npz", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(folder);
}

static int files_in_folder(void) {
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void assert_error(tp_code code, const char *words) {
    assert_non_null(tp_error());
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    assert_int_equal(tp_error_code(), code);
    tp_error_clear();
}

/* first, first + 1, ... in any dtype */
static tp_tensor *counting(tp_ints shape, tp_dtype dtype, double first) {
    tp_tensor *t = tpi_empty(shape, dtype, cpu);
    assert_non_null(t);
    for (int64_t i = 0; i < t->numel; i++)
        tpi_store_scalar(t->data + i * (int64_t)tpi_itemsize(t), dtype, tp_float(first + (double)i));
    return t;
}

static void assert_same(const tp_tensor *a, const tp_tensor *b) {
    char x[1024], y[1024];
    assert_non_null(a);
    assert_true(tpi_same_shape(a, b));
    assert_true(a->dtype == b->dtype);
    assert_true(tp_copy_out(a, x, sizeof x));
    assert_true(tp_copy_out(b, y, sizeof y));
    assert_memory_equal(x, y, (size_t)a->numel * tpi_itemsize(a));
}

static void assert_file_holds(const char *name, const tp_tensor *want) {
    tp_file *file = tp_open_file(path, NULL);
    assert_non_null(file);
    tp_tensor *got = tp_saved_tensor(tp_saved_get(tp_file_value(file), name));
    assert_same(got, want);
    tp_release(got);
    tp_close_file(file);
}

static char *read_bytes(const char *from, size_t *bytes) {
    FILE *f = fopen(from, "rb");
    char *data = malloc(1 << 16);
    *bytes = fread(data, 1, 1 << 16, f);
    fclose(f);
    return data;
}

static void write_bytes(const char *to, const void *data, size_t bytes) {
    FILE *f = fopen(to, "wb");
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

/* ---- There and back ---- */

static void every_dtype_comes_back(void **state) {
    (void)state;
    tp_tensor *tensors[TP_DTYPE_COUNT];
    const char *names[TP_DTYPE_COUNT];
    int64_t n = 0;
    for (int d = 1; d <= TP_UINT64; d++, n++) {
        tensors[n] = counting(TP_INTS(2, 3), (tp_dtype)d, 0);
        names[n] = tp_dtype_name((tp_dtype)d);
    }
    assert_true(tp_save(path, n, names, tensors));
    tp_file *file = tp_open_file(path, NULL);
    const tp_saved *arrays = tp_file_value(file);
    assert_int_equal(tp_saved_count(arrays), n);
    for (int64_t i = 0; i < n; i++) {
        assert_string_equal(tp_saved_text(tp_saved_key_at(arrays, i)), names[i]);
        tp_tensor *got = tp_saved_tensor(tp_saved_at(arrays, i));
        assert_same(got, tensors[i]);
        tp_release(got);
        tp_release(tensors[i]);
    }
    tp_close_file(file);
}

static void all_shapes_and_strides_come_back(void **state) {
    (void)state;
    tp_tensor *t = counting(TP_INTS(2, 3), TP_FLOAT32, 1), *none = counting(TP_INTS(0, 3), TP_INT64, 0);
    tp_tensor *scalar = counting(tp_no_ints(), TP_FLOAT64, 7);
    tp_tensor *transposed = tpi_alias(t, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0),
              *wide = tpi_alias(t, 2, (int64_t[]){2, 3}, (int64_t[]){0, 1}, 3);
    const char *names[] = {"layer.0/weight", "none", "scalar", "turned", "wide \xc3\xa9"};
    tp_tensor *tensors[] = {t, none, scalar, transposed, wide};
    assert_true(tp_save(path, 5, names, tensors));
    for (int i = 0; i < 5; i++) assert_file_holds(names[i], tensors[i]);
    for (int i = 0; i < 5; i++) tp_release(tensors[i]);
}

static void large_files_take_zip64(void **state) {
    (void)state;
    tp_tensor *a = counting(TP_INTS(40), TP_FLOAT32, 0), *b = counting(TP_INTS(3), TP_INT32, 5);
    tpi_zip64_from = 2; /* everything is large now */
    bool saved = tp_save(path, 2, (const char *[]){"a", "b"}, (tp_tensor *[]){a, b});
    tpi_zip64_from = 0xffffffffu;
    assert_true(saved);
    assert_file_holds("a", a);
    assert_file_holds("b", b);
    tp_release(a);
    tp_release(b);
}

/* Written by np.savez_compressed: fortran float32 [[0, 1, 2], [3, 4, 5]] in Fortran order, big_endian '>i2' [1, -2,
 * 300], truth True. */
static const unsigned char by_numpy[] = {
    80,  75,  3,   4,   45,  0,   0,   0,   8,   0,   0,   0,   33,  0,   206, 44,  224, 211, 255, 255, 255, 255, 255,
    255, 255, 255, 11,  0,   20,  0,   102, 111, 114, 116, 114, 97,  110, 46,  110, 112, 121, 1,   0,   16,  0,   152,
    0,   0,   0,   0,   0,   0,   0,   86,  0,   0,   0,   0,   0,   0,   0,   155, 236, 23,  234, 27,  16,  201, 200,
    80,  198, 80,  173, 158, 146, 90,  156, 92,  164, 110, 165, 160, 110, 147, 102, 162, 174, 163, 160, 158, 150, 95,
    84,  82,  148, 152, 23,  159, 95,  148, 146, 10,  18,  15,  41,  42,  77,  5,   10,  23,  103, 36,  22,  164, 2,
    185, 26,  70,  58,  10,  198, 154, 58,  10,  181, 10,  228, 3,   46,  6,   48,  112, 112, 96,  96,  104, 176, 7,
    98,  7,   16,  135, 129, 97,  129, 3,   0,   80,  75,  3,   4,   45,  0,   0,   0,   8,   0,   0,   0,   33,  0,
    239, 74,  90,  27,  255, 255, 255, 255, 255, 255, 255, 255, 14,  0,   20,  0,   98,  105, 103, 95,  101, 110, 100,
    105, 97,  110, 46,  110, 112, 121, 1,   0,   16,  0,   134, 0,   0,   0,   0,   0,   0,   0,   74,  0,   0,   0,
    0,   0,   0,   0,   155, 236, 23,  234, 27,  16,  201, 200, 80,  198, 80,  173, 158, 146, 90,  156, 92,  164, 110,
    165, 160, 110, 151, 105, 164, 174, 163, 160, 158, 150, 95,  84,  82,  148, 152, 23,  159, 95,  148, 146, 10,  18,
    119, 75,  204, 41,  78,  5,   138, 23,  103, 36,  22,  164, 2,   249, 26,  198, 58,  154, 58,  10,  181, 10,  20,
    0,   46,  6,   198, 255, 255, 24,  117, 0,   80,  75,  3,   4,   45,  0,   0,   0,   8,   0,   0,   0,   33,  0,
    130, 45,  248, 211, 255, 255, 255, 255, 255, 255, 255, 255, 9,   0,   20,  0,   116, 114, 117, 116, 104, 46,  110,
    112, 121, 1,   0,   16,  0,   129, 0,   0,   0,   0,   0,   0,   0,   67,  0,   0,   0,   0,   0,   0,   0,   155,
    236, 23,  234, 27,  16,  201, 200, 80,  198, 80,  173, 158, 146, 90,  156, 92,  164, 110, 165, 160, 94,  147, 100,
    168, 174, 163, 160, 158, 150, 95,  84,  82,  148, 152, 23,  159, 95,  148, 146, 10,  18,  119, 75,  204, 41,  78,
    5,   138, 23,  103, 36,  22,  164, 2,   249, 26,  154, 58,  10,  181, 10,  20,  1,   46,  70,  0,   80,  75,  1,
    2,   45,  3,   45,  0,   0,   0,   8,   0,   0,   0,   33,  0,   206, 44,  224, 211, 86,  0,   0,   0,   152, 0,
    0,   0,   11,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   128, 1,   0,   0,   0,   0,   102, 111, 114,
    116, 114, 97,  110, 46,  110, 112, 121, 80,  75,  1,   2,   45,  3,   45,  0,   0,   0,   8,   0,   0,   0,   33,
    0,   239, 74,  90,  27,  74,  0,   0,   0,   134, 0,   0,   0,   14,  0,   0,   0,   0,   0,   0,   0,   0,   0,
    0,   0,   128, 1,   147, 0,   0,   0,   98,  105, 103, 95,  101, 110, 100, 105, 97,  110, 46,  110, 112, 121, 80,
    75,  1,   2,   45,  3,   45,  0,   0,   0,   8,   0,   0,   0,   33,  0,   130, 45,  248, 211, 67,  0,   0,   0,
    129, 0,   0,   0,   9,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   128, 1,   29,  1,   0,   0,   116,
    114, 117, 116, 104, 46,  110, 112, 121, 80,  75,  5,   6,   0,   0,   0,   0,   3,   0,   3,   0,   172, 0,   0,
    0,   155, 1,   0,   0,   0,   0,
};

static void numpys_files_are_read(void **state) {
    (void)state;
    write_bytes(path, by_numpy, sizeof by_numpy);
    tp_tensor *fortran = counting(TP_INTS(2, 3), TP_FLOAT32, 0), *truth = tpi_of_scalar(tp_truth(true), TP_BOOL, cpu);
    tp_tensor *shorts = tp_from_data((int16_t[]){1, -2, 300}, TP_INT16, TP_INTS(3));
    assert_file_holds("fortran", fortran);
    assert_file_holds("big_endian", shorts);
    assert_file_holds("truth", truth);
    tp_release(fortran);
    tp_release(truth);
    tp_release(shorts);
}

/* ---- Loading into tensors ---- */

static void loading_converts_and_counts_as_a_write(void **state) {
    (void)state;
    tp_tensor *saved = counting(TP_INTS(2, 3), TP_FLOAT32, 1), *into = counting(TP_INTS(3, 2), TP_FLOAT64, 0);
    tp_tensor *transposed = tpi_alias(into, 2, (int64_t[]){2, 3}, (int64_t[]){1, 2}, 0);
    assert_true(tp_save(path, 1, (const char *[]){"w"}, &saved));
    assert_true(tp_load(path, 1, (const char *[]){"w"}, &transposed));
    assert_true(((double *)into->data)[1] == 4);
    assert_true(((double *)into->data)[2] == 2);
    assert_int_equal(tp_tensor_version(into), 1);
    tp_release(saved);
    tp_release(into);
    tp_release(transposed);
}

static void a_failed_load_changes_nothing(void **state) {
    (void)state;
    tp_tensor *a = counting(TP_INTS(2), TP_FLOAT32, 1), *b = counting(TP_INTS(3), TP_FLOAT32, 1);
    tp_tensor *saved[] = {a, b}, *zeros = counting(TP_INTS(2), TP_FLOAT32, 0),
              *before = counting(TP_INTS(2), TP_FLOAT32, 0);
    const char *names[] = {"a", "b"};
    assert_true(tp_save(path, 2, names, saved));
    assert_false(tp_load(path, 2, names, (tp_tensor *[]){zeros, before}));
    assert_error(TP_ERR_RUNTIME, "tensor 'b': expected shape [2], got [3]");
    assert_false(tp_load(path, 2, (const char *[]){"a", "c"}, (tp_tensor *[]){zeros, before}));
    assert_error(TP_ERR_VALUE, "no tensor named 'c'");
    assert_same(zeros, before);
    tp_release(a);
    tp_release(b);
    tp_release(zeros);
    tp_release(before);
}

/* ---- Failures ---- */

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    tp_tensor *t = counting(TP_INTS(2), TP_FLOAT32, 0);
    assert_false(tp_save(path, 2, (const char *[]){"a", "a"}, (tp_tensor *[]){t, t}));
    assert_error(TP_ERR_VALUE, "'a' twice");
    assert_false(tp_save(path, 1, (const char *[]){""}, &t));
    assert_error(TP_ERR_VALUE, "'names'");
    assert_false(tp_save(path, 1, (const char *[]){"\xff"}, &t));
    assert_error(TP_ERR_VALUE, "UTF-8");
    assert_false(tp_save(path, 1, (const char *[]){"a"}, (tp_tensor *[]){NULL}));
    assert_error(TP_ERR_TYPE, "got NULL");
    assert_false(tp_save("/nowhere/at/all.npz", 1, (const char *[]){"a"}, &t));
    assert_error(TP_ERR_IO, "No such file");
    assert_null(tp_open_file("/nowhere/at/all.npz", NULL));
    assert_error(TP_ERR_IO, "No such file");
    assert_null(tp_open_file(folder, NULL));
    assert_error(TP_ERR_IO, "not a plain file");
    tp_release(t);
}

static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    tp_tensor *old = counting(TP_INTS(3), TP_FLOAT32, 0), *large = counting(TP_INTS(100000), TP_FLOAT32, 0);
    assert_true(tp_save(path, 1, (const char *[]){"a"}, &old));
    int files = files_in_folder();
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool saved = tp_save(path, 1, (const char *[]){"a"}, &large);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_false(saved);
    assert_error(TP_ERR_IO, "could not write");
    assert_int_equal(files_in_folder(), files);
    assert_file_holds("a", old);
    tp_release(old);
    tp_release(large);
}

static bool save_and_load(tp_tensor *from, tp_tensor *into) {
    return tp_save(other, 1, (const char *[]){"x"}, &from) && tp_load(other, 1, (const char *[]){"x"}, &into);
}

static void nothing_is_lost_when_memory_runs_out(void **state) {
    (void)state;
    tp_tensor *from = counting(TP_INTS(2, 3), TP_FLOAT32, 1),
              *transposed = tpi_alias(from, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0);
    tp_tensor *into = counting(TP_INTS(3, 2), TP_FLOAT64, 0), *before = counting(TP_INTS(3, 2), TP_FLOAT64, 0);
    int64_t live = tpi_alloc_live(), nth = 1;
    for (bool done = false; !done; nth++) {
        tpi_alloc_fail_at(nth, false);
        done = save_and_load(transposed, into);
        tpi_alloc_fail_at(0, false);
        assert_int_equal(tpi_alloc_live(), live);
        if (done) break;
        assert_int_equal(tp_error_code(), TP_ERR_MEMORY);
        tp_error_clear();
        assert_same(into, before);
    }
    assert_true(nth > 15);
    assert_int_equal(files_in_folder(), 2);        /* and no temporary ones */
    write_bytes(other, by_numpy, sizeof by_numpy); /* the same for packed arrays */
    nth = 1;
    for (bool done = false; !done; nth++) {
        tpi_alloc_fail_at(nth, false);
        tp_file *file = tp_open_file(other, NULL);
        tp_tensor *t = tp_saved_tensor(tp_saved_get(tp_file_value(file), "fortran"));
        done = t != NULL;
        tpi_alloc_fail_at(0, false);
        tp_release(t);
        tp_close_file(file);
        assert_int_equal(tpi_alloc_live(), live);
        tp_error_clear();
    }
    tp_release(from);
    tp_release(transposed);
    tp_release(into);
    tp_release(before);
}

/* ---- Damage ---- */

static void a_flipped_bit_in_the_data_is_found(void **state) {
    (void)state;
    size_t bytes;
    tp_tensor *t = counting(TP_INTS(8), TP_FLOAT64, 1);
    assert_true(tp_save(path, 1, (const char *[]){"a"}, &t));
    char *data = read_bytes(path, &bytes);
    data[64 + 128 + 20] ^= 1; /* behind the local header and the array's header */
    write_bytes(path, data, bytes);
    tp_file *file = tp_open_file(path, NULL);
    assert_non_null(file);
    assert_null(tp_saved_tensor(tp_saved_get(tp_file_value(file), "a")));
    assert_error(TP_ERR_IO, "tensor 'a': ");
    assert_null(tp_saved_tensor(tp_saved_get(tp_file_value(file), "a")));
    assert_error(TP_ERR_IO, "checksum");
    tp_close_file(file);
    free(data);
    tp_release(t);
}

/* Reads everything; true if it was all there. */
static bool readable(void) {
    tp_file *file = tp_open_file(path, NULL);
    const tp_saved *arrays = tp_file_value(file);
    bool ok = arrays != NULL;
    for (int64_t i = 0; i < tp_saved_count(arrays); i++) {
        tp_tensor *t = tp_saved_tensor(tp_saved_at(arrays, i));
        ok = ok && t;
        tp_release(t);
    }
    tp_close_file(file);
    if (!ok) assert_non_null(tp_error());
    tp_error_clear();
    return ok;
}

static void any_damage_is_survived(void **state) {
    (void)state;
    tp_tensor *t = counting(TP_INTS(2, 3), TP_BFLOAT16, 1);
    assert_true(tp_save(path, 1, (const char *[]){"a"}, &t));
    tp_release(t);
    int64_t live = tpi_alloc_live();
    for (int which = 0; which < 2; which++) {
        size_t bytes;
        if (which == 1) write_bytes(path, by_numpy, sizeof by_numpy);
        char *data = read_bytes(path, &bytes);
        assert_true(readable());
        for (size_t n = 0; n < bytes; n++) { /* cut off anywhere */
            write_bytes(path, data, n);
            assert_false(readable());
        }
        for (size_t i = 0; i < bytes; i++) { /* any byte changed: an error, or a byte that does not matter */
            static const unsigned char masks[] = {0x01, 0x80, 0xff};
            for (int k = 0; k < 3; k++) {
                data[i] ^= (char)masks[k];
                write_bytes(path, data, bytes);
                readable();
                data[i] ^= (char)masks[k];
            }
        }
        free(data);
    }
    assert_int_equal(tpi_alloc_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_comes_back),
        cmocka_unit_test(all_shapes_and_strides_come_back),
        cmocka_unit_test(large_files_take_zip64),
        cmocka_unit_test(numpys_files_are_read),
        cmocka_unit_test(loading_converts_and_counts_as_a_write),
        cmocka_unit_test(a_failed_load_changes_nothing),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(nothing_is_lost_when_memory_runs_out),
        cmocka_unit_test(a_flipped_bit_in_the_data_is_found),
        cmocka_unit_test(any_damage_is_survived),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
