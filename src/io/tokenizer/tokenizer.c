/* Texts to ids and back. A text is cut at its added tokens first; the pieces between them go through the stages of
 * cuts, and each word through byte-pair encoding. */
#include "base/error.h"
#include "base/memory.h"
#include "io/tokenizer/tokenizer.h"
#include "tensor/tensor.h"
#include <taper/ops.h>

#define given(t) tpi_given(t, __func__, "tokenizer", "a tokenizer")

int64_t tp_tokenizer_size(const tp_tokenizer *t) { return given(t) ? t->bpe.ntokens : -1; }

int64_t tp_tokenizer_id(const tp_tokenizer *t, const char *token) {
    return given(t) && TPI_GIVEN(token, "a text") ? tpi_bpe_find(&t->bpe, token, strlen(token)) : -1;
}

const char *tp_tokenizer_token(const tp_tokenizer *t, int64_t id) {
    return given(t) && id >= 0 && id < t->bpe.ntokens ? t->bpe.tokens[id] : NULL;
}

static const tpi_added *added_of(const tp_tokenizer *t, int64_t id) {
    for (int64_t i = 0; i < t->nadded; i++)
        if (t->added[i].id == id) return &t->added[i];
    return NULL;
}

bool tp_tokenizer_is_special(const tp_tokenizer *t, int64_t id) {
    const tpi_added *found = given(t) ? added_of(t, id) : NULL;
    return found && found->special;
}

/* ---- Texts to ids ---- */

static bool encode_stage(const tp_tokenizer *t, int stage, const char *text, int64_t n, tpi_ids *ids);

/* The pieces of characters: matches of the pattern, and what lies between them. */
static bool encode_pieces(const tp_tokenizer *t, int stage, const char *text, const tpi_characters *c, tpi_ids *ids) {
    int64_t at = 0, from, to;
    bool failed = false;
    while (at < c->n && tpi_pattern_find(t->stages[stage].pattern, c, at, &from, &to, &failed)) {
        const int64_t a = c->begins[at], b = c->begins[from], e = c->begins[to];
        if (b > a && !encode_stage(t, stage + 1, text + a, b - a, ids)) return false;
        if (!encode_stage(t, stage + 1, text + b, e - b, ids)) return false;
        at = to;
    }
    if (failed) return false;
    const int64_t rest = c->begins[at];
    return at == c->n || encode_stage(t, stage + 1, text + rest, c->begins[c->n] - rest, ids);
}

static bool encode_cut(const tp_tokenizer *t, int stage, const char *text, int64_t n, tpi_ids *ids) {
    if (!t->stages[stage].pattern) return encode_stage(t, stage + 1, text, n, ids);
    tpi_characters c;
    bool ok = tpi_characters_of(&c, text, n) && encode_pieces(t, stage, text, &c, ids);
    tpi_characters_free(&c);
    return ok;
}

static bool encode_stage(const tp_tokenizer *t, int stage, const char *text, int64_t n, tpi_ids *ids) {
    if (stage == t->nstages) return tpi_bpe_encode(&t->bpe, text, n, ids);
    if (!t->stages[stage].prefix_space || *text == ' ') return encode_cut(t, stage, text, n, ids);
    char *longer = tpi_malloc((size_t)n + 1);
    if (!longer) return false;
    *longer = ' ';
    memcpy(longer + 1, text, (size_t)n);
    bool ok = encode_cut(t, stage, longer, n + 1, ids);
    tpi_mfree(longer);
    return ok;
}

