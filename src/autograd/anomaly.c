/* Anomaly mode: nodes remember the forward call that made them, and backward stops at the first NaN with both their
 * names. A language binding can have its own trace of the call kept, and told when a node fails. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <taper/autograd.h>
#include "autograd/tape.h"

atomic_bool tpi_anomaly;
static atomic_bool looks_away; /* from NaN */
static const tp_trace_hooks *_Atomic tracing;

bool tp_anomaly_enabled(void) { return atomic_load(&tpi_anomaly); }
void tp_set_anomaly(bool on) { atomic_store(&tpi_anomaly, on); }
bool tp_anomaly_checks_nan(void) { return !atomic_load(&looks_away); }
void tp_set_anomaly_checks_nan(bool on) { atomic_store(&looks_away, !on); }

/* ---- The user's traces ----
 * Nodes point at the hooks that made their trace: sets that were ever given stay, each once. */
typedef struct tracer {
    tp_trace_hooks hooks;
    struct tracer *next;
} tracer;

static tracer *known_tracer(const tp_trace_hooks *h) {
    static tracer *all;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    tracer *t = all;
    while (t && (t->hooks.record != h->record || t->hooks.describe != h->describe || t->hooks.drop != h->drop ||
                 t->hooks.context != h->context))
        t = t->next;
    if (!t && (t = tpi_new0(sizeof *t))) {
        *t = (tracer){*h, all};
        all = t;
    }
    pthread_mutex_unlock(&lock);
    return t;
}

bool tp_set_trace_hooks(const tp_trace_hooks *hooks) {
    tracer *t = NULL;
    if (hooks && (hooks->size < (int64_t)sizeof *hooks || !hooks->record))
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'hooks': expected a tp_trace_hooks with its size and a record function");
    if (hooks && !(t = known_tracer(hooks))) return false;
    atomic_store(&tracing, t ? &t->hooks : NULL);
    return true;
}

static bool record_trace(tpi_extra *extra) {
    const tp_trace_hooks *hooks = atomic_load(&tracing);
    if (!hooks) return true;
    bool fine_before = tp_ok();
    tpi_callback callback = tpi_callback_begin();
    extra->trace = hooks->record(hooks->context);
    tpi_callback_end(&callback, 0, NULL);
    extra->traced_by = hooks;
    return !fine_before || tp_ok();
}

void tpi_note_drop(tpi_extra *extra) {
    tpi_mfree(extra->note);
    if (extra->trace && extra->traced_by->drop) extra->traced_by->drop(extra->trace, extra->traced_by->context);
}

static const tpi_node *call_of(const tpi_node *node) { return node->inner ? node->inner : node; }

void tpi_anomaly_tell(const tpi_node *node) {
    const tpi_extra *extra = call_of(node)->extra;
    if (!extra || !extra->trace || !extra->traced_by->describe) return;
    tpi_callback callback = tpi_callback_begin();
    const char *text = extra->traced_by->describe(extra->trace, node, extra->traced_by->context);
    if (text) tpi_error_add(text);
    tpi_callback_end(&callback, 0, NULL);
}

/* ---- The forward call, as text: "mul(float32 [2, 3], float32 [3]" with the bracket left open for more inputs ---- */
enum { NOTE_BYTES = 512 };

bool tpi_note_begin(tpi_node *node) {
    tpi_extra *extra = tpi_node_extra(node);
    if (!extra || !(extra->note = tpi_malloc(NOTE_BYTES))) return false;
    snprintf(extra->note, NOTE_BYTES, "%s(", node->cls->op);
    return record_trace(extra);
}

void tpi_note_input(tpi_node *node, const tp_tensor *input) {
    char *note = node->extra->note;
    size_t used = strlen(note), left = NOTE_BYTES - used;
    const char *comma = note[used - 1] == '(' ? "" : ", ";
    if (!input)
        snprintf(note + used, left, "%snone", comma);
    else
        snprintf(note + used, left, "%s%s %s", comma, tp_dtype_name((tp_dtype)input->dtype),
                 tpi_shape_text(tpi_shape(input)));
}

/* ---- NaN ---- */

static bool nan_in_floats(const float *x, int64_t n) {
    bool found = false;
    for (int64_t i = 0; i < n; i++) found |= x[i] != x[i];
    return found;
}

static bool nan_in_doubles(const double *x, int64_t n) {
    bool found = false;
    for (int64_t i = 0; i < n; i++) found |= x[i] != x[i];
    return found;
}

/* Half and bfloat16 by their bits: all of the exponent set, and something of the fraction. */
static bool nan_in_bits(const uint16_t *x, int64_t n, uint16_t exponent) {
    bool found = false;
    for (int64_t i = 0; i < n; i++) found |= (x[i] & 0x7fff) > exponent;
    return found;
}

static bool nan_in(const void *data, tp_dtype dtype, int64_t n) {
    switch (dtype) {
    case TP_FLOAT16: return nan_in_bits(data, n, 0x7c00);
    case TP_BFLOAT16: return nan_in_bits(data, n, 0x7f80);
    case TP_FLOAT32: return nan_in_floats(data, n);
    case TP_FLOAT64: return nan_in_doubles(data, n);
    case TP_COMPLEX64: return nan_in_floats(data, 2 * n);
    case TP_COMPLEX128: return nan_in_doubles(data, 2 * n);
    default: return false;
    }
}

/* 1: there is one; 0: there is none; -1: an error is pending. */
static int has_nan(tp_tensor *t) {
    tp_tensor *host = tpi_device(t).type == TP_CPU
                          ? tpi_contiguous_data(t)
                          : tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    bool ok = host && (tpi_device(t).type == TP_CPU || tpi_copy_data(host, t));
    int found = ok ? nan_in(host->data, (tp_dtype)host->dtype, host->numel) : -1;
    tpi_release(host);
    return found;
}

bool tpi_anomaly_check(const tpi_node *node, const tp_tensor *const *grad_inputs) {
    if (atomic_load(&looks_away)) return true;
    for (uint32_t i = 0; i < node->nedges; i++) {
        int found = grad_inputs[i] ? has_nan((tp_tensor *)grad_inputs[i]) : 0;
        if (found < 0) return false;
        if (!found) continue;
        const tpi_node *call = call_of(node);
        const char *note = call->extra ? call->extra->note : NULL;
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "Function '%s' returned nan values in its %uth output; the forward call was %s%s, number %llu on the tape",
            node->name, i, note ? note : "made before anomaly mode was on: ", note ? ")" : call->cls->op,
            (unsigned long long)call->sequence);
    }
    return true;
}
