/* Capturing: a recorder that turns what the thread computes into a graph's steps and values, and the backward of the
 * results into more of them.
 *
 * Every tensor that is seen is held until the end, so that the address of its storage stands for one value. Its memory
 * goes when nobody else holds it any more. The first thing that cannot be repeated ends the recording; the program runs
 * on, and tp_capture_end says what it was. */
#include <stdio.h>
#include <string.h>
#include "dispatch/profile.h"
#include "autograd/tape.h"
#include "base/memory.h"
#include "graph/capture.h"
#include "dispatch/call.h"
#include "tensor/check_arguments.h"

static TPI_THREAD_LOCAL tp_capture *capturing;

/* ---- Ending early ---- */

void tpi_capture_stop(tp_capture *c) {
    if (!c->on) return;
    c->on = false;
    c->recorder.ended = true;
    tpi_recording = NULL;
    tpi_detours &= (uint8_t)~TPI_RECORDED;
}

void tpi_capture_start(tp_capture *c) {
    c->on = true;
    c->recorder.ended = false;
    tpi_recording = &c->recorder;
    tpi_detours |= TPI_RECORDED;
}

void tpi_capture_abandon(tp_capture *c, const char *format, const char *what) {
    if (*c->why) return;
    snprintf(c->why, sizeof c->why, format, what);
    tpi_capture_stop(c);
    if (c->told) c->told(c->why, c->context);
}

void tpi_capture_no_memory(tp_capture *c) {
    c->failed = true;
    tpi_capture_abandon(c, "%s", "there was no memory to record it");
}

/* ---- Steps ---- */

static tp_scalar *copy_scalars(tp_capture *c, const tp_scalar *from, int n) {
    tp_scalar *to = tpi_graph_memory_alloc(&c->g->memory, (size_t)n * sizeof *to);
    if (to && n) memcpy(to, from, (size_t)n * sizeof *to);
    if (!to) tpi_capture_no_memory(c);
    return to;
}

static bool copy_ints(tp_capture *c, tp_ints *to, tp_ints from) {
    *to = from;
    if (!from.v) return true;
    int64_t *v = tpi_graph_memory_alloc(&c->g->memory, (size_t)from.n * sizeof *v);
    if (!v) {
        tpi_capture_no_memory(c);
        return false;
    }
    if (from.n) memcpy(v, from.v, (size_t)from.n * sizeof *v);
    to->v = v;
    return true;
}

tpi_graph_step *tpi_capture_step(tp_capture *c, tpi_step_kind kind, int nin, int nout) {
    tpi_capture_free_unused(c);
    tpi_graph_step *s = tpi_graph_add_step(c->g, kind, nin, nout);
    if (!s) tpi_capture_no_memory(c);
    return s;
}

static void on_map(tpi_recorder *r, const tpi_map_op *op, tp_tensor *result, bool made, const tp_operand *in,
                   const tp_scalar *params) {
    tp_capture *c = (tp_capture *)r;
    c->doing = op->name;
    int32_t ids[8];
    tp_scalar numbers[8] = {{0}};
    for (int i = 0; i < op->nin; i++) {
        ids[i] = in[i].tensor ? tpi_capture_value(c, in[i].tensor) : -1;
        if (!in[i].tensor)
            numbers[i] = in[i].scalar;
        else if (ids[i] < 0)
            return;
    }
    int32_t out = tpi_capture_result(c, result, made);
    tpi_graph_step *s = out >= 0 ? tpi_capture_step(c, TPI_STEP_MAP, op->nin, 1) : NULL;
    if (!s) return;
    s->op = op;
    s->inplace = !made;
    s->out[0] = out;
    memcpy(s->in, ids, sizeof *ids * op->nin);
    s->numbers = copy_scalars(c, numbers, op->nin);
    s->params = copy_scalars(c, params, op->nparam);
}

