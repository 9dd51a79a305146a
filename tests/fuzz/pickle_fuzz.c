/* Pickles: as what a .pt holds, with storages; alone; and renamed. */
#include "fuzz.h"
#include <stdlib.h>

static const char *rename_module(void *context, const char *module) {
    (void)context;
    return module[0] == 't' ? "other.module" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    size_t bytes;
    uint8_t *archive = fuzz_archive(data, n, &bytes);
    fuzz_file(archive, bytes, false);
    free(archive);
    fuzz_file(data, n, true);
    int64_t renamed;
    tp_free_bytes(tp_pickle_rename(data, (int64_t)n, rename_module, NULL, &renamed));
    return 0;
}
