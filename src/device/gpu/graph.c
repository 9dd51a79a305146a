/* Graphs: what a stream is given between begin and end is recorded by the driver, and started again as one piece. Memory that is
 * allocated meanwhile comes from a private pool, held for as long as the graph lives. */
#include <stdatomic.h>
#include <taper/gpu.h>
#include "device/gpu/driver.h"

struct tp_gpu_graph {
    const tpi_gpu_driver *driver; /* NULL before begin */
    tpi_gpu_graph *graph;         /* NULL before end */
    tpi_gpu_stream *stream;       /* that is being captured */
    tp_device device;
    uint64_t pool;                /* 0: none held */
};

uint64_t tp_gpu_pool_new(void) {
    static atomic_ullong last;
    return ++last;
}

tp_gpu_graph *tp_gpu_graph_new(void) { return tpi_new0(sizeof(tp_gpu_graph)); }

bool tp_gpu_graph_begin(tp_gpu_graph *graph, tp_device device, uint64_t pool, tp_capture_mode mode) {
    if (graph->driver) return tpi_refuse(TP_ERR_RUNTIME, "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.");
    if (!tpi_gpu_caps_of(device)) return false;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver->capture_begin) return tpi_refuse(TP_ERR_MISSING, "graphs are not available with %s", driver->name);
    tpi_gpu_stream *stream = tpi_gpu_stream_of(device);
    if (!stream)
        return tpi_refuse(TP_ERR_RUNTIME, "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default stream.)");
    if (!pool) pool = tp_gpu_pool_new();
    if (!tpi_gpu_pool_begin(device, pool, stream)) return false;
    if (!driver->capture_begin(device.index, stream, mode)) {
        tpi_gpu_pool_end(device, pool);
        tpi_gpu_pool_release(device, pool);
        return false;
    }
    *graph = (tp_gpu_graph){.driver = driver, .stream = stream, .device = device, .pool = pool};
    return true;
}

bool tp_gpu_graph_end(tp_gpu_graph *graph) {
    if (!graph->stream) return tpi_refuse(TP_ERR_RUNTIME, "capture_end: this graph is not being captured");
    bool same = tpi_gpu_stream_of(graph->device) == graph->stream;
    bool fine = graph->driver->capture_end(graph->device.index, graph->stream, &graph->graph);
    graph->stream = NULL;
    tpi_gpu_pool_end(graph->device, graph->pool);
    if (fine && same) return true;
    tp_gpu_graph_reset(graph);
    return fine ? tpi_refuse(TP_ERR_RUNTIME, "Capture must end on the same stream it began on.") : false;
}

bool tp_gpu_graph_replay(tp_gpu_graph *graph) {
    if (!graph->graph) return tpi_refuse(TP_ERR_RUNTIME, "Called CUDAGraph::replay without a preceding successful capture.");
    return graph->driver->graph_launch(graph->device.index, graph->graph, tpi_gpu_stream_of(graph->device));
}

bool tp_gpu_graph_reset(tp_gpu_graph *graph) {
    if (graph->stream) return tp_gpu_graph_end(graph) && tp_gpu_graph_reset(graph);
    if (graph->graph) graph->driver->graph_free(graph->graph);
    if (graph->pool) tpi_gpu_pool_release(graph->device, graph->pool);
    *graph = (tp_gpu_graph){0};
    return true;
}

void tp_gpu_graph_free(tp_gpu_graph *graph) {
    if (!graph) return;
    tp_gpu_graph_reset(graph);
    tpi_delete(graph, sizeof *graph);
}

uint64_t tp_gpu_graph_pool(const tp_gpu_graph *graph) { return graph->pool; }

bool tp_gpu_capturing(tp_device device) {
    if (!tpi_gpu_caps_of(device)) return false;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    return driver->capturing && driver->capturing(device.index, tpi_gpu_stream_of(device)) == 1;
}
