/* Taper: what every other header stands on: versions, errors, dtypes, devices and typed scalars. */
#ifndef TAPER_BASE_H
#define TAPER_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TP_BEGIN extern "C" {
#define TP_END   }
#else
#define TP_BEGIN
#define TP_END
#endif

#if defined(__GNUC__)
#define TP_API                __attribute__((visibility("default")))
#define TP_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define TP_API
#define TP_PRINTF(fmt, first)
#endif

/* ---- Lists and options are named ----
 * In C a struct takes `.dim = 0` for its first member, and a value without a name for whichever member is next. So that
 * neither compiles, a list begins with TP_LIST_GUARD_ and options end with TP_OPTIONS_GUARD_: members without a size,
 * whose names are the compiler's message. A program that initialises such structs by position, as in (tp_ints){v, n},
 * defines TP_POSITIONAL. */
#if defined(__cplusplus) || defined(TP_POSITIONAL)
#define TP_LIST_GUARD_(message)
#define TP_OPTIONS_GUARD_
#else
#define TP_LIST_GUARD_(message) \
    __extension__ struct message { char nothing; } message[0];
#define TP_OPTIONS_GUARD_ char write_the_name_of_the_option[];
#endif

/* The size of an options struct, its first member. C++ sets it by itself and takes no number for it. */
#ifdef __cplusplus
class tp_struct_size {
    int64_t bytes;

  public:
    explicit constexpr tp_struct_size(size_t n) : bytes((int64_t)n) {}
    tp_struct_size &operator=(size_t n) { return bytes = (int64_t)n, *this; }
    constexpr operator int64_t() const { return bytes; }
};
#define TP_STRUCT_SIZE(type) \
    tp_struct_size size { sizeof(type) }
#define TP_MEMBER(...) = __VA_ARGS__
#else
#define TP_STRUCT_SIZE(type) int64_t size
#define TP_MEMBER(...)
#ifdef __clang__
#define TP_QUIET_SIDE_EFFECTS_
#else
#define TP_QUIET_SIDE_EFFECTS_ _Pragma("GCC diagnostic ignored \"-Woverride-init-side-effects\"")
#endif
/* A call with options: the defaults, by name, each member of the struct up to the last; then those that the caller
 * gave. */
#define TP_WITH_(type, call, defaults, ...)                                                  \
    __extension__({                                                                          \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"") \
            TP_QUIET_SIDE_EFFECTS_ const type tp_o_ = {defaults, __VA_ARGS__};               \
        _Pragma("GCC diagnostic pop") call;                                                  \
    })
/* The defaults of any options, by the struct's name in capitals, to begin one with that the function `_with` takes:
 * tp_adam_options o = TP_DEFAULTS(ADAM). In C++ a new struct has them by itself. */
