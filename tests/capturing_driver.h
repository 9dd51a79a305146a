/* A GPU driver that has graphs, for tests: CUDA's where there is a device; elsewhere PoCL's with a capture that keeps
 * launches, copies and fills, and does them again. */
#ifndef TPT_CAPTURING_DRIVER_H
#define TPT_CAPTURING_DRIVER_H
#include "device/gpu/driver.h"

bool tpt_put_capturing_driver(void); /* before a device is first used; false: there is no device */
tp_device tpt_capturing_device(void);
const char *tpt_no_device(void); /* why not */
extern int tpt_graph_launches;   /* of all graphs so far */
extern int tpt_kept_calls;       /* of the last capture; stays 0 with CUDA */
extern bool tpt_capture_fails;   /* a capture's end is an error */
#endif
