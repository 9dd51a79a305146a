/* A hash table of byte strings, and the requests of stores on it. Keys and values are bytes of any kind. */
#include "dist/store/table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"

typedef struct tpi_table_entry {
    struct tpi_table_entry *next;
    tpi_value *value;
    size_t key_bytes;
    char key[];
} entry;

static size_t hash(const char *key, size_t n) { /* FNV-1a */
    uint64_t h = 14695981039346656037ULL;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)key[i]) * 1099511628211ULL;
    return (size_t)h;
}

static entry **slot_of(tpi_table *t, const char *key, size_t n) { /* of the entry, or where it would stand */
    entry **at = &t->buckets[hash(key, n) % t->nbuckets];
    while (*at && ((*at)->key_bytes != n || memcmp((*at)->key, key, n) != 0)) at = &(*at)->next;
    return at;
}

static bool grow(tpi_table *t) {
    size_t n = t->nbuckets ? t->nbuckets * 4 : 64;
    entry **wider = tpi_malloc(sizeof *wider * n);
    if (!wider) return false;
    memset(wider, 0, sizeof *wider * n);
    for (size_t b = 0; b < t->nbuckets; b++)
        for (entry *e = t->buckets[b], *next; e; e = next) {
            next = e->next;
            size_t to = hash(e->key, e->key_bytes) % n;
            e->next = wider[to];
            wider[to] = e;
        }
    tpi_mfree(t->buckets);
    t->buckets = wider;
    t->nbuckets = n;
    return true;
}

void tpi_table_free(tpi_table *t) {
    for (size_t b = 0; b < t->nbuckets; b++)
        for (entry *e = t->buckets[b], *next; e; e = next) {
            next = e->next;
            tpi_table_drop(t, e->value);
            tpi_mfree(e);
        }
    tpi_mfree(t->buckets);
    *t = (tpi_table){0};
}

tpi_value *tpi_table_find(tpi_table *t, const char *key, size_t n) {
    entry *e = t->nbuckets ? *slot_of(t, key, n) : NULL;
    if (e) e->value->refs++;
    return e ? e->value : NULL;
}

void tpi_table_drop(tpi_table *t, tpi_value *v) {
    if (!v || --v->refs) return;
    t->bytes -= v->n;
    tpi_mfree(v);
}

/* The value becomes `a` followed by `b`. */
static enum tpi_store_answer put(tpi_table *t, const char *key, size_t key_bytes, const char *a, size_t na,
                                 const char *b, size_t nb) {
    if ((size_t)t->count >= t->nbuckets && !grow(t)) return TPI_STORE_FAILED;
    entry **at = slot_of(t, key, key_bytes), *e = *at;
    size_t fresh = na + nb + (e ? 0 : sizeof *e + key_bytes), old = e && e->value->refs == 1 ? e->value->n : 0;
    if ((t->most_value && na + nb > t->most_value) || (t->most && t->bytes - old + fresh > t->most))
        return TPI_STORE_FULL;
    tpi_value *value = tpi_malloc(sizeof *value + na + nb + 1);
    if (!value) return TPI_STORE_FAILED;
    *value = (tpi_value){.refs = 1, .n = na + nb};
    if (na) memcpy(value->data, a, na);
    if (nb) memcpy(value->data + na, b, nb);
    if (!e) {
        if (!(e = tpi_malloc(sizeof *e + key_bytes))) {
            tpi_mfree(value);
            return TPI_STORE_FAILED;
        }
        *e = (entry){.key_bytes = key_bytes};
        memcpy(e->key, key, key_bytes);
        *at = e;
        t->count++;
    }
    t->bytes += fresh;
    tpi_table_drop(t, e->value);
    e->value = value;
    return TPI_STORE_DONE;
}

static enum tpi_store_answer copy_out(tpi_bytes *out, const void *data, size_t n) {
    if (!out) return TPI_STORE_DONE;
    char *copy = tpi_malloc(n + 1);
    if (!copy) return TPI_STORE_FAILED;
    if (n) memcpy(copy, data, n);
    copy[n] = 0; /* so that a text can be read as one */
    *out = (tpi_bytes){copy, n};
    return TPI_STORE_DONE;
}

static enum tpi_store_answer add(tpi_table *t, const char *key, size_t key_bytes, const entry *e, const char *in,
                                 size_t n, tpi_bytes *out) {
    int64_t amount = 0, sum;
    char text[32] = "0";
    if (n == sizeof amount) memcpy(&amount, in, n);
    if (e) snprintf(text, sizeof text, "%.*s", (int)(e->value->n < 31 ? e->value->n : 31), e->value->data);
    sum = (int64_t)((uint64_t)strtoll(text, NULL, 10) + (uint64_t)amount);
    int length = snprintf(text, sizeof text, "%lld", (long long)sum);
    enum tpi_store_answer a = put(t, key, key_bytes, text, (size_t)length, NULL, 0);
    return a == TPI_STORE_DONE ? copy_out(out, &sum, sizeof sum) : a;
}

static enum tpi_store_answer swap(tpi_table *t, const char *key, size_t key_bytes, const entry *e, const char *in,
                                  size_t n, tpi_bytes *out) {
    uint32_t expected = 0;
    if (n >= sizeof expected) memcpy(&expected, in, sizeof expected);
    if (n < sizeof expected + (size_t)expected) return TPI_STORE_FAILED;
    const char *old = in + sizeof expected, *fresh = old + expected;
    size_t fresh_bytes = n - sizeof expected - expected;
    bool same = e ? e->value->n == expected && memcmp(e->value->data, old, expected) == 0 : expected == 0;
    if (!same)
        return e ? copy_out(out, e->value->data, e->value->n)
                 : copy_out(out, old, expected); /* of no value, PyTorch says what was expected */
    enum tpi_store_answer a = put(t, key, key_bytes, fresh, fresh_bytes, NULL, 0);
    return a == TPI_STORE_DONE ? copy_out(out, fresh, fresh_bytes) : a;
}

