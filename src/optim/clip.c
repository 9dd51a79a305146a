/* Clipping gradients: the norm of many tensors in one pass over fixed chunks of all of them, merged in the chunks'
 * order, and scaling in another. Tensors that are not dense float32 or float64 on the CPU, and other orders of norm, go
 * through the operators, one by one. */
#include <math.h>
#include "tensor/check_arguments.h"
#include <taper/autograd.h>
#include <taper/clip.h>
#include "autograd/node.h"
#include "dispatch/profile.h"
#include "base/threads.h"
#include "device/device.h"
#include "optim/clip.h"
#include "tpi_ops.h"

#define CHUNK 16384 /* elements */

typedef struct clip_job {
    tp_tensors tensors;
    int64_t *first;  /* each tensor's first chunk, and the number of chunks at the end */
    double *partial; /* one per chunk */
    int kind;
} clip_job;

static bool is_plain(const tp_tensor *t) {
    return tpi_device(t).type == TP_CPU && (t->dtype == TP_FLOAT32 || t->dtype == TP_FLOAT64) && tpi_is_dense(t);
}
static bool all_plain(tp_tensors tensors) {
    for (int64_t i = 0; i < tensors.n; i++)
        if (!is_plain(tensors.v[i])) return false;
    return true;
}

/* The tensor a chunk belongs to, and the chunk's elements in it. */
static tp_tensor *chunk_of(const clip_job *job, int64_t chunk, int64_t *at, int64_t *count) {
    int64_t low = 0, high = job->tensors.n;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (job->first[middle] <= chunk)
            low = middle;
        else
            high = middle;
    }
    tp_tensor *t = job->tensors.v[low];
    *at = (chunk - job->first[low]) * CHUNK;
    *count = t->numel - *at < CHUNK ? t->numel - *at : CHUNK;
    return t;
}
static void measure_chunk(int64_t chunk, void *context) {
    clip_job *job = context;
    int64_t at, n;
    const tp_tensor *t = chunk_of(job, chunk, &at, &n);
    job->partial[chunk] = t->dtype == TP_FLOAT32
                              ? TPI_ISA_PICK(tpi_clip_measure_f32)(job->kind, n, (const float *)t->data + at)
                              : TPI_ISA_PICK(tpi_clip_measure_f64)(job->kind, n, (const double *)t->data + at);
}
/* Cuts the tensors into chunks, with room for a result of each. False: no memory. */
static bool plan_chunks(clip_job *job) {
    int64_t n = job->tensors.n, chunks = 0;
    for (int64_t i = 0; i < n; i++) chunks += tpi_ceil_div(job->tensors.v[i]->numel, CHUNK);
    job->first = tpi_malloc((size_t)(n + 1 + chunks) * sizeof(int64_t));
    if (!job->first) return false;
    job->partial = (double *)(job->first + n + 1);
    for (int64_t i = chunks = 0; i < n; i++) {
        job->first[i] = chunks;
        chunks += tpi_ceil_div(job->tensors.v[i]->numel, CHUNK);
    }
    job->first[n] = chunks;
    return true;
}

static tp_tensor *norm_in_one_pass(tp_tensors tensors, int kind) {
    clip_job job = {.tensors = tensors, .kind = kind};
    if (!plan_chunks(&job)) return NULL;
    int64_t chunks = job.first[tensors.n];
    tpi_parallel_for(chunks, chunks > 4, measure_chunk, &job);
    double total = 0;
    for (int64_t c = 0; c < chunks; c++) {
        double part = job.partial[c];
        if (kind != TPI_CLIP_LARGEST)
            total += part;
        else if (part > total || isnan(part))
            total = part;
    }
    tpi_mfree(job.first);
    tp_dtype dtype = TP_FLOAT32;
    for (int64_t i = 0; i < tensors.n; i++)
        if (tensors.v[i]->dtype == TP_FLOAT64) dtype = TP_FLOAT64;
    return tpo_full((tp_ints){(int64_t[1]){0}, 0}, tp_float(kind == TPI_CLIP_SQUARES ? sqrt(total) : total), dtype,
                    tpi_device(tensors.v[0]));
}

static tp_tensor *norm_by_operators(tp_tensors tensors, double norm_type) {
    tp_tensors norms = {tpi_malloc((size_t)tensors.n * sizeof(tp_tensor *)), 0};
    if (!norms.v) return NULL;
    tp_tensor *stacked = NULL, *total = NULL;
    for (; norms.n < tensors.n; norms.n++)
        if (!(norms.v[norms.n] =
                  tpo_linalg_vector_norm(tensors.v[norms.n], tp_float(norm_type), tp_no_ints(), false, TP_NO_DTYPE)))
            break;
    if (norms.n == tensors.n && (stacked = tpo_stack(norms, 0)))
        total = tpo_linalg_vector_norm(stacked, tp_float(norm_type), tp_no_ints(), false, TP_NO_DTYPE);
    tpi_release(stacked);
    tpi_release_list(norms);
    return total;
}

