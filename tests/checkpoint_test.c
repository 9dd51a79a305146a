/* Checkpoints from C: PyTorch's files are read, every format comes back, hostile files are refused, damage and want of
 * memory are survived.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <taper/taper.h>
#include <unistd.h>
#include "io/checkpoint/crc.h"
#include "io/checkpoint/zip.h"
#include "tensor/tensor.h"
#include <zlib.h>

static const tp_device cpu = {TP_CPU, 0};
static char folder[] = "/tmp/taper_checkpoint_XXXXXX";
static char path[4096];

static const char *in_folder(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static const char *fixture(const char *kind, const char *name) {
    const char *source = getenv("TAPER_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/tests/%s/%s", source ? source : "..", kind, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    DIR *d = opendir(folder);
    int hidden = 0; /* files that killed writers left: none, or where the system has no nameless files up to one each */
    for (struct dirent *e; (e = readdir(d));) {
        hidden += strncmp(e->d_name, ".taper-", 7) == 0;
        unlink(in_folder(e->d_name));
    }
    closedir(d);
    return rmdir(folder) || hidden > 200;
}

static void assert_error(const char *words) {
    assert_non_null(tp_error());
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    tp_error_clear();
}

static char *read_bytes(const char *from, size_t *bytes) {
    FILE *f = fopen(from, "rb");
    if (!f) fail_msg("no file %s", from);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*bytes + 1);
    assert_int_equal(fread(data, 1, *bytes, f), *bytes);
    fclose(f);
    return data;
}

static tp_tensor *counting(tp_ints shape, tp_dtype dtype, double first) {
    tp_tensor *t = tpi_empty(shape, dtype, cpu);
    assert_non_null(t);
    for (int64_t i = 0; i < t->numel; i++)
        tpi_store_scalar(t->data + i * (int64_t)tpi_itemsize(t), dtype, tp_float(first + (double)i));
    return t;
}

static void assert_numbers(const tp_saved *v, tp_dtype dtype, tp_ints shape, const double *numbers) {
    tp_tensor *t = tp_saved_tensor(v);
    if (!t) fail_msg("%s", tp_error());
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->ndim, shape.n);
    for (int64_t i = 0; i < shape.n; i++) assert_int_equal(t->shape[i], shape.v[i]);
    tp_tensor *flat = tpi_contiguous_data(t);
    for (int64_t i = 0; i < t->numel; i++)
        assert_true(tp_scalar_to_double(tpi_load_scalar(flat->data + i * (int64_t)tpi_itemsize(flat), dtype)) ==
                    numbers[i]);
    tp_release(flat);
    tp_release(t);
}

/* ---- PyTorch's files ---- */

static void pytorchs_files_are_read(void **state) {
    (void)state;
    static const char *const names[] = {"nested.pt", "nested.old.pt"};
    for (int i = 0; i < 3; i++) { /* the last round maps the first file */
        tp_file *file = tp_open_file(fixture("fixtures/checkpoints", names[i % 2]),
                                     &(tp_file_options){.size = sizeof(tp_file_options), .map = i == 2});
        if (!file) fail_msg("%s", tp_error());
        const tp_saved *value = tp_file_value(file), *optimizer = tp_saved_get(value, "optimizer"),
                       *model = tp_saved_get(value, "model");
        assert_int_equal(tp_scalar_to_int(tp_saved_number(tp_saved_get(value, "epoch"))), 3);
        assert_numbers(tp_saved_get(model, "0.bias"), TP_FLOAT32, TP_INTS(2), (double[]){1.5, 1.5});
        const tp_saved *state0 = tp_saved_get_int(tp_saved_get(optimizer, "state"), 0);
        assert_numbers(tp_saved_get(state0, "exp_avg"), TP_FLOAT32, TP_INTS(2, 3), (double[]){0, 1, 2, 3, 4, 5});
        const tp_saved *group = tp_saved_get_int(tp_saved_get(optimizer, "param_groups"), 0);
        assert_true(tp_scalar_to_double(tp_saved_number(tp_saved_get(group, "lr"))) == 0.1);
        assert_int_equal(tp_saved_count(tp_saved_get(group, "betas")), 2);
        assert_null(tp_saved_get(tp_saved_get(value, "nothing"), "at all"));
        assert_error("there is no 'nothing'");
        tp_close_file(file);
    }
}

