/* Words of the language on texts, and texts of values. Texts are bytes; a character is what UTF-8 makes of them where
 * one is counted. */
#include "base/error.h"
#include "base/memory.h"
#include "io/events/wire.h"
#include "io/script/program.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <taper/device.h>

static bool are_texts(const tpi_script_call *c, int64_t least) {
    if (c->n < least || c->n < 1) return false;
    for (int64_t i = 0; i < least; i++)
        if (c->args[i].kind != TP_IVALUE_TEXT) return false;
    return true;
}
static const tpi_box *text(const tpi_script_call *c, int64_t i) { return c->args[i].as.box; }

/* ---- Values as texts ---- */

enum { DEEPEST_TEXT = 64 };

/* As TorchScript writes them: 2. for a whole one, otherwise 17 digits. */
static void float_text(double d, char out[40]) {
    if (isfinite(d) && fabs(d) < 1e10 && d == (double)(int64_t)d)
        snprintf(out, 40, "%s%lld.", signbit(d) && d == 0 ? "-" : "", (long long)d);
    else
        snprintf(out, 40, "%.17g", d);
}

static void put(tpi_wire *w, const char *words) { tpi_wire_raw(w, words, strlen(words)); }

static void write_number(tpi_wire *w, tp_scalar s) {
    char one[40], two[40];
    if (s.kind == TP_SCALAR_BOOL) {
        put(w, s.as.i ? "True" : "False");
        return;
    }
    if (s.kind == TP_SCALAR_COMPLEX) {
        float_text(s.as.d[0], one);
        float_text(s.as.d[1], two);
        put(w, "(");
        put(w, one);
        put(w, two[0] == '-' ? "" : "+");
        put(w, two);
        put(w, "j)");
        return;
    }
    if (s.kind == TP_SCALAR_FLOAT)
        float_text(s.as.d[0], one);
    else
        snprintf(one, sizeof one, "%lld", (long long)s.as.i);
    put(w, one);
}

static bool write_tensor(tpi_wire *w, const tp_tensor *t) {
    int64_t n = tp_format(t, NULL, 0);
    char *out = n >= 0 ? tpi_malloc((size_t)n + 1) : NULL;
    bool fine = out && tp_format(t, out, (size_t)n + 1) >= 0;
    if (fine) tpi_wire_raw(w, out, (size_t)n);
    tpi_mfree(out);
    return fine;
}

static bool write_value(tpi_wire *w, const tpi_item *v, int depth);

static bool write_items(tpi_wire *w, const tpi_item *v, const char *open, const char *close, int depth) {
    bool dict = v->kind == TP_IVALUE_DICT, fine = true;
    put(w, open);
    for (int64_t i = 0; fine && i < v->as.box->n * (dict ? 2 : 1); i++) {
        if (i) put(w, dict && i % 2 ? ": " : ", ");
        fine = write_value(w, &v->as.box->items[i], depth + 1);
    }
    if (v->kind == TP_IVALUE_TUPLE && v->as.box->n == 1) put(w, ",");
    put(w, close);
    return fine;
}

static bool write_value(tpi_wire *w, const tpi_item *v, int depth) {
    char name[64];
    if (depth > DEEPEST_TEXT) return tpi_refuse(TP_ERR_VALUE, "a value is nested too deep for a text");
    switch (v->kind) {
    case TP_IVALUE_NONE: put(w, "None"); return true;
    case TP_IVALUE_NUMBER: write_number(w, v->as.number); return true;
    case TP_IVALUE_TENSOR: return write_tensor(w, v->as.tensor);
    case TP_IVALUE_TEXT: tpi_wire_raw(w, v->as.box->text, (size_t)v->as.box->n); return true;
    case TP_IVALUE_DEVICE: put(w, tp_device_text(v->as.device, name, sizeof name)); return true;
    case TP_IVALUE_LIST: return write_items(w, v, "[", "]", depth);
    case TP_IVALUE_TUPLE: return write_items(w, v, "(", ")", depth);
    case TP_IVALUE_DICT: return write_items(w, v, "{", "}", depth);
    default: put(w, "<object>"); return true;
    }
}

static tpi_item text_of(tpi_wire *w, bool fine) {
    tpi_item v = fine && !w->failed ? tpi_item_text((const char *)w->data, w->n) : tpi_item_nothing();
    tpi_wire_free(w);
    return v;
}

