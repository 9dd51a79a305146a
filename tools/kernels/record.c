/* A driver in place of CUDA's that computes nothing: memory is addresses without pages, copies to the host are zeros,
 * launches are forgotten. Every program that is to be compiled is kept instead. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "kernels.h"

static recording *kept;
static bool libraries;

static int one(void) { return 1; }
static const char *nothing_missing(void) { return "nothing is missing"; }
static const char *compiler(void) { return "recording"; }

/* What text may depend on is the same on all of NVIDIA's: a warp of 32 threads, doubles. AMD's have 64 or 32. */
static int warp;
static bool chains;
static bool describe(int index, tpi_gpu_caps *caps) {
    (void)index;
    *caps = (tpi_gpu_caps){.name = "recording",
                           .arch = "recording",
                           .major = 8,
                           .units = 108,
                           .warp = warp,
                           .max_threads = 1024,
                           .threads_per_unit = 2048,
                           .memory = (size_t)1 << 40,
                           .shared = 48 << 10,
                           .shared_most = 99 << 10,
                           .l2 = 40 << 20,
                           .f64 = true,
                           .chains = chains};
    return true;
}
static bool version_text(char *text, size_t capacity) { return capacity > 0 && !(text[0] = 0); }

static void *reserve(int index, size_t bytes) {
    (void)index;
    size_t *block = mmap(NULL, bytes + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return block == MAP_FAILED ? NULL : block; /* stays reserved: an address is all it takes */
}
static void forget(int index, void *block) {
    (void)index;
    (void)block;
}
static bool memory_info(int index, size_t *free, size_t *total) {
    (void)index;
    *free = *total = (size_t)1 << 40;
    return true;
}
static void *host_alloc(size_t bytes) { return calloc(1, bytes); }

static bool copy(int index, tpi_gpu_stream *stream, void *to, const void *from, size_t bytes, tpi_gpu_way way) {
    (void)index;
    (void)stream;
    (void)from;
    if (way == TPI_GPU_TO_HOST) memset(to, 0, bytes);
    return true;
}
static bool set(int index, tpi_gpu_stream *stream, void *to, int byte, size_t bytes) {
    (void)index;
    (void)stream;
    (void)to;
    (void)byte;
    (void)bytes;
    return true;
}

static bool stream_new(int index, int priority, tpi_gpu_stream **stream) {
    (void)index;
    (void)priority;
    return (*stream = malloc(1)) != NULL;
}
static void stream_free(int index, tpi_gpu_stream *stream) {
    (void)index;
    free(stream);
}
static bool stream_sync(int index, tpi_gpu_stream *stream) {
    (void)index;
    (void)stream;
    return true;
}
static int stream_query(int index, tpi_gpu_stream *stream) {
    (void)index;
    (void)stream;
    return 1;
}
static bool stream_wait(int index, tpi_gpu_stream *stream, tpi_gpu_event *event) {
    (void)index;
    (void)stream;
    (void)event;
    return true;
}
static bool device_sync(int index) {
    (void)index;
    return true;
}
static bool event_new(int index, bool timing, tpi_gpu_event **event) {
    (void)index;
    (void)timing;
    return (*event = malloc(1)) != NULL;
}
static void event_free(int index, tpi_gpu_event *event) {
    (void)index;
    free(event);
}
static bool event_record(int index, tpi_gpu_event *event, tpi_gpu_stream *stream) {
    (void)index;
    (void)event;
    (void)stream;
    return true;
}
static int event_query(int index, tpi_gpu_event *event) {
    (void)index;
    (void)event;
    return 1;
}
static bool event_sync(int index, tpi_gpu_event *event) {
    (void)index;
    (void)event;
    return true;
}
static bool event_elapsed(int index, tpi_gpu_event *from, tpi_gpu_event *to, double *milliseconds) {
    (void)index;
    (void)from;
    (void)to;
    *milliseconds = 0;
    return true;
}

/* ---- Programs ---- */
static void *keep(const char *source, const char *name, const char *arch, size_t *bytes) {
    (void)name;
    (void)arch;
    if (kept->n == kept->capacity) {
        int capacity = kept->capacity ? 2 * kept->capacity : 1024;
        recorded *more = realloc(kept->programs, (size_t)capacity * sizeof *more);
        if (!more) return tpi_fail(TP_ERR_MEMORY, "no memory for another program");
        kept->programs = more;
        kept->capacity = capacity;
    }
    recorded *r = &kept->programs[kept->n];
    r->bytes = strlen(source);
    r->source = strdup(source);
    r->hash = tpi_gpu_hash_of(source, r->bytes);
    if (!r->source) return tpi_fail(TP_ERR_MEMORY, "no memory for another program");
    kept->n++;
    *bytes = 1;
    return tpi_malloc(1);
}
static bool load(int index, const void *binary, size_t bytes, tpi_gpu_module **module) {
    (void)index;
    (void)binary;
    (void)bytes;
    return (*module = malloc(1)) != NULL;
}
static bool function(int index, tpi_gpu_module *module, const char *name, tpi_gpu_function **found) {
    (void)index;
    (void)module;
    (void)name;
    return (*found = malloc(1)) != NULL;
}
static int max_blocks(int index, tpi_gpu_function *f, int threads, size_t shared) {
    (void)index;
    (void)f;
    (void)shared;
    return 2048 / threads;
}
static bool launch(int index, tpi_gpu_stream *stream, tpi_gpu_function *f, const unsigned grid[3],
                   const unsigned block[3], size_t shared, int nargs, const tpi_gpu_arg *args) {
    (void)index;
    (void)stream;
    (void)f;
    (void)grid;
    (void)block;
    (void)shared;
    (void)nargs;
    (void)args;
    return true;
}

static tpi_served gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g) {
    (void)index;
    (void)stream;
    (void)g;
    return libraries ? TPI_SERVED : TPI_DECLINED;
}
static tpi_served conv(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c) {
    /* as cuDNN is used */
    (void)index;
    (void)stream;
    return libraries && !c->bias ? TPI_SERVED : TPI_DECLINED;
}
static tpi_served attention(int index, tpi_gpu_stream *stream, const tpi_gpu_attention *a) {
    (void)index;
    (void)stream;
    return libraries && a->dtype != TP_FLOAT32 ? TPI_SERVED : TPI_DECLINED;
}

