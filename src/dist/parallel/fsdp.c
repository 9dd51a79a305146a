/* Fully sharded training. A unit's parameters lie one after the other in a flat tensor, cut into as many equal parts as
 * there are ranks. To make them whole, parts are gathered into fresh memory, and each parameter becomes a view of it by
 * tp_set_data; afterwards it becomes a NaN that is expanded to its shape, and the memory goes as soon as nothing looks
 * at it. What the tape saved is the parameter itself, so it sees the gathered values again in the backward.
 *
 * Hooks drive it: before a unit's forward parameters are gathered; the gradient of its result gathers them again; when
 * the last of its gradients has arrived they are reduced and scattered, and the next unit's backward runs meanwhile. */
#include "autograd/glue.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "dist/collective/group.h"
#include "nn/layer.h"
#include "tensor/check_arguments.h"
#include <math.h>
#include <string.h>
#include <taper/fsdp.h>
#include <taper/ops.h>

typedef struct held { /* a parameter of a unit */
    tp_tensor *parameter;
    tp_tensor *nothing; /* what stands for its values while it is in parts; owned */
    int64_t at;         /* of its first element in the flat tensor */
    int64_t hook;       /* tp_add_accumulated_hook; 0: it requires no gradient */
} held;

typedef struct unit {
    tp_fsdp *fsdp;
    tp_module *module;
    held *held;
    int64_t n, each;               /* parameters; elements of a part */
    tp_tensor *whole;              /* the flat tensor while the unit is whole */
    tp_tensor *sending, *received; /* gradients on their way: all of them, and this rank's part of the sum */
    tp_work *work;
    int64_t before, after; /* hooks of the module */
    int64_t awaited;       /* gradients that have not arrived in the backward that runs */
    bool in_backward;      /* a gradient reached the unit's result */
    bool reduced;          /* and its own gradients are on their way, or were added */
} unit;

struct tp_fsdp {
    tp_group *group;
    tp_module *net;
    unit *units;
    int64_t n;
    tp_tensor **parts; /* per unit; leaves */
    bool keep, paused;
    int64_t world;
};

/* ---- Whole and in parts ---- */
static bool gather(unit *u) {
    if (u->whole) return true;
    bool ok = false;
    TP_NO_GRAD
        TP_SCOPE {
            tp_fsdp *f = u->fsdp;
            tp_tensor *part = tp_detach(f->parts[u - f->units]);
            tp_tensor *whole =
                part ? tp_empty(TP_INTS(u->each * f->world), .dtype = tp_dtype_of(part), .device = tp_device_of(part))
                     : NULL;
            ok = whole && tp_dist_wait(tp_dist_all_gather_into(f->group, whole, part));
            for (int64_t i = 0; ok && i < u->n; i++) {
                held *h = &u->held[i];
                tp_tensor *flat = tp_narrow(whole, 0, h->at, tp_numel(h->parameter));
                tp_tensor *view = tp_view(flat, tpi_shape(h->parameter));
                ok = view && tp_set_data(h->parameter, view);
            }
            if (ok) u->whole = tp_retain(whole);
        }
    return ok;
}

static bool drop(unit *u) {
    bool ok = true;
    for (int64_t i = 0; u->whole && i < u->n; i++) ok = tp_set_data(u->held[i].parameter, u->held[i].nothing) && ok;
    tp_release(u->whole);
    u->whole = NULL;
    return ok;
}

/* This rank's part of a flat tensor of the whole unit. */
static tp_tensor *own(const unit *u, tp_tensor *flat) {
    return tp_narrow(flat, 0, tp_group_rank(u->fsdp->group) * u->each, u->each);
}

/* ---- Gradients ---- */
/* One flat tensor of all gradients, over the number of ranks; zeros where there is none. */
static tp_tensor *packed(unit *u) {
    tp_tensor *part = u->fsdp->parts[u - u->fsdp->units];
    tp_tensor *all =
        tp_zeros(TP_INTS(u->each * u->fsdp->world), .dtype = tp_dtype_of(part), .device = tp_device_of(part));
    for (int64_t i = 0; all && i < u->n; i++) {
        tp_tensor *grad = u->held[i].hook ? tp_grad(u->held[i].parameter) : NULL;
        if (grad) tp_copy_(tp_narrow(all, 0, u->held[i].at, tp_numel(grad)), tp_reshape(grad, TP_INTS(-1)));
    }
    return all ? tp_div_(all, (double)u->fsdp->world) : NULL;
}

