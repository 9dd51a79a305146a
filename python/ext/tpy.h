/* The Python extension's inside: what its files share. The extension is C against CPython's API, linked to libtaper.so
 * through its public header alone; it knows no operator by name except where Python's protocols need one. An operator's
 * callable, its methods and its keywords come from the library's registry (tp_operator), which opgen wrote from the
 * tables.
 *
 * Conventions: functions return a new reference, or NULL with a Python exception set; `tpy_fit_*` return 1 (fits), 0
 * (does not fit, no exception), -1 (exception). The interpreter lock is held everywhere except inside TPY_HEAVY
 * regions. */
#ifndef TPY_H
#define TPY_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <taper/taper.h>

/* ---- Tensors (tensor.c) ---- */
typedef struct tpy_tensor {
    PyObject_HEAD
    tp_tensor *t;   /* owned; never NULL in a finished object */
    PyObject *dict; /* attributes a user sets, made on demand */
    PyObject *weakrefs;
    bool kept;                /* the tensor owns this object and t is borrowed (tensor.c) */
    bool lasting;             /* a gradient that was read: x.grad is the same object as long as x has it */
    PyObject *claimed_device; /* of a wrapper: the device that it says it is on; NULL for others */
} tpy_tensor;
extern PyTypeObject *tpy_tensor_type; /* taper.Tensor */
static inline bool tpy_is_tensor(PyObject *o) {
    return Py_TYPE(o) == tpy_tensor_type || PyType_IsSubtype(Py_TYPE(o), tpy_tensor_type);
}
static inline tp_tensor *tpy_unwrap(PyObject *o) { return ((tpy_tensor *)o)->t; } /* borrowed; o must be a tensor */
PyObject *
tpy_wrap(tp_tensor *t); /* takes t over; the same object for the same tensor; NULL becomes the pending error */
PyObject *tpy_wrap_as(tp_tensor *t, PyTypeObject *type); /* as an instance of a subclass */
PyObject *tpy_wrap_list(tp_tensors list);                /* a tuple; takes the list over */
int tpy_visit_owned(const tp_tensor *t, visitproc visit,
                    void *arg);            /* hooks.c: what Python objects go with t, for the collector */
PyObject *tpy_shape(const tp_tensor *t);   /* a Size */
int tpy_add_methods(PyMethodDef *methods); /* to taper.Tensor */
/* What a library call has just returned belongs to the caller, whatever scopes are open around us (a hook's, for
 * example). */
static inline tp_tensor *tpy_own(tp_tensor *t) { return tp_own(t); }

/* ---- Errors (error.c) ---- */
const char *tpy_error_text(void);             /* the pending message without the name of a function of C */
PyObject *tpy_raise(void);                    /* the library's pending error as a Python exception; always NULL */
PyObject *tpy_raise_in(const char *operator); /* the same, naming the operator that was called */
static inline PyObject *tpy_none_or_raise(bool ok) {
    if (!ok) return tpy_raise();
    Py_RETURN_NONE;
}
/* For functions that answer with a number: `value`, or -1 with the exception. */
static inline int tpy_int_or_raise(bool ok, int value) {
    if (ok) return value;
    tpy_raise();
    return -1;
}

/* ---- dtypes, devices, layouts, sizes (types.c) ---- */
typedef struct {
    PyObject_HEAD
    tp_dtype dtype;
} tpy_dtype;
typedef struct {
    PyObject_HEAD
    tp_device device;
    bool indexed;
} tpy_device;
typedef struct {
    PyObject_HEAD
    tp_layout layout;
} tpy_memory_format;
extern PyTypeObject *tpy_dtype_type, *tpy_device_type, *tpy_memory_format_type, *tpy_layout_type, *tpy_size_type;
bool tpy_is_strided(PyObject *layout); /* is it torch.strided? */
PyObject *tpy_dtype_object(tp_dtype dtype);
PyObject *tpy_device_object(tp_device device);
PyObject *tpy_size_of(tp_ints sizes);
PyObject *tpy_int_tuple(tp_ints values);
int tpy_fit_dtype(PyObject *o, tp_dtype *out); /* a dtype, or Python's float, int, bool, complex */
int tpy_fit_device(PyObject *o,
                   tp_device *out); /* a device, a text ("cuda:1") or an index; "cuda" alone is the current one */
