/* The caching allocator of host memory.
 *
 * A request is rounded up to a size class: 64-byte steps to 512 bytes, then four classes per power of two, so a block
 * wastes less than a quarter of the request and any freed block of a class serves any later request of it. A freed
 * block is kept:
 *
 *   up to 64 KB   in a list of the thread that freed it, no lock; a list that grows too long hands half to the shared
 *                 one
 *   above         in the shared list of its class, under one mutex
 *
 * Blocks come from posix_memalign, and from 1 MB on from mmap, aligned for huge pages, which spares most page faults.
 * They return to the system in tp_memory_trim, and when the system refuses more. A free block holds the link to the
 * next one.
 *
 * Counters: each thread counts for itself and a query adds the threads up. The peak is exact to 256 KB a thread.
 *
 * Plain mode (built with TPI_PLAIN_ALLOC, or TAPER_ALLOC=plain): every request goes to posix_memalign and every block
 * straight back to free, with the same counters, so that sanitizers and valgrind see each block's life. */
#include "base/memory.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/error.h"

enum {
    SMALL_CLASSES = 36, /* up to 64 KB */
    CLASSES = 160,      /* up to MAX_BYTES */
    DRIFT = 256 << 10,  /* bytes a thread may count for itself before the peak hears of it */
    REFILL = 32         /* blocks a thread takes from the shared list at a time */
};
#define SMALL_BYTES  ((size_t)64 << 10)
#define MAPPED_BYTES ((size_t)1 << 20) /* from here on blocks are mapped */
#define HUGE_PAGE    ((size_t)2 << 20)
#define MAX_BYTES    ((size_t)1 << 46) /* more than any machine has: spares every sum below an overflow check */

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

typedef struct free_block {
    struct free_block *next;
} free_block;

typedef struct block_list {
    free_block *head;
    int64_t n;
} block_list;

/* A thread's free lists and counters. Only the owner writes; a query reads the counters from outside, hence atomics. */
typedef struct thread_cache {
    block_list list[SMALL_CLASSES];
    _Atomic int64_t bytes; /* allocated less freed since `shared.allocated` last heard of it */
    _Atomic int64_t made;  /* blocks handed out */
    _Atomic int64_t freed; /* blocks taken back */
    struct thread_cache *next, *prev;
} thread_cache;

static TPI_THREAD_LOCAL thread_cache *cache; /* NULL before the first allocation and after the thread's end */

