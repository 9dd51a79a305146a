/* opgen: the tables' compiler. Reads the .op files of tables/operators and writes C: see docs/tables.md for the
 * language.
 *
 *   text.c       growing strings, reading and writing files, error messages with file and line
 *   lines.c      a table's lines: stanzas begin in the first column, deeper lines continue, comments are gone
 *   parse.c      the expression language: characters to trees
 *   signature.c  the head of a stanza: name, arguments, results
 *   stanza.c     the lines of a stanza: kinds, derivatives, samples
 *   check.c      checks of whole stanzas
 *   batch.c      how a batch goes through an operator
 *   facts.c      what other parts of the library ask of an operator: random numbers, cost, dynamic shapes
 *   element.c    expressions per element, in each compute type (maps, folds, scans, fused derivatives)
 *   kernels.c    the kernel files
 *   registers.c  maps as operations of the register machine of CPU programs
 *   dialect.c    kernels for devices that compile text
 *   tensor.c     expressions over operators (compositions and derivatives)
 *   glue.c       operators' internal functions
 *   node.c       the nodes that record them: recording, backward
 *   header.c     the public header, its C++ face, and the wrappers behind it
 *   optimiser.c  tables/optimisers, whose stanzas and writers optimiser.h declares
 *   registry.c   boxed calls, the operator list, the docs, the tests' samples
 */
#ifndef OPGEN_H
#define OPGEN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- text ---- */
typedef struct text {
    char *s;
    size_t n, capacity;
} text;
void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *label(const text *t, size_t from, const char *name); /* "NAME:" if the text from there on jumps to it */
char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *copy_n(const char *s, size_t n);
/* zeroed memory; ends the program when there is none. Never freed: opgen runs for milliseconds. */
void *need(size_t bytes);
char *read_file(const char *path);
void write_if_different(const char *dir, const char *name, const text *t);
char *upper(const char *s);
char *c_string(const char *s); /* as a C string literal */

