/* x[...] and x[...] = y, by NumPy's and PyTorch's rules.
 *
 * A key is walked from left to right. Integers, slices, None and Ellipsis narrow a view one step at a time; index
 * tensors and masks are collected beside it, one entry per dimension they stand for (NULL: the dimension whole), and go
 * to the library's index or index_put at the end. As in PyTorch, and unlike NumPy, an integer never counts as an index
 * tensor: it only drops its dimension. */
#include "tpy.h"

#define MAX_KEYS 64 /* indices in one key: every dimension, and as many None again */

typedef struct walk {
    tp_tensor *view;                  /* owned: what is left of self */
    int dim;                          /* the view's dimension that the next index is for */
    int64_t real;                     /* the same dimension of self, for messages */
    int64_t whole;                    /* dimensions of self that Ellipsis stands for */
    tp_tensor *entries[2 * MAX_KEYS]; /* owned; NULL: a dimension taken whole */
    int count;
    bool picks; /* is one of them a tensor? */
} walk;

static void walk_end(walk *w) {
    for (int i = 0; i < w->count; i++) tp_release(w->entries[i]);
    tp_release(w->view);
}

static bool become(walk *w, tp_tensor *next) {
    if (!next) {
        tpy_raise();
        return false;
    }
    tp_release(w->view);
    w->view = tpy_own(next);
    return true;
}

/* The dimensions from here on that an index leaves whole. */
static bool pass(walk *w, int64_t dims) {
    for (int64_t i = 0; i < dims; i++) {
        if (w->count == 2 * MAX_KEYS) {
            PyErr_SetString(PyExc_IndexError, "too many indices");
            return false;
        }
        w->entries[w->count++] = NULL;
        w->dim++;
    }
    return true;
}

/* ---- The steps ---- */
static bool step_int(walk *w, int64_t i) {
    int64_t size = tp_shape(w->view).v[w->dim];
    if (i < -size || i >= size) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %lld with size %lld", (long long)i,
                     (long long)w->real, (long long)size);
        return false;
    }
    w->real++;
    return become(w, tp_select(w->view, w->dim, i));
}

static bool step_slice(walk *w, PyObject *key) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(key, &start, &stop, &step) < 0) return false;
    if (step < 1) {
        PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
        return false;
    }
    int64_t size = tp_shape(w->view).v[w->dim];
    PySlice_AdjustIndices((Py_ssize_t)size, &start, &stop, step);
    if (stop < start) stop = start;
    w->real++;
    if ((start || stop != size || step != 1) &&
        !become(w, tp_slice(w->view, .dim = w->dim, .start = start, .end = stop, .step = step)))
        return false;
    return pass(w, 1);
}

static bool step_none(walk *w) { return become(w, tp_unsqueeze(w->view, w->dim)) && pass(w, 1); }

static bool append_entry(walk *w, tp_tensor *entry,
                         int64_t dims) { /* takes the entry over, which indexes that many dims */
    if (!entry) {
        tpy_raise();
        return false;
    }
    if (w->count == 2 * MAX_KEYS) {
        tp_release(entry);
        PyErr_SetString(PyExc_IndexError, "too many indices");
        return false;
    }
    w->entries[w->count++] = entry;
    w->dim += (int)dims;
    w->picks = true;
    return true;
}

/* True and False add a dimension of size one and keep it, or nothing of it. */
static bool step_truth(walk *w, bool keep) {
    static const int64_t zero = 0;
    int64_t n = keep;
    return become(w, tp_unsqueeze(w->view, w->dim)) &&
           append_entry(w, tpy_own(tp_from_data(&zero, TP_INT64, tp_ints_view(&n, 1))), 1);
}

static bool step_tensor(walk *w, tp_tensor *t) { /* integers or a mask; not of no dimensions, which are numbers */
    tp_dtype dtype = tp_dtype_of(t);
    if (dtype == TP_UINT8 &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                     1) < 0)
        return false;
    bool mask = dtype == TP_BOOL || dtype == TP_UINT8;
    tp_ints shape = tp_shape(t), of = tp_shape(w->view);
    for (int64_t i = 0; mask && i < shape.n; i++) {
        if (w->dim + i < of.n && shape.v[i] == of.v[w->dim + i]) continue;
        PyObject *theirs = tpy_int_tuple(shape), *ours = tpy_int_tuple(of),
                 *one = theirs ? PySequence_List(theirs) : NULL, *two = ours ? PySequence_List(ours) : NULL;
        if (one && two)
            PyErr_Format(PyExc_IndexError,
                         "The shape of the mask %R at index %lld does not match the shape of the indexed tensor %R at "
                         "index %lld",
                         one, (long long)i, two, (long long)(w->dim + i));
        Py_XDECREF(theirs);
        Py_XDECREF(ours);
        Py_XDECREF(one);
        Py_XDECREF(two);
        return false;
    }
    w->real += mask ? shape.n : 1;
    return append_entry(w, tpy_own(tp_to(t, .dtype = mask ? TP_BOOL : TP_INT64)), mask ? shape.n : 1);
}

