/* The caching allocator of device memory, as PyTorch's behaves.
 *
 * A request is rounded up to 512 bytes. Up to 1 MiB it is cut from segments of 2 MiB (the small pool); below 10 MiB
 * from segments of 20 MiB, and larger ones get a segment of their own, rounded to 2 MiB (the large pool). A freed piece
 * joins its free neighbours and is kept for its stream: work is in order there, so it can be handed out at once, before
 * the device is done with it. A piece that other streams use (record_stream) is handed out again when events recorded
 * on them at the time of freeing have come.
 *
 * When the driver has no more, whole free segments go back to it and the request is tried again; then it is an error
 * that names the largest free piece and the largest owners, and everything goes on as before. While a graph is
 * captured, the captured streams allocate from a private pool, whose pieces are reused within that pool alone for as
 * long as a graph holds it: a replay finds its memory untouched.
 *
 * One mutex per device; an allocation and its free take about a hundred nanoseconds. */
#include "device/gpu/memory.h"
#include "device/gpu/gpu.h"
#include <stdio.h>
#include <string.h>

enum { UNIT = 512, OWNERS = 5 };
#define MIB           ((size_t)1 << 20)
#define SMALL_MOST    MIB /* the largest request of the small pool */
#define SMALL_SEGMENT (2 * MIB)
#define LARGE_SEGMENT (20 * MIB)
#define OWN_SEGMENT   (10 * MIB) /* from here on a request gets a segment of its own */
#define MOST          ((size_t)1 << 46)

typedef struct tpi_gpu_waiting { /* an event that a freed piece waits for */
    struct tpi_gpu_waiting *next;
    tpi_gpu_piece *piece;
    tpi_gpu_stream *stream;
    tpi_gpu_event *event;
} waiting;

TPI_THREAD_LOCAL const char *tpi_gpu_owner;

/* ---- One per device, started on first use ---- */
static tpi_gpu_memory cuda_memory[TPI_MAX_GPUS], xpu_memory[TPI_MAX_GPUS];
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

static tpi_gpu_memory *memory_of(tp_device device) {
    if (device.index < 0 || device.index >= TPI_MAX_GPUS) return NULL;
    return device.type == TP_CUDA  ? &cuda_memory[device.index]
           : device.type == TP_XPU ? &xpu_memory[device.index]
                                   : NULL;
}

bool tpi_gpu_memory_started(tp_device device) {
    tpi_gpu_memory *m = memory_of(device);
    return m && __atomic_load_n(&m->started, __ATOMIC_ACQUIRE);
}

static tpi_gpu_memory *start(tp_device device, tpi_gpu_memory *m) {
    if (!tpi_gpu_caps_of(device)) return NULL;
    pthread_mutex_lock(&start_lock);
    if (!m->started) {
        pthread_mutex_init(&m->lock, NULL);
        m->device = device;
        m->driver = tpi_gpu_driver_of((tp_device_type)device.type);
        m->fraction = 1;
        __atomic_store_n(&m->started, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&start_lock);
    return m;
}

tpi_gpu_memory *tpi_gpu_memory_of(tp_device device) {
    tpi_gpu_memory *m = memory_of(device);
    if (!m)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'device': expected a GPU with an index from 0 to %d, got type %d index %d",
                        TPI_MAX_GPUS - 1, device.type, device.index);
    return __atomic_load_n(&m->started, __ATOMIC_ACQUIRE) ? m : start(device, m);
}

/* ---- Counters ---- */
static inline void add(tp_gpu_counter *c, int64_t n) {
    c->current += n;
    if (c->current > c->peak) c->peak = c->current;
    *(n > 0 ? &c->allocated : &c->freed) += n > 0 ? n : -n;
}

static inline void count(tp_gpu_counter *c, bool large, int64_t n) {
    add(&c[TP_GPU_POOL_ALL], n);
    add(&c[large ? TP_GPU_POOL_LARGE : TP_GPU_POOL_SMALL], n);
}

static inline void count_piece(tp_gpu_counter *number, tp_gpu_counter *bytes, const tpi_gpu_piece *p, int sign) {
    count(number, p->large, sign);
    count(bytes, p->large, sign * (int64_t)p->bytes);
}

