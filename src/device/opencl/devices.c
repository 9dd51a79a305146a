/* Finding OpenCL's devices. The loader is opened at run time; which devices count follows TAPER_XPU_DEVICES:
 *   not set   GPUs and accelerators that `cuda` does not serve: a script that takes whatever accelerator there is
 *             shall not run on PoCL
 *   gpu, cpu  those of the kind, of every vendor
 *   all       both
 * A GPU of several tiles counts as that many devices, unless ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE wants whole cards;
 * TAPER_XPU_TILES=2 cuts every device in two equal parts, where it can be cut. ZE_AFFINITY_MASK=0,2.1 names devices and
 * tiles to use; Intel's own driver reads it itself. */
#include "device/opencl/cl.h"
#include "base/signals.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

tpi_cl_library tpi_cl;

static tpi_cl_device devices[TPI_MAX_GPUS];
static int ndevices;
static char missing[160];
static atomic_bool used;   /* some device was opened by this process, */
static atomic_bool forked; /* or by the one it was forked from */
static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *tpi_cl_missing(void) { return missing; }

bool tpi_cl_ok(cl_int code, const char *call) {
    if (code == 0) return true;
    static const struct {
        int code;
        const char *text;
    } known[] = {{-1, "no device found"},
                 {-2, "device not available"},
                 {-3, "compiler not available"},
                 {-4, "memory object allocation failure"},
                 {-5, "out of resources"},
                 {-6, "out of host memory"},
                 {-7, "profiling information not available"},
                 {-8, "copied regions overlap"},
                 {-11, "build of the program failed"},
                 {-30, "invalid value"},
                 {-33, "invalid device"},
                 {-34, "invalid context"},
                 {-36, "invalid command queue"},
                 {-38, "invalid memory object"},
                 {-42, "invalid binary"},
                 {-44, "invalid program"},
                 {-45, "invalid program executable"},
                 {-46, "invalid kernel name"},
                 {-48, "invalid kernel"},
                 {-49, "invalid argument index"},
                 {-50, "invalid argument value"},
                 {-51, "invalid argument size"},
                 {-52, "invalid kernel arguments"},
                 {-54, "invalid work group size"},
                 {-55, "invalid work item size"},
                 {-58, "invalid event"},
                 {-61, "invalid buffer size"},
                 {-63, "invalid global work size"}};
    const char *text = "unknown error";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code) text = known[i].text;
    tp_code kind = code == -4 || code == -5 || code == -6 ? TP_ERR_MEMORY : TP_ERR_RUNTIME;
    return tpi_refuse(kind, "OpenCL error: %s (cl%s gave %d)", text, call, code);
}

/* ---- What a device says of itself ---- */
static void text_of(cl_device_id id, cl_uint what, char *text, size_t capacity) {
    char whole[1024] = "";
    if (tpi_cl.GetDeviceInfo(id, what, sizeof whole - 1, whole, NULL)) *whole = 0;
    snprintf(text, capacity, "%s", whole);
}

static cl_ulong number_of(cl_device_id id,
                          cl_uint what) { /* of 4 or 8 bytes, little end first; 0 where it is not known */
    cl_ulong value = 0;
    return tpi_cl.GetDeviceInfo(id, what, sizeof value, &value, NULL) ? 0 : value;
}

static uint32_t hash_text(uint32_t hash, const char *text) { /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

static int warp_of(cl_device_id id) {
    static const cl_uint ways[] = {CL_DEVICE_WARP_SIZE_NV, CL_DEVICE_WAVEFRONT_WIDTH_AMD,
                                   CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        cl_ulong n = number_of(id, ways[i]);
        if (n > 0 && n <= 128) return (int)n;
    }
    return 1;
}

static bool is_pocl(cl_device_id id) {
    cl_platform_id platform;
    char name[128] = "";
    return !tpi_cl.GetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) &&
           !tpi_cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) &&
           !strcmp(name, "Portable Computing Language");
}

