/* Parts of the public header that main.c writes one by one. */
#ifndef OPGEN_HEADER_H
#define OPGEN_HEADER_H
#include "opgen.h"
text write_family_header(const char *family);
text write_options_header(void);
void write_wrappers(text *t, const char *family);
/* Layers' constructors: their options, declaration and macro; the C++ face; what they begin with. */
void write_constructor_header(text *t, const op *o);
void write_constructor_cpp(text *t, const op *o);
void write_defaults(text *t, const op *o);
char *constructor_declaration(const op *o);
char *constructor_argument(const arg *a);
/* A condition in C: the arguments can be looked at (src/tensor/check_arguments.h). */
char *sound_arguments(const op *o, bool inplace);
void write_taken_options(text *t, const op *o);
void write_boxed(text *t, const char *family); /* registry.c */
#endif
