/* Opens NVIDIA's driver, or AMD's where that is the one there is, and describes its devices. Once per process; a
 * process forked from one that has opened it cannot use it, and is told so. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "device/cuda/driver_api.h"

tpi_cuda_api tpi_cuda;

static struct {
    pthread_mutex_t lock;
    bool tried[2]; /* CUDA, HIP */
    char why[2][160];
    atomic_bool forked;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static TPI_THREAD_LOCAL int here; /* the thread's device, plus one; 0: none yet */

static void in_child(void) {
    state.forked = tpi_cuda.count > 0;
    here = 0;
}

/* ---- Errors ---- */
bool tpi_cuda_check(int error, const char *function) {
    if (error == 0) return true;
    const char *name = NULL, *text = NULL;
    if (tpi_cuda.hip) {
        name = tpi_cuda.hip_error_name(error);
        text = tpi_cuda.hip_error_text(error);
    } else {
        tpi_cuda.error_name(error, &name);
        tpi_cuda.error_text(error, &text);
    }
    return tpi_refuse(error == TPI_CUDA_OUT_OF_MEMORY ? TP_ERR_MEMORY : TP_ERR_RUNTIME,
                      "%s error: %s (%s, error %d, from %s)", tpi_cuda.hip ? "HIP" : "CUDA", text ? text : "unknown",
                      name ? name : "no name", error, function);
}

/* ---- Opening ---- */
static bool find_functions(tpi_cuda_api *api, void *library, bool hip) {
    const tpi_symbol symbols[] = {
#define X(member, cuda, hip_name, args) {hip ? hip_name : cuda, &api->member},
        TPI_CUDA_FUNCTIONS(X)
#undef X
    };
    const tpi_symbol cuda[] = {{"cuDevicePrimaryCtxRetain", &api->context_retain},
                               {"cuCtxSetCurrent", &api->context_set},
                               {"cuCtxGetCurrent", &api->context_get},
                               {"cuCtxEnablePeerAccess", &api->context_reach},
                               {"cuGetErrorName", &api->error_name},
                               {"cuGetErrorString", &api->error_text}};
    const tpi_symbol amd[] = {{"hipSetDevice", &api->device_set},
                              {"hipGetDevice", &api->device_now},
                              {"hipDeviceEnablePeerAccess", &api->device_reach},
                              {"hipGetErrorName", &api->hip_error_name},
                              {"hipGetErrorString", &api->hip_error_text}};
    if (!tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols))) return false;
    if (!hip) return tpi_cuda_symbols(library, cuda, 6);
    /* The properties' layout changed once, and the function's name with it. */
    api->arch_offset = 1160;
    if (!tpi_cuda_symbols(library, &(tpi_symbol){"hipGetDevicePropertiesR0600", &api->device_properties}, 1)) {
        api->arch_offset = 396;
        if (!tpi_cuda_symbols(library, &(tpi_symbol){"hipGetDeviceProperties", &api->device_properties}, 1))
            return false;
    }
    return tpi_cuda_symbols(library, amd, 5);
}

static void open_driver(bool hip) {
    static const char *const cuda_names[] = {"libcuda.so.1", "libcuda.so", NULL};
    static const char *const hip_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so", NULL};
    char *why = state.why[hip];
    enum { CAPACITY = sizeof state.why[0] };
    void *library = tpi_cuda_library(hip ? hip_names : cuda_names);
    if (!library) {
        snprintf(why, CAPACITY, "%s was not found", hip ? "libamdhip64.so" : "libcuda.so.1");
        return;
    }
    tpi_cuda_api api = {.hip = hip};
    if (!find_functions(&api, library, hip)) {
        snprintf(why, CAPACITY, "the %s driver is too old: it lacks functions that Taper needs", hip ? "HIP" : "CUDA");
        return;
    }
    int error = api.init(0), n = 0;
    if (error == 0) error = api.device_count(&n);
    if (error != 0 || n == 0) {
        snprintf(why, CAPACITY, "the %s driver reports %s (error %d)", hip ? "HIP" : "CUDA",
                 error ? "that it cannot start" : "no device", error);
        return;
    }
    api.count = n < TPI_MAX_GPUS ? n : TPI_MAX_GPUS;
    for (int i = 0; i < api.count; i++) api.device_get(&api.device[i], i);
    tpi_cuda = api;
    pthread_atfork(NULL, NULL, in_child);
}

static int count_of(bool hip) {
    pthread_mutex_lock(&state.lock);
    if (!state.tried[hip] && tpi_cuda.count == 0) open_driver(hip);
    state.tried[hip] = true;
    int n = tpi_cuda.count > 0 && tpi_cuda.hip == hip ? tpi_cuda.count : 0;
    pthread_mutex_unlock(&state.lock);
    return n;
}

int tpi_cuda_count(void) { return count_of(false); }
int tpi_hip_count(void) { return count_of(true); }
const char *tpi_cuda_missing(void) { return tpi_cuda_count() ? "nothing is missing" : state.why[0]; }
const char *tpi_hip_missing(void) { return tpi_hip_count() ? "nothing is missing" : state.why[1]; }

