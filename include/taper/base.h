/* Taper: what every other header stands on: versions, errors, dtypes, devices and typed scalars. */
#ifndef TAPER_BASE_H
#define TAPER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TP_BEGIN extern "C" {
#define TP_END }
#else
#define TP_BEGIN
#define TP_END
#endif

#if defined(__GNUC__)
#define TP_API __attribute__((visibility("default")))
#define TP_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define TP_API
#define TP_PRINTF(fmt, first)
#endif

#define TP_VERSION_MAJOR 0
#define TP_VERSION_MINOR 1
#define TP_VERSION_PATCH 0
#define TP_MAX_DIMS 32

TP_BEGIN

/* The version of the library that is loaded, which may be newer than the header: "0.1.0". */
TP_API const char *tp_version(void);
/* The same as one number, major * 10000 + minor * 100 + patch. */
TP_API int tp_version_number(void);

/* ---- Errors -------------------------------------------------------------------------------------------------
 * A function that fails returns NULL (or false) and leaves a message. The first error of a thread stays until it
 * is cleared, and an operator that is given NULL returns NULL, so a whole expression is checked once, at its end. */
typedef enum tp_code {
    TP_OK = 0,
    TP_ERR_VALUE,   /* an argument's value is wrong (Python: ValueError or RuntimeError) */
    TP_ERR_TYPE,    /* an argument's type is wrong */
    TP_ERR_INDEX,   /* an index is out of range */
    TP_ERR_RUNTIME, /* shapes, dtypes or the state of a tensor do not fit the operation */
    TP_ERR_MEMORY,  /* out of memory */
    TP_ERR_MISSING, /* not available: on this device, for this dtype, in this build */
    TP_ERR_IO,      /* a file could not be read or written */
    TP_ERR_LINALG   /* a matrix that cannot be factored, inverted or solved with */
} tp_code;

TP_API const char *tp_error(void); /* the thread's pending error message, or NULL if there is none */
TP_API tp_code tp_error_code(void);
TP_API bool tp_ok(void); /* true if no error is pending */
TP_API void tp_error_clear(void);

/* ---- Dtypes and devices -------------------------------------------------------------------------------------- */
typedef enum tp_dtype {
    TP_NO_DTYPE = 0, /* "unset": the default applies */
    TP_BOOL,
    TP_UINT8,
    TP_INT8,
    TP_INT16,
    TP_INT32,
    TP_INT64,
    TP_FLOAT16,
    TP_BFLOAT16,
    TP_FLOAT32,
    TP_FLOAT64,
    TP_COMPLEX64,
    TP_COMPLEX128,
    TP_DTYPE_COUNT /* numbers from 13 on are kept for float8 and unsigned types to come */
} tp_dtype;

TP_API const char *tp_dtype_name(tp_dtype dtype); /* "float32" */
TP_API tp_dtype tp_dtype_by_name(const char *name); /* TP_NO_DTYPE if there is none of that name */
TP_API int64_t tp_dtype_size(tp_dtype dtype);
TP_API bool tp_dtype_is_floating(tp_dtype dtype); /* real floating types */
TP_API bool tp_dtype_is_complex(tp_dtype dtype);
TP_API bool tp_dtype_is_integral(tp_dtype dtype); /* bool not included */
TP_API tp_dtype tp_promote_types(tp_dtype a, tp_dtype b);
TP_API bool tp_can_cast(tp_dtype from, tp_dtype to); /* PyTorch's rule: never to a lower category */
TP_API tp_dtype tp_default_dtype(void); /* of floating results: float32 unless set */
TP_API bool tp_set_default_dtype(tp_dtype dtype);

/* TP_META is no machine: tensors there have shape, dtype and strides and no elements, and operators work out those of their results. */
typedef enum tp_device_type { TP_DEVICE_NONE = 0, TP_CPU, TP_CUDA, TP_XPU, TP_HIP, TP_TEST_DEVICE, TP_META, TP_DEVICE_TYPES } tp_device_type;
typedef struct tp_device {
    int16_t type;  /* tp_device_type; 0 is "unset": the default device */
    int16_t index;
} tp_device;

/* Where new tensors go when no device is given: the CPU unless set. It is the thread's, as PyTorch's is. */
TP_API tp_device tp_default_device(void);
TP_API bool tp_set_default_device(tp_device device); /* type TP_DEVICE_NONE goes back to the CPU; an error if it is not available */

typedef enum tp_layout { TP_PRESERVE = 0, TP_CONTIGUOUS, TP_CHANNELS_LAST, TP_CHANNELS_LAST_3D } tp_layout;

/* ---- Typed scalars: a number that knows whether it is bool, integer, floating or complex ---------------------- */
typedef enum tp_scalar_kind { TP_SCALAR_NONE = 0, TP_SCALAR_BOOL, TP_SCALAR_INT, TP_SCALAR_FLOAT, TP_SCALAR_COMPLEX } tp_scalar_kind;
typedef struct tp_scalar {
    int64_t kind; /* tp_scalar_kind */
    union {
        int64_t i;   /* BOOL and INT */
        double d[2]; /* FLOAT (d[0]) and COMPLEX (real, imaginary) */
    } as;
} tp_scalar;

