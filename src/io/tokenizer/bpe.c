/* See bpe.h. A word's tokens form a linked list over an array; pairs that may be merged wait in a heap, by rank and
 * place. A pair whose tokens have changed since is passed by. So a word of n bytes takes n log n steps. */
#include "io/tokenizer/bpe.h"
#include "base/error.h"
#include "base/memory.h"

struct entry {
    const char *text; /* NULL: open */
    uint32_t bytes;
    int32_t id;
};
struct merge {
    int32_t left, right, id, rank; /* id -1: open */
};

/* ---- Hash tables with open places, at most half full ---- */

static uint64_t mixed(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}
static uint64_t hash_of(const char *text, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return mixed(h);
}
static struct entry *word_slot(struct entry *words, size_t capacity, const char *text, size_t n) {
    size_t at = hash_of(text, n) & (capacity - 1);
    while (words[at].text && (words[at].bytes != n || memcmp(words[at].text, text, n) != 0))
        at = (at + 1) & (capacity - 1);
    return &words[at];
}
static struct merge *merge_slot(struct merge *merges, size_t capacity, int32_t left, int32_t right) {
    size_t at = mixed((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & (capacity - 1);
    while (merges[at].id >= 0 && (merges[at].left != left || merges[at].right != right)) at = (at + 1) & (capacity - 1);
    return &merges[at];
}

static bool words_grow(tpi_bpe *b) {
    size_t capacity = b->words_capacity ? 2 * b->words_capacity : 1024;
    struct entry *words = tpi_malloc(capacity * sizeof *words);
    if (!words) return false;
    memset(words, 0, capacity * sizeof *words);
    for (size_t i = 0; i < b->words_capacity; i++)
        if (b->words[i].text) *word_slot(words, capacity, b->words[i].text, b->words[i].bytes) = b->words[i];
    tpi_mfree(b->words);
    b->words = words;
    b->words_capacity = capacity;
    return true;
}
static bool merges_grow(tpi_bpe *b) {
    size_t capacity = b->merges_capacity ? 2 * b->merges_capacity : 1024;
    struct merge *merges = tpi_malloc(capacity * sizeof *merges);
    if (!merges) return false;
    for (size_t i = 0; i < capacity; i++) merges[i].id = -1;
    for (size_t i = 0; i < b->merges_capacity; i++) {
        const struct merge *m = &b->merges[i];
        if (m->id >= 0) *merge_slot(merges, capacity, m->left, m->right) = *m;
    }
    tpi_mfree(b->merges);
    b->merges = merges;
    b->merges_capacity = capacity;
    return true;
}

static bool tokens_grow(tpi_bpe *b, int32_t id) {
    if (id < b->tokens_capacity) return true;
    int32_t capacity = 2 * id > 1024 ? 2 * id : 1024;
    const char **tokens = tpi_realloc(b->tokens, (size_t)capacity * sizeof *tokens);
    if (!tokens) return false;
    memset(tokens + b->tokens_capacity, 0, (size_t)(capacity - b->tokens_capacity) * sizeof *tokens);
    b->tokens = tokens;
    b->tokens_capacity = capacity;
    return true;
}

void tpi_bpe_free(tpi_bpe *b) {
    tpi_mfree(b->words);
    tpi_mfree(b->merges);
    tpi_mfree(b->tokens);
}

int32_t tpi_bpe_find(const tpi_bpe *b, const char *token, size_t bytes) {
    if (!b->words_capacity) return -1;
    const struct entry *at = word_slot(b->words, b->words_capacity, token, bytes);
    return at->text ? at->id : -1;
}

bool tpi_bpe_add(tpi_bpe *b, const char *token, int64_t id) {
    if (id < 0 || id >= TPI_MOST_TOKENS)
        return tpi_refuse(TP_ERR_IO, "the vocabulary gives the token '%.40s' the id %lld, not one of 0 to %d", token,
                          (long long)id, TPI_MOST_TOKENS - 1);
    if ((2 * (b->nwords + 1) > b->words_capacity && !words_grow(b)) || !tokens_grow(b, (int32_t)id)) return false;
    size_t n = strlen(token);
    struct entry *at = word_slot(b->words, b->words_capacity, token, n);
    b->nwords += !at->text;
    *at = (struct entry){token, (uint32_t)n, (int32_t)id};
    b->tokens[id] = token;
    if (id >= b->ntokens) b->ntokens = (int32_t)id + 1;
    return true;
}

bool tpi_bpe_add_merge(tpi_bpe *b, const char *left, size_t left_bytes, const char *right, size_t right_bytes,
                       const char *path) {
    if (2 * (b->nmerges + 1) > b->merges_capacity && !merges_grow(b)) return false;
    char *both = tpi_malloc(left_bytes + right_bytes + 1);
    if (!both) return false;
    memcpy(both, left, left_bytes);
    memcpy(both + left_bytes, right, right_bytes);
    struct merge made = {.left = tpi_bpe_find(b, left, left_bytes),
                         .right = tpi_bpe_find(b, right, right_bytes),
                         .id = tpi_bpe_find(b, both, left_bytes + right_bytes),
                         .rank = (int32_t)b->nmerges};
    tpi_mfree(both);
    if (made.left < 0 || made.right < 0 || made.id < 0)
        return tpi_refuse(TP_ERR_IO, "'%s': its merge %zu, of '%.*s' and '%.*s', has a token that the vocabulary lacks",
                          path, b->nmerges + 1, (int)(left_bytes < 40 ? left_bytes : 40), left,
                          (int)(right_bytes < 40 ? right_bytes : 40), right);
    *merge_slot(b->merges, b->merges_capacity, made.left, made.right) = made;
    b->nmerges++; /* also of one that comes twice: ranks count lines */
    return true;
}

/* ---- Bytes as characters ---- */

static bool prints(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}
/* The character of a byte: itself if it prints, else the next one from U+0100 on. */
static uint32_t character_of(int byte) {
    if (prints(byte)) return (uint32_t)byte;
    uint32_t next = 256;
    for (int i = 0; i < byte; i++) next += !prints(i);
    return next;
}

/* The byte of a character; -1: none. */
static int byte_of(uint32_t c) {
    if (c < 256) return prints((int)c) ? (int)c : -1;
    uint32_t next = 256;
    for (int byte = 0; byte < 256; byte++) {
        if (prints(byte)) continue;
        if (next++ == c) return byte;
    }
    return -1;
}

size_t tpi_bytes_to_printable(const char *bytes, size_t n, char *out) {
    char *at = out;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = character_of((unsigned char)bytes[i]);
        if (c >= 0x80) *at++ = (char)(0xc0 | c >> 6);
        *at++ = (char)(c < 0x80 ? c : 0x80 | (c & 0x3f));
    }
    return (size_t)(at - out);
}

int64_t tpi_printable_to_bytes(const char *text, size_t n, char *out) {
    int64_t made = 0;
    for (size_t i = 0; i < n; made++) {
        uint32_t c = (unsigned char)text[i++];
        if (c >= 0x80) {
            if (c < 0xc2 || c >= 0xe0 || i == n) return -1;
            c = (c & 0x1f) << 6 | ((unsigned char)text[i++] & 0x3f);
        }
        int byte = byte_of(c);
        if (byte < 0) return -1;
        out[made] = (char)byte;
    }
    return made;
}

void tpi_bpe_settle(tpi_bpe *b) {
    for (int byte = 0; byte < 256; byte++) {
        char text[2];
        size_t n = tpi_bytes_to_printable(&(char){(char)byte}, 1, text);
        b->bytes[byte] = tpi_bpe_find(b, text, n);
    }
}

/* ---- A word ---- */

bool tpi_ids_add(tpi_ids *ids, int64_t id) {
    if (ids->n == ids->capacity) {
        int64_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        int64_t *v = tpi_realloc(ids->v, (size_t)capacity * sizeof *v);
        if (!v) return false;
        ids->v = v;
        ids->capacity = capacity;
    }
    ids->v[ids->n++] = id;
    return true;
}

typedef struct part {
    int32_t id; /* -1: it is part of the one before */
    int64_t before, next;
} part;
typedef struct pair {
    int32_t rank, left, right, id;
    int64_t at; /* of the left one */
} pair;
typedef struct heap { /* every merge takes one pair out and puts at most two in: 2n places are enough */
    pair *v;
    int64_t n;
} heap;

static bool earlier(const pair *a, const pair *b) { return a->rank != b->rank ? a->rank < b->rank : a->at < b->at; }

static void heap_put(heap *h, pair p) {
    int64_t at = h->n++;
    for (; at > 0 && earlier(&p, &h->v[(at - 1) / 2]); at = (at - 1) / 2) h->v[at] = h->v[(at - 1) / 2];
    h->v[at] = p;
}

static pair heap_pop(heap *h) {
    h->n--;
    pair first = h->v[0], last = h->v[h->n];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= h->n) break;
        if (child + 1 < h->n && earlier(&h->v[child + 1], &h->v[child])) child++;
        if (!earlier(&h->v[child], &last)) break;
        h->v[at] = h->v[child];
        at = child;
    }
    h->v[at] = last;
    return first;
}

