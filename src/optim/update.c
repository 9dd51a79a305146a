/* One step. The parameters of all groups are laid end to end and cut into chunks of a fixed number of elements, which
 * the threads take; a chunk goes through its parameters block by block. Parameter, gradient and state that lie in
 * memory alike and hold the compute type are used where they are; others are gathered and converted. Half and bfloat16
 * compute in float, complex numbers as pairs of reals.
 *
 * An element's new value depends on its own numbers alone, so neither threads nor chunks show in the result. Everything
 * that can fail comes before the first write. */
#include "optim/update.h"
#include "tensor/check_arguments.h"
#include "base/threads.h"
#include "device/cpu/convert.h"
#include "device/cpu/cpu.h"
#include "tensor/same_device.h"
#include <math.h>
#include <string.h>

enum { MAX_ARGS = 2 + TPI_MAX_SLOTS, BLOCK = 512, CHUNK = 8192, WORTH_WAKING = 1 << 18 };

typedef struct item { /* one parameter's part */
    int64_t from;     /* where it begins when all are laid end to end */
    const double *option;
    int64_t numel;        /* in reals */
    tp_dtype real;        /* the parameter's dtype, or that of its parts */
    bool first, in_place; /* in_place: the kernel works on the tensors' own memory */
    tpi_update_fn fn;
    tpi_plan *plan;       /* NULL: everything lies in memory in the same order, without holes */
    char *data[MAX_ARGS]; /* NULL where state is not kept */
    uint8_t dtype[MAX_ARGS];
    double scalar[TPI_MAX_SCALARS];
} item;

typedef struct job {
    int nargs;
    int64_t n, total;
    item *items;
} job;

static tp_dtype real_dtype(tp_dtype d) { return d == TP_COMPLEX64 ? TP_FLOAT32 : d == TP_COMPLEX128 ? TP_FLOAT64 : d; }
static tp_dtype compute_dtype(tp_dtype real) { return real == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32; }

/* ---- Running ---- */

static void run_in_place(const job *j, const item *it, int64_t at, int64_t n) {
    int64_t size = tpi_dtype_bytes[it->real];
    char *arg[MAX_ARGS];
    for (int k = 0; k < j->nargs; k++) arg[k] = it->data[k] ? it->data[k] + at * size : NULL;
    it->fn(n, arg, it->option, it->scalar, it->first);
}

/* Blocks through scratch memory. A plan's operands are the kept arguments in order. */
static void run_gathered(const job *j, const item *it, int64_t at, int64_t n) {
    _Alignas(64) char block[MAX_ARGS][BLOCK * 8];
    const int compute = (int)compute_dtype(it->real);
    while (n > 0) {
        int64_t m = n < BLOCK ? n : BLOCK;
        char *arg[MAX_ARGS];
        for (int k = 0, operand = 0; k < j->nargs; k++) {
            arg[k] = it->data[k] ? block[k] : NULL;
            if (!arg[k]) continue;
            const tpi_plan *p = it->plan;
            if (p)
                tpi_load_walk(&(tpi_walk){p->ndim, p->shape, p->stride[operand]}, at, m, p->data[operand], it->dtype[k],
                              block[k], compute);
            else
                TPI_ISA_PICK(tpi_convert_run)
            (m, it->data[k] + at * tpi_dtype_bytes[it->dtype[k]], it->dtype[k], block[k], compute);
            operand++;
        }
        it->fn(m, arg, it->option, it->scalar, it->first);
        for (int k = 0, operand = 0; k < j->nargs; k++) {
            if (!arg[k]) continue;
            const tpi_plan *p = it->plan;
            if (k != 1 && p)
                tpi_store_walk(&(tpi_walk){p->ndim, p->shape, p->stride[operand]}, at, m, block[k], compute,
                               p->data[operand], it->dtype[k]);
            else if (k != 1)
                TPI_ISA_PICK(tpi_convert_run)
            (m, block[k], compute, it->data[k] + at * tpi_dtype_bytes[it->dtype[k]], it->dtype[k]);
            operand++;
        }
        at += m;
        n -= m;
    }
}

static void run_item(const job *j, const item *it, int64_t at, int64_t n) {
    (it->in_place ? run_in_place : run_gathered)(j, it, at, n);
}