static tpi_graph_step *reduction(tp_capture *c, tpi_step_kind kind, const char *name, int nout,
                                 tp_tensor *const *results, tp_tensor *x) {
    c->doing = name;
    int32_t in = tpi_capture_value(c, x), out[4];
    for (int i = 0; i < nout && in >= 0; i++)
        if ((out[i] = tpi_capture_result(c, results[i], true)) < 0) return NULL;
    tpi_graph_step *s = in >= 0 ? tpi_capture_step(c, kind, 1, nout) : NULL;
    if (!s) return NULL;
    s->in[0] = in;
    memcpy(s->out, out, sizeof *out * (size_t)nout);
    return s;
}

static void on_fold(tpi_recorder *r, const tpi_fold_op *op, tp_tensor *const *results, tp_tensor *x, tp_ints dims,
                    bool keepdim, tp_dtype dtype, const tp_scalar *params) {
    tp_capture *c = (tp_capture *)r;
    tpi_graph_step *s = reduction(c, TPI_STEP_FOLD, op->name, op->nout, results, x);
    if (!s) return;
    s->op = op;
    s->keepdim = keepdim;
    s->dtype = dtype;
    s->params = copy_scalars(c, params, op->nparam);
    copy_ints(c, &s->dims, dims);
}

static void on_scan(tpi_recorder *r, const tpi_scan_op *op, tp_tensor *const *results, tp_tensor *x, int64_t dim,
                    tp_dtype dtype, const tp_scalar *params) {
    tp_capture *c = (tp_capture *)r;
    tpi_graph_step *s = reduction(c, TPI_STEP_SCAN, op->name, op->nout, results, x);
    if (!s) return;
    s->op = op;
    s->dtype = dtype;
    s->params = copy_scalars(c, params, op->nparam);
    copy_ints(c, &s->dims, tp_ints_view(&dim, 1));
}

static void on_copy(tpi_recorder *r, tp_tensor *dst, const tp_tensor *src) {
    tp_capture *c = (tp_capture *)r;
    c->doing = "copy";
    int32_t in = tpi_capture_value(c, (tp_tensor *)src), out = in >= 0 ? tpi_capture_result(c, dst, false) : -1;
    tpi_graph_step *s = out >= 0 ? tpi_capture_step(c, TPI_STEP_COPY, 1, 1) : NULL;
    if (s) {
        s->in[0] = in;
        s->out[0] = out;
    }
}

static void on_fill(tpi_recorder *r, tp_tensor *dst, tp_scalar value) {
    tp_capture *c = (tp_capture *)r;
    c->doing = "fill";
    int32_t out = tpi_capture_result(c, dst, false);
    tpi_graph_step *s = out >= 0 ? tpi_capture_step(c, TPI_STEP_FILL, 0, 1) : NULL;
    if (!s) return;
    s->out[0] = out;
    s->numbers = copy_scalars(c, &value, 1);
}

/* ---- Native operators: their arguments in boxes ---- */

static bool copy_bytes(tp_capture *c, const void *from, size_t bytes, const void **to) {
    void *copy = tpi_graph_memory_alloc(&c->g->memory, bytes);
    if (!copy) {
        tpi_capture_no_memory(c);
        return false;
    }
    if (bytes) memcpy(copy, from, bytes);
    *to = copy;
    return true;
}

static bool box_list(tp_capture *c, char letter, const void *arg, tp_value *v) {
    if (letter == 'n' || letter == 'B') {
        *v = tp_value_ints(*(const tp_ints *)arg);
        if (!v->as.ints.v) v->kind = TP_K_NONE;
        return copy_ints(c, &v->as.ints, v->as.ints);
    }
    if (letter == 'F') {
        *v = tp_value_floats(*(const tp_floats *)arg);
        if (!v->as.floats.v) {
            v->kind = TP_K_NONE;
            return true;
        }
        return copy_bytes(c, v->as.floats.v, (size_t)v->as.floats.n * sizeof(double), (const void **)&v->as.floats.v);
    }
    *v = tp_value_scalars(*(const tp_scalars *)arg);
    if (!v->as.scalars.v) {
        v->kind = TP_K_NONE;
        return true;
    }
    return copy_bytes(c, v->as.scalars.v, (size_t)v->as.scalars.n * sizeof(tp_scalar), (const void **)&v->as.scalars.v);
}

