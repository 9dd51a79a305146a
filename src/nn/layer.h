/* What layers written by opgen, and the few by hand, build modules with. */
#ifndef TPI_LAYER_H
#define TPI_LAYER_H
#include "base/handle.h"
#include "tensor/tensor.h"
#include <taper/nn.h>

/* ---- text that grows; the first failure stays and makes the rest nothing ---- */
typedef struct tpi_text {
    char *s;
    size_t n, capacity;
    bool failed;
} tpi_text;
void tpi_text_add(tpi_text *t, const char *s);
void tpi_text_value(tpi_text *t, tp_value v, bool quoted); /* as Python prints it; a text in quotes if asked */

/* ---- a kind of layer: one row per constructor ---- */
enum {                                   /* the words of stanzas' `facts` lines */
       TPI_LAYER_RUNNING_STATISTICS = 1, /* it has running_mean, running_var and momentum */
       TPI_LAYER_WEIGHT_LIST = 2         /* its forward hands on all its weights as one list */
};
typedef struct tpi_layer {
    const char *name;           /* "Conv2d" */
    const tp_operator *forward; /* inputs first, then what `sources` names; NULL: call */
    int inputs;
    const char *const *sources; /* attributes, parameters, buffers, or "training"; ends with NULL */
    tp_forward_function call;   /* results are owned references */
    void (*repr)(tp_module *m, tpi_text *t);
    bool (*reset)(tp_module *m);
    uint32_t dims; /* bit d: inputs may have d dims; 0: the stanza does not say */
    uint32_t facts;
    tp_module *(*quantize)(const tp_module *m); /* a module with the same weights in eight bits; NULL: there is none */
} tpi_layer;

enum { TPI_MAX_SOURCES = 24 };
typedef enum tpi_module_slot_kind {
    TPI_PARAMETER,
    TPI_BUFFER,
    TPI_TEMPORARY,
    TPI_COMPUTED
} tpi_module_slot_kind; /* temporary: not in the state; computed: made from others before each forward, in no list */
typedef struct tpi_module_slot {
    char *name;
    tp_tensor *tensor; /* NULL: the name with nothing under it */
    tpi_module_slot_kind kind;
} tpi_module_slot;
typedef struct tpi_attribute {
    const char *name;
    tp_value value; /* owns lists and tensors */
} tpi_attribute;
typedef struct tpi_child {
    char *name;
    tp_module *module;
} tpi_child;

struct tp_module {
    int64_t references;
    const tpi_layer *layer; /* NULL: the caller's own */
    char *name;
    uint32_t alive;            /* base/handle.h */
    bool training, compressed; /* compressed: a list that prints runs of equal children once */
    tpi_module_slot *slots;    /* parameters and buffers, in order */
    int64_t nslots;
    tpi_child *children;
    int64_t nchildren;
    tpi_attribute *attributes;
    int64_t nattributes;
    int8_t source_kind[TPI_MAX_SOURCES]; /* where forward's arguments come from: 0 attribute, 1 slot, 2 training */
    int16_t source_at[TPI_MAX_SOURCES];
    tp_tensor *(*forward_one)(tp_module *, tp_tensor *);
    tp_forward_function forward;
    void *context;
    void (*release_context)(void *);
    struct tpi_module_hooks *hooks;               /* hooks.c; NULL: none */
    struct tpi_parametrization *parametrizations; /* parametrize.c */
    int64_t nparametrizations;
};

/* ---- hooks.c ---- */
void tpi_module_hooks_free(tp_module *m);
/* The forward of a module with hooks: `plain` is the one without. */
bool tpi_forward_hooked(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results,
                        tp_forward_function plain);

/* ---- parametrize.c ---- */
bool tpi_parametrize_now(tp_module *m); /* computes what is computed before each forward */
bool tpi_parametrizations_copy(tp_module *to, const tp_module *from);
void tpi_parametrizations_free(tp_module *m);

tp_module *tpi_module_of(const tpi_layer *layer);
tp_module *tpi_module_list(void);    /* PyTorch's ModuleList: children in a row, not to be called */
bool tpi_module_ready(tp_module *m); /* after building: finds what forward reads */
bool tpi_module_set(tp_module *m, const char *name, tp_value v);
tp_value tpi_module_get(const tp_module *m,
                        const char *name); /* an attribute, or a tensor; kind none if there is neither */
tpi_module_slot *tpi_find_module_slot(const tp_module *m, const char *name);
/* Makes a tensor under a name, or the name alone where `there` is false; buffers are filled with value. */
bool tpi_module_make(tp_module *m, const char *name, tpi_module_slot_kind kind, bool there, tp_ints shape,
                     tp_dtype dtype, tp_device device, double value);
bool tpi_module_hold(tp_module *m, const char *name, tpi_module_slot_kind kind,
                     tp_tensor *t); /* one more reference; NULL is fine */
/* Calls with owned references as results, whatever scopes are open. */
bool tpi_forward(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results);
tp_tensor *tpi_forward_tensor(tp_module *m, tp_tensor *input); /* one in, one out */
int64_t tpi_fan_in(const tp_tensor *t);

/* ---- attributes to values and back; what says "not given" becomes none ---- */
static inline tp_value tpi_box_int(int64_t v) { return v == TP_NONE ? tp_value_none() : tp_value_int(v); }
static inline tp_value tpi_box_truth(int64_t v) { return v == TP_NONE ? tp_value_none() : tp_value_bool(v != 0); }
static inline tp_value tpi_box_float(double v) { return v != v ? tp_value_none() : tp_value_double(v); }
static inline tp_value tpi_box_ints(tp_ints v) { return v.v ? tp_value_ints(v) : tp_value_none(); }
static inline tp_value tpi_box_floats(tp_floats v) { return v.v ? tp_value_floats(v) : tp_value_none(); }
/* One number that serves for all dims stays a number, and prints as one. */
static inline tp_value tpi_box_sizes(tp_ints v) { return v.n == 1 ? tp_value_int(v.v[0]) : tpi_box_ints(v); }
static inline tp_value tpi_box_factors(tp_floats v) { return v.n == 1 ? tp_value_double(v.v[0]) : tpi_box_floats(v); }
static inline tp_value tpi_box_string(const char *v) { return v ? tp_value_string(v) : tp_value_none(); }
static inline tp_value tpi_box_tensor(tp_tensor *v) { return v ? tp_value_tensor(v) : tp_value_none(); }
int64_t tpi_get_int(const tp_module *m, const char *name);
bool tpi_get_bool(const tp_module *m, const char *name);
double tpi_get_float(const tp_module *m, const char *name);
tp_ints tpi_get_ints(const tp_module *m, const char *name);
tp_floats tpi_get_floats(const tp_module *m, const char *name);
const char *tpi_get_string(const tp_module *m, const char *name);
tp_scalar tpi_get_scalar(const tp_module *m, const char *name);
tp_tensor *tpi_get_tensor(const tp_module *m, const char *name); /* borrowed */
#endif
