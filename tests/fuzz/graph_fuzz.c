/* Graphs in files: the input is the pickle of one, with two storages for its tensors. What loads is run on small
 * inputs, at its own sizes and at others. */
#include "fuzz.h"
#include <stdlib.h>

enum { MOST_INPUTS = 8, MOST_OUTPUTS = 64, MOST_NUMBERS = 1 << 12 };

static tp_tensor *make_input(const tp_compiled *g, int64_t i, int64_t more) {
    tp_dtype dtype;
    tp_ints shape;
    int64_t sizes[TP_MAX_DIMS], numel = 1;
    if (!tp_compiled_input(g, i, &dtype, &shape)) return NULL;
    for (int64_t d = 0; d < shape.n; d++) {
        int64_t least, most;
        if (!tp_compiled_input_dim(g, i, d, &least, &most)) return NULL;
        sizes[d] = least != most && more ? shape.v[d] + more : shape.v[d];
        if (sizes[d] < 0 || sizes[d] > MOST_NUMBERS || (numel *= sizes[d]) > MOST_NUMBERS) return NULL;
    }
    return tp_ones(tp_ints_view(sizes, shape.n), .dtype = dtype);
}

static void run_graph(tp_compiled *g, int64_t more) {
    tp_tensor *inputs[MOST_INPUTS], *outputs[MOST_OUTPUTS] = {0};
    int64_t n = tp_compiled_inputs(g), outs = tp_compiled_outputs(g);
    if (n > MOST_INPUTS || outs > MOST_OUTPUTS) return;
    TP_SCOPE {
        bool ok = true;
        for (int64_t i = 0; i < n && ok; i++) ok = (inputs[i] = make_input(g, i, more)) != NULL;
        if (ok && tp_compiled_run(g, (tp_tensors){inputs, n}, outputs))
            for (int64_t i = 0; i < outs; i++) fuzz_touch(outputs[i]);
    }
    tp_error_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    size_t bytes;
    uint8_t *archive = fuzz_archive(data, n, &bytes);
    tp_compiled *g = tp_compiled_load(fuzz_path(archive, bytes));
    free(archive);
    if (g) {
        run_graph(g, 0);
        run_graph(g, 1);
        run_graph(g, 0);
    }
    tp_compiled_release(g);
    return 0;
}
