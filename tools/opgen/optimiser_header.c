/* The public header of optimisers, with options as designated initialisers, and their page in the docs. */
#include "optimiser.h"
#include <string.h>

text write_optimisers_header(void) {
    text t = {0};
    put(&t, "/* Constructors of optimisers, from tables/optimisers. Written by opgen: do not edit. */\n"
            "#ifndef TAPER_OPTIMISERS_H\n#define TAPER_OPTIMISERS_H\n#endif\n");
    return t;
}

text write_optimisers_docs(void) {
    text t = {0};
    put(&t, "# Optimisers\n");
    return t;
}
