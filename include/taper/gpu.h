/* GPUs and other accelerators: what there is, the thread's current device and streams, events, memory and its counters,
 * graphs of recorded work. Works for every device type that computes (TP_CUDA, which is NVIDIA's or AMD's, and TP_XPU);
 * a type without a device or a driver has a count of 0, and everything else is then an error that says what is missing.
 */
#ifndef TAPER_GPU_H
#define TAPER_GPU_H
#include <taper/tensor.h>

TP_BEGIN

/* ---- Devices ---- */
TP_API int tp_gpu_count(tp_device_type type); /* never an error */
/* why the count is 0: "libcuda.so.1 was not found"; NULL if it is not 0 */
TP_API const char *tp_gpu_missing(tp_device_type type);
TP_API const char *tp_gpu_backend(tp_device_type type); /* "CUDA", "HIP" or "OpenCL"; NULL without a device */
TP_API int64_t tp_gpu_version(tp_device_type type, char *text,
                              size_t room); /* "CUDA 13.0, driver 580.159": its length, as snprintf; -1 and an error */

typedef struct tp_gpu_info {
    int64_t size;                    /* sizeof(tp_gpu_info), set by the caller: fields are only ever added */
    char name[128];                  /* "NVIDIA H200" */
    char arch[48];                   /* "sm_90", "gfx90a" */
    int64_t major, minor;            /* compute capability; OpenCL: version of the language */
    int64_t units;                   /* multiprocessors */
    int64_t warp;                    /* threads that run in step */
    int64_t max_threads;             /* of one block */
    int64_t threads_per_unit;        /* resident at once; 0 if unknown */
    int64_t memory;                  /* bytes in all */
    int64_t shared, shared_most, l2; /* bytes */
    int64_t clock_khz, memory_clock_khz, bus_bits;
    int64_t pci_domain, pci_bus, pci_device;
    unsigned char uuid[16];
    bool f64, integrated;
} tp_gpu_info;
/* The device's name, size and abilities. */
TP_API bool tp_gpu_describe(tp_device device, tp_gpu_info *info);

TP_API int tp_gpu_current(tp_device_type type);   /* of this thread: 0 until set */
TP_API bool tp_gpu_set_current(tp_device device); /* an index that is not there is an error */
TP_API bool tp_gpu_synchronize(tp_device device); /* waits for all streams of the device */
TP_API bool tp_gpu_used(tp_device_type type);     /* was a device of this type opened by this process? */

/* ---- Streams: queues of work in order. NULL is the device's default stream. ---- */
typedef struct tp_stream tp_stream;
/* One of 32 per device and priority, in turn, as PyTorch's; they live on. priority: 0, or below for more urgent ones.
 */
TP_API bool tp_stream_new(tp_device device, int priority, tp_stream **stream);
TP_API tp_stream *tp_stream_current(tp_device device); /* the thread's */
TP_API bool tp_stream_set_current(tp_device device, tp_stream *stream);
TP_API int tp_stream_priority(tp_device device, tp_stream *stream);
TP_API bool tp_stream_synchronize(tp_device device, tp_stream *stream);
TP_API int tp_stream_query(tp_device device, tp_stream *stream); /* 1 all done, 0 not yet, -1 an error */
TP_API bool tp_stream_wait(tp_device device, tp_stream *stream, tp_device other_device,
                           tp_stream *other); /* for what `other` has to do so far */
TP_API bool
tp_record_stream(tp_tensor *t,
                 tp_stream *stream); /* t's memory is used there too: not handed out again before that is done */

/* ---- Events: marks in a stream ---- */
typedef struct tp_mark tp_mark;
TP_API tp_mark *tp_mark_new(tp_device_type type, bool timing); /* belongs to the device that it is first recorded on */
TP_API void tp_mark_free(tp_mark *mark);                       /* NULL is fine */
/* Puts the mark behind the work that the stream has so far. */
TP_API bool tp_mark_record(tp_mark *mark, tp_device device, tp_stream *stream);
TP_API int tp_mark_query(tp_mark *mark); /* 1 reached (or never recorded), 0 not yet, -1 an error */
/* Waits until the mark is reached. */
TP_API bool tp_mark_synchronize(tp_mark *mark);
TP_API bool tp_mark_elapsed(tp_mark *from, tp_mark *to,
                            double *milliseconds); /* both made with timing, recorded and reached */
