/* What a GPU's driver gives: one table of functions that cuda/ (for HIP too, under its names), opencl/ and
 * meta/ fill. All that is made of it, the caching allocator, streams per thread, programs and their cache, the kernels
 * of the tables and the natives, is in gpu/ and knows no vendor.
 *
 * Addresses. Blocks of device memory are char pointers that can be added to, never read on the host. CUDA's and HIP's
 * are the machine's own; OpenCL's are numbers from a reserved part of the address space, and its launch looks up the
 * buffer and the offset they stand for. Functions that return bool or a pointer leave an error (tpi_fail) that names
 * what failed, unless it says otherwise. */
#ifndef TPI_GPU_DRIVER_H
#define TPI_GPU_DRIVER_H
#include "base/served.h"
#include "device/device.h"

enum { TPI_MAX_GPUS = 64 };

typedef struct tpi_gpu_caps { /* one device */
    char name[128];           /* "NVIDIA H200" */
    char arch[48]; /* what programs are compiled for: "sm_90", "gfx90a", OpenCL: name and version of device and driver,
                      short */
    int major, minor;     /* compute capability; OpenCL: version of the language */
    int units;            /* multiprocessors */
    int warp;             /* threads that run in step; OpenCL: the preferred multiple, 1 if unknown */
    int max_threads;      /* of one block */
    int threads_per_unit; /* resident at once; 0 if unknown */
    size_t memory;        /* bytes in all */
    size_t shared;        /* bytes of shared memory a block gets without asking */
    size_t shared_most;   /* and at most */
    size_t l2;
    int clock_khz, memory_clock_khz, bus_bits;
    int pci_domain, pci_bus, pci_device;
    unsigned char uuid[16];
    bool f64, integrated;
    bool chains;      /* a block may wait for blocks that began before it, and costs little while it does */
    bool host_memory; /* the device computes in host memory: copies are cheap, PoCL for one */
    bool keeps;       /* the driver keeps compiled programs itself: build() takes their source */
} tpi_gpu_caps;

typedef struct tpi_gpu_stream tpi_gpu_stream; /* the driver's; NULL is the default stream */
typedef struct tpi_gpu_event tpi_gpu_event;
typedef struct tpi_gpu_module tpi_gpu_module;
typedef struct tpi_gpu_function tpi_gpu_function;
typedef struct tpi_gpu_graph tpi_gpu_graph; /* captured and instantiated */
typedef struct tpi_gpu_trace tpi_gpu_trace; /* gpu/trace.h */

typedef enum tpi_gpu_way { TPI_GPU_TO_HOST, TPI_GPU_FROM_HOST, TPI_GPU_WITHIN } tpi_gpu_way;

/* A kernel's argument. In kernel text a pointer is declared by PTR(name) and read by AT(type, name):
 * gpu/kernels/dialect.h. */
typedef struct tpi_gpu_arg {
    enum { TPI_GPU_POINTER, TPI_GPU_VALUE } kind;
    uint32_t bytes;    /* of a value */
    const void *value; /* a value's bytes; a pointer argument: the device address itself, may be NULL */
} tpi_gpu_arg;
#define TPI_GPU_PTR(p) ((tpi_gpu_arg){TPI_GPU_POINTER, 0, (p)})
#define TPI_GPU_VAL(v) ((tpi_gpu_arg){TPI_GPU_VALUE, sizeof(v), &(v)})
/* A number that the kernel takes as `const A`, its type to compute in. Never hand over a double otherwise: to OpenCL
 * without double precision the word means float. */
#define TPI_GPU_REAL(x, wide)                                                      \
    ((wide) ? (tpi_gpu_arg){TPI_GPU_VALUE, sizeof(double), &(double){(double)(x)}} \
            : (tpi_gpu_arg){TPI_GPU_VALUE, sizeof(float), &(float){(float)(x)}})