/* Whatever is no tensor. */
static bool box(tp_capture *c, char letter, const void *arg, tp_value *v) {
    *v = (tp_value){0};
    switch (letter) {
    case 'i':
        if (*(const int64_t *)arg != TP_NONE) *v = tp_value_int(*(const int64_t *)arg);
        return true;
    case 'q':
        if (*(const int64_t *)arg != TP_NONE) *v = tp_value_bool(*(const int64_t *)arg != 0);
        return true;
    case 'b': *v = tp_value_bool(*(const bool *)arg); return true;
    case 'f':
        if (*(const double *)arg == *(const double *)arg) *v = tp_value_double(*(const double *)arg);
        return true;
    case 's':
        if (((const tp_scalar *)arg)->kind != TP_SCALAR_NONE) *v = tp_value_scalar(*(const tp_scalar *)arg);
        return true;
    case 'd':
        if (*(const tp_dtype *)arg != TP_NO_DTYPE) *v = tp_value_dtype(*(const tp_dtype *)arg);
        return true;
    case 'D':
        if (((const tp_device *)arg)->type) *v = tp_value_device(*(const tp_device *)arg);
        return true;
    case 'L': *v = (tp_value){.kind = TP_K_LAYOUT, .as.layout = *(const tp_layout *)arg}; return true;
    case 'c': {
        const char *text = *(const char *const *)arg;
        if (!text) return true;
        v->kind = TP_K_STRING;
        return copy_bytes(c, text, strlen(text) + 1, (const void **)&v->as.string);
    }
    case 'g':
        if (*(tp_generator *const *)arg)
            tpi_capture_abandon(c, "%s draws from a generator of the program's own", c->doing);
        return !*(tp_generator *const *)arg;
    default: return box_list(c, letter, arg, v);
    }
}

/* Tensor arguments: how many values they are, and which. */
static int64_t tensors_in(char letter, const void *arg, tp_tensor *const **list) {
    if (letter == 'l') {
        *list = ((const tp_tensors *)arg)->v;
        return ((const tp_tensors *)arg)->n;
    }
    *list = letter == 't' ? arg : &((const tp_operand *)arg)->tensor;
    return 1;
}

static bool record_argument(tp_capture *c, char letter, const void *arg, tp_value *v, int32_t *ids, int *n) {
    if (!strchr("tol", letter)) return box(c, letter, arg, v);
    tp_tensor *const *list;
    int64_t count = tensors_in(letter, arg, &list);
    if (letter == 'l')
        *v = tp_value_tensors((tp_tensors){NULL, count});
    else if (letter == 'o' && !*list) {
        *v = tp_value_scalar(((const tp_operand *)arg)->scalar);
        return true;
    } else
        *v = (tp_value){.kind = *list ? TP_K_TENSOR : TP_K_NONE};
    if (v->kind == TP_K_NONE) return true;
    for (int64_t i = 0; i < count; i++) {
        ids[*n] = list[i] ? tpi_capture_value(c, list[i]) : -1;
        if (list[i] && ids[*n] < 0) return false;
        ++*n;
    }
    return true;
}

static const tp_operator *operator_of(const char *name, bool *inplace) {
    const tp_operator *op = tp_find_operator(name);
    *inplace = !op;
    if (op) return op;
    char base[96];
    size_t n = strlen(name);
    if (n < 2 || n > sizeof base) return NULL;
    memcpy(base, name, n - 1);
    base[n - 1] = 0;
    return tp_find_operator(base);
}