static void consider(const tpi_bpe *b, heap *h, const part *parts, int64_t left) {
    if (left < 0 || parts[left].next < 0 || !b->merges_capacity) return;
    int32_t x = parts[left].id, y = parts[parts[left].next].id;
    const struct merge *m = merge_slot(b->merges, b->merges_capacity, x, y);
    if (m->id >= 0) heap_put(h, (pair){.rank = m->rank, .left = x, .right = y, .id = m->id, .at = left});
}

static void merge_all(const tpi_bpe *b, heap *h, part *parts, int64_t n) {
    for (int64_t i = 0; i + 1 < n; i++) consider(b, h, parts, i);
    while (h->n) {
        pair p = heap_pop(h);
        part *left = &parts[p.at];
        if (left->id != p.left || left->next < 0 || parts[left->next].id != p.right) continue;
        part *right = &parts[left->next];
        left->id = p.id;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0) parts[left->next].before = p.at;
        consider(b, h, parts, left->before);
        consider(b, h, parts, p.at);
    }
}

/* The parts that a word begins with: one for each byte that has a token. */
static int64_t first_parts(const tpi_bpe *b, const char *word, int64_t bytes, part *parts) {
    int64_t n = 0;
    for (int64_t i = 0; i < bytes; i++) {
        int32_t id = b->bytes[(unsigned char)word[i]];
        if (id < 0) id = b->unknown;
        if (id < 0) continue;
        parts[n] = (part){.id = id, .before = n - 1, .next = n + 1};
        n++;
    }
    if (n) parts[n - 1].next = -1;
    return n;
}