#define TP_DEFAULTS(NAME) \
    { TP_##NAME##_DEFAULTS_ }
#endif

#define TP_JOIN_(a, b)  TP_JOIN__(a, b)
#define TP_JOIN__(a, b) a##b

#define TP_VERSION_MAJOR 0
#define TP_VERSION_MINOR 1
#define TP_VERSION_PATCH 0
#define TP_MAX_DIMS      32

TP_BEGIN

/* The version of the library that is loaded, which may be newer than the header: "0.1.0". */
TP_API const char *tp_version(void);
/* The same as one number, major * 10000 + minor * 100 + patch. */
TP_API int tp_version_number(void);

/* ---- Errors ----
 * A function that fails returns NULL (or false) and leaves a message. The first error of a thread stays until it
 * is cleared, and an operator that is given NULL returns NULL, so a whole expression is checked once, at its end.
 *
 * While an error stands, what would change something that outlives the call does nothing and fails: steps of optimisers
 * and schedules, backward, in-place and out forms, clipping, loading, saving, logging, collectives, the next batch of a
 * loader. So a failed forward never leads to a step with old gradients or to a checkpoint of half a step. Operators
 * without effects run; so does what releases, frees, closes. */
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
/* The kind of the thread's pending error; TP_OK without one. */
TP_API tp_code tp_error_code(void);
TP_API bool tp_ok(void); /* true if no error is pending */
/* Forgets the pending error: work goes on. */
TP_API void tp_error_clear(void);

/* ---- Blocks: TP_SCOPE { ... }, TP_NO_GRAD { ... }, TP_AUTOCAST(dtype) { ... } ----
 * What such a block sets up ends with it, however it is left: at its end, by return or by goto. In C++ break and
 * continue reach the loop around it, too. C has no block that lets them: there continue ends the block, and break ends
 * the block with an error that says so, since the loop around it goes on. In a loop that breaks, stand the declaration
 * form in the loop's own braces: it lasts until they end.
 *
 *     for (int step = 0; step < steps; step++) {
 *         TP_SCOPE_HERE;
 *         if (done(step)) break;
 *     }
 */
TP_API void *tp_left_by_break(const char *block, const char *file, int line); /* leaves the error; NULL */
#ifdef __cplusplus
TP_END
template <class T, void (*leave)(T *)> struct tp_guard_ {
    T state;
    ~tp_guard_() { leave(&state); }
    operator bool() const { return false; }
};
TP_BEGIN
#define TP_BLOCK_(name, type, leave, ...)               \
    if (tp_guard_<type, leave> tp_here_{__VA_ARGS__}) { \
    } else
#else
#define TP_BLOCK_(name, type, leave, ...)                                                              \
    for (type tp_here_ __attribute__((cleanup(leave))) = __VA_ARGS__, *tp_once_ = &tp_here_; tp_once_; \
         tp_once_ = tp_once_ ? (type *)tp_left_by_break(name, __FILE__, __LINE__) : NULL)              \
        for (; tp_once_; tp_once_ = NULL)
#endif
#define TP_BLOCK_HERE_(type, leave, ...) \
    __attribute__((unused, cleanup(leave))) type TP_JOIN_(tp_here_, __COUNTER__) = __VA_ARGS__

/* ---- Dtypes and devices ---- */
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
    /* Few operators compute with the next ten; all that move elements take them. */
    TP_UINT16,
    TP_UINT32,
    TP_UINT64,
    TP_FLOAT8_E4M3FN,
    TP_FLOAT8_E5M2,
    TP_FLOAT8_E4M3FNUZ,
    TP_FLOAT8_E5M2FNUZ,
    TP_FLOAT8_E8M0FNU,
    TP_COMPLEX32,  /* two float16 */
    TP_BCOMPLEX32, /* two bfloat16 */
    /* The elements of these have no value here: tensors of them are made, viewed and copied, and no more. */
    TP_FLOAT4_E2M1FN_X2,
    TP_BITS1X8,
    TP_BITS2X4,
    TP_BITS4X2,
    TP_BITS8,
    TP_BITS16,
    TP_UINT1,
    TP_UINT2,
    TP_UINT3,
    TP_UINT4,
    TP_UINT5,
    TP_UINT6,
    TP_UINT7,
    TP_INT1,
    TP_INT2,
    TP_INT3,
    TP_INT4,
    TP_INT5,
    TP_INT6,
    TP_INT7,
    TP_QINT8,
    TP_QUINT8,
    TP_QINT32,
    TP_QUINT4X2,
    TP_QUINT2X4,
    TP_DTYPE_COUNT
} tp_dtype;

TP_API const char *tp_dtype_name(tp_dtype dtype);   /* "float32" */
TP_API const char *tp_dtype_word(tp_dtype dtype);   /* what PyTorch's messages call it: "Float" */
TP_API tp_dtype tp_dtype_by_name(const char *name); /* TP_NO_DTYPE if there is none of that name */
/* Bytes of one element. */
TP_API int64_t tp_dtype_size(tp_dtype dtype);
TP_API bool tp_dtype_is_floating(tp_dtype dtype); /* real floating types */
/* Is it complex64, complex128 or complex32? */
TP_API bool tp_dtype_is_complex(tp_dtype dtype);
TP_API bool tp_dtype_is_integral(tp_dtype dtype);    /* bool not included */
TP_API bool tp_dtype_has_values(tp_dtype dtype);     /* false for TP_FLOAT4_E2M1FN_X2 and those that follow it */
TP_API tp_dtype tp_dtype_to_real(tp_dtype dtype);    /* TP_COMPLEX64 gives TP_FLOAT32; real dtypes stay */
TP_API tp_dtype tp_dtype_to_complex(tp_dtype dtype); /* TP_FLOAT32 gives TP_COMPLEX64; an error if there is none */
TP_API tp_dtype tp_promote_types(tp_dtype a,
                                 tp_dtype b);        /* TP_NO_DTYPE and an error where PyTorch has no common dtype */