TP_API bool tp_stream_wait_mark(tp_device device, tp_stream *stream,
                                tp_mark *mark);               /* a mark that was never recorded is no wait */
TP_API void *tp_mark_handle(tp_mark *mark);                   /* the driver's event; NULL before the first record */
TP_API bool tp_mark_device(tp_mark *mark, tp_device *device); /* false, without an error, before the first record */

/* ---- Memory ---- */
typedef struct tp_gpu_counter {
    int64_t current, peak, allocated, freed; /* the last two since the start: how much was added and taken away */
} tp_gpu_counter;
enum { TP_GPU_POOL_ALL, TP_GPU_POOL_SMALL, TP_GPU_POOL_LARGE, TP_GPU_POOLS };
typedef struct tp_gpu_memory { /* PyTorch's memory_stats, by the same names; each for all, the small and the large pool
                                */
    int64_t size;              /* sizeof(tp_gpu_memory), set by the caller */
    tp_gpu_counter allocation[TP_GPU_POOLS], segment[TP_GPU_POOLS], active[TP_GPU_POOLS], inactive_split[TP_GPU_POOLS];
    tp_gpu_counter allocated_bytes[TP_GPU_POOLS], reserved_bytes[TP_GPU_POOLS], active_bytes[TP_GPU_POOLS],
        inactive_split_bytes[TP_GPU_POOLS], requested_bytes[TP_GPU_POOLS];
    int64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free;
} tp_gpu_memory;
/* The allocator's counters of a device; resetting sets the peaks to what is in use now, or the sums to 0. */
TP_API bool tp_gpu_memory_query(tp_device device, tp_gpu_memory *memory);
TP_API bool tp_gpu_memory_reset_peak(tp_device device);
TP_API bool tp_gpu_memory_reset_accumulated(tp_device device);
TP_API bool tp_gpu_memory_info(tp_device device, int64_t *free,
                               int64_t *total); /* of the whole device, as the driver sees it */
TP_API bool tp_gpu_empty_cache(
    tp_device_type type); /* gives kept memory of all devices of the type back; waits for what is still in use */
TP_API bool tp_gpu_set_fraction(tp_device device,
                                double fraction); /* of the device's memory that this process may reserve */
/* The fraction that was set; 1 unless one was. */
TP_API double tp_gpu_fraction(tp_device device);
TP_API int64_t tp_gpu_memory_summary(tp_device device, bool abbreviated, char *text,
                                     size_t room); /* PyTorch's table: its length, as snprintf */
TP_API void *tp_gpu_memory_alloc(tp_device device, int64_t bytes, tp_stream *stream); /* NULL and an error */
TP_API bool tp_gpu_memory_free(void *block); /* from tp_gpu_memory_alloc of any device; another address is an error */

typedef struct tp_gpu_block { /* a piece of a segment, in the order of addresses */
    void *segment;            /* where its segment starts */
    int64_t segment_bytes;
    void *stream;
    bool large;    /* of the large pool */
    uint64_t pool; /* 0, or the private pool of graphs */
    void *address;
    int64_t bytes, requested;
    enum {
        TP_GPU_BLOCK_FREE,
        TP_GPU_BLOCK_ALLOCATED,
        TP_GPU_BLOCK_AWAITING
    } state; /* awaiting: freed, still in use by another stream */
} tp_gpu_block;
/* Calls `each` for every block until it returns false (which is not an error). It must not allocate on the device. */
TP_API bool tp_gpu_memory_snapshot(tp_device device, bool (*each)(const tp_gpu_block *block, void *context),
                                   void *context);

typedef struct tp_gpu_memory_event { /* a tensor took a block, or gives it back */
    int64_t size;                    /* sizeof(tp_gpu_memory_event) */
    tp_device device;
    void *address;
    int64_t bytes;
    void *stream;
    bool taken;
} tp_gpu_memory_event;
/* From now on `told` is called for each of them, on the thread that does it; NULL: nobody is any more. It must not
 * allocate on a device, and may still be called by other threads for a moment after another one took its place. */
TP_API bool tp_gpu_memory_watch(void (*told)(const tp_gpu_memory_event *event, void *context), void *context);

