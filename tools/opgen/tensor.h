/* Expressions over operators: compositions and derivatives become straight C with every temporary released. */
#ifndef OPGEN_TENSOR_H
#define OPGEN_TENSOR_H
#include "opgen.h"

typedef enum {
    V_TENSOR,
    V_TENSORS,
    V_OPERAND,
    V_SCALAR,
    V_INT,
    V_FLOAT,
    V_BOOL,
    V_INTS,
    V_FLOATS,
    V_SCALARS,
    V_STR,
    V_DTYPE,
    V_DEVICE,
    V_LAYOUT,
    V_GENERATOR,
    V_NONE,
    V_MULTI
} vkind;

typedef struct tvalue {
    vkind kind;
    char *c;         /* C text; for V_MULTI unused */
    int temp;        /* t[temp] is an unnamed temporary that its one user drops; -1 otherwise */
    const op *multi; /* V_MULTI: whose results stand in t[base ...] */
    int base;
} tvalue;

typedef struct field { /* something about a tensor that is written down when the call is recorded */
    char *key;         /* printed expression */
    const expr *e;
    vkind kind;
} field;

struct tensor_scope {
    text *code;
    const char *indent;
    const op *o;
    int ntemps, nlists;
    int n;
    const char *name[64];
    tvalue v[64];
    const field *fields; /* backward: fields of arguments and results come from the attributes */
    int nfields;
    const char *failure; /* where to go when a call fails: "goto done;" */
};

void bind_tensor(tensor_scope *s, const char *name, tvalue v);
void bind_arguments(tensor_scope *s, const op *o); /* arguments under their own names */
tvalue tensor_expr(tensor_scope *s, const expr *e);
tvalue tensor_block(tensor_scope *s, const block *b);
/* C text of an owned reference to the value: a temporary's own, otherwise a new one. */
char *owned(tensor_scope *s, tvalue v, location at);
char *argument_text(tensor_scope *s, const expr *e, const arg *a,
                    const op *o); /* C text of an expression as an operator's argument */
char *without_brackets(char *c);  /* `(a == b)` as `a == b`, for conditions */
char *print_expr(const expr *e);
vkind field_kind(const expr *e);
char *field_text(const char *tensor, const expr *e, tensor_scope *s, bool operand);
vkind kind_of_type(type t);
#endif