/* ---- Keys ---- */
static PyObject *refuse_key(PyObject *key) {
    return PyErr_Format(
        PyExc_IndexError,
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %s)",
        Py_TYPE(key)->tp_name);
}

/* Arrays and sequences as tensors, once per key; everything else as it is. A new reference. */
static PyObject *as_index(PyObject *key) {
    if (PyLong_Check(key) || PySlice_Check(key) || key == Py_None || key == Py_Ellipsis || tpy_is_tensor(key))
        return Py_NewRef(key);
    tp_tensor *t;
    if (tpy_is_ndarray(key))
        t = tpy_over_array(key, false);
    else if (tpy_numpy_scalar_dtype(key) == TP_NO_DTYPE && PySequence_Check(key)) {
        Py_ssize_t n = PySequence_Size(key);
        if (n < 0) return NULL;
        t = tpy_tensor_of(key, n ? TP_NO_DTYPE : TP_INT64, tp_no_device());
    } else if (PyIndex_Check(key) && tpy_numpy_scalar_dtype(key) != TP_BOOL)
        return PyNumber_Index(key);
    else
        return refuse_key(key);
    return t ? tpy_wrap(t) : NULL;
}

typedef enum { KEY_INT, KEY_SLICE, KEY_NONE, KEY_ELLIPSIS, KEY_TRUTH, KEY_TENSOR, KEY_BAD = -1 } key_kind;

static key_kind kind_of(PyObject *key, int64_t *value) { /* the value of integers and truths */
    if (PyLong_CheckExact(key) || (PyLong_Check(key) && !PyBool_Check(key))) {
        int overflow;
        *value = PyLong_AsLongLongAndOverflow(key, &overflow);
        if (!overflow) return KEY_INT;
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return KEY_BAD;
    }
    if (PySlice_Check(key)) return KEY_SLICE;
    if (key == Py_None) return KEY_NONE;
    if (key == Py_Ellipsis) return KEY_ELLIPSIS;
    if (PyBool_Check(key)) {
        *value = key == Py_True;
        return KEY_TRUTH;
    }
    tp_tensor *t = tpy_unwrap(key);
    tp_dtype dtype = tp_dtype_of(t);
    bool mask = dtype == TP_BOOL || dtype == TP_UINT8;
    if (tp_ndim(t) == 0 && (mask || tp_dtype_is_integral(dtype))) {
        *value = tp_item_int(t);
        if (!tp_ok()) {
            tpy_raise();
            return KEY_BAD;
        }
        return mask ? KEY_TRUTH : KEY_INT;
    }
    if (mask || dtype == TP_INT64 || dtype == TP_INT32) return KEY_TENSOR;
    PyErr_SetString(PyExc_IndexError, "tensors used as indices must be long, int, byte or bool tensors");
    return KEY_BAD;
}

/* How many dimensions of self a key takes up. */
static int64_t dims_of(PyObject *key) {
    if (PyLong_CheckExact(key) || PySlice_Check(key)) return 1;
    if (key == Py_None || key == Py_Ellipsis || PyBool_Check(key)) return 0;
    if (!tpy_is_tensor(key)) return 1;
    tp_dtype dtype = tp_dtype_of(tpy_unwrap(key));
    return dtype == TP_BOOL || dtype == TP_UINT8 ? tp_ndim(tpy_unwrap(key)) : 1;
}

static bool step(walk *w, PyObject *key) {
    int64_t value = 0;
    switch (kind_of(key, &value)) {
    case KEY_INT: return step_int(w, value);
    case KEY_SLICE: return step_slice(w, key);
    case KEY_NONE: return step_none(w);
    case KEY_ELLIPSIS: {
        int64_t whole = w->whole;
        w->real += whole;
        w->whole = 0; /* a second Ellipsis stands for nothing */
        return pass(w, whole);
    }
    case KEY_TRUTH: return step_truth(w, value != 0);
    case KEY_TENSOR: return step_tensor(w, tpy_unwrap(key));
    case KEY_BAD: break;
    }
    return false;
}

