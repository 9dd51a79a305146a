/* Arguments and results of captured calls as trees: tuples, lists, dicts and named tuples, whose leaves are tensors and
 * other objects. */
#include "graph.h"

typedef enum tree_kind { TREE_TENSOR, TREE_OBJECT, TREE_TUPLE, TREE_LIST, TREE_DICT } tree_kind;

struct tpy_tree {
    uint8_t kind;
    PyTypeObject *type; /* owned: of a container, and of a tensor */
    PyObject *object;   /* owned: OBJECT */
    int64_t number;     /* TENSOR, LIST and DICT: each object once, in the order they are met */
    Py_ssize_t n;
    PyObject **keys; /* DICT: owned */
    tpy_tree **children;
};

/* ---- Leaves ---- */
bool tpy_leaves_add(tpy_leaves *l, tp_tensor *t, int64_t *number) {
    for (*number = 0; *number < l->n; ++*number)
        if (l->v[*number] == t) return true;
    if (l->n == l->capacity) {
        int64_t capacity = l->capacity ? 2 * l->capacity : 16;
        tp_tensor **moved = PyMem_Realloc(l->v, (size_t)capacity * sizeof *moved);
        if (!moved) {
            PyErr_NoMemory();
            return false;
        }
        l->v = moved;
        l->capacity = capacity;
    }
    l->v[l->n++] = t;
    return true;
}

/* A list or dict: whether two arguments are the same one, a program may ask. */
static bool add_box(tpy_leaves *l, PyObject *o, int64_t *number) {
    for (*number = 0; *number < l->nboxes; ++*number)
        if (l->boxes[*number] == o) return true;
    if (l->nboxes == l->boxes_capacity) {
        int64_t capacity = l->boxes_capacity ? 2 * l->boxes_capacity : 16;
        PyObject **moved = PyMem_Realloc(l->boxes, (size_t)capacity * sizeof *moved);
        if (!moved) {
            PyErr_NoMemory();
            return false;
        }
        l->boxes = moved;
        l->boxes_capacity = capacity;
    }
    l->boxes[l->nboxes++] = o;
    return true;
}

static bool same_box(const tpy_tree *t, PyObject *o, tpy_leaves *leaves) {
    int64_t number;
    return t->kind == TREE_TUPLE || (add_box(leaves, o, &number) && number == t->number);
}

void tpy_leaves_free(tpy_leaves *l) {
    PyMem_Free(l->v);
    PyMem_Free(l->boxes);
}

/* ---- Making ---- */
static tpy_tree *new_tree(tree_kind kind, PyObject *o, Py_ssize_t n) {
    tpy_tree *t = PyMem_Calloc(1, sizeof *t);
    if (!t) return (tpy_tree *)PyErr_NoMemory();
    t->kind = (uint8_t)kind;
    t->n = n;
    t->type = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(o));
    t->children = PyMem_Calloc((size_t)n + 1, sizeof *t->children);
    t->keys = kind == TREE_DICT ? PyMem_Calloc((size_t)n + 1, sizeof *t->keys) : NULL;
    if (t->children && (kind != TREE_DICT || t->keys)) return t;
    PyErr_NoMemory();
    tpy_tree_free(t);
    return NULL;
}

/* collections' named tuples, and those of C (torch.return_types.max). */
static bool is_named(PyObject *o) {
    if (!PyTuple_Check(o) || PyTuple_CheckExact(o) || Py_TYPE(o) == tpy_size_type) return false;
    return PyObject_HasAttrString(o, "_fields") || PyObject_HasAttrString(o, "n_sequence_fields");
}

static tpy_tree *tree_of_dict(PyObject *o, tpy_leaves *leaves) {
    tpy_tree *t = new_tree(TREE_DICT, o, PyDict_GET_SIZE(o));
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (t && !add_box(leaves, o, &t->number)) {
        tpy_tree_free(t);
        return NULL;
    }
    for (Py_ssize_t i = 0; t && i < t->n && PyDict_Next(o, &at, &key, &value); i++) {
        t->keys[i] = Py_NewRef(key);
        if (!(t->children[i] = tpy_tree_of(value, leaves))) {
            tpy_tree_free(t);
            return NULL;
        }
    }
    return t;
}

tpy_tree *tpy_tree_of(PyObject *o, tpy_leaves *leaves) {
    if (Py_EnterRecursiveCall(" in the arguments of a captured call")) return NULL;
    tpy_tree *t = NULL;
    if (tpy_is_tensor(o)) {
        t = new_tree(TREE_TENSOR, o, 0);
        if (t && !tpy_leaves_add(leaves, tpy_unwrap(o), &t->number)) {
            tpy_tree_free(t);
            t = NULL;
        }
    } else if (PyDict_CheckExact(o))
        t = tree_of_dict(o, leaves);
    else if (PyList_CheckExact(o) || PyTuple_CheckExact(o) || is_named(o)) {
        t = new_tree(PyList_CheckExact(o) ? TREE_LIST : TREE_TUPLE, o, PySequence_Fast_GET_SIZE(o));
        if (t && t->kind == TREE_LIST && !add_box(leaves, o, &t->number)) {
            tpy_tree_free(t);
            t = NULL;
        }
        for (Py_ssize_t i = 0; t && i < t->n; i++)
            if (!(t->children[i] = tpy_tree_of(PySequence_Fast_GET_ITEM(o, i), leaves))) {
                tpy_tree_free(t);
                t = NULL;
            }
    } else {
        t = new_tree(TREE_OBJECT, o, 0);
        if (t) t->object = Py_NewRef(o);
    }
    Py_LeaveRecursiveCall();
    return t;
}

