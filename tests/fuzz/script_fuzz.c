/* The code of TorchScript files: the input is a file of it, which is parsed and bound to operators, words and classes.
 * It is not run: a program may loop for ever. */
#include "base/memory.h"
#include "fuzz.h"
#include "io/script/program.h"
#include <pthread.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    tpi_program *p = tpi_new0(sizeof *p);
    if (!p) return 0;
    p->refs = 1;
    p->path = "fuzz";
    pthread_mutex_init(&p->heap.lock, NULL);
    const char *text = tpi_arena_text(&p->arena, data, n);
    if (text && tpi_script_parse(&p->arena, "__torch__", "code/__torch__.py", text, n, &p->declared))
        tpi_program_bind(p);
    tpi_program_release(p);
    return 0;
}
