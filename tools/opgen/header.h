/* Parts of the public header that main.c writes one by one. */
#ifndef OPGEN_HEADER_H
#define OPGEN_HEADER_H
#include "opgen.h"
text write_family_header(const char *family);
text write_options_header(void);
void write_wrappers(text *t, const char *family);
void write_boxed(text *t, const char *family); /* registry.c */
#endif