/* A list that holds slices, tensors or sequences stands for a tuple. 1, 0, or -1 with an exception. */
static int stands_for_tuple(PyObject *key) {
    if (tpy_is_tensor(key) || PyLong_Check(key) || PySlice_Check(key) || PyUnicode_Check(key) ||
        !PySequence_Check(key) || tpy_is_ndarray(key))
        return 0;
    Py_ssize_t n = PySequence_Size(key);
    if (n < 0) {
        PyErr_Clear();
        return 0;
    }
    for (Py_ssize_t i = 0; i < n && n < 32; i++) {
        PyObject *item = PySequence_GetItem(key, i);
        if (!item) return -1;
        bool yes = tpy_is_tensor(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis ||
                   PySequence_Check(item);
        Py_DECREF(item);
        if (!yes) continue;
        return PyErr_WarnEx(
                   PyExc_UserWarning,
                   "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in "
                   "pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as "
                   "tensor index, x[torch.tensor(seq)], which will result either in an error or a different result",
                   1) < 0
                   ? -1
                   : 1;
    }
    return 0;
}

static bool walk_tuple(walk *w, PyObject *tuple) {
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *keys[MAX_KEYS];
    if (n > MAX_KEYS) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", tp_ndim(w->view));
        return false;
    }
    int64_t dims = 0;
    Py_ssize_t ready = 0;
    bool ok = true;
    while (ok && ready < n) {
        keys[ready] = as_index(PyTuple_GET_ITEM(tuple, ready));
        if (!keys[ready])
            ok = false;
        else
            dims += dims_of(keys[ready++]);
    }
    w->whole = tp_ndim(w->view) - dims;
    if (ok && w->whole < 0) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", tp_ndim(w->view));
        ok = false;
    }
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = step(w, keys[i]);
    for (Py_ssize_t i = 0; i < ready; i++) Py_DECREF(keys[i]);
    return ok;
}

static bool walk_key(walk *w, PyObject *key) {
    int ndim = tp_ndim(w->view);
    if (PyTuple_Check(key)) return walk_tuple(w, key);
    if (PyLong_CheckExact(key) && !ndim) {
        PyErr_SetString(PyExc_IndexError,
                        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
                        "C++ to convert a 0-dim tensor to a number");
        return false;
    }
    if (PySlice_Check(key) && !ndim) {
        PyErr_SetString(PyExc_IndexError, "slice() cannot be applied to a 0-dim tensor.");
        return false;
    }
    if (PyLong_CheckExact(key) || PySlice_Check(key)) return step(w, key);
    int many = stands_for_tuple(key);
    if (many < 0) return false;
    PyObject *tuple = many ? PySequence_Tuple(key) : PyTuple_Pack(1, key);
    bool ok = tuple && walk_tuple(w, tuple);
    Py_XDECREF(tuple);
    return ok;
}

/* ---- Reading ---- */
static PyObject *overridden(const char *name, PyObject *const *args, Py_ssize_t n) {
    PyObject *method = PyObject_GetAttrString((PyObject *)tpy_tensor_type, name),
             *result = method ? tpy_call_override(method, args, n, NULL) : NULL;
    Py_XDECREF(method);
    return result;
}

PyObject *tpy_get_item(PyObject *self, PyObject *key) {
    PyObject *args[] = {self, key};
    if ((Py_TYPE(self) != tpy_tensor_type || (!PyLong_CheckExact(key) && !PySlice_Check(key)) || tpy_has_modes()) &&
        tpy_overridden(args, 2))
        return overridden("__getitem__", args, 2);
    walk w;
    w.view = tp_retain(tpy_unwrap(self));
    w.dim = 0;
    w.real = 0;
    w.whole = 0;
    w.count = 0;
    w.picks = false;
    tp_tensor *result = NULL;
    if (walk_key(&w, key)) {
        if (w.picks)
            TPY_HEAVY(tp_numel(w.view), result = tp_index(w.view, (tp_tensors){w.entries, w.count}));
        else if (w.view != tpy_unwrap(self))
            result = tp_retain(w.view);
        else
            result = PySlice_Check(key) ? tp_slice(w.view) : tp_alias(w.view); /* all of it, and yet another tensor */
        if (!result)
            tpy_raise();
        else if (w.picks || w.view == tpy_unwrap(self))
            tpy_own(result);
    }
    walk_end(&w);
    return result ? tpy_wrap(result) : NULL;
}

/* ---- Writing ---- */
/* The value without its leading dimensions of size one; a new reference. */
static tp_tensor *without_leading_ones(tp_tensor *value, int64_t keep) {
    tp_ints shape = tp_shape(value);
    int64_t ones = 0;
    while (ones < shape.n - keep && shape.v[ones] == 1) ones++;
    return ones ? tpy_own(tp_view(value, tp_ints_view(shape.v + ones, shape.n - ones))) : tp_retain(value);
}

static bool write_view(tp_tensor *view, tp_tensor *value) {
    tp_tensor *plain = without_leading_ones(value, tp_ndim(view)), *done = NULL;
    if (plain && !tp_ndim(plain) && tp_ndim(view) && tp_shares_storage(plain, view)) { /* x[0] = x[0, 0]: one number */
        tp_tensor *copy = tpy_own(tp_clone(plain));
        tp_release(plain);
        plain = copy;
    }
    if (plain) TPY_HEAVY(tp_numel(view), done = tp_copy_(view, plain));
    tp_release(plain);
    return done;
}

