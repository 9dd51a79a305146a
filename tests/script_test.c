/* TorchScript files: those of tests/scripts, which PyTorch made, give what they gave there, with their gradients; they
 * can be saved again; and files that are cut or damaged are errors and no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
#include "io/checkpoint/zip.h"
#include <unistd.h>

static const char *folder(void) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/scripts", getenv("TAPER_SOURCE_DIR"));
    return path;
}

static const char *path_of(const char *name, const char *ending) {
    static char path[2][4200];
    static int next;
    next = !next;
    snprintf(path[next], sizeof path[next], "%s/%s%s", folder(), name, ending);
    return path[next];
}

static void assert_close(tp_tensor *got, tp_tensor *wanted) {
    assert_non_null(got);
    assert_int_equal(tp_dtype_of(got), tp_dtype_of(wanted));
    assert_int_equal(tp_numel(got), tp_numel(wanted));
    tp_tensor *far = tp_abs(tp_sub(tp_to(tp_detach(got), .dtype = TP_FLOAT64), tp_to(wanted, .dtype = TP_FLOAT64)));
    assert_true(tp_item(tp_max(far)) < 2e-5);
}

/* The tensors in a value, in order. */
static void collect(tp_ivalue *v, tp_tensor **out, int *n) {
    if (tp_ivalue_kind_of(v) == TP_IVALUE_TENSOR) out[(*n)++] = tp_ivalue_tensor(v);
    for (int64_t i = 0; i < tp_ivalue_count(v); i++) {
        tp_ivalue *item = tp_ivalue_at(v, i);
        collect(item, out, n);
        tp_ivalue_release(item);
    }
}

/* Parameters in the order of a module's parameters(): its own, then those of its children. */
static void parameters(tp_ivalue *module, tp_tensor **out, int *n) {
    for (int children = 0; children < 2; children++)
        for (int64_t i = 0; i < tp_ivalue_attributes(module); i++) {
            tp_ivalue *v = tp_ivalue_get(module, tp_ivalue_attribute(module, i));
            if (children && tp_ivalue_is_module(v)) parameters(v, out, n);
            if (!children && tp_ivalue_attribute_kind(module, i) == TP_ATTRIBUTE_PARAMETER &&
                tp_ivalue_kind_of(v) == TP_IVALUE_TENSOR)
                out[(*n)++] = tp_ivalue_tensor(v);
            tp_ivalue_release(v);
        }
}

static void check_gradients(tp_ivalue *net, tp_tensor *const *given, int n, const tp_saved *grads) {
    tp_tensor *all[64], *loss = NULL;
    int count = 0;
    parameters(net, all, &count);
    assert_int_equal(count, tp_saved_count(grads));
    for (int i = 0; i < n; i++) {
        if (!tp_requires_grad(given[i])) continue;
        tp_tensor *part = tp_sum(tp_mul(given[i], given[i]));
        loss = loss ? tp_add(loss, part) : part;
    }
    if (!count) return;
    assert_true(tp_backward(loss));
    for (int i = 0; i < count; i++) assert_close(tp_grad(all[i]), tp_saved_tensor(tp_saved_at(grads, i)));
}

static void check_file(const char *path, const char *name) {
    TP_SCOPE {
        tp_file *io = tp_open_file(path_of(name, ".io.pt"), NULL);
        const tp_saved *value = tp_file_value(io), *inputs = tp_saved_get(value, "inputs");
        tp_ivalue *net = tp_script_load(path), *args[4];
        assert_non_null(net);
        int64_t n = tp_saved_count(inputs);
        for (int64_t i = 0; i < n; i++) args[i] = tp_ivalue_of_tensor(tp_saved_tensor(tp_saved_at(inputs, i)));
        tp_ivalue *out = tp_script_call(net, "forward", n, args, 0, NULL, NULL);
        assert_string_equal(tp_error() ? tp_error() : "", "");
        const tp_saved *outputs = tp_saved_get(value, "outputs");
        tp_tensor *given[16];
        int count = 0;
        collect(out, given, &count);
        assert_int_equal(count, tp_saved_count(outputs));
        for (int i = 0; i < count; i++) assert_close(given[i], tp_saved_tensor(tp_saved_at(outputs, i)));
        check_gradients(net, given, count, tp_saved_get(value, "grads"));
        for (int64_t i = 0; i < n; i++) tp_ivalue_release(args[i]);
        tp_ivalue_release(out);
        tp_ivalue_release(net);
        tp_close_file(io);
        assert_true(tp_ok());
    }
}