int tpy_init_error(PyObject *module);
int tpy_init_types(PyObject *module);
int tpy_init_extension(PyObject *module);                     /* cpp_extension.c */
PyObject *tpy_device_enter(PyObject *self, PyObject *unused); /* defaults.c: `with device:` */
PyObject *tpy_device_exit(PyObject *self, PyObject *args);
bool tpy_default_follows(tp_device device); /* defaults.c: it became its type's current device, which the default device
                                               may stand for; false: an error */
tp_device_type tpy_accelerator(
    void); /* gpu.c: the type of the accelerator there is: CUDA's before others; TP_DEVICE_NONE without one */

/* ---- Numbers and lists from Python objects (arguments.c) ---- */
int tpy_fit_scalar(PyObject *o,
                   tp_scalar *out);         /* Python's and NumPy's numbers, one-element tensors without gradient */
int tpy_fit_int(PyObject *o, int64_t *out); /* whole numbers, not bool */
tp_dtype tpy_wide_dtype(tp_dtype dtype); /* float32 or complex64 for the dtypes that C has no type for, others unchanged
                                            (tensor_from_data.c) */
PyObject *tpy_number(tp_scalar s);       /* bool, int, float or complex */

enum tpy_kind {
    TPY_TENSOR,
    TPY_TENSORS,
    TPY_OPERAND,
    TPY_SCALAR,
    TPY_INT,
    TPY_INTS,
    TPY_FLOAT,
    TPY_BOOL,
    TPY_STRING,
    TPY_DTYPE,
    TPY_DEVICE,
    TPY_LAYOUT,
    TPY_GENERATOR,
    TPY_FLOATS,
    TPY_SCALARS,
    TPY_BOOLS
};
typedef struct tpy_argument {
    PyObject *name; /* interned */
    uint8_t kind;   /* tpy_kind */
    bool none_fits; /* `?`: None may be given */
    bool has_default;
    bool keyword_only;
    bool takes_rest; /* x.view(2, 3): the integers that follow belong to this list */
    int8_t length;   /* int[2]: 2; otherwise 0 */
} tpy_argument;

#define TPY_MAX_ARGS 32
typedef struct tpy_frame { /* one call's values and what they point at */
    tp_value values[TPY_MAX_ARGS];
    int64_t words[48]; /* room for short lists */
    int used;
    bool exact;      /* a tensor is not taken for a number: max(x, y) before max(x, dim) */
    PyObject *owned; /* list of temporaries and memory capsules, NULL while there are none */
} tpy_frame;
int tpy_fit(const tpy_argument *a, PyObject *o, tp_value *v, tpy_frame *f);
void *tpy_frame_alloc(tpy_frame *f, size_t bytes);
bool tpy_frame_keep(tpy_frame *f, PyObject *o); /* steals o until the call ends */
void tpy_frame_end(tpy_frame *f);

/* ---- Operators as callables (operator.c) ---- */
int tpy_init_operators(PyObject *module);
int tpy_init_numbers(void); /* number.c: + - * / and the others, found by their symbols */
PyObject *tpy_call_name(const char *name, PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames);                      /* a function of the registry by PyTorch's name */
PyObject *tpy_results(const tp_operator *op, tp_value *results); /* boxed results as Python objects */
PyObject *tpy_invoke(const tp_operator *op, const tp_value *values,
                     bool inplace); /* calls and wraps; plain tensors only */

/* Lets other threads run while the statement does. */
#define TPY_UNLOCKED(...)                   \
    do {                                    \
        Py_BEGIN_ALLOW_THREADS __VA_ARGS__; \
        Py_END_ALLOW_THREADS                \
    } while (0)

/* Lets other threads run while the library works, if that takes more than a few microseconds. */
#define TPY_HEAVY_ELEMENTS 8192
#define TPY_HEAVY(elements, ...)                                                            \
    do {                                                                                    \
        PyThreadState *tpy_saved_ = (elements) >= TPY_HEAVY_ELEMENTS ? tpy_unlock() : NULL; \
        __VA_ARGS__;                                                                        \
        if (tpy_saved_) tpy_lock(tpy_saved_);                                               \
    } while (0)