/* A key of one mask among slices: the mask, with a dimension of size one for each that it leaves whole. NULL for other
 * keys. Owned. */
static tp_tensor *lone_mask(const walk *w) {
    int64_t shape[TP_MAX_DIMS], ndim = tp_ndim(w->view), at = -1;
    for (int i = 0; i < w->count; i++) {
        if (!w->entries[i]) continue;
        if (at >= 0) return NULL;
        at = i;
    }
    if (at < 0 || tp_dtype_of(w->entries[at]) != TP_BOOL) return NULL;
    tp_ints own = tp_shape(w->entries[at]);
    for (int64_t i = 0; i < ndim; i++) shape[i] = i >= at && i < at + own.n ? own.v[i - at] : 1;
    return own.n == ndim ? tp_retain(w->entries[at]) : tpy_own(tp_reshape(w->entries[at], tp_ints_view(shape, ndim)));
}

static bool write_indexed(walk *w, tp_tensor *value) {
    tp_tensor *mask = tp_numel(value) == 1 ? lone_mask(w) : NULL, *done = NULL;
    if (mask) {
        tp_tensor *number = tpy_own(tp_reshape(value, tp_ints_view(NULL, 0)));
        if (number) TPY_HEAVY(tp_numel(w->view), done = tp_masked_fill_tensor_(w->view, mask, number));
        tp_release(number);
        tp_release(mask);
        return done;
    }
    tp_dtype to = tp_dtype_of(w->view), from = tp_dtype_of(value);
    if (to != from) {
        PyErr_Format(PyExc_RuntimeError,
                     "Index put requires the source and destination dtypes match, got %s for the destination "
                     "and %s for the source.",
                     tp_dtype_word(to), tp_dtype_word(from));
        return false;
    }
    tp_tensor *near = tpy_own(tp_to(value, .device = tp_device_of(w->view))),
              *plain = near ? without_leading_ones(near, 0) : NULL;
    if (plain) TPY_HEAVY(tp_numel(w->view), done = tp_index_put_(w->view, ((tp_tensors){w->entries, w->count}), plain));
    tp_release(near);
    tp_release(plain);
    return done;
}

/* 1: value is a number that can be assigned; 0: it is not; -1: exception. */
static int assignable(PyObject *value, tp_scalar *number) {
    int fits = tpy_fit_scalar(value, number);
    if (fits > 0 && PyLong_Check(value) && number->kind == TP_SCALAR_FLOAT) {
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return -1;
    }
    return fits;
}

static bool write_number(walk *w, tp_scalar number) {
    tp_dtype dtype = tp_dtype_of(w->view);
    tp_tensor *mask = w->picks ? lone_mask(w) : NULL, *done;
    if (mask || !w->picks) {
        TPY_HEAVY(tp_numel(w->view), done = mask ? tp_masked_fill_(w->view, mask, number) : tp_fill_(w->view, number));
        tp_release(mask);
        return done;
    }
    tp_tensor *value = tpy_own(tp_full(tp_ints_view(NULL, 0), number, .dtype = dtype));
    bool ok = value && write_indexed(w, value);
    tp_release(value);
    return ok;
}

int tpy_set_item(PyObject *self, PyObject *key, PyObject *value) {
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
        return -1;
    }
    PyObject *args[] = {self, key, value};
    if (tpy_overridden(args, 3)) {
        PyObject *done = overridden("__setitem__", args, 3);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    walk w;
    w.view = tp_retain(tpy_unwrap(self));
    w.dim = 0;
    w.real = 0;
    w.whole = 0;
    w.count = 0;
    w.picks = false;
    tp_scalar number;
    if (key == Py_True) key = Py_None; /* by itself neither truth value is a mask: one dimension more, or nothing */
    bool ok = walk_key(&w, key);
    if (ok && key == Py_False)
        ok = true;
    else if (ok && tpy_is_tensor(value))
        ok = w.picks ? write_indexed(&w, tpy_unwrap(value)) : write_view(w.view, tpy_unwrap(value));
    else if (ok) {
        int fits = assignable(value, &number);
        if (!fits)
            PyErr_Format(PyExc_TypeError, "can't assign a %s to a torch.%sTensor", Py_TYPE(value)->tp_name,
                         tp_dtype_word(tp_dtype_of(w.view)));
        ok = fits > 0 && write_number(&w, number);
    }
    if (!ok && !PyErr_Occurred()) tpy_raise();
    walk_end(&w);
    return ok ? 0 : -1;
}