void tpy_tree_free(tpy_tree *t) {
    if (!t) return;
    for (Py_ssize_t i = 0; i < t->n; i++) {
        if (t->children) tpy_tree_free(t->children[i]);
        if (t->keys) Py_XDECREF(t->keys[i]);
    }
    PyMem_Free(t->children);
    PyMem_Free(t->keys);
    Py_XDECREF(t->object);
    Py_XDECREF((PyObject *)t->type);
    PyMem_Free(t);
}

int tpy_tree_visit(const tpy_tree *t, visitproc visit, void *arg) {
    if (!t) return 0;
    Py_VISIT(t->object);
    Py_VISIT((PyObject *)t->type);
    for (Py_ssize_t i = 0; i < t->n; i++) {
        if (t->keys) Py_VISIT(t->keys[i]);
        int stop = tpy_tree_visit(t->children[i], visit, arg);
        if (stop) return stop;
    }
    return 0;
}

/* ---- Comparing and building ---- */
bool tpy_tree_fits(const tpy_tree *t, PyObject *o, tpy_leaves *leaves) {
    if (Py_TYPE(o) != t->type) return false;
    if (t->kind == TREE_TENSOR) {
        int64_t number;
        return tpy_leaves_add(leaves, tpy_unwrap(o), &number) && number == t->number;
    }
    if (t->kind == TREE_OBJECT) return tpy_same(o, t->object);
    if (!same_box(t, o, leaves)) return false;
    if (t->kind == TREE_DICT) {
        PyObject *key, *value;
        Py_ssize_t at = 0, i = 0;
        if (PyDict_GET_SIZE(o) != t->n) return false;
        for (; i < t->n && PyDict_Next(o, &at, &key, &value); i++)
            if (!tpy_same(key, t->keys[i]) || !tpy_tree_fits(t->children[i], value, leaves)) return false;
        return true;
    }
    if (PySequence_Fast_GET_SIZE(o) != t->n) return false;
    for (Py_ssize_t i = 0; i < t->n; i++)
        if (!tpy_tree_fits(t->children[i], PySequence_Fast_GET_ITEM(o, i), leaves)) return false;
    return true;
}

static PyObject *build_tuple(const tpy_tree *t, tp_tensor **tensors) {
    PyObject *tuple = PyTuple_New(t->n);
    for (Py_ssize_t i = 0; tuple && i < t->n; i++) {
        PyObject *item = tpy_tree_build(t->children[i], tensors);
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, item);
    }
    if (!tuple || t->type == &PyTuple_Type) return tuple;
    PyObject *named = PyObject_HasAttrString((PyObject *)t->type, "_make")
                          ? PyObject_CallMethod((PyObject *)t->type, "_make", "(O)", tuple)
                          : PyObject_CallOneArg((PyObject *)t->type, tuple);
    Py_DECREF(tuple);
    return named;
}

PyObject *tpy_tree_build(const tpy_tree *t, tp_tensor **tensors) {
    if (t->kind == TREE_TENSOR) return tpy_wrap(tp_retain(tensors[t->number]));
    if (t->kind == TREE_OBJECT) return Py_NewRef(t->object);
    if (t->kind == TREE_TUPLE) return build_tuple(t, tensors);
    PyObject *made = t->kind == TREE_LIST ? PyList_New(t->n) : PyDict_New();
    for (Py_ssize_t i = 0; made && i < t->n; i++) {
        PyObject *item = tpy_tree_build(t->children[i], tensors);
        if (item && t->kind == TREE_LIST)
            PyList_SET_ITEM(made, i, item);
        else if (!item || PyDict_SetItem(made, t->keys[i], item) < 0)
            Py_CLEAR(made);
        if (t->kind == TREE_DICT) Py_XDECREF(item);
    }
    return made;
}

bool tpy_tree_guard(const tpy_tree *t, tpy_guards *g) {
    if (t->kind == TREE_OBJECT && !tpy_guards_add(g, t->object)) return false;
    for (Py_ssize_t i = 0; i < t->n; i++)
        if (!tpy_tree_guard(t->children[i], g)) return false;
    return true;
}

/* What a result may hold beside tensors without being another object each time. */
static bool is_value(PyObject *o) {
    return o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
           PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || PyComplex_CheckExact(o) || Py_TYPE(o) == tpy_size_type ||
           Py_TYPE(o) == tpy_dtype_type || Py_TYPE(o) == tpy_device_type;
}

bool tpy_tree_has_objects(const tpy_tree *t) {
    if (t->kind == TREE_OBJECT && !is_value(t->object)) return true;
    for (Py_ssize_t i = 0; i < t->n; i++)
        if (tpy_tree_has_objects(t->children[i])) return true;
    return false;
}
