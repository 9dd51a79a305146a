/* What a captured call may read of the program: everything that the function, its closure, its defaults, the globals
 * that its code names and the arguments lead to. Before the call all of that is followed, as far as it can be;
 * afterwards it is known which code ran and by which names it reads, and then an object that cannot be followed to its
 * end is refused: one of C with contents of its own, a function of C that is not listed, an iterator. */
#include "guards.h"
#include <structmember.h>

/* Python cannot change these, or they are not more than they show. */
static bool is_plain(const tpy_guards *g, PyObject *o) {
    PyTypeObject *t = Py_TYPE(o);
    if (o == Py_None || t == &PyLong_Type || t == &PyFloat_Type || t == &PyUnicode_Type || t == &PyBool_Type ||
        t == &PyBytes_Type || t == &PyComplex_Type || t == &PyCode_Type || t == &PyEllipsis_Type ||
        t == &PyRange_Type || t == tpy_dtype_type || t == tpy_device_type || t == tpy_memory_format_type ||
        t == tpy_layout_type || t == tpy_size_type || t == &PyGetSetDescr_Type || t == &PyMemberDescr_Type ||
        t == &PyWrapperDescr_Type)
        return true;
    return !g->strict && (PyCFunction_Check(o) || t == &PyMethodDescr_Type || PyModule_Check(o));
}

static bool is_named(const tpy_guards *g, PyObject *name) {
    if (!g->names) return false;
    return g->names_anything || PySet_Contains(g->names, name) > 0 || PySet_Contains(g->own_names, name) > 0;
}

/* Something that no code which ran names: it is watched where it can be, and no obstacle where it cannot. */
static bool follow_later(tpy_guards *g, PyObject *o) { return PyList_Append(g->later, o) == 0; }

static bool follow_again_later(tpy_guards *g, PyObject *o) { /* it counts as seen by now */
    PyObject *address = PyLong_FromVoidPtr(o);
    bool ok = address && PySet_Discard(g->seen, address) >= 0 && follow_later(g, o);
    Py_XDECREF(address);
    return ok;
}

/* ---- Containers ---- */
static bool follow_keys(tpy_guards *g, PyObject *dict) {
    PyObject *keys = PyDict_Keys(dict);
    bool ok = keys;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(keys);
         i++) { /* types of C are keys of tables that are asked with a type */
        PyObject *key = PyList_GET_ITEM(keys, i);
        ok = PyType_Check(key) && !tpy_is_python_class((PyTypeObject *)key) ? follow_later(g, key) : tpy_follow(g, key);
    }
    Py_XDECREF(keys);
    return ok;
}

static bool follow_dict(tpy_guards *g, PyObject *dict) {
    if (g->strict && dict == PyImport_GetModuleDict()) return tpy_guards_refuse(g, "sys.modules is read");
    PyObject *values = tpy_watch_whole(g, WATCH_DICT, dict) ? PyDict_Values(dict) : NULL;
    bool ok = values && follow_keys(g, dict);
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(values); i++) ok = tpy_follow(g, PyList_GET_ITEM(values, i));
    Py_XDECREF(values);
    return ok && (!PyODict_Check(dict) || PyDict_GET_SIZE(dict) < 2 ||
                  tpy_watch_whole(g, WATCH_ORDER, dict)); /* move_to_end() leaves the dict as it was */
}

static bool follow_items(tpy_guards *g, PyObject *o) { /* any sequence or set */
    PyObject *items = PySequence_Tuple(o);
    bool ok = items;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items); i++) ok = tpy_follow(g, PyTuple_GET_ITEM(items, i));
    Py_XDECREF(items);
    return ok;
}

static bool follow_attribute(tpy_guards *g, PyObject *o, const char *name) {
    PyObject *value = PyObject_GetAttrString(o, name);
    bool ok = value && tpy_follow(g, value);
    Py_XDECREF(value);
    return ok;
}

static bool follow_attributes(tpy_guards *g, PyObject *o, const char *const *names) {
    for (; *names; names++)
        if (!follow_attribute(g, o, *names)) return false;
    return true;
}

/* Watches and follows attributes that the object keeps itself. */
static bool follow_slots(tpy_guards *g, PyObject *o, PyObject *names) {
    if (!PyList_GET_SIZE(names)) return true;
    Py_ssize_t mine = g->n;
    if (!tpy_watch_slots(g, o, names)) return false;
    for (Py_ssize_t i = 1; i < g->watches[mine].n; i += 2)
        if (g->watches[mine].items[i] && !tpy_follow(g, g->watches[mine].items[i])) return false;
    return true;
}

