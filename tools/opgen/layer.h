/* Layers: from the stanzas of tables/layers to C modules, Python classes, docs and samples. See docs/tables.md for the
 * language.
 *
 *   layer_stanza.c   lines of a table to layers
 *   layer_c.c        the C side: public constructors, how a module is built, reset and printed, its forward as an
 *                    operator
 *   layer_python.c   the Python side: one readable file of classes per table
 *   layer_docs.c     docs/layers.md, and the samples that the tests loop over
 */
#ifndef OPGEN_LAYER_H
#define OPGEN_LAYER_H
#include "tensor.h"

typedef struct layer_tensor { /* a parameter or a buffer */
    location at;
    char *name;
    expr *shape;     /* a list; NULL: given by the argument `from` */
    expr *condition; /* NULL: always there */
    char *from;
    char *dtype; /* "int64", or NULL: the layer's */
    char *value; /* what fills a buffer at first */
    bool buffer, persistent;
} layer_tensor;

typedef struct layer_text { /* a piece of the repr, or a check's message */
    location at;
    expr *condition;  /* NULL: always */
    char *text;       /* with {name}, {name!r} and {name?} (is it there?) */
    const char *code; /* checks: "TP_ERR_VALUE" */
    char *error;      /* checks: "ValueError" */
} layer_text;

typedef struct layer {
    location at;
    char *name, *cname, *file, *doc;
    op make;            /* the constructor's arguments, as an operator that gives a module */
    char *keyword_only; /* the first argument that Python takes by keyword alone, or NULL */
    char *python_only;  /* " size_average reduce ": arguments that C does not have */
    char *c_only;       /* the same the other way */
    char *texts;        /* " padding ": ints that in Python may also be a text */
    bool has_factory;   /* device and dtype were added to the arguments */
    char *base;         /* the stanza this one stands on, or NULL: Module */
    struct layer *parent;
    expr **base_args;
    int nbase; /* -1: arguments of the same name are handed on */
    int nsets, ntensors, nreprs, nchecks, ninput_checks, nsamples;
    char *set_name[16];
    expr *set_value[16];
    type set_type[16];
    expr *pyset_value[16]; /* what Python says instead, or NULL */
    layer_tensor tensors[8];
    block *reset;
    op inputs; /* forward's arguments */
    block *forward;
    block *pyforward;                    /* where Python's functions do more than the operators */
    char *forward_c, *build_c, *reset_c; /* C functions by hand */
    char *quantize_c;                    /* one that makes the layer in eight bits, or NULL; not inherited */
    op *forward_op;                      /* the operator that forward became */
    layer_text reprs[16], checks[12];
    layer_text input_checks[12]; /* of forward's inputs */
    bool wants_factory;
    bool any_arguments; /* Python's constructor takes whatever it is given, and leaves it alone */
    bool plain_repr;    /* a repr line that says nothing: no text, whatever the base prints */
    char *constants;    /* NULL: the arguments that are attributes */
    char *by_hand;      /* the Python file that has the class, or NULL */
    char *mixin;        /* a class by hand with methods that the stanza cannot say, or NULL */
    char *mixin_file;
    expr *pymake;       /* a call by which Python's constructor makes the parameters and fills them, or NULL */
    char *passing;      /* " num_chunks ": arguments that Python does not keep */
    char *keeping;      /* " nonlinearity ": ones that it keeps though they are its alone, or the base's */
    unsigned dims;      /* bit d: the input may have d dims; 0: not said */
    bool dims_and_more; /* those, and more than the last of them */
    char *facts;        /* " weight_list ": what code asks of the layer, or NULL: what the base says */
    sample samples[16];
    char *sample_args[16]; /* the constructor's part, as text */
    bool sample_eval[16];
} layer;

extern layer **layers;
extern int nlayers;
void read_layers(const char *path);
void check_layers(void); /* after all tables, and before check_operators: adds the forwards' operators */
layer *find_layer(const char *name);
static inline bool is_abstract(const layer *l) { return l->name[0] == '_'; }
bool has_word(const char *list, const char *name); /* " a b " holds "a" */

/* An attribute of a layer or of what it stands on. */
typedef struct attribute {
    char *name;
    type type;
} attribute;
int attributes_of(const layer *l, attribute *out);               /* at most 48; own ones last */
const layer_tensor *tensor_of(const layer *l, const char *name); /* own or inherited, or NULL */
const layer *with_forward(const layer *l);                       /* the stanza whose forward this one uses, or NULL */
static inline bool in_c(const layer *l) { return !is_abstract(l) && with_forward(l); }
int constructor_arguments(const layer *l, const arg **out); /* the constructor's arguments as C has them */
const layer *with_repr(const layer *l);
const layer *with_reset(const layer *l);
bool is_set(const layer *l, const char *name); /* by a `set` line of its own */
bool sets_argument(const layer *l, int i);     /* does the argument become an attribute as it is? */
char *fill_text(const layer *l, const char *text,
                char *(*piece)(const layer *, const char *name, char mark, location at), location at);

/* ---- writers ---- */
text write_layer_header(void);
text write_layer_source(void);
text write_layer_declarations(void);
text write_layer_python(const char *file);
text write_layer_names(void);
text write_layer_docs(void);
text write_layer_samples_c(void);
text write_layer_samples_python(void);
#endif
