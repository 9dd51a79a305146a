/* A loaded program, and how its parts call each other. */
#ifndef TPI_SCRIPT_PROGRAM_H
#define TPI_SCRIPT_PROGRAM_H
#include "io/script/syntax.h"

typedef struct tpi_program {
    _Atomic int64_t refs; /* of handles: objects hold none, the heap empties them */
    tpi_arena arena;
    const char *path;
    int64_t version; /* of the file; before 4, div of integers gave integers */
    tpi_heap heap;
    tpi_declared declared;
    tpi_names classes, functions; /* by qualified name */
    int64_t nconstants;
    tpi_item *constants;
    int64_t nsources; /* the code as it was read */
    const char **source_names, **sources;
    int64_t *source_bytes;
} tpi_program;

tpi_program *tpi_program_load(const char *path, const void *memory, size_t bytes, tpi_item *module); /* load.c */
bool tpi_program_bind(tpi_program *p); /* bind.c: finds what calls mean */
void tpi_program_release(tpi_program *p);
/* save.c; with other files: rows of uint8 */
bool tpi_program_save(tpi_program *p, const tpi_item *module, const char *path, int64_t nextra,
                      const char *const *names, tp_tensor *const *extra);

/* A thread's way through a program. */
typedef struct tpi_run {
    tpi_program *program;
    int64_t depth; /* of calls, blocks and expressions */
    int frames;    /* that the error message names */
    const struct tpi_frame *frame;
} tpi_run;

/* ---- Running (interpreter.c) ---- Values given stay the caller's; a result is the caller's, NOTHING: an error. */
tpi_item tpi_script_invoke(tpi_run *run, const tpi_script_function *f, int64_t n, const tpi_item *args,
                           const char *const *names);
tpi_item tpi_script_method(tpi_run *run, const tpi_item *object, const char *method, int64_t n, const tpi_item *args,
                           const char *const *names);
tpi_item tpi_script_new(tpi_program *p, const tpi_script_class *c); /* an object without values */
bool tpi_item_fits(const tpi_item *v, const tpi_type *type, const tpi_program *p);
tpi_item tpi_script_get(tpi_run *run, const tpi_item *object, const char *name); /* an attribute */
/* A value as one of a type, where PyTorch converts it: an int for a float, a list for a tuple. NOTHING without an
 * error: it does not fit. */
tpi_item tpi_script_convert(const tpi_program *p, const tpi_type *type, const tpi_item *v);

/* ---- Calls ---- */
typedef struct tpi_script_call {
    tpi_run *run;
    const char *name;
    int64_t n;
    const tpi_item *args;
    const char *const *names; /* NULL: all by position */
    tpi_item result;
} tpi_script_call;

/* What a word does with a call. TPI_OTHER: its arguments are not the word's; an operator may take them. */
typedef enum tpi_done { TPI_FAILED_WORD, TPI_DONE, TPI_OTHER } tpi_done;
typedef struct tpi_script_word {
    const char *name;
    tpi_done (*run)(tpi_script_call *c);
} tpi_script_word;
const tpi_script_word *tpi_script_word_in(const tpi_script_word *words, size_t n, const char *name); /* bind.c */
const tpi_script_word *tpi_script_number_word(const char *name);    /* builtins_number.c; NULL: there is none */
const tpi_script_word *tpi_script_text_word(const char *name);      /* builtins_text.c */
const tpi_script_word *tpi_script_container_word(const char *name); /* builtins_container.c */
const tpi_script_word *tpi_script_tensor_word(const char *name);    /* builtins_tensor.c */
/* Those that stand behind the language's signs: -x, x[i] and a device by its text. */
tpi_done tpi_script_neg(tpi_script_call *c);
tpi_done tpi_script_getitem(tpi_script_call *c);
tpi_done tpi_script_device(tpi_script_call *c);

/* A call of an operator of the tables (operators.c). */
const tp_operator *const *tpi_script_operators(tpi_program *p, const char *name, bool *inplace); /* NULL: none, or an
                                                                                                    error */
bool tpi_script_operator(tpi_script_call *c, const tp_operator *const *overloads, bool inplace);

/* ---- For words ---- */
static inline tpi_done tpi_script_return(tpi_script_call *c, tpi_item v) {
    c->result = v;
    return v.kind == TP_IVALUE_NOTHING ? TPI_FAILED_WORD : TPI_DONE;
}
static inline tpi_done tpi_finished(tpi_script_call *c, bool fine) {
    return fine ? tpi_script_return(c, tpi_item_none()) : TPI_FAILED_WORD;
}
/* The argument at a place or of a name; NULL: not given. */
const tpi_item *tpi_script_argument(const tpi_script_call *c, int64_t position, const char *name);
/* dtypes as PyTorch numbers them (c10::ScalarType) */
tp_dtype tpi_dtype_of_number(int64_t number); /* TP_NO_DTYPE: one that there is not */
int64_t tpi_number_of_dtype(tp_dtype dtype);
bool tpi_is_true(const tpi_item *v, bool *truth); /* a bool, a number, a tensor of one element */
tpi_item tpi_tensor_of_items(const tpi_item *v, tp_dtype dtype, tp_device device, bool requires_grad);
#endif
