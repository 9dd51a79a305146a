/* What the files of captured calls share: guards.c and follow_reads.c (what a call saw of the program's objects),
 * argument_trees.c (how arguments and results are made of tensors), code_that_ran.c (what Python code ran) and
 * compiled_calls.c (the calls). */
#ifndef TPY_GRAPH_H
#define TPY_GRAPH_H
#include "tpy.h"

/* ---- guards.c, follow_reads.c ---- */
typedef struct tpy_guards tpy_guards;
tpy_guards *tpy_guards_new(bool strict);         /* strict: what cannot be followed is refused */
bool tpy_guards_add(tpy_guards *g, PyObject *o); /* o and all it leads to; false: an exception is set */
bool tpy_guards_code(tpy_guards *g, PyObject *code, PyObject *globals); /* what a function names that may run */
bool tpy_guards_complete(tpy_guards *g);                                /* once all is added */
void tpy_guards_done(tpy_guards *g);
void tpy_guards_free(tpy_guards *g);
/* why not all could be watched, while they live; NULL: no reason of these */
const char *tpy_guards_refusal(const tpy_guards *g);
PyObject *tpy_guards_broken(tpy_guards *g); /* the first thing that changed, borrowed; NULL: all is as it was */
bool tpy_guards_refresh(tpy_guards *g);     /* takes all as it is now */
int tpy_guards_cover(
    const tpy_guards *before, const tpy_guards *more,
    const tpy_guards *after); /* is all that `after` watches watched by the others? more: or NULL; -1: an exception */
int tpy_guards_visit(const tpy_guards *g, visitproc visit, void *arg);
bool tpy_same(PyObject *a, PyObject *b); /* the same object, or equal plain values */
bool tpy_is_own_name(PyObject *name);    /* of a module of this package */

/* ---- argument_trees.c: an object as a tree of containers whose leaves are tensors, by number, and other objects ----
 */
typedef struct tpy_tree tpy_tree;
typedef struct tpy_leaves { /* tensors, and lists and dicts, each once, in the order they are met; borrowed */
    tp_tensor **v;
    PyObject **boxes;
    int64_t n, capacity, nboxes, boxes_capacity;
} tpy_leaves;
tpy_tree *tpy_tree_of(PyObject *o, tpy_leaves *leaves); /* NULL with an exception */
bool tpy_tree_fits(const tpy_tree *tree, PyObject *o,
                   tpy_leaves *leaves); /* the same shape, and equal leaves that are no tensors */
PyObject *tpy_tree_build(const tpy_tree *tree, tp_tensor **tensors); /* borrows the tensors */
bool tpy_tree_guard(const tpy_tree *tree, tpy_guards *g);            /* leaves that are other objects */
bool tpy_tree_has_objects(const tpy_tree *tree);                     /* some leaf is neither a tensor nor plain */
void tpy_tree_free(tpy_tree *tree);
int tpy_tree_visit(const tpy_tree *tree, visitproc visit, void *arg);
bool tpy_leaves_add(tpy_leaves *leaves, tp_tensor *t, int64_t *number);
void tpy_leaves_free(tpy_leaves *leaves);

/* ---- code_that_ran.c: sees which Python functions run while a call is captured ---- */
bool tpy_watch_busy(void); /* another thread is watched */
bool tpy_watch_start(bool strictly);
void tpy_watch_stop(void);
/* What ran in between, until the next start: its names, and the globals that it names. False: an exception is set. */
bool tpy_watch_names(tpy_guards *guards);
bool tpy_watch_code(tpy_guards *guards);
bool tpy_watch_met(tpy_guards *guards); /* was each function that ran met? It is refused otherwise */
bool tpy_watch_asked_classes(void);     /* does what ran depend on which classes are registered with abstract ones? */
PyObject *tpy_classes_now(void);        /* a number that stands for those */
void tpy_watch_drop(void);
PyObject *
tpy_where(void); /* "file.py:12", the program's own line that runs now; NULL without an exception if there is none */
int tpy_proven_init(PyObject *module); /* proven_functions.c */
#endif
