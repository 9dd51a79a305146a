/* zlib, or, in a build without it, its names for what reads files: files that are not packed are read as ever, packed
 * ones are refused by their readers, which ask TPI_ZLIB first. Nothing else includes <zlib.h>. */
#ifndef TPI_BASE_ZLIB_H
#define TPI_BASE_ZLIB_H

#define TPI_NO_ZLIB "this build of Taper has no zlib, which unpacks it (taper info; docs/installing.md)"

#ifdef TPI_HAVE_ZLIB
#include <zlib.h>
enum { TPI_ZLIB = 1 };
#else
#include <stdio.h>
enum {
    TPI_ZLIB = 0,
    Z_OK = 0,
    Z_STREAM_END = 1,
    Z_MEM_ERROR = -4,
    Z_VERSION_ERROR = -6,
    Z_NO_FLUSH = 0,
    Z_FINISH = 4,
    MAX_WBITS = 15
};

typedef struct z_stream {
    const unsigned char *next_in;
    unsigned char *next_out;
    unsigned avail_in, avail_out;
    unsigned long total_out;
    void *(*zalloc)(void *context, unsigned n, unsigned size);
    void (*zfree)(void *context, void *block);
} z_stream;

static inline int inflateInit2(z_stream *z, int bits) {
    (void)z;
    (void)bits;
    return Z_VERSION_ERROR;
}
static inline int inflateSetDictionary(z_stream *z, const unsigned char *text, unsigned bytes) {
    (void)z;
    (void)text;
    (void)bytes;
    return Z_VERSION_ERROR;
}
static inline int inflate(z_stream *z, int flush) {
    (void)z;
    (void)flush;
    return Z_VERSION_ERROR;
}
static inline int inflateEnd(z_stream *z) {
    (void)z;
    return Z_OK;
}

typedef FILE *gzFile;
static inline gzFile gzopen(const char *path, const char *mode) { return fopen(path, mode); }
static inline int gzread(gzFile file, void *into, unsigned bytes) {
    size_t got = fread(into, 1, bytes, file);
    return got == 0 && ferror(file) ? -1 : (int)got;
}
static inline int gzclose(gzFile file) { return fclose(file); }
#endif
#endif
