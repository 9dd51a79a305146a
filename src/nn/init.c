/* How parameters begin: PyTorch's nn.init. Each function fills a tensor in place, without a tape, from the default
 * generator. */
#include "nn/layer.h"
#include "autograd/glue.h"
#include "tpi_ops.h"
#include <math.h>

bool tp_init_uniform(tp_tensor *t, double low, double high) {
    bool fine = false;
    TP_NO_GRAD
        fine = tpi_is_tensor(t, "t") && tpo_uniform_(t, low, high, NULL);
    return fine;
}
bool tp_init_normal(tp_tensor *t, double mean, double std) {
    bool fine = false;
    TP_NO_GRAD
        fine = tpi_is_tensor(t, "t") && tpo_normal_(t, mean, std, NULL);
    return fine;
}
bool tp_init_constant(tp_tensor *t, double value) {
    bool fine = false;
    TP_NO_GRAD
        fine = tpi_is_tensor(t, "t") && tpo_fill_(t, tp_float(value));
    return fine;
}
bool tp_init_zeros(tp_tensor *t) { return tp_init_constant(t, 0); }
bool tp_init_ones(tp_tensor *t) { return tp_init_constant(t, 1); }

bool tp_init_zero_row(tp_tensor *t, int64_t row) {
    if (!tpi_is_tensor(t, "t") || row == TP_NONE) return t != NULL;
    bool fine = false;
    TP_NO_GRAD {
        tp_tensor *one = tpo_select(t, 0, row);
        fine = one && tpo_zero_(one);
        tp_release(one);
    }
    return fine;
}

/* How many inputs and outputs an element of a weight (out, in, window...) joins. */
static bool fans(const tp_tensor *t, int64_t *in, int64_t *out) {
    if (!t) return false;
    if (t->ndim < 2)
        return tpi_refuse(TP_ERR_VALUE,
                          "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    int64_t window = 1;
    for (int d = 2; d < t->ndim; d++) window *= tp_size(t, d);
    *in = tp_size(t, 1) * window, *out = tp_size(t, 0) * window;
    return true;
}
int64_t tpi_fan_in(const tp_tensor *t) {
    int64_t in = 0, out = 0;
    (void)fans(t, &in, &out);
    return in;
}

static double leaky_gain(double negative_slope) { return sqrt(2.0 / (1 + negative_slope * negative_slope)); }

bool tp_init_kaiming_uniform(tp_tensor *t, double negative_slope) {
    int64_t in, out;
    if (t && t->numel == 0) return true;
    if (!fans(t, &in, &out)) return false;
    double bound = sqrt(3.0) * leaky_gain(negative_slope) / sqrt((double)in);
    return tp_init_uniform(t, -bound, bound);
}
bool tp_init_kaiming_normal(tp_tensor *t, double negative_slope) {
    int64_t in, out;
    if (t && t->numel == 0) return true;
    return fans(t, &in, &out) && tp_init_normal(t, 0, leaky_gain(negative_slope) / sqrt((double)in));
}
bool tp_init_xavier_uniform(tp_tensor *t, double gain) {
    int64_t in, out;
    if (!fans(t, &in, &out)) return false;
    double bound = sqrt(3.0) * gain * sqrt(2.0 / (double)(in + out));
    return tp_init_uniform(t, -bound, bound);
}
bool tp_init_xavier_normal(tp_tensor *t, double gain) {
    int64_t in, out;
    return fans(t, &in, &out) && tp_init_normal(t, 0, gain * sqrt(2.0 / (double)(in + out)));
}
