/* Segments: runs of steps on one GPU that are started as one graph of its driver, so that the host pays for one launch
 * and the GPU does not wait between kernels.
 *
 * A segment runs step by step twice: kernels are compiled, libraries make their plans, and it is seen which inputs
 * change their addresses. The third run records it (record), later ones replay the recording (replay). Kernels and
 * their order are the same, so the bits are.
 *
 * Memory. A recording writes what it makes to the same addresses each time. Tensors of a run look at that memory
 * through storages that are lent (tpi_storage_lend), and it is replayed again only when none of these is left: so
 * nobody sees a result change. If some are left, as where gradients are summed over several steps, the run takes
 * another recording (there are up to MOST_RECORDINGS) or goes step by step. A program that keeps small results, as one
 * that lists its losses, gets copies of them. Inputs that come at other addresses are copied to where the recording
 * reads them; everything else that is read must be where it was. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <taper/gpu.h>
#include "tensor/same_device.h"
#include "autograd/glue.h"
#include "base/memory.h"
#include "device/gpu/driver.h"
#include "device/launch.h"
#include "graph/graph.h"
#include "tensor/check_arguments.h"
#include "tensor/storage.h"

enum {
    LEAST_STEPS = 2,     /* of a segment */
    RUNS_BEFORE = 2,     /* step by step */
    MOST_RECORDINGS = 2, /* kept of a segment */
    MOST_ATTEMPTS = 6,   /* at recording it: addresses that change each time are not worth more */
    SMALL_RESULT = 4096, /* bytes */
    ALIGNMENT = 64       /* what kernels and libraries choose their ways by: a copy lies as the input does */
};

struct tpi_segment_read { /* a value that is there before the segment runs, and is used in it */
    int32_t value;
    bool written; /* by a step of it */
    bool moves;   /* an input that was seen at several addresses */
    const char *last;
};
typedef struct tpi_segment_read segment_read;

typedef struct made_value { /* a value that is there when the segment has run, and was not before */
    int32_t value, memory;
    tp_tensor *like;   /* over the recording's memory */
    bool small_result; /* of the graph's, such as a loss, which no later step reads */
} made_value;

typedef struct made_memory {
    tpi_storage *storage; /* borrowed of those that look at it */
    int references;       /* while nobody has borrowed it */
} made_memory;

struct tpi_segment_recording {
    struct tpi_segment_recording *next;
    tp_gpu_graph *graph;
    tpi_gpu_stream *stream;
    unsigned switches;
    const char **addresses; /* per read: where it must be; NULL: it is copied */
    tp_tensor **copies;     /* per read: where to; NULL: it is not */
    made_value *made;
    made_memory *memory;
    int32_t nmade, nmemory;
};
typedef struct tpi_segment_recording recording;

static void *zeroed(size_t n, size_t bytes) { /* n of them, and one more */
    void *block = tpi_malloc((n + 1) * bytes);
    if (block) memset(block, 0, (n + 1) * bytes);
    return block;
}

/* ---- Finding them ---- */

static bool is_recordable_value(const tp_compiled *g, int32_t v, tp_device device) {
    if (v < 0) return true;
    const tpi_graph_value *root = &g->values[tpi_value_root(g, v)];
    return root->kind != TPI_VALUE_LEAF_GRAD && tpi_same_device(root->device, device);
}

/* A generator of the program's own is read by the host when a kernel is launched. */
static bool has_generator(const tpi_graph_step *s) {
    const tp_operator *op = s->op;
    for (int64_t i = 0; i < op->nargs; i++)
        if (s->args[i].kind == TP_K_GENERATOR && s->args[i].as.generator) return true;
    return false;
}

static bool is_recordable(const tp_compiled *g, const tpi_graph_step *s, tp_device device) {
    if (s->kind == TPI_STEP_CUSTOM || s->kind == TPI_STEP_ACCUMULATE || s->kind == TPI_STEP_FORGET ||
        s->kind == TPI_STEP_HAND_ON || (s->kind == TPI_STEP_CALL && has_generator(s)))
        return false;
    for (int k = 0; k < s->nin; k++)
        if (!is_recordable_value(g, s->in[k], device)) return false;
    for (int k = 0; k < s->nout; k++)
        if (!is_recordable_value(g, s->out[k], device)) return false;
    return true;
}

