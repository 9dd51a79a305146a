/* Tensors in files: PyTorch's .pt, safetensors, NumPy's .npz. What is written grows beside the old file, is
 * checksummed, synced and renamed, so nothing is lost. Reading executes nothing: a file holds values, not programs. */
#ifndef TAPER_IO_H
#define TAPER_IO_H
#include <taper/tensor.h>

TP_BEGIN

/* ---- Named tensors ---- */
/* Writes the named tensors to `path`; its ending says how: .safetensors, .npz, and PyTorch's format for any other (a
 * dict of them, which torch.load reads; tensors that share memory will again). The old file stays until the new one is
 * complete on disk. */
TP_API bool tp_save(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors);
/* Copies each named tensor of the file, of any format, into the tensor given: shapes must agree. Nothing is changed if
 * anything fails. */
TP_API bool tp_load(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors);

typedef enum tp_file_kind {
    TP_FILE_UNKNOWN = 0,
    TP_FILE_PT,     /* PyTorch's: a zip archive with a pickle */
    TP_FILE_PT_OLD, /* the one before that: read, not written */
    TP_FILE_SAFETENSORS,
    TP_FILE_NPZ,   /* NumPy's: a zip archive of arrays */
    TP_FILE_NPY,   /* NumPy's: one array */
    TP_FILE_PICKLE /* a pickle alone, of values without tensors; read where the options say so */
} tp_file_kind;

/* ---- Checkpoints as trees of values ----
 * A .pt holds one value, usually a dict: {"model": {"fc.weight": a tensor, ...}, "optimizer": {...}, "epoch": 3}.
 *
 *     tp_file *file = tp_open_file("last.pt", NULL);
 *     const tp_saved *model = tp_saved_get(tp_file_value(file), "model");
 *     tp_tensor *weight = tp_saved_tensor(tp_saved_get(model, "fc.weight"));
 *     int64_t epoch = tp_scalar_to_int(tp_saved_number(tp_saved_get(tp_file_value(file), "epoch")));
 *     tp_close_file(file);
 *
 * Functions given NULL return NULL (or 0), so a walk is checked once, at its end. */
typedef struct tp_file tp_file;
typedef struct tp_saved tp_saved; /* a value in a file; lives as long as the file is open */

typedef enum tp_saved_kind {
    TP_SAVED_NOTHING = 0, /* there is no value: tp_saved_kind_of(NULL) */
    TP_SAVED_NONE,        /* Python's None */
    TP_SAVED_NUMBER,      /* bool, integer, float, complex */
    TP_SAVED_LONG,        /* an integer beyond 64 bits: its bytes, two's complement, lowest first */
    TP_SAVED_TEXT,        /* UTF-8 */
    TP_SAVED_BYTES,
    TP_SAVED_LIST,
    TP_SAVED_TUPLE,
    TP_SAVED_SET,
    TP_SAVED_DICT,
    TP_SAVED_TENSOR,
    TP_SAVED_STORAGE, /* memory by itself */
    TP_SAVED_DTYPE,   /* text: "float32" */
    TP_SAVED_DEVICE,  /* text: "cuda:0" */
    TP_SAVED_SIZE,    /* a shape: items are numbers */
    TP_SAVED_GLOBAL,  /* a class or function that the reader was told to let through; text: "module.name" */
    TP_SAVED_OBJECT   /* what such a class or function would make; nothing was called */
} tp_saved_kind;

typedef struct tp_file_options {
    int64_t size; /* sizeof(tp_file_options), set by the caller: fields are only ever added */
    bool map; /* tensors look at the file itself, mapped into memory: nothing is read before it is used, or checked */
    bool map_shared;  /* what is written to them reaches the file */
    bool any_global;  /* let every class and function through, as values that say what they are */
    int64_t nallowed; /* let these through: "module.name" */
    const char *const *allowed;
    const void *memory; /* read these bytes instead of a file; they stay while the file is open */
    int64_t memory_bytes;
    bool pickle;     /* it is a pickle alone, as Python's pickle.dump writes them */
    bool big_endian; /* the byte order of a .pt that does not say its own */
} tp_file_options;

/* Opens a file of any of the formats; what it holds says which. A .pt may be any value, .safetensors and .npz are dicts
 * of tensors, a .npy is a tensor. options may be NULL. With memory, path is what messages call it. */
