/* A pickle with its modules named otherwise. It is read as a row of opcodes with their arguments, nothing more: modules
 * stand in GLOBAL opcodes, or (protocol 4) in texts that a STACK_GLOBAL takes from the stack or by way of the memo.
 * Frames, whose lengths would change, are left out; they are optional. */
#include "base/error.h"
#include "tensor/check_arguments.h"
#include "base/memory.h"
#include "io/events/wire.h"
#include <string.h>
#include <taper/io.h>

/* How deep the values on an unpickler's stack are nested. */
enum { MARK = UINT16_MAX };
typedef struct depths {
    uint16_t *v;
    size_t n, capacity;
} depths;

typedef struct token {
    unsigned char op;
    size_t at, end; /* of the opcode and of what follows it */
    size_t text, n; /* where the text of a text opcode is */
} token;

typedef struct rewriter {
    const unsigned char *data;
    size_t bytes;
    const char *(*rename)(void *context, const char *module);
    void *context;
    size_t *memo; /* index -> place of the text that was put there + 1; 0: something else */
    size_t nmemo, memo_capacity;
    size_t *positions; /* of text opcodes that are modules, in order of use */
    size_t npositions, positions_capacity;
    tpi_wire out;
} rewriter;

static bool reserve(void *list, size_t *capacity, size_t need, size_t item) {
    if (need <= *capacity) return true;
    size_t larger = need + need / 2 + 64;
    void **block = list, *p = tpi_realloc(*block, larger * item);
    if (!p) return false;
    memset((char *)p + *capacity * item, 0, (larger - *capacity) * item);
    *block = p;
    *capacity = larger;
    return true;
}

/* How long the argument of an opcode is: a number of bytes; or a length of that many bytes in front of a text; or
 * lines. */
static void shape_of(unsigned char op, int *fixed, int *length, int *lines) {
    *fixed = *length = *lines = 0;
    if (strchr("Kqh\x80\x82", op) && op)
        *fixed = 1;
    else if (op == 'M' || op == 0x83)
        *fixed = 2;
    else if (op == 'J' || op == 'r' || op == 'j' || op == 0x84)
        *fixed = 4;
    else if (op == 'G' || op == 0x95)
        *fixed = 8;
    else if (op == 'U' || op == 'C' || op == 0x8c || op == 0x8a)
        *length = 1;
    else if (op == 'X' || op == 'T' || op == 'B' || op == 0x8b)
        *length = 4;
    else if (op == 0x8d || op == 0x8e || op == 0x96)
        *length = 8;
    else if (op == 'c' || op == 'i')
        *lines = 2;
    else if (op && strchr("FILSVPgp", op))
        *lines = 1;
}

static bool next_token(const rewriter *r, size_t at, token *t) {
    int fixed, length, lines;
    *t = (token){.op = r->data[at], .at = at};
    shape_of(t->op, &fixed, &length, &lines);
    size_t end = at + 1;
    uint64_t n = 0;
    if ((size_t)(fixed + length) > r->bytes - end) return false;
    for (int i = length; i-- > 0;) n = n << 8 | r->data[end + (size_t)i];
    end += (size_t)(fixed + length);
    if (n > r->bytes - end) return false;
    t->text = end;
    t->n = (size_t)n;
    end += (size_t)n;
    for (; lines; lines--) {
        const unsigned char *line = memchr(r->data + end, '\n', r->bytes - end);
        if (!line) return false;
        end = (size_t)(line - r->data) + 1;
    }
    t->end = end;
    return true;
}

static size_t index_of(const rewriter *r, const token *t) {
    return t->op == 'q' || t->op == 'h' ? r->data[t->at + 1]
                                        : r->data[t->at + 1] | (size_t)r->data[t->at + 2] << 8 |
                                              (size_t)r->data[t->at + 3] << 16 | (size_t)r->data[t->at + 4] << 24;
}

/* The first pass: finds the texts that STACK_GLOBAL takes for modules. before[1] and before[0]: the places + 1 of the
 * last two values if they are texts. */
static bool find_modules(rewriter *r) {
    size_t before[2] = {0, 0};
    token t;
    for (size_t at = 0; at < r->bytes; at = t.end) {
        if (!next_token(r, at, &t)) return false;
        bool is_put = t.op == 0x94 || t.op == 'q' || t.op == 'r';
        if (is_put) {
            size_t index = t.op == 0x94 ? r->nmemo : index_of(r, &t);
            if (index > r->bytes || !reserve(&r->memo, &r->memo_capacity, index + 1, sizeof *r->memo)) return false;
            r->memo[index] = before[1];
            if (index >= r->nmemo) r->nmemo = index + 1;
            continue;
        }
        if (t.op == 0x93 && before[0]) {
            if (!reserve(&r->positions, &r->positions_capacity, r->npositions + 1, sizeof *r->positions)) return false;
            r->positions[r->npositions++] = before[0] - 1;
        }
        before[0] = before[1];
        if (t.op == 'h' || t.op == 'j') {
            size_t index = index_of(r, &t);
            before[1] = index < r->nmemo ? r->memo[index] : 0;
        } else {
            before[1] = t.op == 0x8c || t.op == 'X' || t.op == 0x8d ? at + 1 : 0;
        }
    }
    return true;
}

/* ---- How deep it is ---- */
static bool push_depth(depths *d, int depth) {
    if (depth != MARK && depth > TP_DEEPEST_PICKLE)
        return tpi_refuse(TP_ERR_RUNTIME, "values are nested more than %d deep: they could not be loaded",
                          TP_DEEPEST_PICKLE);
    if (!reserve(&d->v, &d->capacity, d->n + 1, sizeof *d->v)) return false;
    d->v[d->n++] = (uint16_t)depth;
    return true;
}