/* The GPU that the step may be recorded on; false: none. */
static bool device_of(const tp_compiled *g, const tpi_graph_step *s, tp_device *device) {
    int32_t v = s->nout && s->out[0] >= 0 ? s->out[0] : -1;
    if (v < 0) return false;
    *device = g->values[tpi_value_root(g, v)].device;
    if (!tpi_is_gpu(*device)) return false;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device->type);
    return driver && driver->capture_begin;
}

static double bytes_of(const tpi_graph_value *v) {
    return (double)tpi_numel_of(tpi_value_shape(v)) * (double)tpi_dtype_bytes[v->dtype];
}

typedef struct search {
    tp_compiled *g;
    tpi_gpu_segment **link;
    uint8_t *marks; /* per value, of the segment: what its steps do with it */
    bool *there;    /* per value: some step before the segment has made it */
} search;
enum { MADE = 1, READ = 2, WRITTEN = 4 };

/* Results come first: a call's prologue makes what the call itself reads. */
static void mark_uses(search *f, tpi_gpu_segment *segment, const tpi_graph_step *s) {
    const tp_compiled *g = f->g;
    for (int k = 0; k < s->nout; k++) {
        int32_t root = s->out[k] < 0 ? -1 : tpi_value_root(g, s->out[k]);
        if (root < 0 || f->marks[root] || f->there[root] || g->values[root].kind != TPI_VALUE_MADE) continue;
        f->marks[root] = MADE;
        segment->bytes += bytes_of(&g->values[root]);
    }
    for (int k = 0; k < s->nin; k++) {
        int32_t root = s->in[k] < 0 ? -1 : tpi_value_root(g, s->in[k]);
        if (root >= 0 && !(f->marks[root] & MADE)) f->marks[root] |= READ;
    }
    for (int32_t which = 0, root; (root = tpi_step_writes(g, s, which)) >= 0; which++)
        if (!(f->marks[root] & MADE)) f->marks[root] |= READ | WRITTEN;
}

static bool list_reads(search *f, tpi_gpu_segment *segment) {
    tp_compiled *g = f->g;
    memset(f->marks, 0, (size_t)g->nvalues);
    for (int32_t i = segment->from; i < segment->to; i++) mark_uses(f, segment, &g->steps[i]);
    segment->reads = tpi_graph_memory_alloc(&g->memory, (size_t)g->nvalues * sizeof *segment->reads + 1);
    if (!segment->reads) return false;
    for (int32_t v = 0; v < g->nvalues; v++)
        if (f->marks[v] & READ)
            segment->reads[segment->nreads++] = (segment_read){.value = v, .written = f->marks[v] & WRITTEN};
    return true;
}

static bool add_segment(search *f, int32_t from, int32_t to, tp_device device) {
    tp_compiled *g = f->g;
    if (to - from >= LEAST_STEPS) {
        tpi_gpu_segment *segment = tpi_graph_memory_alloc(&g->memory, sizeof *segment);
        if (!segment) return false;
        segment->from = from;
        segment->to = to;
        segment->device = device;
        if (!list_reads(f, segment)) return false;
        *f->link = segment;
        f->link = &segment->next;
    }
    for (int32_t i = from; i < to; i++)
        for (int k = 0; k < g->steps[i].nout; k++)
            if (g->steps[i].out[k] >= 0) f->there[tpi_value_root(g, g->steps[i].out[k])] = true;
    return true;
}

static bool find_between(search *f, int32_t from, int32_t to) {
    tp_compiled *g = f->g;
    for (int32_t i = from; i < to;) {
        tp_device device;
        int32_t end = i;
        if (device_of(g, &g->steps[i], &device))
            while (end < to && is_recordable(g, &g->steps[end], device)) end++;
        if (end == i) end++;
        if (!add_segment(f, i, end, device)) return false;
        i = end;
    }
    return true;
}

static bool are_disabled(void) {
    const char *wish = getenv("TAPER_GPU_GRAPHS");
    return wish && !strcmp(wish, "0");
}

