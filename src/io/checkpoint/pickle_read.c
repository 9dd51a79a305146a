/* The pickle machine: a stack, marks on it and a memo, as Python's; see io/checkpoint/pickle.h for what it does not do.
 * Protocols 2 to 5, in the opcodes that picklers of values write; those of protocol 0 and 1 and the ones for extension
 * codes and out-of-band buffers are refused. */
#include "io/checkpoint/pickle.h"
#include "base/error.h"
#include "base/memory.h"

enum { ALLOWANCE = 1 << 24, PER_BYTE = 512 }; /* of memory */

typedef struct machine {
    const tpi_pickle *p;
    const unsigned char *data;
    size_t at, bytes;
    tp_saved **stack;
    size_t n, capacity;
    size_t *marks; /* where on the stack they lie */
    size_t nmarks, marks_capacity;
    tp_saved **memo;
    size_t nmemo, memo_capacity; /* nmemo: one beyond the largest index in use */
    bool cut;
} machine;

static void *refuse(machine *m, const char *what) {
    return tpi_fail(TP_ERR_VALUE, "'%s': its pickle is not readable at byte %zu: %s", m->p->path, m->at, what);
}

static bool refused(machine *m, const char *what) {
    refuse(m, what);
    return false;
}

/* The next n bytes, or NULL and an error at the end. */
static const unsigned char *read_bytes(machine *m, size_t n) {
    if (n > m->bytes - m->at) {
        m->cut = true;
        return refuse(m, "it ends too early");
    }
    const unsigned char *p = m->data + m->at;
    m->at += n;
    return p;
}

static bool read_number(machine *m, int bytes, uint64_t *out) { /* unsigned, lowest byte first */
    const unsigned char *p = read_bytes(m, (size_t)bytes);
    if (!p) return false;
    *out = 0;
    for (int i = bytes; i-- > 0;) *out = *out << 8 | p[i];
    return true;
}

static char *read_line(machine *m, size_t *length) { /* into the arena, without its end */
    const unsigned char *start = m->data + m->at, *end = memchr(start, '\n', m->bytes - m->at);
    if (!end) {
        m->cut = true;
        return refuse(m, "a line does not end");
    }
    *length = (size_t)(end - start);
    m->at += *length + 1;
    return tpi_arena_text(m->p->arena, start, *length);
}

/* ---- The stack ---- */

static bool grow(void *list, size_t *capacity, size_t need, size_t item) {
    if (need <= *capacity) return true;
    size_t larger = *capacity ? 2 * *capacity : 64;
    if (larger < need) larger = need;
    void **block = list, *p = tpi_realloc(*block, larger * item);
    if (!p) return false;
    *block = p;
    *capacity = larger;
    return true;
}

static bool push(machine *m, tp_saved *v) {
    if (!v || !grow(&m->stack, &m->capacity, m->n + 1, sizeof *m->stack)) return false;
    m->stack[m->n++] = v;
    return true;
}

static size_t floor_of(const machine *m) {
    return m->nmarks ? m->marks[m->nmarks - 1] : 0;
} /* values below belong to the marks */

static tp_saved *pop(machine *m) { return m->n > floor_of(m) ? m->stack[--m->n] : refuse(m, "the stack is empty"); }
static tp_saved *top(machine *m) { return m->n > floor_of(m) ? m->stack[m->n - 1] : refuse(m, "the stack is empty"); }

static bool push_mark(machine *m) {
    if (m->nmarks == TPI_PICKLE_MARKS) return refused(m, "it is nested too deeply");
    if (!grow(&m->marks, &m->marks_capacity, m->nmarks + 1, sizeof *m->marks)) return false;
    m->marks[m->nmarks++] = m->n;
    return true;
}

/* The values above the newest mark, which goes; they stay readable until the next push. */
static bool pop_mark(machine *m, tp_saved ***values, size_t *n) {
    if (!m->nmarks) return refused(m, "there is no mark on the stack");
    size_t at = m->marks[--m->nmarks];
    *values = m->stack ? m->stack + at : NULL; /* marks alone make no stack */
    *n = m->n - at;
    m->n = at;
    return true;
}

/* ---- The memo ---- */

static bool put(machine *m, uint64_t index) {
    if (index >= m->bytes) return refused(m, "a memo index is larger than the pickle");
    tp_saved *v = top(m);
    if (!v) return false;
    size_t before = m->memo_capacity;
    if (!grow(&m->memo, &m->memo_capacity, (size_t)index + 1, sizeof *m->memo)) return false;
    memset(m->memo + before, 0, (m->memo_capacity - before) * sizeof *m->memo);
    m->memo[index] = v;
    if (index >= m->nmemo) m->nmemo = (size_t)index + 1;
    return true;
}