static void on_call(tpi_recorder *r, const char *name, const char *letters, void *const *args, int64_t nresults,
                    tp_tensor *const *results) {
    tp_capture *c = (tp_capture *)r;
    if (!c->on) return;
    c->doing = name;
    bool inplace;
    const tp_operator *op = operator_of(name, &inplace);
    if (!op || tpi_has_dynamic_shape(op, args)) return tpi_capture_abandon(c, "%s gives what depends on values", name);
    int capacity = 0, n = 0, nargs = (int)strlen(letters);
    tp_tensor *const *list;
    for (int i = 0; i < nargs; i++)
        if (strchr("tol", letters[i])) capacity += (int)tensors_in(letters[i], args[i], &list);
    int32_t *ids = tpi_graph_memory_alloc(&c->memory, (size_t)(capacity + (int)nresults) * sizeof *ids),
            *outs = ids + capacity;
    tp_value *values = tpi_graph_memory_alloc(&c->g->memory, (size_t)nargs * sizeof *values);
    if (!ids || !values) return tpi_capture_no_memory(c);
    for (int i = 0; i < nargs; i++)
        if (!record_argument(c, letters[i], args[i], &values[i], ids, &n)) return;
    for (int64_t i = 0; i < nresults; i++)
        if ((outs[i] = results[i] ? tpi_capture_result(c, results[i], !inplace) : -1) < 0)
            return tpi_capture_abandon(c, "%s leaves a result out", name);
    tpi_graph_step *s = tpi_capture_step(c, TPI_STEP_CALL, n, (int)nresults);
    if (!s) return;
    s->op = op;
    s->inplace = inplace;
    s->args = values;
    memcpy(s->in, ids, sizeof *ids * (size_t)n);
    memcpy(s->out, outs, sizeof *ids * (size_t)nresults);
}

static void on_custom(tpi_recorder *r, const tpi_custom *done, tp_tensors in, tp_tensors out) {
    tp_capture *c = (tp_capture *)r;
    c->doing = done->name;
    tpi_graph_custom *custom = tpi_graph_memory_alloc(&c->g->memory, sizeof *custom);
    if (!custom) {
        if (done->drop) done->drop(done->context);
        return tpi_capture_no_memory(c);
    }
    *custom = (tpi_graph_custom){*done, c->g->customs};
    c->g->customs = custom;
    int32_t *ids = tpi_graph_memory_alloc(&c->memory, (size_t)(in.n + out.n) * sizeof *ids);
    if (!ids) return tpi_capture_no_memory(c);
    for (int64_t i = 0; i < in.n + out.n; i++)
        if ((ids[i] = i < in.n ? tpi_capture_value(c, in.v[i])
                               : tpi_capture_add(c, TPI_VALUE_MADE, out.v[i - in.n], -1, 0)) < 0)
            return;
    tpi_graph_step *s = tpi_capture_step(c, TPI_STEP_CUSTOM, (int)in.n, (int)out.n);
    if (!s) return;
    s->custom = custom;
    memcpy(s->in, ids, sizeof *ids * (size_t)(in.n + out.n)); /* out follows in */
}

static void on_born(tpi_recorder *r, const tp_storage *storage) { tpi_capture_born((tp_capture *)r, storage); }

static void on_looked(tpi_recorder *r, const tp_tensor *t) {
    tp_capture *c = (tp_capture *)r;
    if ((t->flags & TPI_WRAPPED) || tpi_capture_is_new(c, t))
        return; /* a number; new memory, of which nothing is known so far */
    tpi_capture_abandon(c, "%s", "a value of a tensor is looked at");
}

static void on_marked(tpi_recorder *r) {
    tpi_capture_abandon((tp_capture *)r, "%s",
                        "a lazy conjugate or negative view is used (x.conj(); resolve_conj() makes a copy)");
}

/* ---- The capture ---- */

static void capture_free(tp_capture *c) {
    tpi_capture_stop(c);
    capturing = NULL;
    tp_compiled_release(c->g);
    tpi_graph_memory_empty(&c->memory);
    tpi_delete(c, sizeof *c);
}

static bool record_inputs(tp_capture *c, tp_tensors inputs) {
    tp_compiled *g = c->g;
    g->ninputs = (int32_t)inputs.n;
    g->inputs = tpi_graph_memory_alloc(&g->memory, (size_t)inputs.n * sizeof *g->inputs);
    g->input_tracked = tpi_graph_memory_alloc(&g->memory, (size_t)inputs.n);
    if (!g->inputs || !g->input_tracked) return false;
    for (int64_t i = 0; i < inputs.n; i++) {
        if (!inputs.v[i])
            return tpi_refuse(TP_ERR_TYPE, "argument 'inputs': expected a tensor at index %lld, got NULL",
                              (long long)i);
        g->inputs[i] = tpi_capture_known(c, inputs.v[i]);
        g->input_tracked[i] = tpi_tracks(inputs.v[i]);
        if (g->inputs[i] < 0 && (g->inputs[i] = tpi_capture_add(c, TPI_VALUE_INPUT, inputs.v[i], (int32_t)i, 0)) < 0)
            return false;
    }
    return true;
}