/* Matrix products in column order of batches, BLAS's meaning: C = alpha op(A) op(B) + beta C + bias. */
typedef struct tpi_gpu_gemm {
    tp_dtype dtype;  /* of A, B and C: float16, bfloat16, float32, float64, complex64, complex128; of A and B alone:
                        int8, whose C is int32, and the two float8's */
    tp_dtype result; /* of C, usually the same */
    char trans_a, trans_b; /* 'n', 't' or 'c' */
    int64_t m, n, k, batch;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc, stride_a, stride_b, stride_c; /* elements */
    double alpha, beta;
    const void *bias;               /* m elements, one per row of C (a linear layer's, seen in column order), or NULL */
    bool tf32;                      /* float32 products may round their inputs to TF32 */
    bool reduced;                   /* 16-bit products may accumulate in 16 bits (PyTorch's flag) */
    tp_dtype dtype_b;               /* float8: B's, which may be the other one */
    const float *scale_a, *scale_b; /* float8: one number for all of A and one for all of B, on the device; NULL: 1 */
    bool fast;                      /* float8: sums may have fewer bits than float32's */
} tpi_gpu_gemm;

/* Convolutions of 1 to 3 spatial dims; x, w, y have ndim = dims + 2 sizes and strides in elements, so channels_last is
 * a matter of strides. */
typedef struct tpi_gpu_conv {
    enum { TPI_CONV_FORWARD, TPI_CONV_GRAD_INPUT, TPI_CONV_GRAD_WEIGHT } what;
    tp_dtype dtype;
    int dims;
    int64_t x_shape[5], x_stride[5], w_shape[5], w_stride[5], y_shape[5], y_stride[5];
    int64_t stride[3], padding[3], dilation[3], groups;
    const void *x, *w, *y; /* the one that `what` computes is written */
    const void *bias; /* forward: one per output channel, or NULL; a driver may decline for its sake: then without, and
                         added after */
    bool tf32, benchmark, deterministic;
} tpi_gpu_conv;

/* Attention over [batch, heads, length, depth]; strides in elements, the last one is 1. */
typedef struct tpi_gpu_attention {
    bool backward, causal, deterministic;
    tp_dtype dtype;
    int64_t batch, heads, kv_heads, queries, keys, depth, depth_v;
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3], grad_stride[3]; /* batch, head, row */
    int64_t gq_stride[3], gk_stride[3], gv_stride[3];
    const void *q, *k, *v;
    void *o;
    float *lse;       /* [batch, heads, queries], written forward, read backward */
    const void *grad; /* backward: of o */
    void *gq, *gk, *gv;
    double scale;
} tpi_gpu_attention;

/* Fourier transforms of lines that lie one behind the other. n: of the real or the longer side; the half of a spectrum
 * has n / 2 + 1. rank > 0: C2C over up to three dims at once, of `lines` blocks of that shape; `woven`: the blocks'
 * first elements come first, then their second ones, ... */
typedef struct tpi_gpu_fft {
    enum { TPI_FFT_C2C, TPI_FFT_R2C, TPI_FFT_C2R } kind;
    bool wide;    /* doubles */
    bool forward; /* of C2C: exp(-i...) */
    int rank;
    bool woven;
    int64_t shape[3];
    int64_t n, lines;
    const void *x; /* C2R may write over it */
    void *y;
} tpi_gpu_fft;

/* Matrices in column order, one behind the other; results in place. */
typedef struct tpi_gpu_solver {
    enum {
        TPI_SOLVER_CHOLESKY,
        TPI_SOLVER_LU,
        TPI_SOLVER_LU_SOLVE,
        TPI_SOLVER_EIGH,
        TPI_SOLVER_SVD,
        TPI_SOLVER_SVD_BY_ROTATIONS,
        TPI_SOLVER_TRIANGULAR,
        TPI_SOLVER_QR,
        TPI_SOLVER_QR_PRODUCT,
        TPI_SOLVER_EIG
    } what;
    tp_dtype dtype;      /* float32, float64, complex64, complex128 */
    bool upper;          /* CHOLESKY, EIGH, TRIANGULAR: the triangle that is read, and CHOLESKY written */
    bool right, unit;    /* TRIANGULAR: x a = b instead of a x = b; the diagonal counts as ones */
    bool vectors;        /* EIGH: a becomes the eigenvectors; EIG: b does */
    int64_t m, n, batch; /* SVD, QR_PRODUCT: m >= n; QR and LU: any; all others: m = n */
    void *a;
    void *b; /* LU_SOLVE, TRIANGULAR: n by columns (right: columns by n), becomes the solution; SVDs: U, m by n; QR: the
                reflectors' factors, the smaller of m and n, and read by QR_PRODUCT, `columns` per matrix: a, reflectors
                in its first columns, becomes the first n columns of their product; EIG: n by n, of a's dtype: of a real
                matrix's conjugate pair the first column has the real, the second the imaginary parts; a is scratch */
    int64_t columns;
    void *c;         /* SVD: V adjoint, n by n; BY_ROTATIONS: V itself */
    void *values;    /* EIGH, SVD: n real numbers per matrix; EIG: n complex ones, pairs side by side, the positive
                        imaginary part first */
    int64_t *pivots; /* LU, LU_SOLVE: the smaller of m and n per matrix, from 1 */
    int32_t *info;   /* one per matrix, on the device, as LAPACK's */
} tpi_gpu_solver;

