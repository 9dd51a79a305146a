/* Which libraries Taper found, for people who ask what a machine runs on. */
#define _GNU_SOURCE /* dladdr */
#include "base/zlib.h"
#include "io/media/image.h"
#include "linalg/blas.h"
#include "linalg/lapack.h"
#include "ops/conv/onednn.h"
#include <dlfcn.h>

static const char *version_of_zlib(void **function) {
#ifdef TPI_HAVE_ZLIB
    *function = (void *)zlibVersion;
    return zlibVersion();
#else
    *function = NULL;
    return NULL;
#endif
}

/* Each by its version and one of its functions; oneDNN, which is opened at run time, tells its file itself. */
static const struct {
    const char *name;
    const char *(*version)(void **function);
} libraries[] = {{"BLAS", tpi_blas_version}, {"LAPACK", tpi_lapack_version}, {"oneDNN", NULL},
                 {"zlib", version_of_zlib},  {"libpng", tpi_png_version},    {"libjpeg", tpi_jpeg_version}};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

int64_t tp_library_count(void) { return LIBRARIES; }

static const char *file_of(void *function) {
    Dl_info where;
    return function && dladdr(function, &where) ? where.dli_fname : NULL;
}

bool tp_library_at(int64_t i, const char **name, const char **version, const char **file) {
    if (i < 0 || i >= LIBRARIES)
        return tpi_refuse(TP_ERR_INDEX, "argument 'i': expected 0 to %d, got %lld", LIBRARIES - 1, (long long)i);
    const char *v = NULL, *f = NULL;
    void *function = NULL;
    if (libraries[i].version) {
        v = libraries[i].version(&function);
        f = file_of(function);
    } else if (!tpi_onednn_found(&v, &f)) {
        v = f = NULL;
    }
    if (name) *name = libraries[i].name;
    if (version) *version = v;
    if (file) *file = f;
    return true;
}