tp_capture *tp_capture_begin(tp_tensors inputs) {
    if (capturing) return tpi_fail(TP_ERR_RUNTIME, "a capture is going on in this thread");
    tp_capture *c = tpi_new0(sizeof *c);
    if (!c) return NULL;
    c->recorder = (tpi_recorder){.map = on_map,
                                 .fold = on_fold,
                                 .scan = on_scan,
                                 .copy = on_copy,
                                 .fill = on_fill,
                                 .call = on_call,
                                 .born = on_born,
                                 .looked = on_looked,
                                 .marked = on_marked,
                                 .custom = on_custom};
    tpi_capture_watch_grads(&c->recorder);
    c->g = tpi_graph_new();
    c->doing = "capture";
    capturing = c;
    if (!c->g || !record_inputs(c, inputs)) {
        capture_free(c);
        return NULL;
    }
    c->g->grad_off = tpi_grad_off;
    c->g->inference = tpi_inference;
    c->g->default_dtype = tp_default_dtype();
    if (tpi_packers_now)
        tpi_capture_abandon(c, "%s", "hooks of the program's pack saved tensors");
    else
        tpi_capture_start(c);
    return c;
}

const char *tp_capture_broken(const tp_capture *c) { return c && *c->why ? c->why : NULL; }
bool tp_capturing(void) { return capturing && capturing->on; }
void tp_capture_cancel(tp_capture *c) {
    if (c) capture_free(c);
}
void tp_capture_on_break(tp_capture *c, void (*told)(const char *why, void *context), void *context) {
    if (c) {
        c->told = told;
        c->context = context;
    }
}

bool tp_capture_break(const char *why) {
    if (!tp_capturing()) return false;
    tpi_capture_abandon(capturing, "%s", why);
    return true;
}

typedef struct own_call {
    bool (*run)(void *context);
    void (*drop)(void *context);
    void *context;
} own_call;

static bool call_again(void *context, tp_tensors in, tp_tensor **out) {
    (void)in;
    (void)out;
    const own_call *call = context;
    return call->run(call->context);
}

static void drop_call(void *context) {
    own_call *call = context;
    if (call->drop) call->drop(call->context);
    tpi_mfree(call);
}

bool tp_capture_call(bool (*run)(void *context), void (*drop)(void *context), void *context) {
    if (!TPI_GIVEN(run, "a function")) return false;
    tpi_recorder *recorder = tpi_recording_off();
    bool ok = run(context);
    tpi_recording_on(recorder);
    own_call *call = ok && recorder ? tpi_malloc(sizeof *call) : NULL;
    if (!call) {
        if (drop) drop(context);
        return ok && !recorder;
    }
    *call = (own_call){run, drop, context};
    recorder->custom(recorder, &(tpi_custom){"a call of the program's", call_again, drop_call, call},
                     (tp_tensors){NULL, 0}, (tp_tensors){NULL, 0});
    return true;
}

bool tp_capture_constant(tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    if (!t || !tp_capturing()) return false;
    if (!tpi_capture_is_new(capturing, t) || tpi_tracks(t)) return false;
    return tpi_capture_add(capturing, TPI_VALUE_CONSTANT, t, -1, 0) >= 0;
}

