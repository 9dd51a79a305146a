/* Whole files: read into a tensor of bytes, written from memory. For images and sounds; what must survive a crash is
 * written by the zip writer. */
#ifndef TPI_FILE_H
#define TPI_FILE_H
#include "tensor/tensor.h"

tp_tensor *tpi_read_file(const char *path); /* uint8, one dimension; owned */
bool tpi_write_file(const char *path, const void *data, size_t n);

/* A file's bytes, in order: checks what the user gave and fills *data and *n. Owned; keeps the bytes alive. */
tp_tensor *tpi_file_bytes(const tp_tensor *bytes, const uint8_t **data, size_t *n);
tp_tensor *tpi_bytes_tensor(const void *data, size_t n); /* a copy, uint8 in one dimension; owned */
#endif
