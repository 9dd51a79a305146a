/* Recurrent layers. Weights are named as PyTorch's: weight_ih_l0, weight_hh_l0, bias_ih_l0, ..., weight_ih_l0_reverse,
 * .... A call takes the input and maybe states (h_0, for an LSTM also c_0), and gives the output and the last states,
 * or the output alone where one result is asked for. */
#include "nn/recurrent.h"
#include "autograd/glue.h"
#include "base/memory.h"
#include "nn/layer.h"
#include "tpi_layers.h"
#include "tpi_ops.h"
#include <math.h>
#include <stdio.h>

/* ---- The modes ---- */
static bool run_lstm(const tpi_recurrent_call *c, tp_tensor **out) {
    tp_tensors states = {(tp_tensor **)(uintptr_t)c->states, 2};
    return c->batch_sizes ? tpo_lstm_data(c->x, c->batch_sizes, states, c->weights, c->bias, c->layers, c->dropout,
                                          c->training, c->bidirectional, out)
                          : tpo_lstm(c->x, states, c->weights, c->bias, c->layers, c->dropout, c->training,
                                     c->bidirectional, c->batch_first, out);
}
#define ONE_STATE(op)                                                                                                 \
    static bool run_##op(const tpi_recurrent_call *c, tp_tensor **out) {                                              \
        return c->batch_sizes ? tpo_##op##_data(c->x, c->batch_sizes, c->states[0], c->weights, c->bias, c->layers,   \
                                                c->dropout, c->training, c->bidirectional, out)                       \
                              : tpo_##op(c->x, c->states[0], c->weights, c->bias, c->layers, c->dropout, c->training, \
                                         c->bidirectional, c->batch_first, out);                                      \
    }
ONE_STATE(gru)
ONE_STATE(rnn_tanh)
ONE_STATE(rnn_relu)

static const tpi_recurrent_mode modes[] = {{"LSTM", 4, 2, run_lstm},
                                           {"GRU", 3, 1, run_gru},
                                           {"RNN_TANH", 1, 1, run_rnn_tanh},
                                           {"RNN_RELU", 1, 1, run_rnn_relu}};

const tpi_recurrent_mode *tpi_find_recurrent_mode(const char *name) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, name)) return &modes[i];
    return tpi_fail(TP_ERR_VALUE, "Unrecognized RNN mode: %s", name);
}

/* ---- Building ---- */

static bool make_weight(tp_module *m, const char *kind, int64_t layer, bool reverse, tp_ints shape, tp_dtype dtype,
                        tp_device device) {
    char name[48];
    snprintf(name, sizeof name, "%s_l%lld%s", kind, (long long)layer, reverse ? "_reverse" : "");
    return tpi_module_make(m, name, TPI_PARAMETER, true, shape, dtype, device, 0);
}

bool tpi_reset_recurrent(tp_module *m) {
    int64_t hidden = tpi_get_int(m, "hidden_size");
    double bound = hidden > 0 ? 1.0 / sqrt((double)hidden) : 0;
    for (int64_t i = 0; i < m->nslots; i++)
        if (!tp_init_uniform(m->slots[i].tensor, -bound, bound)) return false;
    return true;
}

