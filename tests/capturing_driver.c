/* See capturing_driver.h. A graph is a list of calls; what a launch's values point to is copied. */
#include "capturing_driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tpt_graph_launches, tpt_kept_calls;
bool tpt_capture_fails;

typedef struct kept_call {
    enum { LAUNCH, COPY, SET } what;
    tpi_gpu_function *function;
    unsigned grid[3], block[3];
    size_t shared, bytes;
    int nargs, byte;
    tpi_gpu_arg *args;
    void *to;
    const void *from;
    struct kept_call *next;
} kept_call;

struct tpi_gpu_graph {
    kept_call *first, **last;
};

static tpi_gpu_driver driver;
static tpi_gpu_stream *captured; /* NULL: nothing is */
static tpi_gpu_graph *recorded;

static kept_call *keep(kept_call call) {
    kept_call *k = malloc(sizeof *k);
    *k = call;
    k->next = NULL;
    *recorded->last = k;
    recorded->last = &k->next;
    tpt_kept_calls++;
    return k;
}

static bool launch(int index, tpi_gpu_stream *stream, tpi_gpu_function *function, const unsigned grid[3],
                   const unsigned block[3], size_t shared, int nargs, const tpi_gpu_arg *args) {
    if (!captured || stream != captured)
        return tpi_opencl_driver.launch(index, stream, function, grid, block, shared, nargs, args);
    kept_call *k = keep((kept_call){.what = LAUNCH, .function = function, .shared = shared, .nargs = nargs});
    memcpy(k->grid, grid, sizeof k->grid);
    memcpy(k->block, block, sizeof k->block);
    k->args = malloc((size_t)(nargs + 1) * sizeof *k->args);
    for (int i = 0; i < nargs; i++) {
        k->args[i] = args[i];
        if (args[i].kind == TPI_GPU_POINTER) continue;
        void *value = malloc(args[i].bytes + 1);
        memcpy(value, args[i].value, args[i].bytes);
        k->args[i].value = value;
    }
    return true;
}

static bool copy(int index, tpi_gpu_stream *stream, void *to, const void *from, size_t bytes, tpi_gpu_way way) {
    if (!captured || stream != captured) return tpi_opencl_driver.copy(index, stream, to, from, bytes, way);
    if (way != TPI_GPU_WITHIN) return tpi_refuse(TP_ERR_RUNTIME, "a copy of host memory in a capture");
    keep((kept_call){.what = COPY, .to = to, .from = from, .bytes = bytes});
    return true;
}

static bool set(int index, tpi_gpu_stream *stream, void *to, int byte, size_t bytes) {
    if (!captured || stream != captured) return tpi_opencl_driver.set(index, stream, to, byte, bytes);
    keep((kept_call){.what = SET, .to = to, .byte = byte, .bytes = bytes});
    return true;
}

static bool capture_begin(int index, tpi_gpu_stream *stream, int mode) {
    (void)index;
    (void)mode;
    captured = stream;
    recorded = calloc(1, sizeof *recorded);
    recorded->last = &recorded->first;
    tpt_kept_calls = 0;
    return true;
}

static void graph_free(tpi_gpu_graph *graph) {
    while (graph->first) {
        kept_call *k = graph->first;
        graph->first = k->next;
        for (int i = 0; i < k->nargs; i++)
            if (k->args[i].kind != TPI_GPU_POINTER) free((void *)k->args[i].value);
        free(k->args);
        free(k);
    }
    free(graph);
}

static bool capture_end(int index, tpi_gpu_stream *stream, tpi_gpu_graph **graph) {
    (void)index;
    (void)stream;
    captured = NULL;
    if (tpt_capture_fails) {
        graph_free(recorded);
        return tpi_refuse(TP_ERR_RUNTIME, "the capture was given up");
    }
    *graph = recorded;
    return true;
}

static int capturing(int index, tpi_gpu_stream *stream) {
    (void)index;
    return stream && stream == captured;
}

static bool again(int index, tpi_gpu_stream *stream, const kept_call *k) {
    if (k->what == COPY) return tpi_opencl_driver.copy(index, stream, k->to, k->from, k->bytes, TPI_GPU_WITHIN);
    if (k->what == SET) return tpi_opencl_driver.set(index, stream, k->to, k->byte, k->bytes);
    return tpi_opencl_driver.launch(index, stream, k->function, k->grid, k->block, k->shared, k->nargs, k->args);
}

static bool graph_launch(int index, tpi_gpu_graph *graph, tpi_gpu_stream *stream) {
    tpt_graph_launches++;
    if (driver.type == TP_CUDA) return tpi_cuda_driver.graph_launch(index, graph, stream);
    for (const kept_call *k = graph->first; k; k = k->next)
        if (!again(index, stream, k)) return false;
    return true;
}

bool tpt_put_capturing_driver(void) {
    setenv("TAPER_XPU_DEVICES", "all", 0);
    if (tpi_cuda_driver.count() > 0) {
        driver = tpi_cuda_driver;
    } else if (tpi_opencl_driver.count() > 0) {
        driver = tpi_opencl_driver;
        driver.launch = launch;
        driver.copy = copy;
        driver.set = set;
        driver.capture_begin = capture_begin;
        driver.capture_end = capture_end;
        driver.capturing = capturing;
        driver.graph_free = graph_free;
    } else {
        return false;
    }
    driver.graph_launch = graph_launch;
    tpi_gpu_put_driver(&driver);
    return true;
}

tp_device tpt_capturing_device(void) { return (tp_device){(int16_t)driver.type, 0}; }

const char *tpt_no_device(void) {
    static char text[512];
    snprintf(text, sizeof text, "no GPU and no OpenCL device here (%s; %s)", tpi_cuda_driver.missing(),
             tpi_opencl_driver.missing());
    return text;
}
