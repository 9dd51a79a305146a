/* Pipelines: this rank's stages, and what goes over the borders between stages. A message is a header of numbers
 * (dtype, whether it has a gradient, shape) and the tensor. Each border has two tags, one for each direction, for
 * several borders may lie between the same two ranks. Sends are under way until the step's end; receives wait. */
#include "dist/parallel/pipeline.h"
#include "autograd/glue.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "tensor/check_arguments.h"
#include <string.h>
#include <taper/ops.h>

enum { HEADER = TP_MAX_DIMS + 3 }; /* dtype, learns, ndim, shape */

typedef struct passing { /* a part on its way through a stage: between its forward and its backward */
    tp_tensor *input, *output, *loss;
} passing;
typedef struct sent {
    tp_work *work;
    tp_tensor *tensor;
} sent;

struct tp_pipeline {
    tp_group *group;
    tp_module **stages; /* retained */
    int64_t rank, ranks, each, parts;
    tp_pipeline_schedule schedule;
    tp_pipeline_loss loss;
    void *context;
    tpi_pipeline_step *order;
    passing *passing;    /* (each, parts) */
    tp_tensor **outputs; /* of the last stage, per part */
    sent *sent;          /* room for all of a step */
    int64_t nsent;
};

static int64_t number_of(const tp_pipeline *l, int64_t stage) { return stage * l->ranks + l->rank; }
static int64_t last_stage(const tp_pipeline *l) { return l->ranks * l->each - 1; }

/* ---- Messages ---- */
static bool send(tp_pipeline *l, tp_tensor *t, int64_t to, int64_t tag) {
    tp_work *work = t ? tp_dist_send(l->group, t, (int)to, tag) : NULL;
    if (work) l->sent[l->nsent++] = (sent){work, tp_retain(t)};
    return work != NULL;
}
static bool send_whole(tp_pipeline *l, tp_tensor *t, bool learns, int64_t stage, int64_t tag) {
    int64_t header[HEADER] = {tp_dtype_of(t), learns, tp_ndim(t)};
    for (int64_t i = 0; i < tp_ndim(t); i++) header[3 + i] = tp_size(t, i);
    bool ok = false;
    TP_NO_GRAD
        TP_SCOPE {
            const int64_t to = stage % l->ranks;
            ok = send(l, tp_from_data(header, TP_INT64, TP_INTS(HEADER)), to, tag) &&
                 send(l, tp_contiguous(tp_detach(t)), to, tag);
        }
    return ok;
}
/* For the innermost scope. */
static tp_tensor *receive(tp_pipeline *l, int64_t stage, int64_t tag, tp_device device) {
    const int from = (int)(stage % l->ranks);
    int64_t header[HEADER] = {0};
    tp_tensor *numbers = tp_zeros(TP_INTS(HEADER), .dtype = TP_INT64);
    if (!numbers || !tp_dist_wait(tp_dist_recv(l->group, numbers, from, tag))) return NULL;
    if (!tp_copy_out(numbers, header, sizeof header)) return NULL;
    if (header[2] < 0 || header[2] > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_RUNTIME, "tp_pipeline_step: rank %d sent %lld dims", from, (long long)header[2]);
    tp_tensor *t = tp_empty(tp_ints_view(header + 3, header[2]), .dtype = (tp_dtype)header[0], .device = device);
    if (!t || !tp_dist_wait(tp_dist_recv(l->group, t, from, tag))) return NULL;
    return header[1] ? tp_set_requires_grad(t, true) : t;
}

/* ---- One part ---- */
static void forget(passing *p) {
    tp_release(p->input);
    tp_release(p->output);
    tp_release(p->loss);
    *p = (passing){.input = NULL};
}

static tp_device device_of(tp_module *stage) {
    tp_state all = tp_module_parameters(stage);
    const tp_device device = all.n > 0 ? tp_device_of(all.tensors[0]) : tp_default_device();
    tp_state_free(all);
    return device;
}