static const char *const names[] = {
    "perceptron", "convolutions", "convolutions_train", "words", "attention", "attention_frozen",
    "control",    "methods",      "builtins",           "values"};

static void files_give_what_pytorch_gave(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_file(path_of(names[i], ".pt"), names[i]);
}

static void saved_again_they_are_the_same(void **state) {
    (void)state;
    char path[] = "script_test_saved.pt";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tp_ivalue *net = tp_script_load(path_of(names[i], ".pt"));
        assert_true(tp_script_save(net, path));
        tp_ivalue_release(net);
        check_file(path, names[i]);
    }
    unlink(path);
}

static void attributes_and_methods(void **state) {
    (void)state;
    TP_SCOPE {
        tp_ivalue *net = tp_script_load(path_of("methods", ".pt"));
        tp_tensor *x = tp_ones(TP_INTS(2, 3));
        for (int i = 0; i < 3; i++) assert_non_null(tp_script_forward(net, TP_LIST(x)));
        tp_ivalue *calls = tp_ivalue_get(net, "calls"), *steps = tp_ivalue_get(net, "steps");
        assert_int_equal(tp_scalar_to_int(tp_ivalue_number(calls)), 3);
        assert_int_equal(tp_item_int(tp_ivalue_tensor(steps)), 3);
        tp_ivalue *given[2] = {tp_ivalue_of_tensor(x), tp_ivalue_of_number(tp_int(2))};
        tp_ivalue *scaled = tp_script_call(net, "scaled", 1, given, 1, (const char *[]){"k"}, given + 1);
        assert_close(tp_ivalue_tensor(scaled), tp_detach(tp_script_forward(net, TP_LIST(x))));
        tp_ivalue *five = tp_ivalue_of_number(tp_int(5));
        assert_true(tp_ivalue_set(net, "calls", five));
        assert_true(tp_script_train(net, false));
        tp_ivalue *training = tp_ivalue_get(net, "training");
        assert_false(tp_scalar_to_bool(tp_ivalue_number(training)));
        assert_non_null(strstr(tp_ivalue_code(net, "scaled"), "torch.matmul"));
        assert_string_equal(strrchr(tp_ivalue_class(net), '.'), ".Methods");
        tp_ivalue *all[] = {net, calls, steps, given[0], given[1], scaled, five, training};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) tp_ivalue_release(all[i]);
        assert_true(tp_ok());
    }
}

static void expect_error(const char *part) {
    assert_false(tp_ok());
    if (!strstr(tp_error(), part)) fail_msg("'%s' is not in: %s", part, tp_error());
    tp_error_clear();
}

static void errors_name_the_function_and_the_line(void **state) {
    (void)state;
    TP_SCOPE {
        tp_ivalue *net = tp_script_load(path_of("perceptron", ".pt"));
        assert_null(tp_script_forward(net, TP_LIST(tp_ones(TP_INTS(2, 9)))));
        assert_non_null(strstr(tp_error(), "Linear.forward"));
        expect_error(", line ");
        assert_null(tp_script_call(net, "backward", 0, NULL, 0, NULL, NULL));
        expect_error("no method 'backward'");
        assert_null(tp_script_forward(net, tp_list(0, NULL)));
        expect_error("missing value for argument 'x'");
        tp_ivalue *text = tp_ivalue_of_text("x");
        assert_null(tp_script_call(net, "forward", 1, &text, 0, NULL, NULL));
        expect_error("Expected a value of type 'Tensor' for argument 'x'");
        assert_null(tp_ivalue_get(net, "nothing"));
        expect_error("no attribute 'nothing'");
        tp_ivalue_release(text);
        tp_ivalue_release(net);
        assert_null(tp_script_load(path_of("perceptron", ".io.pt")));
        expect_error("no TorchScript program");
        assert_false(tp_script_is(path_of("perceptron", ".io.pt")));
        assert_true(tp_script_is(path_of("perceptron", ".pt")));
        assert_null(tp_open_file(path_of("perceptron", ".pt"), NULL));
        expect_error("tp_script_load");
    }
}