static bool get(machine *m, uint64_t index) {
    if (index >= m->nmemo || !m->memo[index]) return refused(m, "a memo index stands for nothing");
    return push(m, m->memo[index]);
}

/* ---- Values ---- */

static bool push_int(machine *m, int64_t v) { return push(m, tpi_saved_number(m->p->arena, tp_int(v))); }

static bool push_text(machine *m, uint64_t bytes, tp_saved_kind kind, const char *class_name) {
    if (bytes > m->bytes) bytes = m->bytes + 1; /* so that a size that does not fit a size_t is refused like others */
    const unsigned char *p = read_bytes(m, (size_t)bytes);
    if (!p) return false;
    if (kind == TP_SAVED_TEXT && !tpi_is_utf8((const char *)p, (size_t)bytes)) return refused(m, "a text is not UTF-8");
    tp_saved *v = tpi_saved_text(m->p->arena, kind, p, (size_t)bytes);
    if (v) v->class_name = class_name;
    return push(m, v);
}

/* Python 2's strings are texts where they can be. */
static bool push_old_string(machine *m, uint64_t bytes) {
    bool text = bytes <= m->bytes - m->at && tpi_is_utf8((const char *)m->data + m->at, (size_t)bytes);
    return push_text(m, bytes, text ? TP_SAVED_TEXT : TP_SAVED_BYTES, NULL);
}

static bool push_sized_text(machine *m, int width, tp_saved_kind kind, const char *class_name) {
    uint64_t bytes;
    return read_number(m, width, &bytes) && push_text(m, bytes, kind, class_name);
}

static bool push_long(machine *m, int width) {
    uint64_t bytes, low = 0;
    if (!read_number(m, width, &bytes)) return false;
    if (bytes > 8) return push_text(m, bytes, TP_SAVED_LONG, NULL);
    const unsigned char *p = read_bytes(m, (size_t)bytes);
    if (!p) return false;
    for (size_t i = (size_t)bytes; i-- > 0;) low = low << 8 | p[i];
    if (bytes && bytes < 8 && p[bytes - 1] & 0x80) low |= ~(uint64_t)0 << 8 * bytes;
    return push_int(m, (int64_t)low);
}

static bool push_float(machine *m) {
    const unsigned char *p = read_bytes(m, 8);
    if (!p) return false;
    union {
        uint64_t u;
        double d;
    } v = {0};
    for (int i = 0; i < 8; i++) v.u = v.u << 8 | p[i];
    return push(m, tpi_saved_number(m->p->arena, tp_float(v.d)));
}

static bool push_tuple(machine *m, tp_saved *const *values, size_t n) {
    tp_saved *t = tpi_saved_new(m->p->arena, TP_SAVED_TUPLE);
    if (!t) return false;
    for (size_t i = 0; i < n; i++)
        if (!tpi_saved_append(m->p->arena, t, values[i])) return false;
    return push(m, t);
}

static bool push_small_tuple(machine *m, size_t n) {
    if (m->n - floor_of(m) < n) return refused(m, "the stack is empty");
    m->n -= n;
    tp_saved *values[3] = {0};
    memcpy(values, m->stack + m->n, n * sizeof *values);
    return push_tuple(m, values, n);
}

/* ---- Filling containers ----
 */

static tp_saved *part(machine *m, tp_saved **which, tp_saved_kind kind) {
    if (!*which) *which = tpi_saved_new(m->p->arena, kind);
    return *which;
}

static bool append_to(machine *m, tp_saved *v, tp_saved *const *values, size_t n, tp_saved_kind kind) {
    tp_saved *into = v;
    if (v->kind == TP_SAVED_OBJECT && kind == TP_SAVED_LIST)
        into = part(m, &v->parts->items, TP_SAVED_LIST);
    else if (v->kind != kind)
        return tpi_refuse(TP_ERR_VALUE, "'%s': its pickle appends to %s", m->p->path, tpi_kind_name(v));
    bool ok = into != NULL;
    for (size_t i = 0; ok && i < n; i++) ok = tpi_saved_append(m->p->arena, into, values[i]);
    return ok;
}

static bool check_key(machine *m, const tp_saved *key) {
    return tpi_is_hashable(key) ||
           tpi_refuse(TP_ERR_VALUE, "'%s': its pickle has %s for a key", m->p->path, tpi_kind_name(key));
}

