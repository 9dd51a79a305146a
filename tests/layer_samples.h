/* The samples of tables/layers: constructors as C calls, inputs as texts that both the C and the Python test turn into
 * the same seeded tensors. */
#ifndef TAPER_LAYER_SAMPLES_H
#define TAPER_LAYER_SAMPLES_H
#include <taper/taper.h>

typedef struct layer_sample {
    const char *layer;
    int number;       /* among the layer's samples */
    const char *text; /* as in the table */
    bool eval;
    tp_module *(*make)(void);
    int ninputs;
    const char *inputs[9]; /* "t(2, 3)", "ints(3, 0, 4)" */
} layer_sample;
extern const layer_sample layer_samples[]; /* written by opgen */
extern const int layer_sample_count;

/* A tensor from the default generator: t normal, pos in [0.2, 2), prob in [0.1, 0.9), ints(sizes..., low, high). */
tp_tensor *layer_tensor(const char *text);
#endif
