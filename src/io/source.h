/* Where a file's bytes are read from: an open file, or memory that somebody else keeps. Offsets are checked against its
 * size. */
#ifndef TPI_SOURCE_H
#define TPI_SOURCE_H
#include <taper/base.h>

typedef struct tpi_source {
    int fd;                      /* -1: memory */
    const unsigned char *memory; /* the caller's; it outlives the source */
    uint64_t bytes;
    char *path; /* for messages: a file's path, or what the caller calls the memory; NULL once closed */
} tpi_source;

bool tpi_source_open(tpi_source *s, const char *path); /* a plain file */
bool tpi_source_over(tpi_source *s, const void *memory, size_t bytes, const char *name);
void tpi_source_close(tpi_source *s); /* a closed one is fine */
/* false and an error if the bytes are not there. */
bool tpi_source_read(const tpi_source *s, uint64_t at, void *out, size_t bytes);
bool tpi_source_try(const tpi_source *s, uint64_t at, void *out,
                    size_t bytes); /* the same without an error, for loops whose threads cannot give one */

/* The whole file mapped into memory, private to this process: what is written there never reaches the file. `shared`:
 * it does. Every holder releases it once; the last one unmaps it. */
typedef struct tpi_mapping tpi_mapping;
tpi_mapping *tpi_source_map(const tpi_source *s, bool shared);
unsigned char *tpi_mapping_data(const tpi_mapping *m);
tpi_mapping *tpi_mapping_retain(tpi_mapping *m);
void tpi_mapping_release(void *m); /* NULL is fine; a storage's release function */
#endif