static bool forward(tp_pipeline *l, tpi_pipeline_step step, tp_tensor *input, tp_tensor *target, double *sum) {
    tp_module *stage = l->stages[step.stage];
    passing *p = &l->passing[step.stage * l->parts + step.part];
    const int64_t number = number_of(l, step.stage);
    tp_tensor *x = number ? receive(l, number - 1, 2 * number, device_of(stage)) : input;
    tp_tensor *y = x ? tp_forward(stage, x) : NULL;
    if (!y) return false;
    p->input = tp_retain(x);
    p->output = tp_retain(y);
    const bool learns = l->loss && tp_requires_grad(y);
    if (number < last_stage(l)) {
        const bool ok = send_whole(l, y, learns, number + 1, 2 * (number + 1));
        if (!l->loss) forget(p);
        return ok;
    }
    l->outputs[step.part] = tp_retain(tp_detach(y));
    if (!l->loss) {
        forget(p);
        return true;
    }
    tp_tensor *loss = tp_div(l->loss(y, target, l->context), (double)l->parts);
    if (!loss) return tp_ok() ? tpi_refuse(TP_ERR_VALUE, "tp_pipeline_step: the loss is NULL") : false;
    p->loss = tp_retain(loss);
    *sum += tp_item(loss);
    return tp_ok();
}

static bool backward(tp_pipeline *l, tpi_pipeline_step step) {
    passing *p = &l->passing[step.stage * l->parts + step.part];
    const int64_t number = number_of(l, step.stage);
    bool ok = true;
    if (number == last_stage(l)) {
        if (tp_requires_grad(p->loss)) ok = tp_backward(p->loss);
    } else if (tp_requires_grad(p->output)) {
        tp_tensor *grad = receive(l, number + 1, 2 * (number + 1) + 1, tp_device_of(p->output));
        ok = grad && tp_backward(p->output, .gradient = grad);
    }
    if (ok && number && tp_requires_grad(p->input)) {
        tp_tensor *grad = tp_grad(p->input);
        ok = send_whole(l, grad ? grad : tp_zeros_like(p->input), false, number - 1, 2 * number + 1);
    }
    forget(p);
    return ok;
}

/* ---- A batch ---- */
static bool cut(const tp_pipeline *l, tp_tensor *batch, const char *argument, tp_tensors *parts) {
    if (!batch) return true;
    if (!tp_ndim(batch) || tp_size(batch, 0) < l->parts)
        return tpi_refuse(TP_ERR_VALUE, "tp_pipeline_step: argument '%s': shape %s cannot be cut into %lld parts",
                          argument, tpi_shape_text(tpi_shape(batch)), (long long)l->parts);
    *parts = tp_tensor_split(batch, l->parts);
    return parts->n == l->parts;
}

static bool all_sent(tp_pipeline *l, bool ok) {
    for (int64_t i = 0; i < l->nsent; i++) {
        if (ok)
            ok = tp_dist_wait(l->sent[i].work);
        else
            tp_work_release(l->sent[i].work);
        tp_release(l->sent[i].tensor);
    }
    l->nsent = 0;
    return ok;
}

static bool run(tp_pipeline *l, tp_tensors inputs, tp_tensors targets, double *sum) {
    const int64_t nsteps = 2 * l->each * l->parts;
    bool ok = true;
    for (int64_t i = 0; ok && i < nsteps; i++) {
        const tpi_pipeline_step t = l->order[i];
        TP_SCOPE {
            if (!t.backward)
                ok = forward(l, t, inputs.n ? inputs.v[t.part] : NULL, targets.n ? targets.v[t.part] : NULL, sum);
            else if (l->loss)
                ok = backward(l, t);
        }
    }
    return ok;
}

