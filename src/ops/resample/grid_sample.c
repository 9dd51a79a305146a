/* grid_sample over two or three spatial dims: values of the input at places the grid names, and the gradients of both.
 * A place in [-1, 1] is mapped to pixels, brought back inside by the padding mode, and read by the nearest, the linear
 * or the cubic neighbours. Backward, one task per image: its input gradient is summed by nobody else. */
#include <math.h>
#include "ops/resample/bilinear_grid.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "ops/compute_dtype.h"

enum { LINEAR, NEAREST, CUBIC };    /* interpolation_mode */
enum { ZEROS, BORDER, REFLECTION }; /* padding_mode */

typedef struct job {
    tp_dtype dtype;
    int dims, mode, padding;
    bool align;
    int64_t images, channels, in[3], out[3]; /* leading ones for two dims */
    const char *x, *grid, *grad;
    char *y, *dx, *dgrid; /* forward: y; backward: dx and dgrid */
} job;

typedef struct tap {      /* one neighbour along one axis */
    int64_t index;        /* -1: outside, counts as zero */
    double weight, slope; /* slope: the weight's derivative by the grid's coordinate */
} tap;

static double get(const job *j, const char *data, int64_t i) { return tpi_compute_get(data, j->dtype, i); }
static void set(const job *j, char *data, int64_t i, double v) { tpi_compute_set(data, j->dtype, i, v); }
/* Brings a pixel coordinate inside by the padding mode; *slope is multiplied with the derivative of that. */
static double inside(const job *j, double at, int64_t n, double *slope) {
    if (j->padding == REFLECTION) {
        double low = j->align ? 0 : -0.5, span = j->align ? (double)(n - 1) : (double)n;
        if (span <= 0) {
            *slope = 0;
            return 0;
        }
        double from = at - low, sign = from < 0 ? -1 : 1;
        from = fabs(from);
        double extra = fmod(from, span);
        bool even = fmod(floor(from / span), 2) == 0;
        at = even ? extra + low : span - extra + low;
        *slope *= even ? sign : -sign;
    }
    if (j->padding == ZEROS) return at;
    double last = (double)(n - 1); /* at a border the gradient is zero, as PyTorch has it, and NaN is at one */
    if (at != at) {
        *slope = 0;
        return j->dims == 2 ? 0 : last;
    }
    if (at <= 0) {
        *slope = 0;
        return 0;
    }
    if (at >= last) {
        *slope = 0;
        return last;
    }
    return at;
}

static double to_pixels(const job *j, double at, int64_t n, double *slope) {
    *slope = j->align ? (double)(n - 1) / 2 : (double)n / 2;
    if (j->mode == NEAREST && j->dtype == TP_FLOAT32 &&
        j->dims == 2) { /* halfway between two pixels the rounding decides: PyTorch's, in float */
        float scaled = ((float)at + 1) * (float)*slope;
        return j->align ? scaled : scaled - 0.5f;
    }
    return j->align ? (at + 1) / 2 * (double)(n - 1) : ((at + 1) * (double)n - 1) / 2;
}

/* An index beyond what int64 holds, or NaN, counts as outside. */
static int64_t index_of(double at) { return at > -1e15 && at < 1e15 ? (int64_t)at : -100; }

