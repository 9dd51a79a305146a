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
    int64_t bucket_bytes TP_MEMBER(0); /* a bucket is full from so many bytes on, the first from 1 MB; 0: 25 MB */
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

/* ---- The reducer ----
 * What tp_ddp and the Python module's DistributedDataParallel stand on: parameters in buckets, from the network's end,
 * and a hook on each that copies its gradient into its bucket. A bucket that is full is started once those before it
 * are, so that all ranks start them in one order. How a bucket reaches the others is the caller's: functions that
 * return false leave an error, and end the backward that they were called in. */
typedef struct tp_reducer tp_reducer;
typedef struct tp_reducer_options {
    TP_STRUCT_SIZE(tp_reducer_options);
    int64_t first_bytes TP_MEMBER(0), bucket_bytes
        TP_MEMBER(0);                   /* a bucket is full from so many bytes on; 0: 1 and 25 MB */
    bool find_unused TP_MEMBER(false);  /* parameters without a gradient count as zeros where another rank has one */
    bool as_views TP_MEMBER(false);     /* gradients become views of the buckets */
    bool static_graph TP_MEMBER(false); /* every backward is as the first, whose end is tp_reducer_first_done */
    bool by_hand TP_MEMBER(false);      /* tp_reducer_finish waits; otherwise the backward's last hook does */
    void *context TP_MEMBER(NULL);      /* of: */
    bool (*began)(void *context) TP_MEMBER(NULL); /* static_graph: the first backward brings its first gradient */
    bool (*start)(void *context, int64_t bucket) TP_MEMBER(NULL); /* sends what the bucket holds */
    bool (*wait)(void *context, int64_t bucket) TP_MEMBER(NULL);  /* until it holds what all ranks agree on */
    bool (*sum)(void *context, tp_tensor *used) TP_MEMBER(NULL);  /* over the ranks: which parameters got gradients */
    /* NULL, or copies tensors that are not the library's own: 1 copied, 0 left to the library, -1 failed */
    int (*copy)(void *context, tp_tensor *to, tp_tensor *from) TP_MEMBER(NULL);
    TP_OPTIONS_GUARD_
} tp_reducer_options;
/* A reducer for n parameters, whose names stand in its error messages. options may be NULL. */
TP_API tp_reducer *tp_reducer_new(int64_t n, tp_tensor *const *parameters, const char *const *names,
                                  const tp_reducer_options *options);
TP_API void tp_reducer_free(tp_reducer *reducer); /* NULL is fine */
/* The next backward is to be reduced. unused: NULL, or per parameter whether it is known to get no gradient. */
TP_API bool tp_reducer_prepare(tp_reducer *reducer, const bool *unused);
TP_API bool tp_reducer_first_done(tp_reducer *reducer);
TP_API bool tp_reducer_finish(tp_reducer *reducer); /* by_hand: waits, and makes the gradients what all agree on */
TP_API bool tp_reducer_shadow(tp_reducer *reducer); /* takes part in the others' next backward, with zeros */
TP_API bool tp_reducer_running(const tp_reducer *reducer); /* a backward began and has not reached all parameters */
TP_API bool tp_reducer_has(const tp_reducer *reducer, int64_t parameter); /* this backward's gradient */
TP_API void tp_reducer_divide(tp_reducer *reducer, double by); /* each bucket before it is started; 1 at first */
TP_API void tp_reducer_pause(tp_reducer *reducer, bool on);    /* gradients only add up on this rank */
TP_API void tp_reducer_set_static(tp_reducer *reducer);
/* Its buckets: one tensor each, which the reducer keeps, and the numbers of its parameters in their order. */
TP_API int64_t tp_reducer_buckets(const tp_reducer *reducer);
TP_API tp_tensor *tp_reducer_bucket(const tp_reducer *reducer, int64_t bucket, tp_ints *parameters);

TP_END

/* What TP_DEFAULTS gives. */
#define TP_REDUCER_DEFAULTS_ .size = (int64_t)sizeof(tp_reducer_options)
#endif