TP_API bool tp_can_cast(tp_dtype from, tp_dtype to); /* PyTorch's rule: never to a lower category */
TP_API tp_dtype tp_default_dtype(void);              /* of floating results: float32 unless set */
/* The type of floating tensors whose type is not said. */
TP_API bool tp_set_default_dtype(tp_dtype dtype);

/* TP_META is no machine: tensors there have shape, dtype and strides and no elements, and operators work out those of
 * their results. */
typedef enum tp_device_type {
    TP_DEVICE_NONE = 0,
    TP_CPU,
    TP_CUDA,
    TP_XPU,
    TP_HIP,
    TP_TEST_DEVICE,
    TP_META,
    TP_DEVICE_TYPES
} tp_device_type;
typedef struct tp_device {
    int16_t type; /* tp_device_type; 0 is "unset": the default device */
    int16_t index;
} tp_device;

/* Where new tensors go when no device is given: the CPU unless set. It is the thread's, as PyTorch's is. */
TP_API tp_device tp_default_device(void);
/* type TP_DEVICE_NONE goes back to the CPU; an error if it is not available */
TP_API bool tp_set_default_device(tp_device device);

typedef enum tp_layout { TP_PRESERVE = 0, TP_CONTIGUOUS, TP_CHANNELS_LAST, TP_CHANNELS_LAST_3D } tp_layout;

/* ---- Typed scalars: a number that knows whether it is bool, integer, floating or complex ---- */
typedef enum tp_scalar_kind {
    TP_SCALAR_NONE = 0,
    TP_SCALAR_BOOL,
    TP_SCALAR_INT,
    TP_SCALAR_FLOAT,
    TP_SCALAR_COMPLEX,
    TP_SCALAR_UINT /* an integer above INT64_MAX, which only uint64 and floating tensors hold */
} tp_scalar_kind;
typedef struct tp_scalar {
    TP_LIST_GUARD_(write_TP_SCALAR_and_the_number)
    int64_t kind; /* tp_scalar_kind */
    union {
        int64_t i;   /* BOOL and INT; of UINT the bits */
        double d[2]; /* FLOAT (d[0]) and COMPLEX (real, imaginary) */
    } as;
} tp_scalar;

static inline tp_scalar tp_int(int64_t v) {
    tp_scalar s;
    s.kind = TP_SCALAR_INT;
    s.as.i = v;
    return s;
}
static inline tp_scalar tp_truth(bool v) {
    tp_scalar s;
    s.kind = TP_SCALAR_BOOL;
    s.as.i = v;
    return s;
}
static inline tp_scalar tp_float(double v) {
    tp_scalar s;
    s.kind = TP_SCALAR_FLOAT;
    s.as.d[0] = v;
    s.as.d[1] = 0;
    return s;
}
static inline tp_scalar tp_cplx(double re, double im) {
    tp_scalar s;
    s.kind = TP_SCALAR_COMPLEX;
    s.as.d[0] = re;
    s.as.d[1] = im;
    return s;
}
static inline tp_scalar tp_no_scalar(void) {
    tp_scalar s;
    s.kind = TP_SCALAR_NONE;
    s.as.i = 0;
    return s;
}
TP_API tp_scalar tp_uint(uint64_t v); /* TP_SCALAR_INT up to INT64_MAX, TP_SCALAR_UINT above */
static inline tp_scalar tp_scalar_self(tp_scalar a) { return a; }
/* A scalar's value in another type: fractions are cut off, an imaginary part is dropped. */
TP_API double tp_scalar_to_double(tp_scalar s);
TP_API int64_t tp_scalar_to_int(tp_scalar s);
TP_API bool tp_scalar_to_bool(tp_scalar s);