/* Calls that run without the interpreter's lock read their tensors' headers. What exchanges a header's memory or shape,
 * or moves a storage's memory, waits for them: between tpy_change_begin and tpy_change_end none runs, and new ones keep
 * the lock. It waits for a tenth of a second at most, as a call may itself wait for this thread. All with the lock held
 * (interpreter_lock.c). */
PyThreadState *tpy_unlock(void);               /* NULL: keep the lock */
PyThreadState *tpy_unlock_after_changes(void); /* never NULL: for what may wait for other threads itself */
void tpy_await_changes(void);                  /* before such a call reads which tensors its objects stand for */
void tpy_lock(PyThreadState *saved);
void tpy_change_begin(void);
void tpy_change_end(void);
#define TPY_READING(...)                                        \
    do {                                                        \
        PyThreadState *tpy_saved_ = tpy_unlock_after_changes(); \
        __VA_ARGS__;                                            \
        tpy_lock(tpy_saved_);                                   \
    } while (0)
#define TPY_CHANGE(...)     \
    do {                    \
        tpy_change_begin(); \
        __VA_ARGS__;        \
        tpy_change_end();   \
    } while (0)

/* ---- Numbers before tensors, as PyTorch once had them (deprecated_signatures.c) ---- */
enum { TPY_OLD_ARGS = 6 };
typedef struct tpy_old_call { /* args: n tensors, then the values of kwnames */
    PyObject *args[TPY_OLD_ARGS], *kwnames;
    Py_ssize_t n;
} tpy_old_call;
/* Does the call follow an old order? Then `call` says it in today's, with kwnames owned. An exception may be set
 * otherwise. */
bool tpy_deprecated_signature(const tp_operator *op, const char *name, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames, tpy_old_call *call);

/* ---- __torch_function__ (override.c) ---- */
/* Does one of the objects override functions? Fills `overrides` (a list, in the order they are asked) or leaves it
 * NULL. */
bool tpy_overridden(PyObject *const *args, Py_ssize_t n);
bool tpy_has_modes(void);      /* does a mode see this thread's calls? */
bool tpy_handled(PyObject *o); /* would a __torch_dispatch__, of a mode or of this object's class (NULL: no object), see
                                  an operator on it? */
PyObject *tpy_lifted(
    PyObject *tensor); /* a tensor from Python's data, as the mode that this thread is in makes it; takes it over */
bool tpy_dispatches(PyTypeObject *type); /* has it a __torch_dispatch__? Asked when the first object of a type is made:
                                            from a yes on, calls look for handlers */
