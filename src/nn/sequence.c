/* Sequences of different lengths, padded and packed. Both ways are one gather over rows: a packed sequence holds row b
 * of step t at offset(t) + b, for the sequences that are longer than t. */
#include "autograd/glue.h"
#include "base/memory.h"
#include "nn/layer.h"
#include "nn/recurrent.h"
#include "tensor/check_arguments.h"
#include <taper/ops.h>
#include <taper/sequence.h>

static const tp_packed failed = {NULL, NULL, NULL, NULL};

/* What leaves a function whose own scope is the innermost. */
static tp_packed keep(tp_packed p) {
    tp_tensor **parts[] = {&p.data, &p.batch_sizes, &p.sorted_indices, &p.unsorted_indices};
    for (int i = 0; i < 4; i++) *parts[i] = tp_keep(*parts[i]);
    return p;
}
void tp_packed_release(tp_packed p) {
    tp_release(p.data);
    tp_release(p.batch_sizes);
    tp_release(p.sorted_indices);
    tp_release(p.unsorted_indices);
}

/* An int64 tensor on the device from numbers that are freed. */
static tp_tensor *index_of(int64_t *numbers, int64_t n, tp_device device) {
    tp_tensor *t = numbers ? tp_from_data(numbers, TP_INT64, TP_INTS(n)) : NULL;
    tpi_mfree(numbers);
    return t && device.type != TP_CPU ? tp_to(t, .device = device) : t;
}

/* The shape of t with its first `dropped` dims replaced by a and, if it is not negative, b. */
static tp_ints shape_with(const tp_tensor *t, int dropped, int64_t a, int64_t b, int64_t *buffer) {
    int64_t n = 0;
    buffer[n++] = a;
    if (b >= 0) buffer[n++] = b;
    for (int d = dropped; d < t->ndim; d++) buffer[n++] = t->shape[d];
    return tp_ints_view(buffer, n);
}

/* Whole numbers of a one-dimensional tensor, wherever it is; freed by the caller. */
static int64_t *numbers_of(tp_tensor *t, const char *function, const char *argument) {
    if (!tpi_is_tensor(t, argument)) return NULL;
    if (t->ndim != 1 || !tp_dtype_is_integral((tp_dtype)t->dtype) || !t->numel)
        return tpi_fail(TP_ERR_VALUE, "%s: argument '%s': expected a row of whole numbers, got a tensor of shape %s",
                        function, argument, tpi_shape_text(tpi_shape(t)));
    int64_t *v = tpi_malloc(sizeof *v * (size_t)t->numel);
    tp_tensor *here = v ? tp_to(t, .dtype = TP_INT64, .device = ((tp_device){TP_CPU, 0})) : NULL;
    if (here && tp_copy_out(here, v, sizeof *v * (size_t)t->numel)) return v;
    tpi_mfree(v);
    return NULL;
}

/* ---- padded ---- */
tp_tensor *tp_pad_sequence(tp_tensors sequences, bool batch_first, double padding_value) {
    if (!TPI_TENSORS_GIVEN(sequences)) return NULL;
    if (!sequences.n) return tpi_fail(TP_ERR_RUNTIME, "tp_pad_sequence: received an empty list of sequences");
    int64_t longest = 0, buffer[TP_MAX_DIMS + 2];
    for (int64_t i = 0; i < sequences.n; i++) {
        if (!tpi_is_tensor(sequences.v[i], "sequences")) return NULL;
        if (!sequences.v[i]->ndim)
            return tpi_fail(TP_ERR_RUNTIME, "tp_pad_sequence: sequence %lld has no dimension", (long long)i);
        if (sequences.v[i]->shape[0] > longest) longest = sequences.v[i]->shape[0];
    }
    tp_tensor **padded = tpi_malloc(sizeof *padded * (size_t)sequences.n), *out = NULL;
    if (!padded) return NULL;
    TP_SCOPE {
        for (int64_t i = 0; i < sequences.n; i++) {
            tp_tensor *s = sequences.v[i];
            tp_tensor *filler = tp_full(shape_with(s, 1, longest - s->shape[0], -1, buffer), padding_value,
                                        .dtype = (tp_dtype)s->dtype, .device = tpi_device(s));
            padded[i] = tp_cat(TP_LIST(s, filler));
        }
        out = tp_ok() ? tp_keep(tp_stack(tp_list(sequences.n, padded), .dim = batch_first ? 0 : 1)) : NULL;
    }
    tpi_mfree(padded);
    return out;
}

