/* Opened checkpoints: what the formats share. Each format reads a file's structure into a tree of values whose storages
 * say where their bytes are; checkpoint.c reads those. */
#ifndef TPI_CHECKPOINT_H
#define TPI_CHECKPOINT_H
#include "io/checkpoint/pickle.h"
#include "io/events/wire.h"
#include "io/checkpoint/zip.h"

struct tp_file {
    tpi_arena arena;
    tp_file_options options;
    tp_file_kind format;
    tpi_source source; /* of a file that is no zip archive; an archive has its own */
    tpi_zip zip;
    bool swapped;             /* a .pt whose numbers are in the other byte order */
    bool unchecked;           /* a .pt that was written without checksums */
    char *prefix;             /* of a .pt's members: "model/" */
    const char *script;       /* of a TorchScript program: the pickle that is read, "data" or "constants"; else NULL */
    tpi_zip_member **members; /* of a zip archive, sorted by name */
    unsigned char *pickle;    /* of a .pt in a zip archive, or the whole file */
    size_t pickle_bytes;
    tpi_mapping *mapping; /* with options.map */
    tpi_store **stores;   /* by hash of their key; stores_capacity is a power of two */
    int64_t nstores, stores_capacity;
    bool was_read; /* value is there, or could not be read */
    tp_saved *value;
    tp_saved *globals;
    uint64_t end; /* of an old .pt: behind the last storage */
    bool failed;  /* a new one: something could not be put into it */
};

void tpi_file_forget_tensors(tp_file *file); /* lets go of the file itself too: what it holds besides tensors stays */
const char *tpi_file_path(const tp_file *file); /* for messages */
/* As tp_open_file, of a TorchScript program, whose values are in two pickles: "data" and "constants". */
tp_file *tpi_open_script(const char *path, const tp_file_options *options, const char *pickle);

/* ---- For the formats ---- */
tpi_store *tpi_file_store(const tp_file *file, const char *key); /* NULL: none of that name yet */
bool tpi_file_add_store(tp_file *file, tpi_store *store);        /* whose key is none of those there */
bool tpi_file_read_member(const tp_file *file, const tpi_zip_member *m,
                          void *out);      /* all of it; the checksum must agree */
tpi_pickle tpi_file_pickle(tp_file *file); /* how its pickles are to be read */
/* A tensor that is a storage of its own, contiguous or (fortran) with its first dim the fastest: an array of .npz and
 * the like. The store's key, place and dtype are set; its sizes are worked out here. */
tp_saved *tpi_file_array(tp_file *file, tpi_store *store, tp_ints shape, bool fortran);

/* PyTorch's zip archives (pt_zip.c): members, the pickle, the byte order; what a persistent id stands for. */
bool tpi_zip_sort(tp_file *file); /* two members of one name are refused */
bool tpi_pt_open(tp_file *file);
bool tpi_pt_is_zip(const tp_file *file);                                                  /* of an open archive */
tpi_zip_member *tpi_pt_member(const tp_file *file, const char *folder, const char *name); /* NULL: there is none */
tp_saved *tpi_pt_persistent(void *context, tp_saved *id);                                 /* context: the file */

bool tpi_pt_is_legacy(const tpi_source *source); /* pt_legacy.c */
tp_saved *tpi_pt_read_legacy(tp_file *file);
tp_saved *tpi_npz_read(tp_file *file);     /* npz.c: a dict of arrays */
bool tpi_npy_is(const tpi_source *source); /* npz.c: one array */
tp_saved *tpi_npy_read(tp_file *file);
bool tpi_safetensors_is(const tpi_source *source); /* safetensors.c */
tp_saved *tpi_safetensors_read(tp_file *file);

/* The pickle of a value (pickle_write.c). name(context, v) gives the key of a storage, NULL and an error on failure.
 * objects: classes that a reader lets through are written too. */
bool tpi_pickle_write(tpi_wire *out, const tp_saved *v, const char *path,
                      const char *(*name)(void *context, const tp_saved *storage), void *context, bool objects);
bool tpi_pt_write_tensor(const tp_sink *sink, tp_tensor *t); /* pt_new.c: a .pt whose value is the tensor */
#endif