/* ---- Pieces by address ---- */
static inline size_t slot_of(const tpi_gpu_memory *m, const void *address) {
    return (size_t)(((uintptr_t)address >> 9) * 0x9E3779B97F4A7C15ull >> 20) & (m->map_capacity - 1);
}

static bool map_grow(tpi_gpu_memory *m) {
    size_t capacity = m->map_capacity ? 2 * m->map_capacity : 1024, old_capacity = m->map_capacity;
    tpi_gpu_piece **before = m->map, **map = tpi_new0(capacity * sizeof *map);
    if (!map) return false;
    m->map = map;
    m->map_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (!before[i]) continue;
        size_t s = slot_of(m, before[i]->address);
        while (map[s]) s = (s + 1) & (capacity - 1);
        map[s] = before[i];
    }
    if (before) tpi_delete(before, old_capacity * sizeof *before);
    return true;
}

static bool map_reserve(tpi_gpu_memory *m) { return m->map_capacity > 2 * m->map_used || map_grow(m); }

static void map_put(tpi_gpu_memory *m, tpi_gpu_piece *p) {
    size_t s = slot_of(m, p->address);
    while (m->map[s]) s = (s + 1) & (m->map_capacity - 1);
    m->map[s] = p;
    m->map_used++;
}

static tpi_gpu_piece *map_find(const tpi_gpu_memory *m, const void *address) {
    if (!m->map_capacity) return NULL;
    for (size_t s = slot_of(m, address); m->map[s]; s = (s + 1) & (m->map_capacity - 1))
        if (m->map[s]->address == address) return m->map[s];
    return NULL;
}

static void map_remove(tpi_gpu_memory *m, const tpi_gpu_piece *p) {
    size_t mask = m->map_capacity - 1, s = slot_of(m, p->address);
    while (m->map[s] != p) s = (s + 1) & mask;
    m->map_used--;
    for (size_t hole = s;;) { /* what follows moves up, unless the hole is before its own place */
        m->map[hole] = NULL;
        size_t t = hole;
        do {
            t = (t + 1) & mask;
            if (!m->map[t]) return;
        } while (((t - slot_of(m, m->map[t]->address)) & mask) < ((t - hole) & mask));
        m->map[hole] = m->map[t];
        hole = t;
    }
}

/* ---- Free lists ---- */
static inline int bin_of(size_t bytes) {
    size_t u = bytes / UNIT;
    if (u < 16) return (int)u;
    int shift = 59 - __builtin_clzll(u); /* keeps the leading bit and four more */
    int b = shift * 16 + (int)(u >> shift);
    return b < TPI_GPU_BINS ? b : TPI_GPU_BINS - 1;
}

static bool is_part(const tpi_gpu_piece *p) { return p->before || p->after; }

static void list_put(tpi_gpu_memory *m, tpi_gpu_piece *p) {
    tpi_gpu_pool *pool = p->pool;
    int b = bin_of(p->bytes);
    tpi_gpu_piece *less = NULL, *at = pool->bin[p->large][b];
    while (at && (at->bytes < p->bytes || (at->bytes == p->bytes && at->address < p->address))) {
        less = at;
        at = at->greater;
    }
    p->lesser = less;
    p->greater = at;
    p->state = TPI_BLOCK_FREE;
    if (at) at->lesser = p;
    if (less)
        less->greater = p;
    else {
        pool->bin[p->large][b] = p;
        pool->full[p->large][b / 64] |= (uint64_t)1 << b % 64;
    }
    if (is_part(p)) count_piece(m->count.inactive_split, m->count.inactive_split_bytes, p, 1);
}

static void list_remove(tpi_gpu_memory *m, tpi_gpu_piece *p) {
    tpi_gpu_pool *pool = p->pool;
    int b = bin_of(p->bytes);
    if (p->greater) p->greater->lesser = p->lesser;
    if (p->lesser)
        p->lesser->greater = p->greater;
    else if (!(pool->bin[p->large][b] = p->greater))
        pool->full[p->large][b / 64] &= ~((uint64_t)1 << b % 64);
    p->lesser = p->greater = NULL;
    if (is_part(p)) count_piece(m->count.inactive_split, m->count.inactive_split_bytes, p, -1);
}

