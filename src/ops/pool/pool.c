/* Max and average pooling over one to three dims, plain and adaptive, with the operators their derivatives need.
 * A plane (one channel of one image) is worked on by one task, so no sum is ever split. */
#include "ops/pool/pool.h"
#include "tensor/channels_last.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "ops/spatial_arguments.h"
#include "tensor/sizes.h"
#include "base/min_max.h"
#include "base/scratch.h"

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

/* Sizes as PyTorch's pools write them: 2x3. */
static const char *without_blanks(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != ' ') *to++ = *from;
    *to = 0;
    return text;
}

static bool refuse_empty(tp_ints shape, int n, int dim, const char *name) {
    if (n < 3 && strncmp(name, "adaptive", 8))
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "%s(): Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:%s", name,
            n + 1, n + 2, tpi_shape_text(shape));
    return tpi_refuse(TP_ERR_RUNTIME,
                      "%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s "
                      "with dimension %d being empty",
                      name, tpi_shape_text(shape), dim);
}

/* An int[n] of a pool: PyTorch's sentence names the pool and what it takes. */
static bool read_steps(const char *argument, tp_ints given, int n, const int64_t *fallback, int64_t *out,
                       const char *name) {
    static const char *const counts[] = {"", "one int", "two ints", "three ints"};
    bool open = fallback && (!given.v || given.n == 0);
    if (!open && given.n != 1 && given.n != n)
        return tpi_refuse(TP_ERR_RUNTIME, "%s: %s must either be %sa single int, or a tuple of %s", name, argument,
                          strcmp(argument, "stride") ? "" : "omitted, ", counts[n]);
    return tpi_expand_steps(argument, given, n, fallback, out);
}

/* Splits a shape of n spatial dims behind one or two others into planes; sets c->x. */
static bool planes_of(tpi_conv *c, tp_ints shape, int n, const char *name) {
    if (n < 1 || n > 3) return tpi_refuse(TP_ERR_RUNTIME, "%s: argument 'dims': expected 1 to 3, got %d", name, n);
    if (shape.n != n + 1 && shape.n != n + 2)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "%s(): non-empty %dD or %dD (batch mode) tensor expected for input: Expected %dD or %dD "
                          "tensor, but got: %s",
                          name, n + 1, n + 2, n + 1, n + 2, tpi_shape_text(shape));
    *c = (tpi_conv){.batch = 1,
                    .groups = 1,
                    .cx = 1,
                    .cy = 1,
                    .x = {1, 1, 1},
                    .y = {1, 1, 1},
                    .k = {1, 1, 1},
                    .stride = {1, 1, 1},
                    .dilation = {1, 1, 1}};
    if (tpi_numel_of(shape) < 0) return false;
    for (int64_t i = 0; i < shape.n - n; i++) c->batch *= shape.v[i];
    for (int i = 0; i < n; i++) c->x[3 - n + i] = shape.v[shape.n - n + i];
    bool no_channels = !strncmp(name, "adaptive_avg", 12); /* an average may have none, as in PyTorch */
    for (int64_t i = shape.n - n - 1 + no_channels; i < shape.n; i++)
        if (shape.v[i] == 0) return refuse_empty(shape, n, (int)i, name);
    return true;
}

