/* Which libraries Taper found, for people who ask what a machine runs on. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include "ops/blas.h"
#include "ops/lapack.h"
#include "ops/onednn.h"

enum { BLAS, LAPACK, ONEDNN, LIBRARIES };

int64_t tp_library_count(void) { return LIBRARIES; }

static const char *file_of(void *function) {
    Dl_info where;
    return dladdr(function, &where) ? where.dli_fname : NULL;
}

bool tp_library_at(int64_t i, const char **name, const char **version, const char **file) {
    static const char *const names[LIBRARIES] = {"BLAS", "LAPACK", "oneDNN"};
    if (i < 0 || i >= LIBRARIES) return tpi_refuse(TP_ERR_INDEX, "argument 'i': expected 0 to %d, got %lld", LIBRARIES - 1, (long long)i);
    const char *v = NULL, *f = NULL;
    void *function = NULL;
    if (i == BLAS) v = tpi_blas_version(&function), f = file_of(function);
    if (i == LAPACK) v = tpi_lapack_version(&function), f = file_of(function);
    if (i == ONEDNN && !tpi_onednn_found(&v, &f)) v = f = NULL;
    if (name) *name = names[i];
    if (version) *version = v;
    if (file) *file = f;
    return true;
}