/* The smallest free piece of at least that many bytes; the lowest of several. */
static tpi_gpu_piece *best_fit(const tpi_gpu_pool *pool, bool large, size_t bytes) {
    int b = bin_of(bytes);
    tpi_gpu_piece *p = pool->bin[large][b];
    while (p && p->bytes < bytes) p = p->greater;
    if (p) return p;
    if (++b >= TPI_GPU_BINS) return NULL;
    uint64_t word = pool->full[large][b / 64] >> b % 64 << b % 64;
    for (int w = b / 64;; word = pool->full[large][w]) {
        if (word) return pool->bin[large][w * 64 + __builtin_ctzll(word)];
        if (++w == TPI_GPU_BINS / 64) return NULL;
    }
}

/* ---- Records of pieces ---- */
static tpi_gpu_piece *new_piece(tpi_gpu_memory *m) {
    tpi_gpu_piece *p = m->spare;
    if (!p) return tpi_new0(sizeof *p);
    m->spare = p->after;
    memset(p, 0, sizeof *p);
    return p;
}

static void drop_piece(tpi_gpu_memory *m, tpi_gpu_piece *p) {
    p->after = m->spare;
    m->spare = p;
}

/* Two neighbours go on as one piece: `next` becomes part of p. */
static void join(tpi_gpu_memory *m, tpi_gpu_piece *p, tpi_gpu_piece *next) {
    p->bytes += next->bytes;
    p->after = next->after;
    if (p->after) p->after->before = p;
    drop_piece(m, next);
}

static void make_free(tpi_gpu_memory *m, tpi_gpu_piece *p) { /* not in the map any more */
    if (p->after && p->after->state == TPI_BLOCK_FREE) {
        list_remove(m, p->after);
        join(m, p, p->after);
    }
    if (p->before && p->before->state == TPI_BLOCK_FREE) {
        tpi_gpu_piece *first = p->before;
        list_remove(m, first);
        join(m, first, p);
        p = first;
    }
    list_put(m, p);
}

/* Leaves `bytes` in front; what is behind becomes free, under the record `rest`. */
static void cut(tpi_gpu_memory *m, tpi_gpu_piece *p, size_t bytes, tpi_gpu_piece *rest) {
    *rest = (tpi_gpu_piece){.address = p->address + bytes,
                            .bytes = p->bytes - bytes,
                            .before = p,
                            .after = p->after,
                            .pool = p->pool,
                            .large = p->large};
    if (rest->after) rest->after->before = rest;
    p->after = rest;
    p->bytes = bytes;
    list_put(m, rest);
}

/* ---- Other streams' events ---- */
static void wait_done(tpi_gpu_memory *m, waiting *w) { /* taken out of the queue already */
    m->driver->event_free(m->device.index, w->event);
    tpi_gpu_piece *p = w->piece;
    tpi_delete(w, sizeof *w);
    if (--p->pending > 0) return;
    count_piece(m->count.active, m->count.active_bytes, p, -1);
    map_remove(m, p);
    make_free(m, p);
}

/* Events come in the order they were recorded on a stream, so the first that has not come answers for those behind it.
 */
static void poll_events(tpi_gpu_memory *m, bool wait) {
    waiting **link = &m->first, *last = NULL;
    tpi_gpu_stream *busy = NULL;
    bool any_busy = false;
    while (*link) {
        waiting *w = *link;
        bool come = wait;
        if (wait)
            m->driver->event_sync(m->device.index, w->event);
        else if (!any_busy || w->stream != busy)
            come = m->driver->event_query(m->device.index, w->event) != 0;
        if (!come) {
            busy = w->stream;
            any_busy = true;
            last = w;
            link = &w->next;
            continue;
        }
        *link = w->next;
        wait_done(m, w);
    }
    m->last = last;
}

/* False without an error: no event could be recorded, and the caller waits for the streams instead. */
static bool wait_for(tpi_gpu_memory *m, tpi_gpu_piece *p, tpi_gpu_stream *stream) {
    waiting *w = tpi_new0(sizeof *w);
    if (!w) return false;
    if (!m->driver->event_new(m->device.index, false, &w->event)) {
        tpi_delete(w, sizeof *w);
        return false;
    }
    if (!m->driver->event_record(m->device.index, w->event, stream)) {
        m->driver->event_free(m->device.index, w->event);
        tpi_delete(w, sizeof *w);
        return false;
    }
    w->piece = p;
    w->stream = stream;
    if (m->last)
        m->last->next = w;
    else
        m->first = w;
    m->last = w;
    p->pending++;
    return true;
}