static void describe(tpi_cl_device *d) {
    tpi_gpu_caps *c = &d->caps;
    cl_device_id id = d->id;
    char version[256], driver[256], language[256];
    text_of(id, CL_DEVICE_NAME, c->name, sizeof c->name);
    text_of(id, CL_DEVICE_VERSION, version, sizeof version);
    text_of(id, CL_DRIVER_VERSION, driver, sizeof driver);
    text_of(id, CL_DEVICE_OPENCL_C_VERSION, language, sizeof language);
    snprintf(c->arch, sizeof c->arch, "cl-%.24s-%08x", c->name,
             hash_text(hash_text(hash_text(2166136261u, c->name), version), driver));
    for (char *at = c->arch; *at; at++)
        if (*at == ' ' || *at == '/') *at = '_';
    if (sscanf(language, "OpenCL C %d.%d", &c->major, &c->minor) != 2) {
        c->major = 1;
        c->minor = 2;
    }
    c->units = (int)number_of(id, CL_DEVICE_MAX_COMPUTE_UNITS);
    c->warp = warp_of(id);
    c->max_threads = (int)number_of(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    c->memory = number_of(id, CL_DEVICE_GLOBAL_MEM_SIZE);
    c->shared = c->shared_most = number_of(id, CL_DEVICE_LOCAL_MEM_SIZE);
    c->l2 = number_of(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    c->clock_khz = (int)number_of(id, CL_DEVICE_MAX_CLOCK_FREQUENCY) * 1000;
    cl_uint bus[4] = {0}; /* domain, bus, device, function */
    if (!tpi_cl.GetDeviceInfo(id, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof bus, bus, NULL)) {
        c->pci_domain = (int)bus[0];
        c->pci_bus = (int)bus[1];
        c->pci_device = (int)bus[2];
    }
    if (tpi_cl.GetDeviceInfo(id, CL_DEVICE_UUID_KHR, sizeof c->uuid, c->uuid, NULL)) memset(c->uuid, 0, sizeof c->uuid);
    c->f64 = number_of(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
    c->integrated = (cl_uint)number_of(id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
    c->host_memory = (number_of(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
    c->keeps = is_pocl(id);
    atomic_init(&d->declares, c->keeps);
    d->largest = number_of(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    bool exact = number_of(id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED;
    snprintf(d->options, sizeof d->options, "-cl-std=CL1.2%s", exact ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
}

/* ---- Which of them count ---- */

/* Whether ZE_AFFINITY_MASK lets the tile of the device through; tile -1 is the device as a whole. */
static bool masked_in(int device, int tile) {
    const char *at = getenv("ZE_AFFINITY_MASK");
    if (!at || !*at) return true;
    while (*at) {
        char *end;
        long d = strtol(at, &end, 10), t = -1;
        if (end == at) return true; /* not a list: as if it were not there */
        if (*end == '.') t = strtol(end + 1, &end, 10);
        if (d == device && (t < 0 || tile < 0 || t == tile)) return true;
        at = *end ? end + 1 : end;
    }
    return false;
}

static int cut(cl_device_id id, const intptr_t *how, cl_device_id *parts, int capacity) {
    cl_uint n = 0;
    if (tpi_cl.CreateSubDevices(id, how, 0, NULL, &n) || n < 2 || (int)n > capacity) return 0;
    return tpi_cl.CreateSubDevices(id, how, n, parts, NULL) ? 0 : (int)n;
}

static int tiles_of(cl_device_id id, cl_device_id *parts, int capacity) {
    const char *wish = getenv("TAPER_XPU_TILES"), *cards = getenv("ZE_FLAT_DEVICE_HIERARCHY");
    int units = (int)number_of(id, CL_DEVICE_MAX_COMPUTE_UNITS), wanted = wish ? atoi(wish) : 0;
    if (wanted > 1 && units >= wanted)
        return cut(id, (intptr_t[]){CL_DEVICE_PARTITION_EQUALLY, units / wanted, 0}, parts, capacity);
    if ((number_of(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) || (cards && !strcmp(cards, "COMPOSITE"))) return 0;
    cl_bitfield domains = number_of(id, CL_DEVICE_PARTITION_AFFINITY_DOMAIN);
    intptr_t domain = domains & CL_DEVICE_AFFINITY_DOMAIN_NUMA   ? CL_DEVICE_AFFINITY_DOMAIN_NUMA
                      : domains & CL_DEVICE_AFFINITY_DOMAIN_NEXT ? CL_DEVICE_AFFINITY_DOMAIN_NEXT
                                                                 : 0;
    return domain ? cut(id, (intptr_t[]){CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN, domain, 0}, parts, capacity) : 0;
}

static void add(cl_device_id id) {
    if (ndevices == TPI_MAX_GPUS) return;
    tpi_cl_device *d = &devices[ndevices++];
    d->id = id;
    pthread_mutex_init(&d->lock, NULL);
    describe(d);
}

static void add_with_tiles(cl_device_id id, int number, bool masks_itself) {
    cl_device_id parts[TPI_MAX_GPUS];
    int n = tiles_of(id, parts, TPI_MAX_GPUS);
    if (n == 0 && (masks_itself || masked_in(number, -1))) add(id);
    for (int i = 0; i < n; i++)
        if (masks_itself || masked_in(number, i)) add(parts[i]);
}

static bool counts(cl_device_id id, bool others) { /* others: those of vendors that `cuda` serves count too */
    cl_uint vendor = (cl_uint)number_of(id, CL_DEVICE_VENDOR_ID);
    bool works = (cl_uint)number_of(id, CL_DEVICE_AVAILABLE) && (cl_uint)number_of(id, CL_DEVICE_COMPILER_AVAILABLE);
    return works && (others || (vendor != 0x10de && vendor != 0x1002));
}

static void find(cl_bitfield types, bool others) {
    cl_platform_id platforms[16];
    cl_uint nplatforms = 0;
    if (tpi_cl.GetPlatformIDs(16, platforms, &nplatforms)) return;
    int number = 0;
    for (cl_uint p = 0; p < nplatforms && p < 16; p++) {
        char name[128] = "";
        tpi_cl.GetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        cl_device_id ids[TPI_MAX_GPUS];
        cl_uint n = 0;
        if (tpi_cl.GetDeviceIDs(platforms[p], types, TPI_MAX_GPUS, ids, &n)) continue;
        for (cl_uint i = 0; i < n && i < TPI_MAX_GPUS; i++)
            if (counts(ids[i], others)) add_with_tiles(ids[i], number++, strstr(name, "Intel") != NULL);
    }
}

static bool open_library(void) {
    void *handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(missing, sizeof missing, "libOpenCL.so.1 was not found");
        return false;
    }
#define FILL(name, result, arguments)                                                                 \
    if (!(*(void **)&tpi_cl.name = dlsym(handle, "cl" #name))) {                                      \
        snprintf(missing, sizeof missing, "libOpenCL.so.1 has no cl%s: OpenCL 1.2 is needed", #name); \
        return false;                                                                                 \
    }
    TPI_CL_FUNCTIONS(FILL)
#undef FILL
    return true;
}

static void in_child(void) {
    if (atomic_load(&used)) atomic_store(&forked, true);
}

static void find_devices(void) {
    if (!open_library()) return;
    const char *wish = getenv("TAPER_XPU_DEVICES");
    const cl_bitfield gpus = CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR;
    if (wish && !strcmp(wish, "cpu"))
        find(CL_DEVICE_TYPE_CPU, true);
    else if (wish && !strcmp(wish, "all"))
        find(gpus | CL_DEVICE_TYPE_CPU, true);
    else
        find(gpus, wish && !strcmp(wish, "gpu"));
    if (ndevices == 0 && wish)
        snprintf(missing, sizeof missing, "OpenCL found no device for TAPER_XPU_DEVICES=%s", wish);
    else if (ndevices == 0)
        snprintf(missing, sizeof missing,
                 "OpenCL found no GPU; TAPER_XPU_DEVICES=cpu in the environment takes processors");
    else
        pthread_atfork(NULL, NULL, in_child);
}

static void find_all(void) {
    tpi_signals handlers;
    tpi_signals_keep(&handlers);
    find_devices();
    tpi_signals_put_back(&handlers);
}

int tpi_cl_count(void) {
    pthread_once(&once, find_all);
    return ndevices;
}

/* ---- Opening one ---- */
static bool open_device(tpi_cl_device *d, int index) {
    cl_int code;
    cl_context context = tpi_cl.CreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    if (!context) return tpi_cl_ok(code ? code : -5, "CreateContext");
    d->first.queue = tpi_cl.CreateCommandQueue(context, d->id, CL_QUEUE_PROFILING, &code);
    if (!d->first.queue) {
        tpi_cl.ReleaseContext(context);
        return tpi_cl_ok(code ? code : -5, "CreateCommandQueue");
    }
    d->first.index = index;
    pthread_mutex_init(&d->first.probing, NULL);
    d->context = context;
    atomic_store(&used, true);
    return true;
}

tpi_cl_device *tpi_cl_peek(int index) {
    int n = tpi_cl_count();
    if (index >= 0 && index < n) return &devices[index];
    return n ? tpi_fail(TP_ERR_VALUE, "device 'xpu:%d' is not available here: expected an index from 0 to %d", index,
                        n - 1)
             : tpi_fail(TP_ERR_MISSING, "device 'xpu:%d' is not available here: %s", index, missing);
}

tpi_cl_device *tpi_cl_device_at(int index) {
    tpi_cl_device *d = tpi_cl_peek(index);
    if (!d) return NULL;
    if (atomic_load_explicit(&forked, memory_order_relaxed))
        return tpi_fail(TP_ERR_RUNTIME, "Cannot re-initialize XPU in forked subprocess. To use XPU with "
                                        "multiprocessing, you must use the 'spawn' start method");
    if (__atomic_load_n(&d->opened, __ATOMIC_ACQUIRE)) return d;
    pthread_mutex_lock(&d->lock);
    bool ok = d->opened || open_device(d, index);
    __atomic_store_n(&d->opened, ok, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
    return ok ? d : NULL;
}

tpi_cl_device *tpi_cl_by_arch(const char *arch) {
    int n = tpi_cl_count();
    for (int i = 0; i < n; i++)
        if (!strcmp(devices[i].caps.arch, arch)) return tpi_cl_device_at(i);
    return tpi_fail(TP_ERR_MISSING, "OpenCL compiles for devices that are there: expected one of them, got '%s'", arch);
}

tpi_gpu_stream *tpi_cl_stream(tpi_gpu_stream *stream, int index) {
    tpi_cl_device *d = tpi_cl_device_at(index);
    return !d ? NULL : stream ? stream : &d->first;
}