/* ---- The thread's device ---- */
static bool retain(int index) {
    pthread_mutex_lock(&state.lock);
    bool fine = true;
    if (!tpi_cuda.context[index] && !tpi_cuda.hip)
        fine = TPI_CUDA(context_retain, &tpi_cuda.context[index], tpi_cuda.device[index]);
    else if (!tpi_cuda.context[index])
        tpi_cuda.context[index] = &tpi_cuda;
    pthread_mutex_unlock(&state.lock);
    return fine;
}

static bool make_current(int index) {
    if (state.forked)
        return tpi_refuse(TP_ERR_RUNTIME, "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                                          "multiprocessing, you must use the 'spawn' start method");
    if (index < 0 || index >= tpi_cuda.count)
        return tpi_refuse(TP_ERR_VALUE, "CUDA error: invalid device ordinal: there are %d devices, got index %d",
                          tpi_cuda.count, index);
    if (!retain(index)) return false;
    bool fine = tpi_cuda.hip ? TPI_CUDA(device_set, index) : TPI_CUDA(context_set, tpi_cuda.context[index]);
    if (fine) here = index + 1;
    return fine;
}

/* Other libraries of the process turn a thread to devices as they like; with one device that is no matter. */
static bool still_at(int index) {
    void *context = NULL;
    int now = -1;
    if (tpi_cuda.count == 1) return true;
    return tpi_cuda.hip ? tpi_cuda.device_now(&now) == 0 && now == index
                        : tpi_cuda.context_get(&context) == 0 && context == tpi_cuda.context[index];
}

bool tpi_cuda_use(int index) {
    return __builtin_expect(here == index + 1 && still_at(index), 1) || make_current(index);
}

/* ---- Descriptions ---- */
enum {
    THREADS,
    SHARED,
    WARP,
    CLOCK,
    UNITS,
    INTEGRATED,
    PCI_BUS,
    PCI_DEVICE,
    MEMORY_CLOCK,
    BUS,
    L2,
    THREADS_PER_UNIT,
    PCI_DOMAIN,
    MAJOR,
    MINOR,
    SHARED_MOST,
    ATTRIBUTES
};

static int attribute(int index, int which) {
    static const int cuda[ATTRIBUTES] = {1, 8, 10, 13, 16, 18, 33, 34, 36, 37, 38, 39, 50, 75, 76, 97};
    static const int hip[ATTRIBUTES] = {56, 74, 87, 5, 63, 16, 67, 68, 60, 59, 19, 57, 69, 23, 61, 74};
    int value = 0;
    return tpi_cuda.device_attribute(&value, (tpi_cuda.hip ? hip : cuda)[which], tpi_cuda.device[index]) == 0 ? value
                                                                                                              : 0;
}

static bool describe_arch(int index, tpi_gpu_caps *caps) {
    if (!tpi_cuda.hip) {
        snprintf(caps->arch, sizeof caps->arch, "sm_%d%d", caps->major, caps->minor);
        return true;
    }
    char properties[4096] = {0}; /* larger than any version's */
    if (!TPI_CUDA(device_properties, properties, index)) return false;
    const char *name = properties + tpi_cuda.arch_offset;
    snprintf(caps->arch, sizeof caps->arch, "%.*s", (int)strcspn(name, ":"), name); /* "gfx90a:sramecc+:xnack-" */
    return true;
}

bool tpi_cuda_describe(int index, tpi_gpu_caps *caps) {
    if (!tpi_cuda_use(index)) return false;
    *caps = (tpi_gpu_caps){.major = attribute(index, MAJOR),
                           .minor = attribute(index, MINOR),
                           .units = attribute(index, UNITS),
                           .warp = attribute(index, WARP),
                           .max_threads = attribute(index, THREADS),
                           .threads_per_unit = attribute(index, THREADS_PER_UNIT),
                           .shared = (size_t)attribute(index, SHARED),
                           .shared_most = (size_t)attribute(index, SHARED_MOST),
                           .l2 = (size_t)attribute(index, L2),
                           .clock_khz = attribute(index, CLOCK),
                           .memory_clock_khz = attribute(index, MEMORY_CLOCK),
                           .bus_bits = attribute(index, BUS),
                           .pci_domain = attribute(index, PCI_DOMAIN),
                           .pci_bus = attribute(index, PCI_BUS),
                           .pci_device = attribute(index, PCI_DEVICE),
                           .integrated = attribute(index, INTEGRATED),
                           .f64 = true,
                           .chains = !tpi_cuda.hip};
    return TPI_CUDA(device_name, caps->name, sizeof caps->name, tpi_cuda.device[index]) &&
           TPI_CUDA(device_memory, &caps->memory, tpi_cuda.device[index]) &&
           TPI_CUDA(device_uuid, caps->uuid, tpi_cuda.device[index]) && describe_arch(index, caps);
}

bool tpi_cuda_version_text(char *text, size_t capacity) {
    int version = 0;
    if (!TPI_CUDA(driver_version, &version)) return false;
    if (tpi_cuda.hip)
        snprintf(text, capacity, "HIP %d.%d", version / 10000000, version / 100000 % 100);
    else
        snprintf(text, capacity, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    return true;
}
