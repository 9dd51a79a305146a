/* Operators by name: every operator of the table can be looked up, asked for its signature and called with boxed values. */
#ifndef TAPER_CALL_H
#define TAPER_CALL_H
#include <taper/random.h>
#include <taper/tensor.h>

TP_BEGIN

typedef enum tp_kind {
    TP_K_NONE = 0, /* not given, or nothing */
    TP_K_TENSOR,
    TP_K_TENSORS,
    TP_K_SCALAR,   /* a number: int, float, bool and complex arguments travel as this */
    TP_K_INTS,
    TP_K_STRING,
    TP_K_DTYPE,
    TP_K_DEVICE,
    TP_K_GENERATOR,
    TP_K_LAYOUT,
    TP_K_FLOATS,
    TP_K_SCALARS
} tp_kind;

typedef struct tp_value {
    int64_t kind; /* tp_kind */
    const char *name; /* NULL: by position; otherwise the argument of that name */
    union {
        tp_tensor *tensor;
        tp_tensors tensors;
        tp_scalar scalar;
        tp_ints ints;
        const char *string;
        tp_dtype dtype;
        tp_device device;
        tp_generator *generator;
        tp_layout layout;
        tp_floats floats;
        tp_scalars scalars;
    } as;
} tp_value;

typedef struct tp_argument_info {
    const char *name;
    const char *type;          /* as in the table: "Tensor", "Operand", "int[]?", ... */
    const char *default_value; /* as in the table, NULL if the argument is required */
} tp_argument_info;

typedef struct tp_operator {
    const char *name;      /* "max.dim" */
    const char *signature; /* "max.dim(Tensor self, int dim, bool keepdim=false) -> (Tensor values, Tensor indices)" */
    const char *doc;
    const char *kind;      /* "map", "fold", "scan", "view", "compose", "native" */
    int64_t nargs, nresults;
    const tp_argument_info *args;
    const char *const *results; /* names of the results */
    bool differentiable, inplace, out, method; /* method: the tensor itself is the argument `self`, or else the first one */
    /* Calls with one value per argument, in order (TP_K_NONE: the default). Results: nresults values; tensors come as owned references. */
    bool (*invoke)(const tp_value *args, tp_value *results);
    bool (*invoke_inplace)(const tp_value *args, tp_value *results); /* NULL without such a form; gives self back */
    bool (*invoke_out)(tp_tensor *out, const tp_value *args);
    bool internal; /* a helper of other operators' derivatives */
    const char *names; /* PyTorch's namespaces that hold it, "torch nn.functional"; there a name goes without the namespace's prefix (linalg_inv is linalg.inv) */
    const char *batch; /* how a batch of calls is one call, in the table's words ("each", "all, dims dim"); NULL: not known */
    const char *devices; /* how it runs on devices other than the CPU: "kernels"; "anywhere": it is made of others or touches no element; "host": its arguments travel */
} tp_operator;

TP_API const tp_operator *tp_find_operator(const char *name); /* NULL (no error) if there is none */
TP_API int64_t tp_operator_count(void);
TP_API const tp_operator *tp_operator_at(int64_t i);

/* Calls an operator by name: values by position first, then by name. Results go to the innermost scope like any other's.
 * Names with a trailing underscore ("add_", "max.dim_") call the in-place form, which gives self back without another reference. */
TP_API bool tp_call_values(const char *name, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results);
/* The same for operators with one tensor as result. */
TP_API tp_tensor *tp_call_one(const char *name, int64_t nargs, const tp_value *args);