static void release_used(tpi_gpu_memory *m, tpi_gpu_piece *p) {
    bool fine = tp_ok();
    p->state = TPI_BLOCK_AWAITING;
    p->pending = 1; /* until all events are recorded */
    for (int i = 0; i < p->nuses; i++) {
        if (wait_for(m, p, p->uses[i])) continue;
        if (fine) tp_error_clear();
        m->driver->stream_sync(m->device.index, p->uses[i]);
    }
    tpi_mfree(p->uses);
    p->uses = NULL;
    p->nuses = 0;
    if (--p->pending > 0) return;
    count_piece(m->count.active, m->count.active_bytes, p, -1);
    map_remove(m, p);
    make_free(m, p);
}

static void free_deferred(tpi_gpu_memory *m) {
    for (tpi_gpu_piece *p = m->deferred, *next; p; p = next) {
        next = p->greater;
        p->greater = NULL;
        release_used(m, p);
    }
    m->deferred = NULL;
}

/* ---- Segments ---- */
static size_t segment_bytes(size_t bytes) {
    if (bytes <= SMALL_MOST) return SMALL_SEGMENT;
    if (bytes < OWN_SEGMENT) return LARGE_SEGMENT;
    return (bytes + SMALL_SEGMENT - 1) / SMALL_SEGMENT * SMALL_SEGMENT;
}

static void free_segment(tpi_gpu_memory *m, tpi_gpu_piece *p) { /* a whole segment, free */
    list_remove(m, p);
    m->driver->free(m->device.index, p->address);
    count_piece(m->count.segment, m->count.reserved_bytes, p, -1);
    m->count.num_device_free++;
    drop_piece(m, p);
}

/* Everything that is free and whole, but not what graphs will come back to. */
static void free_segments(tpi_gpu_memory *m) {
    if (m->capture) return; /* nothing may wait now */
    if (m->first) m->count.num_sync_all_streams++;
    poll_events(m, true);
    for (tpi_gpu_pool *pool = m->pools; pool; pool = pool->next) {
        if (pool->users > 0) continue;
        for (int large = 0; large < 2; large++)
            for (int b = 0; b < TPI_GPU_BINS; b++)
                for (tpi_gpu_piece *p = pool->bin[large][b], *next; p; p = next) {
                    next = p->greater;
                    if (!is_part(p)) free_segment(m, p);
                }
    }
}

static tpi_gpu_piece *new_segment(tpi_gpu_memory *m, tpi_gpu_pool *pool, bool large, size_t bytes) {
    size_t size = segment_bytes(bytes);
    size_t allowed = m->fraction < 1 ? (size_t)(m->fraction * (double)tpi_gpu_caps_of(m->device)->memory) : SIZE_MAX;
    tpi_gpu_piece *p = new_piece(m);
    if (!p) return NULL;
    for (int attempt = 0; attempt < 2 && !p->address; attempt++) {
        if (attempt) {
            m->count.num_alloc_retries++;
            free_segments(m);
        }
        if ((size_t)m->count.reserved_bytes[TP_GPU_POOL_ALL].current + size > allowed) continue;
        p->address = m->driver->alloc(m->device.index, size);
    }
    if (!p->address) {
        drop_piece(m, p);
        return NULL;
    }
    p->bytes = size;
    p->pool = pool;
    p->large = large;
    count_piece(m->count.segment, m->count.reserved_bytes, p, 1);
    m->count.num_device_alloc++;
    return p;
}

/* ---- Out of memory ---- */
static const char *bytes_text(char text[32], size_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    double v = (double)bytes;
    while (v >= 1024 && u < 4) {
        v /= 1024;
        u++;
    }
    snprintf(text, 32, u ? "%.2f %s" : "%.0f %s", v, units[u]);
    return text;
}

typedef struct owner {
    const char *name;
    size_t bytes, blocks;
} owner;

