/* OpenCL 1.2 as far as the driver needs it: types, constants and functions of the documented binary interface, so that
 * neither its headers nor its loader are needed to build, and what the files of this folder share. libOpenCL.so.1 is
 * opened when a device is first asked for. */
#ifndef TPI_CL_H
#define TPI_CL_H
#include "device/gpu/driver.h"
#include <pthread.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef cl_ulong cl_bitfield;
typedef struct cl_platform *cl_platform_id;
typedef struct cl_device *cl_device_id;
typedef struct cl_context_s *cl_context;
typedef struct cl_queue *cl_command_queue;
typedef struct cl_mem_s *cl_mem;
typedef struct cl_program_s *cl_program;
typedef struct cl_kernel_s *cl_kernel;
typedef struct cl_event_s *cl_event;

enum {
    CL_DEVICE_NOT_FOUND = -1,
    CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_VENDOR_ID = 0x1001,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100c,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101b,
    CL_DEVICE_GLOBAL_MEM_CACHE_SIZE = 0x101e,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101f,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102b,
    CL_DRIVER_VERSION = 0x102d,
    CL_DEVICE_VERSION = 0x102f,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_PLATFORM = 0x1031,
    CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_DEVICE_OPENCL_C_VERSION = 0x103d,
    CL_DEVICE_PARTITION_PROPERTIES = 0x1044,
    CL_DEVICE_PARTITION_AFFINITY_DOMAIN = 0x1045,
    CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 0x1067, /* 3.0 */
    CL_DEVICE_UUID_KHR = 0x106a,
    CL_DEVICE_PCI_BUS_INFO_KHR = 0x410f,
    CL_DEVICE_WARP_SIZE_NV = 0x4003,
    CL_DEVICE_WAVEFRONT_WIDTH_AMD = 0x4043,
    CL_DEVICE_PARTITION_EQUALLY = 0x1086,
    CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN = 0x1088,
    CL_DEVICE_AFFINITY_DOMAIN_NUMA = 1,
    CL_DEVICE_AFFINITY_DOMAIN_NEXT = 1 << 5,
    CL_DEVICE_TYPE_CPU = 1 << 1,
    CL_DEVICE_TYPE_GPU = 1 << 2,
    CL_DEVICE_TYPE_ACCELERATOR = 1 << 3,
    CL_FP_CORRECTLY_ROUNDED = 1 << 7,
    CL_QUEUE_PROFILING = 1 << 1,
    CL_MEM_READ_WRITE = 1,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_EVENT_STATUS = 0x11d3,
    CL_COMPLETE = 0,
    CL_PROFILING_END = 0x1283,
};

/* Every function that is used, with its result and arguments: X(name, result, arguments). */
#define TPI_CL_FUNCTIONS(X)                                                                                     \
    X(GetPlatformIDs, cl_int, (cl_uint, cl_platform_id *, cl_uint *))                                           \
    X(GetPlatformInfo, cl_int, (cl_platform_id, cl_uint, size_t, void *, size_t *))                             \
    X(GetDeviceIDs, cl_int, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))                  \
    X(GetDeviceInfo, cl_int, (cl_device_id, cl_uint, size_t, void *, size_t *))                                 \
    X(CreateSubDevices, cl_int, (cl_device_id, const intptr_t *, cl_uint, cl_device_id *, cl_uint *))           \
    X(CreateContext, cl_context, (const intptr_t *, cl_uint, const cl_device_id *, void *, void *, cl_int *))   \
    X(ReleaseContext, cl_int, (cl_context))                                                                     \
    X(CreateCommandQueue, cl_command_queue, (cl_context, cl_device_id, cl_bitfield, cl_int *))                  \
    X(ReleaseCommandQueue, cl_int, (cl_command_queue))                                                          \
    X(CreateBuffer, cl_mem, (cl_context, cl_bitfield, size_t, void *, cl_int *))                                \
    X(ReleaseMemObject, cl_int, (cl_mem))                                                                       \
    X(EnqueueReadBuffer, cl_int,                                                                                \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))       \
    X(EnqueueWriteBuffer, cl_int,                                                                               \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *)) \
    X(EnqueueCopyBuffer, cl_int,                                                                                \
      (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))        \
    X(EnqueueFillBuffer, cl_int,                                                                                \
      (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))  \
    X(EnqueueMarkerWithWaitList, cl_int, (cl_command_queue, cl_uint, const cl_event *, cl_event *))             \
    X(EnqueueBarrierWithWaitList, cl_int, (cl_command_queue, cl_uint, const cl_event *, cl_event *))            \
    X(EnqueueNDRangeKernel, cl_int,                                                                             \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,           \
       const cl_event *, cl_event *))                                                                           \
    X(Flush, cl_int, (cl_command_queue))                                                                        \
    X(Finish, cl_int, (cl_command_queue))                                                                       \
    X(WaitForEvents, cl_int, (cl_uint, const cl_event *))                                                       \
    X(GetEventInfo, cl_int, (cl_event, cl_uint, size_t, void *, size_t *))                                      \
    X(GetEventProfilingInfo, cl_int, (cl_event, cl_uint, size_t, void *, size_t *))                             \
    X(RetainEvent, cl_int, (cl_event))                                                                          \
    X(ReleaseEvent, cl_int, (cl_event))                                                                         \
    X(CreateProgramWithSource, cl_program, (cl_context, cl_uint, const char **, const size_t *, cl_int *))      \
    X(CreateProgramWithBinary, cl_program,                                                                      \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *))  \
    X(BuildProgram, cl_int, (cl_program, cl_uint, const cl_device_id *, const char *, void *, void *))          \
    X(GetProgramInfo, cl_int, (cl_program, cl_uint, size_t, void *, size_t *))                                  \
    X(GetProgramBuildInfo, cl_int, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))               \
    X(ReleaseProgram, cl_int, (cl_program))                                                                     \
    X(CreateKernel, cl_kernel, (cl_program, const char *, cl_int *))                                            \
    X(ReleaseKernel, cl_int, (cl_kernel))                                                                       \
    X(SetKernelArg, cl_int, (cl_kernel, cl_uint, size_t, const void *))

