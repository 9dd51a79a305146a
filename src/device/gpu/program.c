/* Kernel text to functions: composed, then found in the archive or in the cache or compiled, then loaded, once per
 * device and process.
 *
 * Functions that were asked for before are found without a lock in a table that only ever grows; everything else
 * happens under one, so that no two threads compile the same text. */
#include "device/gpu/archive.h"
#include "tensor/same_device.h"
#include "tensor/upcalls.h"
#include "device/gpu/trace.h"
#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- Text ---- */
static bool reserve_text(tpi_text *t, size_t more) {
    if (t->n + more + 1 <= t->capacity) return true;
    size_t capacity = 2 * (t->n + more + 1);
    char *s = tpi_realloc(t->s, capacity);
    if (!s) return false;
    t->s = s;
    t->capacity = capacity;
    return true;
}

static bool put_bytes(tpi_text *t, const char *s, size_t n) {
    if (!reserve_text(t, n)) return false;
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
    return true;
}

bool tpi_text_put(tpi_text *t, const char *format, ...) {
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, format, list);
    va_end(list);
    bool ok = n >= 0 && reserve_text(t, (size_t)n);
    if (ok) {
        vsnprintf(t->s + t->n, (size_t)n + 1, format, again);
        t->n += (size_t)n;
    }
    va_end(again);
    return ok;
}

void tpi_text_free(tpi_text *t) {
    tpi_mfree(t->s);
    *t = (tpi_text){NULL, 0, 0};
}

/* ---- Composing ---- */
enum { MAX_TEXTS = 256 };

const char *tpi_kernel_text_of(const char *name) {
    for (int i = 0; tpi_above.kernel_texts[i].name; i++)
        if (!strcmp(tpi_above.kernel_texts[i].name, name)) return tpi_above.kernel_texts[i].text;
    return "";
}

/* The number of the text that a line `#include "NAME"` names; -1: the line is none, or names another file. */
static int included(const char *line) {
    static const char word[] = "#include \"";
    if (strncmp(line, word, sizeof word - 1)) return -1;
    const char *name = line + sizeof word - 1, *end = strchr(name, '"');
    for (int i = 0; end && tpi_above.kernel_texts[i].name && i < MAX_TEXTS; i++)
        if (strlen(tpi_above.kernel_texts[i].name) == (size_t)(end - name) &&
            !memcmp(tpi_above.kernel_texts[i].name, name, (size_t)(end - name)))
            return i;
    return -1;
}

/* Texts include one another to a depth of a few; each comes in once, where it is first named. */
static bool expand(tpi_text *out, const char *source, bool *seen) {
    for (const char *line = source, *next; *line; line = next) {
        const char *end = strchr(line, '\n');
        next = end ? end + 1 : line + strlen(line);
        int i = included(line);
        if (i < 0) {
            if (!put_bytes(out, line, (size_t)(next - line))) return false;
        } else if (!seen[i]) {
            seen[i] = true;
            if (!expand(out, tpi_above.kernel_texts[i].text, seen)) return false;
        }
    }
    return true;
}

bool tpi_gpu_compose(tpi_text *out, const tpi_gpu_target *target, tpi_gpu_source make, const void *context) {
    bool seen[MAX_TEXTS] = {false};
    tpi_text body = {NULL, 0, 0};
    bool ok = tpi_text_put(out, "#define HAS_F64 %d\n#define WARP %d\n", target->f64, target->warp) &&
              expand(out, "#include \"dialect.h\"\n", seen);
    ok = ok && make(&body, context) && body.s && expand(out, body.s, seen);
    tpi_text_free(&body);
    return ok;
}

tpi_gpu_hash tpi_gpu_hash_of(const char *source, size_t bytes) {
    tpi_gpu_hash h = {0xcbf29ce484222325u, 0x6c62272e07bb0142u};
    for (size_t i = 0; i < bytes; i++) {
        h.a = (h.a ^ (uint8_t)source[i]) * 0x100000001b3u;
        h.b = (h.b ^ (uint8_t)source[i]) * 0x9e3779b97f4a7c15u;
        h.b ^= h.b >> 29;
    }
    return h;
}

/* ---- From source to a module ---- */

/* What the source compiles to, from the cache or the compiler; tpi_malloc'd. */
static void *compiled(const tpi_gpu_driver *driver, const tpi_gpu_caps *caps, const tpi_text *source,
                      tpi_gpu_hash of_source, const char *name, size_t *bytes) {
    const char *compiler = driver->compiler();
    if (!compiler)
        return tpi_fail(TP_ERR_MISSING,
                        "%s has no compiler here, and '%s' is not among the kernels compiled ahead for %s",
                        driver->name, name, caps->arch);
    char which[256], file[64];
    int n = snprintf(which, sizeof which, "%016" PRIx64 "%016" PRIx64 " %s %s", of_source.a, of_source.b, caps->arch,
                     compiler);
    tpi_gpu_hash all = tpi_gpu_hash_of(which, n < (int)sizeof which ? (size_t)n : sizeof which - 1);
    snprintf(file, sizeof file, "%016" PRIx64 "%016" PRIx64 ".%s", all.a, all.b, driver->dialect);
    void *binary = tpi_gpu_cache_read(file, bytes);
    if (binary) return binary;
    binary = driver->compile(source->s, name, caps->arch, bytes);
    if (binary) tpi_gpu_cache_write(file, binary, *bytes);
    return binary;
}

