/* What the files of guards share: guards.c keeps and checks what was seen, follow_reads.c finds what a call may see,
 * proven_functions.c knows which objects can be followed, and bytecode.c what a function's code reads. */
#ifndef TPY_GUARDS_H
#define TPY_GUARDS_H
#include "graph.h"

typedef enum watch_kind {
    WATCH_DICT,
    WATCH_ORDER,
    WATCH_LIST,
    WATCH_SET,
    WATCH_CELL,
    WATCH_NAME,
    WATCH_FUNCTION,
    WATCH_SLOTS,
    WATCH_TENSOR,
    WATCH_OBJECT,
    WATCH_CLASS
} watch_kind;

typedef struct watch {
    uint8_t kind;
    PyObject *object; /* owned */
    Py_ssize_t n;
    PyObject **items; /* owned: keys and values; items; what a cell holds; slots and values */
    uint64_t version; /* of a dict or a class, where Python counts its changes: while it is the same, nothing was set */
    const void *data; /* of a tensor: where its elements are, and what it is */
    int64_t *layout;  /* its shape, then its strides */
    int8_t dtype, ndim;
    bool tracked, hooked, leaf, marked;
    bool ours; /* a table of this package's, which calls do not change */
} watch;

struct tpy_guards {
    watch *watches;
    Py_ssize_t n, capacity;
    PyObject *seen; /* while it is made: addresses of what was walked */
    bool full;
    char refusal[200];              /* why not all can be watched; "": it can */
    PyObject *optimisers;           /* while it is made: a list of what was met of them; NULL: none */
    bool names_groups, names_state; /* some code may read or write their options, their state */
    PyObject *names;  /* while it is made: the names by which all code that runs reads; NULL: that is not known yet */
    PyObject *stored; /* those of attributes that it sets or deletes */
    PyObject *own_names; /* those in code of this package that runs */
    bool names_anything; /* some of it looks attributes up by a text */
    bool ran_known;    /* what ran is added by itself (tpy_watch_code): other functions that are met may name what they
                          like */
    bool strict;       /* what cannot be followed is refused */
    bool ours;         /* just now: what is watched is this package's */
    bool lenient;      /* just now: what is walked is read by no code that ran */
    PyObject *later;   /* a list of what is to be walked so, at the end */
    PyObject *modules; /* a list of modules that were met as objects: any name may be read of them */
    PyObject *codes;   /* a set of the code of functions that were met */
};

/* ---- guards.c: each false with an exception ---- */
bool tpy_watch_whole(tpy_guards *g, watch_kind kind, PyObject *o);
bool tpy_watch_name(tpy_guards *g, PyObject *dict, PyObject *name); /* also where it is not there */
bool tpy_watch_slots(tpy_guards *g, PyObject *o,
                     PyObject *names);         /* attributes that are kept in the object itself, by name: a list */
PyObject *tpy_annotations(PyObject *function); /* a dict, borrowed; NULL: none, without an exception */
bool tpy_guards_refuse(tpy_guards *g, const char *format, ...)
    __attribute__((format(printf, 2,
                          3))); /* false with an exception; true, and nothing is done, where it does not matter */

/* ---- follow_reads.c ---- */
bool tpy_follow(tpy_guards *g, PyObject *o);
bool tpy_follow_module_name(tpy_guards *g, PyObject *module, PyObject *name,
                            PyObject **found); /* an attribute that is read of it; found: borrowed or NULL */

/* ---- bytecode.c ---- */
bool tpy_code_names(tpy_guards *g, PyObject *code, PyObject *globals,
                    PyObject *ran); /* adds to the names; ran: a byte for each of the code's that says whether it ran,
                                       or None: all may have */
bool tpy_code_reads(tpy_guards *g, PyObject *code, PyObject *globals,
                    PyObject *ran); /* watches the globals that it reads, and what it reads of modules among them */

/* ---- proven_functions.c: what is known of objects and functions that are not Python's own code ---- */
bool tpy_is_python_class(PyTypeObject *type); /* made by a class statement, not by C */
bool tpy_is_own_type(PyTypeObject *type);
bool tpy_type_is_proven(PyTypeObject *type); /* calling it makes an object of its arguments alone */
bool tpy_layout_is_proven(
    PyTypeObject *type);         /* all that its instances hold is in what guards follow, for a class of C */
bool tpy_is_opaque(PyObject *o); /* holds nothing that may change, or nothing that a function which is not proven does
                                    not have to read */
bool tpy_function_is_proven(PyObject *function,
                            PyObject *globals); /* a function or method of C; globals: of who calls it, or NULL */
const char *tpy_function_name(PyObject *function);
bool tpy_is_lookup(PyObject *function);   /* it reads attributes by a text */
bool tpy_word_is_lookup(PyObject *name);  /* an attribute by which others are reached that are not named */
bool tpy_word_is_refused(PyObject *name); /* an attribute of Python's inside that leads out of what can be followed */
bool tpy_is_trusted(
    PyObject *globals);             /* of a module whose functions call what they need and do no more than they say */
bool tpy_is_own(PyObject *globals); /* of a module of this package */
enum {
    TPY_OP_OTHER,
    TPY_OP_GLOBAL,
    TPY_OP_ATTRIBUTE,
    TPY_OP_IMPORT,
    TPY_OP_NAME,
    TPY_OP_EXTENDED,
    TPY_OP_NOTHING,
    TPY_OP_STORE_GLOBAL,
    TPY_OP_MATCH_CLASS,
    TPY_OP_STORE
};
int tpy_opcode(int op,
               int *shift); /* what an instruction does, and by how much its argument is shifted to be a name's index */
#endif