static bool given(tp_tensors tensors) {
    for (int64_t i = 0; i < tensors.n; i++)
        if (!tensors.v[i])
            return tp_error() ? false
                              : tpi_refuse(TP_ERR_VALUE, "argument 'tensors': entry %lld is NULL", (long long)i);
    return true;
}

static tp_tensor *total_norm(tp_tensors tensors, double norm_type) {
    if (!given(tensors)) return NULL;
    if (!tensors.n) return tpo_full((tp_ints){(int64_t[1]){0}, 0}, tp_float(0), TP_NO_DTYPE, (tp_device){0});
    bool easy = norm_type == 2 || norm_type == 1 || norm_type == INFINITY;
    if (!easy || !all_plain(tensors)) return norm_by_operators(tensors, norm_type);
    return norm_in_one_pass(tensors, norm_type == 2   ? TPI_CLIP_SQUARES
                                     : norm_type == 1 ? TPI_CLIP_SUM
                                                      : TPI_CLIP_LARGEST);
}

/* max_norm / (total_norm + 1e-6), at most one, in the arithmetic of total_norm's dtype. */
static tp_tensor *coefficient(double max_norm, tp_tensor *total) {
    tp_tensor *wider = tpo_add(tp_operand_tensor(total), tp_operand_double(1e-6), tp_int(1));
    tp_tensor *inverse = wider ? tpo_reciprocal(wider) : NULL;
    bool ok =
        inverse && tpo_mul_(inverse, tp_operand_double(max_norm)) && tpo_clamp_(inverse, tp_no_scalar(), tp_float(1));
    tpi_release(wider);
    if (ok) return inverse;
    tpi_release(inverse);
    return NULL;
}

typedef struct scale_job {
    const tp_tensor *t;
    double by;
} scale_job;
static void scale_chunk(int64_t chunk, void *context) {
    const scale_job *job = context;
    int64_t at = chunk * CHUNK, n = job->t->numel - at < CHUNK ? job->t->numel - at : CHUNK;
    if (job->t->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_clip_scale_f32)(n, (float *)job->t->data + at, (float)job->by);
    else
        TPI_ISA_PICK(tpi_clip_scale_f64)(n, (double *)job->t->data + at, job->by);
}
/* One tensor after the other: the same one may stand in the list twice. */
static void scale_plain(tp_tensors tensors, double by) {
    for (int64_t i = 0; by != 1 && i < tensors.n; i++) {
        scale_job job = {tensors.v[i], by};
        int64_t chunks = tpi_ceil_div(job.t->numel, CHUNK);
        tpi_parallel_for(chunks, chunks > 4, scale_chunk, &job);
        tpi_touch(tensors.v[i]);
    }
}
static bool clip_to_norm(tp_tensors tensors, double max_norm, tp_tensor *total) {
    if (!given(tensors)) return false;
    if (!total)
        return tp_error() ? false : tpi_refuse(TP_ERR_VALUE, "argument 'total_norm': expected a tensor, got NULL");
    for (int64_t i = 0; i < tensors.n; i++)
        if (!tpi_check_inplace(tensors.v[i])) return false;
    tp_tensor *by = coefficient(max_norm, total);
    bool ok = by;
    if (ok && tpi_device(by).type == TP_CPU && all_plain(tensors))
        scale_plain(tensors, tp_item(by));
    else
        for (int64_t i = 0; ok && i < tensors.n; i++) ok = tpo_mul_(tensors.v[i], tp_operand_tensor(by));
    tpi_release(by);
    return ok;
}

/* ---- Both in graphs: one step each, whose context is the number ---- */

static bool measure_again(void *norm_type, tp_tensors in, tp_tensor **out) {
    return (out[0] = total_norm(in, *(const double *)norm_type)) != NULL;
}

static bool clip_again(void *max_norm, tp_tensors in, tp_tensor **out) {
    (void)out;
    return clip_to_norm((tp_tensors){in.v, in.n - 1}, *(const double *)max_norm, in.v[in.n - 1]);
}