bool tpi_graph_find_segments(tp_compiled *g) {
    if (are_disabled()) return true;
    search f = {.g = g, .link = &g->segments};
    f.marks = tpi_graph_memory_alloc(&g->memory, (size_t)g->nvalues + 1);
    f.there = tpi_graph_memory_alloc(&g->memory, (size_t)g->nvalues + 1);
    return f.marks && f.there && find_between(&f, 0, g->nforward) && find_between(&f, g->nforward, g->nsteps);
}

/* ---- Recordings ---- */

static void drop_recording(recording *r, int32_t nreads) {
    tp_gpu_graph_free(r->graph);
    for (int32_t i = 0; i < nreads && r->copies; i++)
        if (r->copies[i]) tpi_release(r->copies[i]);
    for (int32_t i = 0; i < r->nmade; i++) tpi_release(r->made[i].like);
    tpi_mfree(r->addresses);
    tpi_mfree(r->copies);
    tpi_mfree(r->made);
    tpi_mfree(r->memory);
    tpi_mfree(r);
}

void tpi_graph_drop_segments(tp_compiled *g) {
    for (tpi_gpu_segment *s = g->segments; s; s = s->next)
        while (s->recordings) {
            recording *r = s->recordings;
            s->recordings = r->next;
            drop_recording(r, s->nreads);
        }
}

/* What decides over kernels besides the steps: a recording is for one setting of all. */
static unsigned switches_now(void) {
    unsigned bits = (unsigned)tp_deterministic();
    for (int which = 0; which < TP_GPU_SWITCHES; which++) bits = bits * 2 + tp_gpu_is_on((tp_gpu_switch)which);
    return bits;
}

static bool is_free(const recording *r) {
    for (int32_t i = 0; i < r->nmemory; i++)
        if (atomic_load_explicit(&r->memory[i].storage->refs, memory_order_acquire) != r->memory[i].references)
            return false;
    return true;
}

static bool is_at_its_addresses(const recording *r, const tpi_gpu_segment *segment, tp_tensor **slots) {
    for (int32_t i = 0; i < segment->nreads; i++) {
        const char *now = slots[segment->reads[i].value]->data;
        if (r->addresses[i] && now != r->addresses[i]) return false;
        if (r->copies[i] && ((uintptr_t)now ^ (uintptr_t)r->copies[i]->data) % ALIGNMENT) return false;
    }
    return true;
}

static bool are_results_kept(const tpi_gpu_segment *segment) {
    for (const recording *r = segment->recordings; r; r = r->next)
        for (int32_t i = 0; i < r->nmade; i++) {
            const made_memory *m = &r->memory[r->made[i].memory];
            if (r->made[i].small_result &&
                atomic_load_explicit(&m->storage->refs, memory_order_acquire) != m->references)
                return true;
        }
    return false;
}

/* ---- Replaying ---- */

static bool fill_copies(const recording *r, const tpi_gpu_segment *segment, tp_tensor **slots) {
    for (int32_t i = 0; i < segment->nreads; i++)
        if (r->copies[i] && !tpi_copy_data(r->copies[i], slots[segment->reads[i].value])) return false;
    return true;
}

static tp_tensor *tensor_over(tpi_storage *storage, const tp_tensor *like) {
    tp_tensor *t = tpi_tensor_over(tpi_storage_retain(storage), (tp_dtype)like->dtype, tpi_shape(like),
                                   tpi_strides(like), like->data - like->storage->data);
    if (t) t->flags = like->flags;
    return t;
}

static bool lend_made(const recording *r, bool copies, tp_tensor **slots) {
    for (int32_t m = 0; m < r->nmemory; m++) {
        tpi_storage *lent = tpi_storage_lend(r->memory[m].storage);
        if (!lent) return false;
        for (int32_t i = 0; i < r->nmade; i++) {
            const made_value *made = &r->made[i];
            if (made->memory != m) continue;
            slots[made->value] =
                copies && made->small_result ? tpi_clone_data(made->like) : tensor_over(lent, made->like);
        }
        tpi_storage_release(lent);
    }
    for (int32_t i = 0; i < r->nmade; i++)
        if (!slots[r->made[i].value]) return false;
    return true;
}

