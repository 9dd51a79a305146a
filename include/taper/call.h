/* Operators by name: every operator of the table can be looked up, asked for its signature and called with boxed
 * values. */
#ifndef TAPER_CALL_H
#define TAPER_CALL_H
#include <taper/random.h>
#include <taper/tensor.h>

TP_BEGIN

typedef enum tp_kind {
    TP_K_NONE = 0, /* not given, or nothing */
    TP_K_TENSOR,
    TP_K_TENSORS,
    TP_K_SCALAR, /* a number: int, float, bool and complex arguments travel as this */
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
    int64_t kind;     /* tp_kind */
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

/* Do the sizes of the results depend on values, so that a recorded call cannot be repeated? */
typedef enum tp_dynamic_shape {
    TP_DYNAMIC_NEVER,
    TP_DYNAMIC_ALWAYS,
    TP_DYNAMIC_UNLESS, /* unless the int dynamic_argument is given, and not negative */
    TP_DYNAMIC_MASKS   /* if there is a mask (bool or uint8) in the list dynamic_argument */
} tp_dynamic_shape;

/* Is each element of the results made of the arguments' elements at its place alone, as they are broadcast? */
typedef enum tp_elementwise {
    TP_ELEMENTWISE_NO,
    TP_ELEMENTWISE,
    TP_ELEMENTWISE_SAME,   /* and it is self's element, perhaps in another dtype */
    TP_ELEMENTWISE_REDUCED /* and then all are reduced as the argument `reduction` says */
} tp_elementwise;

typedef struct tp_operator {
    const char *name;      /* "max.dim" */
    const char *signature; /* "max.dim(Tensor self, int dim, bool keepdim=false) -> (Tensor values, Tensor indices)" */
    const char *doc;
    const char *kind; /* "map", "fold", "scan", "view", "compose", "native" */
    int64_t nargs, nresults;
    const tp_argument_info *args;
    const char *const *results; /* names of the results */
    bool differentiable, inplace, out,
        method; /* method: the tensor itself is the argument `self`, or else the first one */
    /* Calls with one value per argument, in order (TP_K_NONE: the default). Results: nresults values; tensors come as
     * owned references. */
    bool (*invoke)(const tp_value *args, tp_value *results);
    bool (*invoke_inplace)(const tp_value *args, tp_value *results); /* NULL without such a form; gives self back */
    bool (*invoke_out)(tp_tensor *out, const tp_value *args);
    bool internal;     /* a helper of other operators' derivatives */
    const char *names; /* PyTorch's namespaces that hold it, "torch nn.functional"; there a name goes without the
                          namespace's prefix (linalg_inv is linalg.inv) */
    const char
        *batch; /* how a batch of calls is one call, in the table's words ("each", "all, dims dim"); NULL: not known */
    const char *devices; /* how it runs on devices other than the CPU: "kernels"; "anywhere": it is made of others or
                            touches no element; "host": its arguments travel */
    bool lazy;           /* the result of a complex tensor is a view with a mark (tp_is_conj) */
    bool fills;          /* in place it may be called on tensors whose elements share memory (expanded ones) */
    /* The signature, a letter per argument: t tensor, o operand, l list of tensors, i int, n ints, b bool, q bool or
     * none, B bools, f float, F floats, s scalar, S scalars, c text, d dtype, D device, L layout, g generator. */
    const char *letters;
    /* Bit i: argument i may be on the host while the others are on a device; argument i holds indices. */
    uint64_t from_host, indices;
    bool draws;                              /* draws random numbers */
    int64_t dynamic_shape, dynamic_argument; /* a tp_dynamic_shape, and the number of the argument that it names */
    uint64_t writes;                         /* bit i: writes into argument i, though it is no in-place form of it */
    int64_t writes_when;                     /* only if this bool argument is true; -1: always */
    /* Multiply-adds of a call; NULL: not known. shapes: of the arguments, then of the results; n < 0: no tensor. -1:
     * something is missing. */
    double (*cost)(const tp_ints *shapes, const tp_value *args);
    double cost_each;          /* otherwise, about how many nanoseconds an element takes; 0: not known */
    bool named_tuple;          /* Python gives its results as torch.return_types.NAME */
    const char *numbers_first; /* numbers that PyTorch once took in front of tensors: "alpha", "beta alpha"; or NULL */
    int64_t accepts_number;    /* the tensor argument that Python may give as a number; -1: none */
    const char *symbol;        /* how Python writes it: "+", "-x", "abs(x)"; NULL: as a call */
    /* By how much wider parameters begin where this follows them (nn.init.calculate_gain), or NULL: not known.
     * parameter: leaky_relu's slope; NaN: the default. */
    double (*gain)(double parameter);
    int64_t elementwise; /* a tp_elementwise */
    int64_t shape_from;  /* the results have this argument's shape and depend on none of its elements; -1: none */
    uint64_t draws_by;   /* bit i: tensor i gives the distribution of the numbers that it draws */
    const char *linear;  /* "self other, weight": linear in self and other together, and in weight alone; or NULL */
    const char *along; /* "dim", "dim gone", "dim keep keepdim", "all": the dims along which results need all elements;
                          the others stay in order. NULL: not known */
    const char *parts; /* how results of parts along those dims give that of the whole: "sum", "avg", "max", "min",
                          "product", "norm p" with the argument that is the order; NULL: not at all */
    const char *alias; /* the operator that this is another name of, with the same arguments; NULL: none */
    int64_t bytes_as_truth; /* the tensor argument of truth values that Python may give as uint8; -1: none */
} tp_operator;

TP_API const tp_operator *tp_find_operator(const char *name); /* NULL (no error) if there is none */
/* How many operators there are, and one of them by its number. */
TP_API int64_t tp_operator_count(void);
TP_API const tp_operator *tp_operator_at(int64_t i);

/* Calls an operator by name: values by position first, then by name. Results go to the innermost scope like any
 * other's. Names with a trailing underscore ("add_", "max.dim_") call the in-place form, which gives self back without
 * another reference. */
TP_API bool tp_call_values(const char *name, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results);
/* The same for operators with one tensor as result. */
TP_API tp_tensor *tp_call_one(const char *name, int64_t nargs, const tp_value *args);

static inline tp_value tp_value_tensor(tp_tensor *t) {
    tp_value v = {TP_K_TENSOR, NULL, {t}};
    return v;
}
static inline tp_value tp_value_tensors(tp_tensors l) {
    tp_value v = {TP_K_TENSORS, NULL, {NULL}};
    v.as.tensors = l;
    return v;
}
static inline tp_value tp_value_scalar(tp_scalar s) {
    tp_value v = {TP_K_SCALAR, NULL, {NULL}};
    v.as.scalar = s;
    return v;
}
static inline tp_value tp_value_int(int64_t i) { return tp_value_scalar(tp_int(i)); }
static inline tp_value tp_value_double(double d) { return tp_value_scalar(tp_float(d)); }
static inline tp_value tp_value_bool(bool b) { return tp_value_scalar(tp_truth(b)); }
static inline tp_value tp_value_ints(tp_ints i) {
    tp_value v = {TP_K_INTS, NULL, {NULL}};
    v.as.ints = i;
    return v;
}
static inline tp_value tp_value_floats(tp_floats f) {
    tp_value v = {TP_K_FLOATS, NULL, {NULL}};
    v.as.floats = f;
    return v;
}
static inline tp_value tp_value_scalars(tp_scalars s) {
    tp_value v = {TP_K_SCALARS, NULL, {NULL}};
    v.as.scalars = s;
    return v;
}
static inline tp_value tp_value_string(const char *s) {
    tp_value v = {TP_K_STRING, NULL, {NULL}};
    v.as.string = s;
    return v;
}
static inline tp_value tp_value_dtype(tp_dtype d) {
    tp_value v = {TP_K_DTYPE, NULL, {NULL}};
    v.as.dtype = d;
    return v;
}
static inline tp_value tp_value_device(tp_device d) {
    tp_value v = {TP_K_DEVICE, NULL, {NULL}};
    v.as.device = d;
    return v;
}
static inline tp_value tp_value_generator(tp_generator *g) {
    tp_value v = {TP_K_GENERATOR, NULL, {NULL}};
    v.as.generator = g;
    return v;
}
static inline tp_value tp_value_self(tp_value v) { return v; }
static inline tp_value tp_named(const char *name, tp_value v) {
    v.name = name;
    return v;
}

static inline tp_value tp_value_none(void) {
    tp_value v = {TP_K_NONE, NULL, {NULL}};
    return v;
} /* not given */

TP_END

/* TP_VALUE(x): one boxed value from whatever type is given. A dtype is a number to C: write tp_value_dtype(TP_FLOAT32).
 * tp_call("softmax", x, 1): up to eight arguments, evaluated from left to right. */
#ifdef __cplusplus
#include <utility>
struct tp_boxed_ : tp_value {
    tp_boxed_(tp_value v) : tp_value(v) {}
    tp_boxed_(tp_tensor *t) : tp_value(tp_value_tensor(t)) {}
    tp_boxed_(const tp_tensor *t) : tp_value(tp_value_tensor(const_cast<tp_tensor *>(t))) {}
    tp_boxed_(tp_tensors l) : tp_value(tp_value_tensors(l)) {}
    tp_boxed_(tp_ints l) : tp_value(tp_value_ints(l)) {}
    tp_boxed_(tp_floats l) : tp_value(tp_value_floats(l)) {}
    tp_boxed_(tp_scalars l) : tp_value(tp_value_scalars(l)) {}
    tp_boxed_(const char *s) : tp_value(tp_value_string(s)) {}
    tp_boxed_(tp_device d) : tp_value(tp_value_device(d)) {}
    tp_boxed_(tp_dtype d) : tp_value(tp_value_dtype(d)) {}
    tp_boxed_(tp_generator *g) : tp_value(tp_value_generator(g)) {}
    template <class T, class = decltype(TP_SCALAR(std::declval<T>()))>
    tp_boxed_(T v) : tp_value(tp_value_scalar(TP_SCALAR(v))) {}
};
static inline tp_value TP_VALUE(tp_boxed_ v) { return v; }
static_assert(sizeof(tp_boxed_) == sizeof(tp_value), "a list of boxed values is an array of values");
/* The elements of a braced list are evaluated in order, which arguments of a function are not. */
static inline tp_tensor *tp_call_boxed_(const char *name, std::initializer_list<tp_boxed_> args) {
    return tp_call_one(name, (int64_t)args.size(), args.begin());
}
#define tp_call(name, ...) tp_call_boxed_(name, {__VA_ARGS__})
#else
static inline tp_value tp_value_const_(const tp_tensor *t) { return tp_value_tensor((tp_tensor *)(uintptr_t)t); }
static inline tp_value tp_value_uint_(uint64_t v) { return tp_value_scalar(tp_uint(v)); }
static inline tp_value tp_value_long_(long double v) { return tp_value_scalar(tp_float_of_long_(v)); }
static inline tp_value tp_value_cplx_(double _Complex v) { return tp_value_scalar(tp_cplx_of_(v)); }
static inline tp_value tp_value_long_cplx_(long double _Complex v) { return tp_value_scalar(tp_cplx_of_long_(v)); }
/* clang-format off */
#define TP_VALUE(x)                                                                                                   \
    __extension__ _Generic((x), tp_tensor * : tp_value_tensor, const tp_tensor * : tp_value_const_,                   \
        tp_tensors : tp_value_tensors, tp_scalar : tp_value_scalar, tp_ints : tp_value_ints,                          \
        tp_floats : tp_value_floats, tp_scalars : tp_value_scalars, char * : tp_value_string,                         \
        const char * : tp_value_string, tp_device : tp_value_device, tp_generator * : tp_value_generator,             \
        tp_value : tp_value_self,                                                                                     \
        TP_NUMBER_CASES_(tp_value_bool, tp_value_int, tp_value_uint_, tp_value_double, tp_value_long_,                \
                         tp_value_cplx_, tp_value_long_cplx_))(x)
/* clang-format on */
/* function(first, n, values) with the values made in order. */
#define TP_CALL_BOXED_(function, first, ...)                  \
    __extension__({                                           \
        const tp_value tp_values_[] = {TP_BOX_(__VA_ARGS__)}; \
        function(first, TP_COUNT_(__VA_ARGS__), tp_values_);  \
    })
#define tp_call(name, ...)                         TP_CALL_BOXED_(tp_call_one, name, __VA_ARGS__)
#define TP_COUNT_(...)                             TP_COUNT__(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TP_COUNT__(a, b, c, d, e, f, g, h, n, ...) n
#define TP_BOX_(...)                               TP_JOIN_(TP_BOX, TP_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define TP_BOX1(a)                                 TP_VALUE(a)
#define TP_BOX2(a, ...)                            TP_VALUE(a), TP_BOX1(__VA_ARGS__)
#define TP_BOX3(a, ...)                            TP_VALUE(a), TP_BOX2(__VA_ARGS__)
#define TP_BOX4(a, ...)                            TP_VALUE(a), TP_BOX3(__VA_ARGS__)
#define TP_BOX5(a, ...)                            TP_VALUE(a), TP_BOX4(__VA_ARGS__)
#define TP_BOX6(a, ...)                            TP_VALUE(a), TP_BOX5(__VA_ARGS__)
#define TP_BOX7(a, ...)                            TP_VALUE(a), TP_BOX6(__VA_ARGS__)
#define TP_BOX8(a, ...)                            TP_VALUE(a), TP_BOX7(__VA_ARGS__)
#endif
#endif
