/* Opening NCCL or RCCL. One library serves a process: there is one kind of GPU with it. */
#include "dist/collective/nccl.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <taper/dist.h>
#include <taper/gpu.h>
#include "device/cuda/driver_api.h"

static struct {
    pthread_mutex_t lock;
    bool tried[TP_DEVICE_TYPES], there[TP_DEVICE_TYPES];
    tpi_nccl of[TP_DEVICE_TYPES];
} opened = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *find(tp_device_type type) {
    static const char *const nccl[] = {"libnccl.so.2", "libnccl.so", NULL}, *const rccl[] = {"librccl.so.1",
                                                                                             "librccl.so", NULL};
    const char *wish = getenv("TAPER_NCCL_LIBRARY");
    bool named = wish && *wish;
    if ((type != TP_CUDA && !named) || tp_gpu_count(type) < 1) return NULL; /* OpenCL is not opened in vain */
    if (named) return dlopen(wish, RTLD_NOW | RTLD_LOCAL);
    return tpi_cuda_library(tpi_cuda.hip ? rccl : nccl);
}

static bool fill(void *library, tpi_nccl *n) {
    const tpi_symbol needed[] = {{"ncclGetVersion", &n->version},
                                 {"ncclGetUniqueId", &n->unique_id},
                                 {"ncclCommInitRank", &n->init},
                                 {"ncclCommDestroy", &n->destroy},
                                 {"ncclCommAbort", &n->abort},
                                 {"ncclCommGetAsyncError", &n->async_error},
                                 {"ncclGetErrorString", &n->error_text},
                                 {"ncclGroupStart", &n->group_start},
                                 {"ncclGroupEnd", &n->group_end},
                                 {"ncclAllReduce", &n->all_reduce},
                                 {"ncclReduce", &n->reduce},
                                 {"ncclBroadcast", &n->broadcast},
                                 {"ncclAllGather", &n->all_gather},
                                 {"ncclReduceScatter", &n->reduce_scatter},
                                 {"ncclSend", &n->send},
                                 {"ncclRecv", &n->recv}};
    const tpi_symbol later = {"ncclGetLastError", &n->last_error};
    if (!tpi_cuda_symbols(library, needed, sizeof needed / sizeof *needed)) return false;
    tpi_cuda_symbols(library, &later, 1);
    return n->version(&n->number) == 0;
}

const tpi_nccl *tpi_nccl_for(tp_device_type type) {
    if (type != TP_CUDA && type != TP_XPU) return NULL;
    pthread_mutex_lock(&opened.lock);
    if (!opened.tried[type]) {
        opened.tried[type] = true;
        void *library = find(type);
        opened.there[type] = library && fill(library, &opened.of[type]);
    }
    pthread_mutex_unlock(&opened.lock);
    return opened.there[type] ? &opened.of[type] : NULL;
}

int tp_dist_nccl_version(void) {
    const tpi_nccl *n = tpi_nccl_for(TP_CUDA);
    return n ? n->number : 0;
}