static void run_chunk(int64_t chunk, void *context) {
    const job *j = context;
    int64_t at = chunk * CHUNK, end = at + CHUNK < j->total ? at + CHUNK : j->total;
    int64_t low = 0, high = j->n - 1; /* the last item that begins at or before `at` */
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (j->items[middle].from <= at)
            low = middle;
        else
            high = middle - 1;
    }
    for (int64_t i = low; i < j->n && at < end; i++) {
        const item *it = &j->items[i];
        int64_t inside = at - it->from, left = it->numel - inside, n = left < end - at ? left : end - at;
        if (n <= 0) continue;
        run_item(j, it, inside, n);
        at += n;
    }
}

/* ---- Preparing ---- */

static bool same_device(const tp_tensor *a, const tp_tensor *b) {
    return tpi_same_device(tpi_device(a), tpi_device(b));
}

static bool check_param(const tp_tensor *p, const tp_tensor *g) {
    if (!tp_dtype_is_floating(p->dtype) && !tp_dtype_is_complex(p->dtype))
        return tpi_refuse(TP_ERR_RUNTIME, "a parameter must be floating or complex, not %s", tp_dtype_name(p->dtype));
    if (tpi_marked(p) || tpi_marked(g))
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "a parameter of shape %s, or its gradient, is a lazy conjugate or negative view, whose memory "
            "holds other values: make it from resolve_conj() or resolve_neg()",
            tpi_shape_text(tpi_shape(p)));
    if (!tpi_is_dense(p) && tpi_overlaps_itself(p))
        return tpi_refuse(TP_ERR_RUNTIME, "elements of a parameter of shape %s share memory",
                          tpi_shape_text(tpi_shape(p)));
    if (!g) return true;
    if (!tpi_same_shape(p, g))
        return tpi_refuse(TP_ERR_RUNTIME, "a parameter of shape %s has a gradient of shape %s",
                          tpi_shape_text(tpi_shape(p)), tpi_shape_text(tpi_shape(g)));
    if (tp_dtype_is_complex(g->dtype) != tp_dtype_is_complex(p->dtype))
        return tpi_refuse(TP_ERR_RUNTIME, "a parameter of dtype %s has a gradient of dtype %s", tp_dtype_name(p->dtype),
                          tp_dtype_name(g->dtype));
    return same_device(p, g) || tpi_refuse(TP_ERR_RUNTIME, "a parameter and its gradient are on different devices");
}

static bool check_state(const tp_tensor *p, const tp_tensor *s, const char *name, int shape) {
    if (shape == TPI_STATE_SCALAR)
        return (s->numel == 1 && !tp_dtype_is_complex(s->dtype) && tpi_device(s).type == TP_CPU) ||
               tpi_refuse(TP_ERR_RUNTIME, "state '%s': expected one number on the CPU, got shape %s", name,
                          tpi_shape_text(tpi_shape(s)));
    if (shape != TPI_STATE_LIKE) return true;
    if (!tpi_same_shape(p, s) || tp_dtype_is_complex(s->dtype) != tp_dtype_is_complex(p->dtype) || !same_device(p, s))
        return tpi_refuse(TP_ERR_RUNTIME, "state '%s': expected the parameter's shape %s, got %s", name,
                          tpi_shape_text(tpi_shape(p)), tpi_shape_text(tpi_shape(s)));
    return true;
}

/* Do the tensors lie in memory in the same order, without holes, so that all can be walked as one run? */
static bool lies_alike(int n, tp_tensor *const *t) {
    if (!tpi_is_dense(t[0])) return false;
    for (int k = 1; k < n; k++)
        for (int d = 0; d < t[0]->ndim; d++)
            if (t[0]->shape[d] > 1 && t[k]->strides[d] != t[0]->strides[d]) return false;
    return true;
}

/* A complex operand's plan counts complex numbers: an innermost dimension of two reals makes it count reals. */
static void split_complex(tpi_plan *p, int n) {
    for (int d = p->ndim; d > 0; d--) {
        p->shape[d] = p->shape[d - 1];
        for (int k = 0; k < n; k++) p->stride[k][d] = p->stride[k][d - 1];
    }
    p->shape[0] = 2;
    p->ndim++;
    p->numel *= 2;
    for (int k = 0; k < n; k++) {
        p->dtype[k] = (uint8_t)real_dtype(p->dtype[k]);
        p->stride[k][0] = tpi_dtype_bytes[p->dtype[k]];
    }
}

