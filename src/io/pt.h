/* Opened .pt files: what the zip format, the one before it and the writer share. */
#ifndef TPI_PT_H
#define TPI_PT_H
#include "io/pickle.h"
#include "io/zip.h"

struct tp_file {
    tpi_arena arena;
    tp_file_options options;
    tpi_source source;        /* of an old file; a zip file's is the archive's */
    tpi_zip zip;
    bool is_zip, swapped;     /* swapped: elements are in the other byte order */
    bool unchecked;           /* a zip file written without checksums */
    char *prefix;             /* of a zip file's members: "model/" */
    tpi_zip_member **members; /* sorted by name */
    unsigned char *pickle;    /* of a zip file */
    size_t pickle_bytes;
    tpi_mapping *mapping;     /* with options.map */
    tpi_store **stores;       /* by hash of their key; stores_room is a power of two */
    int64_t nstores, stores_room;
    bool was_read;            /* value is there, or could not be read */
    tp_saved *value;
    tp_saved *globals;
};

/* The persistent ids of PyTorch's pickles: ('storage', type, key, location, number of elements[, view]). context: the file. */
tp_saved *tpi_pt_persistent(void *context, tp_saved *id);
tpi_store *tpi_pt_store(const tp_file *file, const char *key); /* NULL: none of that name yet */
tpi_pickle tpi_pt_pickle(tp_file *file); /* how its pickles are to be read */

/* The old format (pt_legacy.c): reads the value, and notes where each storage's bytes are. */
bool tpi_pt_is_legacy(const tpi_source *source);
tp_saved *tpi_pt_read_legacy(tp_file *file);
#endif
