/* Transposing copies: the destination is contiguous along one dim and the source along another.
 * kernels/transpose.h moves them by tiles, reading and writing whole rows; one element at a time, either side would
 * touch as many pieces of memory as there are elements. */
#include "device/gpu/map.h"
#include <string.h>

enum { TRANSPOSE_THREADS = 256, MAX_OUTER = 8, LEAST = 16 /* elements along each dim for a tile to be worth it */ };

typedef struct transpose_layout { /* the kernel's transpose_layout_t */
    uint32_t size[2], tiles[2], outer, size_outer[MAX_OUTER], room;
    int64_t from_row, to_row;
    int64_t from_outer[MAX_OUTER], to_outer[MAX_OUTER];
} transpose_layout;

typedef struct transpose_form {
    uint8_t to, from, store, load; /* dtypes; elements per access */
} transpose_form;

/* Shared memory holds a tile of the destination's elements. */
static int tile_of(const transpose_form *f) { return tpi_dtype_bytes[f->to] > 4 ? 32 : 64; }

static bool put_transpose_defines(tpi_text *t, const void *context) {
    const transpose_form *f = context;
    const char *to = tp_dtype_name(f->to), *from = tp_dtype_name(f->from);
    bool ok = tpi_gpu_put_entry(t, "transpose", to) && tpi_gpu_put_dtype(t, f->to) && tpi_gpu_put_dtype(t, f->from) &&
              tpi_text_put(t, "#define S s_%s\n#define D s_%s\n#define LOAD %d\n#define STORE %d\n#define TILE %d\n",
                           from, to, f->load, f->store, tile_of(f));
    if (f->to == f->from)
        ok = ok && tpi_text_put(t, "#define CONVERT(x) (x)\n");
    else {
        const char *given = tpi_gpu_cast_suffix(f->from), *wanted = tpi_gpu_cast_suffix(f->to);
        if (given == wanted)
            ok = ok && tpi_text_put(t, "#define CONVERT(x) set_%s(get_%s(x))\n", to, from);
        else
            ok = ok && tpi_text_put(t, "#define CONVERT(x) set_%s(to_%s_%s(get_%s(x)))\n", to, wanted, given, from);
    }
    return ok && tpi_text_put(t, "#include \"transpose.h\"\n");
}

/* The dim along which the source is contiguous, when the destination is along dimension 0 and both are long enough; 0
 * otherwise. */
static int across(const tpi_plan *p) {
    int64_t to = tpi_dtype_bytes[p->dtype[0]], from = tpi_dtype_bytes[p->dtype[1]];
    if (p->ndim < 2 || p->ndim > MAX_OUTER + 2 || p->stride[0][0] != to || p->shape[0] < LEAST ||
        p->stride[1][0] == from || p->stride[1][0] == 0)
        return 0;
    for (int d = 1; d < p->ndim; d++)
        if (p->stride[1][d] == from && p->shape[d] >= LEAST) return d;
    return 0;
}

/* Elements per access of operand k, whose rows of n elements lie along dim `along`: 16 bytes, or one element. */
static int access_of(const tpi_plan *p, int k, int along) {
    int size = tpi_dtype_bytes[p->dtype[k]], n = 16 / size;
    uint64_t bits = (uint64_t)(uintptr_t)p->data[k];
    for (int d = 0; d < p->ndim; d++)
        if (d != along) bits |= (uint64_t)p->stride[k][d];
    return bits % 16 || p->shape[along] % n ? 1 : n;
}

bool tpi_gpu_is_transpose(const tpi_plan *p) { return across(p) && p->numel <= (int64_t)1 << 40; }

bool tpi_gpu_transpose(tp_device device, const tpi_plan *p) {
    static const char what;
    int other = across(p), outer = 0;
    transpose_form f = {p->dtype[0], p->dtype[1], (uint8_t)access_of(p, 0, 0), (uint8_t)access_of(p, 1, other)};
    const int64_t tile = tile_of(&f);
    if (tile % f.load) f.load = 1;
    transpose_layout g = {.size = {(uint32_t)p->shape[0], (uint32_t)p->shape[other]},
                          .from_row = p->stride[1][0],
                          .to_row = p->stride[0][other]};
    int64_t blocks = 1;
    for (int i = 0; i < 2; i++) {
        g.tiles[i] = (uint32_t)((g.size[i] + tile - 1) / tile);
        blocks *= g.tiles[i];
    }
    for (int d = 1; d < p->ndim; d++) {
        if (d == other) continue;
        g.size_outer[outer] = (uint32_t)p->shape[d];
        g.from_outer[outer] = p->stride[1][d];
        g.to_outer[outer] = p->stride[0][d];
        blocks *= p->shape[d];
        outer++;
    }
    g.outer = (uint32_t)outer;
    uint64_t form = (uint64_t)f.to | (uint64_t)f.from << 8 | (uint64_t)f.store << 16 | (uint64_t)f.load << 24;
    tpi_gpu_function *kernel = tpi_gpu_kernel(device, &what, form, put_transpose_defines, &f);
    tpi_gpu_arg args[] = {TPI_GPU_PTR(p->data[0]), TPI_GPU_PTR(p->data[1]), TPI_GPU_VAL(g)};
    return kernel && tpi_gpu_launch(device, kernel, blocks, TRANSPOSE_THREADS, 0, 3, args);
}
