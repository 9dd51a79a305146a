/* See handle.h. The table is a hash table by address with open places (linear probing), behind one lock. Handles stay
 * in it after their release, as their memory does. If there is no memory for an entry, the handle is not in it: nothing
 * is said of it then. */
#define _GNU_SOURCE /* dladdr1 */
#include "base/handle.h"
#include "base/memory.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/debug.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define CALLS(to, n) backtrace(to, n)
#else
#define CALLS(to, n) ((to)[0] = __builtin_return_address(0), 1)
#endif

enum { FRAMES = 24, TEXT = 1024 };

typedef struct made {
    const void *handle; /* NULL: an open place */
    const char *kind;
    const char *operator; /* that was at work, or NULL */
    void *frames[FRAMES];
    int nframes;
    bool gone;
    int64_t number; /* of handles made before */
} made;

bool tpi_debugging;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static made *table;
static size_t capacity, used; /* capacity is a power of two */
static int64_t ever;

__attribute__((constructor)) static void ask_environment(void) {
    const char *debug = getenv("TAPER_DEBUG");
    tpi_debugging = debug && *debug && strcmp(debug, "0");
}

/* ---- The table; all of these under the lock ---- */

static made *slot_in(made *slots, size_t n, const void *handle) {
    size_t at = (size_t)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u) & (n - 1);
    while (slots[at].handle && slots[at].handle != handle) at = (at + 1) & (n - 1);
    return &slots[at];
}

static made *slot_of(const void *handle) {
    made *at = capacity ? slot_in(table, capacity, handle) : NULL;
    return at && at->handle ? at : NULL;
}

/* libc's memory: the table must not count among the allocations that tests let fail. */
static bool table_grow(void) {
    size_t more = capacity ? 2 * capacity : 1024;
    made *larger = calloc(more, sizeof *larger);
    if (!larger) return false;
    for (size_t i = 0; i < capacity; i++)
        if (table[i].handle) *slot_in(larger, more, table[i].handle) = table[i];
    free(table);
    table = larger;
    capacity = more;
    return true;
}

void tpi_handle_note(const void *handle, const char *kind) {
    if (!handle) return;
    made entry = {.handle = handle, .kind = kind, .operator= tpi_op_now };
    entry.nframes = CALLS(entry.frames, FRAMES);
    pthread_mutex_lock(&lock);
    if (2 * used < capacity || table_grow()) {
        made *at = slot_in(table, capacity, handle);
        used += !at->handle;
        entry.number = ever++;
        *at = entry;
    }
    pthread_mutex_unlock(&lock);
}

static bool is_gone(const void *handle) {
    pthread_mutex_lock(&lock);
    const made *at = slot_of(handle);
    bool gone = at && at->gone;
    pthread_mutex_unlock(&lock);
    return gone;
}

/* Kinds that are made in great numbers inside of the library are not in the table before their end. */
static void note_end(const void *handle) {
    pthread_mutex_lock(&lock);
    made *at = slot_of(handle);
    if (!at && (2 * used < capacity || table_grow())) {
        at = slot_in(table, capacity, handle);
        *at = (made){.handle = handle};
        used++;
    }
    if (at) at->gone = true;
    pthread_mutex_unlock(&lock);
}

bool tpi_handle_kept(const void *handle) {
    if (tpi_debugging && handle) note_end(handle);
    return tpi_debugging;
}

void tpi_handle_delete(void *handle, size_t bytes) {
    if (!tpi_handle_kept(handle)) tpi_delete(handle, bytes);
}

void tpi_handle_mfree(void *handle) {
    if (!tpi_handle_kept(handle)) tpi_mfree(handle);
}

/* ---- Checks ---- */

static bool refuse_released(const char *function, const char *argument, const char *what) {
    const char *before = tpi_op_enter(function);
    tpi_fail(TP_ERR_VALUE, "argument '%s': expected %s, got one that was released before", argument, what);
    tpi_op_leave(before);
    return false;
}

bool tpi_given(const void *pointer, const char *function, const char *argument, const char *what) {
    if (pointer) return !tpi_debugging || !is_gone(pointer) || refuse_released(function, argument, what);
    const char *before = tpi_op_enter(function);
    tpi_fail(TP_ERR_TYPE, "argument '%s': expected %s, got NULL", argument, what);
    tpi_op_leave(before);
    return false;
}

bool tpi_ended(const void *handle, const char *function, const char *argument, const char *what) {
    return handle && is_gone(handle) && !refuse_released(function, argument, what);
}

bool tpi_handle_given(const void *handle, uint32_t alive, const char *function, const char *argument,
                      const char *what) {
    if (handle && alive == TPI_HANDLE_ALIVE) return true;
    return tpi_given(handle, function, argument, what) && refuse_released(function, argument, what);
}

/* ---- What is alive, and where it was made ---- */

/* The linker's names for where this library, or the program that it is linked into, begins and ends in memory: dladdr
 * would look through all symbols for each address. */
extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));
static bool is_inside(const void *address) {
    return (uintptr_t)address >= (uintptr_t)__ehdr_start && (uintptr_t)address < (uintptr_t)_end;
}

