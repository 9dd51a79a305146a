/* Graphs: what a stream is given between begin and end is recorded by the driver, and started again as one piece.
 * Memory that is allocated meanwhile comes from a private pool, held for as long as the graph lives.
 *
 * Random numbers go on from replay to replay. A kernel that draws from the device's default generator while it is
 * captured reads seed and place from memory; the capture itself takes nothing from the stream, and each replay what the
 * capture would have taken. */
#include <stdatomic.h>
#include <taper/gpu.h>
#include "base/random.h"
#include "base/handle.h"
#include "device/gpu/trace.h"

struct tp_gpu_graph {
    const tpi_gpu_driver *driver; /* NULL before begin */
    tpi_gpu_graph *graph;         /* NULL before end */
    tpi_gpu_stream *stream;       /* that is being captured */
    tp_device device;
    uint64_t pool; /* 0: none held */
    void *numbers; /* see tpi_gpu_graph_numbers */
    uint64_t start,
        drawn; /* of the generator's stream, in fours: its place when the capture began, and how much it took */
};

static _Atomic(tp_gpu_graph *) under_way[2][TPI_MAX_GPUS]; /* being captured: cuda's, xpu's */
static _Atomic(tp_gpu_graph *) *capture_of(tp_device device) { return &under_way[device.type == TP_XPU][device.index]; }

/* ---- Random numbers ---- */
void *tpi_gpu_graph_numbers(tp_device device) {
    tp_gpu_graph *graph = *capture_of(device);
    return graph && tp_gpu_capturing(device) ? graph->numbers : NULL;
}

bool tpi_gpu_graph_under_way(tp_device device) {
    return __builtin_expect(*capture_of(device) != NULL, 0) && tp_gpu_capturing(device);
}

static bool write_numbers(tp_gpu_graph *graph, uint64_t seed, uint64_t offset, tpi_gpu_stream *stream) {
    const uint64_t numbers[2] = {seed, offset - graph->start};
    return graph->driver->copy(graph->device.index, stream, graph->numbers, numbers, sizeof numbers, TPI_GPU_FROM_HOST);
}

static bool start_numbers(tp_gpu_graph *graph) {
    tpi_philox now;
    if (!tpi_philox_reserve(NULL, graph->device, 0, &now) ||
        !(graph->numbers = tpi_gpu_alloc(graph->device, 2 * sizeof(uint64_t))))
        return false;
    graph->start = now.offset;
    return write_numbers(graph, now.seed, now.offset, graph->stream);
}

static bool end_numbers(tp_gpu_graph *graph) {
    tpi_philox now;
    if (!tpi_philox_reserve(NULL, graph->device, 0, &now)) return false;
    graph->drawn = now.offset - graph->start;
    tpi_philox_rewind(graph->device, graph->start);
    return true;
}

static bool move_numbers(tp_gpu_graph *graph) { /* before a replay */
    tpi_philox now;
    if (graph->drawn == 0) return true;
    tpi_gpu_stream *stream = tpi_gpu_stream_of(graph->device);
    tpi_gpu_record_stream(graph->device, graph->numbers, stream);
    return tpi_philox_reserve(NULL, graph->device, 4 * graph->drawn, &now) &&
           write_numbers(graph, now.seed, now.offset, stream);
}

/* ---- Graphs ---- */

uint64_t tp_gpu_pool_new(void) {
    static atomic_ullong last;
    return ++last;
}

tp_gpu_graph *tp_gpu_graph_new(void) { return tpi_new0(sizeof(tp_gpu_graph)); }

static bool discard(tp_gpu_graph *graph) { /* what was held; false, for the failure that led here */
    if (graph->graph) graph->driver->graph_free(graph->graph);
    if (graph->pool) tpi_gpu_pool_release(graph->device, graph->pool);
    if (graph->numbers) tpi_gpu_free(graph->device, graph->numbers, 2 * sizeof(uint64_t));
    *graph = (tp_gpu_graph){0};
    return false;
}

bool tp_gpu_graph_begin(tp_gpu_graph *graph, tp_device device, uint64_t pool, tp_capture_mode mode) {
    if (!TPI_GIVEN(graph, "a graph")) return false;
    if (graph->driver)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.");
    if (!tpi_gpu_caps_of(device)) return false;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver->capture_begin) return tpi_refuse(TP_ERR_MISSING, "graphs are not available with %s", driver->name);
    tpi_gpu_stream *stream = tpi_gpu_stream_of(device);
    if (!stream)
        return tpi_refuse(TP_ERR_RUNTIME, "CUDA graphs must be captured on a non-default stream. (However, after "
                                          "capture, it's ok to replay them on the default stream.)");
    *graph = (tp_gpu_graph){.driver = driver, .stream = stream, .device = device};
    if (!pool) pool = tp_gpu_pool_new();
    if (!tpi_gpu_pool_begin(device, pool, stream)) return discard(graph);
    graph->pool = pool;
    if (!start_numbers(graph) || !driver->capture_begin(device.index, stream, mode)) {
        tpi_gpu_pool_end(device, pool);
        return discard(graph);
    }
    *capture_of(device) = graph;
    return true;
}

bool tp_gpu_graph_end(tp_gpu_graph *graph) {
    if (!TPI_GIVEN(graph, "a graph")) return false;
    if (!graph->stream) return tpi_refuse(TP_ERR_RUNTIME, "capture_end: this graph is not being captured");
    bool same = tpi_gpu_stream_of(graph->device) == graph->stream;
    bool fine = graph->driver->capture_end(graph->device.index, graph->stream, &graph->graph);
    graph->stream = NULL;
    *capture_of(graph->device) = NULL;
    tpi_gpu_pool_end(graph->device, graph->pool);
    fine = end_numbers(graph) && fine;
    if (fine && same) return true;
    discard(graph);
    return fine ? tpi_refuse(TP_ERR_RUNTIME, "Capture must end on the same stream it began on.") : false;
}

bool tp_gpu_graph_replay(tp_gpu_graph *graph) {
    if (!TPI_GIVEN(graph, "a graph")) return false;
    if (!graph->graph)
        return tpi_refuse(TP_ERR_RUNTIME, "Called CUDAGraph::replay without a preceding successful capture.");
    if (!move_numbers(graph)) return false;
    tpi_gpu_span span = tpi_gpu_span_begin(graph->device, TP_ACTIVITY_GRAPH, "graph", 0);
    bool ok = graph->driver->graph_launch(graph->device.index, graph->graph, tpi_gpu_stream_of(graph->device));
    tpi_gpu_span_end(&span, ok);
    return ok;
}

bool tp_gpu_graph_reset(tp_gpu_graph *graph) {
    if (!TPI_GIVEN(graph, "a graph")) return false;
    if (graph->stream) return tp_gpu_graph_end(graph) && tp_gpu_graph_reset(graph);
    discard(graph);
    return true;
}

void tp_gpu_graph_free(tp_gpu_graph *graph) {
    if (!graph) return;
    tp_gpu_graph_reset(graph);
    tpi_handle_delete(graph, sizeof *graph);
}

uint64_t tp_gpu_graph_pool(const tp_gpu_graph *graph) {
    if (!TPI_GIVEN(graph, "a graph")) return 0;
    return graph->pool;
}

bool tp_gpu_capturing(tp_device device) {
    if (!tpi_gpu_caps_of(device)) return false;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    return driver->capturing && driver->capturing(device.index, tpi_gpu_stream_of(device)) == 1;
}
