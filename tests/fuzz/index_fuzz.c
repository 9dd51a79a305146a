/* The index of a sharded checkpoint: the input is the .metadata of a folder, from which two tensors are read. */
#include "fuzz.h"
#include "dist/checkpoint/sharded.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];

static void remove_folder(void) { rmdir(folder); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s", "/tmp/taper-fuzz-XXXXXX");
        if (!mkdtemp(folder) || atexit(remove_folder) != 0) abort();
    }
    char path[96];
    snprintf(path, sizeof path, "%s/.metadata", folder);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f)) abort();
    tpi_arena arena = {0};
    tpi_items items = {0};
    if (tpi_index_read(&arena, folder, &items))
        for (int64_t i = 0; i < items.n; i++) (void)strlen(items.v[i].box.name);
    tpi_arena_free(&arena);
    unlink(path);
    return 0;
}
