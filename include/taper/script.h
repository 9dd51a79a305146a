/* TorchScript programs: files that PyTorch's torch.jit.save wrote, of traced and of scripted modules, loaded and run.
 *
 *     tp_ivalue *net = tp_script_load("net.pt");
 *     TP_SCOPE { tp_tensor *y = tp_script_forward(net, TP_LIST(x)); ... }
 *     tp_ivalue_release(net);
 *
 * A file's code is interpreted: what it computes it computes by this library's operators, on any device, with
 * gradients. It can do nothing else: no files, no processes. Loading runs none of it, except for the __setstate__ of
 * classes that have one. Errors name the file, the function and the line of its code.
 *
 * Modules, and everything that goes into a program or comes out of it, are values, tp_ivalue. A module may be called on
 * several threads at once as long as its code writes none of its attributes. */
#ifndef TAPER_SCRIPT_H
#define TAPER_SCRIPT_H
#include <taper/tensor.h>

TP_BEGIN

typedef struct tp_ivalue tp_ivalue;

typedef enum tp_ivalue_kind {
    TP_IVALUE_NOTHING = 0, /* there is no value: tp_ivalue_kind_of(NULL) */
    TP_IVALUE_NONE,        /* Python's None */
    TP_IVALUE_TENSOR,
    TP_IVALUE_NUMBER, /* bool, integer, float, complex; dtypes are integers to programs, as torch::ScalarType */
    TP_IVALUE_TEXT,
    TP_IVALUE_DEVICE,
    TP_IVALUE_LIST,
    TP_IVALUE_TUPLE, /* named tuples too */
    TP_IVALUE_DICT,
    TP_IVALUE_OBJECT /* a module, or an object of a scripted class */
} tp_ivalue_kind;

/* ---- Loading, running, saving ---- */
TP_API tp_ivalue *tp_script_load(const char *path); /* the module; release it with tp_ivalue_release */
TP_API bool tp_script_is(const char *path);         /* is it a file of that kind? No error if not */
/* The same from memory, which has to stay during the call; `name` is what messages call it. */
TP_API tp_ivalue *tp_script_load_memory(const char *name, const void *data, int64_t bytes);
/* module.forward(inputs...), for a method that takes tensors and gives one. The result is the caller's or its scope's.
 */
TP_API tp_tensor *tp_script_forward(tp_ivalue *module, tp_tensors inputs);
/* Calls a method: values by position, then `nnamed` by name. What it does not give has its default. */
TP_API tp_ivalue *tp_script_call(tp_ivalue *object, const char *method, int64_t n, tp_ivalue *const *args,
                                 int64_t nnamed, const char *const *names, tp_ivalue *const *named);
/* Writes the program with its attributes as they are now, for PyTorch too. */
TP_API bool tp_script_save(tp_ivalue *module, const char *path);

/* Other files that lie in the archive under a name, as torch.jit.save's _extra_files: saved with the program, and read
 * from a file (or from memory, path NULL) as a row of uint8, the caller's or its scope's. NULL without an error: there
 * is none of that name. */
TP_API bool tp_script_save_with(tp_ivalue *module, const char *path, int64_t n, const char *const *names,
                                tp_tensor *const *contents);
TP_API tp_tensor *tp_script_extra(const char *path, const void *data, int64_t bytes, const char *name);

/* ---- Objects ---- */
TP_API const char *tp_ivalue_class(const tp_ivalue *object); /* "__torch__.Net"; of a named tuple too; NULL: none */
/* The attributes in the order of the class, children and parameters among them. */
TP_API int64_t tp_ivalue_attributes(const tp_ivalue *object);
TP_API const char *tp_ivalue_attribute(const tp_ivalue *object, int64_t i); /* the name; of named tuples too */
typedef enum tp_attribute_kind { TP_ATTRIBUTE_PLAIN, TP_ATTRIBUTE_PARAMETER, TP_ATTRIBUTE_BUFFER } tp_attribute_kind;
TP_API tp_attribute_kind tp_ivalue_attribute_kind(const tp_ivalue *object, int64_t i);
TP_API tp_ivalue *tp_ivalue_get(const tp_ivalue *object, const char *name); /* an error if there is none */
TP_API bool tp_ivalue_set(tp_ivalue *object, const char *name, const tp_ivalue *value);
TP_API bool tp_ivalue_is_module(const tp_ivalue *object);
/* The same object, not one that is equal? */
TP_API bool tp_ivalue_is(const tp_ivalue *a, const tp_ivalue *b);
TP_API int64_t tp_ivalue_methods(const tp_ivalue *object);
TP_API const char *tp_ivalue_method(const tp_ivalue *object, int64_t i);        /* the name */
TP_API const char *tp_ivalue_code(const tp_ivalue *object, const char *method); /* its text; lives as long as object */
/* For a module and all below it: training or evaluation; memory of parameters, buffers and other tensors moves to the
 * device, their identity stays. */
TP_API bool tp_script_train(tp_ivalue *module, bool on);
TP_API bool tp_script_to(tp_ivalue *module, tp_device device);

/* ---- Values ----
 * Each of these is the caller's to release. */
/* Makes a value, which the caller releases. Lists, tuples and dicts keep a reference to what is in them. */
TP_API tp_ivalue *tp_ivalue_none(void);
TP_API tp_ivalue *tp_ivalue_of_tensor(tp_tensor *t);
TP_API tp_ivalue *tp_ivalue_of_number(tp_scalar number);
TP_API tp_ivalue *tp_ivalue_of_dtype(tp_dtype dtype); /* its number */
TP_API tp_ivalue *tp_ivalue_of_text(const char *text);
TP_API tp_ivalue *tp_ivalue_of_device(tp_device device);
TP_API tp_ivalue *tp_ivalue_list(int64_t n, tp_ivalue *const *items);
TP_API tp_ivalue *tp_ivalue_tuple(int64_t n, tp_ivalue *const *items);
TP_API tp_ivalue *tp_ivalue_dict(int64_t n, tp_ivalue *const *keys, tp_ivalue *const *values);
/* One more reference to the value, which it returns. */
TP_API tp_ivalue *tp_ivalue_retain(tp_ivalue *v);
TP_API void tp_ivalue_release(tp_ivalue *v); /* NULL is fine */

/* What kind of value it is. */
TP_API tp_ivalue_kind tp_ivalue_kind_of(const tp_ivalue *v);
TP_API int64_t tp_ivalue_count(const tp_ivalue *v);                /* of items, of a dict's pairs */
TP_API tp_ivalue *tp_ivalue_at(const tp_ivalue *v, int64_t i);     /* an item, a dict's value */
TP_API tp_ivalue *tp_ivalue_key_at(const tp_ivalue *v, int64_t i); /* of a dict */
TP_API tp_tensor *tp_ivalue_tensor(const tp_ivalue *v);            /* the caller's or its scope's */
/* The number that it is. */
TP_API tp_scalar tp_ivalue_number(const tp_ivalue *v);
TP_API const char *tp_ivalue_text(const tp_ivalue *v); /* lives as long as v */
/* The device that it is. */
TP_API tp_device tp_ivalue_device(const tp_ivalue *v);

TP_END
#endif
