/* Loaders: epochs of batches in order, or shuffled as PyTorch's DataLoader shuffles with the same seed.
 *
 * An epoch begins as PyTorch's does: a seed is drawn from the generator whether it is needed or not, then the
 * permutation, from the loader's own generator, or from one that is seeded by the default generator. So C and Python
 * programs read the same batches. */
#include <string.h>
#include "autograd/glue.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "tensor/tensor.h"
#include "tpi_ops.h"

struct tp_loader {
    tp_dataset *dataset;
    tp_reader *reader;
    tp_generator *generator; /* NULL: the default one */
    int64_t batch, batches, capacity;
    bool shuffle, in_epoch;
    tp_sampler *sampler;              /* NULL: the loader's own order */
    int64_t count;                    /* items in an epoch */
    tp_tensor *order;                 /* of the epoch: int64; NULL: as they come */
    tp_tensor *before;                /* the generator's state before the epoch's order was drawn */
    int64_t asked, given;             /* batches of the epoch */
    tp_tensor *fields[TP_MAX_FIELDS]; /* of the current batch; NULL: none */
};

/* What an epoch's order is drawn from. */
static tp_generator *source(const tp_loader *l) {
    tp_generator *own = l->sampler ? tpi_sampler_generator(l->sampler) : NULL;
    return own ? own : l->generator ? l->generator : tp_default_generator();
}

static void drop_batch(tp_loader *l) {
    for (int64_t f = 0; f < l->dataset->nfields; f++) {
        tp_release(l->fields[f]);
        l->fields[f] = NULL;
    }
}

static void end_epoch(tp_loader *l) {
    tp_release(l->order);
    tp_release(l->before);
    l->order = l->before = NULL;
    l->in_epoch = false;
    l->asked = l->given = 0;
}

void tp_loader_free(tp_loader *l) {
    if (!TPI_ENDS(l, "loader", "a loader")) return;
    drop_batch(l);
    end_epoch(l);
    tp_reader_free(l->reader);
    tp_dataset_release(l->dataset);
    tpi_handle_mfree(l);
}

tp_loader *tp_loader_new_with(tp_dataset *dataset, const tp_loader_options *options) {
    tp_loader_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (options && o.size <= 0) return NULL;
    if (!tpi_given(dataset, "tp_loader_new", "dataset", "a dataset")) return NULL;
    if (o.batch < 0) return tpi_fail(TP_ERR_VALUE, "option 'batch': expected 1 or more, got %lld", (long long)o.batch);
    if (o.ahead < 0 || o.ahead > 1 << 10)
        return tpi_fail(TP_ERR_VALUE, "option 'ahead': expected 0 to 1024, got %lld", (long long)o.ahead);
    if (o.threads < 0 || o.threads > 1024)
        return tpi_fail(TP_ERR_VALUE, "option 'threads': expected 0 to 1024, got %d", o.threads);
    if (o.sampler && o.shuffle)
        return tpi_fail(TP_ERR_VALUE, "option 'shuffle': sampler option is mutually exclusive with shuffle");
    const int64_t count = o.sampler ? tp_sampler_count(o.sampler) : dataset->count;
    if (count < 0) return NULL;
    int64_t batch = o.batch ? o.batch : 1, capacity = o.threads ? o.threads * (o.ahead ? o.ahead : 2) : 1;
    tp_reader *reader = tp_reader_new(dataset, o.threads, capacity);
    tp_loader *l = reader ? tpi_malloc(sizeof *l) : NULL;
    if (!l) {
        tp_reader_free(reader);
        return NULL;
    }
    *l = (tp_loader){.dataset = tp_dataset_retain(dataset),
                     .reader = reader,
                     .generator = o.generator,
                     .batch = batch,
                     .capacity = capacity,
                     .sampler = o.sampler,
                     .count = count,
                     .shuffle = o.shuffle};
    l->batches = o.drop_last ? count / batch : count / batch + (count % batch != 0);
    tpi_handle_made(l, "loader");
    return l;
}

static tp_tensor *draw_order(tp_loader *l) {
    if (l->sampler) return tp_own(tp_sampler_draw(l->sampler));
    if (l->generator) return tpo_randperm(l->dataset->count, l->generator, TP_INT64, (tp_device){TP_CPU, 0});
    int64_t seed;
    tp_generator *own = tpi_draw_seed(NULL, &seed) ? tp_generator_new((uint64_t)seed) : NULL;
    tp_tensor *order = own ? tpo_randperm(l->dataset->count, own, TP_INT64, (tp_device){TP_CPU, 0}) : NULL;
    tp_generator_free(own);
    return order;
}

/* PyTorch's sampler, asked for more than it has, draws one more permutation. Where that is from the loader's own
 * generator, it shows in the epochs that follow. */
static bool draw_in_vain(tp_loader *l) {
    tp_tensor *order = l->generator && l->shuffle ? draw_order(l) : NULL;
    tp_release(order);
    return order || !l->generator || !l->shuffle;
}

static bool begin_epoch(tp_loader *l) {
    int64_t seed;
    l->before = tp_own(tp_generator_get_state(source(l)));
    l->in_epoch =
        l->before && tpi_draw_seed(l->generator, &seed) && ((!l->shuffle && !l->sampler) || (l->order = draw_order(l)));
    if (!l->in_epoch) end_epoch(l);
    return l->in_epoch;
}

