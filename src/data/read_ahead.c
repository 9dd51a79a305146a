/* Reads batches of a dataset ahead, on threads of its own. Batches come out in the order in which they were asked for,
 * whichever thread read them, and each is the work of one thread, so that what is in them does not depend on how many
 * there are. */
#include <pthread.h>
#include "tensor/check_arguments.h"
#include <string.h>
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "tensor/tensor.h"

enum job_state { ASKED, AT_WORK, DONE, FAILED };
struct job {
    int64_t *indices, n;
    enum job_state state;
    tp_tensor *fields[TP_MAX_FIELDS];
    tp_code code; /* of what went wrong */
    char *error;
};

struct tp_reader {
    tp_dataset *dataset;
    int64_t capacity, taken, started, asked; /* jobs are numbered; number i stands at i % capacity */
    struct job *jobs;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    bool stop;
    int nthreads;
    pthread_t threads[];
};

static struct job *job_at(tp_reader *r, int64_t number) { return &r->jobs[number % r->capacity]; }

static void job_run(tp_reader *r, struct job *j) { /* without the lock */
    if (tpi_read_batch(r->dataset, tp_ints_view(j->indices, j->n), j->fields)) {
        j->state = DONE;
        return;
    }
    j->code = tp_error_code();
    j->error = tp_error() ? tpi_strdup(tp_error()) : NULL;
    j->state = FAILED;
    tp_error_clear();
}

static void *reader_main(void *context) {
    tp_reader *r = context;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        if (r->started == r->asked) {
            pthread_cond_wait(&r->work, &r->lock);
            continue;
        }
        struct job *j = job_at(r, r->started), mine = *j;
        r->started++;
        j->state = AT_WORK;
        pthread_mutex_unlock(&r->lock);
        job_run(r, &mine);
        pthread_mutex_lock(&r->lock);
        *j = mine;
        pthread_cond_broadcast(&r->done);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void job_clear(tp_reader *r, struct job *j) {
    for (int64_t f = 0; j->state == DONE && f < r->dataset->nfields; f++) tp_release(j->fields[f]);
    tpi_mfree(j->indices);
    tpi_mfree(j->error);
    *j = (struct job){0};
}

void tp_reader_free(tp_reader *r) {
    if (!TPI_ENDS(r, "reader", "a reader")) return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->nthreads; i++) pthread_join(r->threads[i], NULL);
    for (int64_t i = 0; i < r->capacity; i++) job_clear(r, &r->jobs[i]);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->done);
    tp_dataset_release(r->dataset);
    tpi_mfree(r->jobs);
    tpi_handle_mfree(r);
}

tp_reader *tp_reader_new(tp_dataset *dataset, int threads, int64_t room) {
    if (!tpi_given(dataset, __func__, "dataset", "a dataset")) return NULL;
    if (threads < 0 || threads > 1024)
        return tpi_fail(TP_ERR_VALUE, "argument 'threads': expected 0 to 1024, got %d", threads);
    if (room < 1 || room > 1 << 20)
        return tpi_fail(TP_ERR_VALUE, "argument 'room': expected 1 to %d, got %lld", 1 << 20, (long long)room);
    tp_reader *r = tpi_malloc(sizeof *r + sizeof(pthread_t) * (size_t)threads);
    struct job *jobs = r ? tpi_malloc(sizeof *jobs * (size_t)room) : NULL;
    if (!jobs) {
        tpi_mfree(r);
        return NULL;
    }
    memset(jobs, 0, sizeof *jobs * (size_t)room);
    *r = (tp_reader){.dataset = tp_dataset_retain(dataset), .capacity = room, .jobs = jobs};
    tpi_handle_made(r, "reader");
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, NULL);
    pthread_cond_init(&r->done, NULL);
    for (; r->nthreads < threads; r->nthreads++) {
        int error = pthread_create(&r->threads[r->nthreads], NULL, reader_main, r);
        if (!error) continue;
        tp_reader_free(r);
        return tpi_fail(TP_ERR_MEMORY, "cannot start a thread that reads: %s", strerror(error));
    }
    return r;
}

bool tp_reader_ask(tp_reader *r, tp_ints indices) {
    if (!tpi_given(r, __func__, "reader", "a reader")) return false;
    if (!TPI_LIST_GIVEN(indices.v, indices.n)) return false;
    if (tp_reader_waiting(r) == r->capacity)
        return tpi_refuse(TP_ERR_RUNTIME, "%lld batches wait already: take one first", (long long)r->capacity);
    int64_t *copy = tpi_malloc(sizeof(int64_t) * (size_t)(indices.n ? indices.n : 1));
    if (!copy) return false;
    if (indices.n) memcpy(copy, indices.v, sizeof(int64_t) * (size_t)indices.n);
    pthread_mutex_lock(&r->lock);
    *job_at(r, r->asked++) = (struct job){.indices = copy, .n = indices.n, .state = ASKED};
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
    return true;
}

int64_t tp_reader_waiting(const tp_reader *r) {
    if (TPI_ENDED(r, "a reader")) return -1;
    return r ? r->asked - r->taken : 0;
}

bool tp_reader_take(tp_reader *r, tp_tensor **fields) {
    if (!tpi_given(r, __func__, "reader", "a reader")) return false;
    if (!tp_reader_waiting(r)) return tpi_refuse(TP_ERR_RUNTIME, "no batch was asked for");
    struct job *j = job_at(r, r->taken);
    if (!r->nthreads) job_run(r, j);
    pthread_mutex_lock(&r->lock);
    while (j->state != DONE && j->state != FAILED) pthread_cond_wait(&r->done, &r->lock);
    r->taken++;
    pthread_mutex_unlock(&r->lock);
    bool ok = j->state == DONE;
    if (ok)
        memcpy(fields, j->fields, sizeof(tp_tensor *) * (size_t)r->dataset->nfields);
    else
        tpi_fail(j->code, "%s", j->error ? j->error : "a batch could not be read: out of memory");
    if (ok) j->state = ASKED; /* the tensors are the caller's now */
    job_clear(r, j);
    return ok;
}
