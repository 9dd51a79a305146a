/* GPU streams in backward. A run computes on the caller's current streams. Where a node's forward ran on another
 * stream, what it saved was written there: the current one waits for that stream before the node's turn, once per run;
 * and when the run is over that stream waits for the current one, so that memory which the node gave back there is not
 * written over while backward still reads it. */
#include "tensor/same_device.h"
#include "autograd/tape.h"
#include "device/gpu/driver.h"

/* Waiting across the border of a capture is not allowed, and not needed: what a graph reads is there before it is
 * replayed. */
static bool may_wait(const tpi_gpu_driver *driver, int index, tpi_gpu_stream *a, tpi_gpu_stream *b) {
    return !driver->capturing || driver->capturing(index, a) == driver->capturing(index, b);
}

static bool wait_for(tp_device device, tpi_gpu_stream *stream, tpi_gpu_stream *other) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver) return false;
    return !may_wait(driver, device.index, stream, other) || tpi_gpu_stream_wait(device, stream, device, other);
}

bool tpi_meet(tpi_met *met, const tpi_node *node) {
    const tpi_meta *meta = node->metas, *end = meta + node->noutputs;
    while (meta < end && !meta->shape) meta++; /* outputs without a gradient have none */
    if (meta == end || !tpi_is_gpu(meta->device)) return true;
    tp_device device = meta->device;
    tpi_gpu_stream *now = tpi_gpu_stream_of(device), *then = meta->stream;
    if (now == then) return true;
    for (int i = 0; i < met->n; i++)
        if (met->with[i].stream == then && tpi_same_device(met->with[i].device, device)) return true;
    if (met->n == TPI_MET_MOST) { /* as good as waiting at both ends */
        const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
        return driver && driver->device_sync(device.index);
    }
    met->with[met->n].device = device;
    met->with[met->n++].stream = then;
    return wait_for(device, now, then);
}

bool tpi_part(const tpi_met *met) {
    bool ok = true;
    for (int i = 0; i < met->n; i++)
        ok = wait_for(met->with[i].device, met->with[i].stream, tpi_gpu_stream_of(met->with[i].device)) && ok;
    return ok;
}