static tpi_served replay(const tpi_segment_run *run, const tpi_gpu_segment *segment, const recording *r) {
    const tp_compiled *g = run->g;
    if (!fill_copies(r, segment, run->slots) || !tpi_gpu_fault_word(segment->device) ||
        !tp_gpu_graph_replay(r->graph) || !lend_made(r, segment->copies_results, run->slots))
        return TPI_FAILED;
    for (int32_t i = 0; i < segment->nreads; i++)
        if (segment->reads[i].written) tpi_touch(run->slots[segment->reads[i].value]);
    for (int32_t i = segment->from; i < segment->to; i++)
        for (int32_t d = 0; d < g->steps[i].ndead; d++) run->end(run->context, g->steps[i].dead[d]);
    return TPI_SERVED;
}

/* ---- Recording ---- */

static tpi_gpu_stream *stream_for_captures(tp_device device) {
    static tpi_gpu_stream *streams[2][TPI_MAX_GPUS];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    tpi_gpu_stream **slot = &streams[device.type == TP_XPU][device.index];
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    pthread_mutex_lock(&lock);
    if (!*slot && driver && !driver->stream_new(device.index, 0, slot)) *slot = NULL;
    pthread_mutex_unlock(&lock);
    return *slot;
}

static recording *new_recording(const tpi_gpu_segment *segment) {
    recording *r = zeroed(1, sizeof *r);
    if (!r) return NULL;
    r->addresses = zeroed((size_t)segment->nreads, sizeof *r->addresses);
    r->copies = zeroed((size_t)segment->nreads, sizeof *r->copies);
    r->graph = tp_gpu_graph_new();
    if (r->addresses && r->copies && r->graph) return r;
    drop_recording(r, segment->nreads);
    return NULL;
}

/* Another tensor in the slot of an input, and no views of the one that was there. */
static void put_copy(const tpi_segment_run *run, int32_t root, tp_tensor *copy) {
    tpi_release(run->slots[root]);
    run->slots[root] = tpi_retain(copy);
    for (int32_t v = 0; v < run->g->nvalues; v++)
        if (run->g->values[v].kind == TPI_VALUE_VIEW && run->g->values[v].of == root && run->slots[v])
            tpi_drop(&run->slots[v]);
}

static tp_tensor *copy_like(const tp_tensor *t, tp_device device) {
    int64_t offset = (int64_t)((uintptr_t)t->data % ALIGNMENT),
            bytes = tpi_span_bytes(tpi_shape(t), tpi_strides(t), (tp_dtype)t->dtype);
    tpi_storage *storage = bytes < 0 ? NULL : tpi_storage_new(device, (size_t)(bytes + offset));
    return storage ? tpi_tensor_over(storage, (tp_dtype)t->dtype, tpi_shape(t), tpi_strides(t), offset) : NULL;
}

/* An input that a step writes cannot be a copy. */
static bool locate_reads(const tpi_segment_run *run, tpi_gpu_segment *segment, recording *r) {
    for (int32_t i = 0; i < segment->nreads; i++) {
        const segment_read *read = &segment->reads[i];
        tp_tensor *t = run->slots[read->value];
        if (!read->moves) {
            r->addresses[i] = t->data;
            continue;
        }
        segment->never |= read->written;
        if (segment->never) return false;
        r->copies[i] = copy_like(t, segment->device);
        if (!r->copies[i]) return false;
        put_copy(run, read->value, r->copies[i]);
    }
    return true;
}

static bool capture_steps(const tpi_segment_run *run, tpi_gpu_segment *segment, recording *r) {
    tpi_gpu_stream *side = stream_for_captures(segment->device);
    if (!side || !tpi_gpu_set_captured_stream(segment->device, side)) return false;
    bool ok = tp_gpu_graph_begin(r->graph, segment->device, 0, TP_CAPTURE_THREAD_LOCAL);
    const bool begun = ok; /* if not, another thread may be capturing */
    for (int32_t i = segment->from; i < segment->to && ok; i++) {
        ok = run->step(run->context, i);
        for (int32_t d = 0; d < run->g->steps[i].ndead; d++) run->end(run->context, run->g->steps[i].dead[d]);
    }
    if (begun) ok = tp_gpu_graph_end(r->graph) && ok;
    segment->never = begun && !ok;
    tpi_gpu_set_captured_stream(segment->device, r->stream);
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)segment->device.type);
    return ok && driver->stream_sync(segment->device.index, side); /* what the capture itself wrote is there */
}