/* Settles where an item's numbers are. */
static bool set_arguments(item *it, int nargs, tp_tensor *const *arg) {
    tp_tensor *kept[MAX_ARGS];
    int n = 0;
    bool complex = tp_dtype_is_complex(arg[0]->dtype);
    it->real = real_dtype(arg[0]->dtype);
    it->numel = arg[0]->numel * (complex ? 2 : 1);
    bool alike = true;
    for (int k = 0; k < nargs; k++) {
        it->data[k] = arg[k] ? arg[k]->data : NULL;
        if (!arg[k]) continue;
        it->dtype[k] = (uint8_t)real_dtype(arg[k]->dtype);
        alike = alike && it->dtype[k] == it->real;
        kept[n++] = arg[k];
    }
    bool flat = lies_alike(n, kept);
    it->in_place = flat && alike && compute_dtype(it->real) == it->real;
    if (flat || !it->numel) return true;
    if (complex && arg[0]->ndim == TP_MAX_DIMS)
        return tpi_refuse(TP_ERR_RUNTIME, "a complex parameter of %d dims is more than can be updated", arg[0]->ndim);
    it->plan = tpi_new(sizeof *it->plan);
    if (!it->plan || !tpi_plan_make(it->plan, tpi_shape(arg[0]), 1, n, kept)) return false;
    if (complex) split_complex(it->plan, n);
    return true;
}

void tpi_update_scalars(const tp_optimiser_kind *kind, const tpi_update_entry *e, tpi_scalars *s) {
    double before[TPI_MAX_SLOTS] = {0};
    bool wide = true;
    int n = 0;
    for (int64_t k = 0; k < kind->nstates; k++) {
        if (kind->ops->slots[k].shape != TPI_STATE_SCALAR) continue;
        before[n++] = tp_scalar_to_double(tpi_load_scalar(e->state[k]->data, e->state[k]->dtype));
        wide = wide && e->state[k]->dtype == TP_FLOAT64;
    }
    if (s->option == e->option && s->wide == wide && memcmp(s->before, before, sizeof before) == 0) return;
    s->option = e->option;
    s->wide = wide;
    memcpy(s->before, before, sizeof before);
    memcpy(s->state, before, sizeof before);
    if (kind->ops->scalars) kind->ops->scalars(e->option, s->state, s->out, wide);
}

/* After the update: scalar state moves on, and the tape learns of the writes. */
static void finish(const tp_optimiser_kind *kind, const tpi_update_entry *e, tpi_scalars *s) {
    tpi_update_scalars(kind, e, s);
    tpi_touch(e->param);
    for (int64_t k = 0, n = 0; k < kind->nstates; k++) {
        if (!e->state[k]) continue;
        if (kind->ops->slots[k].shape == TPI_STATE_SCALAR)
            tpi_store_scalar(e->state[k]->data, e->state[k]->dtype, tp_float(s->state[n++]));
        tpi_touch(e->state[k]);
    }
}

/* ---- State ---- */

/* Does the parameter have this state? States of rows and of columns are for matrices, TPI_STATE_VECTOR is for others.
 */
bool tpi_update_needs(const tpi_update_slot *slot, unsigned flags, const tp_tensor *p) {
    if (slot->flag >= 0 && !(flags >> slot->flag & 1)) return false;
    if (slot->shape == TPI_STATE_ROWS || slot->shape == TPI_STATE_COLUMNS) return p->ndim > 1;
    return slot->shape != TPI_STATE_VECTOR || p->ndim <= 1;
}