/* Sums by operator; the largest OWNERS of at most 64, largest first. */
static int largest_owners(const tpi_gpu_memory *m, owner *best) {
    owner all[64];
    int n = 0;
    for (size_t s = 0; s < m->map_capacity; s++) {
        const tpi_gpu_piece *p = m->map[s];
        if (!p || p->state != TPI_BLOCK_LIVE) continue;
        int i = 0;
        while (i < n && all[i].name != p->owner && (!all[i].name || !p->owner || strcmp(all[i].name, p->owner))) i++;
        if (i == 64) continue;
        if (i == n) all[n++] = (owner){p->owner, 0, 0};
        all[i].bytes += p->bytes;
        all[i].blocks++;
    }
    int kept = 0;
    for (; kept < OWNERS && kept < n; kept++) {
        int most = kept;
        for (int i = kept + 1; i < n; i++)
            if (all[i].bytes > all[most].bytes) most = i;
        owner one = all[most];
        all[most] = all[kept];
        all[kept] = one;
        best[kept] = one;
    }
    return kept;
}

static size_t largest_free(const tpi_gpu_memory *m) {
    size_t most = 0;
    for (const tpi_gpu_pool *pool = m->pools; pool; pool = pool->next)
        for (int large = 0; large < 2; large++)
            for (int b = TPI_GPU_BINS - 1; b >= 0; b--) {
                const tpi_gpu_piece *p = pool->bin[large][b];
                for (; p; p = p->greater) most = p->bytes > most ? p->bytes : most;
            }
    return most;
}

/* The first line is short enough to stay without memory; the rest is added where there is some. */
static void *out_of_memory(tpi_gpu_memory *m, size_t bytes) {
    size_t free = 0, total = 0;
    m->count.num_ooms++;
    bool fine = tp_ok();
    if (!m->driver->memory_info(m->device.index, &free, &total) && fine) tp_error_clear();
    char a[32], b[32], c[32];
    const char *word = m->device.type == TP_CUDA ? "CUDA" : "XPU";
    tpi_fail(TP_ERR_MEMORY,
             "%s out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which %s is free.", word,
             bytes_text(a, bytes), m->device.index, bytes_text(b, total), bytes_text(c, free));
    char text[1024];
    size_t live = (size_t)m->count.allocated_bytes[TP_GPU_POOL_ALL].current,
           kept = (size_t)m->count.reserved_bytes[TP_GPU_POOL_ALL].current;
    int n = snprintf(
        text, sizeof text,
        "%s is allocated by Taper, and %s is reserved by Taper but unallocated; the largest free block has %s.",
        bytes_text(a, live), bytes_text(b, kept - live), bytes_text(c, largest_free(m)));
    if (m->fraction < 1)
        n += snprintf(text + n, sizeof text - (size_t)n, " This process may use %.0f%% of the device.",
                      100 * m->fraction);
    owner owners[OWNERS];
    int found = largest_owners(m, owners);
    for (int i = 0; i < found && n < (int)sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s in %zu block%s of %s",
                      i ? ", " : " Largest owners: ", bytes_text(a, owners[i].bytes), owners[i].blocks,
                      owners[i].blocks == 1 ? "" : "s", owners[i].name ? owners[i].name : "no operator");
    tpi_error_add(text);
    return NULL;
}

/* ---- Handing out and taking back ---- */
static tpi_gpu_pool *pool_of(tpi_gpu_memory *m, tpi_gpu_stream *stream) {
    uint64_t id = m->capture && m->driver->capturing(m->device.index, stream) == 1 ? m->capture : 0;
    tpi_gpu_pool **link = &m->pools;
    int users = 0;
    for (; *link; link = &(*link)->next) {
        if ((*link)->id != id) continue;
        if ((*link)->stream == stream) return *link;
        users = (*link)->users; /* a private pool's streams are held together */
    }
    tpi_gpu_pool *pool = tpi_new0(sizeof *pool);
    if (!pool) return NULL;
    pool->stream = stream;
    pool->id = id;
    pool->users = users;
    return *link = pool;
}

static bool worth_cutting(bool large, size_t left) { return large ? left > SMALL_MOST : left >= UNIT; }

static tpi_gpu_piece *find_piece(tpi_gpu_memory *m, tpi_gpu_stream *stream, size_t bytes) {
    bool large = bytes > SMALL_MOST;
    tpi_gpu_pool *pool = pool_of(m, stream);
    if (!pool || !map_reserve(m)) return NULL;
    tpi_gpu_piece *p = best_fit(pool, large, bytes);
    if (p)
        list_remove(m, p);
    else
        p = new_segment(m, pool, large, bytes);
    if (!p) return NULL;
    tpi_gpu_piece *rest =
        worth_cutting(large, p->bytes - bytes) ? new_piece(m) : NULL; /* without a record the piece stays whole */
    if (rest) cut(m, p, bytes, rest);
    return p;
}