bool tp_unpad_sequence(tp_tensor *padded, tp_tensor *lengths, bool batch_first, tp_tensor **sequences) {
    if (!tpi_is_tensor(padded, "padded") || !TPI_GIVEN(sequences, "an array")) return false;
    bool fine = true;
    int64_t *steps = numbers_of(lengths, __func__, "lengths");
    for (int64_t i = 0; steps && fine && i < lengths->numel; i++) {
        sequences[i] = NULL;
        TP_SCOPE
            sequences[i] = tp_keep(tp_narrow(tp_select(padded, batch_first ? 0 : 1, i), 0, 0, steps[i]));
        fine = sequences[i] != NULL;
    }
    tpi_mfree(steps);
    return steps && fine;
}

/* ---- packed ---- */
static bool lengths_fit(const int64_t *steps, int64_t n, int64_t batch, int64_t longest) {
    const char *where = "tp_pack_padded_sequence: argument 'lengths'";
    if (n != batch)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "%s: Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)",
                          where, (long long)n, (long long)batch);
    for (int64_t i = 0; i < n; i++) {
        if (steps[i] <= 0)
            return tpi_refuse(TP_ERR_RUNTIME, "%s: Length of all samples has to be greater than 0, got %lld", where,
                              (long long)steps[i]);
        if (i && steps[i] > steps[i - 1])
            return tpi_refuse(TP_ERR_RUNTIME,
                              "%s: must be sorted in decreasing order when enforce_sorted is true; give false for "
                              "sequences in any order",
                              where);
    }
    return steps[0] <= longest || tpi_refuse(TP_ERR_RUNTIME, "%s: expected at most the input's %lld steps, got %lld",
                                             where, (long long)longest, (long long)steps[0]);
}

/* Where the steps of sorted sequences stand in (steps, batch) rows, and how many each step has. */
static bool plan(const int64_t *steps, int64_t batch, int64_t **rows, int64_t *nrows, int64_t **counts) {
    *nrows = 0;
    for (int64_t b = 0; b < batch; b++) *nrows += steps[b];
    *rows = tpi_malloc(sizeof **rows * (size_t)*nrows);
    *counts = *rows ? tpi_malloc(sizeof **counts * (size_t)steps[0]) : NULL;
    if (!*counts) {
        tpi_mfree(*rows);
        return false;
    }
    int64_t at = 0;
    for (int64_t t = 0; t < steps[0]; t++) {
        (*counts)[t] = 0;
        for (int64_t b = 0; b < batch && steps[b] > t; b++, (*counts)[t]++) (*rows)[at++] = t * batch + b;
    }
    return true;
}

tp_packed tp_pack_padded_sequence(tp_tensor *input, tp_tensor *lengths, bool batch_first, bool enforce_sorted) {
    if (!tpi_is_tensor(input, "input") || !tpi_is_tensor(lengths, "lengths")) return failed;
    if (input->ndim < 2 || !input->numel) {
        tpi_fail(TP_ERR_RUNTIME, "tp_pack_padded_sequence: argument 'input': Cannot pack empty tensors.");
        return failed;
    }
    tp_packed p = failed;
    TP_SCOPE {
        tp_tensor *order = NULL, *by_step = input;
        if (!enforce_sorted) {
            tp_sort_result sorted = tp_sort(lengths, .descending = true);
            lengths = sorted.values;
            order = tp_to(sorted.indices, .device = tpi_device(input));
            by_step = tp_index_select(by_step, batch_first ? 0 : 1, order);
        }
        if (batch_first) by_step = tp_transpose(by_step, 0, 1);
        int64_t *steps = by_step ? numbers_of(lengths, __func__, "lengths") : NULL, *rows, *counts, nrows;
        int64_t buffer[TP_MAX_DIMS + 2];
        if (steps && lengths_fit(steps, lengths->numel, by_step->shape[1], by_step->shape[0]) &&
            plan(steps, by_step->shape[1], &rows, &nrows, &counts)) {
            tp_tensor *flat =
                tp_reshape(by_step, shape_with(by_step, 2, by_step->shape[0] * by_step->shape[1], -1, buffer));
            p.data = tp_index_select(flat, 0, index_of(rows, nrows, tpi_device(input)));
            p.batch_sizes = index_of(counts, steps[0], (tp_device){TP_CPU, 0});
            p.sorted_indices = order;
            p.unsorted_indices = order ? tp_argsort(order) : NULL;
        }
        tpi_mfree(steps);
        p = p.data && tp_ok() ? keep(p) : failed;
    }
    return p;
}

tp_packed tp_pack_sequence(tp_tensors sequences, bool enforce_sorted) {
    if (!TPI_TENSORS_GIVEN(sequences)) return failed;
    tp_packed p = failed;
    TP_SCOPE {
        tp_tensor *padded = tp_pad_sequence(sequences, false, 0);
        int64_t *lengths = padded ? tpi_malloc(sizeof *lengths * (size_t)sequences.n) : NULL;
        for (int64_t i = 0; lengths && i < sequences.n; i++) lengths[i] = sequences.v[i]->shape[0];
        tp_tensor *all = index_of(lengths, sequences.n, (tp_device){TP_CPU, 0});
        if (all) p = keep(tp_pack_padded_sequence(padded, all, false, enforce_sorted));
    }
    return p;
}

