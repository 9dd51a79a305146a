/* What all stores share: waiting for keys, prefixes, and stores within one process. */
#include "dist/store/store.h"
#include "tensor/check_arguments.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "dist/engine/net.h"

enum { SLICE_MS = 250 }; /* of waiting, between looks at whether the program was interrupted */

static bool (*_Atomic interrupt_check)(void);

void tp_dist_set_interrupt(bool (*check)(void)) { interrupt_check = check; }

bool tpi_interrupted(void) {
    bool (*check)(void) = interrupt_check;
    if (!check || !check()) return false;
    tpi_fail(TP_ERR_RUNTIME, "interrupted");
    return true;
}

tp_store *tpi_store_new(size_t bytes, const tpi_store_kind *kind, double timeout) {
    tp_store *s = tpi_malloc(bytes);
    if (!s) return NULL;
    memset(s, 0, bytes);
    *s = (tp_store){.refs = 1, .kind = kind, .timeout = timeout > 0 ? timeout : 300};
    tpi_handle_made(s, "store");
    return s;
}

tp_store *tp_store_retain(tp_store *s) {
    if (TPI_ENDED(s, "a store")) return NULL;
    if (s) atomic_fetch_add(&s->refs, 1);
    return s;
}

void tp_store_release(tp_store *s) {
    if (!TPI_ENDS(s, "store", "a store") || atomic_fetch_sub(&s->refs, 1) != 1) return;
    s->kind->free(s);
    tpi_handle_mfree(s);
}

/* ---- Requests ---- */
#define given(s, key) (tpi_given(s, __func__, "store", "a store") && tpi_given(key, __func__, "key", "a text"))

static enum tpi_store_answer ask(tp_store *s, enum tpi_store_op op, const char *key, const void *in, size_t n,
                                 tpi_bytes *out) {
    return s->kind->ask(s, op, key, strlen(key), in, n, 0, out);
}

bool tp_store_set(tp_store *s, const char *key, const void *data, size_t n) {
    return given(s, key) && TPI_LIST_GIVEN(data, (int64_t)n) &&
           ask(s, TPI_STORE_SET, key, data, n, NULL) == TPI_STORE_DONE;
}

bool tp_store_append(tp_store *s, const char *key, const void *data, size_t n) {
    return given(s, key) && TPI_LIST_GIVEN(data, (int64_t)n) &&
           ask(s, TPI_STORE_APPEND, key, data, n, NULL) == TPI_STORE_DONE;
}

/* The answer once the key is there. A deadline in the past asks once. */
static bool await(tp_store *s, enum tpi_store_op op, const char *key, double deadline, tpi_bytes *out) {
    double from = tpi_now();
    for (;;) {
        double left = deadline - tpi_now(), slice = SLICE_MS * 1e-3;
        enum tpi_store_answer a = s->kind->ask(s, op, key, strlen(key), NULL, 0,
                                               left <= 0      ? 0
                                               : left < slice ? left
                                                              : slice,
                                               out);
        if (a == TPI_STORE_DONE) return true;
        if (a == TPI_STORE_FAILED || tpi_interrupted()) return false;
        if (tpi_now() < deadline) continue;
        return tpi_refuse(TP_ERR_IO, "wait timeout after %.0fms, keys: /%s (nobody has set the key '%s' of the store)",
                          deadline > from ? (deadline - from) * 1e3 : 0, key, key);
    }
}

bool tp_store_get(tp_store *s, const char *key, char **data, size_t *n) {
    tpi_bytes out;
    if (!given(s, key) || !await(s, TPI_STORE_GET, key, tpi_now() + s->timeout, &out)) return false;
    *data = out.data;
    *n = out.n;
    return true;
}

void tp_store_free_data(char *data) { tpi_mfree(data); }

bool tp_store_wait(tp_store *s, const char *key, double timeout) {
    return given(s, key) && await(s, TPI_STORE_CHECK, key, tpi_now() + (timeout >= 0 ? timeout : s->timeout), NULL);
}

bool tp_store_add(tp_store *s, const char *key, int64_t amount, int64_t *sum) {
    tpi_bytes out;
    if (!given(s, key) || ask(s, TPI_STORE_ADD, key, &amount, sizeof amount, &out) != TPI_STORE_DONE) return false;
    if (sum) memcpy(sum, out.data, sizeof *sum);
    tpi_mfree(out.data);
    return true;
}