bool tp_pipeline_step(tp_pipeline *l, tp_tensor *input, tp_tensor *target, double *loss, tp_tensor **output) {
    if (TPI_ENDED(input, "a tensor") || TPI_ENDED(target, "a tensor")) return false;
    if (!tpi_given(l, __func__, "line", "a pipeline")) return false;
    if (!tpi_sound_tensor(input, "input") || !tpi_sound_tensor(target, "target")) return false;
    if (!l->rank && !tpi_is_tensor(input, "input")) return false;
    double sum = 0;
    bool ok = false;
    TP_SCOPE {
        tp_tensors inputs = {.n = 0}, targets = {.n = 0};
        ok = (l->rank || cut(l, input, "input", &inputs)) && cut(l, target, "target", &targets);
        ok = ok && run(l, inputs, targets, &sum);
    }
    ok = all_sent(l, ok);
    for (int64_t i = 0; i < l->each * l->parts; i++) forget(&l->passing[i]);
    tp_tensor *whole = NULL;
    if (ok && output && tp_pipeline_is_last(l)) {
        whole = tp_cat(tp_list(l->parts, l->outputs));
        ok = whole != NULL;
    }
    for (int64_t i = 0; i < l->parts; i++) {
        tp_release(l->outputs[i]);
        l->outputs[i] = NULL;
    }
    if (loss) *loss = sum;
    if (output) *output = whole;
    return ok;
}

/* ---- Making ---- */
static void *cleared(size_t bytes) {
    void *block = tpi_malloc(bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

static bool is_sound(const tp_pipeline_options *o, int64_t ranks) {
    if (o->parts < 0 || o->parts > INT32_MAX)
        return tpi_refuse(TP_ERR_VALUE, "tp_pipeline_new: option 'parts': expected 0 or more, got %lld",
                          (long long)o->parts);
    if (!tpi_sound_choice(o->schedule, TP_PIPELINE_SCHEDULES, "schedule", "a schedule")) return false;
    for (int64_t i = 0; i < o->nmore; i++)
        if (!tpi_given(o->more[i], "tp_pipeline_new", "more", "a module")) return false;
    return ranks > 0 && tp_ok();
}

tp_pipeline *tp_pipeline_new_with(tp_module *stage, const tp_pipeline_options *options) {
    tp_pipeline_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (options && o.size <= 0) return NULL;
    if (!tpi_given(stage, __func__, "stage", "a module") || !tpi_list_there(o.more, o.nmore, __func__, "more"))
        return NULL;
    const int64_t ranks = tp_group_size(o.group);
    if (!is_sound(&o, ranks)) return NULL;
    tp_pipeline *l = tpi_malloc(sizeof *l);
    if (!l) return NULL;
    *l = (tp_pipeline){.group = o.group,
                       .rank = tp_group_rank(o.group),
                       .ranks = ranks,
                       .each = o.nmore + 1,
                       .parts = o.parts ? o.parts : ranks * (o.nmore + 1),
                       .schedule = o.schedule,
                       .loss = o.loss,
                       .context = o.context};
    tpi_handle_made(l, "pipeline");
    const size_t passes = (size_t)(l->each * l->parts);
    l->stages = cleared(sizeof *l->stages * (size_t)l->each);
    l->passing = cleared(sizeof *l->passing * passes);
    l->outputs = cleared(sizeof *l->outputs * (size_t)l->parts);
    l->sent = cleared(sizeof *l->sent * passes * 4);
    l->order = tpi_pipeline_order(l->schedule, l->rank, ranks, l->each, l->parts);
    if (!l->stages || !l->passing || !l->outputs || !l->sent || !l->order) {
        tp_pipeline_free(l);
        return NULL;
    }
    for (int64_t i = 0; i < l->each; i++) l->stages[i] = tp_module_retain(i ? o.more[i - 1] : stage);
    return l;
}

bool tp_pipeline_is_first(const tp_pipeline *l) { return tpi_given(l, __func__, "line", "a pipeline") && l->rank == 0; }
bool tp_pipeline_is_last(const tp_pipeline *l) {
    return tpi_given(l, __func__, "line", "a pipeline") && l->rank == l->ranks - 1;
}

void tp_pipeline_free(tp_pipeline *l) {
    if (!TPI_ENDS(l, "line", "a pipeline")) return;
    for (int64_t i = 0; l->stages && i < l->each; i++) tp_module_release(l->stages[i]);
    tpi_mfree(l->stages);
    tpi_mfree(l->passing);
    tpi_mfree(l->outputs);
    tpi_mfree(l->sent);
    tpi_mfree(l->order);
    tpi_handle_mfree(l);
}