typedef struct tpi_gpu_driver {
    int version;                  /* TPI_GPU_DRIVER_VERSION */
    const char *name;             /* "CUDA", "HIP", "OpenCL" */
    tp_device_type type;          /* TP_CUDA (HIP's too, as in PyTorch), TP_XPU */
    const char *dialect;          /* what kernel text is compiled as: "cuda", "hip", "opencl" */
    int (*count)(void);           /* opened on first use; 0 where there is no library or no device, never an error */
    const char *(*missing)(void); /* why count() is 0: "libcuda.so.1 was not found", for messages */
    bool (*describe)(int index, tpi_gpu_caps *caps);
    bool (*version_text)(char *text, size_t capacity); /* "CUDA 13.0, driver 580.159" */

    /* Memory as the driver gives it: slow, kept by gpu/memory.c. alloc: NULL without an error when there is no more. */
    void *(*alloc)(int index, size_t bytes);
    void (*free)(int index, void *block);
    bool (*memory_info)(int index, size_t *free, size_t *total);
    void *(*host_alloc)(size_t bytes); /* pinned; NULL without an error */
    void (*host_free)(void *block);
    bool mapped; /* kernels take host_alloc's blocks as pointers too, at the same addresses */

    /* In the stream's order. From and to pageable host memory the call returns when the host block may be used again.
     */
    bool (*copy)(int index, tpi_gpu_stream *stream, void *to, const void *from, size_t bytes, tpi_gpu_way way);
    bool (*copy_peer)(int to_index, void *to, int from_index, const void *from, size_t bytes,
                      tpi_gpu_stream *stream); /* one of `to`'s; NULL: by way of the host */
    bool (*set)(int index, tpi_gpu_stream *stream, void *to, int byte, size_t bytes);

    bool (*stream_new)(int index, int priority, tpi_gpu_stream **stream);
    void (*stream_free)(int index, tpi_gpu_stream *stream);
    bool (*stream_sync)(int index, tpi_gpu_stream *stream);
    int (*stream_query)(int index, tpi_gpu_stream *stream); /* 1 done, 0 not yet, -1 an error */
    bool (*stream_wait)(int index, tpi_gpu_stream *stream, tpi_gpu_event *event);
    bool (*device_sync)(int index);
    bool (*event_new)(int index, bool timing, tpi_gpu_event **event);
    void (*event_free)(int index, tpi_gpu_event *event);
    bool (*event_record)(int index, tpi_gpu_event *event, tpi_gpu_stream *stream);
    int (*event_query)(int index, tpi_gpu_event *event);
    bool (*event_sync)(int index, tpi_gpu_event *event);
    bool (*event_elapsed)(int index, tpi_gpu_event *from, tpi_gpu_event *to, double *milliseconds);

    /* Programs. compile: source to what load takes (tpi_malloc'd); arch is a caps.arch, so that it works without that
     * device at hand. NULL: nothing is launched, and load takes nothing (the meta device). */
    void *(*compile)(const char *source, const char *name, const char *arch, size_t *bytes);
    const char *(*compiler)(void); /* its name and version, part of a cached program's key; NULL: there is none here */
    bool (*load)(int index, const void *binary, size_t bytes, tpi_gpu_module **module);
    bool (*build)(int index, const char *source, const char *name,
                  tpi_gpu_module **module); /* compile and load at once, for devices with caps.keeps */
    bool (*function)(int index, tpi_gpu_module *module, const char *name, tpi_gpu_function **function);
    int (*max_blocks)(int index, tpi_gpu_function *function, int threads,
                      size_t shared); /* resident per unit; 0 if unknown */
    bool (*launch)(int index, tpi_gpu_stream *stream, tpi_gpu_function *function, const unsigned grid[3],
                   const unsigned block[3], size_t shared, int nargs, const tpi_gpu_arg *args);

    /* Libraries, each may be NULL or decline (TPI_DECLINED): our own kernels then serve. */
    tpi_served (*gemm)(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g);
    tpi_served (*conv)(int index, tpi_gpu_stream *stream, const tpi_gpu_conv *c);
    tpi_served (*attention)(int index, tpi_gpu_stream *stream, const tpi_gpu_attention *a);
    tpi_served (*fft)(int index, tpi_gpu_stream *stream, const tpi_gpu_fft *f);
    tpi_served (*solver)(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s);

    /* A stream's calls as one graph; NULL where there are none. */
    bool (*capture_begin)(int index, tpi_gpu_stream *stream, int mode);
    bool (*capture_end)(int index, tpi_gpu_stream *stream, tpi_gpu_graph **graph);
    int (*capturing)(int index, tpi_gpu_stream *stream);
    bool (*graph_launch)(int index, tpi_gpu_graph *graph, tpi_gpu_stream *stream);
    void (*graph_free)(tpi_gpu_graph *graph);

    /* Times of all that the devices do, by the driver's own tool; NULL, or false from start: traces use events
     * (gpu/trace.h). owner: the event to which launches of this thread belong from now on, -1 for none. stop waits for
     * the devices and gives what was found to tpi_gpu_trace_put. */
    bool (*trace_start)(void);
    void (*trace_owner)(int64_t event);
    void (*trace_stop)(tpi_gpu_trace *trace);
} tpi_gpu_driver;
#define TPI_GPU_DRIVER_VERSION 1