static bool follow_members(tpy_guards *g, PyObject *o, const char *const *members) {
    PyObject *names = PyList_New(0);
    bool ok = names;
    for (; ok && *members; members++) {
        PyObject *name = PyUnicode_InternFromString(*members);
        ok = name && PyList_Append(names, name) == 0;
        Py_XDECREF(name);
    }
    ok = ok && follow_slots(g, o, names);
    Py_XDECREF(names);
    return ok;
}

/* ---- Functions ---- */
static bool is_text_named(const tpy_guards *g, const char *text) {
    PyObject *name = PyUnicode_InternFromString(text);
    bool named = name && g->names && PySet_Contains(g->names, name) > 0;
    Py_XDECREF(name);
    return named;
}

/* What describes a function. The watch of it holds its annotations; what these are made of counts only where code names
 * them. */
static bool follow_description(tpy_guards *g, PyObject *o) {
    const PyFunctionObject *f = (const PyFunctionObject *)o;
    if ((f->func_doc && !tpy_follow(g, f->func_doc)) || (f->func_module && !tpy_follow(g, f->func_module)))
        return false;
    PyObject *annotations = is_text_named(g, "__annotations__") ? tpy_annotations(o) : NULL;
    return !annotations || tpy_follow(g, annotations);
}

static bool follow_function(tpy_guards *g, PyObject *o) {
    PyFunctionObject *f = (PyFunctionObject *)o;
    if (g->strict && !g->lenient && tpy_is_own(f->func_globals))
        return follow_again_later(g, o); /* what this package keeps is its own affair */
    if (!tpy_watch_whole(g, WATCH_FUNCTION, o) || PySet_Add(g->codes, f->func_code) < 0) return false;
    if (f->func_defaults && !tpy_follow(g, f->func_defaults)) return false;
    if (f->func_kwdefaults && !tpy_follow(g, f->func_kwdefaults)) return false;
    for (Py_ssize_t i = 0; f->func_closure && i < PyTuple_GET_SIZE(f->func_closure); i++)
        if (!tpy_follow(g, PyTuple_GET_ITEM(f->func_closure, i))) return false;
    if (f->func_dict && PyDict_GET_SIZE(f->func_dict) && !tpy_follow(g, f->func_dict)) return false;
    return follow_description(g, o) && (g->ran_known || tpy_guards_code(g, f->func_code, f->func_globals));
}

static bool follow_c_function(tpy_guards *g, PyObject *o) {
    if (!tpy_function_is_proven(o, NULL))
        return tpy_guards_refuse(g, "%s() may be called, which may do more than compute", tpy_function_name(o));
    g->names_anything |= !g->lenient && tpy_is_lookup(o);
    PyObject *self = PyCFunction_Check(o) ? PyCFunction_GET_SELF(o) : NULL;
    return !self || PyModule_Check(self) || tpy_follow(g, self);
}

/* ---- Modules ---- */
bool tpy_follow_module_name(tpy_guards *g, PyObject *module, PyObject *name, PyObject **found) {
    PyObject *dict = PyModule_GetDict(module), *lookup;
    *found = PyDict_GetItemWithError(dict, name);
    if (!tpy_watch_name(g, dict, name)) return false;
    if (*found || tpy_is_own(dict)) return true;
    if ((lookup = PyDict_GetItemString(dict, "__getattr__")) && !tpy_follow(g, lookup)) return false;
    return PyModule_CheckExact(module) || tpy_follow(g, (PyObject *)Py_TYPE(module));
}

/* Modules that were met as objects: any code that ran may read its names of them. */
static bool follow_modules(tpy_guards *g) {
    PyObject *names = PySequence_List(g->names);
    bool ok = names;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(g->modules); i++) {
        PyObject *module = PyList_GET_ITEM(g->modules, i), *dict = PyModule_GetDict(module), *found;
        if (g->names_anything && !tpy_is_own(dict))
            ok = tpy_guards_refuse(g, "attributes of the module %s may be looked up by a text",
                                   PyModule_GetName(module));
        for (Py_ssize_t k = 0; ok && k < PyList_GET_SIZE(names); k++) {
            if (!PyDict_Contains(dict, PyList_GET_ITEM(names, k)) && tpy_is_own(dict)) continue;
            ok = tpy_follow_module_name(g, module, PyList_GET_ITEM(names, k), &found) &&
                 (!found || (tpy_is_own(dict) && PyCFunction_Check(found)) || tpy_follow(g, found));
        }
    }
    Py_XDECREF(names);
    return ok;
}

