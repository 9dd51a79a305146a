/* The watcher: a thread in each rank that knows when a rank dies, leaves or does not come. Those of the other ranks are
 * connected to rank 0's, which keeps the list of where everybody stands (rank_status.c). */
#ifndef TPI_DIST_WATCH_H
#define TPI_DIST_WATCH_H
#include "dist/collective/group.h"

enum { TPI_WAITS_FOR_ALL = 1, TPI_WAITS_FOR_MESSAGE };

typedef struct tpi_rank_status { /* where a rank stands in one group */
    int32_t group, waits;
    int64_t entered, left; /* numbers of collectives */
    double since;          /* seconds that it waits, or since it left the last one */
    char about[TPI_ABOUT_BYTES],
        call_site[TPI_CALL_SITE_BYTES]; /* of the last collective, or of the message that it waits for */
} tpi_rank_status;

enum tpi_presence { TPI_NOT_YET, TPI_HERE, TPI_LEFT, TPI_DEAD };

typedef struct tpi_ranks { /* rank 0's list */
    int n;
    struct tpi_known {
        enum tpi_presence presence;
        double heard;  /* when */
        char who[160]; /* "host n1, pid 812" */
        tpi_rank_status *statuses;
        int nstatuses;
    } ranks[];
} tpi_ranks;

tpi_ranks *tpi_ranks_new(int n);
void tpi_ranks_free(tpi_ranks *list);
bool tpi_ranks_update(tpi_ranks *list, int rank, const tpi_rank_status *statuses, int n);
void tpi_ranks_name(const tpi_ranks *list, int rank, char *text, size_t capacity); /* "rank 3 (host n1, pid 812)" */
/* What it was at when it was last heard of, or since, by where others in its groups stand. `world`: the id of the group
 * of all, in which it is; -1: ranks do not agree before a collective, and nothing follows from others. */
void tpi_ranks_last(const tpi_ranks *list, int rank, int world, char *text, size_t capacity);
/* A line for each of the ranks that has not come to that number of the group's collectives. How many; *gone: one of
 * them never will. Those that wait in an earlier one of the group's, and have said so since that moment, wait for the
 * others, and are named only if there are no others. 0 with a text: all have come, and those have not been heard from
 * since. */
int tpi_ranks_missing(const tpi_ranks *list, int group, int64_t number, const int32_t *ranks, int n, double since,
                      char *text, size_t capacity, bool *gone);

void tpi_report(const char *text); /* to the program's listener */
double tpi_stall_time(
    void); /* seconds after which a wait is reported, where the caller of tp_dist_init has not said (TAPER_STALL) */
/* Who has not come to what this work waits for, as words to follow ITS TIME IS UP; "" if there is no watcher. Takes a
 * few seconds where rank 0 is stopped. */
void tpi_watch_ask(tp_work *work, char *text, size_t capacity);
void tpi_time_up_text(
    const tp_work *work, double seconds, char *text,
    size_t capacity); /* "all_reduce(SUM) of ..., number 4 of group 'default', timed out after 10.0 seconds" */
bool tpi_watch_open(tpi_job *job);  /* false with an error */
void tpi_watch_leave(tpi_job *job); /* in order: says goodbye, and where this rank stands in its groups at its end */
void tpi_watch_close(tpi_job *job);
#endif