bool tpi_store_changes(enum tpi_store_op op) {
    return op != TPI_STORE_GET && op != TPI_STORE_CHECK && op != TPI_STORE_COUNT && op != TPI_STORE_KEYS &&
           op != TPI_STORE_LENGTH;
}

static bool begins_with(const entry *e, const char *prefix, size_t n) {
    return e->key_bytes >= n && memcmp(e->key, prefix, n) == 0;
}

static enum tpi_store_answer keys(tpi_table *t, const char *prefix, size_t n, tpi_bytes *out) {
    size_t bytes = 0;
    for (size_t b = 0; b < t->nbuckets; b++)
        for (entry *e = t->buckets[b]; e; e = e->next)
            if (begins_with(e, prefix, n)) bytes += sizeof(uint32_t) + e->key_bytes - n;
    char *text = tpi_malloc(bytes + 1), *at = text;
    if (!text) return TPI_STORE_FAILED;
    for (size_t b = 0; b < t->nbuckets; b++)
        for (entry *e = t->buckets[b]; e; e = e->next) {
            if (!begins_with(e, prefix, n)) continue;
            uint32_t rest = (uint32_t)(e->key_bytes - n);
            memcpy(at, &rest, sizeof rest);
            memcpy(at + sizeof rest, e->key + n, rest);
            at += sizeof rest + rest;
        }
    *out = (tpi_bytes){text, bytes};
    return TPI_STORE_DONE;
}

/* ---- Queues ---- */
/* The bytes of the item at `at`, with its length; 0: there is none, or the value is no queue. */
static size_t item_bytes(const tpi_value *v, size_t at) {
    uint64_t n;
    if (v->n - at < sizeof n) return 0;
    memcpy(&n, v->data + at, sizeof n);
    return n <= v->n - at - sizeof n ? sizeof n + (size_t)n : 0;
}

static enum tpi_store_answer push(tpi_table *t, const char *key, size_t key_bytes, const entry *e, const char *in,
                                  size_t n) {
    uint64_t length = n;
    char *item = tpi_malloc(sizeof length + n);
    if (!item) return TPI_STORE_FAILED;
    memcpy(item, &length, sizeof length);
    if (n) memcpy(item + sizeof length, in, n);
    enum tpi_store_answer a =
        put(t, key, key_bytes, e ? e->value->data : NULL, e ? e->value->n : 0, item, sizeof length + n);
    tpi_mfree(item);
    return a;
}

static void remove_entry(tpi_table *t, entry **at) {
    entry *e = *at;
    *at = e->next;
    t->bytes -= sizeof *e + e->key_bytes;
    tpi_table_drop(t, e->value);
    tpi_mfree(e);
    t->count--;
}

static enum tpi_store_answer pop(tpi_table *t, entry **at, tpi_bytes *out) {
    entry *e = *at;
    size_t n = item_bytes(e->value, 0);
    if (!n) return TPI_STORE_FAILED;
    enum tpi_store_answer a = copy_out(out, e->value->data + sizeof(uint64_t), n - sizeof(uint64_t));
    if (a != TPI_STORE_DONE) return a;
    if (n == e->value->n)
        remove_entry(t, at);
    else
        a = put(t, e->key, e->key_bytes, e->value->data + n, e->value->n - n, NULL, 0);
    if (a != TPI_STORE_DONE && out) tpi_mfree(out->data);
    return a;
}

static enum tpi_store_answer length_of(const entry *e, tpi_bytes *out) {
    int64_t count = 0;
    for (size_t at = 0, n; e && (n = item_bytes(e->value, at)); at += n) count++;
    return copy_out(out, &count, sizeof count);
}

enum tpi_store_answer tpi_table_ask(tpi_table *t, enum tpi_store_op op, const char *key, size_t key_bytes,
                                    const char *in, size_t n, tpi_bytes *out) {
    if (!t->nbuckets && !grow(t)) return TPI_STORE_FAILED;
    entry **at = slot_of(t, key, key_bytes), *e = *at;
    switch (op) {
    case TPI_STORE_SET: return put(t, key, key_bytes, in, n, NULL, 0);
    case TPI_STORE_APPEND: return put(t, key, key_bytes, e ? e->value->data : NULL, e ? e->value->n : 0, in, n);
    case TPI_STORE_GET: return e ? copy_out(out, e->value->data, e->value->n) : TPI_STORE_ABSENT;
    case TPI_STORE_CHECK: return e ? TPI_STORE_DONE : TPI_STORE_ABSENT;
    case TPI_STORE_ADD: return add(t, key, key_bytes, e, in, n, out);
    case TPI_STORE_CAS: return swap(t, key, key_bytes, e, in, n, out);
    case TPI_STORE_COUNT: return copy_out(out, &t->count, sizeof t->count);
    case TPI_STORE_KEYS: return keys(t, key, key_bytes, out);
    case TPI_STORE_PUSH: return push(t, key, key_bytes, e, in, n);
    case TPI_STORE_POP: return e ? pop(t, at, out) : TPI_STORE_ABSENT;
    case TPI_STORE_LENGTH: return length_of(e, out);
    case TPI_STORE_DELETE:
        if (!e) return TPI_STORE_ABSENT;
        remove_entry(t, at);
        return TPI_STORE_DONE;
    }
    return TPI_STORE_FAILED;
}
