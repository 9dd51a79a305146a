/* What natives on GPUs share: kernels from the texts of device/gpu/kernels with some #define lines before them, and
 * launching rows.
 *
 * A native of the `gpu` line has the arguments of the CPU's, all of one device, gives its result by a pointer behind
 * them, and answers (base/served.h): served; declined, and the call goes by way of the host; or failed. */
#ifndef TPI_GPU_KERNEL_H
#define TPI_GPU_KERNEL_H
#include "device/gpu/driver.h"
#include "device/gpu/epilogue.h"
#include "ops/native.h"

/* One kernel of a text: its file, and the name behind KERNEL_ that switches it on. */
typedef struct tpi_gpu_site {
    const char *file, *kernel;
} tpi_gpu_site;

/* A line before the text. A number: #define NAME VALUE. A dtype: T_NAME, GET_NAME and SET_NAME, its storage type and
 * the way to its value and back. */
typedef struct tpi_gpu_define {
    const char *name;
    int64_t value;
    bool dtype;
} tpi_gpu_define;
#define TPI_DEFINE(name, value)   ((tpi_gpu_define){(name), (value), false})
#define TPI_DEFINE_DTYPE(name, d) ((tpi_gpu_define){(name), (int64_t)(d), true})

/* A, the type to compute in, is float or double (`wide`); EXP, LN, SQRT and RSQRT are its functions. */
tpi_gpu_function *tpi_gpu_site_kernel(tp_device device, const tpi_gpu_site *site, bool wide, int n,
                                      const tpi_gpu_define *defines);

/* The same for a kernel that has a prologue or an epilogue; NULL: none. */
tpi_gpu_function *tpi_gpu_site_kernel_with(tp_device device, const tpi_gpu_site *site, bool wide, int n,
                                           const tpi_gpu_define *defines, const tpi_neighbour *prologue,
                                           const tpi_neighbour *epilogue);

/* The arguments of a kernel whose own begin with FAULT (device/gpu/kernels/fault.h): where it notes an index out of
 * range, and for which operator. */
typedef struct tpi_gpu_fault {
    void *word; /* NULL and an error: no memory */
    int64_t op;
} tpi_gpu_fault;
static inline tpi_gpu_fault tpi_gpu_fault_of(tp_device device) {
    return (tpi_gpu_fault){tpi_gpu_fault_word(device), (int64_t)(intptr_t)(tpi_op_now ? tpi_op_now : tpi_gpu_operator)};
}
#define TPI_GPU_FAULT(f) TPI_GPU_PTR((f).word), TPI_GPU_VAL((f).op)

/* Kernels that look for elements out of range, and note a fault: integers from 0 to size - 1; floats from low, or above
 * it, to high, where kind says what is wrong (TPI_FAULT_...). t is dense. False and an error if that could not be
 * launched. */
bool tpi_gpu_watch_numbers(const tp_tensor *t, int64_t size);
bool tpi_gpu_watch_values(const tp_tensor *t, double low, bool above, double high, int64_t kind);

/* How a group of threads takes a row of n elements. */
typedef struct tpi_gpu_rows {
    int group, groups, per, vector; /* see device/gpu/kernels/row.h; a block has group * groups threads */
    bool is_long;                   /* more than registers hold: it goes by pieces of `vector` elements */
} tpi_gpu_rows;
/* size: bytes of the largest element; align: the addresses of all rows' starts, joined by |. heavy: how many rows a
 * thread holds at once. */
tpi_gpu_rows tpi_gpu_rows_for(tp_device device, int64_t n, int size, uintptr_t align, int heavy);
/* Their words for row.h. */
#define TPI_DEFINE_ROWS(r)                                                                             \
    TPI_DEFINE("LONG", (r).is_long), TPI_DEFINE("GROUP", (r).group), TPI_DEFINE("GROUPS", (r).groups), \
        TPI_DEFINE("PER", (r).per), TPI_DEFINE("VEC", (r).vector)

static inline void *tpi_gpu_data(const tp_tensor *t) {
    return t ? t->data : NULL;
} /* of a tensor that may be missing */
static inline bool tpi_gpu_is_index(const tp_tensor *t) { return t->dtype == TP_INT64 || t->dtype == TP_INT32; }
tp_tensor *tpi_gpu_laid_out(tp_tensor *t, tp_layout layout); /* t in the layout, itself if it lies so already; owned */

/* Does the device have this tensor's elements, for kernels that move them? Without double precision 64-bit floats are
 * not there. */
bool tpi_gpu_has_dtype(const tp_tensor *t);
/* Blocks of 256 threads for a loop over n elements by EACH of kernels/each.h; `LARGE` is to be defined as
 * tpi_gpu_is_large(n). */
static inline int64_t tpi_gpu_blocks(int64_t n) {
    return tpi_ceil_div(n, 256) < 1 << 20 ? tpi_ceil_div(n, 256) : 1 << 20;
}
/* Can its elements be counted in 32 bits? Where nothing is counted, always. */
static inline bool tpi_gpu_is_counted(const tp_tensor *t) {
    return t->numel <= INT32_MAX || tpi_device(t).type == TP_META;
}
static inline bool tpi_gpu_is_large(int64_t n) { return n > INT32_MAX / 2; }
/* float16, bfloat16, float32, or float64 where the device has it. */
bool tpi_gpu_floats(const tp_tensor *t);
bool tpi_gpu_has_f64(tp_device device);

/* Launches blocks of 256 threads for n elements, which take the elements in strides of the grid. */
bool tpi_gpu_launch_each(tp_device device, tpi_gpu_function *kernel, int64_t n, int nargs, const tpi_gpu_arg *args);
#endif