static double cubic_weight(double x, double *slope) {
    const double a = -0.75;
    double s = x < 0 ? -1 : 1;
    x = fabs(x);
    if (x <= 1) {
        *slope = s * ((3 * (a + 2)) * x - 2 * (a + 3)) * x;
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    }
    *slope = s * ((3 * a * x - 10 * a) * x + 8 * a);
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/* The neighbours along an axis of n pixels for grid coordinate `at`; returns how many. */
static int neighbours(const job *j, double at, int64_t n, tap *t) {
    double slope, pixel = to_pixels(j, at, n, &slope);
    if (j->mode == CUBIC) { /* padding is applied to each neighbour, not to the place */
        double low = floor(pixel);
        for (int i = 0; i < 4; i++) {
            double by, none = 1, position = low - 1 + i, weight = cubic_weight(pixel - position, &by);
            int64_t index = index_of(inside(j, position, n, &none));
            t[i] = (tap){index < 0 || index >= n ? -1 : index, weight, by * slope};
        }
        return 4;
    }
    pixel = inside(j, pixel, n, &slope);
    if (j->mode == NEAREST) {
        int64_t index = index_of(nearbyint(pixel));
        t[0] = (tap){index < 0 || index >= n ? -1 : index, 1, 0};
        return 1;
    }
    double low = floor(pixel);
    int64_t index = index_of(low);
    t[0] = (tap){index < 0 || index >= n ? -1 : index, 1 - (pixel - low), -slope};
    t[1] = (tap){index + 1 < 0 || index + 1 >= n ? -1 : index + 1, pixel - low, slope};
    return 2;
}

/* The neighbours of one place that lie inside: where in a plane of the input, with which weight and its derivatives by
 * the grid's coordinates, the last dim's first. */
enum { MOST = 16 };
typedef struct spot {
    int count;
    int64_t at[MOST];
    double weight[MOST], slope[MOST][3];
} spot;

static void find(const job *j, int64_t position, spot *s) {
    tap t[3][4] = {{{0, 1, 0}}, {{0, 1, 0}}, {{0, 1, 0}}};
    int count[3] = {1, 1, 1};
    for (int d = 0; d < j->dims; d++) /* the grid names the last dim first */
        count[2 - d] = neighbours(j, get(j, j->grid, position * j->dims + d), j->in[2 - d], t[2 - d]);
    s->count = 0;
    const bool lost_x = t[2][0].weight != t[2][0].weight, lost_y = t[1][0].weight != t[1][0].weight;
    if (j->dims == 2 &&
        (lost_x ||
         lost_y)) { /* a place that is no number gives none; over three dims it is outside, as PyTorch has it */
        const bool all = j->mode == CUBIC;
        *s = (spot){.count = 1, .weight = {NAN}, .slope = {{all || lost_y ? NAN : 0, all || lost_x ? NAN : 0, 0}}};
        return;
    }
    for (int a = 0; a < count[0]; a++)
        for (int b = 0; b < count[1]; b++)
            for (int e = 0; e < count[2]; e++) {
                const tap *p = &t[0][a], *q = &t[1][b], *r = &t[2][e];
                if (p->index < 0 || q->index < 0 || r->index < 0) continue;
                s->at[s->count] = (p->index * j->in[1] + q->index) * j->in[2] + r->index;
                s->weight[s->count] = p->weight * q->weight * r->weight;
                s->slope[s->count][0] = p->weight * q->weight * r->slope;
                s->slope[s->count][1] = p->weight * q->slope * r->weight;
                s->slope[s->count][2] = p->slope * q->weight * r->weight;
                s->count++;
            }
}

/* A block of places of one image: their neighbours are found once, for all channels. */
enum { BLOCK = 32 };
#define READ(T)                                                                                                 \
    for (int64_t c = 0; c < j->channels; c++) {                                                                 \
        const T *plane = (const T *)j->x + (image * j->channels + c) * xsize;                                   \
        T *to = (T *)j->y + (image * j->channels + c) * ysize + first;                                          \
        for (int o = 0; o < n; o++) {                                                                           \
            double sum = 0;                                                                                     \
            for (int i = 0; i < spots[o].count; i++) sum += (double)plane[spots[o].at[i]] * spots[o].weight[i]; \
            to[o] = (T)sum;                                                                                     \
        }                                                                                                       \
    }
#define READ_BACK(T)                                                                                               \
    for (int64_t c = 0; c < j->channels; c++) {                                                                    \
        const T *plane = (const T *)j->x + (image * j->channels + c) * xsize;                                      \
        const T *grad = (const T *)j->grad + (image * j->channels + c) * ysize + first;                            \
        T *back = (T *)j->dx + (image * j->channels + c) * xsize;                                                  \
        for (int o = 0; o < n; o++)                                                                                \
            for (int i = 0; i < spots[o].count; i++) {                                                             \
                double g = (double)grad[o], v = g * (double)plane[spots[o].at[i]];                                 \
                if (spots[o].weight[i] == spots[o].weight[i]) back[spots[o].at[i]] += (T)(g * spots[o].weight[i]); \
                for (int d = 0; d < 3; d++) slope[o][d] += v * spots[o].slope[i][d];                               \
            }                                                                                                      \
    }

static void block_of_points(const job *j, int64_t image, int64_t first) {
    int64_t xsize = j->in[0] * j->in[1] * j->in[2], ysize = j->out[0] * j->out[1] * j->out[2];
    int n = (int)(ysize - first < BLOCK ? ysize - first : BLOCK);
    spot spots[BLOCK];
    double slope[BLOCK][3] = {{0}};
    for (int o = 0; o < n; o++) find(j, image * ysize + first + o, &spots[o]);
    if (!j->grad && j->dtype == TP_FLOAT32)
        READ(float)
    else if (!j->grad)
        READ(double)
    else if (j->dtype == TP_FLOAT32)
        READ_BACK(float)
    else
        READ_BACK(double)
    for (int64_t o = 0; j->grad && o < n; o++)
        for (int d = 0; d < j->dims; d++) set(j, j->dgrid, (image * ysize + first + o) * j->dims + d, slope[o][d]);
}

/* Are these float32, in a plane whose elements an int32 counts, and linear? Those have kernels of their own. */
static bool is_plain(const job *j) {
    return j->dtype == TP_FLOAT32 && j->dims == 2 && j->mode == LINEAR && j->padding != REFLECTION &&
           (j->in[1] + 4) * j->in[2] <= INT32_MAX;
}

/* Forward, a task is a run of places of one image. */
enum { RUN = 4096 };
static void run_of_points(int64_t task, void *context) {
    const job *j = context;
    const int64_t xsize = j->in[0] * j->in[1] * j->in[2], ysize = j->out[0] * j->out[1] * j->out[2],
                  runs = tpi_ceil_div(ysize, RUN), image = task / runs;
    const int64_t begin = task % runs * RUN, end = begin + RUN < ysize ? begin + RUN : ysize;
    if (!is_plain(j)) {
        for (int64_t first = begin; first < end; first += BLOCK) block_of_points(j, image, first);
        return;
    }
    tpi_grid_points points;
    for (int64_t first = begin; first < end; first += TPI_GRID_BLOCK) {
        const int64_t n = end - first < TPI_GRID_BLOCK ? end - first : TPI_GRID_BLOCK;
        TPI_ISA_PICK(tpi_grid_find)
        (n, (const float *)j->grid + 2 * (image * ysize + first), j->in[1], j->in[2], j->align, j->padding == BORDER,
         &points);
        for (int64_t c = image * j->channels; c < (image + 1) * j->channels; c++)
            TPI_ISA_PICK(tpi_grid_read)(n, (const float *)j->x + c * xsize, &points, (float *)j->y + c * ysize + first);
    }
}

/* Backward, for what is_plain. */
static void plain_image_back(const job *j, int64_t image) {
    const int64_t xsize = j->in[1] * j->in[2], ysize = j->out[0] * j->out[1] * j->out[2];
    tpi_grid_points points;
    float dots[4][TPI_GRID_BLOCK];
    for (int64_t first = 0; first < ysize; first += TPI_GRID_BLOCK) {
        const int64_t n = ysize - first < TPI_GRID_BLOCK ? ysize - first : TPI_GRID_BLOCK;
        const float *grid = (const float *)j->grid + 2 * (image * ysize + first);
        const bool border = j->padding == BORDER;
        memset(dots, 0, sizeof dots);
        TPI_ISA_PICK(tpi_grid_find)(n, grid, j->in[1], j->in[2], j->align, border, &points);
        for (int64_t c = image * j->channels; c < (image + 1) * j->channels; c++) TPI_ISA_PICK(tpi_grid_spread)
        (n, (const float *)j->x + c * xsize, (const float *)j->grad + c * ysize + first, &points,
         (float *)j->dx + c * xsize, dots);
        TPI_ISA_PICK(tpi_grid_slopes)
        (n, grid, j->in[1], j->in[2], j->align, border, &points, dots, (float *)j->dgrid + 2 * (image * ysize + first));
    }
}

static void image_task(int64_t image, void *context) {
    const job *j = context;
    if (is_plain(j)) {
        plain_image_back(j, image);
        return;
    }
    for (int64_t first = 0; first < j->out[0] * j->out[1] * j->out[2]; first += BLOCK) block_of_points(j, image, first);
}

static bool split(job *j, const tp_tensor *input, const tp_tensor *grid, int64_t mode, int64_t padding, bool align) {
    int n = input->ndim - 2;
    if ((n != 2 && n != 3) || grid->ndim != n + 2)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'grid': grid_sampler(): expected 4D or 5D input and grid with same number of "
                          "dimensions, but got input with sizes %s and grid with sizes %s",
                          tpi_shape_text(tpi_shape(input)), tpi_shape_text(tpi_shape(grid)));
    if (grid->shape[0] != input->shape[0])
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'grid': grid_sampler(): expected grid and input to have same batch size, but got "
                          "input with sizes %s and grid with sizes %s",
                          tpi_shape_text(tpi_shape(input)), tpi_shape_text(tpi_shape(grid)));
    if (grid->shape[n + 1] != n)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'grid': grid_sampler(): expected grid to have size %d in last dimension, but got "
                          "grid with sizes %s",
                          n, tpi_shape_text(tpi_shape(grid)));
    if (grid->dtype != input->dtype)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'grid': grid_sampler(): expected input and grid to have same dtype, but input has "
                          "%s and grid has %s",
                          tp_dtype_name((tp_dtype)input->dtype), tp_dtype_name((tp_dtype)grid->dtype));
    if (mode < LINEAR || mode > CUBIC || (n == 3 && mode == CUBIC))
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'interpolation_mode': expected 0 (bilinear), 1 (nearest) or, for 4D input, 2 (bicubic), got %lld",
            (long long)mode);
    if (padding < ZEROS || padding > REFLECTION)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'padding_mode': expected 0 (zeros), 1 (border) or 2 (reflection), got %lld",
                          (long long)padding);
    *j = (job){.dims = n,
               .mode = (int)mode,
               .padding = (int)padding,
               .align = align,
               .images = input->shape[0],
               .channels = input->shape[1],
               .in = {1, 1, 1},
               .out = {1, 1, 1}};
    for (int i = 0; i < n; i++) {
        j->in[3 - n + i] = input->shape[2 + i];
        j->out[3 - n + i] = grid->shape[1 + i];
        if (input->shape[2 + i] < 1)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'input': grid_sampler(): expected input to have non-empty spatial dimensions, "
                              "but input has sizes %s with dimension %d being empty",
                              tpi_shape_text(tpi_shape(input)), 2 + i);
    }
    j->dtype = tpi_compute_dtype(input, "input");
    return j->dtype;
}

