/* A table's lines. A stanza begins with its word in the first column; indented lines belong to it, and a line that is
 * indented deeper than the one before continues that one, as does a line inside of the head's brackets. `#` starts a
 * comment. */
#include "opgen.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *table_name(const char *path) {
    const char *slash = strrchr(path, '/');
    char *name = copy_n(slash ? slash + 1 : path, strlen(slash ? slash + 1 : path)), *dot = strrchr(name, '.');
    if (dot) *dot = 0;
    return name;
}

/* Without what stands behind "  # " and spaces at the end. */
static void strip(char *p) {
    char *comment = strstr(p, "  # ");
    if (comment) *comment = 0;
    for (size_t n = strlen(p); n && isspace((unsigned char)p[n - 1]);) p[--n] = 0;
}

static bool has_open_bracket(const char *s) {
    int depth = 0;
    for (; *s; s++) depth += *s == '(' ? 1 : *s == ')' ? -1 : 0;
    return depth > 0;
}

static table_line *add_line(table_line **lines, int *n, location at, bool head) {
    if ((*n & (*n - 1)) == 0) { /* room for powers of two */
        table_line *more = need(sizeof(table_line) * (size_t)(*n ? *n * 2 : 1));
        if (*n) memcpy(more, *lines, sizeof(table_line) * (size_t)*n);
        *lines = more;
    }
    table_line *line = &(*lines)[(*n)++];
    line->at = at;
    line->head = head;
    return line;
}

table_line *read_lines(const char *path, const char *head, int *n) {
    char *all = read_file(path);
    if (!all) {
        fprintf(stderr, "opgen: cannot read %s\n", path);
        exit(1);
    }
    table_line *lines = NULL;
    location at = {path, 0};
    int base = 0; /* how deep the last line stands that does not continue another */
    size_t word = strlen(head);
    *n = 0;
    for (char *p = all, *next; p && *p; p = next) {
        next = strchr(p, '\n');
        if (next) *next++ = 0;
        at.line++;
        strip(p);
        int indent = (int)strspn(p, " ");
        if (p[indent] == '\t') fail(at, "a tab in the indentation: use spaces");
        if (!p[indent] || p[indent] == '#') continue;
        table_line *last = *n ? &lines[*n - 1] : NULL;
        if (last && indent > base && (base || (last->head && has_open_bracket(last->text)))) {
            last->text = format("%s\n%s", last->text, p + indent);
            continue;
        }
        if (indent == 0 && (strncmp(p, head, word) || p[word] != ' '))
            fail(at, "expected '%s NAME' in the first column, found '%.30s'", head, p);
        if (indent && !last) fail(at, "a line before the first '%s'", head);
        last = add_line(&lines, n, at, indent == 0);
        last->text = copy_n(p + (indent ? indent : (int)word + 1), strlen(p + (indent ? indent : (int)word + 1)));
        base = indent;
    }
    return lines;
}

/* ---- words of a line ---- */
const char *spaces(const char *s) {
    while (*s == ' ' || *s == '\n' || *s == '\t') s++;
    return s;
}

char *word(const char **s) {
    const char *start = spaces(*s), *p = start;
    while (isalnum((unsigned char)*p) || *p == '_') p++;
    char *r = copy_n(start, (size_t)(p - start));
    *s = p;
    return r;
}

bool starts(const char **s, const char *token) {
    size_t n = strlen(token);
    const char *p = spaces(*s);
    if (strncmp(p, token, n) || isalnum((unsigned char)p[n]) || p[n] == '_') return false;
    *s = spaces(p + n);
    return true;
}
