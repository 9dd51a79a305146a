/* Devices in general: how many there are, waiting for them, and how often an operator had to go by way of the host. */
#ifndef TAPER_DEVICE_H
#define TAPER_DEVICE_H
#include <taper/base.h>
TP_BEGIN

/* How many devices of a kind there are; 0 where its driver is missing, never an error. */
TP_API int tp_device_count(tp_device_type type);
/* Waits until everything that was started on the device is done. */
TP_API bool tp_synchronize(tp_device device);
TP_API const char *tp_device_type_name(tp_device_type type); /* "cuda" */
/* "cuda:0" into text, which it returns. */
TP_API const char *tp_device_text(tp_device device, char *text, size_t room);
/* How many calls of this process copied their arguments to the host because the operator has no kernel for its device
 * (docs/devices.md). With TAPER_HOST_DETOURS=error in the environment such a call is an error instead. */
TP_API int64_t tp_host_detours(void);

TP_END
#endif