extern const tpi_gpu_driver tpi_cuda_driver, tpi_hip_driver, tpi_opencl_driver;
/* The driver behind a device type, opened; NULL and an error that says what is missing. cuda: NVIDIA's, or AMD's where
 * that is found. */
const tpi_gpu_driver *tpi_gpu_driver_of(tp_device_type type);
void tpi_gpu_put_driver(const tpi_gpu_driver *driver); /* takes its type's place before a device is first used: for
                                                          tools that compile ahead */
const tpi_gpu_caps *tpi_gpu_caps_of(tp_device device); /* described once; NULL and an error */

/* ---- gpu/stream.c: the thread's device and streams ---- */
int tpi_gpu_current(tp_device_type type);
bool tpi_gpu_set_current(tp_device_type type, int index);
tpi_gpu_stream *tpi_gpu_stream_of(tp_device device); /* the thread's current one */
extern bool tpi_gpu_side_streams; /* some thread has made another than the default stream its current one */
bool tpi_gpu_stream_wait(tp_device device, tpi_gpu_stream *stream, tp_device other_device,
                         tpi_gpu_stream *other); /* for what it has to do so far */
bool tpi_gpu_set_stream(tp_device device, tpi_gpu_stream *stream);
bool tpi_gpu_set_captured_stream(tp_device device, tpi_gpu_stream *stream); /* one in which nothing runs, for it is
                                                                               captured; and back to the one before */

/* ---- gpu/memory.c: blocks kept per device and stream ---- */
void *tpi_gpu_alloc(tp_device device,
                    size_t bytes); /* for the current stream; an error that names the largest free block and owners */
void tpi_gpu_free(tp_device device, void *block, size_t bytes);
void tpi_gpu_record_stream(tp_device device, void *block, tpi_gpu_stream *stream); /* the block is used there too */
void *tpi_gpu_alloc_on(tp_device device, size_t bytes, tpi_gpu_stream *stream);    /* for that stream */
bool tpi_gpu_owns(tp_device device, const void *block); /* is it the start of a live block? */
/* Graphs: what this thread's captured stream allocates between begin and end comes from a private pool, whose free
 * blocks are kept for that pool alone until the last user has released it. */
