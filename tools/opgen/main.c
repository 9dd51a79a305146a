/* opgen --out DIR TABLE...: compiles the operator tables into C. See opgen.h for the parts. */
#include "header.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void make_dir(const char *path) {
    if (mkdir(path, 0777) && errno != EEXIST) {
        fprintf(stderr, "opgen: cannot make the folder %s\n", path);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc < 4 || strcmp(argv[1], "--out")) {
        fprintf(stderr, "usage: opgen --out DIR TABLE.op...\n");
        return 2;
    }
    const char *dir = argv[2];
    for (int i = 3; i < argc; i++) read_table(argv[i]);
    check_operators();
    make_dir(dir);
    make_dir(format("%s/include", dir));
    make_dir(format("%s/include/taper", dir));
    for (int i = 3; i < argc; i++) {
        char *family = table_name(argv[i]);
        text t = write_kernels(family);
        write_if_different(dir, format("%s_kernels.isa.c", family), &t);
        t = write_glue(family);
        write_wrappers(&t, family);
        write_boxed(&t, family);
        write_if_different(dir, format("%s_glue.c", family), &t);
        t = write_family_header(family);
        write_if_different(dir, format("include/taper/ops_%s.h", family), &t);
    }
    text t = write_options_header();
    write_if_different(dir, "include/taper/ops_options.h", &t);
    t = write_public_header();
    write_if_different(dir, "include/taper/ops.h", &t);
    t = write_internal_header();
    write_if_different(dir, "tpi_ops.h", &t);
    t = write_registry();
    write_if_different(dir, "registry.c", &t);
    t = write_samples();
    write_if_different(dir, "samples.c", &t);
    t = write_docs();
    write_if_different(dir, "operators.md", &t);
    return 0;
}
