/* The C base of torch.nn.Module: where an attribute goes, where it is found, and how a module is called. The rest of
 * Module is Python (taper/nn/modules/module.py), which subclasses this type.
 *
 * As in PyTorch a module's parameters, buffers and children are three dicts in its __dict__, so that programs which
 * look there find them. Reading an attribute that is not in __dict__ or the class asks these three; writing one sorts
 * it by its type. A call without hooks goes straight to forward. */
#include "tpy.h"
#include <structmember.h>

/* With members of its own the base decides the layout of all modules, so that a lazy layer, which mixes in another
 * class, can become a plain one. */
typedef struct module_object {
    PyObject_HEAD
    vectorcallfunc vectorcall; /* used by Python 3.12 and newer, whose classes inherit it */
    PyObject *dict, *weakrefs;
} module_object;

static struct {
    PyObject *parameters, *buffers, *modules, *non_persistent, *forward, *call_hooked, *register_parameter, *getattr,
        *getattribute;
} word;
/* A module's hook dicts: with all of them empty, calling it is calling forward. */
static const char *const hook_names[] = {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                                         "_backward_pre_hooks"};
enum { HOOK_DICTS = sizeof hook_names / sizeof *hook_names };
static PyObject *hook_words[HOOK_DICTS];
static PyObject *parameter_type, *buffer_type, *child_hooks,
    *buffer_hooks; /* set once by Python: two classes, two dicts */
static PyTypeObject *module_type;
static long global_hooks; /* how many hooks hold for all modules */

static PyObject *dict_of(PyObject *self) { /* borrowed */
    module_object *m = (module_object *)self;
    if (!m->dict) m->dict = PyDict_New();
    return m->dict;
}

/* One of the dicts in a module's __dict__; NULL without an exception before Module.__init__ ran. */
static PyObject *part_of(PyObject *self, PyObject *which) {
    PyObject *dict = dict_of(self), *part = dict ? PyDict_GetItemWithError(dict, which) : NULL;
    return part && PyDict_Check(part) ? part : NULL;
}

static PyObject *find_part(PyObject *self, PyObject *name) {
    PyObject *const parts[] = {word.parameters, word.buffers, word.modules};
    for (int i = 0; i < 3; i++) {
        PyObject *part = part_of(self, parts[i]), *found = part ? PyDict_GetItemWithError(part, name) : NULL;
        if (found) return Py_NewRef(found);
        if (PyErr_Occurred()) return NULL;
    }
    return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(self)->tp_name, name);
}

#if PY_VERSION_HEX < 0x030C0000
/* Before 3.12 a class with __getattr__ pays for an exception each time that one is asked. The first such call gives the
 * class this instead, unless it or a class between has a __getattr__ or __getattribute__ of its own; Python takes it
 * away again when one is set later. */
static PyObject *module_getattro(PyObject *self, PyObject *name) {
    PyObject *found = _PyObject_GenericGetAttrWithDict(self, name, NULL, 1);
    return found || PyErr_Occurred() ? found : find_part(self, name);
}
static void shorten_getattr(PyTypeObject *type) {
    if (type->tp_getattro == module_getattro) return;
    PyObject *own = _PyType_Lookup(type, word.getattr), *reads = _PyType_Lookup(type, word.getattribute);
    if (own != _PyType_Lookup(module_type, word.getattr) ||
        reads != _PyType_Lookup(&PyBaseObject_Type, word.getattribute))
        return;
    type->tp_getattro = module_getattro;
    PyType_Modified(type);
}
#else
static void shorten_getattr(PyTypeObject *type) { (void)type; }
#endif

static PyObject *module_getattr(PyObject *self,
                                PyObject *name) { /* called for what __dict__ and the class do not have */
    shorten_getattr(Py_TYPE(self));
    return find_part(self, name);
}