/* ---- Lists of integers (shapes, dims) and the values that say "not given" ---- */
typedef struct tp_ints {
    TP_LIST_GUARD_(write_TP_INTS_and_the_numbers)
    const int64_t *v; /* NULL: not given */
    int64_t n;
} tp_ints;
#define TP_NONE     INT64_MIN            /* an int argument that is not given */
#define TP_NO_FLOAT (__builtin_nan("1")) /* a float argument that is not given; where a NaN is one, NAN gives it */
typedef struct tp_floats { /* lists of floating numbers, and of numbers of any kind; v is NULL when not given */
    TP_LIST_GUARD_(write_TP_FLOATS_and_the_numbers)
    const double *v;
    int64_t n;
} tp_floats;
typedef struct tp_scalars {
    TP_LIST_GUARD_(write_a_list_of_scalars)
    const tp_scalar *v;
    int64_t n;
} tp_scalars;
/* TP_INTS(2, 3) and TP_FLOATS(0.5, 0.5): lists for a call. In C the numbers live until the block ends, in C++ until the
 * statement ends. */
#ifdef __cplusplus
TP_END
#include <initializer_list>
static inline tp_ints tp_ints_of(std::initializer_list<int64_t> l) { return tp_ints{l.begin(), (int64_t)l.size()}; }
static inline tp_floats tp_floats_of(std::initializer_list<double> l) {
    return tp_floats{l.begin(), (int64_t)l.size()};
}
#define TP_INTS(...)   tp_ints_of({__VA_ARGS__})
#define TP_FLOATS(...) tp_floats_of({__VA_ARGS__})
#define TP_NO_INTS_INIT \
    { NULL, 0 }
TP_BEGIN
#else
#define TP_LIST_(list, item, ...) \
    ((list){.v = (item[]){__VA_ARGS__}, .n = (int64_t)(sizeof((item[]){__VA_ARGS__}) / sizeof(item))})
#define TP_INTS(...)   TP_LIST_(tp_ints, const int64_t, __VA_ARGS__)
#define TP_FLOATS(...) TP_LIST_(tp_floats, const double, __VA_ARGS__)
#define TP_NO_INTS_INIT \
    { .v = NULL, .n = 0 }
#endif
static inline tp_floats tp_no_floats(void) {
    tp_floats r;
    r.v = NULL;
    r.n = 0;
    return r;
}
static inline tp_scalars tp_no_scalars(void) {
    tp_scalars r;
    r.v = NULL;
    r.n = 0;
    return r;
}
static inline tp_ints tp_no_ints(void) {
    tp_ints r;
    r.v = NULL;
    r.n = 0;
    return r;
}
static inline tp_ints tp_ints_view(const int64_t *v, int64_t n) {
    tp_ints r;
    r.v = v;
    r.n = n;
    return r;
}

/* ---- Threads ----
 * Results never depend on the number of threads. */
TP_API int tp_num_threads(void);
TP_API void tp_set_num_threads(int n); /* n < 1 goes back to what the machine and OMP_NUM_THREADS allow */
/* How many operators may run at once, as PyTorch's programs set it: remembered and answered. Operators run in the
 * thread that calls them. */
TP_API int tp_num_interop_threads(void);
TP_API void tp_set_num_interop_threads(int n); /* n < 1 goes back to tp_num_threads() */

/* Must operators that have a faster way whose results vary from run to run keep to the one that does not (or warn, or
 * fail)? CPU operators always give the same bits. */
typedef enum tp_determinism { TP_DETERMINISTIC_OFF = 0, TP_DETERMINISTIC_WARN, TP_DETERMINISTIC_ERROR } tp_determinism;
TP_API tp_determinism tp_deterministic(void);
TP_API bool tp_set_deterministic(tp_determinism mode);
/* While that is on, is memory that tp_empty and its kin hand out without values filled with NaN and the largest
 * integers? It is unless told otherwise. */
TP_API bool tp_fill_uninitialized(void);
TP_API void tp_set_fill_uninitialized(bool on);