/* For each place of (steps, batch) its row in the packed data; the row behind the last is the padding. */
static int64_t *row_numbers(const int64_t *counts, int64_t nsteps, int64_t steps, int64_t rows) {
    const int64_t batch = counts[0];
    int64_t *at = tpi_malloc(sizeof *at * (size_t)(steps * batch + 1)), first = 0;
    for (int64_t t = 0; at && t < steps; t++) {
        for (int64_t b = 0; b < batch; b++) at[t * batch + b] = t < nsteps && b < counts[t] ? first + b : rows;
        if (t < nsteps) first += counts[t];
    }
    return at;
}
static tp_tensor *lengths_of(const int64_t *counts, int64_t nsteps) {
    int64_t *lengths = tpi_malloc(sizeof *lengths * (size_t)counts[0]);
    for (int64_t b = 0; lengths && b < counts[0]; b++) {
        lengths[b] = 0;
        for (int64_t t = 0; t < nsteps; t++) lengths[b] += counts[t] > b;
    }
    return index_of(lengths, counts[0], (tp_device){TP_CPU, 0});
}

/* Do the counts fall from a first one, and add up to the rows of the data? */
static bool sound(tp_packed p, const int64_t *counts, const char *function) {
    int64_t rows = 0;
    for (int64_t t = 0; t < p.batch_sizes->numel; t++) {
        if (counts[t] < 1 || (t && counts[t] > counts[t - 1]))
            return tpi_refuse(TP_ERR_VALUE, "%s: argument 'packed': batch_sizes must be positive and not grow",
                              function);
        rows += counts[t];
    }
    return (p.data->ndim && rows == p.data->shape[0]) ||
           tpi_refuse(TP_ERR_VALUE, "%s: argument 'packed': batch_sizes add up to %lld, data has the shape %s",
                      function, (long long)rows, tpi_shape_text(tpi_shape(p.data)));
}

tp_tensor *tp_pad_packed_sequence(tp_packed p, bool batch_first, double padding_value, int64_t total_length,
                                  tp_tensor **lengths) {
    if (lengths) *lengths = NULL;
    if (!tpi_is_tensor(p.data, "packed.data")) return NULL;
    tp_tensor *out = NULL, *steps_of = NULL;
    TP_SCOPE {
        int64_t *counts = numbers_of(p.batch_sizes, __func__, "packed.batch_sizes"), buffer[TP_MAX_DIMS + 2];
        const int64_t nsteps = counts ? p.batch_sizes->numel : 0,
                      steps = total_length == TP_NONE ? nsteps : total_length;
        if (counts && steps < nsteps)
            tpi_fail(TP_ERR_VALUE,
                     "tp_pad_packed_sequence: argument 'total_length': expected at least the longest sequence's %lld "
                     "steps, got %lld",
                     (long long)nsteps, (long long)steps);
        else if (counts && sound(p, counts, __func__)) {
            tp_tensor *padding = tp_full(shape_with(p.data, 1, 1, -1, buffer), padding_value,
                                         .dtype = (tp_dtype)p.data->dtype, .device = tpi_device(p.data));
            tp_tensor *at =
                index_of(row_numbers(counts, nsteps, steps, p.data->shape[0]), steps * counts[0], tpi_device(p.data));
            out = tp_reshape(tp_index_select(tp_cat(TP_LIST(p.data, padding)), 0, at),
                             shape_with(p.data, 1, steps, counts[0], buffer));
            steps_of = lengths_of(counts, nsteps);
            if (p.unsorted_indices) {
                out = tp_index_select(out, 1, p.unsorted_indices);
                steps_of = tp_index_select(steps_of, 0, tp_to(p.unsorted_indices, .device = ((tp_device){TP_CPU, 0})));
            }
            if (batch_first) out = tp_transpose(out, 0, 1);
        }
        tpi_mfree(counts);
        out = tp_ok() ? tp_keep(out) : NULL;
        if (out && lengths) *lengths = tp_keep(steps_of);
    }
    return out;
}

/* ---- recurrent layers ---- */
static tp_tensor *state_for(const tp_module *m, tp_packed p, tp_tensor *given, int64_t size) {
    if (given) return p.sorted_indices ? tp_index_select(given, 1, p.sorted_indices) : given;
    const int64_t rows = tpi_get_int(m, "num_layers") * (tpi_get_bool(m, "bidirectional") ? 2 : 1);
    const int64_t batch = p.batch_sizes->numel ? ((const int64_t *)p.batch_sizes->data)[0] : 0;
    return tp_zeros(TP_INTS(rows, batch, size), .dtype = (tp_dtype)p.data->dtype, .device = tpi_device(p.data));
}