static tp_tensor *make_state(int shape, double start, tp_tensor *p) {
    tp_tensor *s;
    if (shape == TPI_STATE_SCALAR)
        s = tpi_empty((tp_ints){p->shape, 0}, tp_default_dtype() == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32,
                      (tp_device){TP_CPU, 0});
    else if (shape == TPI_STATE_ROWS || shape == TPI_STATE_COLUMNS) {
        int64_t sizes[TP_MAX_DIMS];
        memcpy(sizes, p->shape, (size_t)p->ndim * sizeof *sizes);
        sizes[p->ndim - (shape == TPI_STATE_ROWS ? 1 : 2)] = 1;
        s = tpi_empty((tp_ints){sizes, p->ndim}, p->dtype, tpi_device(p));
    } else
        s = tpi_empty_like(p, p->dtype);
    bool complex = s && tp_dtype_is_complex(s->dtype);
    if (s && tpi_fill_data(s, complex ? tp_cplx(start, start) : tp_float(start))) return s;
    tpi_release(s);
    return NULL;
}

static void drop_made(const tp_optimiser_kind *kind, int64_t n, tpi_update_entry *entries) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < kind->nstates; k++)
            if (entries[i].made >> k & 1) {
                tpi_release(entries[i].state[k]);
                entries[i].state[k] = NULL;
            }
}

/* Makes the state that an entry lacks. */
static bool complete(const tp_optimiser_kind *kind, tpi_update_entry *e) {
    const tpi_update_ops *ops = kind->ops;
    const unsigned flags = ops->flags(e->option);
    double start[TPI_MAX_SLOTS];
    ops->starts(e->option, start);
    for (int64_t k = 0; k < kind->nstates; k++) {
        if (e->state[k] || !tpi_update_needs(&ops->slots[k], flags, e->param)) continue;
        if (!(e->state[k] = make_state(ops->slots[k].shape, start[k], e->param))) return false;
        e->made |= (uint8_t)(1 << k);
        e->first = e->first || ops->slots[k].shape != TPI_STATE_SCALAR;
    }
    return true;
}

/* ---- A step ---- */

static bool check_entry(const tp_optimiser_kind *kind, const tpi_update_entry *e) {
    if (!check_param(e->param, e->grad)) return false;
    const unsigned flags = kind->ops->flags(e->option);
    for (int64_t k = 0; k < kind->nstates; k++) {
        if (e->state[k] && tpi_update_needs(&kind->ops->slots[k], flags, e->param) &&
            !check_state(e->param, e->state[k], kind->states[k], kind->ops->slots[k].shape))
            return false;
    }
    return true;
}

/* What each parameter's update needs to run. */
static bool prepare(job *j, const tp_optimiser_kind *kind, int64_t n, const tpi_update_entry *entries) {
    const tpi_update_ops *ops = kind->ops;
    tpi_scalars s = {.option = NULL};
    for (int64_t i = 0; i < n; i++) {
        const tpi_update_entry *e = &entries[i];
        item *it = &j->items[j->n++];
        const unsigned flags = ops->flags(e->option);
        tp_tensor *arg[MAX_ARGS] = {e->param, e->grad};
        int nargs = 2;
        for (int64_t k = 0; k < kind->nstates; k++)
            if (ops->slots[k].shape != TPI_STATE_SCALAR)
                arg[nargs++] = tpi_update_needs(&ops->slots[k], flags, e->param) ? e->state[k] : NULL;
        it->plan = NULL;
        it->from = j->total;
        it->option = e->option;
        it->first = e->first;
        if (!set_arguments(it, nargs, arg)) return false;
        it->fn = ops->fn[tpi_cpu_isa][2 * flags + (compute_dtype(it->real) == TP_FLOAT64)];
        j->nargs = nargs;
        j->total += it->numel;
        tpi_update_scalars(kind, e, &s);
        memcpy(it->scalar, s.out, (size_t)ops->nscalars * sizeof *s.out);
    }
    return true;
}

static bool run_kernels(const tp_optimiser_kind *kind, int64_t n, const tpi_update_entry *entries) {
    size_t bytes = (size_t)n * sizeof(item);
    job j = {.items = tpi_alloc(bytes)};
    if (!j.items) return false;
    bool ok = prepare(&j, kind, n, entries);
    if (ok)
        (j.total < WORTH_WAKING ? tpi_parallel_for_brief : tpi_parallel_for)(
            tpi_ceil_div(j.total, CHUNK), j.total >= TPI_WORTH_THREADS, run_chunk, &j);
    for (int64_t i = 0; i < j.n; i++)
        if (j.items[i].plan) tpi_delete(j.items[i].plan, sizeof(tpi_plan));
    tpi_free(j.items, bytes);
    return ok;
}