tp_tensor *tpi_native_grid_sampler(tp_tensor *input, tp_tensor *grid, int64_t mode, int64_t padding,
                                   bool align_corners) {
    job j;
    if (!split(&j, input, grid, mode, padding, align_corners)) return NULL;
    int64_t shape[5] = {j.images, j.channels};
    for (int i = 0; i < j.dims; i++) shape[2 + i] = grid->shape[1 + i];
    tp_tensor *x = tpi_to_compute(input, j.dtype), *g = tpi_to_compute(grid, j.dtype),
              *y = x && g ? tpi_empty(tp_ints_view(shape, j.dims + 2), j.dtype, tpi_device(input)) : NULL;
    if (y && y->numel > 0) {
        j.x = x->data;
        j.grid = g->data;
        j.y = y->data;
        tpi_parallel_for(j.images * tpi_ceil_div(j.out[0] * j.out[1] * j.out[2], RUN), y->numel > 4096, run_of_points,
                         &j);
    }
    tpi_release(x);
    tpi_release(g);
    return tpi_from_compute_like(y, (tp_dtype)input->dtype, input);
}

bool tpi_native_grid_sampler_backward(tp_tensor *grad, tp_tensor *input, tp_tensor *grid, int64_t mode, int64_t padding,
                                      bool align_corners, tp_tensor **out) {
    job j;
    if (!split(&j, input, grid, mode, padding, align_corners)) return false;
    tp_tensor *x = tpi_to_compute(input, j.dtype), *p = tpi_to_compute(grid, j.dtype),
              *g = tpi_to_compute(grad, j.dtype);
    tp_tensor *dx = x && p && g ? tpi_empty(tpi_shape(input), j.dtype, tpi_device(input)) : NULL,
              *dgrid = dx ? tpi_empty(tpi_shape(grid), j.dtype, tpi_device(grid)) : NULL;
    if (dgrid) {
        memset(dx->data, 0, (size_t)dx->numel * tpi_itemsize(dx));
        memset(dgrid->data, 0, (size_t)dgrid->numel * tpi_itemsize(dgrid));
        j.x = x->data;
        j.grid = p->data;
        j.grad = g->data;
        j.dx = dx->data;
        j.dgrid = dgrid->data;
        tpi_parallel_for(j.images, g->numel > 4096, image_task, &j);
    }
    tpi_release(x);
    tpi_release(p);
    tpi_release(g);
    if (!dgrid) {
        tpi_release(dx);
        return false;
    }
    out[0] = tpi_from_compute(dx, (tp_dtype)input->dtype);
    out[1] = tpi_from_compute(dgrid, (tp_dtype)grid->dtype);
    if (out[0] && out[1]) return true;
    tpi_release(out[0]);
    tpi_release(out[1]);
    return false;
}