/* False: there was no memory to tell of it. */
static bool tell(tpi_recorder *recorder, tpi_custom done, double number, tp_tensors in, tp_tensors out) {
    double *context = done.context = tpi_malloc(sizeof *context);
    if (!context) return false;
    *context = number;
    recorder->custom(recorder, &done, in, out);
    return true;
}

static bool tell_of_clip(tpi_recorder *recorder, tp_tensors tensors, double max_norm, tp_tensor *total) {
    tp_tensor **all = tpi_malloc((size_t)(tensors.n + 1) * sizeof *all);
    if (!all) return false;
    for (int64_t i = 0; i < tensors.n; i++) all[i] = tensors.v[i];
    all[tensors.n] = total;
    bool ok = tell(recorder, (tpi_custom){"clip_to_norm", clip_again, tpi_mfree, NULL}, max_norm,
                   (tp_tensors){all, tensors.n + 1}, (tp_tensors){NULL, 0});
    tpi_mfree(all);
    return ok;
}

tp_tensor *tp_total_norm(tp_tensors tensors, double norm_type) {
    if (!TPI_TENSORS_GIVEN(tensors)) return NULL;
    const char *before = tpi_op_enter("total_norm");
    tp_grad_mode mode = tp_grad_mode_enter(false, false);
    tpi_recorder *recorder = tpi_recording_off();
    tp_tensor *result = total_norm(tensors, norm_type);
    tpi_recording_on(recorder);
    if (recorder && result &&
        !tell(recorder, (tpi_custom){"total_norm", measure_again, tpi_mfree, NULL}, norm_type, tensors,
              (tp_tensors){&result, 1})) {
        tpi_release(result);
        result = NULL;
    }
    tp_grad_mode_leave(&mode);
    tpi_op_leave(before);
    return tpi_to_scope(result);
}
bool tp_clip_to_norm(tp_tensors tensors, double max_norm, tp_tensor *total) {
    if (TPI_ENDED(total, "a tensor")) return false;
    TPI_STOP_ON_ERROR(false);
    if (!TPI_TENSORS_GIVEN(tensors)) return false;
    const char *before = tpi_op_enter("clip_to_norm");
    tp_grad_mode mode = tp_grad_mode_enter(false, false);
    tpi_recorder *recorder = tpi_recording_off();
    bool ok = clip_to_norm(tensors, max_norm, total);
    tpi_recording_on(recorder);
    ok = ok && (!recorder || tell_of_clip(recorder, tensors, max_norm, total));
    tp_grad_mode_leave(&mode);
    tpi_op_leave(before);
    return ok;
}

/* The gradients that there are, borrowed, in an array for the caller to free. False: an error is pending. */
static bool gradients_of(int64_t n, tp_tensor *const *parameters, tp_tensors *gradients) {
    if (!TPI_LIST_GIVEN(parameters, n) || !given((tp_tensors){(tp_tensor **)parameters, n})) return false;
    *gradients = (tp_tensors){tpi_malloc((size_t)(n + 1) * sizeof(tp_tensor *)), 0};
    if (!gradients->v) return false;
    for (int64_t i = 0; i < n; i++)
        if (tp_grad(parameters[i])) gradients->v[gradients->n++] = tp_grad(parameters[i]);
    return true;
}

double tp_clip_grad_norm(int64_t n, tp_tensor *const *parameters, double max_norm) {
    TPI_STOP_ON_ERROR(-1);
    const char *before = tpi_op_enter("clip_grad_norm");
    tp_grad_mode mode = tp_grad_mode_enter(false, false);
    tp_tensors gradients;
    double was = -1;
    if (gradients_of(n, parameters, &gradients)) {
        tp_tensor *norm = total_norm(gradients, 2);
        if (norm && clip_to_norm(gradients, max_norm, norm)) was = tp_item(norm);
        tpi_release(norm);
        tpi_mfree(gradients.v);
    }
    tp_grad_mode_leave(&mode);
    tpi_op_leave(before);
    return was;
}

bool tp_clip_grad_value(int64_t n, tp_tensor *const *parameters, double clip_value) {
    TPI_STOP_ON_ERROR(false);
    const char *before = tpi_op_enter("clip_grad_value");
    tp_grad_mode mode = tp_grad_mode_enter(false, false);
    tp_tensors gradients;
    bool ok = gradients_of(n, parameters, &gradients);
    if (ok) {
        for (int64_t i = 0; ok && i < gradients.n; i++)
            ok = tpo_clamp_(gradients.v[i], tp_float(-clip_value), tp_float(clip_value));
        tpi_mfree(gradients.v);
    }
    tp_grad_mode_leave(&mode);
    tpi_op_leave(before);
    return ok;
}
