/* NCCL's interface, and RCCL's, which is the same: the functions that are used, opened at run time. Declared here from
 * their documented ABI, so that no header of theirs is needed to build. Results are 0 or an error's number;
 * communicators and streams are theirs and the driver's. */
#ifndef TPI_DIST_NCCL_H
#define TPI_DIST_NCCL_H
#include "device/gpu/driver.h"

typedef struct tpi_nccl_id { /* by which the ranks of a communicator find each other */
    char bytes[128];
} tpi_nccl_id;

enum { TPI_NCCL_IN_PROGRESS = 7 }; /* a result that is no error */
enum {
    TPI_NCCL_INT8,
    TPI_NCCL_UINT8,
    TPI_NCCL_INT32,
    TPI_NCCL_UINT32,
    TPI_NCCL_INT64,
    TPI_NCCL_UINT64,
    TPI_NCCL_FLOAT16,
    TPI_NCCL_FLOAT32,
    TPI_NCCL_FLOAT64,
    TPI_NCCL_BFLOAT16
};
enum { TPI_NCCL_SUM, TPI_NCCL_PROD, TPI_NCCL_MAX, TPI_NCCL_MIN, TPI_NCCL_AVG };

typedef struct tpi_nccl {
    int number; /* 22703: version 2.27.3 */
    int (*version)(int *number);
    int (*unique_id)(tpi_nccl_id *id);
    int (*init)(void **comm, int n, tpi_nccl_id id, int rank);
    int (*destroy)(void *comm);
    int (*abort)(void *comm);
    int (*async_error)(void *comm, int *error);
    const char *(*error_text)(int error);
    const char *(*last_error)(void *comm); /* NULL before version 2.13 */
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *in, void *out, size_t n, int type, int op, void *comm, void *stream);
    int (*reduce)(const void *in, void *out, size_t n, int type, int op, int root, void *comm, void *stream);
    int (*broadcast)(const void *in, void *out, size_t n, int type, int root, void *comm, void *stream);
    int (*all_gather)(const void *in, void *out, size_t n, int type, void *comm, void *stream); /* n of each rank */
    int (*reduce_scatter)(const void *in, void *out, size_t n, int type, int op, void *comm,
                          void *stream); /* n of each result */
    int (*send)(const void *in, size_t n, int type, int peer, void *comm, void *stream);
    int (*recv)(void *out, size_t n, int type, int peer, void *comm, void *stream);
} tpi_nccl;

/* The library for a type of device: libnccl.so.2 for NVIDIA's, librccl.so.1 for AMD's, or the one that
 * TAPER_NCCL_LIBRARY names, for any. NULL, without an error, where there is no such device or no library. */
const tpi_nccl *tpi_nccl_for(tp_device_type type);
#endif