static void tied_tensors_share_memory(void **state) {
    (void)state;
    tp_file *file = tp_open_file(fixture("fixtures/checkpoints", "tied.pt"), NULL);
    tp_tensor *w = tp_saved_tensor(tp_saved_get(tp_file_value(file), "w")),
              *t = tp_saved_tensor(tp_saved_get(tp_file_value(file), "t"));
    assert_numbers(tp_saved_get(tp_file_value(file), "part"), TP_FLOAT32, TP_INTS(2, 2), (double[]){1, 2, 4, 5});
    assert_numbers(tp_saved_get(tp_file_value(file), "expanded"), TP_FLOAT32, TP_INTS(4), (double[]){1, 1, 1, 1});
    tp_close_file(file);
    assert_true(tp_shares_storage(w, t));
    assert_int_equal(tp_stride(t, 0), 1);
    tp_release(w);
    tp_release(t);
}

static void plain_values_are_what_they_were(void **state) {
    (void)state;
    tp_file *file = tp_open_file(fixture("fixtures/checkpoints", "plain.pt"), NULL);
    const tp_saved *v = tp_file_value(file);
    assert_int_equal(tp_saved_kind_of(tp_saved_get(v, "none")), TP_SAVED_NONE);
    assert_int_equal(tp_saved_kind_of(tp_saved_get(v, "big")), TP_SAVED_LONG);
    assert_int_equal(tp_scalar_to_int(tp_saved_number(tp_saved_get(v, "wide"))), (int64_t)1 << 40);
    assert_int_equal(tp_scalar_to_int(tp_saved_number(tp_saved_get(v, "minus"))), -1);
    assert_true(tp_saved_number(tp_saved_get(v, "complex")).as.d[1] == 2);
    assert_string_equal(tp_saved_text(tp_saved_get(v, "text")), "\xc3\xa9\xe2\x82\xac");
    assert_memory_equal(tp_saved_text(tp_saved_get(v, "bytes")), "abc\xff\x00", 5);
    assert_string_equal(tp_saved_text(tp_saved_get(v, "dtype")), "float16");
    assert_string_equal(tp_saved_text(tp_saved_get(v, "cuda")), "cuda:1");
    assert_string_equal(tp_saved_text(tp_saved_get_int(v, 7)), "seven");
    assert_int_equal(tp_scalar_to_int(tp_saved_number(tp_saved_at(tp_saved_get(v, "size"), 1))), 3);
    assert_null(tp_saved_tensor(tp_saved_get(v, "text")));
    assert_error("expected a tensor, got a text");
    tp_close_file(file);
}

static void objects_are_kept_as_values_where_they_are_let_through(void **state) {
    (void)state;
    tp_file *file = tp_open_file(fixture("fixtures/checkpoints", "linear.module.pt"), NULL);
    assert_null(tp_file_value(file));
    assert_error("torch.nn.modules.linear.Linear was not an allowed global");
    assert_null(tp_file_value(file));
    tp_error_clear();
    tp_close_file(file);
    const char *allowed[] = {"torch.nn.modules.linear.Linear"};
    file = tp_open_file(path, &(tp_file_options){.size = sizeof(tp_file_options), .nallowed = 1, .allowed = allowed});
    const tp_saved *module = tp_file_value(file);
    assert_int_equal(tp_saved_kind_of(module), TP_SAVED_OBJECT);
    const tp_saved *parameters = tp_saved_get(tp_saved_part_of(module, TP_PART_STATE), "_parameters");
    assert_numbers(tp_saved_get(parameters, "weight"), TP_FLOAT32, TP_INTS(2, 3), (double[]){0, 1, 2, 3, 4, 5});
    assert_int_equal(tp_file_global_count(file), 1);
    assert_string_equal(tp_file_global_at(file, 0), allowed[0]);
    tp_close_file(file);
}

