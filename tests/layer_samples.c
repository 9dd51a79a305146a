/* Inputs of the layers' samples: see layer_samples.h. tests/python/test_layers.py makes the same tensors in Python. */
#include "layer_samples.h"
#include <stdlib.h>
#include <string.h>

tp_tensor *layer_tensor(const char *text) {
    int64_t v[10];
    int n = 0;
    for (const char *p = strchr(text, '('); *p && *p != ')';) {
        char *end;
        p += strcspn(p, "-0123456789)");
        if (*p == ')') break;
        v[n++] = strtoll(p, &end, 10);
        p = end;
    }
    if (!strncmp(text, "ints(", 5)) return tp_randint_low(v[n - 2], v[n - 1], tp_ints_view(v, n - 2));
    tp_ints shape = tp_ints_view(v, n);
    if (!strncmp(text, "pos(", 4)) return tp_add(tp_mul(tp_rand(shape), 1.8), 0.2);
    if (!strncmp(text, "prob(", 5)) return tp_add(tp_mul(tp_rand(shape), 0.8), 0.1);
    return tp_randn(shape);
}
