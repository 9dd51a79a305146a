/* What ranks tell each other while they save and load: values as pickles, to all, and failures to all, so that nobody
 * waits for one that has failed. */
#include <stdio.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/checkpoint/sharded.h"
#include "io/checkpoint/checkpoint.h"
#include "tensor/tensor.h"

bool tpi_messages_in(tpi_messages *t, tp_group *group) {
    *t = (tpi_messages){.group = group, .size = 1};
    if (!group && !tp_dist_world()) return true;
    t->rank = tp_group_rank(group);
    t->size = tp_group_size(group);
    t->together = t->size > 1;
    return t->rank >= 0 || tpi_refuse(TP_ERR_VALUE, "argument 'group': this rank is not in it");
}

/* ---- Values ---- */
tp_saved *tpi_tuple(tpi_arena *a, int n, tp_saved *const *items) {
    tp_saved *t = tpi_saved_new(a, TP_SAVED_TUPLE);
    for (int i = 0; t && i < n; i++)
        if (!items[i] || !tpi_saved_append(a, t, items[i])) t = NULL;
    return t;
}

tp_saved *tpi_sizes_value(tpi_arena *a, tp_saved_kind kind, const int64_t *v, int n) {
    tp_saved *t = tpi_saved_new(a, kind);
    for (int i = 0; t && i < n; i++) {
        tp_saved *number = tpi_saved_number(a, tp_int(v[i]));
        if (!number || !tpi_saved_append(a, t, number)) t = NULL;
    }
    return t;
}

tp_saved *tpi_name_value(tpi_arena *a, tp_saved_kind kind, const char *text) {
    return tpi_saved_text(a, kind, text, strlen(text));
}

const int64_t *tpi_sizes_of(tpi_arena *a, const tp_saved *v, int *n) {
    int64_t count = tp_saved_count(v);
    bool ok = v && (v->kind == TP_SAVED_SIZE || v->kind == TP_SAVED_TUPLE || v->kind == TP_SAVED_LIST) &&
              count <= TP_MAX_DIMS;
    int64_t *sizes = ok ? tpi_arena_new(a, sizeof *sizes * (size_t)(count + 1)) : NULL;
    for (int64_t i = 0; sizes && i < count; i++) {
        ok = ok && tpi_is_int(v->as.items.v[i]) && v->as.items.v[i]->as.number.as.i >= 0;
        sizes[i] = ok ? v->as.items.v[i]->as.number.as.i : 0;
    }
    if (!ok) return tpi_fail(TP_ERR_VALUE, "expected a shape, got %s", v ? tpi_kind_name(v) : "nothing");
    *n = (int)count;
    return sizes;
}

/* ---- To all ---- */
static void release_all(tp_tensor **all, int n) {
    for (int i = 0; all && i < n; i++) tp_release(all[i]);
    tpi_mfree(all);
}

static tp_tensor **empty_for(const tpi_messages *t, const int64_t *bytes) {
    tp_tensor **all = tpi_malloc(sizeof *all * (size_t)t->size);
    for (int i = 0; all && i < t->size; i++)
        if (!(all[i] = tpi_empty(TP_INTS(bytes[i]), TP_UINT8, (tp_device){TP_CPU, 0}))) {
            release_all(all, i);
            return NULL;
        }
    return all;
}

/* Everybody's bytes: t->size tensors. */
static tp_tensor **gather_bytes(const tpi_messages *t, const void *data, size_t n) {
    tp_tensor *count = tpi_empty(TP_INTS(1), TP_INT64, (tp_device){TP_CPU, 0}),
              *counts = count ? tpi_empty(TP_INTS(t->size), TP_INT64, (tp_device){TP_CPU, 0}) : NULL;
    tp_tensor *mine = counts ? tpi_empty(TP_INTS((int64_t)n), TP_UINT8, (tp_device){TP_CPU, 0}) : NULL, **all = NULL;
    if (mine) {
        *(int64_t *)count->data = (int64_t)n;
        memcpy(mine->data, data, n);
        if (tp_dist_wait(tp_dist_all_gather_into(t->group, counts, count)))
            all = empty_for(t, (const int64_t *)counts->data);
        if (all && !tp_dist_wait(tp_dist_all_gather(t->group, (tp_tensors){all, t->size}, mine))) {
            release_all(all, t->size);
            all = NULL;
        }
    }
    tp_release(mine);
    tp_release(counts);
    tp_release(count);
    return all;
}

static tp_saved **read_all(const tpi_messages *t, tpi_arena *a, tp_tensor *const *bytes) {
    tp_saved **all = tpi_arena_new(a, sizeof *all * (size_t)t->size);
    tpi_pickle reader = {.arena = a, .path = "a message between ranks"};
    for (int i = 0; all && i < t->size; i++) {
        tp_saved *message =
            tpi_pickle_read(&reader, (const unsigned char *)bytes[i]->data, (size_t)bytes[i]->numel, NULL, NULL);
        if (!message) return NULL;
        if (message->kind == TP_SAVED_TUPLE) {
            all[i] = message->as.items.v[0];
            continue;
        }
        return tpi_fail(TP_ERR_IO, "rank %d: %s", i, message->kind == TP_SAVED_TEXT ? message->as.text : "no message");
    }
    return all;
}

tp_saved **tpi_messages_all(const tpi_messages *t, tpi_arena *a, tp_saved *mine) {
    if (!t->together) {
        tp_saved **alone = mine ? tpi_arena_new(a, sizeof *alone) : NULL;
        if (alone) alone[0] = mine;
        return alone;
    }
    tp_saved *message;
    if (mine)
        message = TPI_TUPLE(a, mine);
    else {
        char said[768];
        snprintf(said, sizeof said, "%s", tp_error());
        tp_error_clear();
        message = tpi_name_value(a, TP_SAVED_TEXT, said);
    }
    tpi_wire pickle = {0};
    bool ok = message && tpi_pickle_write(&pickle, message, "a message between ranks", NULL, NULL, false);
    tp_tensor **bytes = ok ? gather_bytes(t, pickle.data, pickle.n) : NULL;
    tpi_wire_free(&pickle);
    tp_saved **all = bytes ? read_all(t, a, bytes) : NULL;
    release_all(bytes, t->size);
    return all;
}