/* ---- There and back ---- */

static void every_dtype_comes_back_in_every_format(void **state) {
    (void)state;
    static const char *const files[] = {"x.pt", "x.safetensors", "x.npz"};
    for (int f = 0; f < 3; f++)
        for (int map = 0; map < 2; map++) {
            tp_tensor *tensors[TP_DTYPE_COUNT];
            const char *names[TP_DTYPE_COUNT];
            int64_t n = 0;
            for (int d = 1; d <= TP_BCOMPLEX32; d++) {
                bool complex_of_halves = d == TP_COMPLEX32 || d == TP_BCOMPLEX32;
                if (f == 1 && (d == TP_COMPLEX128 || complex_of_halves)) continue;
                if (f == 2 && d > TP_UINT64) continue;
                tensors[n] = counting(TP_INTS(2, 1), (tp_dtype)d, d == TP_FLOAT8_E8M0FNU);
                names[n++] = tp_dtype_name((tp_dtype)d);
            }
            if (!tp_save(in_folder(files[f]), n, names, tensors)) fail_msg("%s", tp_error());
            tp_file *file = tp_open_file(path, &(tp_file_options){.size = sizeof(tp_file_options), .map = map});
            assert_int_equal(tp_saved_count(tp_file_value(file)), n);
            for (int64_t i = 0; i < n; i++) {
                double first = tensors[i]->dtype == TP_FLOAT8_E8M0FNU; /* it has no zero */
                assert_numbers(tp_saved_get(tp_file_value(file), names[i]), (tp_dtype)tensors[i]->dtype, TP_INTS(2, 1),
                               (double[]){first, first + 1});
                tp_release(tensors[i]);
            }
            tp_close_file(file);
        }
}

static void shapes_and_odd_names_come_back(void **state) {
    (void)state;
    static const char *const files[] = {"s.pt", "s.safetensors", "s.npz"};
    tp_tensor *t = counting(TP_INTS(2, 3), TP_FLOAT32, 1), *none = counting(TP_INTS(0, 3), TP_INT64, 0),
              *scalar = counting(tp_no_ints(), TP_FLOAT64, 7);
    tp_tensor *transposed = tpi_alias(t, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0);
    const char *names[] = {"layer.0/weight", "none", "sca\"lar\\", "turned \xc3\xa9"};
    for (int f = 0; f < 3; f++) {
        assert_true(tp_save(in_folder(files[f]), 4, names, (tp_tensor *[]){t, none, scalar, transposed}));
        tp_file *file = tp_open_file(path, NULL);
        const tp_saved *v = tp_file_value(file);
        assert_numbers(tp_saved_get(v, names[0]), TP_FLOAT32, TP_INTS(2, 3), (double[]){1, 2, 3, 4, 5, 6});
        assert_numbers(tp_saved_get(v, names[1]), TP_INT64, TP_INTS(0, 3), NULL);
        assert_numbers(tp_saved_get(v, names[2]), TP_FLOAT64, tp_no_ints(), (double[]){7});
        assert_numbers(tp_saved_get(v, names[3]), TP_FLOAT32, TP_INTS(3, 2), (double[]){1, 4, 2, 5, 3, 6});
        tp_close_file(file);
    }
    tp_tensor *wide = counting(TP_INTS(1), TP_COMPLEX128, 0);
    assert_false(tp_save(in_folder("c.safetensors"), 1, (const char *[]){"wide"}, &wide));
    assert_error("tensor 'wide': safetensors has no dtype for complex128");
    tp_release(t);
    tp_release(none);
    tp_release(scalar);
    tp_release(transposed);
    tp_release(wide);
}

