/* Pipelines: the ranks of a group hold successive stages of a network, and a batch goes through them in parts, so that
 * all stages work at the same time.
 *
 *     tp_pipeline *line = tp_pipeline_new(stage, .parts = 8, .loss = loss); // rank 0 has the first stage
 *     ...
 *     tp_optimiser_zero_grad(sgd);
 *     tp_pipeline_step(line, rank == 0 ? x : NULL, rank == last ? y : NULL, &loss, NULL);
 *     tp_step(sgd);                                         // of this stage's parameters
 *
 * A stage takes one tensor and gives one. Shapes and dtypes go along with every message. Gradients are those of the
 * mean over the parts' losses, and add to what is there. */
#ifndef TAPER_PIPELINE_H
#define TAPER_PIPELINE_H
#include <taper/dist.h>
#include <taper/nn.h>

TP_BEGIN

typedef enum tp_pipeline_schedule {
    TP_PIPELINE_1F1B = 0, /* a backward as soon as there is one: the least memory. Several stages: interleaved */
    TP_PIPELINE_GPIPE,    /* all forwards, then all backwards; several stages on a rank one after the other */
    TP_PIPELINE_SCHEDULES
} tp_pipeline_schedule;

typedef struct tp_pipeline tp_pipeline;
/* The loss of a part, on the last stage: one element. `target` is NULL where the step was given none. */
typedef tp_tensor *(*tp_pipeline_loss)(tp_tensor *output, tp_tensor *target, void *context);
typedef struct tp_pipeline_options {
    TP_STRUCT_SIZE(tp_pipeline_options); /* sizeof(tp_pipeline_options) */
    tp_group *group TP_MEMBER(NULL);     /* NULL: all ranks */
    int64_t parts TP_MEMBER(0);          /* of a batch, along its first dim; 0: as many as stages */
    tp_pipeline_schedule schedule TP_MEMBER(TP_PIPELINE_1F1B);
    tp_pipeline_loss loss TP_MEMBER(NULL); /* NULL: nothing is learnt, there are no backwards */
    void *context TP_MEMBER(NULL);         /* of the loss */
    /* Several stages on a rank: stage i of the network is on rank i modulo their number. `more` are those behind the
     * first, in their order; every rank has as many. */
    int64_t nmore TP_MEMBER(0);
    tp_module *const *more TP_MEMBER(NULL);
    TP_OPTIONS_GUARD_
} tp_pipeline_options;
/* options may be NULL. Stages must outlive it. All ranks make the call with the same numbers. */
TP_API tp_pipeline *tp_pipeline_new_with(tp_module *stage, const tp_pipeline_options *options);
#ifndef __cplusplus
#define tp_pipeline_new(...)  TP_PIPELINE_NEW_(__VA_ARGS__, )
#define TP_PIPELINE_DEFAULTS_ .size = (int64_t)sizeof(tp_pipeline_options), .nmore = 0
#define TP_PIPELINE_NEW_(stage, ...) \
    TP_WITH_(tp_pipeline_options, tp_pipeline_new_with(stage, &tp_o_), TP_PIPELINE_DEFAULTS_, __VA_ARGS__)
#else
static inline tp_pipeline *tp_pipeline_new(tp_module *stage,
                                           const tp_pipeline_options &options = tp_pipeline_options()) {
    return tp_pipeline_new_with(stage, &options);
}
#endif
/* One batch. input counts on the rank of the first stage, target on that of the last. loss and output may be NULL; on
 * the last stage's rank they get the mean of the parts' losses (0 without a loss) and what the network gives, without a
 * history. */
TP_API bool tp_pipeline_step(tp_pipeline *line, tp_tensor *input, tp_tensor *target, double *loss, tp_tensor **output);
TP_API bool tp_pipeline_is_first(const tp_pipeline *line); /* has the first stage */
TP_API bool tp_pipeline_is_last(const tp_pipeline *line);
TP_API void tp_pipeline_free(tp_pipeline *line); /* NULL is fine */

TP_END
#endif
