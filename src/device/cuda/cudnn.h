/* cuDNN 9 through its graph interface: descriptors with numbered attributes, put together into an operation graph for
 * which the library proposes engines; one of them becomes a plan. Numbers are the library's documented ones. */
#ifndef TPI_CUDNN_H
#define TPI_CUDNN_H
#include "device/cuda/plan_cache.h"

enum { /* what descriptors are of */
       DNN_POINTWISE = 0,
       DNN_CONVOLUTION = 1,
       DNN_ENGINE = 2,
       DNN_ENGINE_CONFIG = 3,
       DNN_HEURISTICS = 4,
       DNN_PLAN = 5,
       DNN_OP_CONV_FORWARD = 10,
       DNN_OP_CONV_GRAD_WEIGHT = 11,
       DNN_OP_CONV_GRAD_INPUT = 12,
       DNN_OP_POINTWISE = 13,
       DNN_GRAPH = 15,
       DNN_VARIANT = 16,
       DNN_TENSOR = 17,
       DNN_MATMUL = 18,
       DNN_OP_MATMUL = 19,
       DNN_REDUCTION = 21,
       DNN_OP_REDUCTION = 22
};
enum { /* types of attributes */
       DNN_T_HANDLE = 0,
       DNN_T_DATA_TYPE = 1,
       DNN_T_BOOL = 2,
       DNN_T_INT64 = 3,
       DNN_T_FLOAT = 4,
       DNN_T_DOUBLE = 5,
       DNN_T_POINTER = 6,
       DNN_T_CONV_MODE = 7,
       DNN_T_HEUR_MODE = 8,
       DNN_T_NOTE = 11,
       DNN_T_POINTWISE_MODE = 14,
       DNN_T_DESCRIPTOR = 15,
       DNN_T_REDUCTION_MODE = 18
};
enum {
    DNN_FLOAT = 0,
    DNN_DOUBLE = 1,
    DNN_HALF = 2,
    DNN_INT32 = 4,
    DNN_BFLOAT16 = 9,
    DNN_BOOLEAN = 11
}; /* data types */
enum {
    DNN_NOTE_TENSOR_CORE = 1 << 0,
    DNN_NOTE_DOWN_CONVERT = 1 << 1,
    DNN_NOTE_NONDETERMINISTIC = 1 << 4
}; /* bits of a mask: 1 << the library's number */

/* Descriptors under construction. The first failure stays in `failed`, and what follows does nothing; all are kept for
 * as long as the plan, which may refer to them. */
enum { TPI_DNN_MOST = 160 };
typedef struct tpi_dnn_build {
    void *desc[TPI_DNN_MOST];
    int n;
    bool failed;
} tpi_dnn_build;
void *tpi_dnn_new(tpi_dnn_build *b, int what);
void tpi_dnn_set(tpi_dnn_build *b, void *desc, int attribute, int type, int64_t n, const void *values);
void tpi_dnn_finish(tpi_dnn_build *b, void *desc);
/* A tensor in the device's memory, one between operations that is never written out, or a number that the call passes
 * (its pointer is the host's). */
typedef enum tpi_dnn_where { DNN_IN_MEMORY, DNN_INSIDE, DNN_NUMBER } tpi_dnn_where;
void *tpi_dnn_tensor(tpi_dnn_build *b, int64_t id, int type, int ndim, const int64_t *shape, const int64_t *stride,
                     int64_t alignment, tpi_dnn_where where);
void tpi_dnn_drop(tpi_dnn_build *b);

/* A plan for the operations. refused: notes an engine may not have. timed: NULL, or pointers
 * to run each candidate on, to keep the fastest. */
typedef struct tpi_dnn_call {
    int n;
    int64_t id[16];
    void *pointer[16];
} tpi_dnn_call;
typedef struct tpi_dnn_plan {
    tpi_dnn_build build;
    void *plan; /* NULL: the library has no engine for this */
    int64_t workspace;
} tpi_dnn_plan;
bool tpi_dnn_choose(int index, tpi_gpu_stream *stream, tpi_dnn_plan *plan, void *const *operations, int n,
                    unsigned refused, const tpi_dnn_call *timed);
tpi_served tpi_dnn_run(int index, tpi_gpu_stream *stream, const tpi_dnn_plan *plan, const tpi_dnn_call *call);
void tpi_dnn_plan_free(void *plan);

bool tpi_dnn_begin(
    int index); /* takes the library's lock; false, unlocked, and without an error if the library is not there */
void tpi_dnn_end(void);
int tpi_dnn_version(void);            /* 91900: 9.19.0; between begin and end */
const char *tpi_dnn_last_error(void); /* the library's words; of the last failure in this thread */
int tpi_dnn_type(tp_dtype dtype);     /* -1 if it has none */
#endif
