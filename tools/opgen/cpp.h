/* The C++ face (include/taper/taper.hpp): what opgen writes of it from the three tables.
 *
 *   cpp_operators.c    tensors' methods and operators as functions; nn::functional with its option structs
 *   cpp_layers.c       layers as classes with their option structs
 *   cpp_optimisers.c   optimisers' option structs and classes
 */
#ifndef OPGEN_CPP_H
#define OPGEN_CPP_H
#include "opgen.h"
text write_cpp_methods(void);
text write_cpp_operators(void);
text write_cpp_functional(void);
text write_cpp_layers(void);
text write_cpp_optimisers(void);

/* How C++ holds an option of that type in a struct of options: "std::optional<int64_t>". */
const char *cpp_field_type(const arg *a);
char *cpp_to_c(const arg *a, const char *value); /* a value of the C++ type as C takes it */
char *cpp_default(const arg *a);                 /* the default as C++ writes it */
/* A struct of options with a setter and a getter for each of n arguments. Those without a default are arguments of the
 * constructor; where all have one, the first may be given. `texts`, or NULL, lists those that take a choice, too. The
 * options of a function of nn::functional are also made from those of its layer. */
void write_cpp_options(text *t, const char *name, int n, const arg *const *args, const char *texts, const op *function);
/* "first" and "first_with" of the C function's options struct. */
const char *option_member(const arg *a);
char *cpp_class_name(const char *snake); /* "max_pool2d" is MaxPool2d, as the layer of that name writes it */
#endif
