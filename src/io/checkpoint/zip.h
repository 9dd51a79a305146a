/* Zip archives, as much of them as array files need: stored members on writing, stored and deflated ones on reading,
 * zip64, CRC-32. */
#ifndef TPI_ZIP_H
#define TPI_ZIP_H
#include <taper/io.h>
#include "io/source.h"

/* ---- Writing: beside the file, then in its place ---- */
typedef struct tpi_zip_writer tpi_zip_writer;
typedef struct tpi_zip_piece {
    const void *data;
    size_t bytes;
} tpi_zip_piece;

/* Starts a new archive beside `path`, or into the sink if there is one. align: of each member's bytes within the file;
 * 1: none. */
tpi_zip_writer *tpi_zip_create(const char *path, const tp_sink *sink, size_t align);
/* Adds a member made of the pieces, one after the other. comment may be NULL. */
bool tpi_zip_add(tpi_zip_writer *w, const char *name, const char *comment, int npieces, const tpi_zip_piece *pieces);
/* Writes the directory and puts the archive in place of `path`, as tpi_writer_commit does. Frees w in any case. */
bool tpi_zip_commit(tpi_zip_writer *w);
void tpi_zip_abandon(tpi_zip_writer *w); /* NULL is fine */
extern uint64_t tpi_zip64_from;          /* sizes and offsets from here on take zip64 records; tests lower it */

/* ---- Reading ---- */
typedef struct tpi_zip_member {
    char *name; /* ends with 0, holds none */
    const char *comment;
    uint64_t bytes;  /* uncompressed */
    uint64_t packed; /* in the file */
    uint64_t at;     /* where the packed bytes start */
    uint64_t local;  /* where its local header starts */
    uint32_t crc;
    uint16_t method; /* 0 stored, 8 deflated */
} tpi_zip_member;

typedef struct tpi_zip {
    tpi_source source;
    int64_t n;
    tpi_zip_member *members; /* in the directory's order */
    char *texts;             /* their names and comments */
} tpi_zip;

/* Opens an archive and checks its structure: every member lies within the file, its local header agrees with the
 * directory, and no two share bytes. Takes the source over, also on failure. */
bool tpi_zip_open(tpi_zip *z, tpi_source source);
void tpi_zip_close(tpi_zip *z);

/* A member's uncompressed bytes, in order. After all were read, tpi_zip_end checks the CRC. */
typedef struct tpi_zip_stream tpi_zip_stream;
tpi_zip_stream *tpi_zip_begin(const tpi_zip *z, const tpi_zip_member *m);
bool tpi_zip_read(tpi_zip_stream *s, void *out, size_t bytes);
bool tpi_zip_end(
    tpi_zip_stream *s); /* false and an error unless everything was read and the checksum is right; frees s */
void tpi_zip_stop(tpi_zip_stream *s); /* frees s without looking; NULL is fine */
#endif
