/* The registry of devices: the CPU is always there, GPUs are looked for when one is first asked for, others register
 * their table. */
#include "device/cpu/cpu.h"
#include "device/gpu/gpu.h"
#include "device/meta/meta.h"
#include <stdio.h>
#include <taper/device.h>
#include <taper/gpu.h>

const tpi_device_ops *tpi_devices[TP_DEVICE_TYPES] = {[TP_CPU] = &tpi_cpu_ops, [TP_META] = &tpi_meta_ops};

/* The table of a kind of device, or NULL (no error) if there is none here. */
static const tpi_device_ops *find(int type) {
    if (!tpi_devices[type] && (type == TP_CUDA || type == TP_XPU))
        tpi_devices[type] = tpi_gpu_open((tp_device_type)type);
    return tpi_devices[type];
}

/* PyTorch's sentence, of a build for CUDA on a machine without. */
#define NO_DRIVER                                                                                                  \
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from " \
    "http://www.nvidia.com/Download/index.aspx"

const tpi_device_ops *tpi_device_ops_of(tp_device device) {
    int type = device.type == TP_DEVICE_NONE ? TP_CPU : device.type;
    const tpi_device_ops *ops = type > 0 && type < TP_DEVICE_TYPES ? find(type) : NULL;
    if (ops && (type == TP_CPU || !ops->count || device.index < ops->count())) return ops;
    if (type >= TP_DEVICE_TYPES)
        return tpi_fail(
            TP_ERR_MISSING,
            "PyTorch is not linked with support for mps devices"); /* the one that programs can name beyond ours */
    char name[32];
    tp_device_text(device, name, sizeof name);
    static const char *const words[TP_DEVICE_TYPES] = {"no", "CPU", "CUDA", "XPU", "HIP", "test", "meta"};
    const char *word = type > 0 && type < TP_DEVICE_TYPES ? words[type] : "this";
    if (ops)
        return tpi_fail(
            TP_ERR_VALUE,
            "%s error: invalid device ordinal: device '%s' is not available here, expected an index from 0 to %d", word,
            name, ops->count() - 1);
    const char *why = tp_gpu_missing((tp_device_type)type);
    if (type == TP_CUDA)
        return tpi_fail(TP_ERR_RUNTIME, NO_DRIVER ": device '%s' is not available here%s%s", name, why ? ": " : "",
                        why ? why : "");
    return tpi_fail(TP_ERR_MISSING, "Torch not compiled with %s enabled: device '%s' is not available here%s%s", word,
                    name, why ? ": " : "", why ? why : "");
}

bool tpi_refuse_device(tp_device expected, tp_device got, const char *where) {
    char a[32], b[32];
    tp_device_text(expected, a, sizeof a);
    tp_device_text(got, b, sizeof b);
    if (expected.type == TP_META || got.type == TP_META)
        return tpi_refuse(TP_ERR_RUNTIME, "Tensor on device %s is not on the expected device %s!%s", b, a, where);
    return tpi_refuse(TP_ERR_RUNTIME,
                      "Expected all tensors to be on the same device, but found at least two devices, %s and %s!%s", a,
                      b, where);
}

bool tpi_device_register(tp_device_type type, const tpi_device_ops *ops) {
    if (type <= TP_CPU || type >= TP_DEVICE_TYPES)
        return tpi_refuse(TP_ERR_VALUE, "argument 'type': expected a device type that can be registered, got %d",
                          (int)type);
    if (!ops || ops->version != TPI_DEVICE_VERSION)
        return tpi_refuse(TP_ERR_VALUE,
                          "argument 'ops': device '%s' speaks version %d of the device table, expected %d",
                          tp_device_type_name((tp_device_type)type), ops ? ops->version : 0, TPI_DEVICE_VERSION);
    tpi_devices[type] = ops;
    return true;
}

const char *tp_device_text(tp_device device, char *text, size_t room) {
    if (!text) return tpi_fail(TP_ERR_VALUE, "tp_device_text: argument 'text': expected room for a text, got NULL");
    int type = device.type == TP_DEVICE_NONE ? TP_CPU : device.type;
    if (type == TP_CPU || type == TP_META)
        snprintf(text, room, "%s", tp_device_type_name((tp_device_type)type)); /* of which there is one */
    else
        snprintf(text, room, "%s:%d", tp_device_type_name((tp_device_type)type), device.index);
    return text;
}

int tp_device_count(tp_device_type type) {
    const tpi_device_ops *ops = type > TP_DEVICE_NONE && type < TP_DEVICE_TYPES ? find(type) : NULL;
    return !ops ? 0 : ops->count ? ops->count() : 1;
}

bool tp_synchronize(tp_device device) {
    const tpi_device_ops *ops = tpi_device_ops_of(device);
    return ops && (!ops->synchronize || ops->synchronize(device));
}

tp_device tp_default_device(void) { return tpi_device_default; }

bool tp_set_default_device(tp_device device) {
    if (!tpi_device_ops_of(device)) return false;
    tpi_device_default = device.type ? device : (tp_device){TP_CPU, 0};
    return true;
}

void *tpi_device_alloc(tp_device device, size_t bytes) {
    if (device.type <= TP_CPU) return tpi_alloc(bytes);
    const tpi_device_ops *ops = tpi_device_ops_of(device);
    if (!ops) return NULL;
    if (!ops->alloc) return tpi_fail(TP_ERR_MISSING, "device '%s' has no memory to allocate", ops->name);
    return ops->alloc(device, bytes);
}

void tpi_device_free(tp_device device, void *block, size_t bytes) {
    if (device.type <= TP_CPU) {
        tpi_free(block, bytes);
        return;
    }
    const tpi_device_ops *ops = tpi_devices[device.type];
    if (ops && ops->free) ops->free(device, block, bytes);
}