bool tpi_build_recurrent(tp_module *m, const char *mode, int64_t input_size, int64_t hidden_size, int64_t num_layers,
                         bool bias, bool batch_first, double dropout, bool bidirectional, int64_t proj_size,
                         tp_device device, tp_dtype dtype) {
    if (!(dropout >= 0 && dropout <= 1))
        return tpi_refuse(
            TP_ERR_VALUE,
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed");
    if (hidden_size <= 0) return tpi_refuse(TP_ERR_VALUE, "hidden_size must be greater than zero");
    if (num_layers <= 0) return tpi_refuse(TP_ERR_VALUE, "num_layers must be greater than zero");
    if (proj_size < 0)
        return tpi_refuse(TP_ERR_VALUE, "proj_size should be a positive integer or zero to disable projections");
    if (proj_size >= hidden_size) return tpi_refuse(TP_ERR_VALUE, "proj_size has to be smaller than hidden_size");
    const tpi_recurrent_mode *found = tpi_find_recurrent_mode(mode);
    if (!found) return false;
    const struct {
        const char *name;
        tp_value value;
    } attributes[] = {{"mode", tp_value_string(mode)},
                      {"input_size", tp_value_int(input_size)},
                      {"hidden_size", tp_value_int(hidden_size)},
                      {"num_layers", tp_value_int(num_layers)},
                      {"bias", tp_value_bool(bias)},
                      {"batch_first", tp_value_bool(batch_first)},
                      {"dropout", tp_value_double(dropout)},
                      {"bidirectional", tp_value_bool(bidirectional)},
                      {"proj_size", tp_value_int(proj_size)}};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (!tpi_module_set(m, attributes[i].name, attributes[i].value)) return false;
    int64_t gates = tpi_size_times(found->gates, hidden_size), out = proj_size ? proj_size : hidden_size;
    for (int64_t layer = 0; layer < num_layers; layer++)
        for (int reverse = 0; reverse <= bidirectional; reverse++) {
            int64_t width = layer ? tpi_size_times(out, bidirectional ? 2 : 1) : input_size;
            if (!make_weight(m, "weight_ih", layer, reverse, TP_INTS(gates, width), dtype, device) ||
                !make_weight(m, "weight_hh", layer, reverse, TP_INTS(gates, out), dtype, device))
                return false;
            if (bias && !(make_weight(m, "bias_ih", layer, reverse, TP_INTS(gates), dtype, device) &&
                          make_weight(m, "bias_hh", layer, reverse, TP_INTS(gates), dtype, device)))
                return false;
            if (proj_size &&
                !make_weight(m, "weight_hr", layer, reverse, TP_INTS(proj_size, hidden_size), dtype, device))
                return false;
        }
    return tpi_reset_recurrent(m);
}

/* ---- calls ---- */
typedef struct states { /* h and, for an LSTM, c: owned, batched */
    tp_tensor *v[2];
    int n;
} states;

static void drop_states(states *s) {
    for (int i = 0; i < s->n; i++) tp_release(s->v[i]);
}

static tp_tensor *with_batch(tp_tensor *t, bool batched, int64_t dim) {
    return batched ? tpi_retain(t) : tpo_unsqueeze(t, dim);
}

/* Given states, checked, or zeros. */
static bool read_states(int64_t nargs, const tp_value *args, const tp_tensor *input, bool batched, int64_t dim,
                        const int64_t (*shape)[3], int ndim, states *s) {
    for (int i = 0; i < s->n; i++) {
        tp_ints wanted = tp_ints_view(shape[i], ndim);
        bool given = nargs > i + 1 && args[i + 1].kind != TP_K_NONE;
        if (!given)
            s->v[i] = tpo_zeros(wanted, (tp_dtype)input->dtype, tpi_device(input));
        else if (args[i + 1].kind != TP_K_TENSOR || !args[i + 1].as.tensor)
            return tpi_refuse(TP_ERR_TYPE, "a state is a tensor");
        else
            s->v[i] = with_batch(args[i + 1].as.tensor, batched, dim);
        if (!s->v[i]) return false;
        bool fits = s->v[i]->ndim == ndim;
        for (int d = 0; fits && d < ndim; d++) fits = tp_size(s->v[i], d) == shape[i][d];
        if (!fits)
            return tpi_refuse(TP_ERR_RUNTIME, "Expected hidden[%d] size %s, got %s", i, tpi_shape_text(wanted),
                              tpi_shape_text(tp_shape(s->v[i])));
    }
    return true;
}

/* Hands the first `wanted` of n owned results to the caller, without the batch dim that was added, and releases the
 * rest. */
static bool set_results(tp_tensor **out, int n, int64_t wanted, bool batched, const int64_t *dims, tp_value *results) {
    bool fine = true;
    for (int i = 0; i < n; i++) {
        if (!batched && out[i] && i < wanted) {
            tp_tensor *flat = tpo_squeeze_dim(out[i], dims[i]);
            tp_release(out[i]);
            out[i] = flat;
        }
        fine = fine && out[i];
    }
    for (int i = 0; i < n; i++)
        if (fine && i < wanted)
            results[i] = tp_value_tensor(out[i]);
        else
            tp_release(out[i]);
    return fine;
}

static bool check_call(int64_t nargs, const tp_value *args, int64_t nresults, int nstates, int least,
                       const tp_module *m) {
    if (nargs < 1 || nargs > nstates + 1 || args[0].kind != TP_K_TENSOR || !args[0].as.tensor)
        return tpi_refuse(TP_ERR_TYPE, "forward takes a tensor, and maybe %d states", nstates);
    if (nresults != 1 && nresults != nstates + least)
        return tpi_refuse(TP_ERR_TYPE, "forward gives %d results, or the first alone", nstates + least);
    const tp_tensor *x = args[0].as.tensor;
    int64_t size = tpi_get_int(m, "input_size"), last = x->ndim ? tp_size(x, -1) : 0;
    if (last != size)
        return tpi_refuse(TP_ERR_RUNTIME, "input.size(-1) must be equal to input_size. Expected %lld, got %lld",
                          (long long)size, (long long)last);
    return true;
}

tpi_recurrent_call tpi_recurrent_call_of(const tp_module *m, tp_tensor *x, tp_tensors weights) {
    return (tpi_recurrent_call){.x = x,
                                .weights = weights,
                                .bias = tpi_get_bool(m, "bias"),
                                .training = m->training,
                                .bidirectional = tpi_get_bool(m, "bidirectional"),
                                .layers = tpi_get_int(m, "num_layers"),
                                .dropout = tpi_get_float(m, "dropout")};
}

bool tpi_forward_recurrent(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    const tpi_recurrent_mode *mode = tpi_find_recurrent_mode(tpi_get_string(m, "mode"));
    if (!mode) return false;
    bool batch_first = tpi_get_bool(m, "batch_first"), bidirectional = tpi_get_bool(m, "bidirectional");
    states s = {{NULL, NULL}, mode->states};
    if (!check_call(nargs, args, nresults, s.n, 1, m)) return false;
    tp_tensor *input = args[0].as.tensor;
    if (input->ndim != 2 && input->ndim != 3)
        return tpi_refuse(TP_ERR_VALUE, "Expected input to be 2D or 3D, got %dD instead", input->ndim);
    bool batched = input->ndim == 3;
    int64_t layers = tpi_get_int(m, "num_layers"), hidden = tpi_get_int(m, "hidden_size"),
            projected = tpi_get_int(m, "proj_size");
    tp_tensor *x = with_batch(input, batched, batch_first ? 0 : 1), *out[3] = {NULL, NULL, NULL};
    tp_tensors weights = {tpi_malloc(sizeof(tp_tensor *) * (size_t)m->nslots), m->nslots};
    bool fine = x && weights.v;
    if (fine) {
        for (int64_t i = 0; i < m->nslots; i++) weights.v[i] = m->slots[i].tensor;
        int64_t rows = layers * (bidirectional ? 2 : 1), batch = tp_size(x, batch_first ? 0 : 1);
        const int64_t shapes[2][3] = {{rows, batch, projected ? projected : hidden}, {rows, batch, hidden}};
        fine = read_states(nargs, args, x, batched, 1, shapes, 3, &s);
    }
    if (fine) {
        tpi_recurrent_call call = tpi_recurrent_call_of(m, x, weights);
        call.states[0] = s.v[0];
        call.states[1] = s.v[1];
        call.batch_first = batch_first;
        fine = mode->run(&call, out);
    }
    tp_release(x);
    drop_states(&s);
    tpi_mfree(weights.v);
    return fine && set_results(out, s.n + 1, nresults, batched, (const int64_t[]){batch_first ? 0 : 1, 1, 1}, results);
}

/* ---- One step ---- */
typedef bool (*cell_function)(tp_module *m, tp_tensor *x, states s, tp_tensor **out);

static bool forward_cell(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results,
                         int nstates, cell_function step) {
    states s = {{NULL, NULL}, nstates};
    if (!check_call(nargs, args, nresults, s.n, 0, m)) return false;
    tp_tensor *input = args[0].as.tensor, *out[2] = {NULL, NULL};
    if (input->ndim != 1 && input->ndim != 2)
        return tpi_refuse(TP_ERR_VALUE, "Expected input to be 1D or 2D, got %dD instead", input->ndim);
    bool batched = input->ndim == 2;
    tp_tensor *x = with_batch(input, batched, 0);
    int64_t hidden = tpi_get_int(m, "hidden_size");
    const int64_t shapes[2][3] = {{x ? tp_size(x, 0) : 0, hidden}, {x ? tp_size(x, 0) : 0, hidden}};
    bool fine = x && read_states(nargs, args, x, batched, 0, shapes, 2, &s) && step(m, x, s, out);
    tp_release(x);
    drop_states(&s);
    return fine && set_results(out, s.n, nresults, batched, (const int64_t[]){0, 0}, results);
}

#define WEIGHTS(m)                                                                                \
    tpi_get_tensor(m, "weight_ih"), tpi_get_tensor(m, "weight_hh"), tpi_get_tensor(m, "bias_ih"), \
        tpi_get_tensor(m, "bias_hh")

static bool lstm_step(tp_module *m, tp_tensor *x, states s, tp_tensor **out) {
    return tpo_lstm_cell(x, (tp_tensors){s.v, 2}, WEIGHTS(m), out);
}
static bool gru_step(tp_module *m, tp_tensor *x, states s, tp_tensor **out) {
    return (out[0] = tpo_gru_cell(x, s.v[0], WEIGHTS(m)));
}
static bool rnn_step(tp_module *m, tp_tensor *x, states s, tp_tensor **out) {
    const char *kind = tpi_get_string(m, "nonlinearity");
    if (!strcmp(kind, "tanh"))
        out[0] = tpo_rnn_tanh_cell(x, s.v[0], WEIGHTS(m));
    else if (!strcmp(kind, "relu"))
        out[0] = tpo_rnn_relu_cell(x, s.v[0], WEIGHTS(m));
    else
        tpi_fail(TP_ERR_RUNTIME, "Unknown nonlinearity: %s", kind);
    return out[0];
}

bool tpi_forward_lstm_cell(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    return forward_cell(m, nargs, args, nresults, results, 2, lstm_step);
}
bool tpi_forward_gru_cell(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    return forward_cell(m, nargs, args, nresults, results, 1, gru_step);
}
bool tpi_forward_rnn_cell(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    return forward_cell(m, nargs, args, nresults, results, 1, rnn_step);
}