bool tp_store_compare_set(tp_store *s, const char *key, const void *expected, size_t expected_bytes, const void *fresh,
                          size_t fresh_bytes, char **data, size_t *n) {
    if (TPI_ENDED(s, "a store")) return false;
    if (!TPI_LIST_GIVEN(expected, (int64_t)expected_bytes) || !TPI_LIST_GIVEN(fresh, (int64_t)fresh_bytes))
        return false;
    tpi_bytes out;
    uint32_t length = (uint32_t)expected_bytes;
    char *both = given(s, key) ? tpi_malloc(sizeof length + expected_bytes + fresh_bytes) : NULL;
    if (!both) return false;
    memcpy(both, &length, sizeof length);
    if (expected_bytes) memcpy(both + sizeof length, expected, expected_bytes);
    if (fresh_bytes) memcpy(both + sizeof length + expected_bytes, fresh, fresh_bytes);
    bool ok = ask(s, TPI_STORE_CAS, key, both, sizeof length + expected_bytes + fresh_bytes, &out) == TPI_STORE_DONE;
    tpi_mfree(both);
    if (ok) {
        *data = out.data;
        *n = out.n;
    }
    return ok;
}

int tp_store_check(tp_store *s, const char *key) {
    if (!given(s, key)) return -1;
    enum tpi_store_answer a = ask(s, TPI_STORE_CHECK, key, NULL, 0, NULL);
    return a == TPI_STORE_FAILED ? -1 : a == TPI_STORE_DONE;
}

int tp_store_delete(tp_store *s, const char *key) {
    if (!given(s, key)) return -1;
    enum tpi_store_answer a = ask(s, TPI_STORE_DELETE, key, NULL, 0, NULL);
    return a == TPI_STORE_FAILED ? -1 : a == TPI_STORE_DONE;
}

int64_t tp_store_count(tp_store *s) {
    tpi_bytes out;
    int64_t count;
    if (!given(s, "") || ask(s, TPI_STORE_COUNT, "", NULL, 0, &out) != TPI_STORE_DONE) return -1;
    memcpy(&count, out.data, sizeof count);
    tpi_mfree(out.data);
    return count;
}

bool tp_store_keys(tp_store *s, char **data, size_t *n) {
    tpi_bytes out;
    if (!given(s, "") || ask(s, TPI_STORE_KEYS, "", NULL, 0, &out) != TPI_STORE_DONE) return false;
    *data = out.data;
    *n = out.n;
    return true;
}

bool tp_store_queue_push(tp_store *s, const char *key, const void *data, size_t n) {
    return given(s, key) && TPI_LIST_GIVEN(data, (int64_t)n) &&
           ask(s, TPI_STORE_PUSH, key, data, n, NULL) == TPI_STORE_DONE;
}

bool tp_store_queue_pop(tp_store *s, const char *key, double timeout, char **data, size_t *n) {
    tpi_bytes out;
    if (!given(s, key) || !await(s, TPI_STORE_POP, key, tpi_now() + (timeout >= 0 ? timeout : s->timeout), &out))
        return false;
    *data = out.data;
    *n = out.n;
    return true;
}

int64_t tp_store_queue_length(tp_store *s, const char *key) {
    tpi_bytes out;
    int64_t length;
    if (!given(s, key) || ask(s, TPI_STORE_LENGTH, key, NULL, 0, &out) != TPI_STORE_DONE) return -1;
    memcpy(&length, out.data, sizeof length);
    tpi_mfree(out.data);
    return length;
}

double tp_store_timeout(const tp_store *s) {
    if (TPI_ENDED(s, "a store")) return -1;
    return s ? s->timeout : 0;
}
void tp_store_set_timeout(tp_store *s, double seconds) {
    if (TPI_ENDED(s, "a store")) return;
    if (s && seconds > 0) s->timeout = seconds;
}
int tp_store_port(const tp_store *s) {
    if (TPI_ENDED(s, "a store")) return -1;
    return s ? s->port : 0;
}
const char *tp_store_host(const tp_store *s) {
    if (TPI_ENDED(s, "a store")) return NULL;
    return s && s->host ? s->host : "";
}
const char *tp_store_listen(const tp_store *s) {
    if (TPI_ENDED(s, "a store")) return NULL;
    return s ? s->listen : "";
}