static void *alloc_on(tpi_gpu_memory *m, size_t asked, tpi_gpu_stream *stream) {
    if (asked > MOST) return out_of_memory(m, asked);
    size_t bytes = asked ? (asked + UNIT - 1) / UNIT * UNIT : UNIT;
    if (!m->capture && m->deferred) free_deferred(m);
    if (!m->capture && m->first) poll_events(m, false);
    tpi_gpu_piece *p = find_piece(m, stream, bytes);
    if (!p) return tp_ok() ? out_of_memory(m, asked) : NULL;
    p->state = TPI_BLOCK_LIVE;
    p->requested = asked;
    p->owner = tpi_op_now ? tpi_op_now : tpi_gpu_owner;
    map_put(m, p);
    count_piece(m->count.allocation, m->count.allocated_bytes, p, 1);
    count_piece(m->count.active, m->count.active_bytes, p, 1);
    count(m->count.requested_bytes, p->large, (int64_t)asked);
    return p->address;
}

void *tpi_gpu_alloc_on(tp_device device, size_t bytes, tpi_gpu_stream *stream) {
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    if (!m) return NULL;
    pthread_mutex_lock(&m->lock);
    void *block = alloc_on(m, bytes, stream);
    pthread_mutex_unlock(&m->lock);
    return block;
}

void *tpi_gpu_alloc(tp_device device, size_t bytes) {
    return tpi_gpu_alloc_on(device, bytes, tpi_gpu_stream_of(device));
}

static void free_piece(tpi_gpu_memory *m, tpi_gpu_piece *p) {
    count_piece(m->count.allocation, m->count.allocated_bytes, p, -1);
    count(m->count.requested_bytes, p->large, -(int64_t)p->requested);
    if (p->nuses && m->capture) {
        p->state = TPI_BLOCK_AWAITING;
        p->greater = m->deferred;
        m->deferred = p;
        return;
    }
    if (p->nuses) {
        release_used(m, p);
        return;
    }
    count_piece(m->count.active, m->count.active_bytes, p, -1);
    map_remove(m, p);
    make_free(m, p);
}

static bool free_live(tpi_gpu_memory *m, void *block) {
    pthread_mutex_lock(&m->lock);
    tpi_gpu_piece *p = map_find(m, block);
    bool live = p && p->state == TPI_BLOCK_LIVE;
    if (live) free_piece(m, p);
    pthread_mutex_unlock(&m->lock);
    return live;
}

void tpi_gpu_free(tp_device device, void *block, size_t bytes) {
    (void)bytes;
    if (block && tpi_gpu_memory_started(device)) free_live(memory_of(device), block);
}

bool tpi_gpu_owns(tp_device device, const void *block) {
    if (!tpi_gpu_memory_started(device)) return false;
    tpi_gpu_memory *m = memory_of(device);
    pthread_mutex_lock(&m->lock);
    const tpi_gpu_piece *p = map_find(m, block);
    bool live = p && p->state == TPI_BLOCK_LIVE;
    pthread_mutex_unlock(&m->lock);
    return live;
}

static bool use_on(tpi_gpu_piece *p, tpi_gpu_stream *stream) {
    if (stream == p->pool->stream) return true;
    for (int i = 0; i < p->nuses; i++)
        if (p->uses[i] == stream) return true;
    tpi_gpu_stream **uses = tpi_realloc(p->uses, (size_t)(p->nuses + 1) * sizeof *uses);
    if (!uses) return false;
    p->uses = uses;
    p->uses[p->nuses++] = stream;
    return true;
}

/* Without memory to remember the use, the stream is waited for now: the block is then done with it. */
void tpi_gpu_record_stream(tp_device device, void *block, tpi_gpu_stream *stream) {
    if (!tpi_gpu_memory_started(device)) return;
    tpi_gpu_memory *m = memory_of(device);
    pthread_mutex_lock(&m->lock);
    bool fine = tp_ok();
    tpi_gpu_piece *p = map_find(m, block);
    bool noted = !p || use_on(p, stream);
    if (!noted && fine) tp_error_clear();
    pthread_mutex_unlock(&m->lock);
    if (!noted) m->driver->stream_sync(device.index, stream);
}

