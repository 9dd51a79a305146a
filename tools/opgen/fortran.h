/* The Fortran face: what opgen writes of the module `taper` from the three tables. fortran/README.md says how the parts
 * make one file.
 *
 *   fortran_operators.c    a procedure for each form of each operator; operators and intrinsic names on tensors
 *   fortran_arrays.c       tensors over arrays and arrays over tensors, for each kind and rank
 *   fortran_layers.c       layers' constructors
 *   fortran_optimisers.c   optimisers' constructors
 *   fortran_interfaces.c   the module from its parts, with interfaces of C's functions
 */
#ifndef OPGEN_FORTRAN_H
#define OPGEN_FORTRAN_H
#include "opgen.h"
text write_fortran_operators(void);
text write_fortran_arrays(void);
text write_fortran_layers(void);
text write_fortran_optimisers(void);
void read_header(const char *path); /* of C */
text write_fortran_module(int n, char **paths);

/* One line, continued with & where it is longer than the standard's 132 columns; cut behind ", ". */
void put_line(text *t, const char *line, ...) __attribute__((format(printf, 2, 3)));
void put_comment(text *t, const char *indent, const char *words);
/* "logical, intent(in), optional :: keepdim"; name is the dummy's. */
void put_dummy(text *t, const arg *a, const char *name, bool optional);
char *lower(const char *s);
/* The names of n arguments as dummies: lower case, each its own, since Fortran does not tell A from a. */
void dummy_names(int n, const arg *const *args, char **names);
char *fortran_number(const expr *e); /* a default, with all of a double's digits */
#endif