PyObject *tpy_call_override(PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *tpy_call_overridden_method(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                     PyObject *kwnames); /* of Tensor.name */
int tpy_init_override(PyObject *module);

/* ---- Protocols of the tensor type ---- */
PyObject *tpy_compare(PyObject *a, PyObject *b, int op); /* number.c */
PyObject *tpy_get_item(PyObject *self, PyObject *key);   /* index.c */
int tpy_set_item(PyObject *self, PyObject *key, PyObject *value);
extern PyType_Slot tpy_number_slots[];                /* number.c, ends with {0, NULL} */
PyObject *tpy_complex(PyObject *o, PyObject *unused); /* complex(x) */
extern PyMethodDef tpy_tensor_methods[], tpy_autograd_methods[];
extern PyGetSetDef tpy_tensor_properties[];

/* ---- Data from and to Python ---- */
tp_tensor *
tpy_tensor_of(PyObject *data, tp_dtype dtype,
              tp_device device); /* tensor_from_data.c: a copy of nested sequences, numbers, arrays, tensors */
tp_tensor *tpy_over_array(PyObject *array,
                          bool warn); /* array.c: over a NumPy array's memory; warn: of read-only ones */
bool tpy_is_ndarray(PyObject *o);
tp_dtype tpy_array_dtype(PyObject *array);    /* of its elements; TP_NO_DTYPE with an exception */
tp_dtype tpy_numpy_scalar_dtype(PyObject *o); /* TP_NO_DTYPE for anything else */
tp_tensor *tpy_pinned(tp_tensor *t);          /* gpu.c: in pinned memory; takes t over; NULL with an exception */
int tpy_warn_copy_construct(
    void); /* tensor_from_data.c: torch.tensor(tensor) had better be a clone; -1: an exception */
/* storage.c: of an UntypedStorage or a TypedStorage, borrowed; NULL for others */
tp_storage *tpy_storage_in(PyObject *o);
PyObject *tpy_wrap_storage(tp_storage *s); /* an UntypedStorage; takes s over; the same object for the same storage */
tp_tensor *tpy_over_storage(tp_storage *s, tp_dtype dtype); /* all of it, in one dimension */
/* Is o an UntypedStorage, or a TypedStorage of the dtype? False with PyTorch's exception; argument: o was one of a
 * method's arguments. */
bool tpy_storage_holds(PyObject *o, tp_dtype dtype, bool argument);
int tpy_get_buffer(PyObject *o, Py_buffer *view, int flags);
void tpy_release_buffer(PyObject *o, Py_buffer *view);

/* ---- Files with functions of their own; each adds them to the module ---- */
int tpy_init_tensor(PyObject *module);  /* tensor.c */
int tpy_init_make(PyObject *module);    /* tensor_from_data.c: tensor(), as_tensor() */
int tpy_init_array(PyObject *module);   /* array.c: NumPy and buffers */
int tpy_init_read(PyObject *module);    /* tensor_to_data.c: item, tolist */
int tpy_init_convert(PyObject *module); /* convert.c: to, type */
int tpy_init_legacy(PyObject *module);  /* legacy.c: torch.Tensor(2, 3), x.new(), subclasses */
int tpy_init_storage(PyObject *module); /* storage.c: UntypedStorage, set_, resize_ */
int tpy_init_files(PyObject *module);   /* files.c: checkpoints */
int tpy_init_dlpack(PyObject *module);  /* dlpack.c: capsules */
bool tpy_forget_sparse_grad(
    PyObject *tensor);                   /* autograd.c: drops a gradient that taper.sparse has put beside the tensor */
int tpy_init_autograd(PyObject *module); /* autograd.c: modes, backward, grad, nodes, Function */
int tpy_init_random(PyObject *module);   /* random.c: Generator, seeds */
int tpy_init_nn(PyObject *module);       /* nn.c: the base of torch.nn.Module */
long tpy_hooks_of_all_modules(void);     /* nn.c: how many hooks hold for every module */
void tpy_watch_read(
    const char *what); /* code_that_ran.c: the program reads what no guard of a graph holds; a capture ends */
int tpy_init_events(PyObject *module);          /* events.c: event and record files */
int tpy_init_summaries(PyObject *module);       /* summaries.c: what is written into them */
int tpy_init_clip(PyObject *module);            /* clip.c: norms of many gradients */
int tpy_init_optim(PyObject *module);           /* optim.c: the table of optimisers, and their step */
int tpy_init_schedule(PyObject *module);        /* schedule.c: formulas of learning-rate schedules */
int tpy_init_defaults(PyObject *module);        /* defaults.c: default device, determinism, interop threads */
int tpy_init_media(PyObject *module);           /* media.c: images and sounds in files */
int tpy_init_profile(PyObject *module);         /* profile.c: what a thread ran */
int tpy_init_amp(PyObject *module);             /* amp.c: autocast's settings, unscaling */
int tpy_init_graph(PyObject *module);           /* compiled_calls.c: calls that are captured and run again */
int tpy_init_data(PyObject *module);            /* data.c: datasets that the library reads */
int tpy_init_dist(PyObject *module);            /* dist.c: process groups */
int tpy_init_reducer(PyObject *module);         /* reducer.c: gradients averaged over ranks */
int tpy_init_checkpoint_plan(PyObject *module); /* checkpoint_plan.c: who writes which part of a checkpoint */
int tpy_init_gpu(PyObject *module);             /* gpu.c: accelerators and their memory */
int tpy_init_streams(PyObject *module);         /* streams.c: their streams, events and graphs */
int tpy_init_settings(PyObject *module);        /* settings.c: threads, default dtype, printing, versions */
int tpy_init_script(PyObject *module);          /* script.c: TorchScript programs */

/* Generators */
extern PyTypeObject *tpy_generator_type;
tp_generator *tpy_generator_of(PyObject *o);
#endif
