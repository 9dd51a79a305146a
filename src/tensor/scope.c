/* Scopes: a thread's stack of marks into one growing list of references. What is handed to a scope is released at its
 * end unless kept.
 *
 * The list of scope d is refs[marks[d - 1] .. marks[d]), the innermost one's reaches to the end. An entry is a tensor,
 * or, with its lowest bit set, a block of tpi_malloc (the array of a list of tensors). If there is no memory to open a
 * scope, an error is set and the scope counts as lost: until it is closed nothing can be handed over, and what is tried
 * is released. A thread that ends inside scopes releases what they hold. */
#include "tensor/tensor.h"
#include <pthread.h>
#include <taper/binding.h>

struct scopes {
    int64_t depth, marks_capacity;
    int64_t floor; /* scopes up to this depth are put aside: nothing is handed to them */
    int64_t count, capacity;
    int64_t *marks;
    uintptr_t *refs;
};

static TPI_THREAD_LOCAL struct scopes *scopes;
static TPI_THREAD_LOCAL intptr_t lost; /* scopes that could not be opened; always deeper than all that could */

static pthread_key_t at_exit_key;
static pthread_once_t at_exit_once = PTHREAD_ONCE_INIT;
static bool at_exit_made;

/* Counts the entries that hold t. Whoever has the only reference needs no locked instruction. */
static tp_tensor *count_entry(tp_tensor *t, int by) {
    if (atomic_load_explicit(&t->refs, memory_order_relaxed) == 1)
        atomic_store_explicit(&t->scoped, atomic_load_explicit(&t->scoped, memory_order_relaxed) + by,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&t->scoped, by, memory_order_relaxed);
    return t;
}
static tp_tensor *count_in(tp_tensor *t) { return count_entry(t, 1); }
static tp_tensor *count_out(tp_tensor *t) { return count_entry(t, -1); }

static void close_to(struct scopes *s, int64_t depth) {
    while (s->depth > depth) {
        while (s->count > s->marks[s->depth - 1]) { /* one at a time: a release may call out, and scopes may open and
                                                       close in there */
            uintptr_t ref = s->refs[--s->count];
            if (ref & 1)
                tpi_mfree((void *)(ref - 1));
            else
                tp_release(count_out((tp_tensor *)ref));
        }
        s->depth--;
    }
}

static void thread_ends(void *value) {
    struct scopes *s = value;
    scopes = s; /* what is released may ask for scopes */
    close_to(s, 0);
    scopes = NULL;
    tpi_mfree(s->marks);
    tpi_mfree(s->refs);
    tpi_delete(s, sizeof *s);
}

static void make_key(void) { at_exit_made = pthread_key_create(&at_exit_key, thread_ends) == 0; }

__attribute__((destructor)) static void drop_key(void) { /* before a dlclose takes the code away */
    if (at_exit_made) pthread_key_delete(at_exit_key);
}

static struct scopes *scopes_make(void) {
    pthread_once(&at_exit_once, make_key);
    struct scopes *s = tpi_new0(sizeof *s);
    if (!s) return NULL;
    if (at_exit_made && pthread_setspecific(at_exit_key, s) == 0) return scopes = s;
    tpi_delete(s, sizeof *s);
    return tpi_fail_memory(sizeof *s, "a thread's scopes");
}

static bool grow(void **array, int64_t *capacity, size_t item) {
    int64_t more = *capacity ? *capacity * 2 : 16;
    void *larger = tpi_realloc(*array, (size_t)more * item);
    if (!larger) return false;
    *array = larger;
    *capacity = more;
    return true;
}

tp_scope tp_scope_open(void) {
    struct scopes *s = lost ? NULL : scopes ? scopes : scopes_make();
    if (!s || (s->depth == s->marks_capacity && !grow((void **)&s->marks, &s->marks_capacity, sizeof *s->marks))) {
        lost++;
        return (tp_scope){0, 0};
    }
    s->marks[s->depth++] = s->count;
    return (tp_scope){s->count, s->depth};
}

void tp_scope_close(tp_scope *scope) {
    if (!TPI_GIVEN(scope, "a scope")) return;
    if (scope->depth == 0) { /* one that could not be opened */
        if (lost > 0) lost--;
        return;
    }
    lost = 0;
    if (scopes) close_to(scopes, scope->depth - 1);
}