static tpi_gpu_driver recorder = {.version = TPI_GPU_DRIVER_VERSION,
                                  .type = TP_CUDA,
                                  .count = one,
                                  .missing = nothing_missing,
                                  .describe = describe,
                                  .version_text = version_text,
                                  .alloc = reserve,
                                  .free = forget,
                                  .memory_info = memory_info,
                                  .host_alloc = host_alloc,
                                  .host_free = free,
                                  .copy = copy,
                                  .set = set,
                                  .stream_new = stream_new,
                                  .stream_free = stream_free,
                                  .stream_sync = stream_sync,
                                  .stream_query = stream_query,
                                  .stream_wait = stream_wait,
                                  .device_sync = device_sync,
                                  .event_new = event_new,
                                  .event_free = event_free,
                                  .event_record = event_record,
                                  .event_query = event_query,
                                  .event_sync = event_sync,
                                  .event_elapsed = event_elapsed,
                                  .compile = keep,
                                  .compiler = compiler,
                                  .load = load,
                                  .function = function,
                                  .max_blocks = max_blocks,
                                  .launch = launch,
                                  .gemm = gemm,
                                  .conv = conv,
                                  .attention = attention};

void start_recording(recording *all, const tpi_gpu_driver *driver, int threads_in_step) {
    kept = all;
    warp = threads_in_step;
    chains = driver == &tpi_cuda_driver;
    recorder.name = driver->name;
    recorder.dialect = driver->dialect;
    tpi_gpu_put_driver(&recorder);
}

void serve_libraries(bool serve) { libraries = serve; }

static int by_hash(const void *left, const void *right) {
    const tpi_gpu_hash a = ((const recorded *)left)->hash, b = ((const recorded *)right)->hash;
    if (a.a != b.a) return a.a < b.a ? -1 : 1;
    return a.b < b.b ? -1 : a.b > b.b;
}

void finish_recording(recording *all) {
    qsort(all->programs, (size_t)all->n, sizeof *all->programs, by_hash);
    int n = 0;
    for (int i = 0; i < all->n; i++) {
        if (n && by_hash(&all->programs[n - 1], &all->programs[i]) == 0)
            free(all->programs[i].source);
        else
            all->programs[n++] = all->programs[i];
    }
    all->n = n;
}
