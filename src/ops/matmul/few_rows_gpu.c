/* A few vectors times a matrix, which is what decoding token by token does with every weight: the matrix is read once,
 * as fast as memory gives it. Sums are float32's, in an order that follows from the shape. */
#include "ops/matmul/matmul_gpu.h"
#include "ops/native_gpu.h"

enum {
    MOST_VECTORS = 4,
    PIECE = 16,      /* bytes that a thread reads at once */
    WORTH_ROWS = 64, /* fewer rows are too few groups for a GPU */
    BLOCK_THREADS = 128
};

static bool is_laid_out(const void *data, int64_t pitch, int per) {
    return (uintptr_t)data % PIECE == 0 && pitch % per == 0;
}

/* Of wider numbers than bytes the library's matrix units serve three rows or more sooner. */
static int most_vectors(int per) { return per == PIECE ? MOST_VECTORS : MOST_VECTORS / 2; }

bool tpi_gpu_few_rows_suits(tp_device device, const tpi_few_rows *p) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    int per = PIECE / (int)tp_dtype_size(p->weight_dtype);
    return caps && tpi_gpu_sharing(caps) && p->vectors <= most_vectors(per) && p->rows >= WORTH_ROWS &&
           p->k % per == 0 && is_laid_out(p->x, p->x_pitch, per) && is_laid_out(p->weight, p->weight_pitch, per);
}

/* On an H200 a row was read fastest by 128 threads with two reads on their way: 3.4 TB/s of 32 MiB, 4.5 of 500 MiB. */
static int group_of(const tpi_few_rows *p, int per) {
    int group = 32;
    while (group < BLOCK_THREADS && (int64_t)group * per * 2 <= p->k) group *= 2;
    return group;
}

static int reads_ahead(const tpi_few_rows *p, int group, int per) {
    bool bytes = per == PIECE; /* whose sixteen products a piece keep a thread busy */
    return !bytes && p->k >= (int64_t)group * per * 2 ? 2 : 1;
}

bool tpi_gpu_few_rows(tp_device device, const tpi_few_rows *p) {
    static const tpi_gpu_site site = {"few_rows_gpu_kernel.h", "few_rows"};
    int per = PIECE / (int)tp_dtype_size(p->weight_dtype), group = group_of(p, per);
    const tpi_gpu_define defines[] = {
        TPI_DEFINE("GROUP", group),
        TPI_DEFINE("GROUPS", BLOCK_THREADS / group),
        TPI_DEFINE("VECTORS", p->vectors <= 2 ? p->vectors : MOST_VECTORS),
        TPI_DEFINE("PER", per),
        TPI_DEFINE("AHEAD", reads_ahead(p, group, per)),
        TPI_DEFINE("EXTRA", p->scales ? 1
                            : p->bias ? 2
                                      : 0),
        TPI_DEFINE_DTYPE("X", p->dtype),
        TPI_DEFINE_DTYPE("W", p->weight_dtype),
        TPI_DEFINE_DTYPE("E", p->scales ? p->scales_dtype : p->dtype),
    };
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &site, false, sizeof defines / sizeof *defines, defines);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(p->out),          TPI_GPU_PTR(p->x),
                                TPI_GPU_PTR(p->weight),       TPI_GPU_PTR(p->scales ? p->scales : p->bias),
                                TPI_GPU_VAL(p->vectors),      TPI_GPU_VAL(p->k),
                                TPI_GPU_VAL(p->rows),         TPI_GPU_VAL(p->x_pitch),
                                TPI_GPU_VAL(p->weight_pitch), TPI_GPU_VAL(p->out_pitch)};
    return kernel &&
           tpi_gpu_launch(device, kernel, tpi_ceil_div(p->rows, BLOCK_THREADS / group), BLOCK_THREADS, 0, 10, args);
}
