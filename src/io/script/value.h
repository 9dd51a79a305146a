/* Values of TorchScript programs while they run: a number, a tensor, a device, or a counted box (text, list, tuple,
 * dict, object).
 *
 * Boxes that a program makes are in its heap's list, for its code may tie them into rings, which counting alone never
 * frees: the heap empties what is left when the program goes. */
#ifndef TPI_SCRIPT_VALUE_H
#define TPI_SCRIPT_VALUE_H
#include "tensor/tensor.h"
#include <pthread.h>
#include <stdatomic.h>
#include <taper/script.h>

typedef struct tpi_box tpi_box;
typedef struct tpi_item {
    int64_t kind; /* tp_ivalue_kind; NOTHING: a variable without a value */
    union {
        tp_tensor *tensor; /* NULL: an undefined one */
        tp_scalar number;
        tp_device device;
        tpi_box *box;
    } as;
} tpi_item;

typedef struct tpi_heap {
    pthread_mutex_t lock;
    tpi_box *first;
} tpi_heap;

struct tpi_script_class;
struct tpi_box {
    _Atomic int64_t refs;
    int64_t n; /* items, pairs, bytes of a text, attributes */
    int64_t capacity;
    tpi_item *items;                    /* of a dict: keys and values in turn */
    int64_t *index;                     /* of a dict: 2 * capacity slots by hash; -1: free */
    const struct tpi_script_class *cls; /* of an object or a named tuple; NULL: its program is gone, or it is none */
    tpi_heap *heap;                     /* NULL: in no list */
    tpi_box *before, *after;
    char text[]; /* of a text: n bytes and a 0 */
};

/* ---- Making ---- Each gives a reference; kind NOTHING and an error on failure. */
static inline tpi_item tpi_item_nothing(void) { return (tpi_item){.kind = TP_IVALUE_NOTHING}; }
static inline tpi_item tpi_item_none(void) { return (tpi_item){.kind = TP_IVALUE_NONE}; }
static inline tpi_item tpi_item_number(tp_scalar s) { return (tpi_item){.kind = TP_IVALUE_NUMBER, .as.number = s}; }
static inline tpi_item tpi_item_int(int64_t i) { return tpi_item_number(tp_int(i)); }
static inline tpi_item tpi_item_float(double d) { return tpi_item_number(tp_float(d)); }
static inline tpi_item tpi_item_bool(bool b) { return tpi_item_number(tp_truth(b)); }
static inline tpi_item tpi_item_device(tp_device d) { return (tpi_item){.kind = TP_IVALUE_DEVICE, .as.device = d}; }
/* Takes the reference over; NULL: a failure. */
static inline tpi_item tpi_item_tensor(tp_tensor *t) {
    return t ? (tpi_item){.kind = TP_IVALUE_TENSOR, .as.tensor = t} : tpi_item_nothing();
}
tpi_item tpi_item_text(const char *text, size_t bytes);
/* A box of n items without values, for the caller to fill; a dict is made empty and filled by tpi_dict_put. */
tpi_item tpi_item_box(tpi_heap *heap, tp_ivalue_kind kind, int64_t n);

tpi_item tpi_item_retain(tpi_item v); /* the same value, one more reference */
void tpi_item_release(tpi_item v);
/* Puts a value, which it takes over, in the place of another. */
static inline void tpi_item_set(tpi_item *slot, tpi_item v) {
    tpi_item old = *slot;
    *slot = v;
    tpi_item_release(old);
}
void tpi_heap_clear(tpi_heap *heap); /* empties every box that is left in it and lets it go */

/* ---- Lists and dicts ---- The value is taken over, also on failure. */
bool tpi_list_append(tpi_box *list, tpi_item v);
bool tpi_list_insert(tpi_box *list, int64_t at, tpi_item v);
tpi_item tpi_list_remove(tpi_box *list, int64_t at);             /* out of it */
int64_t tpi_dict_find(const tpi_box *dict, const tpi_item *key); /* the pair's number; -1: none */
bool tpi_dict_put(tpi_box *dict, tpi_item key, tpi_item v);
bool tpi_dict_remove(tpi_box *dict, int64_t pair);
bool tpi_item_can_be_key(const tpi_item *v);

/* ---- Asking ---- */
static inline bool tpi_item_is(const tpi_item *v, int64_t scalar_kind) {
    return v->kind == TP_IVALUE_NUMBER && v->as.number.kind == scalar_kind;
}
static inline bool tpi_item_is_int(const tpi_item *v) { return tpi_item_is(v, TP_SCALAR_INT); }
static inline bool tpi_item_is_bool(const tpi_item *v) { return tpi_item_is(v, TP_SCALAR_BOOL); }
static inline bool tpi_item_is_float(const tpi_item *v) { return tpi_item_is(v, TP_SCALAR_FLOAT); }
bool tpi_item_equal(const tpi_item *a, const tpi_item *b); /* of everything but tensors */
const char *tpi_item_kind_name(const tpi_item *v);         /* "a tensor", for messages */

/* A place in a list from Python's index, or -1 and an error. */
int64_t tpi_script_position(int64_t index, int64_t n);
#endif