/* The name of the function around a return address, if the file exports it; a hidden one's neighbour is no answer. */
static const char *function_around(const void *address) {
    Dl_info about;
    const ElfW(Sym) *symbol = NULL;
    const char *before = (const char *)address - 1; /* inside the call */
    if (!dladdr1(before, &about, (void **)&symbol, RTLD_DL_SYMENT) || !about.dli_sname || !symbol) return NULL;
    return before < (const char *)about.dli_saddr + symbol->st_size ? about.dli_sname : NULL;
}

/* "train+0x11f3", as addr2line takes it: an offset in a file that may lie anywhere, an address in one that may not. */
static void write_address(char *to, size_t n, const void *address) {
    Dl_info about;
    const char *before = (const char *)address - 1;
    if (!dladdr(before, &about) || !about.dli_fname) {
        snprintf(to, n, "%p", address);
        return;
    }
    const ElfW(Ehdr) *file = about.dli_fbase;
    bool fixed = file->e_type == ET_EXEC;
    const char *function = function_around(address);
    snprintf(to, n, "%s+0x%llx%s%s%s", about.dli_fname,
             (unsigned long long)(fixed ? (uintptr_t)before : (uintptr_t)before - (uintptr_t)about.dli_fbase),
             function ? " (" : "", function ? function : "", function ? ")" : "");
}

/* The first frame outside of this library, or the number of frames if all lie inside (a static library's do). */
static int caller_of(const made *m) {
    int i = 0;
    while (i < m->nframes && is_inside((const char *)m->frames[i] - 1)) i++;
    return i;
}

/* Puts the caller first among the frames, and finds the public function that was called. In a static library all frames
 * look alike: all are kept, but for those of this file. */
static void find_caller(made *m) {
    int caller = caller_of(m);
    const char *function = caller && caller < m->nframes ? function_around(m->frames[caller - 1]) : NULL;
    if (function) m->operator= function;
    if (caller == m->nframes) caller = m->nframes > 2 ? 2 : 0;
    m->nframes -= caller;
    memmove(m->frames, m->frames + caller, (size_t)m->nframes * sizeof *m->frames);
}

int tpi_spoken(const char *function) {
    size_t n = strlen(function);
    if (n > 5 && !strcmp(function + n - 5, "_with")) return (int)n - 5;
    return (int)(n > 4 && !strcmp(function + n - 4, "_one") ? n - 4 : n);
}

const char *tpi_called_function(char *out, size_t n) {
    made here = {0};
    here.nframes = CALLS(here.frames, FRAMES);
    find_caller(&here);
    if (!here.operator|| strncmp(here.operator, "tp_", 3)) return NULL;
    snprintf(out, n, "%.*s", tpi_spoken(here.operator), here.operator);
    return out;
}

static void describe(const made *m, int64_t count, char *to, size_t n) {
    enum { SHOWN = 4 };
    const char *function = m->operator? m->operator: "taper";
    size_t at = (size_t)snprintf(to, n, "%lld %s%s made by %.*s, called from", (long long)count, m->kind,
                                 count == 1 ? "" : "s", tpi_spoken(function), function);
    for (int i = 0; i < m->nframes && i < SHOWN && at + 2 < n; i++) {
        to[at++] = ' ';
        write_address(to + at, n - at, m->frames[i]);
        at += strlen(to + at);
    }
}

static int by_call_site(const void *a, const void *b) {
    const made *x = a, *y = b;
    int kinds = strcmp(x->kind, y->kind);
    if (kinds) return kinds;
    if (x->nframes != y->nframes) return x->nframes < y->nframes ? -1 : 1;
    return memcmp(x->frames, y->frames, sizeof *x->frames * (size_t)x->nframes);
}

/* A copy of the entries of live handles from the given number on, in libc's memory. */
static made *live_since(int64_t number, size_t *n) {
    pthread_mutex_lock(&lock);
    made *live = malloc((used + 1) * sizeof *live);
    *n = 0;
    for (size_t i = 0; live && i < capacity; i++)
        if (table[i].handle && !table[i].gone && table[i].number >= number) live[(*n)++] = table[i];
    pthread_mutex_unlock(&lock);
    return live;
}

int64_t tp_debug_mark(void) {
    if (!tpi_debugging) return -1;
    pthread_mutex_lock(&lock);
    int64_t number = ever;
    pthread_mutex_unlock(&lock);
    return number;
}

int64_t tp_debug_live(int64_t mark, void (*each)(const char *line, void *context), void *context) {
    if (!tpi_debugging) return -1;
    size_t n;
    made *live = live_since(mark, &n);
    if (!live) return -1;
    for (size_t i = 0; each && i < n; i++) find_caller(&live[i]);
    if (each && n) qsort(live, n, sizeof *live, by_call_site);
    for (size_t i = 0; each && i < n;) {
        size_t end = i + 1;
        while (end < n && by_call_site(&live[i], &live[end]) == 0) end++;
        char line[TEXT];
        describe(&live[i], (int64_t)(end - i), line, sizeof line);
        each(line, context);
        i = end;
    }
    free(live);
    return (int64_t)n;
}

/* ---- The report at the program's end, into the file that TAPER_LEAKS names ---- */

static void write_line(const char *line, void *file) { fprintf(file, "%s\n", line); }

__attribute__((destructor)) static void report_at_end(void) {
    const char *path = tpi_debugging ? getenv("TAPER_LEAKS") : NULL;
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (!file) return;
    int64_t n = tp_debug_live(0, write_line, file);
    fprintf(file, "%lld objects of taper were never released\n", (long long)n);
    fclose(file);
}