bool tpi_pool_geometry(tpi_conv *c, tp_ints shape, int n, const tpi_windows *w, const char *name) {
    if (!planes_of(c, shape, n, name)) return false;
    int64_t zeros[3] = {0}, ones[3] = {1, 1, 1};
    int at = 3 - n;
    if (!read_steps("kernel_size", w->kernel, n, NULL, c->k + at, name) ||
        !read_steps("stride", w->stride, n, c->k + at, c->stride + at, name) ||
        !read_steps("padding", w->padding, n, zeros, c->pad + at, name) ||
        !read_steps("dilation", w->dilation, n, ones, c->dilation + at, name))
        return false;
    char buffer[2][TPI_BY_X];
    for (int i = at; i < 3; i++) {
        if (c->stride[i] == 0) return tpi_refuse(TP_ERR_RUNTIME, "argument 'stride': stride should not be zero");
        if (c->k[i] < 1)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'kernel_size': kernel size should be greater than zero, but got %lld",
                              (long long)c->k[i]);
        if (c->stride[i] < 1)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'stride': stride should be greater than zero, but got %lld",
                              (long long)c->stride[i]);
        if (c->dilation[i] < 1)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'dilation': dilation should be greater than zero, but got %lld",
                              (long long)c->dilation[i]);
        int64_t reach = c->dilation[i] * (c->k[i] - 1) + 1;
        if (c->pad[i] < 0)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'padding': pad must be non-negative, but got pad: %lld",
                              (long long)c->pad[i]);
        if (c->pad[i] > reach / 2)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'padding': pad should be at most half of effective kernel size, but got "
                              "pad=%lld, kernel_size=%lld and dilation=%lld",
                              (long long)c->pad[i], (long long)c->k[i], (long long)c->dilation[i]);
        c->y[i] = floor_div(tpi_size_plus(c->x[i], 2 * c->pad[i]) - reach + (w->ceil_mode ? c->stride[i] - 1 : 0),
                            c->stride[i]) +
                  1;
        if (w->ceil_mode && tpi_size_times(c->y[i] - 1, c->stride[i]) >= tpi_size_plus(c->x[i], c->pad[i]))
            c->y[i]--; /* the last window must start inside */
    }
    for (int i = at; i < 3; i++)
        if (c->y[i] < 1) {
            long long planes = (long long)shape.v[shape.n - n - 1];
            tpi_sizes_by_x(c->x + at, n, NULL, buffer[0]);
            tpi_sizes_by_x(c->y + at, n, NULL, buffer[1]);
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "Given input size: (%lldx%s). Calculated output size: (%lldx%s). Output size is too small", planes,
                without_blanks(buffer[0]), planes, without_blanks(buffer[1]));
        }
    return true;
}

/* ---- Running a kernel over the planes ---- */

typedef enum action { MAX, AVERAGE, AVERAGE_BACK, ADAPTIVE_AVERAGE, ADAPTIVE_AVERAGE_BACK, ADAPTIVE_MAX } action;

typedef struct job {
    tpi_conv c;
    bool channels_last; /* the result, also where what comes in does not look so */
    tpi_average how;
    action act;
    tp_dtype dtype;
    const char *from;
    char *to;
    int64_t *index;
    int64_t from_plane, to_plane; /* elements */
    int64_t planes_per_task;
    tpi_pool_spans spans;
    int64_t *numbers;    /* what spans has them in */
    bool in_lanes;       /* eight planes at a time */
    tpi_scratch scratch; /* for each thread: a row of x, where sums need one; eight planes, in lanes */
} job;

static bool is_adaptive(action act) {
    return act == ADAPTIVE_AVERAGE || act == ADAPTIVE_AVERAGE_BACK || act == ADAPTIVE_MAX;
}
static bool is_back(action act) { return act == AVERAGE_BACK || act == ADAPTIVE_AVERAGE_BACK; }
static bool is_max(action act) { return act == MAX || act == ADAPTIVE_MAX; }

/* The windows of one dim of an adaptive pool: from floor(o x / y) to ceil((o + 1) x / y). */
static void adaptive_spans(const tpi_conv *c, int i, tpi_pool_spans *s) {
    s->step[i] = 1;
    for (int64_t o = 0; o < c->y[i]; o++) {
        s->from[i][o] = o * c->x[i] / c->y[i];
        s->to[i][o] = ((o + 1) * c->x[i] + c->y[i] - 1) / c->y[i];
        s->count[i][o] = s->to[i][o] - s->from[i][o];
    }
}