static tpi_done w_str(tpi_script_call *c) {
    tpi_wire w = {0};
    if (c->n != 1) return TPI_OTHER;
    return tpi_script_return(c, text_of(&w, write_value(&w, &c->args[0], 0)));
}

/* ---- Formats ---- */

/* "{}" in turn. PyTorch's code knows no more of Python's formats. */
static tpi_done w_format(tpi_script_call *c) {
    if (!are_texts(c, 1)) return TPI_OTHER;
    tpi_wire w = {0};
    bool fine = true;
    int64_t next = 1;
    for (const char *p = text(c, 0)->text; fine && *p; p++) {
        if (p[0] != '{' || p[1] != '}') {
            tpi_wire_raw(&w, p, 1);
            continue;
        }
        fine = next < c->n || tpi_refuse(TP_ERR_VALUE, "format: too few values for '%s'", text(c, 0)->text);
        fine = fine && write_value(&w, &c->args[next++], 0);
        p++;
    }
    return tpi_script_return(c, text_of(&w, fine));
}

static bool percent(tpi_wire *w, const char **at, const tpi_item *v) {
    char form[24] = "%", out[400];
    size_t n = 1;
    const char *p = *at;
    while (*p && strchr("-+ #0123456789.", *p) && n < 12) form[n++] = *p++;
    *at = p;
    if (*p == 's') return write_value(w, v, 0);
    if (v->kind != TP_IVALUE_NUMBER)
        return tpi_refuse(TP_ERR_TYPE, "%%%c: expected a number, got %s", *p, tpi_item_kind_name(v));
    if (*p == 'd' || *p == 'i') {
        strcpy(form + n, "lld");
        snprintf(out, sizeof out, form, (long long)tp_scalar_to_int(v->as.number));
    } else if (*p && strchr("fFeEgG", *p)) {
        form[n] = *p;
        snprintf(out, sizeof out, form, tp_scalar_to_double(v->as.number));
    } else {
        return tpi_refuse(TP_ERR_VALUE, "an unknown format, '%%%c'", *p ? *p : ' ');
    }
    put(w, out);
    return true;
}

static tpi_done w_percent_format(tpi_script_call *c) {
    if (!are_texts(c, 1)) return TPI_OTHER;
    bool tuple = c->n == 2 && c->args[1].kind == TP_IVALUE_TUPLE;
    const tpi_item *v = tuple ? c->args[1].as.box->items : c->args + 1;
    int64_t n = tuple ? c->args[1].as.box->n : c->n - 1, next = 0;
    tpi_wire w = {0};
    bool fine = true;
    for (const char *p = text(c, 0)->text; fine && *p; p++) {
        if (*p == '%' && p[1] == '%')
            p++;
        else if (*p == '%') {
            p++;
            fine = next < n || tpi_refuse(TP_ERR_VALUE, "too few values for '%s'", text(c, 0)->text);
            fine = fine && percent(&w, &p, &v[next++]);
            continue;
        }
        tpi_wire_raw(&w, p, 1);
    }
    return tpi_script_return(c, text_of(&w, fine));
}

/* ---- Parts ---- */

static tpi_item part(const tpi_box *t, int64_t from, int64_t to) {
    return tpi_item_text(t->text + from, to > from ? (size_t)(to - from) : 0);
}

static tpi_done w_add(tpi_script_call *c) {
    if (c->n != 2 || !are_texts(c, 2)) return TPI_OTHER;
    tpi_wire w = {0};
    for (int i = 0; i < 2; i++) tpi_wire_raw(&w, text(c, i)->text, (size_t)text(c, i)->n);
    return tpi_script_return(c, text_of(&w, true));
}

static tpi_done w_mul(tpi_script_call *c) {
    if (c->n != 2 || !are_texts(c, 1) || !tpi_item_is_int(&c->args[1])) return TPI_OTHER;
    int64_t times = c->args[1].as.number.as.i;
    tpi_wire w = {0};
    if (times > 0 && text(c, 0)->n > ((int64_t)1 << 30) / times) {
        tpi_fail(TP_ERR_VALUE, "a text of more than 2**30 bytes");
        return TPI_FAILED_WORD;
    }
    for (int64_t i = 0; i < times; i++) tpi_wire_raw(&w, text(c, 0)->text, (size_t)text(c, 0)->n);
    return tpi_script_return(c, text_of(&w, true));
}