static int32_t memory_of(recording *r, tpi_storage *storage) {
    for (int32_t m = 0; m < r->nmemory; m++)
        if (r->memory[m].storage == storage) return m;
    r->memory[r->nmemory] = (made_memory){storage, 0};
    return r->nmemory++;
}

static bool is_of_before(tp_tensor *const *before, int32_t n, const tp_tensor *t) {
    for (int32_t v = 0; v < n; v++)
        if (before[v] && before[v]->storage == t->storage) return true;
    return false;
}

static bool is_small_result(const tp_compiled *g, int32_t v, const tp_tensor *t) {
    bool result = false;
    for (int32_t i = 0; i < g->noutputs; i++) result |= g->outputs[i] == v;
    for (int32_t i = 0; i < g->nsaved; i++) result &= g->saved[i] != v;
    for (int32_t i = 0; i < g->nvalues; i++) /* results that share memory are one piece */
        result &= g->values[i].kind != TPI_VALUE_VIEW || g->values[i].of != v;
    return result && t->numel * (int64_t)tpi_itemsize(t) <= SMALL_RESULT;
}

/* What the steps made and nobody has ended. Natives may hand through what they were given: that is nothing for a
 * recording. */
static bool keep_made(const tpi_segment_run *run, const tpi_gpu_segment *segment, recording *r,
                      tp_tensor *const *before) {
    int32_t n = run->g->nvalues;
    r->made = zeroed((size_t)n, sizeof *r->made);
    r->memory = zeroed((size_t)n, sizeof *r->memory);
    if (!r->made || !r->memory) return false;
    for (int32_t v = 0; v < n; v++) {
        tp_tensor *t = run->slots[v];
        if (!t || before[v]) continue;
        bool fine = !t->storage->foreign && !(t->flags & (TPI_MARKED | TPI_WRAPPED)) &&
                    tpi_same_device(tpi_device(t), segment->device);
        for (int32_t i = 0; i < segment->nreads; i++)
            fine = fine && (!r->copies[i] || r->copies[i]->storage != t->storage);
        bool view = run->g->values[v].kind == TPI_VALUE_VIEW;
        if (view && before[run->g->values[v].of]) continue; /* of what was there: it is made again when it is read */
        if (!fine || is_of_before(before, n, t)) return false;
        r->made[r->nmade++] = (made_value){v, memory_of(r, t->storage), tpi_retain(t), is_small_result(run->g, v, t)};
    }
    return true;
}

/* The slots as they were; what the steps made stays with the recording alone. */
static void restore(const tpi_segment_run *run, tp_tensor **before) {
    for (int32_t v = 0; v < run->g->nvalues; v++) {
        if (run->slots[v]) tpi_release(run->slots[v]);
        run->slots[v] = before[v];
    }
    tpi_delete(before, (size_t)run->g->nvalues * sizeof *before + 1);
}

static tp_tensor **slots_kept(const tpi_segment_run *run) {
    int32_t n = run->g->nvalues;
    tp_tensor **before = tpi_new0((size_t)n * sizeof *before + 1);
    for (int32_t v = 0; before && v < n; v++) before[v] = tpi_retain(run->slots[v]);
    return before;
}

/* NULL: it could not be recorded; an error stands only where there is no memory for the attempt itself. */
static recording *record(const tpi_segment_run *run, tpi_gpu_segment *segment) {
    recording *r = new_recording(segment);
    tp_tensor **before = r ? slots_kept(run) : NULL;
    if (!before) {
        if (r) drop_recording(r, segment->nreads);
        return NULL;
    }
    r->stream = tpi_gpu_stream_of(segment->device);
    r->switches = switches_now();
    bool ok = locate_reads(run, segment, r) && capture_steps(run, segment, r);
    if (ok && !keep_made(run, segment, r, before)) segment->never = true;
    restore(run, before);
    for (int32_t m = 0; m < r->nmemory; m++)
        r->memory[m].references = atomic_load_explicit(&r->memory[m].storage->refs, memory_order_acquire);
    if (ok && !segment->never) return r;
    tp_error_clear(); /* the steps run one by one, and say themselves if something is wrong */
    drop_recording(r, segment->nreads);
    return NULL;
}

