/* A device for tests (TP_TEST_DEVICE): host memory, one stream, and addresses that the host must not touch. Everything
 * that a device has to fill is here, so docs/adding-a-device.md shows it as the smallest example; and code that reads a
 * device's memory as if it were its own crashes on it, which the tests count as a failure. */
#ifndef TAPER_GUARDED_DEVICE_H
#define TAPER_GUARDED_DEVICE_H
#include "device/device.h"

enum { GUARDED_DEVICES = 2 };
bool guarded_device_open(void);     /* registers it; twice is fine */
int64_t guarded_device_bytes(void); /* allocated now */
#endif
