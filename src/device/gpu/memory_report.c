/* The allocator's counters, PyTorch's table of them (memory_summary), and a list of all blocks. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "device/gpu/memory.h"

/* ---- Counters ---- */
static tp_gpu_memory counters(tpi_gpu_memory *m) {
    pthread_mutex_lock(&m->lock);
    tp_gpu_memory now = m->count;
    pthread_mutex_unlock(&m->lock);
    return now;
}

bool tp_gpu_memory_query(tp_device device, tp_gpu_memory *memory) {
    if (!memory || memory->size < (int64_t)sizeof memory->size)
        return tpi_refuse(TP_ERR_VALUE, "argument 'memory': expected a tp_gpu_memory with its size set");
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    if (!m) return false;
    tp_gpu_memory now = counters(m);
    now.size = memory->size;
    memcpy(memory, &now, sizeof now < (size_t)memory->size ? sizeof now : (size_t)memory->size);
    return true;
}

/* The counters are arrays of tp_gpu_counter one behind the other, from `allocation` to `requested_bytes`. */
static bool reset(tp_device device, bool peaks) {
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    if (!m) return false;
    pthread_mutex_lock(&m->lock);
    for (tp_gpu_counter *c = m->count.allocation; c != m->count.requested_bytes + TP_GPU_POOLS; c++) {
        if (peaks)
            c->peak = c->current;
        else
            c->allocated = c->freed = 0;
    }
    if (!peaks)
        m->count.num_alloc_retries = m->count.num_ooms = m->count.num_sync_all_streams = m->count.num_device_alloc =
            m->count.num_device_free = 0;
    pthread_mutex_unlock(&m->lock);
    return true;
}

bool tp_gpu_memory_reset_peak(tp_device device) { return reset(device, true); }
bool tp_gpu_memory_reset_accumulated(tp_device device) { return reset(device, false); }

bool tp_gpu_memory_info(tp_device device, int64_t *free, int64_t *total) {
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    size_t f = 0, t = 0;
    if (!m || !m->driver->memory_info(device.index, &f, &t)) return false;
    if (free) *free = (int64_t)f;
    if (total) *total = (int64_t)t;
    return true;
}

/* ---- The table ---- */
typedef struct page {
    char *text;
    size_t capacity;
    int64_t length; /* as snprintf counts: also what did not fit */
} page;

static void put(page *p, const char *format, ...) TP_PRINTF(2, 3);
static void put(page *p, const char *format, ...) {
    bool fits = p->text && (size_t)p->length < p->capacity;
    va_list args;
    va_start(args, format);
    p->length += vsnprintf(fits ? p->text + p->length : NULL, fits ? p->capacity - (size_t)p->length : 0, format, args);
    va_end(args);
}

/* A column's unit is that of its first row, so that the rows below can be compared with it. */
static int unit_of(int64_t n, bool bytes) {
    int u = 0;
    while (n >= (bytes ? 768 * 1024 : 750 * 1000) && u < (bytes ? 5 : 2)) {
        n /= bytes ? 1024 : 1000;
        u++;
    }
    return u;
}