/* ---- Classes ---- */
static bool is_special(PyObject *name, PyObject *value) { /* read without being named: __add__, __get__ */
    if (!PyUnicode_Check(name) || PyUnicode_GET_LENGTH(name) < 5 || PyDict_Check(value) || PyTuple_Check(value) ||
        PyList_Check(value))
        return false;
    return PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_' &&
           PyUnicode_READ_CHAR(name, PyUnicode_GET_LENGTH(name) - 1) == '_';
}

/* In a class of the package: a function of a program's, or something that a program names. */
static bool is_put_there(const tpy_guards *g, PyObject *name, PyObject *value) {
    if (PyFunction_Check(value)) return !tpy_is_own(((PyFunctionObject *)value)->func_globals);
    return g->names && PySet_Contains(g->names, name) > 0 && Py_TYPE(value) != &PyMethodDescr_Type &&
           !PyCFunction_Check(value);
}

static bool follow_class_values(tpy_guards *g, PyTypeObject *type, bool own) {
    PyObject *items = PyDict_Items(type->tp_dict);
    bool ok = items;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(items); i++) {
        PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 0),
                 *value = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 1);
        if (own && !is_put_there(g, name, value)) continue;
        ok = !g->strict || g->lenient || is_special(name, value) || is_named(g, name) ? tpy_follow(g, value)
                                                                                      : follow_later(g, value);
    }
    Py_XDECREF(items);
    return ok;
}

static bool follow_type(tpy_guards *g, PyTypeObject *type) {
    bool own = tpy_is_own_type(type);
    if (!tpy_is_python_class(type) && !own)
        return tpy_type_is_proven(type) ||
               tpy_guards_refuse(g, "%s may be called, whose contents may change unseen", type->tp_name);
    if (!type->tp_dict || (own && !g->strict)) return true;
    if (!tpy_watch_whole(g, WATCH_CLASS, (PyObject *)type) || !follow_class_values(g, type, own) ||
        !tpy_follow(g, (PyObject *)Py_TYPE(type)))
        return false;
    PyObject *bases = type->tp_bases;
    for (Py_ssize_t i = 0; bases && i < PyTuple_GET_SIZE(bases); i++)
        if (!tpy_follow(g, PyTuple_GET_ITEM(bases, i))) return false;
    return true;
}

/* ---- Objects of classes ---- */
static bool follow_members_of_classes(tpy_guards *g, PyObject *o) { /* __slots__ */
    PyObject *mro = Py_TYPE(o)->tp_mro, *names = PyList_New(0), *key, *value;
    bool ok = names;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        Py_ssize_t at = 0;
        while (ok && tpy_is_python_class(type) && PyDict_Next(type->tp_dict, &at, &key, &value))
            ok = Py_TYPE(value) != &PyMemberDescr_Type || PyList_Append(names, key) == 0;
    }
    ok = ok && follow_slots(g, o, names);
    Py_XDECREF(names);
    return ok;
}

/* A plain object of the program's (no module, nothing that the package reads): of its attributes those count that the
 * code names which ran. The rest, a count of steps or a list of losses, may change. */
static bool is_plain_object(const tpy_guards *g, PyObject *o) {
    if (!g->names || g->names_anything || PyDict_Check(o)) return false;
    PyObject *mro = Py_TYPE(o)->tp_mro;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++)
        if (tpy_is_own_type((PyTypeObject *)PyTuple_GET_ITEM(mro, i))) return false;
    return true;
}

static bool follow_named(tpy_guards *g, PyObject *dict) {
    PyObject *names = PySequence_List(g->names);
    bool ok = names;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(names); i++) { /* those that are not there, too */
        PyObject *name = PyList_GET_ITEM(names, i), *held = PyDict_GetItemWithError(dict, name);
        ok = !PyErr_Occurred() && tpy_watch_name(g, dict, name) && (!held || tpy_follow(g, held));
    }
    Py_XDECREF(names);
    return ok;
}

/* What the package itself reads of a module. */
static bool is_read_by_us(PyObject *name) {
    static const char *const names[] = {
        "_parameters",         "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
        "_backward_pre_hooks", NULL};
    for (int i = 0; names[i] && PyUnicode_Check(name); i++)
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) return true;
    return false;
}

