/* Storage that processes share: memory behind a file descriptor, which goes to another process over a socket or by its
 * place in /proc. The memory is gone when the last process that maps it or holds a descriptor of it is, however it
 * ended. */
#ifndef TAPER_SHARE_H
#define TAPER_SHARE_H
#include <taper/tensor.h>

TP_BEGIN

/* Zeroed. Takes nothing from /dev/shm where the kernel has memory files of its own (Linux 3.17); elsewhere an unnamed
 * file there, or in TMPDIR when that is full. The environment's TAPER_SHARED names another folder. Too little room is
 * an error here, never a signal later. */
TP_API tp_storage *tp_storage_new_shared(int64_t bytes);
/* The same in a file of that name, which must not exist; it goes when this process lets go of the storage. No
 * descriptor stays open. */
TP_API tp_storage *tp_storage_new_shared_file(const char *path, int64_t bytes);
/* The storage itself if others can map it, else a shared copy (in a file of that name, if path is not NULL). */
TP_API tp_storage *tp_storage_share(tp_storage *storage, const char *path);
/* What another process shared: `bytes` as there, the descriptor is taken over (not on failure) and kept open if `keep`,
 * so that it can be handed on. path, if not NULL, is remembered for the same purpose. */
TP_API tp_storage *tp_storage_from_shared(int fd, int64_t bytes, bool keep, const char *path);
/* The same, on loan: when this process lets go of the storage, the count beside the memory (below) goes down by one,
 * and its owner may use the memory for something else. A process that is forked meanwhile counts once more. The
 * descriptor is not kept. */
TP_API tp_storage *tp_storage_borrow_shared(int fd, int64_t bytes);

/* Is the memory shared with other processes? */
TP_API bool tp_storage_is_shared(const tp_storage *storage);
TP_API int tp_storage_shared_fd(const tp_storage *storage);           /* borrowed; -1 if there is none */
TP_API const char *tp_storage_shared_path(const tp_storage *storage); /* borrowed; NULL if there is none */
/* A number that lies beside the memory and that all its processes see, 0 at first: adds to it and returns the sum. For
 * counting messages under way that speak of the memory, by whose number its sender knows when to let go. */
TP_API int64_t tp_storage_shared_count(tp_storage *storage, int64_t add);

TP_END
#endif