/* The output and the last states, in the open scope. */
static void run(const tp_module *m, const tpi_recurrent_mode *mode, tp_packed p, tp_tensor *h, tp_tensor *c,
                tp_tensors weights, tp_tensor **out) {
    tpi_recurrent_call call = tpi_recurrent_call_of(m, p.data, weights);
    call.batch_sizes = p.batch_sizes;
    call.states[0] = h;
    call.states[1] = c;
    bool fine = mode->run(&call, out);
    for (int i = 0; i <= mode->states; i++) out[i] = fine ? tpi_to_scope(out[i]) : NULL;
}

static bool good_packed(tp_packed p) {
    if (!tpi_is_tensor(p.data, "packed.data") || !tpi_is_tensor(p.batch_sizes, "packed.batch_sizes")) return false;
    return (p.batch_sizes->dtype == TP_INT64 && p.batch_sizes->ndim == 1 && tpi_device(p.batch_sizes).type == TP_CPU) ||
           tpi_refuse(TP_ERR_TYPE, "tp_forward_packed: argument 'packed': batch_sizes must be int64, on the CPU");
}

tp_packed tp_forward_packed(tp_module *m, tp_packed packed, tp_tensor *h_0, tp_tensor *c_0, tp_tensor **h_n,
                            tp_tensor **c_n) {
    if (TPI_ENDED(h_0, "a tensor") || TPI_ENDED(c_0, "a tensor")) return (tp_packed){0};
    if (h_n) *h_n = NULL;
    if (c_n) *c_n = NULL;
    if (!TPI_HANDLE_GIVEN(m, "a module") || !good_packed(packed)) return failed;
    const tp_value kind = tpi_module_get(m, "mode");
    if (kind.kind != TP_K_STRING || tpi_module_get(m, "num_layers").kind == TP_K_NONE) {
        tpi_fail(TP_ERR_TYPE, "tp_forward_packed: argument 'm': expected an RNN, a GRU or an LSTM, got %s", m->name);
        return failed;
    }
    const tpi_recurrent_mode *mode = tpi_find_recurrent_mode(kind.as.string);
    if (!mode) return failed;
    const bool lstm = mode->states == 2;
    const int64_t hidden = tpi_get_int(m, "hidden_size"), projected = tpi_get_int(m, "proj_size");
    tp_packed result = failed;
    tp_tensors weights = {tpi_malloc(sizeof(tp_tensor *) * (size_t)(m->nslots + 1)), m->nslots};
    if (!weights.v) return failed;
    for (int64_t i = 0; i < m->nslots; i++) weights.v[i] = m->slots[i].tensor;
    TP_SCOPE {
        tp_tensor *out[3] = {NULL, NULL, NULL};
        tp_tensor *h = state_for(m, packed, h_0, projected > 0 ? projected : hidden);
        tp_tensor *c = lstm ? state_for(m, packed, c_0, hidden) : NULL;
        if (h && (c || !lstm)) run(m, mode, packed, h, c, weights, out);
        for (int i = 1; packed.unsorted_indices && i <= mode->states && out[i]; i++)
            out[i] = tp_index_select(out[i], 1, packed.unsorted_indices);
        if (out[0] && tp_ok()) {
            result = (tp_packed){tp_keep(out[0]), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices};
            tp_tensor *same[] = {packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices};
            for (int i = 0; i < 3; i++) tp_retain(same[i]);
            if (h_n) *h_n = tp_keep(out[1]);
            if (c_n && lstm) *c_n = tp_keep(out[2]);
        }
    }
    tpi_mfree(weights.v);
    tp_tensor *shared[] = {result.batch_sizes, result.sorted_indices, result.unsorted_indices};
    for (int i = 0; i < 3; i++)
        if (shared[i] && !tpi_to_scope(shared[i])) return failed;
    return result;
}

tp_tensor *tp_invert_permutation(tp_tensor *permutation) {
    if (!tpi_is_tensor(permutation, "permutation")) return NULL;
    if (permutation->ndim != 1 || !tp_dtype_is_integral((tp_dtype)permutation->dtype))
        return tpi_fail(TP_ERR_TYPE,
                        "tp_invert_permutation: argument 'permutation': expected a row of integers, got %s of shape %s",
                        tp_dtype_name((tp_dtype)permutation->dtype), tpi_shape_text(tpi_shape(permutation)));
    return tp_argsort(permutation);
}
