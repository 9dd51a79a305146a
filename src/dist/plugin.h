/* Finding engines. */
#ifndef TPI_DIST_PLUGIN_H
#define TPI_DIST_PLUGIN_H
#include "dist/engine.h"

/* The engine that serves a backend: "gloo", "mpi", "tcp", "nccl", "ccl"; NULL picks by launcher and by what is there. NULL with an error. */
const tpi_engine *tpi_engine_for(const char *backend);
/* The MPI that this process was launched by, where there is one and a plug-in for it; NULL without an error. */
const tpi_engine *tpi_launching_engine(void);
#endif