static bool ask(tp_loader *l) { /* as many batches as the reader's capacity allows */
    int64_t *plain = l->order ? NULL : tpi_malloc(sizeof(int64_t) * (size_t)l->batch);
    bool ok = l->order || plain;
    for (; ok && l->asked < l->batches && tp_reader_waiting(l->reader) < l->capacity; l->asked += ok) {
        int64_t from = l->asked * l->batch, n = l->count - from < l->batch ? l->count - from : l->batch;
        for (int64_t i = 0; plain && i < n; i++) plain[i] = from + i;
        ok = tp_reader_ask(l->reader, tp_ints_view(plain ? plain : (const int64_t *)l->order->data + from, n));
    }
    tpi_mfree(plain);
    return ok;
}

bool tp_loader_next(tp_loader *l) {
    TPI_STOP_ON_ERROR(false);
    if (!tpi_given(l, __func__, "loader", "a loader")) return false;
    if (!tp_ok()) return false;
    drop_batch(l);
    if (!l->in_epoch && !begin_epoch(l)) return false;
    if (l->given == l->batches) {
        if (draw_in_vain(l)) end_epoch(l);
        return false;
    }
    if (!ask(l)) return false;
    l->given++; /* a batch that cannot be read is passed over */
    if (tp_reader_take(l->reader, l->fields)) return ask(l);
    memset(l->fields, 0, sizeof l->fields);
    return false;
}

tp_tensor *tp_loader_field(const tp_loader *l, int64_t field) {
    if (!tpi_given(l, __func__, "loader", "a loader")) return NULL;
    if (field < 0 || field >= l->dataset->nfields || !l->fields[field])
        return tpi_fail(TP_ERR_INDEX, "argument 'field': the loader has no batch with a field %lld", (long long)field);
    return l->fields[field];
}

int64_t tp_loader_batches(const tp_loader *l) {
    if (TPI_ENDED(l, "a loader")) return -1;
    return l ? l->batches : -1;
}

/* ---- Where it stands: batches given out, or -1 between epochs; whose place it is; the generator's states before the
 * epoch and now ---- */
enum { STATE_BYTES = 5056 };
typedef struct position {
    int64_t given, batches, count, batch, shuffle;
} position;
static position position_of(const tp_loader *l) {
    return (position){l->in_epoch ? l->given : -1, l->batches, l->count, l->batch, l->shuffle};
}

tp_tensor *tp_loader_get_state(const tp_loader *l) {
    if (!tpi_given(l, __func__, "loader", "a loader")) return NULL;
    const position at = position_of(l);
    tp_tensor *now = tp_own(tp_generator_get_state(source(l))), *before = l->in_epoch ? l->before : now;
    tp_tensor *state =
        now ? tpi_empty(TP_INTS((int64_t)sizeof at + 2 * STATE_BYTES), TP_UINT8, (tp_device){TP_CPU, 0}) : NULL;
    if (state) {
        memcpy(state->data, &at, sizeof at);
        memcpy(state->data + sizeof at, before->data, STATE_BYTES);
        memcpy(state->data + sizeof at + STATE_BYTES, now->data, STATE_BYTES);
    }
    tp_release(now);
    return tpi_to_scope(state);
}

static bool set_generator(tp_loader *l, const char *bytes) {
    tp_tensor *t = tp_own(tp_from_data(bytes, TP_UINT8, TP_INTS(STATE_BYTES)));
    bool ok = t && tp_generator_set_state(source(l), t);
    tp_release(t);
    return ok;
}

static bool is_position_of(const tp_loader *l, const position *saved) {
    const position own = position_of(l);
    if (saved->given >= -1 && saved->given <= own.batches && saved->count == own.count && saved->batch == own.batch &&
        saved->shuffle == own.shuffle && saved->batches == own.batches)
        return true;
    return tpi_refuse(
        TP_ERR_VALUE,
        "argument 'state': it is another loader's place: that of %lld items in %lld batches of %lld%s, expected %lld "
        "items in %lld batches of %lld%s",
        (long long)saved->count, (long long)saved->batches, (long long)saved->batch, saved->shuffle ? ", shuffled" : "",
        (long long)own.count, (long long)own.batches, (long long)own.batch, own.shuffle ? ", shuffled" : "");
}

bool tp_loader_set_state(tp_loader *l, const tp_tensor *state) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(l, "a loader") || !TPI_GIVEN(state, "a tensor")) return false;
    position saved;
    if (state->dtype != TP_UINT8 || state->numel != (int64_t)sizeof saved + 2 * STATE_BYTES || !tp_is_contiguous(state))
        return tpi_refuse(TP_ERR_VALUE, "argument 'state': expected what tp_loader_get_state gave");
    memcpy(&saved, state->data, sizeof saved);
    if (!is_position_of(l, &saved)) return false;
    const int64_t given = saved.given;
    while (tp_reader_waiting(l->reader)) { /* of the epoch that is left */
        tp_tensor *fields[TP_MAX_FIELDS] = {0};
        if (!tp_reader_take(l->reader, fields)) tp_error_clear();
        for (int64_t f = 0; f < l->dataset->nfields; f++) tp_release(fields[f]);
    }
    drop_batch(l);
    end_epoch(l);
    bool ok = given < 0 || (set_generator(l, state->data + sizeof saved) && begin_epoch(l));
    if (ok && given >= 0) l->asked = l->given = given;
    return ok && set_generator(l, state->data + sizeof saved + STATE_BYTES);
}