static bool start_reducing(unit *u) {
    u->reduced = true;
    if (u->fsdp->paused) return drop(u);
    bool ok = false;
    TP_NO_GRAD
        TP_SCOPE {
            tp_tensor *all = packed(u);
            tp_tensor *mine = all ? tp_empty_like(own(u, all)) : NULL;
            u->work = mine ? tp_dist_reduce_scatter_of(u->fsdp->group, mine, all, TP_REDUCE_SUM) : NULL;
            ok = u->work != NULL;
            if (ok) {
                u->sending = tp_retain(all);
                u->received = tp_retain(mine);
            }
        }
    for (int64_t i = 0; ok && i < u->n; i++) tp_set_grad(u->held[i].parameter, NULL);
    return drop(u) && ok;
}

static bool finish_reducing(unit *u) {
    tp_work *work = u->work;
    u->work = NULL;
    bool ok = !work || tp_dist_wait(work);
    tp_tensor *part = u->fsdp->parts[u - u->fsdp->units];
    if (work && ok) {
        tp_tensor *had = tp_grad(part);
        TP_NO_GRAD
            TP_SCOPE
                ok = had ? tp_add_(had, u->received) != NULL : tp_set_grad(part, u->received);
    }
    tp_release(u->sending);
    tp_release(u->received);
    u->sending = u->received = NULL;
    return ok;
}

/* ---- Hooks ---- */
static bool arrived(tp_tensor *parameter, void *context) {
    (void)parameter;
    unit *u = context;
    if (!u->in_backward || u->reduced || --u->awaited) return true;
    for (int64_t i = 0; i < u->fsdp->n; i++) /* one unit's gradients are on their way at a time */
        if (u->fsdp->units[i].work && !finish_reducing(&u->fsdp->units[i])) return false;
    return start_reducing(u);
}

static tp_tensor *before_backward(tp_tensor *grad, void *context) {
    (void)grad;
    unit *u = context;
    if (!u->in_backward) {
        u->in_backward = true;
        u->reduced = false;
        u->awaited = 0;
        for (int64_t i = 0; i < u->n; i++) u->awaited += u->held[i].hook != 0;
    }
    if (!u->reduced) gather(u); /* an error that it leaves stops the backward */
    return NULL;
}

static bool before_forward(tp_module *m, int64_t nargs, tp_value *args, void *context) {
    (void)m;
    (void)nargs;
    (void)args;
    return gather(context);
}

static bool after_forward(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results,
                          void *context) {
    (void)m;
    (void)nargs;
    (void)args;
    unit *u = context;
    bool ok = true;
    for (int64_t i = 0; ok && tp_grad_enabled() && i < nresults; i++) {
        tp_tensor *t = results[i].kind == TP_K_TENSOR ? results[i].as.tensor : NULL;
        if (t && tp_requires_grad(t) && !tp_is_leaf(t)) ok = tp_add_hook(t, before_backward, u, NULL) > 0;
    }
    /* The network's own unit is the first that the backward needs. */
    const bool stays = (u->fsdp->keep || u->module == u->fsdp->net) && tp_grad_enabled();
    return (stays || drop(u)) && ok;
}

/* ---- Making ---- */
static bool belongs(const tp_fsdp *f, const tp_tensor *t) {
    for (int64_t k = 0; k < f->n; k++)
        for (int64_t i = 0; i < f->units[k].n; i++)
            if (f->units[k].held[i].parameter == t) return true;
    return false;
}

static tp_tensor *nothing_like(tp_tensor *parameter) {
    tp_tensor *nan = tp_full(tp_no_ints(), NAN, .dtype = tp_dtype_of(parameter), .device = tp_device_of(parameter));
    tp_tensor *view = tp_expand(nan, tpi_shape(parameter));
    return view ? tp_retain(view) : NULL;
}