TP_API tp_file *tp_open_file(const char *path, const tp_file_options *options);
TP_API void tp_close_file(tp_file *file); /* tensors that were taken from it live on; NULL is fine */
TP_API const tp_saved *tp_file_value(tp_file *file);

/* What kind of value it is. */
TP_API tp_saved_kind tp_saved_kind_of(const tp_saved *v);
TP_API int64_t tp_saved_count(const tp_saved *v);                 /* of items, of a dict's pairs, of a text's bytes */
TP_API const tp_saved *tp_saved_at(const tp_saved *v, int64_t i); /* an item, a dict's value */
/* A key of a dict, by its pair's number. */
TP_API const tp_saved *tp_saved_key_at(const tp_saved *v, int64_t i);
TP_API const tp_saved *tp_saved_get(const tp_saved *v, const char *key); /* of a dict; an error if it is not there */
TP_API const tp_saved *tp_saved_get_int(const tp_saved *v, int64_t key); /* of a dict by number, of a list by place */
/* Is the key in the dict? */
TP_API bool tp_saved_has(const tp_saved *v, const char *key);
/* The number that it is. */
TP_API tp_scalar tp_saved_number(const tp_saved *v);
TP_API const char *tp_saved_text(const tp_saved *v); /* of texts, bytes, dtypes, devices, globals; ends with 0 */
/* reads it; tensors that shared memory when saved share it again */
TP_API tp_tensor *tp_saved_tensor(const tp_saved *v);
/* tp_load from a dict in a file: tp_saved_load(tp_saved_get(value, "model"), n, names, tensors). */
TP_API bool tp_saved_load(const tp_saved *dict, int64_t n, const char *const *names, tp_tensor *const *tensors);

/* The rest is for language bindings, which make objects of their own from what a file holds. */
typedef enum tp_saved_part {
    TP_PART_CALL,    /* of an object: the global that makes it */
    TP_PART_ARGS,    /* its arguments, a tuple */
    TP_PART_KWARGS,  /* by name, a dict */
    TP_PART_STATE,   /* of an object, a dict, a tensor: attributes that were saved with it */
    TP_PART_STORAGE, /* of a tensor: the memory it is a view of */
    TP_PART_ITEMS,   /* of an object: what is appended to it, a list */
    TP_PART_PAIRS    /* of an object: what is put into it by key, a dict */
} tp_saved_part;
TP_API const tp_saved *tp_saved_part_of(const tp_saved *v,
                                        tp_saved_part part); /* NULL without an error if it has none */
typedef struct tp_saved_about {
    int64_t size;           /* sizeof(tp_saved_about), set by the caller: fields are only ever added */
    const char *class_name; /* "collections.OrderedDict", "torch.nn.parameter.Parameter"; NULL for plain values */
    bool by_new;            /* an object made by class.__new__(class, *args) */
    bool requires_grad;     /* of a tensor */
    tp_dtype dtype;         /* of a tensor or a storage (TP_NO_DTYPE: bytes) */
    tp_ints shape, strides; /* of a tensor */
    int64_t offset;         /* of a tensor in its storage, of a storage in the one that it is a part of, in elements */
    const char *key;        /* of a storage: its name in the file */
    const char *location;   /* of a storage: the device it was on, "cuda:0" */
    int64_t bytes;          /* of a storage, of the whole one */
    int64_t numel;          /* of a storage, of the part */
    bool conjugated;        /* of a tensor: it is the conjugate of what its storage holds */
    bool negated;           /* of a tensor: it is the negative of that */
} tp_saved_about;
TP_API bool tp_saved_describe(const tp_saved *v,
                              tp_saved_about *about);   /* false and an error where Taper lacks its dtype */
TP_API tp_storage *tp_saved_storage(const tp_saved *v); /* reads it, once; a reference for the caller */

/* The parts of the file itself. */
TP_API tp_file_kind tp_file_kind_of(const tp_file *file);
/* Of PyTorch's old format, once its value was read: where it ends; others may follow in the same file. */
TP_API int64_t tp_file_end(tp_file *file);
TP_API bool tp_file_pickle(tp_file *file, const void **data,
                           int64_t *bytes); /* of a zip file: the pickle, while the file is open */