static bool put_into(machine *m, tp_saved *v, tp_saved *const *pairs, size_t n, const char *opcode) {
    tp_saved *into = v;
    if (n % 2) return refused(m, "a key without a value");
    if (v->kind == TP_SAVED_OBJECT)
        into = part(m, &v->parts->pairs, TP_SAVED_DICT);
    else if (v->kind != TP_SAVED_DICT)
        return tpi_refuse(TP_ERR_VALUE,
                          "'%s': Can only %s for dict, collections.OrderedDict, collections.Counter but got %s",
                          m->p->path, opcode, tpi_kind_name(v));
    bool ok = into != NULL;
    for (size_t i = 0; ok && i < n; i += 2)
        ok = check_key(m, pairs[i]) && tpi_saved_put(m->p->arena, into, pairs[i], pairs[i + 1]);
    return ok;
}

static bool append_marked(machine *m, tp_saved_kind kind) {
    tp_saved **values;
    size_t n;
    if (!pop_mark(m, &values, &n)) return false;
    tp_saved *v = top(m);
    for (size_t i = 0; v && kind == TP_SAVED_SET && i < n; i++)
        if (!check_key(m, values[i])) return false;
    return v && append_to(m, v, values, n, kind);
}

static bool put_marked(machine *m) {
    tp_saved **values, *v;
    size_t n;
    return pop_mark(m, &values, &n) && (v = top(m)) && put_into(m, v, values, n, "SETITEMS");
}

/* ---- Names and calls ---- */

static bool push_global(machine *m) {
    size_t n = 0, k = 0;
    char *module = read_line(m, &n), *name = module ? read_line(m, &k) : NULL;
    if (!name) return false;
    if (strlen(module) != n || strlen(name) != k || !tpi_is_utf8(module, n) || !tpi_is_utf8(name, k))
        return refused(m, "a name is not a text");
    return push(m, tpi_global(m->p, module, name));
}

static bool push_stack_global(machine *m) {
    tp_saved *name = pop(m), *module = name ? pop(m) : NULL;
    if (!module) return false;
    bool texts = name->kind == TP_SAVED_TEXT && module->kind == TP_SAVED_TEXT &&
                 strlen(name->as.text) == (size_t)name->n && strlen(module->as.text) == (size_t)module->n;
    if (!texts) return refused(m, "a name is not a text");
    return push(m, tpi_global(m->p, module->as.text, name->as.text));
}

static bool call(machine *m, int kind) { /* 0: a function of arguments; 1: a class's __new__; 2: with names */
    tp_saved *kwargs = kind == 2 ? pop(m) : NULL;
    if (kind == 2 && !kwargs) return false;
    tp_saved *args = pop(m), *function = args ? pop(m) : NULL;
    if (!function) return false;
    if (args->kind != TP_SAVED_TUPLE || (kwargs && kwargs->kind != TP_SAVED_DICT))
        return refused(m, "a call's arguments are not a tuple");
    return push(m, kind ? tpi_global_new(m->p, function, args, kwargs) : tpi_global_call(m->p, function, args));
}

static bool build(machine *m) {
    tp_saved *state = pop(m), *v = state ? top(m) : NULL;
    return v && tpi_global_build(m->p, v, state);
}

static bool push_persistent(machine *m) {
    tp_saved *id = pop(m);
    if (!id) return false;
    if (!m->p->persistent) return refused(m, "a persistent id where there are none");
    return push(m, m->p->persistent(m->p->context, id));
}

/* ---- The opcodes ---- */

static bool check_protocol(machine *m) {
    uint64_t version;
    return read_number(m, 1, &version) && (version <= 5 || refused(m, "its protocol is newer than 5"));
}