/* ---- Running ---- */

/* Small ones alone, by default: a recording keeps its memory, and where kernels are large the host is ahead anyway. */
static bool pays(const tp_compiled *g, const tpi_gpu_segment *segment) {
    if (g->replay != TP_REPLAY_DEFAULT) return g->replay == TP_REPLAY_LAUNCH_ONCE;
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(segment->device);
    return caps && segment->bytes <= (double)caps->memory / 64 && !tpi_gpu_side_streams;
}

static bool is_input(const tpi_graph_value *v) { return v->kind == TPI_VALUE_INPUT || v->kind == TPI_VALUE_GRAD; }

static void watch_addresses(const tpi_segment_run *run, tpi_gpu_segment *segment) {
    for (int32_t i = 0; i < segment->nreads; i++) {
        segment_read *read = &segment->reads[i];
        const char *now = run->slots[read->value]->data;
        if (segment->nruns && read->last != now && is_input(&run->g->values[read->value])) read->moves = true;
        read->last = now;
    }
}

static bool has_all_reads(const tpi_segment_run *run, const tpi_gpu_segment *segment) {
    for (int32_t i = 0; i < segment->nreads; i++)
        if (!run->slots[segment->reads[i].value]) return false;
    return true;
}

static const recording *fitting(const tpi_segment_run *run, const tpi_gpu_segment *segment) {
    const tpi_gpu_stream *stream = tpi_gpu_stream_of(segment->device);
    unsigned switches = segment->recordings ? switches_now() : 0;
    for (const recording *r = segment->recordings; r; r = r->next)
        if (r->stream == stream && r->switches == switches && is_at_its_addresses(r, segment, run->slots) && is_free(r))
            return r;
    return NULL;
}

/* Room for one more: a recording that nobody uses goes. */
static bool reserve_recording(tpi_gpu_segment *segment) {
    if (segment->nrecordings < MOST_RECORDINGS) return true;
    for (recording **link = &segment->recordings; *link; link = &(*link)->next) {
        recording *r = *link;
        if (!is_free(r)) continue;
        *link = r->next;
        drop_recording(r, segment->nreads);
        segment->nrecordings--;
        return true;
    }
    return false;
}

static const recording *record_another(const tpi_segment_run *run, tpi_gpu_segment *segment) {
    if (segment->nruns < RUNS_BEFORE || segment->nattempts >= MOST_ATTEMPTS || !reserve_recording(segment)) return NULL;
    segment->nattempts++;
    recording *r = record(run, segment);
    if (!r) return NULL;
    r->next = segment->recordings;
    segment->recordings = r;
    segment->nrecordings++;
    return r;
}

tpi_served tpi_run_segment(const tpi_segment_run *run, tpi_gpu_segment *segment) {
    if (segment->never || !pays(run->g, segment) || tp_gpu_capturing(segment->device)) return TPI_DECLINED;
    if (atomic_exchange_explicit(&segment->busy, true, memory_order_acquire)) return TPI_DECLINED;
    tpi_served served = TPI_DECLINED;
    if (has_all_reads(run, segment)) {
        const recording *r = fitting(run, segment);
        if (!r) watch_addresses(run, segment);
        if (!r && are_results_kept(segment)) segment->copies_results = true;
        if (!r) r = record_another(run, segment);
        if (r)
            served = replay(run, segment, r);
        else if (!tp_ok())
            served = TPI_FAILED;
        else
            segment->nruns++;
    }
    atomic_store_explicit(&segment->busy, false, memory_order_release);
    return served;
}

bool tp_compiled_set_replay(tp_compiled *g, tp_replay how) {
    if (!TPI_GIVEN(g, "a graph")) return false;
    if (how < TP_REPLAY_DEFAULT || how > TP_REPLAY_STEPS)
        return tpi_refuse(TP_ERR_VALUE, "argument 'how': expected one of tp_replay's values, got %d", (int)how);
    g->replay = how;
    return true;
}
