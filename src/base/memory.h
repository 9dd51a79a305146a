/* Memory is kept, not returned: a caching allocator with size classes and a thread-local fast path.
 * Every allocation of the library comes through here, so that tests can make any of them fail. */
#ifndef TPI_MEMORY_H
#define TPI_MEMORY_H
#include <taper/base.h>

#define TPI_ALIGN 64 /* every block starts on a cache line, and its size is a multiple of one */

/* Data of tensors and scratch space: 64-byte aligned, not cleared. NULL and an error on failure. tpi_free needs the
 * size that was asked for. A zero-byte request returns a valid block. */
void *tpi_alloc(size_t bytes);
void tpi_free(void *block, size_t bytes);

/* Small bookkeeping objects (tensor headers, nodes, arrays): 16-byte aligned, same free lists, cleared by tpi_new0. */
void *tpi_new(size_t bytes);
void *tpi_new0(size_t bytes);
void tpi_delete(void *block, size_t bytes);

/* For blocks whose size the owner does not want to remember (lists, strings, custom contexts). */
void *tpi_malloc(size_t bytes);
void *tpi_realloc(void *block, size_t bytes);
void tpi_mfree(void *block);
char *tpi_strdup(const char *text);

/* Gives the pages inside a part of a block back to the system, where that is worth a call. The addresses stay: what is
 * read there next is zeros. */
void tpi_discard(void *part, size_t bytes);

/* Tests: the nth allocation from now on (1 is the next), on any thread, fails, and all after it if `and_after`; 0 turns
 * it off. tpi_alloc_count counts allocations of all kinds since the start; tpi_alloc_live the live ones. */
void tpi_alloc_fail_at(int64_t nth, bool and_after);
int64_t tpi_alloc_count(void);
int64_t tpi_alloc_live(void);
#endif
