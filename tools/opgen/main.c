/* opgen --out DIR TABLE...: compiles the tables into C, Python and docs, each by the ending of its name. See opgen.h
 * for the parts.
 *
 * opgen --fortran PART... HEADER...: prints Fortran's module, by the headers of C. */
#include "cpp.h"
#include "fortran.h"
#include "header.h"
#include "layer.h"
#include "optimiser.h"
#include "registers.h"
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

static bool ends_with(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcmp(path + n - m, ending);
}

static void write_all_optimisers(const char *dir, int n, char **tables) {
    text t;
    for (int i = 0; i < n; i++) {
        if (!ends_with(tables[i], ".opt")) continue;
        t = write_updates(table_name(tables[i]));
        write_if_different(dir, format("%s_updates.isa.c", table_name(tables[i])), &t);
    }
    t = write_update_texts();
    write_if_different(dir, "update_texts.c", &t);
    t = write_optimisers();
    write_if_different(dir, "optimisers.c", &t);
    t = write_optimisers_internal();
    write_if_different(dir, "tpi_optimisers.h", &t);
    t = write_optimisers_header();
    write_if_different(dir, "include/taper/optimisers.h", &t);
    t = write_optimisers_docs();
    write_if_different(dir, "optimisers.md", &t);
}

static void write_cpp(const char *dir) {
    make_dir(format("%s/include/taper/cpp", dir));
    text t = write_cpp_methods();
    write_if_different(dir, "include/taper/cpp/methods.inc", &t);
    t = write_cpp_operators();
    write_if_different(dir, "include/taper/cpp/operators.hpp", &t);
    t = write_cpp_functional();
    write_if_different(dir, "include/taper/cpp/operators_functional.hpp", &t);
    t = write_cpp_layers();
    write_if_different(dir, "include/taper/cpp/table_layers.hpp", &t);
    t = write_cpp_optimisers();
    write_if_different(dir, "include/taper/cpp/table_optimisers.hpp", &t);
}

static void write_fortran(const char *dir) {
    make_dir(format("%s/fortran", dir));
    text t = write_fortran_operators();
    write_if_different(dir, "fortran/operators.f90", &t);
    t = write_fortran_arrays();
    write_if_different(dir, "fortran/arrays.f90", &t);
    t = write_fortran_layers();
    write_if_different(dir, "fortran/layers.f90", &t);
    t = write_fortran_optimisers();
    write_if_different(dir, "fortran/optimisers.f90", &t);
}

static void write_layers(const char *dir, int ntables, char **tables) {
    text t = write_glue("layers");
    write_boxed(&t, "layers");
    write_if_different(dir, "layers_glue.c", &t);
    t = write_layer_source();
    write_if_different(dir, "layers.c", &t);
    t = write_layer_header();
    write_if_different(dir, "include/taper/layers.h", &t);
    t = write_layer_declarations();
    write_if_different(dir, "tpi_layers.h", &t);
    t = write_layer_docs();
    write_if_different(dir, "layers.md", &t);
    t = write_layer_samples_c();
    write_if_different(dir, "layer_samples.c", &t);
    t = write_layer_samples_python();
    write_if_different(dir, "layer_samples.py", &t);
    make_dir(format("%s/modules", dir));
    t = write_layer_names();
    write_if_different(dir, "modules/_files.py", &t);
    for (int i = 0; i < ntables; i++) {
        if (!ends_with(tables[i], ".layer")) continue;
        t = write_layer_python(table_name(tables[i]));
        write_if_different(dir, format("modules/%s.py", table_name(tables[i])), &t);
    }
}

static int print_fortran_module(int n, char **paths) {
    char **parts = need((size_t)(n + 1) * sizeof *parts);
    int nparts = 0;
    for (int i = 0; i < n; i++) {
        if (ends_with(paths[i], ".h")) read_header(paths[i]);
        if (ends_with(paths[i], ".f90")) parts[nparts++] = paths[i];
    }
    const text t = write_fortran_module(nparts, parts);
    return fwrite(t.s, 1, t.n, stdout) != t.n;
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "--fortran")) return print_fortran_module(argc - 2, argv + 2);
    if (argc < 4 || strcmp(argv[1], "--out")) {
        fprintf(stderr, "usage: opgen --out DIR TABLE... | opgen --fortran PART... HEADER...\n");
        return 2;
    }
    const char *dir = argv[2];
    for (int i = 3; i < argc; i++) {
        if (ends_with(argv[i], ".op")) read_table(argv[i]);
        if (ends_with(argv[i], ".opt")) read_optimisers(argv[i]);
        if (ends_with(argv[i], ".layer")) read_layers(argv[i]);
    }
    check_layers();
    check_operators();
    check_optimisers();
    make_dir(dir);
    make_dir(format("%s/include", dir));
    make_dir(format("%s/include/taper", dir));
    char **families = need((size_t)argc * sizeof *families);
    int nfamilies = 0;
    for (int i = 3; i < argc; i++) {
        if (!ends_with(argv[i], ".op")) continue;
        char *family = families[nfamilies++] = table_name(argv[i]);
        text t = write_kernels(family);
        write_if_different(dir, format("%s_kernels.isa.c", family), &t);
        t = write_texts(family);
        write_if_different(dir, format("%s_texts.c", family), &t);
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
    t = write_registers();
    write_if_different(dir, "tpi_registers.h", &t);
    t = write_registry();
    write_families(&t, nfamilies, families);
    write_if_different(dir, "registry.c", &t);
    t = write_samples();
    write_if_different(dir, "samples.c", &t);
    t = write_docs();
    write_if_different(dir, "operators.md", &t);
    t = write_device_docs();
    write_if_different(dir, "devices.md", &t);
    write_all_optimisers(dir, argc - 3, argv + 3);
    write_layers(dir, argc - 3, argv + 3);
    write_cpp(dir);
    write_fortran(dir);
    return 0;
}