static inline tp_scalar tp_int(int64_t v) {
    tp_scalar s;
    s.kind = TP_SCALAR_INT, s.as.i = v;
    return s;
}
static inline tp_scalar tp_truth(bool v) {
    tp_scalar s;
    s.kind = TP_SCALAR_BOOL, s.as.i = v;
    return s;
}
static inline tp_scalar tp_float(double v) {
    tp_scalar s;
    s.kind = TP_SCALAR_FLOAT, s.as.d[0] = v, s.as.d[1] = 0;
    return s;
}
static inline tp_scalar tp_cplx(double re, double im) {
    tp_scalar s;
    s.kind = TP_SCALAR_COMPLEX, s.as.d[0] = re, s.as.d[1] = im;
    return s;
}
static inline tp_scalar tp_no_scalar(void) {
    tp_scalar s;
    s.kind = TP_SCALAR_NONE, s.as.i = 0;
    return s;
}
TP_API double tp_scalar_to_double(tp_scalar s);
TP_API int64_t tp_scalar_to_int(tp_scalar s);
TP_API bool tp_scalar_to_bool(tp_scalar s);

/* ---- Lists of integers (shapes, dims) and the values that say "not given" ------------------------------------ */
typedef struct tp_ints {
    const int64_t *v; /* NULL: not given */
    int64_t n;
} tp_ints;
#define TP_NONE INT64_MIN /* an int argument that is not given */
#define TP_NO_FLOAT (__builtin_nan("")) /* a float argument that is not given */
#ifdef __cplusplus
TP_END
#include <initializer_list>
static inline tp_ints tp_ints_of(std::initializer_list<int64_t> l) { return tp_ints{l.begin(), (int64_t)l.size()}; }
#define TP_INTS(...) tp_ints_of({__VA_ARGS__})
TP_BEGIN
#else
#define TP_INTS(...) ((tp_ints){(const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))})
#endif
#define TP_NO_INTS_INIT {NULL, 0}
typedef struct tp_floats { /* lists of floating numbers, and of numbers of any kind; v is NULL when not given */
    const double *v;
    int64_t n;
} tp_floats;
typedef struct tp_scalars {
    const tp_scalar *v;
    int64_t n;
} tp_scalars;
#ifdef __cplusplus
TP_END
static inline tp_floats tp_floats_of(std::initializer_list<double> l) { return tp_floats{l.begin(), (int64_t)l.size()}; }
#define TP_FLOATS(...) tp_floats_of({__VA_ARGS__})
TP_BEGIN
#else
#define TP_FLOATS(...) ((tp_floats){(const double[]){__VA_ARGS__}, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double))})
#endif
static inline tp_floats tp_no_floats(void) {
    tp_floats r = {NULL, 0};
    return r;
}
static inline tp_scalars tp_no_scalars(void) {
    tp_scalars r = {NULL, 0};
    return r;
}
static inline tp_ints tp_no_ints(void) {
    tp_ints r = TP_NO_INTS_INIT;
    return r;
}
static inline tp_ints tp_ints_view(const int64_t *v, int64_t n) {
    tp_ints r;
    r.v = v, r.n = n;
    return r;
}

/* ---- Threads ---------------------------------------------------------------------------------------------------
 * Results never depend on the number of threads. */
TP_API int tp_num_threads(void);
TP_API void tp_set_num_threads(int n); /* n < 1 goes back to what the machine and OMP_NUM_THREADS allow */
/* How many operators may run at once, as PyTorch's programs set it: remembered and answered. Operators run in the thread that calls them. */
TP_API int tp_num_interop_threads(void);
TP_API void tp_set_num_interop_threads(int n); /* n < 1 goes back to tp_num_threads() */

/* Must operators that have a faster way whose results vary from run to run keep to the one that does not (or warn, or fail)? CPU operators
 * always give the same bits. */
typedef enum tp_determinism { TP_DETERMINISTIC_OFF = 0, TP_DETERMINISTIC_WARN, TP_DETERMINISTIC_ERROR } tp_determinism;
TP_API tp_determinism tp_deterministic(void);
TP_API bool tp_set_deterministic(tp_determinism mode);

/* ---- Libraries --------------------------------------------------------------------------------------------------
 * What Taper stands on, for i from 0 to tp_library_count() - 1: its part ("BLAS", "LAPACK", "oneDNN"), which version of which
 * implementation ("OpenBLAS 0.3.21"), and the file it was loaded from. version and file are NULL for an optional library that is not there;
 * asking looks for it. The texts stay. */
TP_API int64_t tp_library_count(void);
TP_API bool tp_library_at(int64_t i, const char **name, const char **version, const char **file);

/* ---- Memory ---------------------------------------------------------------------------------------------------- */
typedef struct tp_memory_stats {
    int64_t size;           /* sizeof(tp_memory_stats), set by the caller: fields are only ever added */
    int64_t allocated;      /* bytes in live blocks */
    int64_t peak_allocated;
    int64_t reserved;       /* bytes taken from the system, kept blocks included */
    int64_t allocations;    /* blocks handed out since the start */
} tp_memory_stats;
TP_API bool tp_memory_query(tp_memory_stats *stats);
TP_API void tp_memory_trim(void); /* gives kept blocks back to the system */

TP_END
#endif
