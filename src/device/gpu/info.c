/* Which GPUs there are and what they can do, and the switches that say what libraries may do on them. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <taper/gpu.h>
#include "device/gpu/driver.h"

/* The driver of a type that has devices; NULL, without an error, where there are none. */
static const tpi_gpu_driver *found(tp_device_type type) {
    bool fine = tp_ok();
    const tpi_gpu_driver *driver = type == TP_CUDA || type == TP_XPU ? tpi_gpu_driver_of(type) : NULL;
    if (!driver && fine) tp_error_clear();
    return driver;
}

int tp_gpu_count(tp_device_type type) {
    const tpi_gpu_driver *driver = found(type);
    return driver ? driver->count() : 0;
}

const char *tp_gpu_missing(tp_device_type type) {
    if (found(type)) return NULL;
    if (type == TP_CUDA) return tpi_cuda_driver.missing();
    return type == TP_XPU ? tpi_opencl_driver.missing() : "this type of device is not served";
}

const char *tp_gpu_backend(tp_device_type type) {
    const tpi_gpu_driver *driver = found(type);
    return driver ? driver->name : NULL;
}

int64_t tp_gpu_version(tp_device_type type, char *text, size_t room) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of(type);
    char whole[256];
    if (!driver || !driver->version_text(whole, sizeof whole)) return -1;
    size_t length = strlen(whole);
    if (room > 0) {
        memcpy(text, whole, length < room ? length + 1 : room);
        text[room - 1] = length < room ? text[room - 1] : 0;
    }
    return (int64_t)length;
}

bool tp_gpu_describe(tp_device device, tp_gpu_info *info) {
    if (!info || info->size < (int64_t)sizeof info->size)
        return tpi_refuse(TP_ERR_VALUE, "argument 'info': expected a tp_gpu_info with its size set");
    const tpi_gpu_caps *c = tpi_gpu_caps_of(device);
    if (!c) return false;
    tp_gpu_info all = {.size = info->size,
                       .major = c->major,
                       .minor = c->minor,
                       .units = c->units,
                       .warp = c->warp,
                       .max_threads = c->max_threads,
                       .threads_per_unit = c->threads_per_unit,
                       .memory = (int64_t)c->memory,
                       .shared = (int64_t)c->shared,
                       .shared_most = (int64_t)c->shared_most,
                       .l2 = (int64_t)c->l2,
                       .clock_khz = c->clock_khz,
                       .memory_clock_khz = c->memory_clock_khz,
                       .bus_bits = c->bus_bits,
                       .pci_domain = c->pci_domain,
                       .pci_bus = c->pci_bus,
                       .pci_device = c->pci_device,
                       .f64 = c->f64,
                       .integrated = c->integrated};
    memcpy(all.name, c->name, sizeof all.name);
    memcpy(all.arch, c->arch, sizeof all.arch);
    memcpy(all.uuid, c->uuid, sizeof all.uuid);
    memcpy(info, &all, sizeof all < (size_t)info->size ? sizeof all : (size_t)info->size);
    return true;
}

/* ---- Switches ---- */
static atomic_bool switches[TP_GPU_SWITCHES] = {
    [TP_GPU_CONV_TF32] = true, [TP_GPU_REDUCED_F16] = true, [TP_GPU_REDUCED_BF16] = true, [TP_GPU_CONV_LIBRARY] = true};

static int tf32_told(void) { /* by NVIDIA_TF32_OVERRIDE, read once: 0 off, 1 on, 2 nothing */
    static atomic_int told = -1;
    if (told < 0) {
        const char *word = getenv("NVIDIA_TF32_OVERRIDE");
        told = word && (word[0] == '0' || word[0] == '1') ? word[0] - '0' : 2;
    }
    return told;
}

bool tp_gpu_is_on(tp_gpu_switch which) {
    if ((which == TP_GPU_MATMUL_TF32 || which == TP_GPU_CONV_TF32) && tf32_told() < 2) return tf32_told();
    return which < TP_GPU_SWITCHES && switches[which];
}

void tp_gpu_turn(tp_gpu_switch which, bool on) {
    if (which < TP_GPU_SWITCHES) switches[which] = on;
}