static int forget(PyObject *self, PyObject *which, PyObject *name) {
    PyObject *dict = which ? part_of(self, which) : dict_of(self);
    if (!dict) return PyErr_Occurred() ? -1 : 0;
    int there = PyDict_Contains(dict, name);
    return there > 0 ? PyDict_DelItem(dict, name) : there;
}
static int forget_persistence(PyObject *self, PyObject *name) {
    PyObject *dict = dict_of(self), *set = dict ? PyDict_GetItemWithError(dict, word.non_persistent) : NULL;
    return set ? (PySet_Discard(set, name) < 0 ? -1 : 0) : PyErr_Occurred() ? -1 : 0;
}

/* Parameters and buffers are tensors, whatever else their classes say. */
static int is_instance(PyObject *value, PyObject *type) {
    if (!type || !tpy_is_tensor(value) || (PyObject *)Py_TYPE(value) == type)
        return type && (PyObject *)Py_TYPE(value) == type;
    return PyObject_IsInstance(value, type);
}

static int needs_init(PyObject *value, const char *what) {
    (void)value;
    PyErr_Format(PyExc_AttributeError, "cannot assign %s before Module.__init__() call", what);
    return -1;
}

static int set_parameter(PyObject *self, PyObject *name, PyObject *value) {
    if (!part_of(self, word.parameters)) return needs_init(value, "parameters");
    if (forget(self, NULL, name) < 0 || forget(self, word.buffers, name) < 0 || forget(self, word.modules, name) < 0 ||
        forget_persistence(self, name) < 0)
        return -1;
    PyObject *done = PyObject_CallMethodObjArgs(self, word.register_parameter, name, value, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* What the hooks of a registration make of a value: a new reference. */
static PyObject *registered(PyObject *hooks, PyObject *self, PyObject *name, PyObject *value) {
    Py_INCREF(value);
    if (!hooks || !PyDict_GET_SIZE(hooks)) return value;
    PyObject *list = PyDict_Values(hooks);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *made = PyObject_CallFunctionObjArgs(PyList_GET_ITEM(list, i), self, name, value, NULL);
        if (!made) {
            Py_DECREF(list);
            Py_DECREF(value);
            return NULL;
        }
        if (made == Py_None)
            Py_DECREF(made);
        else
            Py_SETREF(value, made);
    }
    if (!list) Py_CLEAR(value);
    Py_XDECREF(list);
    return value;
}
static int put(PyObject *part, PyObject *hooks, PyObject *self, PyObject *name, PyObject *value) {
    PyObject *kept = registered(hooks, self, name, value);
    int failed = kept ? PyDict_SetItem(part, name, kept) : -1;
    Py_XDECREF(kept);
    return failed;
}
static int set_child(PyObject *self, PyObject *name, PyObject *value) {
    PyObject *modules = part_of(self, word.modules);
    if (!modules) return needs_init(value, "module");
    if (forget(self, NULL, name) < 0 || forget(self, word.parameters, name) < 0 ||
        forget(self, word.buffers, name) < 0 || forget_persistence(self, name) < 0)
        return -1;
    return put(modules, child_hooks, self, name, value);
}
static int set_buffer(PyObject *self, PyObject *name, PyObject *value) {
    if (!part_of(self, word.buffers)) return needs_init(value, "buffer");
    PyObject *result = PyObject_CallMethod(self, "_assign_buffer", "OO", name, value);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int contains(PyObject *part, PyObject *name) { return part ? PyDict_Contains(part, name) : 0; }
static int refuse(PyObject *name, PyObject *value, const char *kind, const char *expected) {
    PyObject *module = PyImport_ImportModule("taper._toplevel"),
             *text = module ? PyObject_CallMethod(module, "typename", "O", value) : NULL;
    if (text)
        PyErr_Format(PyExc_TypeError, "cannot assign '%U' as %s '%U' (%s or None expected)", text, kind, name,
                     expected);
    Py_XDECREF(module);
    Py_XDECREF(text);
    return -1;
}
static int forget_attribute(PyObject *self, PyObject *name) { /* del */
    PyObject *const parts[] = {word.parameters, word.buffers, word.modules};
    for (int i = 0; i < 3; i++) {
        PyObject *part = part_of(self, parts[i]);
        int there = contains(part, name);
        if (there < 0) return -1;
        if (there)
            return parts[i] == word.buffers && forget_persistence(self, name) < 0 ? -1 : PyDict_DelItem(part, name);
    }
    return PyObject_GenericSetAttr(self, name, NULL);
}

/* A name that stands in one of the dicts keeps its kind: only None or a value of that kind may take its place; a
 * parameter may take any. */
static int module_setattr(PyObject *self, PyObject *name, PyObject *value) {
    PyObject *parameters = part_of(self, word.parameters), *modules = part_of(self, word.modules),
             *buffers = part_of(self, word.buffers);
    int there = is_instance(value, parameter_type);
    if (there) return there < 0 ? -1 : set_parameter(self, name, value);
    if ((there = contains(parameters, name)) < 0) return -1;
    if (there) {
        if (value != Py_None) return refuse(name, value, "parameter", "torch.nn.Parameter");
        PyObject *done = PyObject_CallMethodObjArgs(self, word.register_parameter, name, value, NULL);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    if (PyObject_TypeCheck(value, module_type)) return set_child(self, name, value);
    if ((there = contains(modules, name)) < 0) return -1;
    if (there)
        return value == Py_None ? put(modules, child_hooks, self, name, value)
                                : refuse(name, value, "child module", "torch.nn.Module");
    if ((there = is_instance(value, buffer_type))) return there < 0 ? -1 : set_buffer(self, name, value);
    if ((there = contains(buffers, name)) < 0) return -1;
    if (!there) return PyObject_GenericSetAttr(self, name, value);
    if (value != Py_None && !tpy_is_tensor(value))
        return refuse(name, value, "buffer", "torch.nn.Buffer, torch.Tensor");
    return put(buffers, buffer_hooks, self, name, value);
}

/* Methods instead of the type's own slot, so that object.__setattr__(module, name, value) still passes all this by, as
 * PyTorch's users do it. */
static PyObject *set_method(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    if (n != 2 || !PyUnicode_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "__setattr__() takes a name and a value");
    return module_setattr(self, args[0], args[1]) < 0 ? NULL : Py_NewRef(Py_None);
}
static PyObject *delete_method(PyObject *self, PyObject *name) {
    if (!PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "__delattr__() takes a name");
    return forget_attribute(self, name) < 0 ? NULL : Py_NewRef(Py_None);
}

static int has_hooks(PyObject *self) {
    if (global_hooks) return 1;
    for (int i = 0; i < HOOK_DICTS; i++) {
        PyObject *hooks = part_of(self, hook_words[i]);
        if (!hooks && PyErr_Occurred()) return -1;
        if (hooks && PyDict_GET_SIZE(hooks)) return 1;
    }
    return 0;
}
/* forward, or the way with hooks around it; NULL with an exception. */
static PyObject *what_to_call(PyObject *self) {
    int hooked = has_hooks(self);
    return hooked < 0 ? NULL : hooked ? word.call_hooked : word.forward;
}
static PyObject *module_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *method = what_to_call(self);
    if (!method) return NULL;
    if (nargsf & PY_VECTORCALL_ARGUMENTS_OFFSET) { /* room for self in front of the arguments */
        PyObject **all = (PyObject **)args - 1, *before = all[0];
        all[0] = self;
        PyObject *result = PyObject_VectorcallMethod(method, all, (size_t)PyVectorcall_NARGS(nargsf) + 1, names);
        all[0] = before;
        return result;
    }
    PyObject *function = PyObject_GetAttr(self, method),
             *result = function ? PyObject_Vectorcall(function, args, nargsf, names) : NULL;
    Py_XDECREF(function);
    return result;
}
/* A module's first call comes here: modules have no __new__ that would set the faster way, so that a mixin's __new__
 * behind nn.Module is called as in PyTorch. */
static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    ((module_object *)self)->vectorcall = module_vectorcall;
    PyObject *method = what_to_call(self), *all[5] = {self};
    if (!method) return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n < 5 && (!kwargs || !PyDict_GET_SIZE(kwargs))) {
        for (Py_ssize_t i = 0; i < n; i++) all[i + 1] = PyTuple_GET_ITEM(args, i);
        return PyObject_VectorcallMethod(method, all, (size_t)n + 1, NULL);
    }
    PyObject *function = PyObject_GetAttr(self, method),
             *result = function ? PyObject_Call(function, args, kwargs) : NULL;
    Py_XDECREF(function);
    return result;
}
static PyObject *module_getstate(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_XNewRef(dict_of(self));
}

