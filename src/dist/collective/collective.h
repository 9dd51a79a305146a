/* Rounds of messages within a group, which collectives are made of. */
#ifndef TPI_DIST_COLLECTIVE_H
#define TPI_DIST_COLLECTIVE_H
#include "dist/collective/group.h"

typedef struct tpi_round { /* messages that are under way together */
    tp_work *work;
    int channel;
    struct tpi_leg *legs;
    int n, capacity;
    bool ok, unlabelled; /* unlabelled: messages of another collective are welcome */
} tpi_round;

tpi_round tpi_round_new(tp_work *work, int channel);
void tpi_round_send(tpi_round *round, int to, const void *data, int64_t bytes);
void tpi_round_recv(tpi_round *round, int from, void *data, int64_t bytes);
bool tpi_round_end(tpi_round *round); /* waits for all of them. False with an error, and the job has failed */

/* Do all ranks come to the same collective with the same shapes? False with an error that names two that do not. */
bool tpi_agree(tp_work *work);
/* A number that is the same on ranks that may go on together. What only the root knows, and what may differ, is not in
 * it. */
uint64_t tpi_fingerprint(const tp_work *work);
#endif