/* Entries of the CPU first, then those of other devices, each in their order. */
static bool run_everywhere(const tp_optimiser_kind *kind, int64_t n, tpi_update_entry *entries) {
    int64_t here = 0;
    while (here < n && tpi_device(entries[here].param).type == TP_CPU) here++;
    for (int64_t i = here + 1; i < n; i++) {
        if (tpi_device(entries[i].param).type != TP_CPU) continue;
        tpi_update_entry one = entries[i];
        memmove(&entries[here + 1], &entries[here], (size_t)(i - here) * sizeof *entries);
        entries[here++] = one;
    }
    return (!here || run_kernels(kind, here, entries)) && (here == n || tpi_update_gpu(kind, n - here, entries + here));
}

static bool step(const tp_optimiser_kind *kind, int64_t n, tpi_update_entry *entries, bool start) {
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i++) ok = check_entry(kind, &entries[i]);
    for (int64_t i = 0; i < n && ok; i++) ok = complete(kind, &entries[i]);
    if (ok && !start) ok = kind->ops->native ? kind->ops->native(n, entries) : run_everywhere(kind, n, entries);
    if (!ok) drop_made(kind, n, entries);
    tpi_scalars s = {.option = NULL};
    for (int64_t i = 0; i < n && ok && !start; i++) finish(kind, &entries[i], &s);
    return ok;
}

static bool step_groups(const tp_optimiser_kind *kind, int64_t ngroups, const tp_update_group *groups, bool start) {
    int64_t most = 0, n = 0;
    for (int64_t g = 0; g < ngroups; g++) most += groups[g].n;
    size_t bytes = (size_t)most * sizeof(tpi_update_entry);
    tpi_update_entry *entries = tpi_alloc(bytes);
    if (!entries) return false;
    bool ok = true;
    for (int64_t g = 0; g < ngroups; g++)
        for (int64_t i = 0; i < groups[g].n && ok; i++) {
            const tp_update_group *from = &groups[g];
            ok = from->params[i] ||
                 tpi_refuse(TP_ERR_VALUE, "parameter %lld of group %lld is NULL", (long long)i, (long long)g);
            if (!start && !from->grads[i]) continue;
            entries[n++] = (tpi_update_entry){
                from->values, from->params[i], start ? NULL : from->grads[i], from->states + i * kind->nstates, 0,
                false};
        }
    ok = ok && step(kind, n, entries, start);
    tpi_free(entries, bytes);
    return ok;
}

bool tp_optimiser_update(const tp_optimiser_kind *kind, int64_t ngroups, const tp_update_group *groups) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(kind, "a kind of optimiser") || !TPI_LIST_GIVEN(groups, ngroups)) return false;
    const char *outer = tpi_op_enter(kind->name);
    bool ok = step_groups(kind, ngroups, groups, false);
    tpi_op_leave(outer);
    return ok;
}

bool tp_optimiser_start(const tp_optimiser_kind *kind, int64_t ngroups, const tp_update_group *groups) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(kind, "a kind of optimiser") || !TPI_LIST_GIVEN(groups, ngroups)) return false;
    const char *outer = tpi_op_enter(kind->name);
    bool ok = step_groups(kind, ngroups, groups, true);
    tpi_op_leave(outer);
    return ok;
}

/* ---- The table ---- */

int64_t tp_optimiser_kind_count(void) {
    int64_t n = 0;
    while (tpi_optimiser_kinds[n]) n++;
    return n;
}
const tp_optimiser_kind *tp_optimiser_kind_at(int64_t i) {
    return i >= 0 && i < tp_optimiser_kind_count() ? tpi_optimiser_kinds[i] : NULL;
}
const tp_optimiser_kind *tp_optimiser_kind_named(const char *name) {
    if (!name) return NULL;
    for (int64_t i = 0; tpi_optimiser_kinds[i]; i++)
        if (!strcmp(tpi_optimiser_kinds[i]->name, name)) return tpi_optimiser_kinds[i];
    return NULL;
}
int64_t tp_optimiser_check(const tp_optimiser_kind *kind, const double *values) {
    if (!TPI_GIVEN(kind, "a kind of optimiser") || !TPI_GIVEN(values, "the options' values")) return -1;
    return kind->ops->check(values);
}
