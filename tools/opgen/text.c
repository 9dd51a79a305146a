/* Growing strings, files, and error messages that give file and line. */
#include "opgen.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *need(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "opgen: out of memory\n");
        exit(1);
    }
    return p;
}

char *copy_n(const char *s, size_t n) {
    char *r = need(n + 1);
    memcpy(r, s, n);
    return r;
}

static void put_v(text *t, const char *format, va_list list) {
    va_list again;
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (t->n + (size_t)n + 1 > t->capacity) {
        size_t capacity = (t->n + (size_t)n + 1) * 2;
        char *s = need(capacity);
        if (t->n) memcpy(s, t->s, t->n);
        free(t->s);
        t->s = s;
        t->capacity = capacity;
    }
    vsnprintf(t->s + t->n, (size_t)n + 1, format, list);
    t->n += (size_t)n;
}

void put(text *t, const char *format, ...) {
    va_list list;
    va_start(list, format);
    put_v(t, format, list);
    va_end(list);
}

char *format(const char *format, ...) {
    text t = {0};
    va_list list;
    va_start(list, format);
    put_v(&t, format, list);
    va_end(list);
    return t.s;
}

const char *label(const text *t, size_t from, const char *name) {
    return t->s && strstr(t->s + from, format("goto %s;", name)) ? format("%s:\n", name) : "";
}

char *upper(const char *s) {
    char *r = copy_n(s, strlen(s));
    for (char *p = r; *p; p++) *p = (char)toupper((unsigned char)*p);
    return r;
}

/* The text as a C string literal; line breaks become spaces. */
char *c_string(const char *s) {
    text t = {0};
    put(&t, "\"");
    for (; s && *s; s++) {
        if (*s == '"' || *s == '\\')
            put(&t, "\\%c", *s);
        else if (*s == '\n')
            put(&t, " ");
        else
            put(&t, "%c", *s);
    }
    put(&t, "\"");
    return t.s;
}

void fail(location at, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%s:%d: error: ", at.file, at.line);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    text t = {0};
    char buffer[1 << 14];
    size_t n;
    put(&t, "%s", "");
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0) put(&t, "%.*s", (int)n, buffer);
    fclose(f);
    return t.s;
}

/* Files whose content did not change keep their time, so that the build recompiles only what a stanza touched. */
void write_if_different(const char *dir, const char *name, const text *t) {
    char *path = format("%s/%s", dir, name);
    char *old = read_file(path);
    if (old && strlen(old) == t->n && !memcmp(old, t->s, t->n)) return;
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(t->s, 1, t->n, f) != t->n || fclose(f)) {
        fprintf(stderr, "opgen: cannot write %s\n", path);
        exit(1);
    }
}
