/* Depthwise convolution: which shapes take it, and its tasks (one plane of the result, or one filter over the whole
 * batch, each). */
#include "ops/conv/depthwise.h"
#include "base/threads.h"

typedef struct job {
    const tpi_conv *c;
    tp_dtype dtype;
    const char *x, *y, *w, *bias;
    char *out;
} job;

static bool fits(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    return c->cx == 1 && c->cy == 1 && c->groups > 1 && call->dtype != TP_INT64 && !call->last;
}

static void start_plane(const job *j, int64_t channel, char *plane, int64_t n) {
    if (j->dtype == TP_FLOAT32) {
        float b = j->bias ? ((const float *)j->bias)[channel] : 0;
        for (int64_t i = 0; i < n; i++) ((float *)plane)[i] = b;
    } else {
        double b = j->bias ? ((const double *)j->bias)[channel] : 0;
        for (int64_t i = 0; i < n; i++) ((double *)plane)[i] = b;
    }
}

static void y_task(int64_t task, void *context) {
    job *j = context;
    int64_t item = tpi_dtype_bytes[j->dtype], group = task % j->c->groups;
    const void *x = j->x + task * tpi_conv_xsize(j->c) * item, *w = j->w + group * tpi_conv_taps(j->c) * item;
    void *y = j->out + task * tpi_conv_ysize(j->c) * item;
    start_plane(j, group, y, tpi_conv_ysize(j->c));
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_plane_y_f32)(j->c, x, w, y);
    else
        TPI_ISA_PICK(tpi_plane_y_f64)(j->c, x, w, y);
}

static void x_task(int64_t task, void *context) {
    job *j = context;
    int64_t item = tpi_dtype_bytes[j->dtype], group = task % j->c->groups;
    const void *y = j->y + task * tpi_conv_ysize(j->c) * item, *w = j->w + group * tpi_conv_taps(j->c) * item;
    void *x = j->out + task * tpi_conv_xsize(j->c) * item;
    start_plane(j, group, x, tpi_conv_xsize(j->c));
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_plane_x_f32)(j->c, y, w, x);
    else
        TPI_ISA_PICK(tpi_plane_x_f64)(j->c, y, w, x);
}

static void w_task(int64_t group, void *context) {
    job *j = context;
    int64_t item = tpi_dtype_bytes[j->dtype];
    void *w = j->out + group * tpi_conv_taps(j->c) * item;
    start_plane(j, group, w, tpi_conv_taps(j->c));
    for (int64_t image = 0; image < j->c->batch; image++) {
        int64_t plane = image * j->c->groups + group;
        const void *x = j->x + plane * tpi_conv_xsize(j->c) * item, *y = j->y + plane * tpi_conv_ysize(j->c) * item;
        if (j->dtype == TP_FLOAT32)
            TPI_ISA_PICK(tpi_plane_w_f32)(j->c, x, y, w);
        else
            TPI_ISA_PICK(tpi_plane_w_f64)(j->c, x, y, w);
    }
}

static bool worth_it(const tpi_conv *c) {
    return (double)c->batch * c->groups * tpi_conv_taps(c) * tpi_conv_ysize(c) > 50e3;
}

static bool run(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    job j = {c, call->dtype, call->x, call->y, call->w, call->bias, call->out};
    static const tpi_chunk_fn tasks[] = {[TPI_CONV_Y] = y_task, [TPI_CONV_X] = x_task, [TPI_CONV_W] = w_task};
    int64_t planes = call->role == TPI_CONV_W ? c->groups : c->batch * c->groups;
    tpi_parallel_for(planes, worth_it(c), tasks[call->role], &j);
    return true;
}

const tpi_conv_way tpi_conv_depthwise = {fits, run};