static bool save_tree(tp_tensor *w, tp_tensor *view) {
    tp_file *file = tp_new_file();
    tp_saved *model = tp_put_dict(file, NULL, "model"), *groups = tp_put_list(file, NULL, "groups"),
             *group = tp_put_dict(file, groups, NULL);
    tp_put_tensor(file, model, "w", w);
    tp_put_tensor(file, model, "view", view);
    tp_put_number(file, group, "lr", tp_float(0.125));
    tp_put_number(file, group, "steps", tp_int(-70000));
    tp_put_number(file, tp_put_dict_int(file, NULL, 5), "nesterov", tp_truth(true));
    tp_put_text(file, NULL, "name", "run \xc3\xa9");
    tp_put_none(file, NULL, "nothing");
    bool ok = file && tp_save_file(file, in_folder("tree.pt"));
    ok = ok && tp_save_value(file, tp_saved_get(tp_file_value(file), "groups"), in_folder("part.pt"), NULL);
    tp_close_file(file);
    return ok;
}

/* One value of the tree, saved by itself, is what its file is. */
static bool check_part(void) {
    tp_file *file = tp_open_file(in_folder("part.pt"), NULL);
    const tp_saved *groups = tp_file_value(file);
    bool ok = tp_saved_kind_of(groups) == TP_SAVED_LIST && tp_saved_count(groups) == 1 &&
              tp_scalar_to_int(tp_saved_number(tp_saved_get(tp_saved_at(groups, 0), "steps"))) == -70000;
    tp_close_file(file);
    return ok;
}

static bool check_tree(bool must) {
    tp_file *file = tp_open_file(in_folder("tree.pt"), NULL);
    const tp_saved *v = tp_file_value(file), *model = tp_saved_get(v, "model"),
                   *group = tp_saved_get_int(tp_saved_get(v, "groups"), 0);
    tp_tensor *w = tp_saved_tensor(tp_saved_get(model, "w")),
              *view = w ? tp_saved_tensor(tp_saved_get(model, "view")) : NULL;
    bool ok = view && tp_shares_storage(w, view) && tp_item(view) == 5 &&
              tp_scalar_to_double(tp_saved_number(tp_saved_get(group, "lr"))) == 0.125 &&
              tp_scalar_to_int(tp_saved_number(tp_saved_get(group, "steps"))) == -70000 &&
              tp_scalar_to_bool(tp_saved_number(tp_saved_get(tp_saved_get_int(v, 5), "nesterov"))) &&
              strcmp(tp_saved_text(tp_saved_get(v, "name")), "run \xc3\xa9") == 0 &&
              tp_saved_kind_of(tp_saved_get(v, "nothing")) == TP_SAVED_NONE;
    tp_release(w);
    tp_release(view);
    tp_close_file(file);
    if (must && !ok) fail_msg("%s", tp_error());
    return ok;
}

static void trees_come_back_whatever_memory_there_is(void **state) {
    (void)state;
    tp_tensor *w = counting(TP_INTS(2, 3), TP_FLOAT32, 0), *view = tpi_alias(w, 0, NULL, NULL, 5);
    assert_true(save_tree(w, view));
    check_tree(true);
    assert_true(check_part());
    int64_t live = tpi_alloc_live(), nth = 1;
    for (bool done = false; !done && nth < 1000; nth++) {
        tpi_alloc_fail_at(nth, false);
        done = save_tree(w, view) && check_tree(false);
        tpi_alloc_fail_at(0, false);
        assert_int_equal(tpi_alloc_live(), live);
        if (!done) assert_false(tp_ok());
        tp_error_clear();
        check_tree(true); /* the old file or the new one */
    }
    assert_true(nth > 30);
    assert_true(nth < 1000);
    tp_release(w);
    tp_release(view);
}