/* The same of a pool with strides. Windows reach into the padding, never beyond it. */
static void strided_spans(const tpi_conv *c, int i, bool count_pad, tpi_pool_spans *s) {
    const int64_t step = c->dilation[i];
    s->step[i] = step;
    for (int64_t o = 0; o < c->y[i]; o++) {
        const int64_t start = o * c->stride[i] - c->pad[i], reach = step * (c->k[i] - 1) + 1;
        s->from[i][o] = start >= 0 ? start : start + tpi_ceil_div(-start, step) * step;
        s->to[i][o] = tpi_min64(start + reach, c->x[i]);
        s->count[i][o] =
            count_pad ? tpi_min64(start + c->k[i], c->x[i] + c->pad[i]) - start : s->to[i][o] - s->from[i][o];
    }
}

/* The taps first .. last - 1 of a row's windows that meet x in one of them: never more than twice the row's length. */
static int64_t taps_of(const tpi_conv *c, int64_t *first) {
    const int64_t before = c->pad[2] - (c->y[2] - 1) * c->stride[2], behind = c->x[2] + c->pad[2];
    *first = before <= 0 ? 0 : tpi_ceil_div(before, c->dilation[2]);
    return tpi_max64(0, tpi_min64(c->k[2], tpi_ceil_div(behind, c->dilation[2])) - *first);
}

static void tap_spans(const tpi_conv *c, int64_t first, tpi_pool_spans *s) {
    const int64_t stride = c->stride[2];
    s->stride = stride;
    for (int64_t t = 0; t < s->taps; t++) {
        const int64_t at = (first + t) * c->dilation[2] - c->pad[2];
        const int64_t end = tpi_min64(c->y[2], tpi_ceil_div(tpi_max64(0, c->x[2] - at), stride));
        s->first[t] = at;
        s->lo[t] = tpi_min64(end, at >= 0 ? 0 : tpi_ceil_div(-at, stride));
        s->hi[t] = end;
    }
}

/* Works out the windows; false without memory. Adaptive windows of one size are strided ones. */
static bool make_spans(job *j) {
    tpi_conv *c = &j->c;
    tpi_pool_spans *s = &j->spans;
    const bool adaptive = is_adaptive(j->act);
    for (int i = 0; adaptive && i < 3; i++) {
        const int64_t size = c->x[i] / tpi_max64(1, c->y[i]);
        c->k[i] = c->stride[i] = c->y[i] * size == c->x[i] ? size : 0; /* 0: windows of this dim differ in size */
    }
    const bool alike = !adaptive || c->k[2] > 0;
    int64_t first = 0;
    s->taps = alike ? taps_of(c, &first) : 0;
    j->numbers = tpi_malloc(sizeof(int64_t) * (size_t)(3 * (c->y[0] + c->y[1] + c->y[2] + s->taps) + 1));
    if (!j->numbers) return false;
    int64_t *next = j->numbers;
    for (int i = 0; i < 3; i++) {
        s->from[i] = next;
        s->to[i] = next + c->y[i];
        s->count[i] = next + 2 * c->y[i];
        next += 3 * c->y[i];
        if (adaptive)
            adaptive_spans(c, i, s);
        else
            strided_spans(c, i, j->how.count_pad, s);
    }
    s->first = next;
    s->lo = next + s->taps;
    s->hi = next + 2 * s->taps;
    if (s->taps) tap_spans(c, first, s);
    return true;
}

