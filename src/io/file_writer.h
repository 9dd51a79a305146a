/* Writes a file that takes its place only when it is complete, or hands the bytes to a function of the caller's. */
#ifndef TPI_FILE_WRITER_H
#define TPI_FILE_WRITER_H
#include <taper/io.h>

typedef struct tpi_file_writer {
    tp_sink sink; /* write is NULL: a file */
    int fd;
    char *path;      /* of the file to replace, links followed */
    char *temporary; /* its name beside that while it grows; NULL: it has none yet, or the path is no plain file and
                        written in place */
    bool in_place;
    uint64_t at;    /* bytes written */
    uint64_t begun; /* of them, those that the disk was told to write */
} tpi_file_writer;

/* Starts a new file beside `path`. It keeps the mode of the file it will replace; a link stays one. */
bool tpi_writer_open(tpi_file_writer *o, const char *path);
void tpi_writer_into(tpi_file_writer *o, tp_sink sink);
bool tpi_writer_write(tpi_file_writer *o, const void *data, size_t bytes);
/* Syncs the file, puts it in place of `path`, syncs the folder. On failure what was at `path` stays and nothing is left
 * beside it. Either way o is done with. */
bool tpi_writer_commit(tpi_file_writer *o);
void tpi_writer_abandon(tpi_file_writer *o);
#endif
