/* Addresses for OpenCL's buffers. A buffer has none that the host may count with, so each gets a reserved stretch of
 * the address space that nobody can read or write: pointers into it can be added to like any others, and a table says
 * which buffer, and how far into it, they stand for. Buffers are few and large (gpu/memory.c cuts them), so the table
 * is a sorted array. */
#include "device/opencl/cl.h"
#include <sys/mman.h>
#include <unistd.h>

typedef struct region {
    const char *start;
    size_t bytes;    /* of the buffer */
    size_t reserved; /* of addresses */
    cl_mem buffer;
} region;

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static region *regions; /* sorted by start */
static int nregions, capacity;

/* The last region that starts at or before the address; -1 without one. */
static int region_at(const char *address) {
    int low = 0, high = nregions;
    while (low < high) {
        int middle = (low + high) / 2;
        if (regions[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

bool tpi_cl_find(const void *address, cl_mem *buffer, size_t *offset) {
    *buffer = NULL;
    *offset = 0;
    if (!address) return true;
    pthread_rwlock_rdlock(&lock);
    int at = region_at(address);
    bool found = at >= 0 && (size_t)((const char *)address - regions[at].start) <= regions[at].bytes;
    if (found) {
        *buffer = regions[at].buffer;
        *offset = (size_t)((const char *)address - regions[at].start);
    }
    pthread_rwlock_unlock(&lock);
    return found || tpi_refuse(TP_ERR_RUNTIME, "address %p is not in the memory of an xpu device", address);
}

static bool keep(region r) {
    pthread_rwlock_wrlock(&lock);
    if (nregions == capacity) {
        int more = capacity ? 2 * capacity : 64;
        region *grown = tpi_realloc(regions, (size_t)more * sizeof *grown);
        if (grown) {
            regions = grown;
            capacity = more;
        }
    }
    bool ok = nregions < capacity;
    if (ok) {
        int at = region_at(r.start) + 1;
        memmove(regions + at + 1, regions + at, (size_t)(nregions - at) * sizeof *regions);
        regions[at] = r;
        nregions++;
    }
    pthread_rwlock_unlock(&lock);
    return ok;
}

void *tpi_cl_alloc(int index, size_t bytes) {
    tpi_cl_device *d = tpi_cl_device_at(index);
    if (!d || bytes == 0 || bytes > d->largest || atomic_load(&d->taken) + bytes > d->caps.memory) return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    region r = {.bytes = bytes,
                .reserved = (bytes / page + 2) *
                            page}; /* with a page between it and the next, so that an end is no beginning */
    void *start = mmap(NULL, r.reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    r.start = start;
    cl_int code;
    r.buffer = tpi_cl.CreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (r.buffer && keep(r)) {
        atomic_fetch_add(&d->taken, bytes);
        return start;
    }
    if (r.buffer) tpi_cl.ReleaseMemObject(r.buffer);
    munmap(start, r.reserved);
    return NULL;
}

void tpi_cl_free(int index, void *block) {
    tpi_cl_device *d = block ? tpi_cl_device_at(index) : NULL;
    if (!d) return;
    pthread_rwlock_wrlock(&lock);
    int at = region_at(block);
    region gone = {0};
    if (at >= 0 && regions[at].start == (char *)block) {
        gone = regions[at];
        memmove(regions + at, regions + at + 1, (size_t)(nregions - at - 1) * sizeof *regions);
        nregions--;
    }
    pthread_rwlock_unlock(&lock);
    if (!gone.buffer) return;
    tpi_cl.ReleaseMemObject(gone.buffer); /* commands that still read it keep it */
    munmap((void *)gone.start, gone.reserved);
    atomic_fetch_sub(&d->taken, gone.bytes);
}