/* The deepest of the last n values, which go; of all down to the mark, which goes too, for n < 0. */
static int pop_depths(depths *d, int n) {
    int deepest = 0;
    while (d->n && n--) {
        int depth = d->v[--d->n];
        if (depth == MARK) break;
        if (depth > deepest) deepest = depth;
    }
    return deepest;
}

/* The last n values, or those down to the mark, go into the value before them. */
static bool put_into(depths *d, int n) {
    int inside = 1 + pop_depths(d, n), own = pop_depths(d, 1);
    return push_depth(d, own > inside ? own : inside);
}

/* What the memo gives counts nothing: who reads it has made it before. */
static bool step_depth(depths *d, unsigned char op) {
    switch (op) {
    case 0x80:
    case 0x95:
    case 0x94:
    case 0x98:
    case 'q':
    case 'r':
    case 'p':
    case '.': return true;
    case '(': return push_depth(d, MARK);
    case '0': pop_depths(d, 1); return true;
    case '1': pop_depths(d, -1); return true;
    case 't':
    case 'l':
    case 'd':
    case 'o':
    case 'i':
    case 0x91: return push_depth(d, 1 + pop_depths(d, -1));
    case 0x85:
    case 0x86:
    case 0x87: return push_depth(d, 1 + pop_depths(d, op - 0x84));
    case 'e':
    case 'u':
    case 0x90: return put_into(d, -1);
    case 'a':
    case 'R':
    case 'b':
    case 0x81: return put_into(d, 1);
    case 's':
    case 0x92: return put_into(d, 2);
    case 0x93: pop_depths(d, 2); return push_depth(d, 1);
    case 'Q': pop_depths(d, 1); return push_depth(d, 1);
    case 'N':
    case 'K':
    case 'M':
    case 'J':
    case 'I':
    case 'F':
    case 'G':
    case 0x88:
    case 0x89: /* numbers */
    case 'h':
    case 'j':
    case 'g': return push_depth(d, 0);
    default: return push_depth(d, 1);
    }
}

static bool check_depth(const rewriter *r) {
    depths d = {0};
    token t;
    bool ok = true;
    for (size_t at = 0; ok && at < r->bytes; at = t.end) ok = next_token(r, at, &t) && step_depth(&d, t.op);
    tpi_mfree(d.v);
    return ok;
}

static bool put_bytes(rewriter *r, const void *data, size_t n) {
    tpi_wire_raw(&r->out, data, n);
    return !r->out.failed;
}

/* The new name of the module whose name stands in n bytes; *ok false on failure. NULL: it keeps its name. */
static const char *new_name(const rewriter *r, const unsigned char *text, size_t n, bool *ok) {
    char *module = tpi_malloc(n + 1);
    *ok = module != NULL;
    if (!module) return NULL;
    memcpy(module, text, n);
    module[n] = 0;
    const char *name = r->rename(r->context, module);
    tpi_mfree(module);
    return name;
}

static bool is_module(const rewriter *r, size_t at) {
    for (size_t i = 0; i < r->npositions; i++)
        if (r->positions[i] == at) return true;
    return false;
}

static bool write_token(rewriter *r, const token *t) {
    bool line = t->op == 'c', ok = true;
    if (t->op == 0x95) return true;
    const unsigned char *text = line ? r->data + t->at + 1 : r->data + t->text;
    size_t n = line ? (size_t)((const unsigned char *)memchr(text, '\n', t->end - t->at - 1) - text) : t->n;
    const char *name = line || ((t->op == 0x8c || t->op == 'X' || t->op == 0x8d) && is_module(r, t->at))
                           ? new_name(r, text, n, &ok)
                           : NULL;
    if (!ok) return false;
    if (!name) return put_bytes(r, r->data + t->at, t->end - t->at);
    size_t length = strlen(name);
    unsigned char head[5] = {line ? 'c' : 'X', (unsigned char)length, (unsigned char)(length >> 8),
                             (unsigned char)(length >> 16), (unsigned char)(length >> 24)};
    return put_bytes(r, head, line ? 1 : 5) && put_bytes(r, name, length) &&
           put_bytes(r, text + n, t->end - (size_t)(text - r->data) - n);
}

static bool rewrite(rewriter *r) {
    token t;
    if (!check_depth(r) || !find_modules(r)) return false;
    for (size_t at = 0; at < r->bytes; at = t.end)
        if (!next_token(r, at, &t) || !write_token(r, &t)) return false;
    return true;
}

void *tp_pickle_rename(const void *pickle, int64_t bytes, const char *(*rename)(void *context, const char *module),
                       void *context, int64_t *result_bytes) {
    if (!TPI_LIST_GIVEN(pickle, bytes) || !TPI_GIVEN(rename, "a function") ||
        !TPI_GIVEN(result_bytes, "a place for the length"))
        return NULL;
    rewriter r = {.data = pickle, .bytes = (size_t)bytes, .rename = rename, .context = context};
    bool ok = bytes > 0 && rewrite(&r);
    tpi_mfree(r.memo);
    tpi_mfree(r.positions);
    if (ok) {
        *result_bytes = (int64_t)r.out.n;
        return r.out.data;
    }
    tpi_wire_free(&r.out);
    return tp_ok() ? tpi_fail(TP_ERR_VALUE, "argument 'pickle': expected a pickle, got %lld bytes that are none",
                              (long long)bytes)
                   : NULL;
}
