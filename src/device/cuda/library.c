/* Finding NVIDIA's and AMD's libraries: they come with drivers, toolkits, modules of clusters and Python packages, in
 * as many folders. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/gpu.h>
#include "base/memory.h"
#include "device/cuda/driver_api.h"

static char *packages; /* folders of Python packages, separated by colons */

bool tp_gpu_search(const char *folders) {
    char *copy = tpi_strdup(folders ? folders : "");
    if (!copy) return false;
    tpi_mfree(packages);
    packages = copy;
    return true;
}

static void *open_in(const char *folder, size_t length, const char *tail, const char *name) {
    char path[1024];
    if (length == 0 || snprintf(path, sizeof path, "%.*s%s/%s", (int)length, folder, tail, name) >= (int)sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_here(const char *folder, size_t length, const char *name) {
    return open_in(folder, length, "", name);
}

/* In the folders lib of packages: FOLDER/cudnn/lib. */
static void *open_in_packages(const char *folder, size_t length, const char *name) {
    char pattern[1024];
    glob_t found = {0};
    void *library = NULL;
    if (length && snprintf(pattern, sizeof pattern, "%.*s/*/lib/%s", (int)length, folder, name) < (int)sizeof pattern &&
        glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !library; i++)
            library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return library;
}

static void *open_from_list(const char *folders, const char *name,
                            void *(*open)(const char *folder, size_t length,
                                          const char *name)) { /* separated by colons */
    void *library = NULL;
    while (folders && *folders && !library) {
        size_t length = strcspn(folders, ":");
        library = open(folders, length, name);
        folders += length + (folders[length] == ':');
    }
    return library;
}

/* What somebody asked for goes before what is usual: the user's folders, those of the modules that a cluster's job has
 * loaded, the Python environment's. A system's own cuDNN is often years older than the one that was installed along
 * with a program. */
static void *open_one(const char *name) {
    void *library = open_from_list(getenv("TAPER_CUDA_PATH"), name, open_here);
    if (!library) library = open_from_list(getenv("LD_LIBRARY_PATH"), name, open_here);
    if (!library) library = open_from_list(packages, name, open_in_packages);
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    static const char *const homes[] = {"CUDA_HOME", "CUDA_PATH", "ROCM_PATH"};
    static const char *const tails[] = {"/lib64", "/lib", "/extras/CUPTI/lib64"};
    for (int i = 0; i < 9 && !library; i++) {
        const char *home = getenv(homes[i / 3]);
        if (home) library = open_in(home, strlen(home), tails[i % 3], name);
    }
    static const char *const usual[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/opt/cuda/lib64",
                                        "/opt/rocm/lib", "/usr/local/cuda/extras/CUPTI/lib64"};
    for (int i = 0; i < 5 && !library; i++) library = open_in(usual[i], strlen(usual[i]), "", name);
    return library;
}

void *tpi_cuda_library(const char *const *names) {
    void *library = NULL;
    for (; *names && !library; names++) library = open_one(*names);
    return library;
}

bool tpi_cuda_symbols(void *library, const tpi_symbol *symbols, int n) {
    for (int i = 0; i < n; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) return false;
        memcpy(symbols[i].target, &symbol, sizeof symbol);
    }
    return true;
}