static bool container_opcode(machine *m, unsigned char op) {
    tpi_arena *a = m->p->arena;
    tp_saved **values, *v, *key;
    size_t n;
    switch (op) {
    case '(': return push_mark(m);
    case '0': /* a mark counts as a value here, as in Python */
        if (m->n == floor_of(m) && m->nmarks) {
            m->nmarks--;
            return true;
        }
        return pop(m) != NULL;
    case '1': return pop_mark(m, &values, &n);
    case '2': return push(m, top(m));
    case ')': return push_tuple(m, NULL, 0);
    case 0x85:
    case 0x86:
    case 0x87: return push_small_tuple(m, op - 0x84u);
    case 't': return pop_mark(m, &values, &n) && push_tuple(m, values, n);
    case ']': return push(m, tpi_saved_new(a, TP_SAVED_LIST));
    case '}': return push(m, tpi_saved_new(a, TP_SAVED_DICT));
    case 0x8f: return push(m, tpi_saved_new(a, TP_SAVED_SET));
    case 'l':
        return pop_mark(m, &values, &n) && (v = tpi_saved_new(a, TP_SAVED_LIST)) &&
               append_to(m, v, values, n, TP_SAVED_LIST) && push(m, v);
    case 'd':
        return pop_mark(m, &values, &n) && (v = tpi_saved_new(a, TP_SAVED_DICT)) && put_into(m, v, values, n, "DICT") &&
               push(m, v);
    case 'a': return (v = pop(m)) && (key = top(m)) && append_to(m, key, &v, 1, TP_SAVED_LIST);
    case 'e': return append_marked(m, TP_SAVED_LIST);
    case 0x90: return append_marked(m, TP_SAVED_SET);
    case 's':
        if (m->n - floor_of(m) < 3) return refused(m, "the stack is empty");
        m->n -= 2;
        return put_into(m, m->stack[m->n - 1], m->stack + m->n, 2, "SETITEM");
    case 'u': return put_marked(m);
    default:
        return tpi_refuse(
            TP_ERR_VALUE,
            "'%s': its pickle has opcode 0x%02x at byte %zu, which is not one of those that values are written with",
            m->p->path, op, m->at - 1);
    }
}

static bool opcode(machine *m, unsigned char op) {
    tpi_arena *a = m->p->arena;
    uint64_t v;
    switch (op) {
    case 0x80: return check_protocol(m);
    case 0x95: return read_number(m, 8, &v); /* frames are a hint about reading ahead */
    case 'N': return push(m, tpi_saved_new(a, TP_SAVED_NONE));
    case 0x88:
    case 0x89: return push(m, tpi_saved_number(a, tp_truth(op == 0x88)));
    case 'J': return read_number(m, 4, &v) && push_int(m, (int32_t)(uint32_t)v);
    case 'K': return read_number(m, 1, &v) && push_int(m, (int64_t)v);
    case 'M': return read_number(m, 2, &v) && push_int(m, (int64_t)v);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 'G': return push_float(m);
    case 'X': return push_sized_text(m, 4, TP_SAVED_TEXT, NULL);
    case 0x8c: return push_sized_text(m, 1, TP_SAVED_TEXT, NULL);
    case 0x8d: return push_sized_text(m, 8, TP_SAVED_TEXT, NULL);
    case 'B': return push_sized_text(m, 4, TP_SAVED_BYTES, NULL);
    case 'C': return push_sized_text(m, 1, TP_SAVED_BYTES, NULL);
    case 0x8e: return push_sized_text(m, 8, TP_SAVED_BYTES, NULL);
    case 0x96: return push_sized_text(m, 8, TP_SAVED_BYTES, "builtins.bytearray");
    case 'U': return read_number(m, 1, &v) && push_old_string(m, v);
    case 'T': return read_number(m, 4, &v) && push_old_string(m, v);
    case 'q': return read_number(m, 1, &v) && put(m, v);
    case 'r': return read_number(m, 4, &v) && put(m, v);
    case 0x94: return put(m, m->nmemo);
    case 'h': return read_number(m, 1, &v) && get(m, v);
    case 'j': return read_number(m, 4, &v) && get(m, v);
    case 'c': return push_global(m);
    case 0x93: return push_stack_global(m);
    case 'R': return call(m, 0);
    case 0x81: return call(m, 1);
    case 0x92: return call(m, 2);
    case 'b': return build(m);
    case 'Q': return push_persistent(m);
    default: return container_opcode(m, op);
    }
}

static tp_saved *run(machine *m) {
    for (;;) {
        const unsigned char *op = read_bytes(m, 1);
        if (!op) return NULL;
        if (*op == '.') return m->nmarks ? refuse(m, "it stops inside of a list") : pop(m);
        if (!opcode(m, *op)) return NULL;
    }
}

tp_saved *tpi_pickle_read(const tpi_pickle *p, const unsigned char *data, size_t bytes, size_t *used, bool *cut) {
    machine m = {.p = p, .data = data, .bytes = bytes};
    p->arena->most =
        p->arena->taken + ALLOWANCE +
        PER_BYTE * bytes; /* calls copy: without a bound, few bytes would copy a long list again and again */
    tp_saved *v = run(&m);
    p->arena->most = 0;
    if (v && !tpi_pickle_check_keys(p, v, bytes)) v = NULL;
    tpi_mfree(m.stack);
    tpi_mfree(m.marks);
    tpi_mfree(m.memo);
    if (used) *used = m.at;
    if (cut) *cut = m.cut;
    return v;
}
