/* How parameters begin: PyTorch's nn.init. Each function fills a tensor in place, without a tape, from the default
 * generator. */
#include "nn/layer.h"
#include "autograd/glue.h"
#include "dispatch/call.h"
#include "tpi_ops.h"
#include <math.h>
#include <taper/ops.h>

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
    *in = tp_size(t, 1) * window;
    *out = tp_size(t, 0) * window;
    return true;
}
int64_t tpi_fan_in(const tp_tensor *t) {
    int64_t in = 0, out = 0;
    (void)fans(t, &in, &out);
    return in;
}

/* The nonlinearity that Kaiming's initialisation stands on. */
static double leaky_gain(double negative_slope) { return TPI_OPERATOR(leaky_relu)->gain(negative_slope); }

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

/* ---- with a choice of fan and gain ---- */
double tp_init_gain(const char *nonlinearity, double negative_slope) {
    if (!TPI_GIVEN(nonlinearity, "a text")) return NAN;
    const tp_operator *op = tp_find_operator(nonlinearity);
    if (op && op->gain) return op->gain(negative_slope);
    tpi_fail(TP_ERR_VALUE, "tp_init_gain: argument 'nonlinearity': Unsupported nonlinearity %s", nonlinearity);
    return NAN;
}

/* The spread that keeps the variance; NaN and an error. */
static double kaiming_std(const tp_tensor *t, double slope, const char *mode, const char *nonlinearity) {
    int64_t in, out;
    const bool by_out = mode && !strcmp(mode, "fan_out");
    if (mode && !by_out && strcmp(mode, "fan_in")) {
        tpi_fail(TP_ERR_VALUE, "argument 'mode': Mode %s not supported, please use one of ['fan_in', 'fan_out']", mode);
        return NAN;
    }
    const double gain = nonlinearity ? tp_init_gain(nonlinearity, slope) : leaky_gain(slope);
    if (isnan(gain) || !fans(t, &in, &out)) return NAN;
    return gain / sqrt((double)(by_out ? out : in));
}
bool tp_init_kaiming_uniform_for(tp_tensor *t, double negative_slope, const char *mode, const char *nonlinearity) {
    if (!tpi_is_tensor(t, "t")) return false;
    if (t->numel == 0) return true;
    const double std = kaiming_std(t, negative_slope, mode, nonlinearity);
    return !isnan(std) && tp_init_uniform(t, -sqrt(3.0) * std, sqrt(3.0) * std);
}
bool tp_init_kaiming_normal_for(tp_tensor *t, double negative_slope, const char *mode, const char *nonlinearity) {
    if (!tpi_is_tensor(t, "t")) return false;
    if (t->numel == 0) return true;
    const double std = kaiming_std(t, negative_slope, mode, nonlinearity);
    return !isnan(std) && tp_init_normal(t, 0, std);
}

/* ---- truncated ---- */
static double below(double x) { return (1 + erf(x / M_SQRT2)) / 2; }

typedef struct truncation {
    double mean, std, low, high, peak;
    bool by_density; /* little falls inside: uniform draws, kept by the density's height */
} truncation;
static bool draw_truncated(tp_tensor *t, const truncation *c) {
    return (c->by_density ? tp_uniform_(t, .from = c->low, .to = c->high)
                          : tp_normal_(t, .mean = c->mean, .std = c->std)) != NULL;
}
static tp_tensor *outside(tp_tensor *drawn, const truncation *c) {
    if (!c->by_density) {
        const double low = tp_item(tp_full(tp_ints_view(NULL, 0), c->low, .dtype = (tp_dtype)drawn->dtype));
        const double high = tp_item(tp_full(tp_ints_view(NULL, 0), c->high, .dtype = (tp_dtype)drawn->dtype));
        return tp_logical_or(tp_lt(drawn, low), tp_gt(drawn, high));
    }
    tp_tensor *height = tp_sub(tp_mul(tp_square(tp_div(tp_sub(drawn, c->mean), c->std)), -0.5), c->peak);
    tp_tensor *chance = tp_empty_like(drawn);
    tp_uniform_(chance);
    return tp_gt(tp_log(chance), height);
}

