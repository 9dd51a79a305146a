/* Calls of natives whose tensors are not on the CPU. Generated code asks at the entrance of every native whether all
 * its tensors are there, and comes here if not:
 *
 *     void *const addresses[] = {&self, &dim};                          // which e remembers
 *     tpi_fallback e;
 *     if (!tpi_fallback_begin(&e, operator, false, addresses)) return NULL; // one device for all, or an error
 *     tpi_served served = e.kernels ? THE_GPU_FUNCTION(self, dim, &made) : TPI_DECLINED;
 *     if (served == TPI_SERVED) return tpi_fallback_end(&e), made;
 *     if (served == TPI_FAILED) return tpi_fallback_failed(&e), NULL;
 *     if (!tpi_fallback_to_host(&e)) return NULL;                        // arguments are copies on the host now
 *     return tpi_fallback_back(&e, THE_CPU_FUNCTION(self, dim));         // and the result is on the device
 *
 * So an operator works on every device from the day it works on the CPU, and faster once its stanza has a `gpu` line.
 * The detour by way of the host waits for the device; tp_host_detours counts such calls, and TAPER_HOST_DETOURS=error
 * refuses them. */
#ifndef TPI_FALLBACK_H
#define TPI_FALLBACK_H
#include <taper/call.h>
#include "base/served.h"
#include "tensor/tensor.h"

enum { TPI_FALLBACK_MOVED = 24, TPI_FALLBACK_LISTS = 6 };

typedef struct tpi_fallback {
    const tp_operator *op;
    const char *name;
    bool inplace;      /* the first argument is a plain tensor, which the native writes into */
    void *const *args; /* where the arguments are */
    tp_device device;  /* where the call belongs */
    bool kernels;      /* that device runs kernel text */
    int moved, lists;
    struct {
        tp_tensor *there, *here; /* an argument and its owned stand-in at another place */
        bool back;               /* the native wrote into it */
    } tensor[TPI_FALLBACK_MOVED];
    tp_tensors list[TPI_FALLBACK_LISTS]; /* arrays of ours, with owned tensors */
} tpi_fallback;

static inline bool tpi_on_cpu(const tp_tensor *t) { return !t || tpi_device(t).type == TP_CPU; }
static inline bool tpi_list_on_cpu(tp_tensors list) {
    for (int64_t i = 0; i < list.n; i++)
        if (!tpi_on_cpu(list.v[i])) return false;
    return true;
}
static inline bool tpi_means_cpu(tp_device d) { return d.type ? d.type == TP_CPU : tpi_device_default.type <= TP_CPU; }

bool tpi_fallback_begin(tpi_fallback *e, const tp_operator *op, bool inplace, void *const *args);
/* After kernels that write in place did not serve: was it for values of meta tensors alone? Then nothing is left to do,
 * as there is nothing to write. */
bool tpi_fallback_settled(tpi_fallback *e);
bool tpi_fallback_to_host(tpi_fallback *e);
/* The end of a call: what the native gave goes to the device, what it wrote into goes back, copies are released. */
tp_tensor *tpi_fallback_back(tpi_fallback *e, tp_tensor *result);
tp_tensors tpi_fallback_back_list(tpi_fallback *e, tp_tensors results);
bool tpi_fallback_back_many(tpi_fallback *e, bool ok, tp_tensor **out,
                            int n);        /* n 0: nothing to bring, or plain values */
void tpi_fallback_end(tpi_fallback *e);    /* after the kernels served */
void tpi_fallback_failed(tpi_fallback *e); /* after they failed: an error stands, which says why */
#endif