static tpi_done w_len(tpi_script_call *c) {
    return c->n == 1 && are_texts(c, 1) ? tpi_script_return(c, tpi_item_int(text(c, 0)->n)) : TPI_OTHER;
}

static tpi_done w_getitem(tpi_script_call *c) {
    if (c->n != 2 || !are_texts(c, 1) || !tpi_item_is_int(&c->args[1])) return TPI_OTHER;
    int64_t at = tpi_script_position(c->args[1].as.number.as.i, text(c, 0)->n);
    return at < 0 ? TPI_FAILED_WORD : tpi_script_return(c, part(text(c, 0), at, at + 1));
}

static int64_t bound(const tpi_item *v, int64_t otherwise, int64_t n) {
    int64_t i = v && tpi_item_is_int(v) ? v->as.number.as.i : otherwise;
    if (i < 0) i += n;
    return i < 0 ? 0 : i > n ? n : i;
}

static tpi_done w_slice(tpi_script_call *c) {
    if (!are_texts(c, 1)) return TPI_OTHER;
    int64_t n = text(c, 0)->n;
    const tpi_item *step = tpi_script_argument(c, 3, "step");
    int64_t by = step && tpi_item_is_int(step) ? step->as.number.as.i : 1;
    int64_t from = bound(tpi_script_argument(c, 1, "start"), 0, n), to = bound(tpi_script_argument(c, 2, "end"), n, n);
    if (by == 1) return tpi_script_return(c, part(text(c, 0), from, to));
    if (by < 1) {
        tpi_fail(TP_ERR_VALUE, "slice: expected a step above 0, got %lld", (long long)by);
        return TPI_FAILED_WORD;
    }
    tpi_wire w = {0};
    for (int64_t i = from; i < to; i += by) tpi_wire_raw(&w, text(c, 0)->text + i, 1);
    return tpi_script_return(c, text_of(&w, true));
}

static tpi_item one_more(tpi_item list, tpi_item v) {
    if (list.kind != TP_IVALUE_NOTHING && tpi_list_append(list.as.box, v)) return list;
    tpi_item_release(list);
    return tpi_item_nothing();
}

static bool is_space(char ch) { return isspace((unsigned char)ch); }

/* Without a separator, at white space. */
static tpi_done w_split(tpi_script_call *c) {
    if (!are_texts(c, 1) || (c->n > 1 && c->args[1].kind != TP_IVALUE_TEXT && c->args[1].kind != TP_IVALUE_NONE))
        return TPI_OTHER;
    const tpi_box *t = text(c, 0), *by = c->n > 1 && c->args[1].kind == TP_IVALUE_TEXT ? text(c, 1) : NULL;
    int64_t most = c->n > 2 && tpi_item_is_int(&c->args[2]) ? c->args[2].as.number.as.i : -1;
    tpi_item list = tpi_item_box(&c->run->program->heap, TP_IVALUE_LIST, 0);
    if (list.kind == TP_IVALUE_NOTHING) return TPI_FAILED_WORD;
    if (by && !by->n) {
        tpi_item_release(list);
        tpi_fail(TP_ERR_VALUE, "split: empty separator");
        return TPI_FAILED_WORD;
    }
    const char *p = t->text, *end = t->text + t->n;
    while (list.kind) {
        while (!by && p < end && is_space(*p)) p++;
        if (!by && p == end) break;
        const char *to = p;
        bool last = most >= 0 && list.as.box->n == most;
        while (to < end && (last || !(by ? end - to >= by->n && !memcmp(to, by->text, (size_t)by->n) : is_space(*to))))
            to++;
        list = one_more(list, tpi_item_text(p, (size_t)(to - p)));
        if (to == end) break;
        p = to + (by ? by->n : 1);
    }
    return tpi_script_return(c, list);
}

static tpi_done w_join(tpi_script_call *c) {
    if (c->n != 2 || !are_texts(c, 1) || c->args[1].kind != TP_IVALUE_LIST) return TPI_OTHER;
    const tpi_box *list = c->args[1].as.box;
    tpi_wire w = {0};
    bool fine = true;
    for (int64_t i = 0; fine && i < list->n; i++) {
        if (i) tpi_wire_raw(&w, text(c, 0)->text, (size_t)text(c, 0)->n);
        fine = list->items[i].kind == TP_IVALUE_TEXT || tpi_refuse(TP_ERR_TYPE, "join: expected texts");
        if (fine) tpi_wire_raw(&w, list->items[i].as.box->text, (size_t)list->items[i].as.box->n);
    }
    return tpi_script_return(c, text_of(&w, fine));
}