static bool record_outputs(tp_capture *c, tp_tensors outputs) {
    tp_compiled *g = c->g;
    c->doing = "the result";
    g->noutputs = (int32_t)outputs.n;
    g->outputs = tpi_graph_memory_alloc(&g->memory, (size_t)outputs.n * sizeof *g->outputs);
    g->follows = tpi_graph_memory_alloc(&g->memory, (size_t)outputs.n);
    g->tracks = tpi_graph_memory_alloc(&g->memory, (size_t)outputs.n);
    g->spent = tpi_graph_memory_alloc(&g->memory, (size_t)outputs.n);
    if (!g->outputs || !g->follows || !g->tracks || !g->spent) {
        tpi_capture_no_memory(c);
        return false;
    }
    for (int64_t i = 0; i < outputs.n; i++) {
        if (!outputs.v[i]) {
            tpi_capture_abandon(c, "%s", "a result is no tensor");
            return false;
        }
        if ((g->outputs[i] = tpi_capture_value(c, outputs.v[i])) < 0) return false;
        const tpi_graph_value *v = &g->values[g->outputs[i]], *root = &g->values[tpi_value_root(g, g->outputs[i])];
        bool made = root->kind == TPI_VALUE_MADE, has_history = outputs.v[i]->requires_grad;
        g->spent[i] = made && has_history && tp_grad_fn_name(outputs.v[i]) && tpi_capture_is_spent(outputs.v[i]);
        g->tracks[i] = !made && has_history && (v == root || c->walked);
        g->follows[i] = has_history && tp_grad_fn_name(outputs.v[i]) && !g->spent[i] && !g->tracks[i];
        g->differentiable |= g->follows[i];
        if (g->follows[i] && c->walked) {
            tpi_capture_abandon(c, "%s", "a result of a call that runs backward() still has a gradient");
            return false;
        }
        if (!made && has_history && v->dtype != root->dtype) {
            tpi_capture_abandon(c, "%s", "a result is a view of an input in another dtype");
            return false;
        }
    }
    return true;
}

static bool check_writes(tp_capture *c) {
    tp_compiled *g = c->g;
    for (int32_t i = 0; i < g->nsteps; i++)
        for (int w = 0; w >= 0; w++) {
            int32_t root = tpi_step_writes(g, &g->steps[i], w);
            if (root < 0) break;
            const tpi_graph_value *v = &g->values[root];
            if (v->kind == TPI_VALUE_MADE || v->kind == TPI_VALUE_LEAF_GRAD) {
                g->writes |= v->kind == TPI_VALUE_LEAF_GRAD;
                continue;
            }
            if (v->kind == TPI_VALUE_CONSTANT) {
                tpi_capture_abandon(c, "%s", "a tensor made from numbers is written in place");
                return false;
            }
            if (v->kind == TPI_VALUE_GRAD || (g->differentiable && v->tensor->requires_grad && i < g->nforward)) {
                tpi_capture_abandon(c, "%s", "a tensor of the program's that has a gradient is written in place");
                return false;
            }
            g->writes = true;
        }
    return true;
}

/* Tensors that the graph does not need to hold. */
static void let_go(tp_compiled *g) {
    for (int32_t i = 0; i < g->nvalues; i++) {
        tpi_graph_value *v = &g->values[i];
        if (v->kind == TPI_VALUE_OUTSIDE || v->kind == TPI_VALUE_CONSTANT) continue;
        tp_release(v->tensor);
        v->tensor = NULL;
    }
}

tp_compiled *tp_capture_end(tp_capture *c, tp_tensors outputs) {
    if (!c) return tpi_fail(TP_ERR_TYPE, "argument 'capture': expected a capture, got NULL");
    bool ok = TPI_TENSORS_GIVEN(outputs) && c->on && record_outputs(c, outputs) && tpi_capture_check_walk(c);
    c->g->nforward = c->g->nsteps;
    ok = ok && (!c->g->differentiable || tpi_capture_backward(c, outputs)) && check_writes(c);
    tpi_capture_stop(c);
    ok = ok && tpi_graph_join_slice_gradients(c->g) && tpi_graph_fuse(c->g) && tpi_graph_find_epilogues(c->g) &&
         tpi_graph_plan(c->g);
    tp_compiled *g = NULL;
    if (ok) {
        g = c->g;
        c->g = NULL;
        let_go(g);
    } else if (!c->failed && tp_ok())
        tpi_fail(TP_ERR_RUNTIME, "this cannot be captured: %s", *c->why ? c->why : "there was no memory");
    capture_free(c);
    return g;
}
