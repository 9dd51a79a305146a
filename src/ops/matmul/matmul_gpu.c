/* Matrix products on GPUs; see matmul_gpu.h. The library sees matrices in column order: a row-major C (m, n) is its C
 * (n, m), the product of B and A. Kernels take any strides and dtypes, compute in the dtype's compute type and round
 * once; integers wrap. */
#include "ops/matmul/matmul_gpu.h"
#include "device/gpu/axes.h"
#include "device/gpu/map.h"
#include "device/gpu/trace.h"
#include "base/threads.h"
#include <taper/gpu.h>

/* A small product is no faster in TF32. */
enum { WORTH_TF32 = 1 << 20 }; /* multiply-adds, of a recurrent layer's */

static bool in_tf32(const tpi_product *p) {
    return p->recurrent ? p->m * p->n * p->k >= WORTH_TF32 && tp_gpu_is_on(TP_GPU_CONV_TF32)
                        : tp_gpu_is_on(TP_GPU_MATMUL_TF32);
}

/* ---- By the library ---- */

/* A row-major matrix as the library's: stored as it is seen ('n', rows are its columns) or the other way round. */
static void library_side(const tpi_operand_matrix *m, int64_t rows, int64_t cols, char *trans, int64_t *ld) {
    bool rows_run = m->col == 1 || cols == 1;
    if (rows_run && m->col != 1 && m->row == 1 && rows > 1) rows_run = false;
    *trans = rows_run ? 'n' : 't';
    *ld = rows_run ? m->row : m->col;
    int64_t least = rows_run ? cols : rows;
    if (*ld < least) *ld = least; /* of a single row or column it means nothing */
}

static tpi_served by_library(const tpi_gpu_driver *driver, tp_tensor *out, const tpi_product *p,
                             const tp_tensor *bias) {
    if (!driver->gemm || tp_dtype_is_integral(p->dtype) || p->alpha.kind == TP_SCALAR_COMPLEX ||
        p->beta.kind == TP_SCALAR_COMPLEX)
        return TPI_DECLINED;
    tp_device device = tpi_device(out);
    tpi_gpu_gemm g = {.dtype = p->dtype,
                      .result = p->dtype,
                      .m = p->n,
                      .n = p->m,
                      .k = p->k,
                      .batch = p->batches,
                      .a = p->b.data,
                      .b = p->a.data,
                      .c = out->data,
                      .ldc = p->c_row,
                      .stride_a = p->b.batch,
                      .stride_b = p->a.batch,
                      .stride_c = p->c_batch,
                      .alpha = tp_scalar_to_double(p->alpha),
                      .beta = tp_scalar_to_double(p->beta),
                      .bias = bias ? bias->data : NULL};
    library_side(&p->b, p->k, p->n, &g.trans_a, &g.lda);
    library_side(&p->a, p->m, p->k, &g.trans_b, &g.ldb);
    g.tf32 = in_tf32(p);
    g.reduced = p->dtype == TP_FLOAT16 ? tp_gpu_is_on(TP_GPU_REDUCED_F16)
                                       : p->dtype == TP_BFLOAT16 && tp_gpu_is_on(TP_GPU_REDUCED_BF16);
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_LIBRARY, "product", 0);
    tpi_served served = driver->gemm(device.index, tpi_gpu_stream_of(device), &g);
    tpi_gpu_span_end(&span, served == TPI_SERVED);
    return served;
}

/* ---- By kernels ---- */
typedef struct product_t { /* the kernel's: ops/matmul/matmul_gpu_kernel.h */
    int64_t m, n, k, batches;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row;
    int64_t group;
    tpi_param alpha, beta;
} product_t;

bool tpi_gpu_matmul_source(tpi_text *t, const void *form) {
    const tpi_gpu_matmul_form *f = form;
    tpi_ctype c = tpi_gpu_ctype(f->dtype);
    const char *name = tp_dtype_name(f->dtype), *type = tpi_gpu_ctype_text(c);
    const char *sums = c == TPI_I32 ? "uint32_t" : c == TPI_I64 ? "uint64_t" : type;
    return tpi_gpu_put_entry(t, "product", name) &&
           tpi_text_put(t, "typedef s_%s s_t;\ntypedef %s c_t;\ntypedef %s a_t;\n", name, type, sums) &&
           tpi_text_put(t, "#define GET(s) get_%s(s)\n#define SET(v) set_%s((c_t)(v))\n#define NUMBER(p) ((p).%s)\n",
                        name, name, tpi_gpu_ctype_suffix(c)) &&
           tpi_text_put(t, "#define COMPLEX %d\n#define HAS_C %d\n#define HAS_BIAS %d\n", tp_dtype_is_complex(f->dtype),
                        f->has_c, f->has_bias) &&
           tpi_text_put(t, "#define TILED %d\n#define SHARING %d\n#define SIDE %d\n", f->tiled, f->sharing, f->side) &&
           tpi_text_put(t, "#define A_DOWN %d\n#define B_DOWN %d\n", f->a_down, f->b_down) &&
           tpi_text_put(t, "#include \"matmul_gpu_kernel.h\"\n");
}