static struct {
    pthread_mutex_t lock;
    block_list list[CLASSES];
    int64_t allocated, peak, reserved; /* bytes; see thread_cache.bytes */
    int64_t made, freed;               /* of threads that are gone, and of requests made without a cache */
    thread_cache *threads;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool plain_mode;                /* settled once, before the first block is handed out */
static _Atomic int64_t fail_countdown; /* 0: off */
static atomic_bool fail_after;
static atomic_bool special; /* plain mode or failure injection: leave the fast path */

static pthread_once_t start_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static bool thread_key_made;

/* ---- Size classes: in units of 64 bytes, u = units - 1 has its leading three bits kept ---- */
static inline int class_of(size_t bytes) {
    size_t u = (bytes - (bytes != 0)) / TPI_ALIGN;
    if (u < 8) return (int)u;
    int shift = 61 - __builtin_clzll(u);
    return shift * 4 + (int)(u >> shift);
}

static inline size_t class_bytes(int c) {
    if (c < 8) return (size_t)(c + 1) * TPI_ALIGN;
    int shift = c / 4 - 1;
    return ((size_t)(c - shift * 4 + 1) << shift) * TPI_ALIGN;
}

/* How many free blocks of a small class a thread keeps: up to 256 KB of them. */
static inline int64_t keep_limit(int c) { return 1024 >> (c / 4); }

/* ---- The system ---- */
static void *map_block(size_t size) {
    size_t slack = size >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *base = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    if (!slack) return base;
    size_t before = (size_t)(-(uintptr_t)base & (HUGE_PAGE - 1));
    if (before) munmap(base, before);
    if (slack > before) munmap(base + before + size, slack - before);
    madvise(base + before, size, MADV_HUGEPAGE); /* advice: it may be refused, and nothing is lost */
    return base + before;
}

static void *system_alloc(size_t size) {
    if (size >= MAPPED_BYTES && !plain_mode) return map_block(size);
    void *block;
    return posix_memalign(&block, TPI_ALIGN, size) == 0 ? block : NULL;
}

static void system_free(void *block, size_t size) {
    if (size >= MAPPED_BYTES && !plain_mode)
        munmap(block, size);
    else
        free(block);
}

void tpi_discard(void *part, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)part + page - 1) & ~(page - 1), to = ((uintptr_t)part + bytes) & ~(page - 1);
    if (bytes >= MAPPED_BYTES && from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

/* ---- Shared lists; every function here expects the lock to be held ---- */
static void settle_drift(thread_cache *t) {
    shared.allocated += atomic_exchange_explicit(&t->bytes, 0, memory_order_relaxed);
    if (shared.allocated > shared.peak) shared.peak = shared.allocated;
}

static int64_t allocated_now(void) {
    int64_t sum = shared.allocated;
    for (thread_cache *t = shared.threads; t; t = t->next) sum += atomic_load_explicit(&t->bytes, memory_order_relaxed);
    if (sum > shared.peak) shared.peak = sum;
    return sum;
}

/* Moves up to n blocks from one list's front to the other's. */
static void move_blocks(block_list *from, block_list *to, int64_t n) {
    if (n > from->n) n = from->n;
    if (n == 0) return;
    free_block *last = from->head;
    for (int64_t i = 1; i < n; i++) last = last->next;
    free_block *rest = last->next;
    last->next = to->head;
    to->head = from->head;
    to->n += n;
    from->head = rest;
    from->n -= n;
}

static void free_shared_lists(void) {
    for (int c = 0; c < CLASSES; c++) {
        block_list *l = &shared.list[c];
        shared.reserved -= l->n * (int64_t)class_bytes(c);
        for (free_block *b = l->head, *next; b; b = next) {
            next = b->next;
            system_free(b, class_bytes(c));
        }
        *l = (block_list){NULL, 0};
    }
}

static void flush_thread_lists(thread_cache *t) {
    for (int c = 0; c < SMALL_CLASSES; c++) move_blocks(&t->list[c], &shared.list[c], INT64_MAX);
}

/* ---- Threads and processes ---- */
static void thread_ends(void *owned) {
    thread_cache *t = owned;
    cache = NULL;
    pthread_mutex_lock(&shared.lock);
    flush_thread_lists(t);
    settle_drift(t);
    shared.made += t->made;
    shared.freed += t->freed;
    if (t->prev)
        t->prev->next = t->next;
    else
        shared.threads = t->next;
    if (t->next) t->next->prev = t->prev;
    pthread_mutex_unlock(&shared.lock);
    free(t);
}

/* A fork copies the lists in one piece. The caches of threads that do not exist in the child stay listed: their
 * counters still count what they allocated, their free blocks are given up. */
static void before_fork(void) { pthread_mutex_lock(&shared.lock); }
static void after_fork(void) { pthread_mutex_unlock(&shared.lock); }

static void start(void) {
#ifdef TPI_PLAIN_ALLOC
    plain_mode = true;
#else
    const char *mode = getenv("TAPER_ALLOC");
    plain_mode = mode && strcmp(mode, "plain") == 0;
#endif
    if (plain_mode) special = true;
    thread_key_made = pthread_key_create(&thread_key, thread_ends) == 0;
    pthread_atfork(before_fork, after_fork, after_fork);
}

__attribute__((destructor)) static void drop_thread_key(void) { /* before a dlclose takes the code away */
    if (thread_key_made) pthread_key_delete(thread_key);
}

/* The thread's cache, made at its first use; NULL if there is no memory for one, which only costs speed. */
static thread_cache *own_cache(void) {
    if (cache) return cache;
    pthread_once(&start_once, start);
    if (!thread_key_made) return NULL;
    thread_cache *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    if (pthread_setspecific(thread_key, t) != 0) {
        free(t);
        return NULL;
    }
    pthread_mutex_lock(&shared.lock);
    t->next = shared.threads;
    if (t->next) t->next->prev = t;
    shared.threads = t;
    pthread_mutex_unlock(&shared.lock);
    return cache = t;
}

/* ---- Counting ---- */
static inline void add_relaxed(_Atomic int64_t *counter, int64_t n) { /* one writer: no locked instruction needed */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static void settle_drift_locking(thread_cache *t) {
    pthread_mutex_lock(&shared.lock);
    settle_drift(t);
    pthread_mutex_unlock(&shared.lock);
}

static inline void count_made(thread_cache *t, size_t size) {
    add_relaxed(&t->made, 1);
    add_relaxed(&t->bytes, (int64_t)size);
    if (unlikely(atomic_load_explicit(&t->bytes, memory_order_relaxed) > DRIFT)) settle_drift_locking(t);
}

static inline void count_freed(thread_cache *t, size_t size) {
    add_relaxed(&t->freed, 1);
    add_relaxed(&t->bytes, -(int64_t)size);
    if (unlikely(atomic_load_explicit(&t->bytes, memory_order_relaxed) < -DRIFT)) settle_drift_locking(t);
}

static void count(thread_cache *t, bool made, size_t size) {
    if (t && made) count_made(t, size);
    if (t && !made) count_freed(t, size);
    if (t) return;
    pthread_mutex_lock(&shared.lock);
    *(made ? &shared.made : &shared.freed) += 1;
    shared.allocated += made ? (int64_t)size : -(int64_t)size;
    if (shared.allocated > shared.peak) shared.peak = shared.allocated;
    pthread_mutex_unlock(&shared.lock);
}

/* ---- Failure injection ---- */
void tpi_alloc_fail_at(int64_t nth, bool and_after) {
    own_cache(); /* settles plain_mode */
    fail_after = and_after;
    fail_countdown = nth > 0 ? nth : 0;
    special = plain_mode || nth > 0;
}

static bool must_fail(void) {
    int64_t n = atomic_load(&fail_countdown);
    while (n > 0) {
        if (n == 1 && fail_after) return true; /* stays at one: all that follow fail too */
        if (atomic_compare_exchange_weak(&fail_countdown, &n, n - 1)) return n == 1;
    }
    return false;
}

/* ---- Taking and giving blocks ---- */
static void *from_system(size_t size) {
    void *block = system_alloc(size);
    if (!block) { /* what is kept may be what is missing */
        tp_memory_trim();
        block = system_alloc(size);
    }
    if (!block) return NULL;
    pthread_mutex_lock(&shared.lock);
    shared.reserved += (int64_t)size;
    pthread_mutex_unlock(&shared.lock);
    return block;
}

static void *from_shared(thread_cache *t, int c) {
    pthread_mutex_lock(&shared.lock);
    block_list got = {NULL, 0};
    int64_t most = t && c < SMALL_CLASSES ? keep_limit(c) / 2 : 1;
    move_blocks(&shared.list[c], &got, most < REFILL ? most : REFILL);
    pthread_mutex_unlock(&shared.lock);
    free_block *block = got.head;
    if (!block) return NULL;
    if (got.n > 1)
        t->list[c] = (block_list){block->next, got.n - 1}; /* it was empty, or the caller would not be here */
    return block;
}

static __attribute__((noinline)) void *alloc_slowly(size_t bytes, const char *what) {
    thread_cache *t = own_cache();
    if (unlikely(special) && must_fail()) return tpi_fail_memory(bytes, what);
    if (bytes > MAX_BYTES) return tpi_fail_memory(bytes, what);
    int c = class_of(bytes);
    size_t size = class_bytes(c);
    void *block = NULL;
    if (plain_mode) {
        block = system_alloc((bytes + (bytes == 0) + TPI_ALIGN - 1) & ~(size_t)(TPI_ALIGN - 1));
    } else {
        if (t && c < SMALL_CLASSES && t->list[c].head) { /* here because failures are being injected */
            block = t->list[c].head;
            t->list[c].head = t->list[c].head->next;
            t->list[c].n--;
        }
        if (!block) block = from_shared(t, c);
        if (!block) block = from_system(size);
    }
    if (!block) return tpi_fail_memory(bytes, what);
    count(t, true, size);
    return block;
}

static inline void *alloc_block(size_t bytes, const char *what) {
    thread_cache *t = cache;
    if (likely(bytes <= SMALL_BYTES && t && !atomic_load_explicit(&special, memory_order_relaxed))) {
        int c = class_of(bytes);
        free_block *block = t->list[c].head;
        if (likely(block)) {
            t->list[c].head = block->next;
            t->list[c].n--;
            count_made(t, class_bytes(c));
            return block;
        }
    }
    return alloc_slowly(bytes, what);
}

static __attribute__((noinline)) void free_slowly(void *block, size_t bytes) {
    thread_cache *t = own_cache();
    int c = class_of(bytes);
    size_t size = class_bytes(c);
    count(t, false, size);
    if (plain_mode) {
        free(block);
        return;
    }
    block_list one = {block, 1};
    one.head->next = NULL;
    pthread_mutex_lock(&shared.lock);
    move_blocks(&one, &shared.list[c], 1);
    if (t && c < SMALL_CLASSES && t->list[c].n >= keep_limit(c))
        move_blocks(&t->list[c], &shared.list[c], t->list[c].n / 2);
    pthread_mutex_unlock(&shared.lock);
}

static inline void free_into_list(void *block, size_t bytes) {
    if (!block) return;
    thread_cache *t = cache;
    if (likely(bytes <= SMALL_BYTES && t && !plain_mode)) {
        int c = class_of(bytes);
        block_list *l = &t->list[c];
        if (likely(l->n < keep_limit(c))) {
            free_block *b = block;
            b->next = l->head;
            l->head = b;
            l->n++;
            count_freed(t, class_bytes(c));
            return;
        }
    }
    free_slowly(block, bytes);
}

/* ---- What the library calls ---- */
void *tpi_alloc(size_t bytes) { return alloc_block(bytes, "data"); }
void tpi_free(void *block, size_t bytes) { free_into_list(block, bytes); }

void *tpi_new(size_t bytes) { return alloc_block(bytes, "an object"); }
void tpi_delete(void *block, size_t bytes) { free_into_list(block, bytes); }

void *tpi_new0(size_t bytes) {
    void *block = alloc_block(bytes, "an object");
    return block ? memset(block, 0, bytes) : NULL;
}

/* Blocks that know their size: it stands in the 16 bytes in front, which keeps the alignment of any C type. */
enum { SIZED_HEADER = 16 };

static size_t sized_bytes(const void *block) { return *(const size_t *)((const char *)block - SIZED_HEADER); }

void *tpi_malloc(size_t bytes) {
    if (bytes > MAX_BYTES) return tpi_fail_memory(bytes, "a list");
    char *base = alloc_block(bytes + SIZED_HEADER, "a list");
    if (!base) return NULL;
    *(size_t *)base = bytes;
    return base + SIZED_HEADER;
}

void tpi_mfree(void *block) {
    if (block) free_into_list((char *)block - SIZED_HEADER, sized_bytes(block) + SIZED_HEADER);
}

void *tpi_realloc(void *block, size_t bytes) {
    if (!block) return tpi_malloc(bytes);
    size_t before = sized_bytes(block);
    bool in_place = bytes <= MAX_BYTES && class_of(before + SIZED_HEADER) == class_of(bytes + SIZED_HEADER);
    if (in_place && !special) {
        *(size_t *)((char *)block - SIZED_HEADER) = bytes;
        return block;
    }
    void *moved = tpi_malloc(bytes);
    if (!moved) return NULL;
    memcpy(moved, block, before < bytes ? before : bytes);
    tpi_mfree(block);
    return moved;
}

char *tpi_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = tpi_malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* ---- Counters and trimming ---- */
bool tp_memory_query(tp_memory_stats *stats) {
    if (!stats) return tpi_refuse(TP_ERR_VALUE, "argument 'stats': expected a tp_memory_stats, got NULL");
    if (stats->size < (int64_t)sizeof stats->size)
        return tpi_refuse(TP_ERR_VALUE, "argument 'stats': its size must be set to sizeof(tp_memory_stats), got %lld",
                          (long long)stats->size);
    tp_memory_stats now = {.size = stats->size};
    now.allocations = tpi_alloc_count();
    pthread_mutex_lock(&shared.lock);
    now.allocated = allocated_now();
    now.peak_allocated = shared.peak;
    now.reserved = plain_mode ? now.allocated : shared.reserved;
    pthread_mutex_unlock(&shared.lock);
    size_t known = sizeof now < (size_t)stats->size ? sizeof now : (size_t)stats->size;
    memcpy(stats, &now, known);
    return true;
}

void tp_memory_trim(void) {
    pthread_mutex_lock(&shared.lock);
    if (cache) flush_thread_lists(cache);
    free_shared_lists();
    pthread_mutex_unlock(&shared.lock);
}

static void count_blocks(int64_t *made, int64_t *freed) {
    pthread_mutex_lock(&shared.lock);
    *made = shared.made;
    *freed = shared.freed;
    for (thread_cache *t = shared.threads; t; t = t->next) {
        *made += t->made;
        *freed += t->freed;
    }
    pthread_mutex_unlock(&shared.lock);
}

int64_t tpi_alloc_count(void) {
    int64_t made, freed;
    count_blocks(&made, &freed);
    return made;
}

int64_t tpi_alloc_live(void) {
    int64_t made, freed;
    count_blocks(&made, &freed);
    return made - freed;
}

static size_t largest_free(void) {
    for (int c = CLASSES - 1; c >= 0; c--) {
        if (shared.list[c].n || (cache && c < SMALL_CLASSES && cache->list[c].n)) return class_bytes(c);
    }
    return 0;
}

void *tpi_fail_memory(size_t bytes, const char *what) {
    pthread_mutex_lock(&shared.lock);
    int64_t allocated = allocated_now(), reserved = plain_mode ? allocated : shared.reserved;
    size_t largest = largest_free();
    pthread_mutex_unlock(&shared.lock);
    return tpi_fail(TP_ERR_MEMORY,
                    "out of memory: could not get %zu bytes for %s; %lld bytes are allocated, %lld reserved, the "
                    "largest free block has %zu",
                    bytes, what, (long long)allocated, (long long)reserved, largest);
}