/* Host memory that a device reads and writes by itself: copies from and to it can overlap with what the host does. */
TP_API tp_tensor *tp_pin_memory(tp_tensor *t); /* a copy of a CPU tensor; itself if it is pinned already */
TP_API bool tp_is_pinned(const tp_tensor *t);
TP_API void tp_pinned_trim(void); /* gives kept pinned memory back */
/* While it is on, this thread's copies between pinned memory and devices do not wait; returns what it was. For
 * to(non_blocking=True). */
TP_API bool tp_set_non_blocking(bool on);

/* ---- Graphs: work that is recorded once and started again as one piece ---- */
typedef struct tp_gpu_graph tp_gpu_graph;
typedef enum tp_capture_mode { TP_CAPTURE_GLOBAL, TP_CAPTURE_THREAD_LOCAL, TP_CAPTURE_RELAXED } tp_capture_mode;
TP_API uint64_t tp_gpu_pool_new(void); /* the number of a new memory pool, that several graphs may share */
/* An empty graph. */
TP_API tp_gpu_graph *tp_gpu_graph_new(void);
TP_API void tp_gpu_graph_free(tp_gpu_graph *graph); /* NULL is fine */
/* Records what comes on the current stream of the device, which must not be the default one. pool 0: a pool of its own.
 */
TP_API bool tp_gpu_graph_begin(tp_gpu_graph *graph, tp_device device, uint64_t pool, tp_capture_mode mode);
TP_API bool tp_gpu_graph_end(tp_gpu_graph *graph);    /* on the stream that it began on */
TP_API bool tp_gpu_graph_replay(tp_gpu_graph *graph); /* on the current stream of its device */
TP_API bool tp_gpu_graph_reset(
    tp_gpu_graph *graph); /* gives up what was recorded, and the memory if no other graph uses its pool */
TP_API uint64_t tp_gpu_graph_pool(const tp_gpu_graph *graph);
TP_API bool tp_gpu_capturing(tp_device device); /* is the thread's current stream being recorded? */

/* ---- What libraries may do: PyTorch's switches and their defaults ---- */
typedef enum tp_gpu_switch {
    TP_GPU_MATMUL_TF32,        /* torch.backends.cuda.matmul.allow_tf32: off */
    TP_GPU_CONV_TF32,          /* torch.backends.cudnn.allow_tf32: on */
    TP_GPU_REDUCED_F16,        /* ...matmul.allow_fp16_reduced_precision_reduction: on */
    TP_GPU_REDUCED_BF16,       /* ...matmul.allow_bf16_reduced_precision_reduction: on */
    TP_GPU_CONV_LIBRARY,       /* torch.backends.cudnn.enabled: on */
    TP_GPU_CONV_BENCHMARK,     /* torch.backends.cudnn.benchmark: off */
    TP_GPU_CONV_DETERMINISTIC, /* torch.backends.cudnn.deterministic: off */
    TP_GPU_SWITCHES
} tp_gpu_switch;
TP_API bool tp_gpu_is_on(tp_gpu_switch which); /* NVIDIA_TF32_OVERRIDE=0 keeps both TF32 switches off, =1 on */
TP_API void tp_gpu_turn(tp_gpu_switch which, bool on);

/* ---- The libraries themselves: opened at run time, each may be missing ---- */
typedef struct tp_gpu_library {
    int64_t size;        /* sizeof(tp_gpu_library), set by the caller */
    const char *backend; /* whose devices it serves: "CUDA", "HIP" or "OpenCL" */
    const char *name;    /* "cuBLASLt" */
    const char *serves;  /* what it does: "matrix products" */
    const char *instead; /* what does that where it is missing */
    char version[64];    /* "13.0.2"; empty if it is missing or does not tell */
    char file[240];      /* where it is; empty if it is missing */
} tp_gpu_library;
/* Folders, separated by colons, of which FOLDER/NAME/lib may hold such libraries, as Python's packages do
 * (nvidia/cudnn/lib): they go before the loader's own, and behind those of TAPER_CUDA_PATH and LD_LIBRARY_PATH. To be
 * called before a GPU is asked for. */
TP_API bool tp_gpu_search(const char *folders);
TP_API int64_t tp_gpu_library_count(void);
TP_API bool tp_gpu_library_at(int64_t i, tp_gpu_library *library); /* looks for it, with a device at hand or without */

TP_END
#endif
