/* What the fuzz targets share: a target is one file with LLVMFuzzerTestOneInput, which gives a parser bytes and looks
 * at everything that comes out. An error is an answer; a crash, a report of a sanitizer, a huge allocation or a run
 * without end is a finding. */
#ifndef TPI_FUZZ_H
#define TPI_FUZZ_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <taper/taper.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

void fuzz_begin(void);                                /* first in every target: one thread, no error from before */
const char *fuzz_path(const uint8_t *data, size_t n); /* a file in memory with these bytes; good until the next call */
void fuzz_file(const uint8_t *data, size_t n,
               bool pickle); /* a checkpoint of any format: opened, walked, every tensor read */
/* A .pt with this pickle and two storages, "0" of 64 bytes and "1" of 256: what a pickle says is behind checksums that
 * no fuzzer guesses. For free(). */
uint8_t *fuzz_archive(const uint8_t *pickle, size_t n, size_t *bytes);
void fuzz_touch(tp_tensor *t); /* reads every element, if there are not too many */
#endif