/* ---- Libraries ----
 * What Taper stands on, for i from 0 to tp_library_count() - 1: its part ("BLAS", "oneDNN", "libpng"), which version of
 * which implementation ("OpenBLAS 0.3.21"), and the file it was loaded from. version and file are NULL for an optional
 * library that is not there; asking looks for it. The texts stay. */
TP_API int64_t tp_library_count(void);
TP_API bool tp_library_at(int64_t i, const char **name, const char **version, const char **file);

/* ---- Memory ---- */
typedef struct tp_memory_stats {
    int64_t size;      /* sizeof(tp_memory_stats), set by the caller: fields are only ever added */
    int64_t allocated; /* bytes in live blocks */
    int64_t peak_allocated;
    int64_t reserved;    /* bytes taken from the system, kept blocks included */
    int64_t allocations; /* blocks handed out since the start */
} tp_memory_stats;
/* Fills in the counters of the host's memory. */
TP_API bool tp_memory_query(tp_memory_stats *stats);
TP_API void tp_memory_trim(void); /* gives kept blocks back to the system */

TP_END

/* ---- One number from whatever arithmetic type is given; anything else does not compile ----
 * tp_full(shape, 2), tp_full(shape, 0.5f), tp_full(shape, 1ull << 40), tp_full(shape, 2.0 * I). */
#ifdef __cplusplus
#include <type_traits>
template <class T>
static inline
    typename std::enable_if<std::is_floating_point<T>::value || (std::is_arithmetic<T>::value && sizeof(T) <= 8),
                            tp_scalar>::type
    TP_SCALAR(T v) {
    if (std::is_same<T, bool>::value) return tp_truth(v != T(0));
    if (std::is_floating_point<T>::value) return tp_float((double)v);
    return std::is_signed<T>::value ? tp_int((int64_t)v) : tp_uint((uint64_t)v);
}
/* std::complex and its like */
template <class T> static inline auto TP_SCALAR(const T &v) -> decltype(tp_cplx((double)v.real(), (double)v.imag())) {
    return tp_cplx((double)v.real(), (double)v.imag());
}
static inline tp_scalar TP_SCALAR(tp_scalar s) { return s; }
#else
static inline tp_scalar tp_float_of_long_(long double v) { return tp_float((double)v); }
static inline tp_scalar tp_cplx_of_(double _Complex v) { return tp_cplx(__real__ v, __imag__ v); }
static inline tp_scalar tp_cplx_of_long_(long double _Complex v) {
    return tp_cplx((double)__real__ v, (double)__imag__ v);
}
#ifdef __FLT16_MAX__ /* where the compiler has it */
#define TP_FLOAT16_CASE_(f) , _Float16 : f
#else
#define TP_FLOAT16_CASE_(f)
#endif
/* The cases of a _Generic for every arithmetic type, each with a function for its kind. */
#define TP_NUMBER_CASES_(truth, whole, natural, real, long_real, complex, long_complex)                        \
    bool : truth,                                                                                              \
           char : whole,                                                                                       \
                  signed char : whole,                                                                         \
                                short : whole,                                                                 \
                                        int : whole,                                                           \
                                              long : whole,                                                    \
                                                     long long : whole,                                        \
                                                                 unsigned char : whole,                        \
                                                                                 unsigned short : whole,       \
                                                                                                  unsigned     \
        : whole,                                                                                               \
          unsigned long : natural,                                                                             \
                          unsigned long long : natural,                                                        \
                                               float : real,                                                   \
                                                       double : real,                                          \
                                                                long double : long_real,                       \
                                                                              float _Complex : complex,        \
                                                                                               double _Complex \
        : complex,                                                                                             \
          long double _Complex : long_complex                                                                  \
                                 TP_FLOAT16_CASE_(real)
#define TP_SCALAR(x)                                                                                                  \
    __extension__ _Generic((x), tp_scalar                                                                             \
                           : tp_scalar_self, TP_NUMBER_CASES_(tp_truth, tp_int, tp_uint, tp_float, tp_float_of_long_, \
                                                              tp_cplx_of_, tp_cplx_of_long_))(x)
#endif
#endif