static tpi_done stripped(tpi_script_call *c, bool left, bool right) {
    if (!are_texts(c, 1)) return TPI_OTHER;
    const char *set = c->n > 1 && c->args[1].kind == TP_IVALUE_TEXT ? text(c, 1)->text : " \n\t\f\v\r";
    int64_t from = 0, to = text(c, 0)->n;
    const char *p = text(c, 0)->text;
    while (left && from < to && p[from] && strchr(set, p[from])) from++;
    while (right && to > from && p[to - 1] && strchr(set, p[to - 1])) to--;
    return tpi_script_return(c, part(text(c, 0), from, to));
}
static tpi_done w_strip(tpi_script_call *c) { return stripped(c, true, true); }
static tpi_done w_lstrip(tpi_script_call *c) { return stripped(c, true, false); }
static tpi_done w_rstrip(tpi_script_call *c) { return stripped(c, false, true); }

static tpi_done mapped(tpi_script_call *c, int (*f)(int)) {
    if (c->n != 1 || !are_texts(c, 1)) return TPI_OTHER;
    tpi_item v = part(text(c, 0), 0, text(c, 0)->n);
    for (int64_t i = 0; v.kind && i < v.as.box->n; i++) {
        unsigned char ch = (unsigned char)v.as.box->text[i];
        if (ch < 128) v.as.box->text[i] = (char)f(ch);
    }
    return tpi_script_return(c, v);
}
static tpi_done w_upper(tpi_script_call *c) { return mapped(c, toupper); }
static tpi_done w_lower(tpi_script_call *c) { return mapped(c, tolower); }

static tpi_done tested(tpi_script_call *c, int (*f)(int)) {
    if (c->n != 1 || !are_texts(c, 1)) return TPI_OTHER;
    bool all = text(c, 0)->n > 0;
    for (int64_t i = 0; all && i < text(c, 0)->n; i++) all = f((unsigned char)text(c, 0)->text[i]);
    return tpi_script_return(c, tpi_item_bool(all));
}
static tpi_done w_isdigit(tpi_script_call *c) { return tested(c, isdigit); }
static tpi_done w_isalpha(tpi_script_call *c) { return tested(c, isalpha); }
static tpi_done w_isalnum(tpi_script_call *c) { return tested(c, isalnum); }
static tpi_done w_isspace(tpi_script_call *c) { return tested(c, isspace); }
static tpi_done w_isupper(tpi_script_call *c) { return tested(c, isupper); }
static tpi_done w_islower(tpi_script_call *c) { return tested(c, islower); }

/* ---- Finding ---- */

static int64_t find_from(const tpi_box *t, const tpi_box *what, int64_t from) {
    for (int64_t i = from; i + what->n <= t->n; i++)
        if (memcmp(t->text + i, what->text, (size_t)what->n) == 0) return i;
    return -1;
}

