/* The C base of torch.nn.Module: where an attribute goes, where it is found, and how a module is called. The rest of Module is Python
 * (taper/nn/modules/module.py), which subclasses this type.
 *
 * As in PyTorch a module's parameters, buffers and children are three dicts in its __dict__, so that programs which look there find them.
 * Reading an attribute that is not in __dict__ or the class asks these three; writing one sorts it by its type. A call without hooks goes straight
 * to forward. */
#include "tpy.h"

static struct { PyObject *parameters, *buffers, *modules, *non_persistent, *forward, *call_hooked, *register_parameter; } word;
/* A module's hook dicts: with all of them empty, calling it is calling forward. */
static const char *const hook_names[] = {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"};
enum { HOOK_DICTS = sizeof hook_names / sizeof *hook_names };
static PyObject *hook_words[HOOK_DICTS];
static PyObject *parameter_type, *buffer_type; /* set once by Python */
static PyTypeObject *module_type;
static long global_hooks; /* how many hooks hold for all modules */

static PyObject *dict_of(PyObject *self) { /* borrowed */
    PyObject **at = _PyObject_GetDictPtr(self);
    if (at && !*at) *at = PyDict_New();
    return at ? *at : NULL;
}

/* One of the dicts in a module's __dict__; NULL without an exception before Module.__init__ ran. */
static PyObject *part_of(PyObject *self, PyObject *which) {
    PyObject *dict = dict_of(self), *part = dict ? PyDict_GetItemWithError(dict, which) : NULL;
    return part && PyDict_Check(part) ? part : NULL;
}

static PyObject *module_getattr(PyObject *self, PyObject *name) { /* called for what __dict__ and the class do not have */
    PyObject *const parts[] = {word.parameters, word.buffers, word.modules};
    for (int i = 0; i < 3; i++) {
        PyObject *part = part_of(self, parts[i]), *found = part ? PyDict_GetItemWithError(part, name) : NULL;
        if (found) return Py_NewRef(found);
        if (PyErr_Occurred()) return NULL;
    }
    return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(self)->tp_name, name);
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

static int is_instance(PyObject *value, PyObject *type) { return type ? PyObject_IsInstance(value, type) : 0; }

static int needs_init(PyObject *value, const char *what) {
    (void)value;
    PyErr_Format(PyExc_AttributeError, "cannot assign %s before Module.__init__() call", what);
    return -1;
}

static int set_parameter(PyObject *self, PyObject *name, PyObject *value) {
    if (!part_of(self, word.parameters)) return needs_init(value, "parameters");
    if (forget(self, NULL, name) < 0 || forget(self, word.buffers, name) < 0 || forget(self, word.modules, name) < 0 || forget_persistence(self, name) < 0) return -1;
    PyObject *done = PyObject_CallMethodObjArgs(self, word.register_parameter, name, value, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
static int set_child(PyObject *self, PyObject *name, PyObject *value) {
    PyObject *modules = part_of(self, word.modules);
    if (!modules) return needs_init(value, "module");
    if (forget(self, NULL, name) < 0 || forget(self, word.parameters, name) < 0 || forget(self, word.buffers, name) < 0 || forget_persistence(self, name) < 0) return -1;
    return PyDict_SetItem(modules, name, value);
}

/* The name already stands in one of the dicts: only None or a value of its kind may take its place. 0: not there. */
static int replace(PyObject *self, PyObject *which, PyObject *name, PyObject *value, int fits, const char *kind) {
    PyObject *part = part_of(self, which);
    int there = part ? PyDict_Contains(part, name) : 0;
    if (there <= 0) return there;
    if (value != Py_None && !fits) {
        PyErr_Format(PyExc_TypeError, "cannot assign '%s' object to %s '%U' (torch.nn.%s or None required)", Py_TYPE(value)->tp_name, kind, name,
            which == word.parameters ? "Parameter" : which == word.modules ? "Module" : "Buffer, torch.Tensor");
        return -1;
    }
    return PyDict_SetItem(part, name, value) < 0 ? -1 : 1;
}

static int module_setattr(PyObject *self, PyObject *name, PyObject *value) {
    if (!value) { /* del */
        PyObject *const parts[] = {word.parameters, word.buffers, word.modules};
        for (int i = 0; i < 3; i++) {
            PyObject *part = part_of(self, parts[i]);
            int there = part ? PyDict_Contains(part, name) : 0;
            if (there < 0) return -1;
            if (there) return parts[i] == word.buffers && forget_persistence(self, name) < 0 ? -1 : PyDict_DelItem(part, name);
        }
        return PyObject_GenericSetAttr(self, name, NULL);
    }
    int parameter = is_instance(value, parameter_type);
    if (parameter) return parameter < 0 ? -1 : set_parameter(self, name, value);
    if (PyObject_TypeCheck(value, module_type)) return set_child(self, name, value);
    int done = replace(self, word.parameters, name, value, 0, "parameter");
    if (!done) done = replace(self, word.modules, name, value, 0, "child module");
    if (done) return done < 0 ? -1 : 0;
    int buffer = tpy_is_tensor(value) ? is_instance(value, buffer_type) : 0;
    if (buffer < 0) return -1;
    if (buffer) {
        PyObject *buffers = part_of(self, word.buffers), *persistent = PyObject_GetAttrString(value, "persistent");
        if (!buffers) return Py_XDECREF(persistent), needs_init(value, "buffer");
        PyObject *result = persistent ? PyObject_CallMethod(self, "register_buffer", "OOO", name, value, persistent) : NULL;
        Py_XDECREF(persistent);
        Py_XDECREF(result);
        return result ? 0 : -1;
    }
    done = replace(self, word.buffers, name, value, tpy_is_tensor(value), "buffer");
    return done ? (done < 0 ? -1 : 0) : PyObject_GenericSetAttr(self, name, value);
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
static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    int hooked = has_hooks(self);
    PyObject *function = hooked < 0 ? NULL : PyObject_GetAttr(self, hooked ? word.call_hooked : word.forward);
    PyObject *result = function ? PyObject_Call(function, args, kwargs) : NULL;
    Py_XDECREF(function);
    return result;
}

static int module_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    (void)arg;
    return 0;
}
static void module_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef module_methods[] = {{"__getattr__", module_getattr, METH_O, NULL}, {0}};
static PyType_Slot module_slots[] = {{Py_tp_setattro, module_setattr}, {Py_tp_call, module_call}, {Py_tp_methods, module_methods}, {Py_tp_traverse, module_traverse},
    {Py_tp_dealloc, module_dealloc}, {Py_tp_doc, "Attributes and calls of torch.nn.Module."}, {0, NULL}};
static PyType_Spec module_spec = {"taper._C.ModuleBase", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, module_slots};

static PyObject *set_parameter_types(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *parameter, *buffer;
    if (!PyArg_ParseTuple(args, "OO", &parameter, &buffer)) return NULL;
    Py_XSETREF(parameter_type, Py_NewRef(parameter));
    Py_XSETREF(buffer_type, Py_NewRef(buffer));
    Py_RETURN_NONE;
}
static PyObject *count_global_hooks(PyObject *module, PyObject *change) {
    (void)module;
    long by = PyLong_AsLong(change);
    if (by == -1 && PyErr_Occurred()) return NULL;
    return PyLong_FromLong(global_hooks += by);
}
static PyMethodDef functions[] = {{"_set_parameter_types", set_parameter_types, METH_VARARGS, NULL}, {"_count_global_hooks", count_global_hooks, METH_O, NULL}, {0}};

int tpy_init_nn(PyObject *module) {
    static const struct { PyObject **at; const char *text; } words[] = {{&word.parameters, "_parameters"}, {&word.buffers, "_buffers"}, {&word.modules, "_modules"},
        {&word.non_persistent, "_non_persistent_buffers_set"}, {&word.forward, "forward"}, {&word.call_hooked, "_call_with_hooks"}, {&word.register_parameter, "register_parameter"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!(*words[i].at = PyUnicode_InternFromString(words[i].text))) return -1;
    for (int i = 0; i < HOOK_DICTS; i++)
        if (!(hook_words[i] = PyUnicode_InternFromString(hook_names[i]))) return -1;
    module_type = (PyTypeObject *)PyType_FromSpec(&module_spec);
    if (!module_type || PyModule_AddType(module, module_type) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}
