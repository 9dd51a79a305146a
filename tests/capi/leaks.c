/* TAPER_DEBUG=1: what was not released is named with the function that made it and the place of the call; a second
 * release and a use after the release are errors for every kind of object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>

static char said[8192];
static void add(const char *line, void *context) {
    (void)context;
    strcat(said, line);
    strcat(said, "\n");
}
static void expect(bool right, const char *what) {
    if (right) return;
    printf("%s\n%s\nerror: %s\n", what, said, tp_error() ? tp_error() : "none");
    exit(1);
}
static void expect_error(const char *what, const char *words) {
    expect(!tp_ok() && strstr(tp_error(), words), what);
    tp_error_clear();
}
__attribute__((noinline)) static void lose_two(void) {
    volatile int two = 2;                                 /* or the compiler makes two calls of the loop's one */
    for (int i = 0; i < two; i++) tp_ones(TP_INTS(2, 3)); /* LINE */
}

static void states_and_saved_values(void) {
    tp_module *net = tp_nn_linear(2, 2);
    tp_state all = tp_module_parameters(net);
    tp_state_free(all);
    expect(tp_ok() && !tp_adam(tp_list(all.n, all.tensors)), "an optimiser of a state that is gone");
    expect_error("an optimiser of a state that is gone", "released before");
    tp_state_free(all);
    expect_error("a state's second end",
                 "tp_state_free: argument 'named': expected a state, got one that was released");
    tp_file *file = tp_new_file();
    tp_put_number(file, NULL, "n", tp_int(3));
    const tp_saved *value = tp_file_value(file), *three = tp_saved_get(value, "n");
    tp_close_file(file);
    expect(tp_ok() && tp_saved_kind_of(three) == TP_SAVED_NOTHING, "a value of a file that was closed");
    expect_error("a value of a file that was closed",
                 "tp_saved_kind_of: argument 'v': expected a value of an open file");
    expect(!tp_saved_get(value, "n"), "a value of a file that was closed");
    expect_error("a value of a file that was closed", "tp_saved_get: argument 'v': expected a value of an open file");
    tp_module_release(net);
}

#define EXPECT_NAMED(name, ...)                                                                 \
    do {                                                                                        \
        (void)(__VA_ARGS__);                                                                    \
        expect_error("options without a size",                                                  \
                     name ": argument 'options': expected a struct that begins with its size"); \
    } while (0)

/* The shared library knows who called. */
static void options_without_a_size(void) {
    tp_tensor *x = tp_ones(TP_INTS(2));
    const tp_sum_options none = {.size = 0};
    tp_release(tp_sum_with(x, &none));
    expect_error("options without a size", "tp_sum: argument 'options': expected a struct that begins with its size");
    tp_release(x);

    tp_tensor *pixels = tp_zeros(TP_INTS(3, 2, 2), .dtype = TP_UINT8), *sound = tp_zeros(TP_INTS(1, 8));
    const tp_decode_options decode = {.size = 0};
    const tp_encode_options encode = {.size = 0};
    const tp_wav_options wav = {.size = 0};
    const tp_file_options file = {.size = 0};
    const tp_profile_options profile = {.size = 0};
    const tp_loader_options loader = {.size = 0};
    const tp_scaler_options scaler = {.size = 0};
    int64_t rate = 0;
    EXPECT_NAMED("tp_open_file", tp_open_file("missing.pt", &file));
    EXPECT_NAMED("tp_profile_start", tp_profile_start(&profile));
    EXPECT_NAMED("decode_image", tp_decode_image_with(pixels, &decode));
    EXPECT_NAMED("read_image", tp_read_image_with("missing.png", &decode));
    EXPECT_NAMED("encode_png", tp_encode_png_with(pixels, &encode));
    EXPECT_NAMED("write_image", tp_write_image_with("never.png", pixels, &encode));
    EXPECT_NAMED("read_wav", tp_read_wav_with("missing.wav", &rate, &wav));
    EXPECT_NAMED("encode_wav", tp_encode_wav_with(sound, 8000, &wav));
    EXPECT_NAMED("write_wav", tp_write_wav_with("never.wav", sound, 8000, &wav));
    EXPECT_NAMED("tp_loader_new", tp_loader_new_with(NULL, &loader));
    EXPECT_NAMED("tp_scaler_new", tp_scaler_new_with(&scaler));
    tp_release(pixels);
    tp_release(sound);
}