static int module_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((module_object *)self)->dict);
    return 0;
}
static int module_clear(PyObject *self) {
    Py_CLEAR(((module_object *)self)->dict);
    return 0;
}
static void module_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((module_object *)self)->weakrefs) PyObject_ClearWeakRefs(self);
    module_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef module_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(module_object, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(module_object, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(module_object, weakrefs), READONLY, NULL},
    {0}};
static PyGetSetDef module_properties[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                          {0}};
static PyMethodDef module_methods[] = {{"__getattr__", module_getattr, METH_O, NULL},
                                       {"__setattr__", (PyCFunction)(void (*)(void))set_method, METH_FASTCALL, NULL},
                                       {"__delattr__", delete_method, METH_O, NULL},
                                       {"__getstate__", module_getstate, METH_NOARGS, NULL},
                                       {0}};
static PyType_Slot module_slots[] = {{Py_tp_call, module_call},
                                     {Py_tp_methods, module_methods},
                                     {Py_tp_traverse, module_traverse},
                                     {Py_tp_clear, module_clear},
                                     {Py_tp_dealloc, module_dealloc},
                                     {Py_tp_members, module_members},
                                     {Py_tp_getset, module_properties},
                                     {Py_tp_doc, "Attributes and calls of torch.nn.Module."},
                                     {0, NULL}};