static void what_was_read_can_be_written(void **state) {
    (void)state;
    static const char *const names[] = {"plain.pt", "parameters.pt", "tied.old.pt", "dtypes.pt", "nested.pt"};
    for (int i = 0; i < 5; i++) {
        tp_file *file = tp_open_file(fixture("fixtures/checkpoints", names[i]), NULL);
        if (!tp_save_file(file, in_folder("again.pt"))) fail_msg("%s: %s", names[i], tp_error());
        tp_file *again = tp_open_file(path, NULL);
        assert_int_equal(tp_saved_count(tp_file_value(again)), tp_saved_count(tp_file_value(file)));
        for (int64_t k = 0; k < tp_saved_count(tp_file_value(file)); k++) {
            const tp_saved *a = tp_saved_at(tp_file_value(file), k), *b = tp_saved_at(tp_file_value(again), k);
            assert_int_equal(tp_saved_kind_of(a), tp_saved_kind_of(b));
            tp_tensor *x = tp_saved_kind_of(a) == TP_SAVED_TENSOR ? tp_saved_tensor(a) : NULL,
                      *y = x ? tp_saved_tensor(b) : NULL;
            if (x) assert_true(tpi_same_shape(x, y) && x->dtype == y->dtype && x->requires_grad == y->requires_grad);
            if (x && x->numel) assert_memory_equal(x->data, y->data, tpi_itemsize(x));
            tp_release(x);
            tp_release(y);
        }
        tp_close_file(again);
        tp_close_file(file);
    }
}

/* ---- Hostile files ---- */

static bool read_everything(const tp_saved *v, int depth) {
    if (!v || depth > 20) return v != NULL;
    if (tp_saved_kind_of(v) == TP_SAVED_TENSOR || tp_saved_kind_of(v) == TP_SAVED_STORAGE) {
        tp_tensor *t = tp_saved_kind_of(v) == TP_SAVED_TENSOR ? tp_saved_tensor(v) : NULL;
        tp_storage *s = t ? NULL : tp_saved_kind_of(v) == TP_SAVED_STORAGE ? tp_saved_storage(v) : NULL;
        bool ok = t || s;
        if (t && t->numel) ok = tpi_load_scalar(t->data, (tp_dtype)t->dtype).kind != TP_SCALAR_NONE;
        tp_release(t);
        tp_storage_release(s);
        return ok;
    }
    bool ok = true, holds = tp_saved_kind_of(v) == TP_SAVED_DICT || tp_saved_kind_of(v) == TP_SAVED_LIST ||
                            tp_saved_kind_of(v) == TP_SAVED_TUPLE;
    for (int64_t i = 0; ok && holds && i < tp_saved_count(v); i++) ok = read_everything(tp_saved_at(v, i), depth + 1);
    return ok;
}

static bool readable(const char *from, const void *memory, size_t bytes) {
    tp_file *file = tp_open_file(
        from, &(tp_file_options){.size = sizeof(tp_file_options), .memory = memory, .memory_bytes = (int64_t)bytes});
    bool ok = file && read_everything(tp_file_value(file), 0);
    tp_close_file(file);
    return ok;
}

static void hostile_files_are_refused(void **state) {
    (void)state;
    FILE *list = fopen(fixture("malicious", "expected.txt"), "r");
    assert_non_null(list);
    char line[200];
    int n = 0, wrong = 0;
    int64_t live = tpi_alloc_live();
    for (; fgets(line, sizeof line, list); n++) {
        char *words = strchr(line, '\t');
        *words++ = 0;
        words[strcspn(words, "\n")] = 0;
        if (readable(fixture("malicious", line), NULL, 0)) {
            wrong++;
            print_error("%s was read\n", line);
        } else if (!strstr(tp_error(), words)) {
            wrong++;
            print_error("%s: expected '%s' in '%s'\n", line, words, tp_error());
        }
        tp_error_clear();
        assert_int_equal(tpi_alloc_live(), live);
    }
    fclose(list);
    assert_int_equal(wrong, 0);
    assert_true(n > 140);
}