/* The longest added token that stands at p. */
static const tpi_added *added_at(const tp_tokenizer *t, const char *p, int64_t left) {
    for (int64_t i = 0; i < t->nadded; i++) {
        const tpi_added *a = &t->added[i];
        if (*a->text == *p && (int64_t)a->bytes <= left && memcmp(a->text, p, a->bytes) == 0) return a;
    }
    return NULL;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool encode_all(const tp_tokenizer *t, const char *text, int64_t n, tpi_ids *ids) {
    int64_t from = 0, at = t->nadded ? 0 : n;
    while (at < n) {
        const tpi_added *a = added_at(t, text + at, n - at);
        if (!a) {
            at++;
            continue;
        }
        int64_t end = at, next = at + (int64_t)a->bytes;
        while (a->strips_left && end > from && is_space(text[end - 1])) end--;
        while (a->strips_right && next < n && is_space(text[next])) next++;
        if (end > from && !encode_stage(t, 0, text + from, end - from, ids)) return false;
        if (!tpi_ids_add(ids, a->id)) return false;
        from = next;
        at = next;
    }
    return from == n || encode_stage(t, 0, text + from, n - from, ids);
}

static const int64_t LONGEST = INT64_MAX / 16; /* the ids of a longer text could not be counted in bytes */

tp_tensor *tp_tokenizer_encode(const tp_tokenizer *t, const char *text, int64_t bytes, bool special) {
    if (!given(t) || !TPI_GIVEN(text, "a text")) return NULL;
    if (bytes < -1 || bytes > LONGEST)
        return tpi_fail(TP_ERR_VALUE, "tp_tokenizer_encode: argument 'bytes': expected -1 to %lld, got %lld",
                        (long long)LONGEST, (long long)bytes);
    tpi_ids ids = {0};
    bool ok = true;
    for (int i = 0; special && ok && i < t->nbefore; i++) ok = tpi_ids_add(&ids, t->before[i]);
    ok = ok && encode_all(t, text, bytes < 0 ? (int64_t)strlen(text) : bytes, &ids);
    for (int i = 0; special && ok && i < t->nbehind; i++) ok = tpi_ids_add(&ids, t->behind[i]);
    tp_tensor *made = ok ? tp_from_data(ids.v ? ids.v : &(int64_t){0}, TP_INT64, TP_INTS(ids.n)) : NULL;
    tpi_mfree(ids.v);
    return made;
}

/* ---- Ids to texts ---- */

typedef struct writer {
    char *v;
    size_t n, capacity;
} writer;

/* Room for n more bytes and a 0. */
static char *more(writer *w, size_t n) {
    if (w->n + n + 1 > w->capacity) {
        size_t capacity = 2 * w->capacity + n + 64;
        char *v = tpi_realloc(w->v, capacity);
        if (!v) return NULL;
        w->v = v;
        w->capacity = capacity;
    }
    return w->v + w->n;
}

static bool write_token(const tp_tokenizer *t, int64_t id, bool skip_special, writer *w) {
    const char *token = id >= 0 && id < t->bpe.ntokens ? t->bpe.tokens[id] : NULL;
    if (!token)
        return tpi_refuse(TP_ERR_INDEX, "tp_tokenizer_decode: argument 'ids': no token has the id %lld", (long long)id);
    const tpi_added *added = added_of(t, id);
    if (added && added->special && skip_special) return true;
    size_t n = strlen(token);
    char *to = more(w, n);
    if (!to) return false;
    int64_t made = added ? -1 : tpi_printable_to_bytes(token, n, to);
    if (made < 0) {
        memcpy(to, token, n);
        made = (int64_t)n;
    }
    w->n += (size_t)made;
    return true;
}

char *tp_tokenizer_decode(const tp_tokenizer *t, const tp_tensor *ids, bool skip_special, int64_t *bytes) {
    if (bytes) *bytes = 0;
    if (!given(t) || !tpi_is_tensor(ids, "ids")) return NULL;
    if (!tp_dtype_is_integral(tp_dtype_of(ids)) || tp_ndim(ids) > 1)
        return tpi_fail(TP_ERR_TYPE,
                        "tp_tokenizer_decode: argument 'ids': expected a row of integers, got %s of shape %s",
                        tp_dtype_name(tp_dtype_of(ids)), tpi_shape_text(tpi_shape(ids)));
    tp_tensor *here = NULL;
    TP_SCOPE
        here = tp_retain(
            tp_contiguous(tp_to((tp_tensor *)(uintptr_t)ids, .dtype = TP_INT64, .device = ((tp_device){TP_CPU, 0}))));
    writer w = {0};
    bool ok = here && more(&w, 0);
    const int64_t *v = ok ? (const int64_t *)here->data : NULL;
    for (int64_t i = 0; ok && i < here->numel; i++) ok = write_token(t, v[i], skip_special, &w);
    tp_release(here);
    if (!ok) {
        tpi_mfree(w.v);
        return NULL;
    }
    w.v[w.n] = 0;
    if (bytes) *bytes = (int64_t)w.n;
    return w.v;
}

void tp_text_free(char *text) { tpi_mfree(text); }