bool tpi_gpu_pool_begin(tp_device device, uint64_t pool, tpi_gpu_stream *stream);
void tpi_gpu_pool_end(tp_device device, uint64_t pool);
void tpi_gpu_pool_release(tp_device device, uint64_t pool);

/* ---- gpu/driver_graph.c ---- */
/* Where kernels of a graph under capture on the current stream read the default generator's seed and how many groups of
 * four its stream has moved since then: two uint64_t on the device, written before each replay. NULL: nothing is being
 * captured. */
void *tpi_gpu_graph_numbers(tp_device device);
bool tpi_gpu_graph_under_way(tp_device device); /* is a graph being captured on the current stream? */

/* ---- gpu/pinned_memory.c: pinned memory, and copies between host and device ---- */
/* In the order of the device's current stream. Waits until the host block may be used (read or written), unless the
 * thread asked not to (tp_set_non_blocking) and the block is pinned; then the block is kept from being handed out again
 * until the copy is done. */
bool tpi_gpu_copy_host(tp_device device, void *to, const void *from, size_t bytes, tpi_gpu_way way);

/* ---- gpu/fault.c: indices and probabilities that kernels found out of range ---- */
enum {
    TPI_FAULT_PROBABILITY = -1,
    TPI_FAULT_WEIGHT = -2,
    TPI_FAULT_NO_WEIGHT = -3
};                                          /* in the place of a size: what else can be wrong */
void *tpi_gpu_fault_word(tp_device device); /* where the device's kernels note one: kernels/fault.h; NULL and an error
                                               if there is no memory */
bool tpi_gpu_fault_check(tp_device device); /* after the host has waited: false and an error that names operator, index
                                               and size if one was noted since */

extern TPI_THREAD_LOCAL const char
    *tpi_gpu_operator; /* the native that this thread began last: whom to name where no operator was entered */

/* ---- gpu/program.c: kernel text to functions ---- */
/* The function `name` of a program, compiled (or found in the archive or the cache) and loaded once per device; NULL
 * and an error. key: names the program among all; make(text, context) appends its source after the dialect's head,
 * called only when it is not loaded. */
typedef struct tpi_text tpi_text;
bool tpi_text_put(tpi_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* false: no memory, and an error */
typedef bool (*tpi_gpu_source)(tpi_text *text, const void *context);
tpi_gpu_function *tpi_gpu_program(tp_device device, const char *key, const char *name, tpi_gpu_source make,
                                  const void *context);
/* The same for kernels that are launched often, found again in some nanoseconds: what (an address that is this maker's
 * alone) and form name the program, and the function is called `entry`, or as tpi_gpu_put_entry() calls it. A source
 * may have lines #include "NAME" for the texts of gpu/kernels and device/element. */
tpi_gpu_function *tpi_gpu_kernel(tp_device device, const void *what, uint64_t form, tpi_gpu_source make,
                                 const void *context);

/* Puts the name that profilers show for the kernel `entry` that follows: taper_FAMILY_NAME. */
bool tpi_gpu_put_entry(tpi_text *text, const char *family, const char *name);

/* Launches on the device's current stream. blocks and threads in one dim, which is all that most kernels need. */
bool tpi_gpu_launch(tp_device device, tpi_gpu_function *function, int64_t blocks, int threads, size_t shared, int nargs,
                    const tpi_gpu_arg *args);
bool tpi_gpu_launch3(tp_device device, tpi_gpu_function *function, const unsigned grid[3], const unsigned block[3],
                     size_t shared, int nargs, const tpi_gpu_arg *args);

/* Threads of a block at most, and whether they work together: a device that computes on the host runs them one after
 * the other, and its compiler takes seconds for a barrier. tpi_gpu_sharing_there, which tests set, makes it share all
 * the same. */
int tpi_gpu_block_size(const tpi_gpu_caps *caps);
bool tpi_gpu_sharing(const tpi_gpu_caps *caps);
extern bool tpi_gpu_sharing_there;
#endif
