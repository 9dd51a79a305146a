/* The order in which a rank's stages work on the parts of a batch. */
#ifndef TPI_PIPELINE_H
#define TPI_PIPELINE_H
#include <taper/pipeline.h>

typedef struct tpi_pipeline_step {
    bool backward;
    int64_t stage; /* of this rank's, from 0 */
    int64_t part;
} tpi_pipeline_step;

/* 2 * each * parts turns, in order; NULL without memory. tpi_mfree it. each: stages on a rank. */
tpi_pipeline_step *tpi_pipeline_order(tp_pipeline_schedule schedule, int64_t rank, int64_t ranks, int64_t each,
                                      int64_t parts);
#endif
