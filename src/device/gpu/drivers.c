/* Which driver is behind a device type, and its devices' descriptions: found out once, then read without a lock. */
#include <pthread.h>
#include <stdatomic.h>
#include "device/gpu/driver.h"
#include "device/meta/meta.h"

static _Atomic(const tpi_gpu_driver *) opened[TP_DEVICE_TYPES];

static const tpi_gpu_driver *look(tp_device_type type) {
    if (type == TP_CUDA && tpi_cuda_driver.count() > 0) return &tpi_cuda_driver;
    if (type == TP_CUDA && tpi_hip_driver.count() > 0) return &tpi_hip_driver;
    if (type == TP_META) return &tpi_meta_driver;
    return type == TP_XPU && tpi_opencl_driver.count() > 0 ? &tpi_opencl_driver : NULL;
}

const tpi_gpu_driver *tpi_gpu_driver_of(tp_device_type type) {
    const tpi_gpu_driver *driver =
        type > 0 && type < TP_DEVICE_TYPES ? atomic_load_explicit(&opened[type], memory_order_acquire) : NULL;
    if (driver) return driver;
    if ((driver = look(type))) {
        opened[type] = driver;
        return driver;
    }
    if (type == TP_CUDA)
        return tpi_fail(TP_ERR_MISSING, "no CUDA device is available: %s; for AMD's, %s", tpi_cuda_driver.missing(),
                        tpi_hip_driver.missing());
    if (type == TP_XPU) return tpi_fail(TP_ERR_MISSING, "no XPU device is available: %s", tpi_opencl_driver.missing());
    return tpi_fail(TP_ERR_MISSING, "devices of type %d are not GPUs", (int)type);
}

void tpi_gpu_put_driver(const tpi_gpu_driver *driver) { opened[driver->type] = driver; }

/* ---- Descriptions ---- */
static struct {
    pthread_mutex_t lock;
    _Atomic(tpi_gpu_caps *) of[TP_DEVICE_TYPES][TPI_MAX_GPUS]; /* kept for good */
} caps = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tpi_gpu_caps *describe(const tpi_gpu_driver *driver, tp_device device) {
    tpi_gpu_caps *made = tpi_new0(sizeof *made);
    if (made && driver->describe(device.index, made)) return made;
    if (made) tpi_delete(made, sizeof *made);
    return NULL;
}

const tpi_gpu_caps *tpi_gpu_caps_of(tp_device device) {
    bool known = device.type > 0 && device.type < TP_DEVICE_TYPES && device.index >= 0 && device.index < TPI_MAX_GPUS;
    const tpi_gpu_caps *found =
        known ? atomic_load_explicit(&caps.of[device.type][device.index], memory_order_acquire) : NULL;
    if (found) return found;
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver) return NULL;
    if (!known || device.index >= driver->count())
        return tpi_fail(TP_ERR_VALUE, "%s error: invalid device ordinal: there are %d devices, got index %d",
                        driver->name, driver->count(), device.index);
    pthread_mutex_lock(&caps.lock);
    tpi_gpu_caps *made = caps.of[device.type][device.index];
    if (!made) caps.of[device.type][device.index] = made = describe(driver, device);
    pthread_mutex_unlock(&caps.lock);
    return made;
}
