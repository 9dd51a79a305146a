/* From a file of code to tokens: Python's indentation, names, numbers, texts, punctuation. */
#include "base/error.h"
#include "io/script/syntax.h"
#include <string.h>

typedef struct lexer {
    tpi_arena *arena;
    const char *file, *at, *end;
    int32_t line;
    int depth; /* of brackets: lines do not end inside */
    int levels[TPI_SCRIPT_NESTING], nlevels;
    tpi_token *tokens;
    int64_t n, capacity;
} lexer;

static bool broken(const lexer *l, const char *what) {
    return tpi_refuse(TP_ERR_VALUE, "%s, line %d: %s", l->file, l->line, what);
}

static tpi_token *add(lexer *l, tpi_token_kind kind) {
    if (l->n == l->capacity) {
        int64_t capacity = l->capacity ? 2 * l->capacity : 256;
        tpi_token *larger = tpi_arena_new(l->arena, (size_t)capacity * sizeof *larger);
        if (!larger) return NULL;
        if (l->n) memcpy(larger, l->tokens, (size_t)l->n * sizeof *larger);
        l->tokens = larger;
        l->capacity = capacity;
    }
    tpi_token *t = &l->tokens[l->n++];
    *t = (tpi_token){.kind = (uint8_t)kind, .line = l->line, .at = l->at};
    return t;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool add_span(lexer *l, tpi_token_kind kind, const char *from) {
    const char *to = l->at;
    l->at = from;
    tpi_token *t = add(l, kind);
    l->at = to;
    if (!t) return false;
    t->bytes = to - from;
    t->text = tpi_arena_text(l->arena, from, (size_t)t->bytes);
    return t->text != NULL;
}

static bool number(lexer *l) {
    const char *from = l->at;
    while (l->at < l->end && (is_digit(*l->at) || is_letter(*l->at) || *l->at == '.' ||
                              ((*l->at == '-' || *l->at == '+') && (l->at[-1] == 'e' || l->at[-1] == 'E'))))
        l->at++;
    return add_span(l, T_NUMBER, from);
}

static int hex(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One character behind a backslash into *out; the printer writes \n and its like, octal and \x. */
static bool escape(lexer *l, char *out) {
    static const char names[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    if (l->at >= l->end) return broken(l, "a text without an end");
    char c = *l->at++;
    const char *found = c ? strchr(names, c) : NULL;
    if (found) {
        *out = values[found - names];
        return true;
    }
    int v = 0, n = 0;
    if (c == 'x') {
        for (; n < 2 && l->at < l->end && hex(*l->at) >= 0; n++) v = 16 * v + hex(*l->at++);
    } else {
        l->at--;
        for (; n < 3 && l->at < l->end && *l->at >= '0' && *l->at < '8'; n++) v = 8 * v + (*l->at++ - '0');
    }
    *out = (char)v;
    return n > 0 || broken(l, "a text with an unknown escape");
}

static bool quoted(lexer *l) {
    char quote = *l->at++;
    const char *from = l->at, *close = from;
    while (close < l->end && *close != quote && *close != '\n') close += *close == '\\' ? 2 : 1;
    if (close >= l->end || *close != quote) return broken(l, "a text without an end");
    char *text = tpi_arena_new(l->arena, (size_t)(close - from) + 1);
    if (!text) return false;
    int64_t n = 0;
    while (l->at < close) {
        char c = *l->at++;
        if (c == '\\' && !escape(l, &c)) return false;
        text[n++] = c;
    }
    l->at = close + 1;
    tpi_token *t = add(l, T_TEXT);
    if (!t) return false;
    t->text = text;
    t->bytes = n;
    return true;
}

static bool token(lexer *l) {
    const char *from = l->at;
    if (is_letter(*from)) {
        while (l->at < l->end && (is_letter(*l->at) || is_digit(*l->at))) l->at++;
        return add_span(l, T_NAME, from);
    }
    if (is_digit(*from) || (*from == '.' && l->at + 1 < l->end && is_digit(from[1]))) return number(l);
    if (*from == '"' || *from == '\'') return quoted(l);
    if (!*from || !strchr("()[]{},:.=-*<>@+/%", *from)) return broken(l, "an unknown character");
    tpi_token *t = add(l, T_MARK);
    if (!t) return false;
    t->mark = *from;
    l->at++;
    if (*from == '-' && l->at < l->end && *l->at == '>') {
        t->mark = '>';
        l->at++;
    }
    if (strchr("([{", *from)) l->depth++;
    if (strchr(")]}", *from) && l->depth) l->depth--;
    return true;
}

/* At the start of a line that holds something: its indentation as tokens. */
static bool indentation(lexer *l, int column) {
    if (column > l->levels[l->nlevels - 1]) {
        if (l->nlevels == TPI_SCRIPT_NESTING) return broken(l, "blocks are nested too deep");
        l->levels[l->nlevels++] = column;
        return add(l, T_INDENT) != NULL;
    }
    while (column < l->levels[l->nlevels - 1]) {
        l->nlevels--;
        if (!add(l, T_DEDENT)) return false;
    }
    return column == l->levels[l->nlevels - 1] || broken(l, "an indentation that fits no block");
}

static bool lex_line(lexer *l) {
    int column = 0;
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\r')) {
        l->at++;
        column++;
    }
    bool empty = l->at == l->end || *l->at == '\n' || *l->at == '#';
    if (!empty && !indentation(l, column)) return false;
    while (l->at < l->end && (*l->at != '\n' || l->depth)) {
        if (*l->at == '#') {
            while (l->at < l->end && *l->at != '\n') l->at++;
        } else if (*l->at == ' ' || *l->at == '\n' || *l->at == '\r') {
            l->line += *l->at == '\n';
            l->at++;
        } else if (!token(l)) {
            return false;
        }
    }
    if (!empty && !add(l, T_NEWLINE)) return false;
    l->at++;
    l->line++;
    return true;
}

tpi_token *tpi_script_tokens(tpi_arena *arena, const char *file, const char *source, size_t bytes) {
    lexer l = {.arena = arena, .file = file, .at = source, .end = source + bytes, .line = 1, .nlevels = 1};
    while (l.at < l.end)
        if (!lex_line(&l)) return NULL;
    l.at = l.end;
    for (; l.nlevels > 1; l.nlevels--)
        if (!add(&l, T_DEDENT)) return NULL;
    return add(&l, T_END) ? l.tokens : NULL;
}