TP_API tp_storage *tp_file_storage(tp_file *file, const char *key, int64_t bytes,
                                   tp_dtype dtype); /* by name, for those who read the pickle */
/* classes and functions that the pickle names beyond those of values */
TP_API int64_t tp_file_global_count(tp_file *file);
TP_API const char *tp_file_global_at(tp_file *file, int64_t i);

/* ---- Checkpoints of one's own ----
 *     tp_file *file = tp_new_file();
 *     tp_saved *model = tp_put_dict(file, NULL, "model");
 *     tp_put_tensor(file, model, "fc.weight", weight);
 *     tp_put_number(file, NULL, "epoch", tp_int(3));
 *     bool saved = tp_save_file(file, "last.pt");          // one check is enough: what could not be put in fails here
 *     tp_close_file(file);
 *
 * `into` is a dict or a list of the file, NULL for the dict that the file is. A key counts in a dict only; in a list
 * what is put goes to the end. */
TP_API tp_file *tp_new_file(void);
TP_API bool tp_put_tensor(tp_file *file, tp_saved *into, const char *key,
                          tp_tensor *t); /* no copy: its memory is read when the file is saved */
TP_API bool tp_put_number(tp_file *file, tp_saved *into, const char *key, tp_scalar number);
TP_API bool tp_put_text(tp_file *file, tp_saved *into, const char *key, const char *text);
TP_API bool tp_put_none(tp_file *file, tp_saved *into, const char *key);
TP_API tp_saved *tp_put_dict(tp_file *file, tp_saved *into, const char *key);
TP_API tp_saved *tp_put_dict_int(tp_file *file, tp_saved *into,
                                 int64_t key); /* for dicts by number, as those of optimisers' states */
TP_API tp_saved *tp_put_list(tp_file *file, tp_saved *into, const char *key);
TP_API tp_saved *tp_put_tuple(tp_file *file, tp_saved *into, const char *key); /* filled as a list is */
/* Writes what a file holds, new or read (values alone: no objects of classes that were let through), in PyTorch's
 * format. */
TP_API bool tp_save_file(tp_file *file, const char *path);
/* A function that takes a file's bytes, one after the other; false stops with an error. */
typedef struct tp_sink {
    bool (*write)(void *context, const void *data, size_t bytes);
    void *context;
} tp_sink;
/* The same for one value of the file, which becomes what the new file is; NULL for the whole. Into the sink if there is
 * one: then path names the folder inside the file, and is what messages call it. */
TP_API bool tp_save_value(tp_file *file, const tp_saved *value, const char *path, const tp_sink *sink);

/* ---- Writing ---- */

/* A .pt from a pickle that somebody else made, with the storages that it names "0", "1", ... Into the sink if there is
 * one, otherwise to `path`. `archive` is the name of the folder inside the file. */
TP_API bool tp_write_pt(const char *path, const tp_sink *sink, const char *archive, const void *pickle, int64_t bytes,
                        int64_t n, tp_storage *const *storages);
/* How deep values in a pickle may be nested, for those who read it by recursion. */
enum { TP_DEEPEST_PICKLE = 1000 };
/* The same pickle with modules named otherwise: rename gives a module's new name, or NULL to leave it. A pickle that is
 * nested deeper than TP_DEEPEST_PICKLE is an error. The result is the caller's to release with tp_free_bytes. */
TP_API void *tp_pickle_rename(const void *pickle, int64_t bytes,
                              const char *(*rename)(void *context, const char *module), void *context,
                              int64_t *result_bytes);
TP_API void tp_free_bytes(void *bytes);
/* The first bytes of a file as memory. shared: what is written reaches the file, which is made or grown if it must be;
 * otherwise it stays as it is and has to be long enough. bytes 0: all of it. */
TP_API tp_storage *tp_storage_from_file(const char *path, bool shared, int64_t bytes);
/* A file from pieces of memory: written beside, synced, renamed. */
TP_API bool tp_write_pieces(const char *path, int64_t n, const void *const *pieces, const int64_t *bytes);

TP_END

/* What TP_DEFAULTS gives. */
#define TP_FILE_DEFAULTS_ .size = (int64_t)sizeof(tp_file_options)
#endif
