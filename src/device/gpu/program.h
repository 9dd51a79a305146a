/* Kernel text on its way to a program: what program.c shares with the tool that compiles programs ahead, and with
 * tests. */
#ifndef TPI_GPU_PROGRAM_H
#define TPI_GPU_PROGRAM_H
#include "device/gpu/driver.h"

/* The files of gpu/kernels and device/element, by their names. The list ends with an entry without a name. */
typedef struct tpi_kernel_text {
    const char *name, *text;
} tpi_kernel_text;
const char *tpi_kernel_text_of(const char *name); /* "" where there is none of that name */

struct tpi_text {
    char *s; /* ends with 0 once anything was put */
    size_t n, capacity;
};
void tpi_text_free(tpi_text *text);

/* What programs are written for: the part of a device that its text depends on. */
typedef struct tpi_gpu_target {
    bool f64;
    int warp;
} tpi_gpu_target;

/* The whole source of a program: the target, the dialect, what make puts, and every text that these include, each once.
 */
bool tpi_gpu_compose(tpi_text *out, const tpi_gpu_target *target, tpi_gpu_source make, const void *context);

/* What a program is called in the archive: a hash of its source. */
typedef struct tpi_gpu_hash {
    uint64_t a, b;
} tpi_gpu_hash;
tpi_gpu_hash tpi_gpu_hash_of(const char *source, size_t bytes);

/* gpu/program_cache.c: compiled programs in a folder that many processes share. name: of the file, without the folder.
 */
void *tpi_gpu_cache_read(const char *name, size_t *bytes); /* tpi_malloc'd; NULL without an error: not there */
void tpi_gpu_cache_write(const char *name, const void *binary, size_t bytes); /* what cannot be written is not */
#endif