/* Any byte of a file changed, and the file cut off anywhere: an error, or a value; and no memory is lost. */
static void any_damage_is_survived(void **state) {
    (void)state;
    static const char *const names[] = {"nested.pt", "plain.pt", "plain.old.pt", "tied.old.pt", "linear.module.pt"};
    int64_t live = tpi_alloc_live();
    for (int i = 0; i < 6; i++) {
        size_t bytes;
        tp_tensor *t = counting(TP_INTS(3), TP_FLOAT32, 0);
        if (i == 5) assert_true(tp_save(in_folder("x.safetensors"), 1, (const char *[]){"a"}, &t));
        tp_release(t);
        char *data =
            read_bytes(i == 5 ? in_folder("x.safetensors") : fixture("fixtures/checkpoints", names[i]), &bytes);
        assert_true(i == 4 || readable("whole", data, bytes));
        for (size_t n = 0; n < bytes; n++) {
            char *part = malloc(n + 1); /* a block of its own, so that sanitizers see what is read behind its end */
            memcpy(part, data, n);
            assert_false(readable("cut", part, n));
            free(part);
            tp_error_clear();
        }
        for (size_t at = 0; at < bytes; at++)
            for (int k = 0; k < 3; k++) {
                static const unsigned char masks[] = {0x01, 0x80, 0xff};
                data[at] ^= (char)masks[k];
                readable("changed", data, bytes);
                tp_error_clear();
                data[at] ^= (char)masks[k];
            }
        free(data);
    }
    assert_int_equal(tpi_alloc_live(), live);
}

typedef struct buffer {
    char data[1 << 16];
    size_t n;
} buffer;
static bool append(void *context, const void *data, size_t bytes) {
    buffer *b = context;
    assert_true(bytes <= sizeof b->data - b->n);
    memcpy(b->data + b->n, data, bytes);
    b->n += bytes;
    return true;
}

/* Damage inside of the pickle itself, whose checksum would else stop it: the pickle alone is changed and the archive
 * made anew. */
static void changed_pickles_are_survived(void **state) {
    (void)state;
    static const char *const names[] = {"nested.pt", "plain.pt", "parameters.pt"};
    int64_t live = tpi_alloc_live(), read = 0;
    unsigned seed = 1;
    static buffer archive;
    tp_sink sink = {append, &archive};
    for (int i = 0; i < 3; i++) {
        tp_file *file = tp_open_file(fixture("fixtures/checkpoints", names[i]), NULL);
        const void *pickle;
        int64_t bytes;
        assert_true(tp_file_pickle(file, &pickle, &bytes));
        char *data = malloc((size_t)bytes);
        for (int round = 0; round < 2000; round++) {
            memcpy(data, pickle, (size_t)bytes);
            for (int k = 0; k < 1 + round % 4; k++) {
                seed = seed * 1664525u + 1013904223u;
                data[(seed >> 8) % (unsigned)bytes] = (char)(seed >> 24);
            }
            tp_storage *none = tp_storage_new(24, cpu);
            archive.n = 0;
            assert_true(tp_write_pt(NULL, &sink, "x", data, bytes, 1, &none));
            tp_storage_release(none);
            read += readable("changed", archive.data, archive.n);
            tp_error_clear();
        }
        free(data);
        tp_close_file(file);
    }
    assert_true(read > 10);
    assert_int_equal(tpi_alloc_live(), live);
}

/* ---- Nothing is lost ---- */

enum { LAYERS = 4, LAYER = 20000 };
static const char *const layer_names[LAYERS] = {"a", "b", "c", "d"};

static bool save_number(const char *name, tp_tensor **layers, float number) {
    for (int i = 0; i < LAYERS; i++)
        for (int64_t k = 0; k < LAYER; k++) ((float *)layers[i]->data)[k] = number;
    return tp_save(in_folder(name), LAYERS, layer_names, layers);
}