static int32_t whole_word(const tpi_bpe *b, const char *word, int64_t bytes) {
    char text[512];
    if (!b->whole_words || bytes > (int64_t)sizeof text / 2) return -1;
    return tpi_bpe_find(b, text, tpi_bytes_to_printable(word, (size_t)bytes, text));
}

bool tpi_bpe_encode(const tpi_bpe *b, const char *word, int64_t bytes, tpi_ids *ids) {
    int32_t whole = whole_word(b, word, bytes);
    if (whole >= 0) return tpi_ids_add(ids, whole);
    if (bytes <= 0) return true;
    enum { SHORT = 64 };
    part few_parts[SHORT], *parts = few_parts;
    pair few_pairs[2 * SHORT];
    heap h = {.v = few_pairs};
    bool is_long = bytes > SHORT;
    if (is_long) {
        parts = tpi_malloc((size_t)bytes * sizeof *parts);
        h.v = tpi_malloc(2 * (size_t)bytes * sizeof *h.v);
    }
    bool ok = parts && h.v;
    if (ok) {
        int64_t n = first_parts(b, word, bytes, parts);
        merge_all(b, &h, parts, n);
        for (int64_t i = n ? 0 : -1; ok && i >= 0; i = parts[i].next) ok = tpi_ids_add(ids, parts[i].id);
    }
    if (is_long) {
        tpi_mfree(parts);
        tpi_mfree(h.v);
    }
    return ok;
}