/* From the archive. A driver older than the compiler that made it may not take its code: then as if it were not there.
 */
static tpi_gpu_module *ready_module(tp_device device, const tpi_gpu_driver *driver, const tpi_gpu_caps *caps,
                                    tpi_gpu_hash source) {
    size_t bytes = 0;
    bool fine = tp_ok();
    tpi_gpu_module *module = NULL;
    void *binary = tpi_gpu_archive_read(driver->dialect, caps->arch, source, &bytes);
    if (binary && !driver->load(device.index, binary, bytes, &module)) module = NULL;
    tpi_mfree(binary);
    if (!module && fine) tp_error_clear();
    return module;
}

/* From the archive, the cache or the compiler, in this order. */
static tpi_gpu_module *found_or_compiled(tp_device device, const tpi_gpu_driver *driver, const tpi_gpu_caps *caps,
                                         const tpi_text *source, const char *name) {
    size_t bytes = 0;
    tpi_gpu_hash of_source = tpi_gpu_hash_of(source->s, source->n);
    tpi_gpu_module *module = ready_module(device, driver, caps, of_source);
    void *binary = module ? NULL : compiled(driver, caps, source, of_source, name, &bytes);
    if (binary && !driver->load(device.index, binary, bytes, &module)) module = NULL;
    tpi_mfree(binary);
    return module;
}

enum { ENTRY = 160 }; /* longest name of a kernel, its end included */

/* What the source calls its kernel `entry`: the word of a line `#define entry WORD`, so that profilers tell kernels
 * apart; without one, entry. */
static void read_entry(const char *source, char *entry) {
    static const char line[] = "\n#define entry ";
    const char *at = strstr(source, line);
    size_t n = at ? strcspn(at + sizeof line - 1, "\n") : 0;
    if (n == 0 || n >= ENTRY) {
        strcpy(entry, "entry");
        return;
    }
    memcpy(entry, at + sizeof line - 1, n);
    entry[n] = 0;
}

bool tpi_gpu_put_entry(tpi_text *t, const char *family, const char *name) {
    char word[ENTRY];
    int n = snprintf(word, sizeof word, "taper_%s_%s", family, name);
    if (n < 0 || n >= ENTRY) return true;
    for (char *c = word; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return tpi_text_put(t, "\n#define entry %s\n", word);
}

static tpi_gpu_module *make_module(tp_device device, const char *name, tpi_gpu_source make, const void *context,
                                   char *entry) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of(device.type);
    const tpi_gpu_caps *caps = driver ? tpi_gpu_caps_of(device) : NULL;
    if (!caps) return NULL;
    tpi_text source = {NULL, 0, 0};
    tpi_gpu_module *module = NULL;
    if (!driver->compile) return driver->load(device.index, NULL, 0, &module) ? module : NULL; /* it launches nothing */
    if (tpi_gpu_compose(&source, &(tpi_gpu_target){caps->f64, caps->warp}, make, context)) {
        if (entry) read_entry(source.s, entry);
        if (!caps->keeps)
            module = found_or_compiled(device, driver, caps, &source, name);
        else if (!driver->build(device.index, source.s, name, &module))
            module = NULL;
    }
    tpi_text_free(&source);
    return module;
}

/* ---- Functions by name ---- */
typedef struct program {
    struct program *next;
    tp_device device;
    tpi_gpu_module *module;
    char *key;
} program;
static program *programs; /* loaded and kept; few enough for a list, as what is launched often is found below */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static tpi_gpu_module *module_of(tp_device device, const char *key, tpi_gpu_source make, const void *context) {
    for (program *p = programs; p; p = p->next)
        if (tpi_same_device(p->device, device) && !strcmp(p->key, key)) return p->module;
    program *p = tpi_new0(sizeof *p);
    if (!p) return NULL;
    *p = (program){programs, device, NULL, tpi_strdup(key)};
    if (p->key) p->module = make_module(device, key, make, context, NULL);
    if (p->module) {
        programs = p;
        return p->module;
    }
    tpi_mfree(p->key);
    tpi_delete(p, sizeof *p);
    return NULL;
}

tpi_gpu_function *tpi_gpu_program(tp_device device, const char *key, const char *name, tpi_gpu_source make,
                                  const void *context) {
    tpi_gpu_function *function = NULL;
    pthread_mutex_lock(&lock);
    tpi_gpu_module *module = module_of(device, key, make, context);
    if (module && !tpi_gpu_driver_of(device.type)->function(device.index, module, name, &function)) function = NULL;
    if (function) tpi_gpu_name_function(function, name);
    pthread_mutex_unlock(&lock);
    return function;
}