static float saved_number(const char *name, tp_tensor **layers) {
    if (!tp_load(in_folder(name), LAYERS, layer_names, layers)) fail_msg("%s", tp_error());
    float number = *(float *)layers[0]->data;
    for (int i = 0; i < LAYERS; i++)
        for (int64_t k = 0; k < LAYER; k++) assert_true(((float *)layers[i]->data)[k] == number);
    return number;
}

/* A process that saves again and again is killed at 200 points: the file is always whole, and later ones come through.
 */
static void a_killed_writer_leaves_the_last_good_file(void **state) {
    (void)state;
    static const char *const files[] = {"k.pt", "k.safetensors", "k.npz"};
    tp_tensor *layers[LAYERS];
    float last[3] = {1, 1, 1};
    int moved = 0;
    unsigned seed = 12345;
    for (int i = 0; i < LAYERS; i++) layers[i] = counting(TP_INTS(LAYER), TP_FLOAT32, 0);
    for (int i = 0; i < 3; i++) assert_true(save_number(files[i], layers, 1));
    for (int round = 0; round < 200; round++) {
        int which = round % 3;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (float number = last[which] + 1;; number++)
                if (!save_number(files[which], layers, number)) _exit(1);
        }
        seed = seed * 1664525u + 1013904223u;
        usleep((seed >> 8) % 12000);
        while (round % 50 == 49 && saved_number(files[which], layers) == last[which])
            usleep(1000); /* sees it come through, however slow the disk is */
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_true(WTERMSIG(status) == SIGKILL);
        float number = saved_number(files[which], layers);
        assert_true(number >= last[which]);
        moved += number > last[which];
        last[which] = number;
    }
    assert_true(moved >= 4);
    for (int i = 0; i < LAYERS; i++) tp_release(layers[i]);
}

/* Writers of one file at once: each file is whole, and nothing is left beside it. */
static void writers_at_once_do_not_mix(void **state) {
    (void)state;
    tp_tensor *layers[LAYERS];
    pid_t children[4];
    for (int i = 0; i < LAYERS; i++) layers[i] = counting(TP_INTS(LAYER), TP_FLOAT32, 0);
    assert_true(save_number("w.pt", layers, 0));
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            for (int k = 0; k < 5; k++)
                if (!save_number("w.pt", layers, (float)(10 * i + k))) _exit(1);
            _exit(0);
        }
    }
    for (int i = 0; i < 20; i++) saved_number("w.pt", layers);
    for (int i = 0; i < 4; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_true((int)saved_number("w.pt", layers) % 10 == 4);
    for (int i = 0; i < LAYERS; i++) tp_release(layers[i]);
}

static void checksums_are_zlibs(void **state) {
    (void)state;
    unsigned char data[700];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37 + i / 7);
    for (size_t n = 0; n < 600; n++)
        for (size_t start = 0; start < 3; start++)
            assert_int_equal(tpi_crc32((uint32_t)n * 77, data + start, n), crc32(n * 77, data + start, (unsigned)n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pytorchs_files_are_read),
        cmocka_unit_test(tied_tensors_share_memory),
        cmocka_unit_test(plain_values_are_what_they_were),
        cmocka_unit_test(objects_are_kept_as_values_where_they_are_let_through),
        cmocka_unit_test(every_dtype_comes_back_in_every_format),
        cmocka_unit_test(shapes_and_odd_names_come_back),
        cmocka_unit_test(trees_come_back_whatever_memory_there_is),
        cmocka_unit_test(what_was_read_can_be_written),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(any_damage_is_survived),
        cmocka_unit_test(changed_pickles_are_survived),
        cmocka_unit_test(a_killed_writer_leaves_the_last_good_file),
        cmocka_unit_test(writers_at_once_do_not_mix),
        cmocka_unit_test(checksums_are_zlibs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
