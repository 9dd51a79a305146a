/* Memory of the device is mapped twice: where the tensors' addresses point, nobody may read or write; at a fixed
 * distance from there is the same memory for the device's own functions, which do their work with the CPU's kernels. */
#define _GNU_SOURCE
#include "guarded_device.h"
#include "device/cpu/cpu.h"
#include "tensor/storage.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA ((size_t)1 << 36) /* of addresses; memory comes as it is touched */
static char *guarded, *open_side;
static atomic_size_t taken;
static atomic_llong allocated;

static char *ours(const void *address) { return address ? open_side + ((const char *)address - guarded) : NULL; }

static int count(void) { return GUARDED_DEVICES; }

/* Blocks are never given out again: an address that is used after its end still fails. */
static void *alloc_pages(tp_device device, size_t bytes) {
    (void)device;
    size_t size = (bytes + 4095) / 4096 * 4096 + 4096, at = atomic_fetch_add(&taken, size);
    if (at + size > ARENA) return tpi_fail(TP_ERR_MEMORY, "the test device is out of addresses");
    atomic_fetch_add(&allocated, (long long)bytes);
    return guarded + at;
}

static void free_pages(tp_device device, void *block, size_t bytes) {
    (void)device;
    if (!block) return;
    atomic_fetch_sub(&allocated, (long long)bytes);
    size_t size = (bytes + 4095) / 4096 * 4096;
    if (size) madvise(ours(block), size, MADV_REMOVE);
}

static bool to_host(tp_device device, void *host, const void *block, size_t bytes) {
    (void)device;
    memcpy(host, ours(block), bytes);
    return true;
}

static bool from_host(tp_device device, void *block, const void *host, size_t bytes) {
    (void)device;
    memcpy(ours(block), host, bytes);
    return true;
}

static bool synchronize(tp_device device) {
    (void)device;
    return true;
}

/* ---- Kernels: the CPU's, over the open side ---- */
static void open_plan(tpi_plan *plan) {
    for (int k = 0; k < plan->nargs; k++)
        if (!(plan->numbers >> k & 1)) plan->data[k] = ours(plan->data[k]);
}

static bool map(tp_device device, const tpi_map_op *op, tpi_plan *plan, tpi_ctype compute, const tpi_param *params) {
    open_plan(plan);
    return tpi_cpu_map(device, op, plan, compute, params);
}

static bool copy(tp_device device, tpi_plan *plan) {
    open_plan(plan);
    return tpi_cpu_copy(device, plan);
}

static bool fill(tp_device device, tpi_plan *plan, const tp_scalar *value) {
    open_plan(plan);
    return tpi_cpu_fill(device, plan, value);
}

/* The tensor over the open side of its memory; owned. */
static tp_tensor *opened(const tp_tensor *t) {
    tpi_storage *s = tpi_storage_over(ours(t->storage->data), t->storage->bytes, (tp_device){TP_CPU, 0}, NULL, NULL);
    return s ? tpi_tensor_over(s, (tp_dtype)t->dtype, tpi_shape(t), tpi_strides(t), t->data - t->storage->data) : NULL;
}

typedef struct opened_call {
    tp_tensor *outs[4], *x;
} opened_call;

static bool open_call(opened_call *c, tp_tensor *const *outs, int n, const tp_tensor *x) {
    *c = (opened_call){.x = opened(x)};
    bool ok = c->x;
    for (int i = 0; i < n; i++) ok = (c->outs[i] = opened(outs[i])) && ok;
    return ok;
}

static bool close_call(opened_call *c, bool ok) {
    for (int i = 0; i < 4; i++) tp_release(c->outs[i]);
    tp_release(c->x);
    return ok;
}

static bool fold(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute,
                 const tpi_param *params) {
    opened_call c;
    bool ok = open_call(&c, outs, op->nout, x);
    return close_call(&c, ok && tpi_cpu_fold(op, c.outs, c.x, reduced, compute, params));
}

static bool scan(const tpi_scan_op *op, tp_tensor *const *outs, tp_tensor *x, int dim, tpi_ctype compute,
                 const tpi_param *params) {
    opened_call c;
    bool ok = open_call(&c, outs, op->nout, x);
    return close_call(&c, ok && tpi_cpu_scan(op, c.outs, c.x, dim, compute, params));
}

static const tpi_device_ops table = {
    .version = TPI_DEVICE_VERSION,
    .name = "test",
    .count = count,
    .alloc = alloc_pages,
    .free = free_pages,
    .to_host = to_host,
    .from_host = from_host,
    .synchronize = synchronize,
    .map = map,
    .fold = fold,
    .scan = scan,
    .copy = copy,
    .fill = fill,
};

int64_t guarded_device_bytes(void) { return atomic_load(&allocated); }

bool guarded_device_open(void) {
    if (guarded) return true;
    int fd = memfd_create("test device", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)ARENA))
        return tpi_refuse(TP_ERR_RUNTIME, "the test device cannot reserve its memory");
    open_side = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    guarded = mmap(NULL, ARENA, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    if (open_side == MAP_FAILED || guarded == MAP_FAILED)
        return tpi_refuse(TP_ERR_RUNTIME, "the test device cannot map its memory");
    return tpi_device_register(TP_TEST_DEVICE, &table);
}