/* Takes the parameters of a module that no unit has. */
static bool collect(tp_fsdp *f, unit *u, tp_module *m) {
    tp_state all = tp_module_parameters(m);
    if (all.n < 0) return false;
    u->fsdp = f;
    u->module = m;
    u->held = tpi_malloc(sizeof *u->held * (size_t)(all.n + 1));
    bool ok = u->held != NULL;
    int64_t elements = 0;
    for (int64_t i = 0; ok && i < all.n; i++) {
        tp_tensor *p = all.tensors[i];
        if (belongs(f, p)) continue;
        if (u->n && (p->dtype != u->held[0].parameter->dtype))
            ok = tpi_refuse(TP_ERR_TYPE, "tp_fsdp_new: the parameters of a unit have one dtype, %s has %s and %s",
                            tp_module_name(m), tp_dtype_name((tp_dtype)u->held[0].parameter->dtype),
                            tp_dtype_name((tp_dtype)p->dtype));
        if (!ok) break;
        u->held[u->n++] = (held){.parameter = p, .at = elements};
        elements += tp_numel(p);
    }
    tp_state_free(all);
    u->each = (elements + f->world - 1) / f->world;
    return ok;
}

/* Cuts this rank's part out of whole parameters, and hangs the hooks in. */
static bool cut(tp_fsdp *f, unit *u) {
    bool ok = true;
    tp_tensor **part = &f->parts[u - f->units];
    TP_NO_GRAD
        TP_SCOPE {
            tp_tensor *first = u->held[0].parameter;
            tp_tensor *flat =
                tp_zeros(TP_INTS(u->each * f->world), .dtype = tp_dtype_of(first), .device = tp_device_of(first));
            for (int64_t i = 0; i < u->n; i++) {
                tp_tensor *p = tp_reshape(tp_detach(u->held[i].parameter), TP_INTS(-1));
                if (p && flat) tp_copy_(tp_narrow(flat, 0, u->held[i].at, tp_numel(p)), p);
                u->held[i].nothing = nothing_like(u->held[i].parameter);
            }
            tp_tensor *mine = tp_clone(own(u, flat));
            ok = tp_ok() && mine && (*part = tp_retain(mine));
        }
    bool learns = false;
    for (int64_t i = 0; ok && i < u->n; i++) {
        held *h = &u->held[i];
        if (tp_requires_grad(h->parameter))
            ok = (h->hook = tp_add_accumulated_hook(h->parameter, arrived, u, NULL)) > 0;
        learns = learns || h->hook;
        ok = ok && tp_set_data(h->parameter, h->nothing);
    }
    ok = ok && tp_set_requires_grad(*part, learns);
    ok = ok && (u->before = tp_module_add_prehook(u->module, before_forward, u, NULL)) > 0;
    return ok && (u->after = tp_module_add_forward_hook(u->module, after_forward, u, NULL)) > 0;
}

static bool same_everywhere(tp_fsdp *f, tp_state state) {
    bool ok = state.n >= 0;
    for (int64_t i = 0; ok && i < state.n; i++) ok = tp_dist_wait(tp_dist_broadcast(f->group, state.tensors[i], 0));
    tp_state_free(state);
    return ok;
}

static bool make_units(tp_fsdp *f, int64_t n, tp_module *const *modules) {
    const int64_t count = n ? n : tp_module_child_count(f->net);
    const size_t capacity = (size_t)(count + 1);
    f->units = tpi_malloc(sizeof *f->units * capacity);
    f->parts = tpi_malloc(sizeof *f->parts * capacity);
    if (!f->units || !f->parts) return false;
    memset(f->units, 0, sizeof *f->units * capacity);
    memset(f->parts, 0, sizeof *f->parts * capacity);
    for (int64_t i = 0; i <= count; i++) { /* the network itself comes last: what is left */
        tp_module *m = i == count ? f->net : n ? modules[i] : tp_module_child_at(f->net, i, NULL);
        unit *u = &f->units[f->n];
        if (!m || !collect(f, u, m)) return false;
        if (u->n) {
            f->n++;
            continue;
        }
        tpi_mfree(u->held);
        *u = (unit){0};
    }
    for (int64_t i = 0; i < f->n; i++)
        if (!cut(f, &f->units[i])) return false;
    return true;
}

