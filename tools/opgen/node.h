/* What node.c offers to glue.c. */
#ifndef OPGEN_NODE_H
#define OPGEN_NODE_H
#include "tensor.h"

/* What an operator's derivatives read. */
typedef struct needs {
    bool tensor[24][24]; /* [argument with a derivative][argument it reads] */
    bool result[24][6];  /* [argument with a derivative][result it reads] */
    bool scalar[24];     /* plain arguments that any derivative reads */
    bool saved[24], saved_result[6];
    field fields[32];
    int nfields;
} needs;

int find_result(const op *o, const char *name); /* -1: none has it */
void find_needs(const op *o, needs *n);
/* A condition: is an input tracked that has a derivative? NULL: none has. */
char *any_tracks(const op *o);
/* Does the call in place change what its own derivative reads? */
bool inplace_saves_copy(const op *o, const needs *n);
char *node_name(const op *o);

/* The node's attributes, what frees them, its backward function, its class and the function that builds it from the
 * inputs. */
void write_attrs(text *t, const op *o, const needs *n);
void release_lists(text *t, const op *o, const needs *n);
void write_backward(text *out, const op *o, const needs *n);
void write_record(text *t, const op *o, const needs *n);
/* Saves results and fields of results, and hangs the results on the node. `outs` is C text for the r-th result. */
void write_attach(text *t, const op *o, const needs *n, const char *const *outs, const char *indent,
                  const char *failure, bool inplace);
#endif