/* ---- Functions by two words: a hash table whose entries never change once they are in it ---- */
typedef struct known {
    const void *what;
    uint64_t form;
    tp_device device;
    tpi_gpu_module *module; /* kept with its function, for as long as the process lives */
    tpi_gpu_function *function;
} known;
typedef struct known_table {
    struct known_table *older; /* kept: another thread may still be reading it */
    size_t size, used;         /* a power of two; at most half full */
    _Atomic(known *) entry[];
} known_table;
static _Atomic(known_table *) functions;

static size_t hash_of(const void *what, uint64_t form, tp_device device) {
    uint64_t h = ((uint64_t)(uintptr_t)what ^ form * 0x9e3779b97f4a7c15u ^ (uint64_t)device.index << 40 ^
                  (uint64_t)device.type << 50) *
                 0xbf58476d1ce4e5b9u;
    return (size_t)(h ^ h >> 32);
}

static known *find_known(known_table *t, const void *what, uint64_t form, tp_device device) {
    for (size_t i = hash_of(what, form, device); t; i++) {
        known *k = atomic_load_explicit(&t->entry[i & (t->size - 1)], memory_order_acquire);
        if (!k || (k->what == what && k->form == form && tpi_same_device(k->device, device))) return k;
    }
    return NULL;
}

static void enter(known_table *t, known *k) {
    size_t i = hash_of(k->what, k->form, k->device);
    while (atomic_load_explicit(&t->entry[i & (t->size - 1)], memory_order_relaxed)) i++;
    atomic_store_explicit(&t->entry[i & (t->size - 1)], k, memory_order_release);
    t->used++;
}

/* A table with room for one more, under the lock. */
static known_table *table_with_room(void) {
    known_table *t = atomic_load(&functions);
    if (t && 2 * (t->used + 1) <= t->size) return t;
    size_t size = t ? 2 * t->size : 256;
    known_table *larger = tpi_new0(sizeof *larger + size * sizeof *larger->entry);
    if (!larger) return NULL;
    larger->older = t;
    larger->size = size;
    for (size_t i = 0; t && i < t->size; i++) {
        known *k = atomic_load(&t->entry[i]);
        if (k) enter(larger, k);
    }
    atomic_store(&functions, larger);
    return larger;
}

static tpi_gpu_function *learn(tp_device device, const void *what, uint64_t form, tpi_gpu_source make,
                               const void *context) {
    known *k = find_known(atomic_load(&functions), what, form, device);
    if (k) return k->function;
    known_table *t = table_with_room();
    char entry[ENTRY] = "entry";
    tpi_gpu_module *module = t ? make_module(device, "entry", make, context, entry) : NULL;
    if (!module || !(k = tpi_new0(sizeof *k))) return NULL;
    *k = (known){what, form, device, module, NULL};
    if (tpi_gpu_driver_of(device.type)->function(device.index, module, entry, &k->function)) {
        tpi_gpu_name_function(k->function, entry);
        enter(t, k);
        return k->function;
    }
    tpi_delete(k, sizeof *k);
    return NULL;
}

tpi_gpu_function *tpi_gpu_kernel(tp_device device, const void *what, uint64_t form, tpi_gpu_source make,
                                 const void *context) {
    known *k = find_known(atomic_load_explicit(&functions, memory_order_acquire), what, form, device);
    if (k) return k->function;
    pthread_mutex_lock(&lock);
    tpi_gpu_function *function = learn(device, what, form, make, context);
    pthread_mutex_unlock(&lock);
    return function;
}

/* ---- Launching ---- */
bool tpi_gpu_launch3(tp_device device, tpi_gpu_function *function, const unsigned grid[3], const unsigned block[3],
                     size_t shared, int nargs, const tpi_gpu_arg *args) {
    const char *name = tpi_gpu_tracing ? tpi_gpu_function_name(function) : NULL;
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_KERNEL, name, 0);
    bool ok = tpi_gpu_driver_of(device.type)
                  ->launch(device.index, tpi_gpu_stream_of(device), function, grid, block, shared, nargs, args);
    tpi_gpu_span_end(&span, ok);
    return ok;
}

bool tpi_gpu_launch(tp_device device, tpi_gpu_function *function, int64_t blocks, int threads, size_t shared, int nargs,
                    const tpi_gpu_arg *args) {
    if (blocks == 0) return true;
    if (blocks > INT32_MAX)
        return tpi_refuse(TP_ERR_RUNTIME, "a kernel of %" PRId64 " blocks: expected at most %d", blocks, INT32_MAX);
    return tpi_gpu_launch3(device, function, (unsigned[]){(unsigned)blocks, 1, 1},
                           (unsigned[]){(unsigned)threads, 1, 1}, shared, nargs, args);
}