/* The attributes of an object that this package's code reads too: all are watched. */
static bool follow_attributes_of(tpy_guards *g, PyObject *dict) {
    if (!g->strict || g->lenient) return tpy_follow(g, dict);
    PyObject *items = tpy_watch_whole(g, WATCH_DICT, dict) ? PyDict_Items(dict) : NULL;
    bool ok = items;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(items); i++) {
        PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 0),
                 *value = PyTuple_GET_ITEM(PyList_GET_ITEM(items, i), 1);
        ok = is_read_by_us(name) || is_named(g, name) ? tpy_follow(g, value) : follow_later(g, value);
    }
    Py_XDECREF(items);
    return ok;
}

/* Is all that it holds in its dict and slots, or in a container that is followed? */
static bool is_followed(PyTypeObject *type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i);
        if (!tpy_is_python_class(base) && !tpy_layout_is_proven(base)) return false;
    }
    return true;
}

static bool follow_instance(tpy_guards *g, PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (!is_followed(type)) {
        if (tpy_is_opaque(o)) return true;
        return tpy_guards_refuse(g, "it leads to an object of type %s, whose contents may change unseen",
                                 type->tp_name);
    }
    if (!tpy_watch_whole(g, WATCH_OBJECT, o) || !tpy_follow(g, (PyObject *)type) || !follow_members_of_classes(g, o))
        return false;
    PyObject *dict = PyObject_GenericGetDict(o, NULL);
    if (!dict) {
        PyErr_Clear();
        return true;
    }
    bool ok = is_plain_object(g, o) ? follow_named(g, dict) : follow_attributes_of(g, dict);
    Py_DECREF(dict);
    return ok;
}

/* ---- Optimisers of the package: their step is in a graph as a call that reads options and state at each run, so that
 * these may change. What must stay is which parameters they have and which hooks. Schedules are left alone, since their
 * step ends a capture. Where the program's own code names the options, it may read them, and they are watched like the
 * rest. ---- */
static PyObject *attribute(PyObject *o, const char *name) { /* borrowed, from its dict */
    PyObject *dict = PyObject_GenericGetDict(o, NULL), *found = dict ? PyDict_GetItemString(dict, name) : NULL;
    Py_XDECREF(dict);
    PyErr_Clear();
    return found;
}

static bool is_optimiser(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    PyObject *module = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_dict
                           ? PyDict_GetItemString(type->tp_dict, "__module__")
                           : NULL;
    return tpy_is_own_name(module) && !strncmp(PyUnicode_AsUTF8(module) + 5, ".optim", 6) &&
           (attribute(o, "param_groups") || attribute(o, "last_epoch"));
}

static bool watch_kept(tpy_guards *g, PyObject *o) {
    static const char *const kept[] = {
        "step", "param_groups", "state",
        "defaults"}; /* a schedule puts its own step there, load_state_dict() new groups and state */
    PyObject *dict = PyObject_GenericGetDict(o, NULL);
    bool ok = dict;
    for (int i = 0; ok && i < 4; i++) {
        PyObject *name = PyUnicode_InternFromString(kept[i]);
        ok = name && tpy_watch_name(g, dict, name);
        Py_XDECREF(name);
    }
    Py_XDECREF(dict);
    return ok;
}

static bool follow_optimiser(tpy_guards *g, PyObject *o) {
    static const char *const hooks[] = {"_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"};
    PyObject *groups = attribute(o, "param_groups"), *word = PyUnicode_InternFromString("params");
    if (!g->optimisers) g->optimisers = PyList_New(0);
    bool ok = word && g->optimisers && PyList_Append(g->optimisers, o) == 0;
    for (int i = 0; i < 2 && ok; i++) ok = !attribute(o, hooks[i]) || tpy_follow(g, attribute(o, hooks[i]));
    if (ok && groups && PyList_Check(groups)) {
        ok = tpy_watch_whole(g, WATCH_LIST, groups);
        for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(groups); i++) {
            PyObject *group = PyList_GET_ITEM(groups, i),
                     *params = PyDict_Check(group) ? PyDict_GetItemWithError(group, word) : NULL;
            ok = !params || (tpy_watch_name(g, group, word) && tpy_follow(g, params));
        }
    }
    Py_XDECREF(word);
    return ok && watch_kept(g, o);
}

