/* See json.h. */
#define _GNU_SOURCE /* strtod_l */
#include "io/checkpoint/json.h"
#include "base/error.h"
#include <locale.h>
#include <stdlib.h>

enum { DEEPEST = 64 };

bool tpi_json_refuse(const tpi_json *s, const char *what) {
    return tpi_refuse(TP_ERR_IO, "'%s' is not a valid %s: %s", s->path, s->format, what);
}

unsigned char tpi_json_peek(tpi_json *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r')) s->p++;
    return s->p < s->end ? *s->p : 0;
}
bool tpi_json_accept(tpi_json *s, char c) {
    if (tpi_json_peek(s) != (unsigned char)c || s->p == s->end) return false;
    s->p++;
    return true;
}

static bool hex4(tpi_json *s, unsigned *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, s->p++) {
        int c = s->p < s->end ? *s->p : 0, v = c >= '0' && c <= '9'   ? c - '0'
                                               : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                                      : -1;
        if (v < 0) return tpi_json_refuse(s, "a \\u in a text is not followed by four digits");
        *out = *out << 4 | (unsigned)v;
    }
    return true;
}

static char *put_utf8(char *out, unsigned c) {
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c < 0x800)
        *out++ = (char)(0xc0 | c >> 6);
    else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *out++ = (char)(0x80 | (c & 0x3f));
    return out;
}

static bool escape(tpi_json *s, char **out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    unsigned char c = s->p < s->end ? *s->p++ : 0;
    const char *simple = c ? strchr(from, c) : NULL;
    unsigned code, low;
    if (simple) {
        *(*out)++ = to[simple - from];
        return true;
    }
    if (c != 'u') return tpi_json_refuse(s, "a text has an unknown escape");
    if (!hex4(s, &code)) return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u')
            return tpi_json_refuse(s, "half of a surrogate pair in a text");
        s->p += 2;
        if (!hex4(s, &low)) return false;
        if (low < 0xdc00 || low >= 0xe000) return tpi_json_refuse(s, "half of a surrogate pair in a text");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000)) return tpi_json_refuse(s, "a text holds what is no character");
    *out = put_utf8(*out, code);
    return true;
}

/* A text in the arena. Escapes only ever make it shorter. */
tp_saved *tpi_json_string(tpi_json *s) {
    if (!tpi_json_accept(s, '"')) {
        tpi_json_refuse(s, "expected a text");
        return NULL;
    }
    const unsigned char *end = s->p;
    while (end < s->end && *end != '"') end += *end == '\\' ? 2 : 1;
    if (end >= s->end) {
        tpi_json_refuse(s, "a text does not end");
        return NULL;
    }
    char *bytes = tpi_arena_new(s->arena, (size_t)(end - s->p) + 1), *out = bytes;
    if (!bytes) return NULL;
    while (s->p < end) {
        unsigned char c = *s->p++;
        if (c < 0x20) {
            tpi_json_refuse(s, "a text holds a control character");
            return NULL;
        }
        if (c != '\\')
            *out++ = (char)c;
        else if (!escape(s, &out))
            return NULL;
    }
    s->p++;
    if (!tpi_is_utf8(bytes, (size_t)(out - bytes))) {
        tpi_json_refuse(s, "a text is not UTF-8");
        return NULL;
    }
    tp_saved *v = tpi_saved_new(s->arena, TP_SAVED_TEXT);
    if (v) {
        v->n = out - bytes;
        v->as.text = bytes;
    }
    return v;
}

/* ---- Values ---- */

static tp_saved *word(tpi_json *s, const char *text, tp_saved *value) {
    size_t n = strlen(text);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, text, n) != 0) {
        tpi_json_refuse(s, "expected a value");
        return NULL;
    }
    s->p += n;
    return value;
}

/* strtod, with a point whatever the program's locale says. */
static double fraction(const char *digits, char **end) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double x = plain ? strtod_l(digits, end, plain) : strtod(digits, end);
    if (plain) freelocale(plain);
    return x;
}

