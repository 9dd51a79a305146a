/* Where a file's bytes are written to: a file that takes its place only when it is complete, or a function of the
 * caller's. */
#ifndef TPI_OUT_H
#define TPI_OUT_H
#include <taper/io.h>

typedef struct tpi_out {
    tp_sink sink; /* write is NULL: a file */
    int fd;
    char *path;      /* of the file to replace, links followed */
    char *temporary; /* its name beside that while it grows; NULL: it has none yet, or the path is no plain file and
                        written in place */
    bool in_place;
    uint64_t at;    /* bytes written */
    uint64_t begun; /* of them, those that the disk was told to write */
} tpi_out;

/* Starts a new file beside `path`. It keeps the mode of the file it will replace; a link stays one. */
bool tpi_out_open(tpi_out *o, const char *path);
void tpi_out_into(tpi_out *o, tp_sink sink);
bool tpi_out_write(tpi_out *o, const void *data, size_t bytes);
/* Syncs the file, puts it in place of `path`, syncs the folder. On failure what was at `path` stays and nothing is left
 * beside it. Either way o is done with. */
bool tpi_out_commit(tpi_out *o);
void tpi_out_abandon(tpi_out *o);
#endif