static bool in_scope(const struct scopes *s) { return s && s->depth > s->floor; }

int64_t tp_scopes_aside(void) {
    if (!scopes) return 0;
    int64_t before = scopes->floor;
    scopes->floor = scopes->depth;
    return before;
}

void tp_scopes_back(int64_t before) {
    if (scopes) scopes->floor = before;
}

static bool push(struct scopes *s, uintptr_t ref) {
    if (s->count == s->capacity && !grow((void **)&s->refs, &s->capacity, sizeof *s->refs)) return false;
    s->refs[s->count++] = ref;
    return true;
}

static bool in_lost_scope(void) {
    if (!lost) return false;
    tpi_fail_memory(sizeof(struct scopes), "a scope");
    return true;
}

tp_tensor *tpi_to_scope(tp_tensor *t) {
    struct scopes *s = scopes;
    if (!t || (!in_scope(s) && !lost)) return t;
    if (!in_lost_scope() && push(s, (uintptr_t)t)) return count_in(t);
    tp_release(t);
    return NULL;
}

tp_tensors tpi_list_to_scope(tp_tensors list) {
    struct scopes *s = scopes;
    if (!list.v || (!in_scope(s) && !lost)) return list;
    int64_t before = lost ? 0 : s->count;
    bool ok = !in_lost_scope() && push(s, (uintptr_t)list.v + 1);
    for (int64_t i = 0; ok && i < list.n; i++)
        if (list.v[i]) ok = push(s, (uintptr_t)list.v[i]);
    for (int64_t i = 0; ok && i < list.n; i++)
        if (list.v[i]) count_in(list.v[i]);
    if (ok) return list;
    if (!lost) s->count = before;
    tpi_release_list(list);
    return (tp_tensors){NULL, 0};
}

/* Later entries move down: what was made last is still released first. */
static void drop_entry(struct scopes *s, int64_t at) {
    s->count--;
    for (; at < s->count; at++) s->refs[at] = s->refs[at + 1];
}

tp_tensor *tp_keep(tp_tensor *t) {
    struct scopes *s = scopes;
    if (t && !tpi_is_tensor(t, "t")) return NULL;
    if (!t || lost || !in_scope(s)) return t;
    int64_t *mark = &s->marks[s->depth - 1], at = s->count - 1;
    while (at >= *mark && s->refs[at] != (uintptr_t)t) at--;
    if (at < *mark) return t; /* the caller's own, or an outer scope's: it outlives this scope already */
    if (s->depth == s->floor + 1) {
        drop_entry(s, at);
        count_out(t);
    } else {
        s->refs[at] = s->refs[*mark];
        s->refs[(*mark)++] = (uintptr_t)t; /* now the last entry of the enclosing scope */
    }
    return t;
}

tp_tensor *tp_own(tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return NULL;
    tpi_scope_remove(t);
    return t;
}

/* Does the innermost scope own it, and does no more? */
static bool remove_entry(uintptr_t ref) {
    struct scopes *s = scopes;
    if (lost || !in_scope(s)) return false;
    int64_t mark = s->marks[s->depth - 1], at = s->count - 1;
    while (at >= mark && s->refs[at] != ref) at--;
    if (at < mark) return false;
    drop_entry(s, at);
    return true;
}

void tpi_scope_remove(tp_tensor *t) {
    if (t && remove_entry((uintptr_t)t)) count_out(t);
}
void tpi_scope_remove_list(tp_tensors list) {
    if (!list.v) return;
    for (int64_t i = 0; i < list.n; i++) tpi_scope_remove(list.v[i]);
    remove_entry((uintptr_t)list.v + 1);
}

bool tpi_scopes_forget(tp_tensor *t) {
    struct scopes *s = scopes;
    for (int64_t at = s ? s->count - 1 : -1; at >= 0 && atomic_load_explicit(&t->scoped, memory_order_relaxed); at--) {
        if (s->refs[at] != (uintptr_t)t) continue;
        drop_entry(s, at);
        count_out(t);
        for (int64_t d = s->depth; d > 0 && s->marks[d - 1] > at; d--) s->marks[d - 1]--;
    }
    if (!atomic_load_explicit(&t->scoped, memory_order_relaxed)) return true;
    return tpi_refuse(
        TP_ERR_VALUE,
        "argument 't': expected a reference of the caller's, got one that a scope of another thread owns");
}
