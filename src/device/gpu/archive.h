/* Programs compiled ahead: one file next to the library, written by tools/kernels, mapped when the first program is
 * looked for.
 *
 * The file: a head, the architectures, an index sorted by the hash of a program's source, then the programs' code, each
 * deflated with its architecture's dictionary (the code of one of them: all share a frame). Numbers are little-endian;
 * offsets count from the file's start. */
#ifndef TPI_GPU_ARCHIVE_H
#define TPI_GPU_ARCHIVE_H
#include "device/gpu/program.h"

#define TPI_ARCHIVE_MAGIC "taperka1"
typedef struct tpi_archive_head {
    char magic[8];
    char dialect[16]; /* "cuda" */
    uint32_t archs, programs;
} tpi_archive_head;
typedef struct tpi_archive_arch {
    char name[24];       /* "sm_90", "compute_75" */
    uint64_t dictionary; /* offset */
    uint64_t dictionary_bytes;
} tpi_archive_arch;
typedef struct tpi_archive_code {
    uint64_t offset;
    uint32_t packed, bytes; /* deflated, and as it is loaded; 0: not for this architecture */
} tpi_archive_code;
/* An entry of the index is a tpi_gpu_hash, followed by one tpi_archive_code per architecture. */
static inline size_t tpi_archive_entry_bytes(uint32_t archs) {
    return sizeof(tpi_gpu_hash) + archs * sizeof(tpi_archive_code);
}

/* The program's code for a device of that architecture, or one that it can run; tpi_malloc'd. NULL without an error:
 * not there. */
void *tpi_gpu_archive_read(const char *dialect, const char *arch, tpi_gpu_hash source, size_t *bytes);
/* Can a device run code that was made for `code`? How well: 0 not at all, otherwise more is better. */
int tpi_gpu_archive_fits(const char *device, const char *code);
#endif