static tpi_done w_find(tpi_script_call *c) {
    if (!are_texts(c, 2)) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_int(find_from(text(c, 0), text(c, 1),
                                                       bound(tpi_script_argument(c, 2, "start"), 0, text(c, 0)->n))));
}
static tpi_done w_contains(tpi_script_call *c) {
    if (c->n != 2 || !are_texts(c, 2)) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_bool(find_from(text(c, 0), text(c, 1), 0) >= 0));
}
static tpi_done w_count(tpi_script_call *c) {
    if (!are_texts(c, 2)) return TPI_OTHER;
    int64_t n = 0, step = text(c, 1)->n ? text(c, 1)->n : 1;
    for (int64_t i = find_from(text(c, 0), text(c, 1), 0); i >= 0; i = find_from(text(c, 0), text(c, 1), i + step)) n++;
    return tpi_script_return(c, tpi_item_int(n));
}
static tpi_done w_startswith(tpi_script_call *c) {
    if (c->n < 2 || !are_texts(c, 2)) return TPI_OTHER;
    const tpi_box *a = text(c, 0), *b = text(c, 1);
    return tpi_script_return(c, tpi_item_bool(a->n >= b->n && !memcmp(a->text, b->text, (size_t)b->n)));
}
static tpi_done w_endswith(tpi_script_call *c) {
    if (c->n < 2 || !are_texts(c, 2)) return TPI_OTHER;
    const tpi_box *a = text(c, 0), *b = text(c, 1);
    return tpi_script_return(c, tpi_item_bool(a->n >= b->n && !memcmp(a->text + a->n - b->n, b->text, (size_t)b->n)));
}
static tpi_done w_replace(tpi_script_call *c) {
    if (!are_texts(c, 3) || !text(c, 1)->n) return TPI_OTHER;
    const tpi_box *t = text(c, 0), *old = text(c, 1), *new = text(c, 2);
    int64_t most = c->n > 3 && tpi_item_is_int(&c->args[3]) ? c->args[3].as.number.as.i : -1, at = 0;
    tpi_wire w = {0};
    for (int64_t i = find_from(t, old, 0); i >= 0 && most != 0; i = find_from(t, old, at), most--) {
        tpi_wire_raw(&w, t->text + at, (size_t)(i - at));
        tpi_wire_raw(&w, new->text, (size_t) new->n);
        at = i + old->n;
    }
    tpi_wire_raw(&w, t->text + at, (size_t)(t->n - at));
    return tpi_script_return(c, text_of(&w, true));
}

static tpi_done w_ord(tpi_script_call *c) {
    if (c->n != 1 || !are_texts(c, 1) || text(c, 0)->n != 1) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_int((unsigned char)text(c, 0)->text[0]));
}
static tpi_done w_chr(tpi_script_call *c) {
    if (c->n != 1 || !tpi_item_is_int(&c->args[0])) return TPI_OTHER;
    int64_t i = c->args[0].as.number.as.i;
    char ch = (char)i;
    return i >= 0 && i < 128 ? tpi_script_return(c, tpi_item_text(&ch, 1)) : TPI_OTHER;
}

/* An integer's digits to the base 2^bits, as Python writes them: "-0x1f". */
static tpi_done digits(tpi_script_call *c, char letter, int bits) {
    if (c->n != 1 || !tpi_item_is_int(&c->args[0])) return TPI_OTHER;
    const int64_t i = c->args[0].as.number.as.i;
    uint64_t rest = i < 0 ? -(uint64_t)i : (uint64_t)i;
    char out[72], *at = out + sizeof out;
    do {
        *--at = "0123456789abcdef"[rest & ((1u << bits) - 1)];
        rest >>= bits;
    } while (rest);
    *--at = letter;
    *--at = '0';
    if (i < 0) *--at = '-';
    return tpi_script_return(c, tpi_item_text(at, (size_t)(out + sizeof out - at)));
}
static tpi_done w_hex(tpi_script_call *c) { return digits(c, 'x', 4); }
static tpi_done w_oct(tpi_script_call *c) { return digits(c, 'o', 3); }
static tpi_done w_bin(tpi_script_call *c) { return digits(c, 'b', 1); }

static const tpi_script_word words[] = {
    {"hex", w_hex},           {"oct", w_oct},
    {"bin", w_bin},           {"word.str", w_str},
    {"str", w_str},           {"prim.str", w_str},
    {"format", w_format},     {"percentFormat", w_percent_format},
    {"add", w_add},           {"mul", w_mul},
    {"len", w_len},           {"__getitem__", w_getitem},
    {"slice", w_slice},       {"split", w_split},
    {"join", w_join},         {"strip", w_strip},
    {"lstrip", w_lstrip},     {"rstrip", w_rstrip},
    {"upper", w_upper},       {"lower", w_lower},
    {"isdigit", w_isdigit},   {"isalpha", w_isalpha},
    {"isalnum", w_isalnum},   {"isspace", w_isspace},
    {"isupper", w_isupper},   {"islower", w_islower},
    {"find", w_find},         {"__contains__", w_contains},
    {"count", w_count},       {"startswith", w_startswith},
    {"endswith", w_endswith}, {"replace", w_replace},
    {"ord", w_ord},           {"chr", w_chr},
};

const tpi_script_word *tpi_script_text_word(const char *name) {
    return tpi_script_word_in(words, sizeof words / sizeof *words, name);
}
