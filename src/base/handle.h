/* Handles that are no tensors (modules, optimisers, schedules) carry a word, as tensors do, by which one that was
 * released is told from one that is there, as long as its memory was not given to another; with TAPER_DEBUG=1 it is
 * given to none. */
#ifndef TPI_HANDLE_H
#define TPI_HANDLE_H
#include "base/error.h"

/* In the member `alive` until the end; that is not among the first 16 bytes, which free lists write to. */
#define TPI_HANDLE_ALIVE 0x7e503a1eu

bool tpi_keeps_freed(void); /* TAPER_DEBUG=1: freed headers are never used again */
void tpi_handle_delete(void *handle, size_t bytes);
bool tpi_handle_given(const void *handle, uint32_t alive, const char *function, const char *argument, const char *what);
/* As TPI_GIVEN, also false for a handle that was released. */
#define TPI_HANDLE_GIVEN(h, what) tpi_handle_given(h, (h) ? (h)->alive : 0, __func__, #h, what)
#endif