static tp_saved *number(tpi_json *s) {
    const unsigned char *from = s->p;
    bool whole = true;
    while (s->p < s->end && *s->p && strchr("+-0123456789.eE", *s->p)) {
        whole = whole && *s->p != '.' && *s->p != 'e' && *s->p != 'E';
        s->p++;
    }
    char digits[64], *end;
    size_t n = (size_t)(s->p - from);
    if (!n || n >= sizeof digits) {
        tpi_json_refuse(s, n ? "a number is too long" : "expected a value");
        return NULL;
    }
    memcpy(digits, from, n);
    digits[n] = 0;
    int64_t i = 0;
    for (const char *d = digits + (*digits == '-'); whole && *d; d++)
        if (*d < '0' || *d > '9' || __builtin_mul_overflow(i, 10, &i) || __builtin_add_overflow(i, *d - '0', &i)) {
            tpi_json_refuse(s, "a number is too large");
            return NULL;
        }
    double x = whole ? 0 : fraction(digits, &end);
    if (*digits == '+' || strspn(digits, "+-.eE") == n || (!whole && *end)) {
        tpi_json_refuse(s, "expected a number");
        return NULL;
    }
    return tpi_saved_number(s->arena, whole ? tp_int(*digits == '-' ? -i : i) : tp_float(x));
}

static tp_saved *value(tpi_json *s, int depth);

static tp_saved *list(tpi_json *s, int depth) {
    tp_saved *v = tpi_saved_new(s->arena, TP_SAVED_LIST);
    s->p++;
    for (bool first = true; v && !tpi_json_accept(s, ']'); first = false) {
        if (!first && !tpi_json_accept(s, ',')) {
            tpi_json_refuse(s, "expected a comma");
            return NULL;
        }
        if (!tpi_saved_append(s->arena, v, value(s, depth))) return NULL;
    }
    return v;
}

static tp_saved *dict(tpi_json *s, int depth) {
    tp_saved *v = tpi_saved_new(s->arena, TP_SAVED_DICT);
    s->p++;
    for (bool first = true; v && !tpi_json_accept(s, '}'); first = false) {
        if (!first && !tpi_json_accept(s, ',')) {
            tpi_json_refuse(s, "expected a comma");
            return NULL;
        }
        tp_saved *key = tpi_json_string(s);
        if (key && !tpi_json_accept(s, ':')) {
            tpi_json_refuse(s, "expected a colon");
            return NULL;
        }
        if (!key || !tpi_saved_put(s->arena, v, key, value(s, depth))) return NULL;
    }
    return v;
}

static tp_saved *value(tpi_json *s, int depth) {
    unsigned char c = tpi_json_peek(s);
    if (depth >= DEEPEST) {
        tpi_json_refuse(s, "its values are nested too deeply");
        return NULL;
    }
    switch (c) {
    case '{': return dict(s, depth + 1);
    case '[': return list(s, depth + 1);
    case '"': return tpi_json_string(s);
    case 't': return word(s, "true", tpi_saved_number(s->arena, tp_truth(true)));
    case 'f': return word(s, "false", tpi_saved_number(s->arena, tp_truth(false)));
    case 'n': return word(s, "null", tpi_saved_new(s->arena, TP_SAVED_NONE));
    default: return number(s);
    }
}

tp_saved *tpi_json_value(tpi_json *s) { return value(s, 0); }

tp_saved *tpi_json_all(tpi_json *s) {
    tp_saved *v = value(s, 0);
    if (v && (tpi_json_peek(s) || s->p != s->end)) {
        tpi_json_refuse(s, "it goes on behind its end");
        return NULL;
    }
    return v;
}

const tp_saved *tpi_json_get(const tp_saved *v, const char *key) {
    if (!v || v->kind != TP_SAVED_DICT) return NULL;
    for (int64_t i = v->n - 1; i >= 0; i--)
        if (tpi_is_text(v->as.items.v[2 * i], key)) return v->as.items.v[2 * i + 1];
    return NULL;
}