static PyType_Spec module_spec = {
    "taper._C.ModuleBase", sizeof(module_object), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, module_slots};

static PyObject *set_parameter_types(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *given[4], **const kept[4] = {&parameter_type, &buffer_type, &child_hooks, &buffer_hooks};
    if (!PyArg_ParseTuple(args, "OOO!O!", &given[0], &given[1], &PyDict_Type, &given[2], &PyDict_Type, &given[3]))
        return NULL;
    for (int i = 0; i < 4; i++) Py_XSETREF(*kept[i], Py_NewRef(given[i]));
    Py_RETURN_NONE;
}
long tpy_hooks_of_all_modules(void) { return global_hooks; }

static PyObject *count_global_hooks(PyObject *module, PyObject *change) {
    (void)module;
    long by = PyLong_AsLong(change);
    if (by == -1 && PyErr_Occurred()) return NULL;
    return PyLong_FromLong(global_hooks += by);
}
static PyObject *init_gain(PyObject *module, PyObject *args) {
    (void)module;
    const char *nonlinearity;
    double parameter = Py_NAN;
    if (!PyArg_ParseTuple(args, "s|d:_init_gain", &nonlinearity, &parameter)) return NULL;
    const tp_operator *op = tp_find_operator(nonlinearity);
    return op && op->gain ? PyFloat_FromDouble(op->gain(parameter)) : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"_set_parameter_types", set_parameter_types, METH_VARARGS, NULL},
    {"_count_global_hooks", count_global_hooks, METH_O, NULL},
    {"_init_gain", init_gain, METH_VARARGS, "_init_gain(nonlinearity, parameter): the gain of the table, or None."},
    {0}};

int tpy_init_nn(PyObject *module) {
    static const struct {
        PyObject **at;
        const char *text;
    } words[] = {{&word.parameters, "_parameters"},
                 {&word.buffers, "_buffers"},
                 {&word.modules, "_modules"},
                 {&word.non_persistent, "_non_persistent_buffers_set"},
                 {&word.forward, "forward"},
                 {&word.call_hooked, "_call_impl"},
                 {&word.register_parameter, "register_parameter"},
                 {&word.getattr, "__getattr__"},
                 {&word.getattribute, "__getattribute__"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!(*words[i].at = PyUnicode_InternFromString(words[i].text))) return -1;
    for (int i = 0; i < HOOK_DICTS; i++)
        if (!(hook_words[i] = PyUnicode_InternFromString(hook_names[i]))) return -1;
    module_type = (PyTypeObject *)PyType_FromSpec(&module_spec);
    if (!module_type || PyModule_AddType(module, module_type) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