/* Runs what is left of a program; whatever happens, it is an error or a value. */
static void try_bytes(const char *bytes, int64_t n) {
    TP_SCOPE {
        tp_ivalue *net = tp_script_load_memory("damaged", bytes, n);
        if (net) tp_script_forward(net, TP_LIST(tp_ones(TP_INTS(2, 4))));
        tp_ivalue_release(net);
        tp_error_clear();
    }
}

static char *read_all(const char *path, int64_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)*n);
    assert_int_equal(fread(bytes, 1, (size_t)*n, f), *n);
    fclose(f);
    return bytes;
}

static void damaged_files_are_errors(void **state) {
    (void)state;
    for (size_t k = 0; k < 7; k += 2) {
        int64_t n;
        char *bytes = read_all(path_of(names[k], ".pt"), &n);
        for (int64_t cut = 0; cut < n; cut += 97) try_bytes(bytes, cut);
        uint32_t seed = 1;
        for (int i = 0; i < 400; i++) {
            seed = seed * 1664525u + 1013904223u;
            int64_t at = (int64_t)(seed % (uint32_t)n);
            char old = bytes[at];
            bytes[at] = (char)(old ^ (1 << (seed >> 29)));
            try_bytes(bytes, n);
            bytes[at] = old;
        }
        free(bytes);
    }
}

/* The same with right checksums: bytes of the code and of the pickles are changed inside of the archive. */
typedef struct member {
    const char *name;
    char *bytes;
    size_t n;
} member;

static int read_members(tpi_zip *zip, member *out) {
    for (int64_t i = 0; i < zip->n; i++) {
        const tpi_zip_member *m = &zip->members[i];
        out[i] = (member){m->name, malloc((size_t)m->bytes + 1), (size_t)m->bytes};
        tpi_zip_stream *stream = tpi_zip_begin(zip, m);
        assert_true(tpi_zip_read(stream, out[i].bytes, out[i].n));
        assert_true(tpi_zip_end(stream));
    }
    return (int)zip->n;
}

static bool is_program(const member *m) {
    const char *dot = strrchr(m->name, '.');
    return m->n && dot && (strcmp(dot, ".py") == 0 || strcmp(dot, ".pkl") == 0);
}

static void write_members(const char *path, const member *m, int n) {
    tpi_zip_writer *w = tpi_zip_create(path, NULL, 1);
    for (int i = 0; i < n; i++) assert_true(tpi_zip_add(w, m[i].name, NULL, 1, &(tpi_zip_piece){m[i].bytes, m[i].n}));
    assert_true(tpi_zip_commit(w));
}

static void changed_programs_are_errors(void **state) {
    (void)state;
    static const char marks[] = "()[]{},.:= -0129\n\"tcqRbNe}";
    uint32_t seed = 7;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        tpi_source source;
        tpi_zip zip;
        member all[64];
        assert_true(tpi_source_open(&source, path_of(names[k], ".pt")));
        assert_true(tpi_zip_open(&zip, source));
        int n = read_members(&zip, all);
        for (int i = 0; i < 150; i++) {
            seed = seed * 1664525u + 1013904223u;
            member *m = &all[(seed >> 8) % (uint32_t)n];
            if (!is_program(m)) continue;
            seed = seed * 1664525u + 1013904223u;
            size_t at = (seed >> 4) % m->n;
            char old = m->bytes[at];
            m->bytes[at] = marks[(seed >> 24) % (sizeof marks - 1)];
            write_members("script_test_changed.pt", all, n);
            int64_t bytes;
            char *data = read_all("script_test_changed.pt", &bytes);
            try_bytes(data, bytes);
            free(data);
            m->bytes[at] = old;
        }
        for (int i = 0; i < n; i++) free(all[i].bytes);
        tpi_zip_close(&zip);
    }
    unlink("script_test_changed.pt");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_give_what_pytorch_gave), cmocka_unit_test(saved_again_they_are_the_same),
        cmocka_unit_test(attributes_and_methods),       cmocka_unit_test(errors_name_the_function_and_the_line),
        cmocka_unit_test(damaged_files_are_errors),     cmocka_unit_test(changed_programs_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
