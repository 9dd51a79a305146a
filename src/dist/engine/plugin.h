/* Finding engines. */
#ifndef TPI_DIST_PLUGIN_H
#define TPI_DIST_PLUGIN_H
#include "dist/engine/engine.h"

/* Of a backend's name, "nccl", or of what it names for each device, "cpu:gloo,cuda:nccl": which serves the host's
 * memory (in `text`, or NULL: any); and do GPUs go by NCCL? */
const char *tpi_host_backend(const char *backend, char *text,
                             size_t capacity); /* NULL with an error if it cannot be read */
bool tpi_gpus_by_nccl(const char *backend);
/* The engine that serves a backend: "gloo", "mpi", "tcp", "nccl", "ccl"; NULL picks by launcher and by what is there.
 * NULL with an error. */
const tpi_engine *tpi_engine_for(const char *backend);
/* The MPI that this process was launched by, where there is one and a plug-in for it; NULL without an error. */
const tpi_engine *tpi_launching_engine(void);
/* Where MPI started this process and should carry a backend's messages, but cannot: the reason. NULL otherwise. */
const char *tpi_why_no_mpi(const char *backend);
#endif