/* What the program's own code may read of an optimiser or a schedule: attributes that it names, and what a schedule's
 * methods that it names answer from. */
static bool follow_answers(tpy_guards *g, PyObject *o) {
    static const char *const answers[] = {"_last_lr", "last_epoch"};
    PyObject *dict = PyObject_GenericGetDict(o, NULL), *asks = PyUnicode_InternFromString("get_last_lr");
    bool ok = dict && asks && (!g->names || follow_named(g, dict));
    for (int i = 0; i < 2 && ok && g->names && PySet_Contains(g->names, asks) > 0; i++) {
        PyObject *name = PyUnicode_InternFromString(answers[i]),
                 *held = name ? PyDict_GetItemWithError(dict, name) : NULL;
        ok = name && tpy_watch_name(g, dict, name) && (!held || tpy_follow(g, held));
        Py_XDECREF(name);
    }
    Py_XDECREF(asks);
    Py_XDECREF(dict);
    return ok;
}

static bool follow_options(tpy_guards *g) {
    for (Py_ssize_t i = 0; g->optimisers && i < PyList_GET_SIZE(g->optimisers); i++) {
        PyObject *o = PyList_GET_ITEM(g->optimisers, i), *groups = attribute(o, "param_groups"),
                 *state = attribute(o, "state");
        if ((g->names_groups && groups && !tpy_follow(g, groups)) ||
            (g->names_state && state && !tpy_follow(g, state)) || !follow_answers(g, o))
            return false;
    }
    return true;
}

/* ---- All kinds ---- */
static bool follow_tensor(tpy_guards *g, PyObject *o) {
    PyObject *dict = ((tpy_tensor *)o)->dict;
    return tpy_watch_whole(g, WATCH_TENSOR, o) &&
           (Py_TYPE(o) == tpy_tensor_type || tpy_follow(g, (PyObject *)Py_TYPE(o))) &&
           (!dict || !PyDict_GET_SIZE(dict) || tpy_follow(g, dict));
}

static bool follow_container(tpy_guards *g, PyObject *o) {
    if (PyDict_Check(o)) return follow_dict(g, o);
    if (PyList_Check(o)) return tpy_watch_whole(g, WATCH_LIST, o) && follow_items(g, o);
    return (PyTuple_Check(o) || PyFrozenSet_Check(o) || tpy_watch_whole(g, WATCH_SET, o)) && follow_items(g, o);
}

static bool is_of(PyObject *o, const char *name) { return !strcmp(Py_TYPE(o)->tp_name, name); }

static int follow_visited(PyObject *o, void *guards) { return o && !PyType_Check(o) && !tpy_follow(guards, o); }

/* A proxy or view of a dict: what it looks at is all that it tells the collector of. */
static bool is_view(PyObject *o) {
    return Py_TYPE(o) == &PyDictProxy_Type || Py_TYPE(o) == &PyDictKeys_Type || Py_TYPE(o) == &PyDictValues_Type ||
           Py_TYPE(o) == &PyDictItems_Type;
}

/* Objects of C that lead to others by attributes of their own. */
static bool follow_holder(tpy_guards *g, PyObject *o, bool *known) {
    static const char
        *const partial[] = {"func", "args", "keywords", "__dict__", NULL},
               *const property[] = {"fget", "fset", "fdel", NULL}, *const slice[] = {"start", "stop", "step", NULL},
               *const wrapped[] = {"__func__", "__dict__", NULL}, *const captured[] = {"function", "__dict__", NULL},
               *const namespace[] = {"__dict__", NULL}, *const self[] = {"__self__", NULL},
               *const described[] = {"__doc__", NULL};
    *known = true;
    if (PyCell_Check(o)) return tpy_watch_whole(g, WATCH_CELL, o) && (!PyCell_GET(o) || tpy_follow(g, PyCell_GET(o)));
    if (PyMethod_Check(o)) return tpy_follow(g, PyMethod_GET_SELF(o)) && tpy_follow(g, PyMethod_GET_FUNCTION(o));
    if (Py_TYPE(o) == &PyStaticMethod_Type || Py_TYPE(o) == &PyClassMethod_Type)
        return follow_attributes(g, o, wrapped);
    if (is_view(o)) return Py_TYPE(o)->tp_traverse(o, follow_visited, g) == 0;
    if (PySlice_Check(o)) return follow_attributes(g, o, slice);
    if (Py_TYPE(o) == &PyProperty_Type)
        return follow_attributes(g, o, property) && (!is_text_named(g, "__doc__") || follow_members(g, o, described));
    if (is_of(o, "functools.partial")) return follow_members(g, o, partial);
    if (is_of(o, "types.SimpleNamespace")) return follow_attributes(g, o, namespace);
    if (is_of(o, "taper._C.Captured")) return follow_attributes(g, o, captured);
    if (is_of(o, "method-wrapper")) return follow_attributes(g, o, self);
    return *known = false;
}

