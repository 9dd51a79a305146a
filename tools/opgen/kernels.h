/* What the writers of kernels share: kernels.c writes blocks for CPUs, dialect.c functions of one element for devices
 * that compile them. */
#ifndef OPGEN_KERNELS_H
#define OPGEN_KERNELS_H
#include "opgen.h"

ctype resolve(ctype t, ctype compute); /* C_TYPES, C_REAL and C_WIDE become a type */
ctype result_ctype(int result, ctype compute);
ctype state_type(const op *o, int i, ctype compute); /* of a fold's or scan's state variable */
void fold_params(const op *o, int *param, int *n);   /* the arguments that its expressions may read */
void bind_params(text *t, const op *o, const int *param, int n, ctype c, const char *from,
                 scope *names); /* from: the array's name */
/* A state is the variables array0[index], array1[index], ...; with index NULL, the members array.s0, array.s1, ... */
void load_state(text *t, const op *o, ctype c, const char *indent, const char *array, const char *index,
                const char *suffix, scope *names);
void store_state(text *t, const op *o, ctype c, const char *indent, const block *b, const char *array,
                 const char *index, const scope *names);
/* narrow.c: kernels for elements of 8 and 16 bits. */
bool has_narrow(const op *o);
void begin_narrow(void); /* of a family */
void write_narrow(text *t, const op *o);
char *narrow_members(const op *o);        /* of tpi_map_op */
void declare_joins(text *t, const op *o); /* the maps that narrow_joins() names */
char *narrow_joins(const op *o);          /* a member of tpi_fold_op */
void write_results(text *t, const op *o, ctype c, const char *indent, const char *index, const scope *names);
#endif