static void put_cell(page *p, int64_t n, bool bytes, int unit) {
    static const char *const sizes[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"}, *const numbers[] = {" ", "K", "M"};
    for (int u = 0; u < unit; u++) n /= bytes ? 1024 : 1000;
    put(p, bytes ? " %6lld %s |" : " %7lld %s  |", (long long)n, bytes ? sizes[unit] : numbers[unit]);
}

static void put_row(page *p, const char *name, const tp_gpu_counter *c, const tp_gpu_counter *first, bool bytes) {
    put(p, "| %-21s |", name);
    put_cell(p, c->current, bytes, unit_of(first->current, bytes));
    put_cell(p, c->peak, bytes, unit_of(first->peak, bytes));
    put_cell(p, c->allocated, bytes, unit_of(first->allocated, bytes));
    put_cell(p, c->freed, bytes, unit_of(first->freed, bytes));
    put(p, "\n");
}

static void put_metric(page *p, const char *name, const tp_gpu_counter *c, bool bytes, bool abbreviated) {
    put(p, "|---------------------------------------------------------------------------|\n");
    put_row(p, name, &c[TP_GPU_POOL_ALL], c, bytes);
    if (abbreviated) return;
    put_row(p, "      from large pool", &c[TP_GPU_POOL_LARGE], c, bytes);
    put_row(p, "      from small pool", &c[TP_GPU_POOL_SMALL], c, bytes);
}

int64_t tp_gpu_memory_summary(tp_device device, bool abbreviated, char *text, size_t room) {
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    if (!m) return -1;
    tp_gpu_memory c = counters(m);
    page p = {text, room, 0};
    const char *edge = "|===========================================================================|\n";
    const char *kind = device.type == TP_CUDA ? "CUDA" : "XPU";
    char left[64], right[64];
    snprintf(left, sizeof left, "%s OOMs: %lld", kind, (long long)c.num_ooms);
    snprintf(right, sizeof right, "%s retries: %lld", device.type == TP_CUDA ? "cudaMalloc" : "allocation",
             (long long)c.num_alloc_retries);
    put(&p,
        "%s|%*sPyTorch %s memory summary, device ID "
        "%-*d|\n|---------------------------------------------------------------------------|\n",
        edge, 18, "", kind, device.type == TP_CUDA ? 18 : 19, device.index);
    put(&p, "|%*s%-*s|%*s%-*s|\n%s", 12, "", 24, left, 8, "", 30, right, edge);
    put(&p, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n");
    put_metric(&p, "Allocated memory", c.allocated_bytes, true, abbreviated);
    put_metric(&p, "Active memory", c.active_bytes, true, abbreviated);
    put_metric(&p, "Requested memory", c.requested_bytes, true, abbreviated);
    put_metric(&p, "GPU reserved memory", c.reserved_bytes, true, abbreviated);
    put_metric(&p, "Non-releasable memory", c.inactive_split_bytes, true, abbreviated);
    put_metric(&p, "Allocations", c.allocation, false, abbreviated);
    put_metric(&p, "Active allocs", c.active, false, abbreviated);
    put_metric(&p, "GPU reserved segments", c.segment, false, abbreviated);
    put_metric(&p, "Non-releasable allocs", c.inactive_split, false, abbreviated);
    put(&p, "%s", edge);
    return p.length;
}

/* ---- All pieces ---- */
static const tpi_gpu_piece *start_of(const tpi_gpu_piece *p) {
    while (p->before) p = p->before;
    return p;
}

/* A segment is told once, by the first of its pieces that the walk over free lists and the map meets: the free one with
 * the lowest address, or where none is free the one that starts it. */
static bool speaks_for_segment(const tpi_gpu_piece *p) {
    const tpi_gpu_piece *q = start_of(p);
    while (q && q->state != TPI_BLOCK_FREE) q = q->after;
    return q ? q == p : !p->before;
}

static bool tell_segment(const tpi_gpu_piece *any, bool (*each)(const tp_gpu_block *block, void *context),
                         void *context) {
    const tpi_gpu_piece *first = start_of(any);
    size_t bytes = 0;
    for (const tpi_gpu_piece *p = first; p; p = p->after) bytes += p->bytes;
    for (const tpi_gpu_piece *p = first; p; p = p->after) {
        tp_gpu_block block = {.segment = first->address,
                              .segment_bytes = (int64_t)bytes,
                              .stream = p->pool->stream,
                              .large = p->large,
                              .pool = p->pool->id,
                              .address = p->address,
                              .bytes = (int64_t)p->bytes,
                              .requested = p->state == TPI_BLOCK_LIVE ? (int64_t)p->requested : 0};
        block.state = p->state == TPI_BLOCK_FREE   ? TP_GPU_BLOCK_FREE
                      : p->state == TPI_BLOCK_LIVE ? TP_GPU_BLOCK_ALLOCATED
                                                   : TP_GPU_BLOCK_AWAITING;
        if (!each(&block, context)) return false;
    }
    return true;
}

static void tell_all(const tpi_gpu_memory *m, bool (*each)(const tp_gpu_block *block, void *context), void *context) {
    for (const tpi_gpu_pool *pool = m->pools; pool; pool = pool->next)
        for (int i = 0; i < 2 * TPI_GPU_BINS; i++)
            for (const tpi_gpu_piece *p = pool->bin[i / TPI_GPU_BINS][i % TPI_GPU_BINS]; p; p = p->greater)
                if (speaks_for_segment(p) && !tell_segment(p, each, context)) return;
    for (size_t s = 0; s < m->map_capacity; s++)
        if (m->map[s] && speaks_for_segment(m->map[s]) && !tell_segment(m->map[s], each, context)) return;
}

bool tp_gpu_memory_snapshot(tp_device device, bool (*each)(const tp_gpu_block *block, void *context), void *context) {
    if (!each) return tpi_refuse(TP_ERR_VALUE, "argument 'each': expected a function, got NULL");
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    if (!m) return false;
    pthread_mutex_lock(&m->lock);
    tell_all(m, each, context);
    pthread_mutex_unlock(&m->lock);
    return true;
}