/* Messages that functions inside of the library leave begin with the function that the program called. */
static void messages_name_the_function(void) {
    tp_module *net = tp_nn_linear(2, 2);
    tp_state all = tp_module_parameters(net);
    tp_optimiser *sgd = tp_sgd(tp_list(all.n, all.tensors));
    tp_load("missing.pt", all.n, all.names, all.tensors);
    expect_error("a file that is missing", "tp_load: could not open 'missing.pt'");
    tp_optimiser_set_option(sgd, 0, "rate", 1);
    expect_error("an option that is missing", "tp_optimiser_set_option: SGD has no option 'rate'");
    tp_dataset_mnist("missing", "missing");
    expect_error("data that is missing", "tp_dataset_mnist: could not open 'missing': No such file or directory");
    tp_call("no_such_operator", all.tensors[0]);
    expect_error("an operator that is missing", "tp_call: no operator is called 'no_such_operator'");
    tp_error_leave(TP_ERR_VALUE, "of the program's own");
    expect(!strcmp(tp_error(), "of the program's own"), "an error of the program's own");
    tp_error_clear();
    tp_optimiser_free(sgd);
    tp_state_free(all);
    tp_module_release(net);
}

static void kinds(void) {
    tp_tensor *rows = tp_zeros(TP_INTS(4, 2));
    tp_dataset *d = tp_dataset_of_tensors(TP_LIST(rows));
    tp_loader *l = tp_loader_new(d, .batch = 2);
    tp_sampler *s = tp_sampler_sequential(4);
    tp_generator *g = tp_generator_new(1);
    tp_file *f = tp_new_file();
    tp_loader_free(l);
    tp_dataset_release(d);
    tp_sampler_free(s);
    tp_generator_free(g);
    tp_close_file(f);
    tp_release(rows);
    expect(tp_ok(), "ends of all kinds");
    expect(!tp_randn(TP_INTS(2), .generator = g), "random numbers of a generator after its end");
    expect_error("random numbers of a generator after its end",
                 "randn: argument 'generator': expected a generator, got one that was released before");
    tp_loader_free(l);
    expect_error("a loader's second end", "tp_loader_free: argument 'loader': expected a loader, got one that was");
    expect(!tp_loader_next(l), "a loader after its end");
    expect_error("a loader after its end", "released before");
    tp_dataset_release(d);
    expect_error("a dataset's second end", "expected a dataset, got one that was released before");
    expect(!tp_loader_new(d), "a loader of a dataset that is gone");
    expect_error("a loader of a dataset that is gone", "released before");
    tp_sampler_free(s);
    expect_error("a sampler's second end", "expected a sampler, got one that was released before");
    expect(tp_sampler_count(s) == -1, "a sampler after its end");
    expect_error("a sampler after its end", "released before");
    tp_generator_free(g);
    expect_error("a generator's second end", "expected a generator, got one that was released before");
    tp_close_file(f);
    expect_error("a file's second end", "expected a file, got one that was released before");
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) { /* leaves them to the report at the end */
        lose_two();
        return 0;
    }
    if (tp_debug_mark() < 0) return tp_debug_live(0, add, NULL) == -1 ? 2 : 1; /* without TAPER_DEBUG */
    int64_t before = tp_debug_mark();
    kinds();
    states_and_saved_values();
    options_without_a_size();
    messages_name_the_function();
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(tp_ones(TP_INTS(3)), true);
        tp_backward(tp_sum(tp_mul(x, x)));
    }
    expect(tp_debug_live(before, add, NULL) == 0 && !*said, "what was released is not alive");
    tp_module *net = tp_nn_linear(2, 2);
    lose_two();
    expect(tp_debug_live(before, add, NULL) == 5, "two tensors, a module and its two parameters");
    expect(strstr(said, "2 tensors made by tp_ones, called from "), "where two tensors were made");
    expect(strstr(said, "1 module made by tp_nn_linear, called from "), "where a module was made");
    expect(strstr(said, "2 tensors made by tp_nn_linear, called from "), "where its parameters were made");
    tp_module_release(net);
    expect(tp_debug_live(before, NULL, NULL) == 2, "the module is gone");
    return 0;
}
