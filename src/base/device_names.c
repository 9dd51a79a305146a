/* What kinds of device are called. */
#include <taper/device.h>

const char *tp_device_type_name(tp_device_type type) {
    static const char *const names[TP_DEVICE_TYPES] = {"none", "cpu", "cuda", "xpu", "hip", "test", "meta"};
    return (int)type >= 0 && type < TP_DEVICE_TYPES ? names[type] : "unknown";
}