static inline tp_value tp_value_tensor(tp_tensor *t) { tp_value v = {TP_K_TENSOR, NULL, {t}}; return v; }
static inline tp_value tp_value_tensors(tp_tensors l) { tp_value v = {TP_K_TENSORS, NULL, {NULL}}; v.as.tensors = l; return v; }
static inline tp_value tp_value_scalar(tp_scalar s) { tp_value v = {TP_K_SCALAR, NULL, {NULL}}; v.as.scalar = s; return v; }
static inline tp_value tp_value_int(int64_t i) { return tp_value_scalar(tp_int(i)); }
static inline tp_value tp_value_double(double d) { return tp_value_scalar(tp_float(d)); }
static inline tp_value tp_value_bool(bool b) { return tp_value_scalar(tp_truth(b)); }
static inline tp_value tp_value_ints(tp_ints i) { tp_value v = {TP_K_INTS, NULL, {NULL}}; v.as.ints = i; return v; }
static inline tp_value tp_value_floats(tp_floats f) { tp_value v = {TP_K_FLOATS, NULL, {NULL}}; v.as.floats = f; return v; }
static inline tp_value tp_value_scalars(tp_scalars s) { tp_value v = {TP_K_SCALARS, NULL, {NULL}}; v.as.scalars = s; return v; }
static inline tp_value tp_value_string(const char *s) { tp_value v = {TP_K_STRING, NULL, {NULL}}; v.as.string = s; return v; }
static inline tp_value tp_value_dtype(tp_dtype d) { tp_value v = {TP_K_DTYPE, NULL, {NULL}}; v.as.dtype = d; return v; }
static inline tp_value tp_value_device(tp_device d) { tp_value v = {TP_K_DEVICE, NULL, {NULL}}; v.as.device = d; return v; }
static inline tp_value tp_value_generator(tp_generator *g) { tp_value v = {TP_K_GENERATOR, NULL, {NULL}}; v.as.generator = g; return v; }
static inline tp_value tp_value_self(tp_value v) { return v; }
static inline tp_value tp_named(const char *name, tp_value v) { v.name = name; return v; }

TP_END

#ifndef __cplusplus
/* One boxed value from whatever C type is given. A dtype is an int to C: write tp_value_dtype(TP_FLOAT32). */
#define TP_VALUE(x) \
    _Generic((x), tp_tensor *: tp_value_tensor, tp_tensors: tp_value_tensors, tp_scalar: tp_value_scalar, tp_ints: tp_value_ints, tp_floats: tp_value_floats, \
        tp_scalars: tp_value_scalars, \
        char *: tp_value_string, const char *: tp_value_string, tp_device: tp_value_device, tp_generator *: tp_value_generator, \
        tp_value: tp_value_self, bool: tp_value_bool, float: tp_value_double, double: tp_value_double, default: tp_value_int)(x)
/* tp_call("softmax", x, 1): up to eight arguments. */
#define tp_call(name, ...) tp_call_one(name, TP_COUNT_(__VA_ARGS__), (const tp_value[]){TP_BOX_(__VA_ARGS__)})
#define TP_COUNT_(...) TP_COUNT__(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TP_COUNT__(a, b, c, d, e, f, g, h, n, ...) n
#define TP_BOX_(...) TP_JOIN_(TP_BOX, TP_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define TP_JOIN_(a, b) TP_JOIN__(a, b)
#define TP_JOIN__(a, b) a##b
#define TP_BOX1(a) TP_VALUE(a)
#define TP_BOX2(a, ...) TP_VALUE(a), TP_BOX1(__VA_ARGS__)
#define TP_BOX3(a, ...) TP_VALUE(a), TP_BOX2(__VA_ARGS__)
#define TP_BOX4(a, ...) TP_VALUE(a), TP_BOX3(__VA_ARGS__)
#define TP_BOX5(a, ...) TP_VALUE(a), TP_BOX4(__VA_ARGS__)
#define TP_BOX6(a, ...) TP_VALUE(a), TP_BOX5(__VA_ARGS__)
#define TP_BOX7(a, ...) TP_VALUE(a), TP_BOX6(__VA_ARGS__)
#define TP_BOX8(a, ...) TP_VALUE(a), TP_BOX7(__VA_ARGS__)
#endif
#endif