bool tpi_store_wait_until(tp_store *s, const char *key, double deadline) {
    for (double left; (left = deadline - tpi_now()) > 0;) {
        enum tpi_store_answer a =
            s->kind->ask(s, TPI_STORE_CHECK, key, strlen(key), NULL, 0, left < 0.25 ? left : 0.25, NULL);
        if (a == TPI_STORE_DONE) return true;
        if (a == TPI_STORE_FAILED || tpi_interrupted()) return false;
    }
    return false;
}

bool tpi_store_set_text(tp_store *s, const char *key, const char *text) {
    return tp_store_set(s, key, text, strlen(text));
}

bool tpi_store_get_text(tp_store *s, const char *key, char *text, size_t capacity, double deadline) {
    tpi_bytes out;
    text[0] = 0;
    if (!await(s, TPI_STORE_GET, key, deadline, &out)) return false;
    snprintf(text, capacity, "%.*s", (int)out.n, out.data);
    tpi_mfree(out.data);
    return true;
}

/* ---- A store within a process ---- */
typedef struct hash_store {
    tp_store store;
    tpi_table table;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} hash_store;

static enum tpi_store_answer hash_ask(tp_store *s, enum tpi_store_op op, const char *key, size_t key_bytes,
                                      const char *in, size_t n, double wait, tpi_bytes *out) {
    hash_store *h = (hash_store *)s;
    double deadline = tpi_now() + wait;
    pthread_mutex_lock(&h->lock);
    enum tpi_store_answer a;
    while ((a = tpi_table_ask(&h->table, op, key, key_bytes, in, n, out)) == TPI_STORE_ABSENT && tpi_now() < deadline) {
        struct timespec until = tpi_until(deadline);
        pthread_cond_timedwait(&h->changed, &h->lock, &until);
    }
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return a;
}

static void hash_free(tp_store *s) {
    hash_store *h = (hash_store *)s;
    tpi_table_free(&h->table);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->changed);
}

tp_store *tp_store_hash(void) {
    static const tpi_store_kind kind = {hash_ask, hash_free};
    hash_store *h = (hash_store *)tpi_store_new(sizeof *h, &kind, 300);
    if (!h) return NULL;
    pthread_mutex_init(&h->lock, NULL);
    tpi_condition_init(&h->changed);
    return &h->store;
}

/* ---- Another store's keys under a prefix ---- */
typedef struct prefix_store {
    tp_store store;
    tp_store *inner;
    size_t n;
    char prefix[]; /* with the slash */
} prefix_store;

static enum tpi_store_answer prefix_ask(tp_store *s, enum tpi_store_op op, const char *key, size_t key_bytes,
                                        const char *in, size_t n, double wait, tpi_bytes *out) {
    prefix_store *p = (prefix_store *)s;
    char *full = tpi_malloc(p->n + key_bytes + 1);
    if (!full) return TPI_STORE_FAILED;
    memcpy(full, p->prefix, p->n);
    memcpy(full + p->n, key, key_bytes);
    enum tpi_store_answer a = p->inner->kind->ask(p->inner, op, full, p->n + key_bytes, in, n, wait, out);
    tpi_mfree(full);
    return a;
}

static void prefix_free(tp_store *s) { tp_store_release(((prefix_store *)s)->inner); }

tp_store *tp_store_prefix(const char *prefix, tp_store *inner) {
    static const tpi_store_kind kind = {prefix_ask, prefix_free};
    if (!given(inner, prefix)) return NULL;
    size_t n = strlen(prefix) + 1;
    prefix_store *p = (prefix_store *)tpi_store_new(sizeof *p + n + 1, &kind, inner->timeout);
    if (!p) return NULL;
    p->inner = tp_store_retain(inner);
    p->n = n;
    snprintf(p->prefix, n + 1, "%s/", prefix);
    memcpy(p->store.listen, inner->listen, sizeof inner->listen);
    p->store.port = inner->port;
    p->store.host = inner->host;
    p->store.path = inner->path;
    return &p->store;
}