static bool follow_kind(tpy_guards *g, PyObject *o) {
    static const char *const factory[] = {"default_factory", NULL};
    if (tpy_is_tensor(o)) return follow_tensor(g, o);
    if (PyDict_Check(o) || PyList_Check(o) || PyTuple_Check(o) || PyAnySet_Check(o)) {
        PyTypeObject *t = Py_TYPE(o);
        if (!follow_container(g, o)) return false;
        if (is_of(o, "collections.defaultdict")) return follow_members(g, o, factory);
        bool exact = t == &PyDict_Type || t == &PyList_Type || t == &PyTuple_Type || t == &PySet_Type ||
                     t == &PyFrozenSet_Type || t == &PyODict_Type;
        return exact || follow_instance(g, o);
    }
    if (PyFunction_Check(o)) return follow_function(g, o);
    if (PyType_Check(o)) return follow_type(g, (PyTypeObject *)o);
    if (is_optimiser(o)) return follow_optimiser(g, o);
    if (PyCFunction_Check(o) || Py_TYPE(o) == &PyMethodDescr_Type) return follow_c_function(g, o);
    if (PyModule_Check(o)) return PyList_Append(g->modules, o) == 0;
    bool known, ok = follow_holder(g, o, &known);
    return known ? ok : follow_instance(g, o);
}

bool tpy_follow(tpy_guards *g, PyObject *o) {
    if (is_plain(g, o) || (!g->strict && o == PyImport_GetModuleDict()))
        return true; /* before the call, sys.modules would lead to everything there is */
    PyObject *address = PyLong_FromVoidPtr(o);
    int known = address ? PySet_Contains(g->seen, address) : -1;
    bool ok = known == 0 && PySet_Add(g->seen, address) == 0;
    Py_XDECREF(address);
    if (known > 0 || !ok) return known > 0;
    if (Py_EnterRecursiveCall(" while a call is captured")) return false;
    ok = follow_kind(g, o);
    Py_LeaveRecursiveCall();
    return ok;
}

/* The globals that code may read before it is known what runs; of modules among them the attributes that it names. */
bool tpy_guards_code(tpy_guards *g, PyObject *code, PyObject *globals) {
    PyObject *names = ((PyCodeObject *)code)->co_names, *consts = ((PyCodeObject *)code)->co_consts, *found;
    if (tpy_is_own(globals)) return true;
    int known = PySet_Contains(g->seen, code);
    if (known) return known > 0;
    if (PySet_Add(g->seen, code) < 0) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i), *value = PyDict_GetItemWithError(globals, name);
        if (!tpy_watch_name(g, globals, name) || (value && !tpy_follow(g, value))) return false;
        if (!value || !PyModule_Check(value)) continue;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); k++)
            if (PyDict_Contains(PyModule_GetDict(value), PyTuple_GET_ITEM(names, k)) > 0 &&
                (!tpy_follow_module_name(g, value, PyTuple_GET_ITEM(names, k), &found) ||
                 (!tpy_is_own(PyModule_GetDict(value)) && !tpy_follow(g, found))))
                return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(consts); i++) { /* functions inside of it */
        PyObject *inner = PyTuple_GET_ITEM(consts, i);
        if (PyCode_Check(inner) && !tpy_guards_code(g, inner, globals)) return false;
    }
    return !PyErr_Occurred();
}

bool tpy_guards_add(tpy_guards *g, PyObject *o) { return tpy_follow(g, o); }

bool tpy_guards_complete(tpy_guards *g) {
    if (g->strict && !tpy_follow(g, (PyObject *)tpy_tensor_type)) return false; /* a method may be replaced */
    if (!follow_options(g) || (g->strict && !follow_modules(g))) return false;
    g->lenient = true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(g->later); i++)
        if (!tpy_follow(g, PyList_GET_ITEM(g->later, i))) return false;
    g->lenient = false;
    return true;
}