tp_fsdp *tp_fsdp_new_with(tp_module *net, const tp_fsdp_options *options) {
    tp_fsdp_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (options && o.size <= 0) return NULL;
    if (!tpi_given(net, __func__, "net", "a module") || !tpi_list_there(o.units, o.nunits, __func__, "units"))
        return NULL;
    tp_fsdp *f = tpi_malloc(sizeof *f);
    if (!f) return NULL;
    *f = (tp_fsdp){.group = o.group, .net = net, .keep = o.keep_after_forward, .world = tp_group_size(o.group)};
    tpi_handle_made(f, "fsdp");
    if (f->world > 0 && tp_ok() && same_everywhere(f, tp_module_parameters(net)) &&
        same_everywhere(f, tp_module_buffers(net)) && make_units(f, o.nunits, o.units))
        return f;
    tp_fsdp_free(f);
    return NULL;
}

static void unit_free(tp_fsdp *f, unit *u) {
    if (u->work) tp_work_wait(u->work, -1);
    tp_work_release(u->work);
    if (u->before) tp_module_remove_hook(u->module, u->before);
    if (u->after) tp_module_remove_hook(u->module, u->after);
    for (int64_t i = 0; i < u->n; i++) {
        if (u->held[i].hook) tp_remove_hook(u->held[i].parameter, u->held[i].hook);
        tp_release(u->held[i].nothing);
    }
    tp_release(u->whole);
    tp_release(u->sending);
    tp_release(u->received);
    tp_release(f->parts[u - f->units]);
    tpi_mfree(u->held);
}

void tp_fsdp_free(tp_fsdp *f) {
    if (!TPI_ENDS(f, "fsdp", "an fsdp")) return;
    for (int64_t i = 0; i < f->n; i++) unit_free(f, &f->units[i]);
    tpi_mfree(f->units);
    tpi_mfree(f->parts);
    tpi_handle_mfree(f);
}

/* ---- Using ---- */
#define given(f) tpi_given(f, __func__, "fsdp", "an fsdp")

tp_tensors tp_fsdp_parts(const tp_fsdp *f) {
    return given(f) ? (tp_tensors){.n = f->n, .v = f->parts} : (tp_tensors){.n = 0};
}

bool tp_fsdp_finish(tp_fsdp *f) {
    if (!given(f)) return false;
    bool ok = true;
    for (int64_t i = f->n - 1; i >= 0; i--) { /* those that not all gradients reached, in one order on all ranks */
        unit *u = &f->units[i];
        if (u->in_backward && !u->reduced) ok = start_reducing(u) && ok;
        ok = finish_reducing(u) && ok;
        u->in_backward = u->reduced = false;
        ok = drop(u) && ok;
    }
    return ok;
}

void tp_fsdp_pause(tp_fsdp *f, bool on) {
    if (given(f)) f->paused = on;
}

double tp_fsdp_clip_grad_norm(tp_fsdp *f, double max_norm) {
    if (!given(f)) return NAN;
    double norm = NAN;
    TP_NO_GRAD
        TP_SCOPE {
            double squares = 0;
            for (int64_t i = 0; i < f->n; i++) {
                tp_tensor *grad = tp_grad(f->parts[i]);
                if (grad) squares += tp_item(tp_sum(tp_square(tp_to(grad, .dtype = TP_FLOAT64))));
            }
            tp_tensor *all = tp_full(TP_INTS(1), squares, .dtype = TP_FLOAT64);
            if (all && tp_dist_wait(tp_dist_all_reduce(f->group, all, TP_REDUCE_SUM))) norm = sqrt(tp_item(all));
            const double scale = max_norm / (norm + 1e-6);
            for (int64_t i = 0; scale < 1 && i < f->n; i++) {
                tp_tensor *grad = tp_grad(f->parts[i]);
                if (grad) tp_mul_(grad, scale);
            }
        }
    return tp_ok() ? norm : NAN;
}

bool tp_fsdp_unshard(tp_fsdp *f) {
    if (!given(f)) return false;
    for (int64_t i = 0; i < f->n; i++)
        if (!gather(&f->units[i])) return false;
    return true;
}

bool tp_fsdp_reshard(tp_fsdp *f, bool with_changes) {
    if (!given(f)) return false;
    bool ok = true;
    for (int64_t i = 0; i < f->n; i++) {
        unit *u = &f->units[i];
        if (u->whole && with_changes)
            TP_NO_GRAD
                TP_SCOPE
                    ok = tp_copy_(tp_detach(f->parts[i]), own(u, u->whole)) != NULL && ok;
        ok = drop(u) && ok;
    }
    return ok;
}
