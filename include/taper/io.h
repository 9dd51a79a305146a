/* Tensors in files: named arrays in a NumPy .npz, written beside, checksummed, synced and renamed, so nothing is lost. */
#ifndef TAPER_IO_H
#define TAPER_IO_H
#include <taper/tensor.h>

TP_BEGIN

/* Writes the named tensors to `path` (np.load reads it). The old file stays until the new one is complete on disk. */
TP_API bool tp_save_arrays(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors);

/* An opened array file. Names and order are as written. */
typedef struct tp_array_file tp_array_file;
TP_API tp_array_file *tp_open_arrays(const char *path); /* checks the file's structure */
TP_API int64_t tp_array_count(const tp_array_file *file);
TP_API const char *tp_array_name(const tp_array_file *file, int64_t i);
TP_API tp_tensor *tp_read_array(tp_array_file *file, const char *name); /* checks its checksum */
TP_API void tp_close_arrays(tp_array_file *file);

/* Copies each named array of the file into the tensor of the same name: shapes must agree. Nothing is changed if anything fails. */
TP_API bool tp_load_arrays(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors);

TP_END
#endif