static uint64_t word_of(const tpi_gpu_matmul_form *f) {
    return (uint64_t)f->dtype | (uint64_t)f->tiled << 8 | (uint64_t)f->a_down << 9 | (uint64_t)f->b_down << 10 |
           (uint64_t)f->has_c << 11 | (uint64_t)f->has_bias << 12 | (uint64_t)f->sharing << 13 |
           (uint64_t)f->side << 16;
}

/* Neighbouring threads along k read neighbouring elements of both sides, or there are too few results to have one
 * thread for each. */
static bool along_k(const tpi_product *p) {
    return p->m * p->n <= 16 || (p->n == 1 && p->a.col == 1) || (p->m == 1 && p->b.row == 1);
}

static bool by_kernels(tp_tensor *out, const tpi_product *p, const tp_tensor *bias) {
    enum { MOST_BATCHES = 65535, PER_THREAD = 4, READS = 8, WIDTH = 16, HEIGHT = 4 };
    static const char what; /* its address names these kernels */
    tp_device device = tpi_device(out);
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    if (!caps) return false;
    tpi_ctype c = tpi_gpu_ctype(p->dtype);
    bool sharing = tpi_gpu_sharing(caps);
    tpi_gpu_matmul_form f = {.dtype = p->dtype,
                             .tiled = sharing && !along_k(p),
                             .sharing = sharing,
                             .a_down = p->a.col != 1 && p->a.row == 1,
                             .b_down = p->b.col != 1 && p->b.row == 1,
                             .has_c = tp_scalar_to_bool(p->beta),
                             .has_bias = bias != NULL,
                             .side = !sharing                         ? 1
                                     : tpi_gpu_block_size(caps) < 256 ? 4
                                                                      : 16};
    product_t args = {p->m,
                      p->n,
                      p->k,
                      p->batches,
                      p->a.batch,
                      p->a.row,
                      p->a.col,
                      p->b.batch,
                      p->b.row,
                      p->b.col,
                      p->c_batch,
                      p->c_row,
                      0,
                      tpi_param_of(p->alpha, c),
                      tpi_param_of(p->beta, c)};
    while (sharing && !f.tiled && 1 << args.group < f.side * f.side && ((int64_t)READS << args.group) < p->k)
        args.group++;
    int64_t tile = PER_THREAD * f.side, batches = p->batches < MOST_BATCHES ? p->batches : MOST_BATCHES;
    unsigned tiles[3] = {(unsigned)tpi_ceil_div(p->m, tile), (unsigned)tpi_ceil_div(p->n, tile), (unsigned)batches};
    int64_t units = p->batches * (sharing ? p->m * p->n : tpi_ceil_div(p->m, HEIGHT) * tpi_ceil_div(p->n, WIDTH));
    unsigned groups[3] = {(unsigned)tpi_ceil_div(units, (f.side * f.side) >> args.group), 1, 1},
             block[3] = {(unsigned)(f.side * f.side), 1, 1};
    tpi_gpu_function *kernel = tpi_gpu_kernel(device, &what, word_of(&f), tpi_gpu_matmul_source, &f);
    tpi_gpu_arg list[] = {TPI_GPU_PTR(p->a.data), TPI_GPU_PTR(p->b.data), TPI_GPU_PTR(out->data),
                          TPI_GPU_PTR(bias ? bias->data : NULL), TPI_GPU_VAL(args)};
    return kernel && tpi_gpu_launch3(device, kernel, f.tiled ? tiles : groups, block, 0, 5, list);
}

/* ---- A few rows ---- */
static bool is_one(tp_scalar s) { return s.kind != TP_SCALAR_COMPLEX && tp_scalar_to_double(s) == 1; }

/* 16-bit rows times a matrix whose columns run, as a layer's weight does. */
static tpi_served by_few_rows(tp_tensor *out, const tpi_product *p, const tp_tensor *bias) {
    bool narrow = p->dtype == TP_FLOAT16 || p->dtype == TP_BFLOAT16;
    bool runs = (p->a.col == 1 || p->k == 1) && p->b.row == 1;
    if (!narrow || !runs || p->batches != 1 || !is_one(p->alpha) || tp_scalar_to_bool(p->beta)) return TPI_DECLINED;
    const tpi_few_rows f = {.out = out->data,
                            .x = p->a.data,
                            .weight = p->b.data,
                            .bias = bias ? bias->data : NULL,
                            .dtype = p->dtype,
                            .weight_dtype = p->dtype,
                            .vectors = p->m,
                            .rows = p->n,
                            .k = p->k,
                            .x_pitch = p->m > 1 ? p->a.row : 0,
                            .weight_pitch = p->b.col,
                            .out_pitch = p->c_row};
    if (!tpi_gpu_few_rows_suits(tpi_device(out), &f)) return TPI_DECLINED;
    return tpi_serve_if(tpi_gpu_few_rows(tpi_device(out), &f));
}

bool tpi_gpu_multiply(tp_tensor *out, const tpi_product *p, const tp_tensor *bias) {
    if (out->numel == 0) return true;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)tpi_device(out).type);
    if (!driver) return false;
    tpi_served served = p->k > 0 ? by_few_rows(out, p, bias) : TPI_DECLINED;
    if (served == TPI_DECLINED && p->k > 0) served = by_library(driver, out, p, bias);
    return served == TPI_DECLINED ? by_kernels(out, p, bias) : served == TPI_SERVED;
}
