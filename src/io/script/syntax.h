/* The code in TorchScript files as trees: what PyTorch's printer writes of Python, and no more. Everything of a program
 * lies in its arena. Calls and variables are told apart while parsing, so that running looks nothing up by name that
 * stays the same. */
#ifndef TPI_SCRIPT_SYNTAX_H
#define TPI_SCRIPT_SYNTAX_H
#include "io/checkpoint/saved.h"
#include "io/script/value.h"
#include <taper/call.h>

/* ---- Names and their numbers ---- */
typedef struct tpi_names {
    const char **names;
    int64_t *numbers;
    int64_t n, capacity; /* capacity is a power of two */
} tpi_names;
int64_t tpi_names_find(const tpi_names *names, const char *name); /* -1: not there */
bool tpi_names_put(tpi_names *names, tpi_arena *arena, const char *name, int64_t number);

/* ---- Tokens ---- */
typedef enum tpi_token_kind {
    T_END,
    T_NEWLINE,
    T_INDENT,
    T_DEDENT,
    T_NAME,
    T_NUMBER,
    T_TEXT,
    T_MARK /* punctuation; "->" is '>' */
} tpi_token_kind;
typedef struct tpi_token {
    uint8_t kind;
    char mark;
    int32_t line;
    const char *text; /* of names, texts (without quotes and escapes) and numbers */
    int64_t bytes;
    const char *at; /* in the source */
} tpi_token;
/* All tokens, T_END last; NULL and an error that names the file and the line. */
tpi_token *tpi_script_tokens(tpi_arena *arena, const char *file, const char *source, size_t bytes);

/* ---- Types ---- */
typedef struct tpi_type {
    const char *name; /* "List", "Tensor", "__torch__.Net" */
    int64_t n;
    struct tpi_type **args;
} tpi_type;

/* ---- Expressions ---- */
struct tpi_script_function;
struct tpi_script_class;
struct tpi_script_word;
typedef enum tpi_expr_kind {
    E_VALUE,    /* value */
    E_VARIABLE, /* number, text */
    E_CONSTANT, /* number: of constants.pkl */
    E_LIST,
    E_TUPLE,
    E_DICT, /* keys and values in turn */
    E_NEGATIVE,
    E_ATTRIBUTE, /* args[0].text */
    E_INDEX,     /* args[0][args[1]] */
    E_METHOD,    /* args[0].text(args[1] ...) */
    E_FUNCTION,  /* text(args ...): "__torch__.f", a class for its __new__ or a named tuple */
    E_GLOBAL,    /* text: a class or an enumeration's member */
    E_OPERATOR,  /* text(args ...): "add", "prim.min", "prim.dtype" */
    E_CAST,      /* annotate, unchecked_cast: args[0] as type */
    E_UNSET,     /* uninitialized */
    E_ISINSTANCE
} tpi_expr_kind;

enum { TPI_WORD_GROUPS = 4 }; /* numbers, texts, containers, tensors: one name may be a word of several */

typedef struct tpi_expr {
    uint8_t kind;
    int32_t line;
    int64_t n, number;
    struct tpi_expr **args;
    const char **names; /* of args that are given by name; NULL: none is */
    const char *text;
    tpi_item value;
    const tpi_type *type;
    /* Found when the program is loaded: */
    const struct tpi_script_word *words[TPI_WORD_GROUPS]; /* of E_OPERATOR: words of the language, or NULL */
    const tp_operator *const *operators;                  /* its overloads, NULL behind the last */
    bool inplace;                                         /* of those overloads, the in-place form */
    const struct tpi_script_function *function;           /* of E_FUNCTION */
    const struct tpi_script_class *cls;                   /* of E_FUNCTION and E_GLOBAL */
} tpi_expr;

/* ---- Statements ---- */
typedef enum tpi_statement_kind { S_ASSIGN, S_EXPR, S_IF, S_WHILE, S_FOR, S_WITH, S_RETURN, S_PASS } tpi_statement_kind;
typedef struct tpi_statement tpi_statement;
typedef struct tpi_block {
    int64_t n;
    tpi_statement **v;
} tpi_block;
struct tpi_statement {
    uint8_t kind;
    bool unpacks; /* of S_ASSIGN: the value has as many items as there are targets, also where that is one */
    int32_t line;
    int64_t ntargets;
    tpi_expr **targets; /* variables, attributes, items; the loop's variable */
    tpi_expr *value;    /* the condition; the count of a `for`; the returned value */
    tpi_block body, otherwise;
};

/* ---- Functions, classes, programs ---- */
typedef struct tpi_parameter {
    const char *name;
    const tpi_type *type; /* NULL: any */
    tpi_expr *otherwise;  /* the default, or NULL */
    bool by_name;         /* behind a bare star */
} tpi_parameter;

typedef struct tpi_script_function {
    const char *name, *file, *qualified;
    int32_t line;
    int64_t nparameters, nvariables;
    tpi_parameter *parameters;
    const tpi_type *returns; /* NULL: any */
    tpi_block body;
    const char *text; /* of the definition, for readers */
} tpi_script_function;

typedef struct tpi_attribute {
    const char *name;
    const tpi_type *type;
    tpi_expr *value; /* of constants (Final), of named tuples' defaults, of enumerations' members; or NULL */
    bool constant;
    uint8_t kind; /* tp_attribute_kind */
} tpi_attribute;

typedef enum tpi_class_kind {
    CLASS_PLAIN,
    CLASS_MODULE,
    CLASS_NAMED_TUPLE,
    CLASS_INTERFACE,
    CLASS_ENUM
} tpi_class_kind;
typedef struct tpi_script_class {
    const char *name; /* qualified */
    const char *file;
    uint8_t kind;
    int64_t nattributes, nmethods;
    tpi_attribute *attributes; /* those with a place in objects first */
    int64_t nslots;
    tpi_script_function **methods;
    tpi_names attribute_numbers, method_numbers;
    const char *const *forward_hooks, *const *forward_pre_hooks; /* methods that a call of forward goes through */
    int64_t nforward_hooks, nforward_pre_hooks;
    struct tpi_program *program;
} tpi_script_class;

/* What a file of code declares, one after the other, until it ends. */
typedef struct tpi_declared {
    tpi_script_class **classes;
    tpi_script_function **functions;
    int64_t nclasses, nfunctions;
} tpi_declared;
bool tpi_script_parse(tpi_arena *arena, const char *module, const char *file, const char *source, size_t bytes,
                      tpi_declared *into);

/* Bounds that no honest file comes near. */
enum { TPI_SCRIPT_NESTING = 200 };
#endif