/* ---- Private pools ---- */
bool tpi_gpu_pool_begin(tp_device device, uint64_t pool, tpi_gpu_stream *stream) {
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    if (!m) return false;
    pthread_mutex_lock(&m->lock);
    bool free = m->capture == 0, held = false;
    for (tpi_gpu_pool *p = m->pools; free && p; p = p->next)
        if (p->id == pool) {
            p->users++;
            held = true;
        }
    if (free && !held) { /* the stream's own part is there from the start, so that users has a place to be counted */
        tpi_gpu_pool *p = tpi_new0(sizeof *p);
        if (p) {
            *p = (tpi_gpu_pool){.next = m->pools, .stream = stream, .id = pool, .users = 1};
            m->pools = p;
        }
        held = p != NULL;
    }
    if (free && held) m->capture = pool;
    pthread_mutex_unlock(&m->lock);
    return free ? held : tpi_refuse(TP_ERR_RUNTIME, "a graph is being captured on device %d already", device.index);
}

void tpi_gpu_pool_end(tp_device device, uint64_t pool) {
    if (!tpi_gpu_memory_started(device)) return;
    tpi_gpu_memory *m = memory_of(device);
    pthread_mutex_lock(&m->lock);
    if (m->capture == pool) m->capture = 0;
    pthread_mutex_unlock(&m->lock);
}

void tpi_gpu_pool_release(tp_device device, uint64_t pool) {
    if (!tpi_gpu_memory_started(device)) return;
    tpi_gpu_memory *m = memory_of(device);
    pthread_mutex_lock(&m->lock);
    for (tpi_gpu_pool *p = m->pools; p; p = p->next)
        if (p->id == pool && p->users > 0) p->users--;
    pthread_mutex_unlock(&m->lock);
}

/* ---- For everybody ---- */
bool tp_gpu_empty_cache(tp_device_type type) {
    for (int i = 0; i < TPI_MAX_GPUS; i++) {
        tp_device device = {(int16_t)type, (int16_t)i};
        if (!tpi_gpu_memory_started(device)) continue;
        tpi_gpu_memory *m = memory_of(device);
        pthread_mutex_lock(&m->lock);
        if (!m->capture) free_deferred(m);
        free_segments(m);
        pthread_mutex_unlock(&m->lock);
    }
    return true;
}

bool tp_gpu_set_fraction(tp_device device, double fraction) {
    if (!(fraction >= 0 && fraction <= 1))
        return tpi_refuse(TP_ERR_VALUE, "argument 'fraction': expected a number from 0 to 1, got %g", fraction);
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    if (!m) return false;
    pthread_mutex_lock(&m->lock);
    m->fraction = fraction;
    pthread_mutex_unlock(&m->lock);
    return true;
}

double tp_gpu_fraction(tp_device device) {
    tpi_gpu_memory *m = tpi_gpu_memory_of(device);
    return m ? m->fraction : 1;
}

void *tp_gpu_memory_alloc(tp_device device, int64_t bytes, tp_stream *stream) {
    if (bytes < 0) return tpi_fail(TP_ERR_VALUE, "argument 'bytes': expected 0 or more, got %lld", (long long)bytes);
    return tpi_gpu_alloc_on(device, (size_t)bytes, (tpi_gpu_stream *)stream);
}

bool tp_gpu_memory_free(void *block) {
    for (int type = TP_CUDA; type <= TP_XPU; type++)
        for (int i = 0; i < TPI_MAX_GPUS; i++) {
            tp_device device = {(int16_t)type, (int16_t)i};
            if (tpi_gpu_memory_started(device) && free_live(memory_of(device), block)) return true;
        }
    return block ? tpi_refuse(TP_ERR_VALUE, "argument 'block': %p is not a live block of device memory", block) : true;
}

bool tp_gpu_used(tp_device_type type) {
    for (int i = 0; i < TPI_MAX_GPUS; i++)
        if (tpi_gpu_memory_started((tp_device){(int16_t)type, (int16_t)i})) return true;
    return false;
}