#define RUN_PLANE(suffix, T)                                                                              \
    do {                                                                                                  \
        const T *from = (const T *)j->from + p * j->from_plane;                                           \
        T *to = (T *)j->to + p * j->to_plane;                                                             \
        if (is_max(j->act))                                                                               \
            TPI_ISA_PICK(tpi_max_plane_##suffix)(&j->c, &j->spans, from, to, j->index + p * j->to_plane); \
        else if (is_back(j->act))                                                                         \
            TPI_ISA_PICK(tpi_avg_plane_back_##suffix)(&j->c, &j->spans, j->how.divisor, from, to, row);   \
        else                                                                                              \
            TPI_ISA_PICK(tpi_avg_plane_##suffix)(&j->c, &j->spans, j->how.divisor, from, to, row);        \
    } while (0)

/* Max pools of planes whose rows are too short for vectors; eight of them stay in a core's own cache. */
enum { SHORT_ROW = 16, LANES_BYTES = 256 << 10 };
static size_t lanes_bytes(const job *j) {
    return (size_t)tpi_size_times(8 * tpi_dtype_bytes[j->dtype], tpi_conv_xsize(&j->c) + tpi_conv_ysize(&j->c));
}
static bool fits_lanes(const job *j) {
    return is_max(j->act) && j->dtype != TP_INT64 && j->c.y[2] < SHORT_ROW && j->c.batch >= 8 &&
           lanes_bytes(j) <= LANES_BYTES;
}

#define RUN_LANES(suffix, T)                                                                 \
    TPI_ISA_PICK(tpi_max_lanes_##suffix)                                                     \
    (&j->c, &j->spans, (const T *)j->from + p * j->from_plane, (T *)j->to + p * j->to_plane, \
     j->index + p * j->to_plane, scratch)

static void task(int64_t number, void *context) {
    job *j = context;
    _Alignas(64) char stack[TPI_SCRATCH_STACK];
    void *scratch = tpi_scratch_acquire(&j->scratch, stack), *row = scratch;
    int64_t p = number * j->planes_per_task;
    const int64_t last = tpi_min64(p + j->planes_per_task, j->c.batch);
    for (; j->in_lanes && p + 8 <= last; p += 8) {
        if (j->dtype == TP_FLOAT32)
            RUN_LANES(f32, float);
        else
            RUN_LANES(f64, double);
    }
    for (; p < last; p++) {
        if (is_back(j->act)) {
            size_t bytes = (size_t)j->to_plane * tpi_dtype_bytes[j->dtype];
            memset(j->to + p * (int64_t)bytes, 0, bytes);
        }
        if (j->dtype == TP_FLOAT32)
            RUN_PLANE(f32, float);
        else if (j->dtype == TP_FLOAT64)
            RUN_PLANE(f64, double);
        else
            RUN_PLANE(i64, int64_t);
    }
    tpi_scratch_release(&j->scratch, scratch);
}

/* Works out the windows and runs the tasks; false without memory. */
static bool run_tasks(job *j) {
    const int64_t x = tpi_conv_xsize(&j->c), y = tpi_conv_ysize(&j->c);
    j->in_lanes = fits_lanes(j);
    j->planes_per_task = 1 + 16384 / tpi_max64(x, y);
    if (j->in_lanes) j->planes_per_task = tpi_ceil_div(j->planes_per_task, 8) * 8;
    const int64_t tasks = tpi_ceil_div(j->c.batch, j->planes_per_task);
    const bool worth_it = j->c.batch * x > 16384;
    const size_t row = is_max(j->act) ? 0 : (size_t)j->c.x[2] * tpi_dtype_bytes[j->dtype];
    bool ok = make_spans(j) && tpi_scratch_make(&j->scratch, j->in_lanes ? lanes_bytes(j) : row, tasks, worth_it);
    if (ok) {
        tpi_parallel_for(tasks, worth_it, task, j);
        tpi_scratch_free(&j->scratch);
    }
    tpi_mfree(j->numbers);
    return ok;
}

/* Adaptive pools are for floating numbers, as in PyTorch. */
static tp_dtype pool_dtype(const tp_tensor *t, action act) {
    if (!tp_dtype_is_integral((tp_dtype)t->dtype)) return tpi_compute_dtype(t, "input");
    if (is_adaptive(act)) {
        tpi_fail(TP_ERR_MISSING, "argument 'input': \"adaptive_pool\" not implemented for '%s'",
                 tp_dtype_word((tp_dtype)t->dtype));
        return TP_NO_DTYPE;
    }
    return TP_INT64;
}

/* Runs the action from `from` into a fresh tensor of the shape; the two actions that have indices fill `indices` with
 * them. */
static bool run(job *j, tp_tensor *from, tp_ints shape, tp_tensor **out, tp_tensor **indices) {
    const bool back = is_back(j->act), indexed = is_max(j->act);
    j->dtype = pool_dtype(from, j->act);
    if (!j->dtype) return false;
    int64_t x = tpi_conv_xsize(&j->c), y = tpi_conv_ysize(&j->c);
    j->from_plane = back ? y : x;
    j->to_plane = back ? x : y;
    if (!tpi_check_numel(from, back ? "grad" : "input", tpi_size_times(j->c.batch, j->from_plane))) return false;
    tp_tensor *source = tpi_to_compute(from, j->dtype);
    tp_tensor *to = source ? tpi_empty(shape, j->dtype, tpi_device(from)) : NULL;
    tp_tensor *index = to && indexed ? tpi_empty(shape, TP_INT64, tpi_device(from)) : NULL;
    bool ok = to && (index || !indexed);
    if (ok && to->numel > 0) {
        j->from = source->data;
        j->to = to->data;
        j->index = index ? (int64_t *)index->data : NULL;
        ok = run_tasks(j);
    }
    tpi_release(source);
    if (!ok) {
        tpi_release(to);
        tpi_release(index);
        return false;
    }
    *out = tpi_from_compute_as(to, (tp_dtype)from->dtype,
                               j->channels_last ? tpi_layout_of(true, to->ndim) : tpi_suggested_layout(from));
    if (indexed) *indices = tpi_from_compute_like(index, TP_INT64, from);
    if (*out && (!indexed || *indices)) return true;
    tpi_release(*out);
    if (indexed) tpi_release(*indices);
    return false;
}

/* The shape of a pooled tensor: that of `shape` with the last n sizes from c->y. */
static tp_ints pooled_shape(const tpi_conv *c, tp_ints shape, int n, int64_t *buffer) {
    for (int64_t i = 0; i < shape.n; i++) buffer[i] = i < shape.n - n ? shape.v[i] : c->y[3 - n + (i - (shape.n - n))];
    return tp_ints_view(buffer, shape.n);
}

/* ---- Max pooling ---- */

static bool max_pool(int n, const char *name, tp_tensor *self, tpi_windows w, tp_tensor **out) {
    job j = {.act = MAX};
    int64_t buffer[5];
    return tpi_pool_geometry(&j.c, tpi_shape(self), n, &w, name) &&
           run(&j, self, pooled_shape(&j.c, tpi_shape(self), n, buffer), &out[0], &out[1]);
}

bool tpi_native_max_pool1d_with_indices(tp_tensor *self, tp_ints kernel, tp_ints stride, tp_ints padding,
                                        tp_ints dilation, bool ceil_mode, tp_tensor **out) {
    return max_pool(1, "max_pool1d", self, (tpi_windows){kernel, stride, padding, dilation, ceil_mode}, out);
}
bool tpi_native_max_pool2d_with_indices(tp_tensor *self, tp_ints kernel, tp_ints stride, tp_ints padding,
                                        tp_ints dilation, bool ceil_mode, tp_tensor **out) {
    return max_pool(2, "max_pool2d", self, (tpi_windows){kernel, stride, padding, dilation, ceil_mode}, out);
}
bool tpi_native_max_pool3d_with_indices(tp_tensor *self, tp_ints kernel, tp_ints stride, tp_ints padding,
                                        tp_ints dilation, bool ceil_mode, tp_tensor **out) {
    return max_pool(3, "max_pool3d", self, (tpi_windows){kernel, stride, padding, dilation, ceil_mode}, out);
}

/* ---- Average pooling ---- */

static bool read_average(tpi_average *how, bool count_include_pad, int64_t divisor) {
    if (divisor == 0) return tpi_refuse(TP_ERR_RUNTIME, "argument 'divisor_override': divisor must be not zero");
    *how = (tpi_average){count_include_pad, divisor == TP_NONE ? 0 : divisor};
    return true;
}

tp_tensor *tpi_native_avg_pool(tp_tensor *self, int64_t dims, tp_ints kernel, tp_ints stride, tp_ints padding,
                               bool ceil_mode, bool count_include_pad, int64_t divisor) {
    job j = {.act = AVERAGE};
    tpi_windows w = {kernel, stride, padding, {0}, ceil_mode};
    int64_t buffer[5];
    tp_tensor *out = NULL;
    if (!tpi_pool_geometry(&j.c, tpi_shape(self), (int)dims, &w, "avg_pool") ||
        !read_average(&j.how, count_include_pad, divisor))
        return NULL;
    return run(&j, self, pooled_shape(&j.c, tpi_shape(self), (int)dims, buffer), &out, NULL) ? out : NULL;
}

/* The gradient of an average pool's input; `dims` spatial dims. */
tp_tensor *tpi_native_avg_pool_backward(tp_tensor *grad, tp_ints input_shape, int64_t dims, tp_ints kernel,
                                        tp_ints stride, tp_ints padding, bool ceil_mode, bool count_include_pad,
                                        int64_t divisor, bool channels_last) {
    job j = {.act = AVERAGE_BACK, .channels_last = channels_last};
    tpi_windows w = {kernel, stride, padding, {0}, ceil_mode};
    tp_tensor *out = NULL;
    if (!tpi_pool_geometry(&j.c, input_shape, (int)dims, &w, "avg_pool_backward") ||
        !read_average(&j.how, count_include_pad, divisor))
        return NULL;
    return run(&j, grad, input_shape, &out, NULL) ? out : NULL;
}

/* ---- Adaptive pooling ---- */

bool tpi_adaptive_geometry(tpi_conv *c, tp_ints shape, int n, tp_ints output_size, const char *name) {
    if (output_size.n == shape.n) output_size = tp_ints_view(output_size.v + shape.n - n, n);
    if (!planes_of(c, shape, n, name) || !tpi_expand_ints("output_size", output_size, n, NULL, c->y + 3 - n))
        return false;
    for (int i = 3 - n; i < 3; i++) {
        if (c->y[i] == TP_NONE) c->y[i] = c->x[i];
        if (c->y[i] < 0)
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "argument 'output_size': elements of output_size must be greater than or equal to 0 but received %lld",
                (long long)c->y[i]);
    }
    return true;
}

tp_tensor *tpi_native_adaptive_avg_pool(tp_tensor *self, tp_ints output_size, int64_t dims) {
    job j = {.act = ADAPTIVE_AVERAGE};
    int64_t buffer[5];
    tp_tensor *out = NULL;
    if (!tpi_adaptive_geometry(&j.c, tpi_shape(self), (int)dims, output_size, "adaptive_avg_pool")) return NULL;
    return run(&j, self, pooled_shape(&j.c, tpi_shape(self), (int)dims, buffer), &out, NULL) ? out : NULL;
}

bool tpi_check_pooled_grad(const tp_tensor *grad, int64_t dims) {
    for (int i = 0; i < grad->ndim; i++)
        if (grad->ndim - i <= dims && grad->shape[i] == 0)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "Expected grad_output to have non-zero size for non-batch dimensions, but grad_output "
                              "has sizes %s with dimension %d being empty",
                              tpi_shape_text(tpi_shape(grad)), i);
    return true;
}

tp_tensor *tpi_native_adaptive_avg_pool_backward(tp_tensor *grad, tp_ints input_shape, int64_t dims,
                                                 bool channels_last) {
    job j = {.act = ADAPTIVE_AVERAGE_BACK, .channels_last = channels_last};
    tp_tensor *out = NULL;
    if (!tpi_check_pooled_grad(grad, dims)) return NULL;
    if (!tpi_adaptive_geometry(&j.c, input_shape, (int)dims, tpi_shape(grad), "adaptive_avg_pool_backward"))
        return NULL;
    return run(&j, grad, input_shape, &out, NULL) ? out : NULL;
}

bool tpi_native_adaptive_max_pool(tp_tensor *self, tp_ints output_size, int64_t dims, tp_tensor **out) {
    job j = {.act = ADAPTIVE_MAX};
    int64_t buffer[5];
    return tpi_adaptive_geometry(&j.c, tpi_shape(self), (int)dims, output_size, "adaptive_max_pool") &&
           run(&j, self, pooled_shape(&j.c, tpi_shape(self), (int)dims, buffer), &out[0], &out[1]);
}
