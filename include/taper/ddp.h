/* Data parallel training: every rank has the whole network and a part of the batch; gradients are averaged over the
 * ranks while the backward still runs.
 *
 *     tp_ddp *ddp = tp_ddp_new(net);                    // rank 0's parameters and buffers become everybody's
 *     ...
 *     tp_backward(loss);
 *     if (!tp_ddp_finish(ddp)) ...                      // the gradients are averages now
 *     tp_step(optimiser);
 *
 * Gradients go in buckets, filled from the network's end, and a bucket is sent when its last gradient is there: in the
 * same order on all ranks. */
#ifndef TAPER_DDP_H
#define TAPER_DDP_H
#include <taper/dist.h>
#include <taper/nn.h>

TP_BEGIN

typedef struct tp_ddp tp_ddp;
typedef struct tp_ddp_options {
    TP_STRUCT_SIZE(tp_ddp_options);    /* sizeof(tp_ddp_options) */
    tp_group *group TP_MEMBER(NULL);   /* NULL: all ranks */
    int64_t bucket_bytes TP_MEMBER(0); /* 0: 25 MB; the first bucket sent is at most 1 MB */
    bool find_unused TP_MEMBER(false); /* a parameter may get no gradient on some ranks, or on all */
    TP_OPTIONS_GUARD_
} tp_ddp_options;
TP_API tp_ddp *tp_ddp_new_with(tp_module *net,
                               const tp_ddp_options *options); /* options may be NULL; the network must outlive it */
#ifndef __cplusplus
#define tp_ddp_new(...)       TP_DDP_NEW_(__VA_ARGS__, )
#define TP_DDP_DEFAULTS_      .size = (int64_t)sizeof(tp_ddp_options), .find_unused = false
#define TP_DDP_NEW_(net, ...) TP_WITH_(tp_ddp_options, tp_ddp_new_with(net, &tp_o_), TP_DDP_DEFAULTS_, __VA_ARGS__)
#else
static inline tp_ddp *tp_ddp_new(tp_module *net, const tp_ddp_options &options = tp_ddp_options()) {
    return tp_ddp_new_with(net, &options);
}
#endif
/* waits for the averages; false: an error, and the gradients are this rank's own */
TP_API bool tp_ddp_finish(tp_ddp *ddp);
TP_API void tp_ddp_pause(tp_ddp *ddp, bool on);    /* while on, gradients add up here and nothing is sent (no_sync) */
TP_API bool tp_ddp_broadcast_buffers(tp_ddp *ddp); /* rank 0's running means and the like become everybody's */
TP_API void tp_ddp_free(tp_ddp *ddp);              /* NULL is fine */

TP_END
#endif