/* The grid of affine_grid for the identity: (places, dims + 1) with a last column of ones; the last spatial dim's
 * coordinate comes first. */
tp_tensor *tpi_native_base_grid(tp_ints size, bool align_corners, tp_dtype dtype, tp_device device) {
    if (size.n < 3 || size.n > 5 || tpi_numel_of(size) < 0)
        return tp_ok() ? tpi_fail(TP_ERR_RUNTIME,
                                  "argument 'size': expected a batch, channels and one to three more sizes, got %s",
                                  tpi_shape_text(size))
                       : NULL;
    int n = (int)size.n - 2;
    int64_t points = tpi_size_product(size.v + 2, n);
    tp_tensor *out = tpi_empty(TP_INTS(points, n + 1), TP_FLOAT64, (tp_device){TP_CPU, 0});
    for (int64_t o = 0; out && o < points; o++) {
        double *row = (double *)out->data + o * (n + 1);
        int64_t rest = o;
        for (int d = 0; d < n; d++) {
            int64_t m = size.v[size.n - 1 - d], at = rest % m;
            rest /= m;
            row[d] = m <= 1          ? 0
                     : align_corners ? -1 + 2.0 * (double)at / (double)(m - 1)
                                     : (2.0 * (double)at + 1) / (double)m - 1;
        }
        row[n] = 1;
    }
    return tpi_moved_data(tpi_from_compute(out, dtype), tpi_device_or_default(device));
}
