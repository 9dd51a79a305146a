/* The watcher from inside: what its thread (watch.c) and its questions about who has not come (stall_report.c) share.
 * All of it is the thread's own but for what is said to have a lock. */
#ifndef TPI_DIST_WATCHER_H
#define TPI_DIST_WATCHER_H
#include "dist/job/listener.h"
#include "dist/watch/watch.h"

enum {
    TPI_HELLO = 1,
    TPI_STATE,
    TPI_ASK,
    TPI_ANSWER,
    TPI_BYE,
    TPI_RANK_FAILED,
    TPI_DEATH,
    TPI_TIME_UP,
    TPI_SOMEBODY_LEFT,
    TPI_TELL
};
enum { TPI_WHO_BYTES = 1536, TPI_WHAT_BYTES = 320 };

typedef struct tpi_head {
    uint32_t kind, bytes;
} tpi_head;

typedef struct tpi_link { /* a connection, and the part of its next message that was received */
    int fd, rank;         /* rank -1: it has not said hello */
    char *in;
    size_t have, capacity;
} tpi_link;

typedef struct tpi_question { /* who of a group has not come to that number? Followed by the n ranks; an answer by its
                                 text */
    int32_t group, n;
    int64_t number;            /* INT64_MAX: it is about a message from or to them */
    int32_t missing, gone;     /* of an answer: how many (-1: nobody knows); one of them never will come */
    int64_t id;                /* of the program's own question (tpi_watch_ask); 0: the watcher's */
    char what[TPI_WHAT_BYTES]; /* not empty: its time is up, and the job fails by what it says and who has not come */
} tpi_question;

typedef struct tpi_inquest tpi_inquest;

typedef struct tpi_watch {
    tpi_job *job;
    pthread_t thread;
    bool threaded, left;
    atomic_bool closing;
    int wake[2];
    tpi_listener listener; /* of rank 0 */
    uint64_t number;       /* that tells ranks from those of another job with the same secret */
    tpi_link server;       /* of ranks other than 0 */
    tpi_link *clients;     /* of rank 0 */
    struct pollfd *polls;
    int nclients, capacity;
    tpi_ranks *list; /* of rank 0; of others: what they know of rank 0 */
    bool somebody_left, server_left;
    int dead; /* rank 0: who has died and is not reported yet, since when; -1: nobody */
    double dead_since;
    tpi_inquest *inquests;         /* rank 0: questions that are answered when ranks have said where they stand */
    double tell_since;             /* rank 0: when it last asked them to */
    double told, asked, failed_at; /* when; 0: not */
    bool late;         /* the job has failed by a collective's timeout: it ends, but this process may go on */
    double late_since; /* since when this rank waits to hear who made it so; 0: it does not */
    double patience;   /* seconds that an answer may take */
    double joining;    /* since when, or since the last report of it */
    bool ended;
    pthread_mutex_t lock; /* of what is sent */
    struct {              /* the program's own question, one at a time */
        pthread_mutex_t asker_lock, lock;
        pthread_cond_t answered;
        bool wanted, done; /* with the lock, as all that follows */
        tpi_question q;
        const int32_t *ranks;
        char *text;
        size_t capacity;
    } own;
} tpi_watch;

/* watch.c */
bool tpi_watch_tell(tpi_watch *w, int fd, uint32_t kind, const void *body, size_t n, const void *more, size_t m);
void tpi_watch_tell_all(tpi_watch *w, uint32_t kind, const char *text, int but);
void tpi_watch_tell_state(tpi_watch *w);
/* Everything fails with that text. `ends`: a rank is gone, and this process is to end as well. */
void tpi_watch_fail(tpi_watch *w, const char *text, bool ends);

/* stall_report.c */
void tpi_check_stalls(tpi_watch *w);     /* asks about what has waited for long */
void tpi_look_at_inquests(tpi_watch *w); /* rank 0: answers what can be answered */
void tpi_watch_read_own_question(tpi_watch *w);
void tpi_asked(tpi_watch *w, int asker, const char *body, size_t n); /* rank 0 */
void tpi_answered(tpi_watch *w, const tpi_question *q, const char *who);
void tpi_drop_inquests(tpi_watch *w);
#endif