typedef struct location {
    const char *file;
    int line;
} location;
void fail(location at, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* ---- lines of a table ---- */
typedef struct table_line {
    location at;
    bool head;  /* begins a stanza; text is what follows the first word */
    char *text; /* with the lines that continue it, separated by newlines */
} table_line;
table_line *read_lines(const char *path, const char *head, int *n); /* every stanza begins with the word `head` */
const char *spaces(const char *s);                                  /* past them */
char *word(const char **s); /* letters, digits and underscores; s moves behind them */
bool starts(const char **s,
            const char *token);     /* if the whole word comes next, s moves past it and the spaces behind it */
char *table_name(const char *path); /* the file's name without folder and ending: a family */

/* ---- expressions ---- */
typedef enum {
    E_INT,
    E_FLOAT,
    E_STRING,
    E_NAME,
    E_CALL,
    E_UNARY,
    E_BINARY,
    E_TERNARY,
    E_FIELD,
    E_LIST,
    E_NAMED
} expr_kind;
typedef struct expr {
    expr_kind kind;
    location at;
    char *name; /* E_NAME, E_STRING, E_CALL (the function), E_FIELD (the field), E_NAMED (the argument), operators' text
                 */
    int64_t i;  /* E_INT */
    double f;   /* E_FLOAT */
    int n;      /* arguments */
    struct expr **arg; /* E_FIELD: arg[0] is what it is a field of; further ones its arguments if it was called */
    bool called;       /* E_FIELD with parentheses */
} expr;

/* a = EXPR; b = EXPR; EXPR. The last part may be an assignment too (several results). */
typedef struct block {
    location at;
    int n;
    char **name; /* NULL for the plain result */
    char **type; /* "int64" in `k:int64 = 0`, else NULL */
    expr **value;
} block;
block *parse_block(const char *s, location at);
expr *parse_expr(const char *s, location at);
expr **parse_args(const char *s, location at, int *n,
                  const char **rest); /* a comma list; rest: what follows (at ':' or ';') */

/* ---- operators ---- */
typedef enum {
    T_TENSOR,
    T_TENSOR_OPT,
    T_TENSORS,
    T_TENSORS_OPT,
    T_OPERAND,
    T_SCALAR,
    T_SCALAR_OPT,
    T_INT,
    T_INT_OPT,
    T_INTS,
    T_INTS_OPT,
    T_FLOAT,
    T_FLOAT_OPT,
    T_FLOATS,
    T_FLOATS_OPT,
    T_SCALARS,
    T_SCALARS_OPT,
    T_BOOL,
    T_BOOL_OPT,
    T_BOOLS,
    T_STR,
    T_STR_OPT,
    T_DTYPE,
    T_DEVICE,
    T_LAYOUT,
    T_GENERATOR,
    T_COUNT
} type;
typedef struct type_info {
    const char *name; /* in the table */
    const char *c;    /* in C, for natives and internal functions */
    const char *none; /* the C value for "not given" */
    char letter;      /* in the signatures that detours, captures, fallbacks and Python read: tp_operator's letters */
    const char *box;  /* tpi_unbox_BOX() takes it out of a boxed value */
} type_info;
extern const type_info types[T_COUNT];
const char *space(type t); /* between the C type and a name */

typedef enum { K_MAP, K_FOLD, K_SCAN, K_VIEW, K_COMPOSE, K_COMPOSE_C, K_NATIVE, K_NATIVE_INPLACE, K_NONE } kind;
extern const char *kind_names[];

typedef enum {
    C_B8,
    C_I32,
    C_I64,
    C_F32,
    C_F64,
    C_C64,
    C_C128,
    C_TYPES,
    C_REAL,
    C_WIDE
} ctype; /* C_TYPES: "the compute type"; C_REAL: its real type; C_WIDE: with more digits */

typedef struct arg {
    char *name;
    type type;
    expr *fallback; /* the default, NULL if required */
    char *fallback_text;
    ctype fixed;    /* map inputs of a fixed element type; C_TYPES otherwise */
    block *grad;    /* its derivative */
    int grad_group; /* index + 1 into the operator's groups, 0 if none */
    bool nondiff;
    bool written; /* natives: the function writes into this tensor, though it is no in-place form of it */
    char *type_text;
} arg;

typedef struct result {
    char *name;
    type type;
} result;

typedef struct group { /* grad (a, b): EXPR */
    int n;
    int args[8];
    block *value;
} group;

typedef struct sample {
    location at;
    int n;
    expr **args;
    char *dtypes; /* NULL: what `types` says */
    bool nograd, nograd2;
    char *error; /* NULL: must work */
    char *text;
} sample;

typedef struct check { /* check EXPR : MESSAGE */
    expr *condition;
    const char *code; /* "TP_ERR_RUNTIME" unless the message begins with another error's name */
    char *message;
} check;

enum { REGISTER_FORMS = 5 }; /* src/device/device.h has the same */

typedef struct op {
    location at;
    char *name, *cname, *family;
    char *signature, *doc;
    kind kind;
    char *function; /* natives, views, C compositions */
    char *gpu; /* natives: the function that does the same by kernels, on any device that runs them; NULL: by way of the
                  host */
    char *host; /* natives without that: why; NULL: nobody said */
    bool part;  /* views: each element of the input is seen once at most, so a gradient may be added to that part of the
                   input's */
    bool anywhere;   /* natives: the function touches no element itself, so it serves tensors of every device */
    bool open;       /* and a graph has its copies, fills and operators as steps, not the call */
    char *kind_text; /* the expression as written */
    int nargs, nresults;
    arg args[24];
    result results[6];
    bool plain;       /* returns bool, int, float or Scalar */
    char *plain_type; /* "bool" ... */
    block *body;      /* map, compose */
    block *start, *step, *merge, *finish;
    expr *first; /* fold: the second state is the index of the first element for which this holds with the final value,
                    or NULL */
    char *over, *keep, *of;
    const char *empty_error; /* fold: the error over no elements where no dim is given; NULL: it is defined there */
    bool each; /* fold: an empty list of dims folds each element by itself; otherwise it stands for all dims */
    bool rule_float, rule_sum;
    int result_kind[6]; /* RESULT_* per result */
    int types;          /* CAT_* mask, -1 unset */
    bool no_half;       /* floating types without the 16-bit ones */
    bool nondiff, todo;
    char *node;      /* PyTorch's name of the node, NULL: from cname */
    char *node_with; /* and its name when the argument node_arg is given, or NULL */
    int node_arg;
    bool method, inplace, out, internal;
    bool out_elements; /* an out tensor with as many elements as the result keeps its shape */
    enum { OVERLAP_UNSET, OVERLAP_SAME, OVERLAP_NONE } overlap; /* what inputs may share with what is written */
    char *lazy; /* the result is a marked view (src/tensor/tensor.h); formulas use the operator of this name instead */
    const char *marks; /* what is done about marked tensors: "RESOLVED", "KEPT", "WRITTEN" (src/dispatch/detour.h) */
    bool expanded;     /* in place: elements of self may share memory */
    const char *autocast, *autocast_gpu; /* "LOWER", "FLOAT", ...: what automatic mixed precision does to the arguments,
                                            on the CPU and on GPUs; NULL: nothing anywhere */
    char *batch;                         /* how torch.vmap takes a batch through it; NULL: slice by slice */
    bool module;                         /* a layer's constructor: gives a tp_module */
    bool hidden; /* a layer's forward: called by its layer alone, not in the list of operators */
    char *names; /* PyTorch's namespaces that hold it: "torch nn.functional" */
    /* Facts for whoever asks: facts.c */
    bool draws;
    enum { DYNAMIC_NEVER, DYNAMIC_ALWAYS, DYNAMIC_UNLESS, DYNAMIC_MASKS } dynamic_shape;
    int dynamic_arg;
    int writes_when; /* the bool argument without which `written` arguments are left alone; -1: none */
    expr *cost;      /* multiply-adds, NULL: not known */
    double cost_each;
    expr *gain; /* by how much the outputs shrink, over a number argument; NULL: not said */
    bool named_tuple;
    bool copies; /* the map gives what it takes */
    bool adds;   /* the map is the sum of its two operands, where its numbers are 1 */
    char *numbers_first;
    int accepts_number, bytes_as_truth;     /* -1: none */
    unsigned from_host, indices, any_float; /* masks of arguments */
    int prologue; /* 1 + the argument whose elements such a kernel may compute as it reads them */
    int epilogue; /* 1 + the result whose elements a GPU's kernel may compute on as it writes them */
    char *symbol;
    enum { ELEMENTWISE_NO, ELEMENTWISE, ELEMENTWISE_SAME, ELEMENTWISE_REDUCED } elementwise;
    int shape_from;               /* 1 + the argument whose shape, and none of whose elements, the results have */
    unsigned draws_by;            /* mask of the tensors that give the distribution */
    char *linear, *along, *parts; /* as in tp_operator; NULL: not said */
    char *alias;                  /* the operator that it is another name of, or NULL */
    /* The register machine: registers.c */
    bool registers;
    int registers_when;                /* only where this argument is 1; -1: always */
    int register_form[REGISTER_FORMS]; /* 1 + the operation of each form, 0: none */
    int ngroups;
    group groups[4];
    int nchecks;
    check checks[6];
    int nsamples;
    sample samples[40];
} op;
/* src/base/dtype.h has the same. The first four are the categories of kernels' types; dtypes of the others compute in
 * one of those. */
enum {
    CAT_BOOL = 1,
    CAT_INT = 2,
    CAT_FLOAT = 4,
    CAT_COMPLEX = 8,
    CAT_UNSIGNED = 16,
    CAT_FLOAT8 = 32,
    CAT_CHALF = 64,
    CAT_BCHALF = 128,
    CAT_OPAQUE = 256,
    CAT_UNSIGNED64 = 512,
    CAT_STORAGE = CAT_UNSIGNED | CAT_UNSIGNED64 | CAT_FLOAT8 | CAT_CHALF | CAT_BCHALF
};
enum { RESULT_SAME, RESULT_BOOL, RESULT_REAL, RESULT_INT64, RESULT_TRUTH };

/* The functions that an operator has: tp_add, tp_add_, tp_add_out. */
typedef enum { FORM_PLAIN, FORM_INPLACE, FORM_OUT } form;
extern op **ops;
extern int nops;
void read_table(const char *path);
op *add_op(const char *signature, const char *family, location at);
void parse_signature(op *o, const char *s);
void check_operators(void);       /* after all tables are read */
bool has_neighbours(const op *o); /* its GPU function is told of the maps before and behind it (device/epilogue.h) */
void parse_batch(op *o, const char *s, location at);
void derive_batch(void); /* after all tables are read and sorted */
op *find_op(const char *name);
int find_arg(const op *o, const char *name); /* -1 */
static inline bool is_tensor(type t) { return t == T_TENSOR || t == T_TENSOR_OPT || t == T_OPERAND; }
static inline bool is_tensors(type t) { return t == T_TENSORS || t == T_TENSORS_OPT; }
static inline bool differentiable(const op *o) {
    return !o->nondiff && !o->todo && o->kind != K_COMPOSE && o->kind != K_COMPOSE_C;
}

/* ---- element expressions ---- */
typedef struct function {
    const char *name;
    int nargs;
    int cats;   /* which categories it takes, CAT_* */
    int result; /* RESULT_* */
    int facts;  /* of those below */
} function;
enum {
    COSTLY = 1,   /* it takes longer to compute than an element to be moved */
    SPECIAL = 2,  /* it stands in element_special.h */
    EXACT = 4,    /* vectors of it have the bits of one by one, though it is costly */
    HAS_RUN = 8,  /* there is an el_run_*() over many elements */
    DIVIDES = 16, /* integers are divided by it */
    JOINS = 32    /* of integers it joins any number in any order, each as often as one likes, to the same value */
};
const function *find_function(const char *name, int nargs);
bool calls_special(const char *code);           /* does a text call one of the special ones? */
extern const char *const ctype_c[C_TYPES];      /* "float" */
extern const char *const ctype_suffix[C_TYPES]; /* "f32" */
const char *arithmetic_name(char symbol);       /* "add" for '+'; NULL: it is not one of the four */

typedef struct value { /* a scalar value inside a kernel: C text, and its type */
    char *c;
    ctype t;
    bool literal; /* takes on the type of what it meets */
} value;
typedef struct scope {
    const char *name[64];
    value v[64];
    int n;
} scope;
void bind(scope *s, const char *name, value v);
typedef struct element_out { /* where statements go, with temporaries reused for equal texts */
    text *code;
    const char *indent;
    char *seen[1024];
    int temps;
    ctype compute;
} element_out;
value element_expr(element_out *out, const expr *e, const scope *names);
value element_block(element_out *out, const block *b, scope *names); /* the plain result */
char *cast_value(value v, ctype to, location at);
bool uses_name(const expr *e, const char *name);
bool is_costly_block(const block *b);          /* computing binds, not memory */
bool is_pointwise(const op *o, const expr *e); /* a derivative that one kernel can compute */
bool is_pointwise_block(const op *o, const block *b);
int op_ctypes(const op *o); /* mask over ctype */

/* A map kernel: the operator's own (grad < 0) or its fused derivative for argument `grad`. */
typedef struct kernel_inputs {
    int n;
    int arg[12]; /* argument index, or -1 for grad, -2 for result */
    int nparam;
    int param[12]; /* argument index */
} kernel_inputs;
void map_inputs(const op *o, int grad, kernel_inputs *k);
bool has_fused_grad(const op *o, int a);

/* ---- writers: each returns the text of a file ---- */
text write_kernels(const char *family);
text write_texts(const char *family);
void put_literal(text *t, const char *s); /* a text as a C string that keeps its lines */
void write_kernel_lists(text *t, const char *family);
void write_families(text *t, int n, char *const *families);
text write_glue(const char *family);
text write_internal_header(void);
text write_public_header(void);
text write_registry(void);
text write_samples(void);
text write_docs(void);
const char *plain_c(const op *o);                  /* of a result that is no tensor: its C type */
char *parameters(const op *o, bool inplace);       /* as C text */
char *argument_letters(const op *o, bool inplace); /* a letter per argument */
char *function_prototype(const op *o);             /* of a native's, a view's or a C composition's function */
void write_fallback(
    text *t,
    const op *o); /* static T fallback_NAME(arguments): the call of a native where something is not on the CPU */
/* A native's call: the CPU's function where all is on the CPU. self: the expression for the first argument of an
 * in-place native, or NULL. */
char *native_call(const op *o, const char *args, const char *self);
text write_device_docs(void);
const char *runs_by(const op *o); /* on devices other than the CPU: "kernels", "anywhere" or "host" */

/* tensor expressions, for node.c and glue.c */
typedef struct tensor_scope tensor_scope;
void write_descriptors(text *t, const op *o);
char *c_default(const arg *a);
#endif
