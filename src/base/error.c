/* The thread's pending error. The first failure of a thread writes it and it stays until it is cleared; later failures,
 * which are mostly echoes of the first, change nothing.
 *
 * Short messages live in the thread's own static block and need no memory. A long one is put in a block that
 * tp_error_clear or the thread's end gives back; if there is no memory for it, or the error is about memory, it is cut
 * short instead. */
#include "base/error.h"
#include "base/handle.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include <taper/binding.h>

enum { SHORT_TEXT = 256, LONG_TEXT = 2048, SHAPE_TEXT = 96, SHAPE_TEXTS = 4 };

TPI_THREAD_LOCAL const char *tpi_op_now;

static TPI_THREAD_LOCAL struct {
    tp_code code;
    char *long_text; /* from tpi_malloc; NULL: short_text holds the message */
    char short_text[SHORT_TEXT];
} pending;

/* ---- A thread that ends with a long message pending gives its block back ---- */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static void thread_ends(void *block) {
    pending.code = TP_OK;
    pending.long_text = NULL;
    tpi_mfree(block);
}

static void make_key(void) { key_made = pthread_key_create(&key, thread_ends) == 0; }

__attribute__((destructor)) static void drop_key(void) { /* before a dlclose takes the code away */
    if (key_made) pthread_key_delete(key);
}

static char *long_block(const char *text, size_t length) {
    pthread_once(&key_once, make_key);
    char *block = key_made ? tpi_malloc(length + 1) : NULL;
    if (!block) return NULL;
    if (pthread_setspecific(key, block) != 0) {
        tpi_mfree(block);
        return NULL;
    }
    return memcpy(block, text, length + 1);
}

/* ---- Setting ---- */
static void cut_short(char *out, size_t capacity, const char *text) {
    size_t length = strnlen(text, capacity);
    bool fits = length < capacity;
    memcpy(out, text, fits ? length : capacity - 4);
    memcpy(out + (fits ? length : capacity - 4), fits ? "" : "...", fits ? 1 : 4);
}

/* Whom a message is about: the operator, or a public function that says something of its own arguments. */
static const char *speaker(const char *function, const char *format) {
    if (tpi_op_now) return tpi_op_now;
    const bool own = !strncmp(format, "argument '", 10) || !strncmp(format, "option '", 8);
    return own && !strncmp(function, "tp_", 3) ? function : NULL;
}

/* Does a message begin as "mean: " would, or with "mean("? */
static bool names_itself(const char *said, const char *prefix, size_t length) {
    return !strncmp(said, prefix, length) ||
           (length > 2 && !strncmp(said, prefix, length - 2) && said[length - 2] == '(');
}

static void fail_as(const char *name, tp_code code, const char *format, va_list args) {
    if (pending.code != TP_OK) return;
    pending.code = code; /* first, so that running out of memory below is an echo and not a new error */
    char text[LONG_TEXT];
    int prefix = name ? snprintf(text, sizeof text / 2, "%.*s: ", tpi_spoken(name), name) : 0;
    if (prefix >= (int)sizeof text / 2) prefix = (int)sizeof text / 2 - 1;
    vsnprintf(text + prefix, sizeof text - (size_t)prefix, format, args);
    const char *said = text + prefix;
    const bool named = !strncmp(said, "tp_", 3) || names_itself(said, text, (size_t)prefix);
    if (prefix && named) memmove(text, said, strlen(said) + 1);
    size_t length = strlen(text);
    if (length >= SHORT_TEXT && code != TP_ERR_MEMORY) pending.long_text = long_block(text, length);
    if (!pending.long_text) cut_short(pending.short_text, SHORT_TEXT, text);
}

void *tpi_fail_in(const char *function, tp_code code, const char *format, ...) {
    char called[80];
    const char *name = speaker(function, format);
    if (!name && pending.code == TP_OK && code != TP_ERR_MEMORY) name = tpi_called_function(called, sizeof called);
    va_list args;
    va_start(args, format);
    fail_as(name, code, format, args);
    va_end(args);
    return NULL;
}

/* A message that is about no function. */
TP_PRINTF(2, 3) static void leave(tp_code code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_as(NULL, code, format, args);
    va_end(args);
}

void tpi_error_add(const char *text) {
    const char *now = tp_error();
    if (!now) return;
    size_t have = strlen(now), more = strlen(text);
    char *joined = tpi_malloc(have + more + 2), *before = pending.long_text;
    if (!joined) return;
    memcpy(joined, now, have);
    joined[have] = '\n';
    memcpy(joined + have + 1, text, more + 1);
    char *block = long_block(joined, have + more + 1);
    tpi_mfree(joined);
    if (!block) return;
    pending.long_text = block;
    tpi_mfree(before);
}

void *tp_left_by_break(const char *block, const char *file, int line) {
    leave(TP_ERR_RUNTIME,
          "%s { } in %s:%d was left by break, which ends this block and not the loop around it: stand %s_HERE; in the "
          "loop's braces, or leave the block with continue or goto",
          block, file, line, block);
    return NULL;
}

bool tp_error_leave(tp_code code, const char *message) {
    const bool known = code > TP_OK && code <= TP_ERR_LINALG;
    const char *text = message && *message ? message : "a callback failed without saying why";
    leave(known ? code : TP_ERR_RUNTIME, "%s", text);
    return false;
}

/* ---- Reading ---- */
const char *tp_error(void) {
    if (pending.code == TP_OK) return NULL;
    return pending.long_text ? pending.long_text : pending.short_text;
}

tp_code tp_error_code(void) { return pending.code; }

bool tp_ok(void) { return pending.code == TP_OK; }

void tp_error_clear(void) {
    if (pending.long_text) {
        pthread_setspecific(key, NULL);
        tpi_mfree(pending.long_text);
        pending.long_text = NULL;
    }
    pending.code = TP_OK;
}

/* ---- Shapes in messages ---- */
const char *tpi_shape_text(tp_ints shape) {
    static TPI_THREAD_LOCAL char texts[SHAPE_TEXTS][SHAPE_TEXT];
    static TPI_THREAD_LOCAL unsigned next;
    if (!shape.v && shape.n) return "[?]";
    char *text = texts[next++ % SHAPE_TEXTS];
    size_t at = 1;
    text[0] = '[';
    for (int64_t i = 0; i < shape.n; i++) {
        char size[24];
        size_t n = (size_t)snprintf(size, sizeof size, "%s%lld", i ? ", " : "", (long long)shape.v[i]);
        if (at + n + sizeof ", ...]" > SHAPE_TEXT) { /* what is left out never hides that something is */
            at += (size_t)snprintf(text + at, SHAPE_TEXT - at, ", ...");
            break;
        }
        memcpy(text + at, size, n);
        at += n;
    }
    memcpy(text + at, "]", 2);
    return text;
}
