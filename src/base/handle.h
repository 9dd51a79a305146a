/* Handles of the public API (tensors, modules, optimisers, loaders ...) and what TAPER_DEBUG=1 knows of them.
 *
 * Tensors and the handles that a training's step uses carry a word, `alive`, by which one that was released is told
 * from one that is there, as long as its memory was not given to another. With TAPER_DEBUG=1 it is given to none, and
 * a table has every handle: what kind it is, whether it was released, and the calls by which it was made. TPI_GIVEN,
 * TPI_ENDS and TPI_ENDED (error.h) ask that table, so that kinds without the word are checked too. Nodes, storages and
 * lists are in it from their end on. */
#ifndef TPI_HANDLE_H
#define TPI_HANDLE_H
#include "base/error.h"

/* In the member `alive` until the end; that is not among the first 16 bytes, which free lists write to. */
#define TPI_HANDLE_ALIVE 0x7e503a1eu

/* Enters a handle that was just made into the table. `kind` is a word, as "tensor". */
void tpi_handle_note(const void *handle, const char *kind);
static inline void tpi_handle_made(const void *handle, const char *kind) {
    if (__builtin_expect(tpi_debugging, 0)) tpi_handle_note(handle, kind);
}
/* The end of a handle from tpi_new, and of one from tpi_malloc: gives the memory back, but not with TAPER_DEBUG=1. */
void tpi_handle_delete(void *handle, size_t bytes);
void tpi_handle_mfree(void *handle);
/* The end of one from elsewhere: true with TAPER_DEBUG=1, and then its memory must stay. */
bool tpi_handle_kept(const void *handle);

/* How much of a function's name programs write: tp_sum of tp_sum_with, tp_call of tp_call_one. */
int tpi_spoken(const char *function);
/* The public function that the program called, "tp_sum" for tp_sum_with; NULL where the stack does not tell: in a
 * static library, and in threads of the library's own. */
const char *tpi_called_function(char *out, size_t capacity);

bool tpi_handle_given(const void *handle, uint32_t alive, const char *function, const char *argument, const char *what);
/* As TPI_GIVEN, also false for a handle that was released. */
#define TPI_HANDLE_GIVEN(h, what) tpi_handle_given(h, (h) ? (h)->alive : 0, __func__, #h, what)

/* For the function that ends a handle without the word: is there something to end? NULL is not, silently; one that was
 * released before is an error. */
static inline bool tpi_handle_ends(const void *handle, const char *function, const char *argument, const char *what) {
    return handle && (!tpi_debugging || tpi_given(handle, function, argument, what));
}
#define TPI_ENDS(h, argument, what) tpi_handle_ends(h, __func__, argument, what)
#endif