bool tp_init_trunc_normal(tp_tensor *t, double mean, double std, double low, double high) {
    if (!tpi_is_tensor(t, "t")) return false;
    if (!(std > 0) || !(low < high))
        return tpi_refuse(TP_ERR_VALUE, "tp_init_trunc_normal: expected std > 0 and low < high, got %g, %g and %g", std,
                          low, high);
    if (tpi_device(t).type == TP_META) return true;
    const double nearest = fmax(low, fmin(mean, high));
    const truncation c = {mean,
                          std,
                          low,
                          high,
                          -0.5 * pow((nearest - mean) / std, 2),
                          below((high - mean) / std) - below((low - mean) / std) <= 0.3};
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE {
            fine = draw_truncated(t, &c);
            tp_tensor *again = fine ? outside(t, &c) : NULL;
            while (again && tp_item(tp_any(again)) != 0) {
                tp_tensor *drawn = tp_empty_like(t);
                if (!drawn || !draw_truncated(drawn, &c) || !tp_copy_(t, tp_where(again, drawn, t))) break;
                again = tp_logical_and(again, outside(drawn, &c));
            }
            fine = fine && again && tp_ok();
        }
    return fine;
}

/* ---- matrices and kernels ---- */
bool tp_init_orthogonal(tp_tensor *t, double gain) {
    if (!tpi_is_tensor(t, "t")) return false;
    if (t->ndim < 2) return tpi_refuse(TP_ERR_VALUE, "Only tensors with 2 or more dimensions are supported");
    if (t->numel == 0) return true;
    const int64_t rows = t->shape[0], columns = t->numel / rows;
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE {
            tp_tensor *flat = tp_empty(TP_INTS(rows, columns), .dtype = (tp_dtype)t->dtype, .device = tpi_device(t));
            tp_normal_(flat);
            tp_linalg_qr_result factors = tp_linalg_qr(rows < columns ? tp_t(flat) : flat);
            tp_tensor *q = tp_mul(factors.Q, tp_sign(tp_diag(factors.R)));
            if (rows < columns) q = tp_t(q);
            fine = tp_copy_(t, tp_reshape(tp_mul(q, gain), tpi_shape(t))) != NULL;
        }
    return fine;
}
bool tp_init_eye(tp_tensor *t) {
    if (!tpi_is_tensor(t, "t")) return false;
    if (t->ndim != 2) return tpi_refuse(TP_ERR_VALUE, "Only tensors with 2 dimensions are supported");
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE
            fine = tp_zero_(t) && tp_fill_(tp_diagonal(t), 1);
    return fine;
}
bool tp_init_dirac(tp_tensor *t, int64_t groups) {
    if (!tpi_is_tensor(t, "t")) return false;
    if (t->ndim < 3 || t->ndim > 5)
        return tpi_refuse(TP_ERR_VALUE, "Only tensors with 3, 4, or 5 dimensions are supported");
    if (groups < 1 || t->shape[0] % groups)
        return tpi_refuse(TP_ERR_VALUE, "tp_init_dirac: argument 'groups': dim 0 must be divisible by groups");
    const int64_t each = t->shape[0] / groups, most = each < t->shape[1] ? each : t->shape[1];
    bool fine = false;
    TP_NO_GRAD
        TP_SCOPE {
            tp_tensor *centre = t;
            tp_zero_(t);
            for (int d = t->ndim - 1; d >= 2; d--) centre = tp_select(centre, d, t->shape[d] / 2);
            for (int64_t g = 0; most && g < groups; g++)
                tp_fill_(tp_diagonal(tp_narrow(tp_narrow(centre, 0, g * each, most), 1, 0, most)), 1);
            fine = tp_ok();
        }
    return fine;
}
bool tp_init_sparse(tp_tensor *t, double sparsity, double std) {
    if (!tpi_is_tensor(t, "t")) return false;
    if (t->ndim != 2) return tpi_refuse(TP_ERR_VALUE, "Only tensors with 2 dimensions are supported");
    if (!(sparsity >= 0 && sparsity <= 1))
        return tpi_refuse(TP_ERR_VALUE, "tp_init_sparse: argument 'sparsity': expected 0 to 1, got %g", sparsity);
    const int64_t zeros = (int64_t)ceil(sparsity * (double)t->shape[0]);
    bool fine = tp_init_normal(t, 0, std);
    TP_NO_GRAD
        for (int64_t column = 0; fine && column < t->shape[1]; column++)
            TP_SCOPE {
                tp_tensor *rows = tp_narrow(tp_randperm(t->shape[0]), 0, 0, zeros);
                fine = tp_index_fill_(tp_select(t, 1, column), 0, tp_to(rows, .device = tpi_device(t)), 0) != NULL;
            }
    return fine;
}