#define TPI_CL_MEMBER(name, result, arguments) result(*name) arguments;
typedef struct tpi_cl_library {
    TPI_CL_FUNCTIONS(TPI_CL_MEMBER)
} tpi_cl_library;
extern tpi_cl_library tpi_cl; /* filled once, by tpi_cl_count */

/* A stream is an in-order queue. Work counts what was put into it, so that a query knows whether its last marker still
 * stands for all of it. */
struct tpi_gpu_stream {
    cl_command_queue queue;
    int index;
    atomic_ullong work, finished; /* finished: the work when the queue was last waited for */
    pthread_mutex_t probing;
    cl_event probe;            /* the marker of the last query, NULL without one */
    unsigned long long probed; /* the work before it */
    struct tpi_gpu_stream *next;
};

/* A device that was found. The context and the default stream are made when it is first used. */
typedef struct tpi_cl_device {
    cl_device_id id;
    tpi_gpu_caps caps;
    char options[80];     /* for the compiler */
    atomic_bool declares; /* programs declare what of OpenCL they call (kernels/builtins.h) */
    size_t largest;       /* bytes of one buffer at most */
    bool opened;
    pthread_mutex_t lock; /* of what follows */
    cl_context context;
    tpi_gpu_stream first;    /* the default stream */
    tpi_gpu_stream *streams; /* all others */
    atomic_size_t taken;     /* bytes of live buffers */
} tpi_cl_device;

int tpi_cl_count(void); /* opens the library on first use */
const char *tpi_cl_missing(void);
/* The device, opened; NULL and an error: no such device, it cannot be used, or the process was forked from one that
 * used it. */
tpi_cl_device *tpi_cl_device_at(int index);
tpi_cl_device *tpi_cl_peek(int index);           /* as it was found, not opened */
tpi_cl_device *tpi_cl_by_arch(const char *arch); /* opened; NULL and an error without one such */
tpi_gpu_stream *tpi_cl_stream(tpi_gpu_stream *stream,
                              int index); /* the default one for NULL; NULL and an error as above */
/* False and an error that names the call and what the code stands for, unless it is success. */
bool tpi_cl_ok(cl_int code, const char *call);

/* memory.c: the buffer an address lies in, and how far into it. False, and an error, for one that is not ours. */
bool tpi_cl_find(const void *address, cl_mem *buffer, size_t *offset);
void *tpi_cl_alloc(int index, size_t bytes);
void tpi_cl_free(int index, void *block);

/* program.c */
void *tpi_cl_compile(const char *source, const char *name, const char *arch, size_t *bytes);
const char *tpi_cl_compiler(void);
bool tpi_cl_load(int index, const void *binary, size_t bytes, tpi_gpu_module **module);
bool tpi_cl_build(int index, const char *source, const char *name, tpi_gpu_module **module);
bool tpi_cl_function(int index, tpi_gpu_module *module, const char *name, tpi_gpu_function **function);
bool tpi_cl_launch(int index, tpi_gpu_stream *stream, tpi_gpu_function *function, const unsigned grid[3],
                   const unsigned block[3], size_t shared, int nargs, const tpi_gpu_arg *args);

/* clblast.c */
tpi_served tpi_cl_gemm(int index, tpi_gpu_stream *stream, const tpi_gpu_gemm *g);
#endif
