/* Process groups for torch.distributed: stores, groups, works, and what a watcher says. Waiting is done without the
 * interpreter lock. */
#include "tpy.h"
#include <frameobject.h> /* PyFrame_GetBack and its kin, on 3.10 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static PyObject *backend_error, *network_error, *store_error;
static pthread_t main_thread;

/* The library's error as the exception PyTorch has for it; one that a signal has set goes first. */
static PyObject *raise_as(PyObject *type) {
    if (PyErr_Occurred()) {
        tp_error_clear();
        return NULL;
    }
    tp_code code = tp_error_code();
    if (code != TP_ERR_RUNTIME && code != TP_ERR_IO) return tpy_raise();
    PyErr_SetString(type, tpy_error_text());
    tp_error_clear();
    return NULL;
}

/* Asked while the library waits: has Ctrl-C been pressed? Only the main thread can know. */
static bool interrupted(void) {
    if (!pthread_equal(pthread_self(), main_thread)) return false;
    PyGILState_STATE state = PyGILState_Ensure();
    bool set = PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    return set;
}

/* ---- Stores ---- */
typedef struct {
    PyObject_HEAD
    tp_store *s;
} store_object;
static PyTypeObject *store_type;

static PyObject *wrap_store(tp_store *s) { /* takes s over */
    if (!s) return raise_as(network_error);
    store_object *o = (store_object *)store_type->tp_alloc(store_type, 0);
    if (o)
        o->s = s;
    else
        tp_store_release(s);
    return (PyObject *)o;
}

static void store_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    TPY_UNLOCKED(tp_store_release(((store_object *)o)->s));
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *store_tcp(PyObject *unused, PyObject *args) {
    (void)unused;
    const char *host;
    int port, serve;
    double timeout;
    if (!PyArg_ParseTuple(args, "sipd", &host, &port, &serve, &timeout)) return NULL;
    tp_store *s;
    TPY_UNLOCKED(s = tp_store_tcp(host, port, serve, timeout));
    return wrap_store(s);
}

static PyObject *store_file(PyObject *unused, PyObject *args) {
    (void)unused;
    PyObject *path;
    long long users;
    if (!PyArg_ParseTuple(args, "O&L", PyUnicode_FSConverter, &path, &users)) return NULL;
    tp_store *s = tp_store_file(PyBytes_AS_STRING(path), users);
    Py_DECREF(path);
    return wrap_store(s);
}

static PyObject *store_hash(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    return wrap_store(tp_store_hash());
}

static PyObject *store_prefix(PyObject *unused, PyObject *args) {
    (void)unused;
    const char *prefix;
    PyObject *inner;
    if (!PyArg_ParseTuple(args, "sO!", &prefix, store_type, &inner)) return NULL;
    return wrap_store(tp_store_prefix(prefix, ((store_object *)inner)->s));
}

static tp_store *store_of(PyObject *o) { return ((store_object *)o)->s; }

static PyObject *put(PyObject *o, PyObject *args, bool (*how)(tp_store *, const char *, const void *, size_t)) {
    const char *key;
    Py_buffer value;
    if (!PyArg_ParseTuple(args, "ss*", &key, &value)) return NULL;
    bool ok;
    TPY_UNLOCKED(ok = how(store_of(o), key, value.buf, (size_t)value.len));
    PyBuffer_Release(&value);
    if (!ok) return raise_as(store_error);
    Py_RETURN_NONE;
}
static PyObject *store_set(PyObject *o, PyObject *args) { return put(o, args, tp_store_set); }
static PyObject *store_append(PyObject *o, PyObject *args) { return put(o, args, tp_store_append); }

static PyObject *bytes_of(char *data, size_t n) {
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)n);
    tp_store_free_data(data);
    return bytes;
}

static PyObject *store_get(PyObject *o, PyObject *key) {
    const char *text = PyUnicode_AsUTF8(key);
    char *data;
    size_t n;
    bool ok;
    if (!text) return NULL;
    TPY_UNLOCKED(ok = tp_store_get(store_of(o), text, &data, &n));
    return ok ? bytes_of(data, n) : raise_as(store_error);
}

static PyObject *store_add(PyObject *o, PyObject *args) {
    const char *key;
    long long amount;
    int64_t sum;
    if (!PyArg_ParseTuple(args, "sL", &key, &amount)) return NULL;
    bool ok;
    TPY_UNLOCKED(ok = tp_store_add(store_of(o), key, amount, &sum));
    return ok ? PyLong_FromLongLong(sum) : raise_as(store_error);
}

static PyObject *store_compare_set(PyObject *o, PyObject *args) {
    const char *key;
    Py_buffer expected, fresh;
    if (!PyArg_ParseTuple(args, "ss*s*", &key, &expected, &fresh)) return NULL;
    char *data;
    size_t n;
    bool ok;
    TPY_UNLOCKED(ok = tp_store_compare_set(store_of(o), key, expected.buf, (size_t)expected.len, fresh.buf,
                                           (size_t)fresh.len, &data, &n));
    PyBuffer_Release(&expected);
    PyBuffer_Release(&fresh);
    return ok ? bytes_of(data, n) : raise_as(store_error);
}

static PyObject *store_wait(PyObject *o, PyObject *args) {
    const char *key;
    double timeout;
    if (!PyArg_ParseTuple(args, "sd", &key, &timeout)) return NULL;
    bool ok;
    TPY_UNLOCKED(ok = tp_store_wait(store_of(o), key, timeout));
    if (!ok) return raise_as(store_error);
    Py_RETURN_NONE;
}

static PyObject *yes_or_no(PyObject *o, PyObject *key, int (*how)(tp_store *, const char *)) {
    const char *text = PyUnicode_AsUTF8(key);
    if (!text) return NULL;
    int answer;
    TPY_UNLOCKED(answer = how(store_of(o), text));
    return answer < 0 ? raise_as(store_error) : PyBool_FromLong(answer);
}
static PyObject *store_check(PyObject *o, PyObject *key) { return yes_or_no(o, key, tp_store_check); }
static PyObject *store_delete(PyObject *o, PyObject *key) { return yes_or_no(o, key, tp_store_delete); }

static PyObject *store_count(PyObject *o, PyObject *unused) {
    (void)unused;
    int64_t count;
    TPY_UNLOCKED(count = tp_store_count(store_of(o)));
    return count < 0 ? raise_as(store_error) : PyLong_FromLongLong(count);
}

static PyObject *store_keys(PyObject *o, PyObject *unused) {
    (void)unused;
    char *data;
    size_t n;
    bool ok;
    TPY_UNLOCKED(ok = tp_store_keys(store_of(o), &data, &n));
    if (!ok) return raise_as(store_error);
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && at + sizeof(uint32_t) <= n;) {
        uint32_t length;
        memcpy(&length, data + at, sizeof length);
        PyObject *key = PyUnicode_DecodeUTF8(data + at + sizeof length, length, "surrogateescape");
        if (!key || PyList_Append(list, key) < 0) Py_CLEAR(list);
        Py_XDECREF(key);
        at += sizeof length + length;
    }
    tp_store_free_data(data);
    return list;
}

static PyObject *store_queue_push(PyObject *o, PyObject *args) { return put(o, args, tp_store_queue_push); }

static PyObject *store_queue_pop(PyObject *o, PyObject *args) {
    const char *key;
    double timeout;
    char *data;
    size_t n;
    if (!PyArg_ParseTuple(args, "sd", &key, &timeout)) return NULL;
    bool ok;
    TPY_UNLOCKED(ok = tp_store_queue_pop(store_of(o), key, timeout, &data, &n));
    return ok ? bytes_of(data, n) : raise_as(store_error);
}

static PyObject *store_queue_length(PyObject *o, PyObject *key) {
    const char *text = PyUnicode_AsUTF8(key);
    if (!text) return NULL;
    int64_t length;
    TPY_UNLOCKED(length = tp_store_queue_length(store_of(o), text));
    return length < 0 ? raise_as(store_error) : PyLong_FromLongLong(length);
}

static PyObject *store_port(PyObject *o, void *unused) {
    (void)unused;
    return PyLong_FromLong(tp_store_port(store_of(o)));
}
static PyObject *store_host(PyObject *o, void *unused) {
    (void)unused;
    return PyUnicode_FromString(tp_store_host(store_of(o)));
}
static PyObject *store_listen(PyObject *o, void *unused) {
    (void)unused;
    return PyUnicode_FromString(tp_store_listen(store_of(o)));
}
static PyObject *store_timeout(PyObject *o, void *unused) {
    (void)unused;
    return PyFloat_FromDouble(tp_store_timeout(store_of(o)));
}
static int store_set_timeout(PyObject *o, PyObject *value, void *unused) {
    (void)unused;
    double seconds = value ? PyFloat_AsDouble(value) : 0;
    if (PyErr_Occurred()) return -1;
    tp_store_set_timeout(store_of(o), seconds);
    return 0;
}

/* ---- Where a call stands in the script, for reports ---- */
static void set_call_site(void) {
    static char home[512]; /* this package's folder, whose frames are passed over */
    if (!home[0]) {
        PyObject *package = PyImport_ImportModule("taper"),
                 *path = package ? PyObject_GetAttrString(package, "__file__") : NULL;
        const char *text = path ? PyUnicode_AsUTF8(path) : NULL;
        if (text)
            snprintf(home, sizeof home, "%.*s", (int)(strrchr(text, '/') ? strrchr(text, '/') - text + 1 : 0), text);
        Py_XDECREF(package);
        Py_XDECREF(path);
        PyErr_Clear();
        if (!home[0]) strcpy(home, "?");
    }
    PyFrameObject *frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        const char *file = PyUnicode_AsUTF8(code->co_filename), *name = PyUnicode_AsUTF8(code->co_name);
        bool ours = !file || !name || strncmp(file, home, strlen(home)) == 0;
        if (!ours) {
            char text[192];
            size_t n = strlen(file);
            snprintf(text, sizeof text, "%s%s:%d in %s", n > 100 ? "..." : "", n > 100 ? file + n - 97 : file,
                     PyFrame_GetLineNumber(frame), name);
            tp_dist_set_place(text);
        }
        Py_DECREF(code);
        PyFrameObject *back = ours ? PyFrame_GetBack(frame) : NULL;
        Py_DECREF(frame);
        frame = back;
    }
    PyErr_Clear();
}

/* ---- Works ---- */
typedef struct {
    PyObject_HEAD
    tp_work *w;
} work_object;
static PyTypeObject *work_type;

static PyObject *wrap_work(tp_work *w) {
    if (!w) return raise_as(backend_error);
    work_object *o = (work_object *)work_type->tp_alloc(work_type, 0);
    if (o)
        o->w = w;
    else
        tp_work_release(w);
    return (PyObject *)o;
}

static void work_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    TPY_UNLOCKED(tp_work_release(((work_object *)o)->w));
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *work_wait(PyObject *o, PyObject *seconds) {
    double most = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred()) return NULL;
    bool ok;
    TPY_UNLOCKED(ok = tp_work_wait(((work_object *)o)->w, most));
    return ok ? Py_NewRef(Py_True) : raise_as(backend_error);
}
static PyObject *work_done(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_work_done(((work_object *)o)->w));
}
static PyObject *work_succeeded(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(tp_work_succeeded(((work_object *)o)->w));
}
static PyObject *work_source(PyObject *o, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(tp_work_source(((work_object *)o)->w));
}
static PyObject *work_error(PyObject *o, PyObject *unused) {
    (void)unused;
    const char *error = tp_work_error(((work_object *)o)->w);
    if (error) return PyUnicode_FromString(error);
    Py_RETURN_NONE;
}

/* ---- Groups. A group object lives as long as its group: until it is freed, or the job ends. ---- */
typedef struct {
    PyObject_HEAD
    tp_group *g;
    int64_t job;
} group_object;
static PyTypeObject *group_type;
static int64_t job_number; /* groups of jobs that have ended are gone */

static tp_group *group_of(PyObject *o) {
    group_object *self = (group_object *)o;
    if (self->g && self->job == job_number) return self->g;
    PyErr_SetString(PyExc_ValueError,
                    "Default process group has not been initialized, please make sure to call init_process_group.");
    return NULL;
}

static PyObject *wrap_group(tp_group *g) {
    if (!g) return raise_as(backend_error);
    group_object *o = (group_object *)group_type->tp_alloc(group_type, 0);
    if (o) {
        o->g = g;
        o->job = job_number;
    }
    return (PyObject *)o;
}

static void group_dealloc(PyObject *o) { /* a group is closed by destroy_process_group or with the job */
    PyTypeObject *type = Py_TYPE(o);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *group_free(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_group *g = group_of(o);
    if (!g) return NULL;
    ((group_object *)o)->g = NULL;
    TPY_UNLOCKED(tp_group_free(g));
    Py_RETURN_NONE;
}

static tp_tensor *tensor_in(PyObject *o, const char *argument) {
    if (tpy_is_tensor(o)) return tpy_unwrap(o);
    PyErr_Format(PyExc_TypeError,
                 "Invalid function argument. Expected parameter `%s` of type torch.Tensor, but got %s instead.",
                 argument, Py_TYPE(o)->tp_name);
    return NULL;
}

static bool tensors_in(PyObject *o, const char *argument, tp_tensors *list,
                       PyObject **kept) { /* PyMem_Free(list->v); Py_DECREF(*kept) */
    *list = (tp_tensors){NULL, 0};
    *kept = PySequence_Fast(o, "expected a list of tensors");
    if (!*kept) return false;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(*kept);
    list->v = PyMem_Malloc(sizeof *list->v * (size_t)(n ? n : 1));
    for (; list->v && list->n < n; list->n++)
        if (!(list->v[list->n] = tensor_in(PySequence_Fast_GET_ITEM(*kept, list->n), argument))) break;
    if (list->v && list->n == n) return true;
    if (!list->v) PyErr_NoMemory();
    PyMem_Free(list->v);
    Py_CLEAR(*kept);
    return false;
}

static void tensors_done(tp_tensors *list, PyObject *kept) {
    PyMem_Free(list->v);
    Py_XDECREF(kept);
}

#define GROUP_AND(...)                                           \
    tp_group *g = group_of(o);                                   \
    if (!g || !PyArg_ParseTuple(args, __VA_ARGS__)) return NULL; \
    set_call_site()

/* A call that begins a work: one on a GPU may wait for the other ranks when it is the first of its kind. */
#define begun(call)                   \
    __extension__({                   \
        tp_work *made_;               \
        TPY_UNLOCKED(made_ = (call)); \
        wrap_work(made_);             \
    })

static PyObject *group_all_reduce(PyObject *o, PyObject *args) {
    PyObject *t;
    int op;
    GROUP_AND("Oi", &t, &op);
    tp_tensor *x = tensor_in(t, "tensor");
    return x ? begun(tp_dist_all_reduce(g, x, (tp_reduce_op)op)) : NULL;
}

static PyObject *group_reduce(PyObject *o, PyObject *args) {
    PyObject *t;
    int op, root;
    GROUP_AND("Oii", &t, &op, &root);
    tp_tensor *x = tensor_in(t, "tensor");
    return x ? begun(tp_dist_reduce(g, x, (tp_reduce_op)op, root)) : NULL;
}

static PyObject *group_broadcast(PyObject *o, PyObject *args) {
    PyObject *t;
    int root;
    GROUP_AND("Oi", &t, &root);
    tp_tensor *x = tensor_in(t, "tensor");
    return x ? begun(tp_dist_broadcast(g, x, root)) : NULL;
}

static PyObject *group_all_gather(PyObject *o, PyObject *args) {
    PyObject *out, *in, *kept;
    tp_tensors list;
    GROUP_AND("OO", &out, &in);
    tp_tensor *x = tensor_in(in, "tensor");
    if (!x || !tensors_in(out, "tensor_list", &list, &kept)) return NULL;
    PyObject *work = begun(tp_dist_all_gather(g, list, x));
    tensors_done(&list, kept);
    return work;
}

static PyObject *group_all_gather_into(PyObject *o, PyObject *args) {
    PyObject *out, *in;
    GROUP_AND("OO", &out, &in);
    tp_tensor *y = tensor_in(out, "output_tensor"), *x = y ? tensor_in(in, "input_tensor") : NULL;
    return x ? begun(tp_dist_all_gather_into(g, y, x)) : NULL;
}

static PyObject *group_gather(PyObject *o, PyObject *args) {
    PyObject *out, *in, *kept;
    int root;
    tp_tensors list;
    GROUP_AND("OOi", &out, &in, &root);
    tp_tensor *x = tensor_in(in, "tensor");
    if (!x || !tensors_in(out, "gather_list", &list, &kept)) return NULL;
    PyObject *work = begun(tp_dist_gather(g, list, x, root));
    tensors_done(&list, kept);
    return work;
}

static PyObject *group_scatter(PyObject *o, PyObject *args) {
    PyObject *out, *in, *kept;
    int root;
    tp_tensors list;
    GROUP_AND("OOi", &out, &in, &root);
    tp_tensor *y = tensor_in(out, "tensor");
    if (!y || !tensors_in(in, "scatter_list", &list, &kept)) return NULL;
    PyObject *work = begun(tp_dist_scatter(g, y, list, root));
    tensors_done(&list, kept);
    return work;
}

static PyObject *group_reduce_scatter(PyObject *o, PyObject *args) {
    PyObject *out, *in, *kept;
    int op;
    tp_tensors list;
    GROUP_AND("OOi", &out, &in, &op);
    tp_tensor *y = tensor_in(out, "output");
    if (!y || !tensors_in(in, "input_list", &list, &kept)) return NULL;
    PyObject *work = begun(tp_dist_reduce_scatter(g, y, list, (tp_reduce_op)op));
    tensors_done(&list, kept);
    return work;
}

static PyObject *group_reduce_scatter_of(PyObject *o, PyObject *args) {
    PyObject *out, *in;
    int op;
    GROUP_AND("OOi", &out, &in, &op);
    tp_tensor *y = tensor_in(out, "output"), *x = y ? tensor_in(in, "input") : NULL;
    return x ? begun(tp_dist_reduce_scatter_of(g, y, x, (tp_reduce_op)op)) : NULL;
}

static PyObject *group_all_to_all(PyObject *o, PyObject *args) {
    PyObject *out, *in, *kept_out, *kept_in, *work = NULL;
    tp_tensors outs, ins;
    GROUP_AND("OO", &out, &in);
    if (!tensors_in(out, "output_tensor_list", &outs, &kept_out)) return NULL;
    if (tensors_in(in, "input_tensor_list", &ins, &kept_in)) {
        work = begun(tp_dist_all_to_all(g, outs, ins));
        tensors_done(&ins, kept_in);
    }
    tensors_done(&outs, kept_out);
    return work;
}

static bool rows_in(PyObject *o, int64_t *rows, int64_t most, tp_ints *out) {
    PyObject *items = PySequence_Fast(o, "expected a list of ints");
    if (!items) return false;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    if (n > most) PyErr_SetString(PyExc_ValueError, "expected as many split sizes as there are ranks");
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
        rows[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items, i));
    Py_DECREF(items);
    *out = tp_ints_view(rows, n);
    return !PyErr_Occurred();
}

static PyObject *group_all_to_all_single(PyObject *o, PyObject *args) {
    PyObject *out, *in, *out_rows, *in_rows, *work = NULL;
    GROUP_AND("OOOO", &out, &in, &out_rows, &in_rows);
    tp_tensor *y = tensor_in(out, "output"), *x = y ? tensor_in(in, "input") : NULL;
    int64_t n = tp_group_size(g), *row_counts = x ? PyMem_Malloc(sizeof *row_counts * (size_t)(2 * n)) : NULL;
    tp_ints to, from;
    if (row_counts && rows_in(out_rows, row_counts, n, &from) && rows_in(in_rows, row_counts + n, n, &to))
        work = begun(tp_dist_all_to_all_single(g, y, x, from, to));
    PyMem_Free(row_counts);
    return work;
}

static PyObject *group_barrier(PyObject *o, PyObject *unused) {
    (void)unused;
    tp_group *g = group_of(o);
    if (!g) return NULL;
    set_call_site();
    return begun(tp_dist_barrier(g));
}

static PyObject *group_message(PyObject *o, PyObject *args, tp_work *(*how)(tp_group *, tp_tensor *, int, int64_t)) {
    PyObject *t;
    int peer;
    long long tag;
    GROUP_AND("OiL", &t, &peer, &tag);
    tp_tensor *x = tensor_in(t, "tensor");
    return x ? begun(how(g, x, peer, tag)) : NULL;
}
static PyObject *group_send(PyObject *o, PyObject *args) { return group_message(o, args, tp_dist_send); }
static PyObject *group_recv(PyObject *o, PyObject *args) { return group_message(o, args, tp_dist_recv); }

static PyObject *group_rank(PyObject *o, void *unused) {
    (void)unused;
    tp_group *g = group_of(o);
    return g ? PyLong_FromLong(tp_group_rank(g)) : NULL;
}
static PyObject *group_size(PyObject *o, void *unused) {
    (void)unused;
    tp_group *g = group_of(o);
    return g ? PyLong_FromLong(tp_group_size(g)) : NULL;
}
static PyObject *group_name(PyObject *o, void *unused) {
    (void)unused;
    tp_group *g = group_of(o);
    return g ? PyUnicode_FromString(tp_group_name(g)) : NULL;
}
static PyObject *group_number(PyObject *o, void *unused) {
    (void)unused;
    tp_group *g = group_of(o);
    return g ? PyLong_FromLongLong(tp_group_number(g)) : NULL;
}
static PyObject *group_set_timeout(PyObject *o, PyObject *seconds) {
    tp_group *g = group_of(o);
    double value = g ? PyFloat_AsDouble(seconds) : 0;
    if (PyErr_Occurred()) return NULL;
    tp_group_set_timeout(g, value);
    Py_RETURN_NONE;
}

/* ---- The job ---- */
static PyObject *dist_init(PyObject *unused, PyObject *args) {
    (void)unused;
    PyObject *store;
    tp_dist_init_options options = {.size = sizeof options, .placed = true};
    if (!PyArg_ParseTuple(args, "ziiOd", &options.backend, &options.rank, &options.world_size, &store,
                          &options.timeout))
        return NULL;
    if (options.world_size < 0) options.placed = false;
    if (store != Py_None) {
        if (!PyObject_TypeCheck(store, store_type)) return PyErr_Format(PyExc_TypeError, "expected a store");
        options.store = store_of(store);
    }
    bool ok;
    TPY_UNLOCKED(ok = tp_dist_init_with(&options));
    if (!ok) return raise_as(network_error);
    job_number++;
    return wrap_group(tp_dist_world());
}

static PyObject *dist_end(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    job_number++;
    TPY_UNLOCKED(tp_dist_end());
    Py_RETURN_NONE;
}

static PyObject *dist_group(PyObject *unused, PyObject *args) {
    (void)unused;
    PyObject *ranks;
    double timeout;
    const char *name;
    int local;
    if (!PyArg_ParseTuple(args, "Odzp", &ranks, &timeout, &name, &local)) return NULL;
    Py_ssize_t n = PySequence_Size(ranks);
    int64_t *list = n < 0 ? NULL : PyMem_Malloc(sizeof *list * (size_t)(n ? n : 1));
    tp_ints given;
    tp_group *g = NULL;
    bool ok = list && rows_in(ranks, list, n, &given);
    if (ok) TPY_UNLOCKED(g = (local ? tp_group_new_local : tp_group_new)(given, timeout, name));
    PyMem_Free(list);
    return ok ? wrap_group(g) : NULL;
}

static PyObject *dist_place(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    tp_dist_place p = {.size = sizeof p};
    if (!tp_dist_query(&p)) return tpy_raise();
    return Py_BuildValue("ziiii", p.launcher, p.rank, p.world_size, p.local_rank, p.local_size);
}

static PyObject *dist_unheeded(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    tp_dist_place p = {.size = sizeof p};
    if (!tp_dist_query(&p)) return tpy_raise();
    return Py_BuildValue("zii", p.unheeded, p.unheeded_rank, p.unheeded_size);
}

static PyObject *dist_engine(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    return Py_BuildValue("z", tp_dist_engine());
}

static PyObject *dist_store(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    return wrap_store(tp_store_retain(tp_dist_store()));
}

static PyObject *dist_nccl_version(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    return PyLong_FromLong(tp_dist_nccl_version());
}

static PyObject *dist_available(PyObject *unused, PyObject *backend) {
    (void)unused;
    const char *name = PyUnicode_AsUTF8(backend);
    return name ? PyBool_FromLong(tp_dist_available(name)) : NULL;
}

/* ---- What the watcher says goes to standard error, whole lines at once, without the interpreter ---- */
static void write_lines(const char *text) {
    static const char start[] = "taper: ";
    size_t n = strlen(text);
    char *all = malloc(n + sizeof start + 1);
    if (!all) return;
    memcpy(all, start, sizeof start - 1);
    memcpy(all + sizeof start - 1, text, n);
    all[n + sizeof start - 1] = '\n';
    ssize_t ignored = write(STDERR_FILENO, all, n + sizeof start);
    (void)ignored;
    free(all);
}

static void end_process(const char *text) { /* it has had time to leave by itself */
    char line[1024];
    snprintf(line, sizeof line, "this process ends now, because %s", text);
    write_lines(line);
    _exit(1);
}

static PyObject *dist_tell(PyObject *unused, PyObject *reason) {
    (void)unused;
    const char *text = PyUnicode_AsUTF8(reason);
    if (!text) return NULL;
    TPY_UNLOCKED(tp_dist_tell_failure(text));
    Py_RETURN_NONE;
}

static PyObject *dist_prove(PyObject *unused, PyObject *args) {
    (void)unused;
    int fd, serves;
    double seconds;
    if (!PyArg_ParseTuple(args, "ipd", &fd, &serves, &seconds)) return NULL;
    bool ok;
    TPY_UNLOCKED(ok = tp_dist_prove(fd, serves, seconds));
    if (!ok) return raise_as(network_error);
    Py_RETURN_NONE;
}

static PyObject *dist_leave(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    TPY_UNLOCKED(tp_dist_leave());
    Py_RETURN_NONE;
}

static PyObject *preempted(PyObject *unused, PyObject *unused2) {
    (void)unused;
    (void)unused2;
    return PyBool_FromLong(tp_preempted());
}

/* The process gets SIGTERM when its parent ends, or now if that has ended already. */
static PyObject *end_with_parent(PyObject *unused, PyObject *pid) {
    (void)unused;
    long parent = PyLong_AsLong(pid);
    if (parent == -1 && PyErr_Occurred()) return NULL;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != (pid_t)parent) raise(SIGTERM);
    Py_RETURN_NONE;
}

/* ---- The types ---- */
static PyMethodDef store_methods[] = {{"set", store_set, METH_VARARGS, NULL},
                                      {"append", store_append, METH_VARARGS, NULL},
                                      {"get", store_get, METH_O, NULL},
                                      {"add", store_add, METH_VARARGS, NULL},
                                      {"compare_set", store_compare_set, METH_VARARGS, NULL},
                                      {"wait", store_wait, METH_VARARGS, NULL},
                                      {"check", store_check, METH_O, NULL},
                                      {"delete", store_delete, METH_O, NULL},
                                      {"count", store_count, METH_NOARGS, NULL},
                                      {"keys", store_keys, METH_NOARGS, NULL},
                                      {"queue_push", store_queue_push, METH_VARARGS, NULL},
                                      {"queue_pop", store_queue_pop, METH_VARARGS, NULL},
                                      {"queue_length", store_queue_length, METH_O, NULL},
                                      {0}};
static PyGetSetDef store_properties[] = {
    {"port", store_port, NULL, NULL, NULL},
    {"host", store_host, NULL, NULL, NULL},
    {"listen", store_listen, NULL, "Where a process beside the store should listen.", NULL},
    {"timeout", store_timeout, store_set_timeout, "Seconds.", NULL},
    {0}};
static PyType_Slot store_slots[] = {
    {Py_tp_dealloc, store_dealloc}, {Py_tp_methods, store_methods}, {Py_tp_getset, store_properties}, {0, NULL}};
static PyType_Spec store_spec = {"taper._C._Store", sizeof(store_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, store_slots};
static PyMethodDef work_methods[] = {
    {"wait", work_wait, METH_O, "wait(seconds): negative waits until the group's timeout."},
    {"done", work_done, METH_NOARGS, NULL},
    {"succeeded", work_succeeded, METH_NOARGS, NULL},
    {"error", work_error, METH_NOARGS, NULL},
    {"source", work_source, METH_NOARGS, NULL},
    {0}};
static PyType_Slot work_slots[] = {{Py_tp_dealloc, work_dealloc}, {Py_tp_methods, work_methods}, {0, NULL}};
static PyType_Spec work_spec = {"taper._C._Work", sizeof(work_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, work_slots};
static PyMethodDef group_methods[] = {{"all_reduce", group_all_reduce, METH_VARARGS, NULL},
                                      {"reduce", group_reduce, METH_VARARGS, NULL},
                                      {"broadcast", group_broadcast, METH_VARARGS, NULL},
                                      {"all_gather", group_all_gather, METH_VARARGS, NULL},
                                      {"all_gather_into", group_all_gather_into, METH_VARARGS, NULL},
                                      {"gather", group_gather, METH_VARARGS, NULL},
                                      {"scatter", group_scatter, METH_VARARGS, NULL},
                                      {"reduce_scatter", group_reduce_scatter, METH_VARARGS, NULL},
                                      {"reduce_scatter_of", group_reduce_scatter_of, METH_VARARGS, NULL},
                                      {"all_to_all", group_all_to_all, METH_VARARGS, NULL},
                                      {"all_to_all_single", group_all_to_all_single, METH_VARARGS, NULL},
                                      {"barrier", group_barrier, METH_NOARGS, NULL},
                                      {"send", group_send, METH_VARARGS, NULL},
                                      {"recv", group_recv, METH_VARARGS, NULL},
                                      {"set_timeout", group_set_timeout, METH_O, NULL},
                                      {"free", group_free, METH_NOARGS, NULL},
                                      {0}};
static PyGetSetDef group_properties[] = {{"rank", group_rank, NULL, NULL, NULL},
                                         {"size", group_size, NULL, NULL, NULL},
                                         {"name", group_name, NULL, NULL, NULL},
                                         {"number", group_number, NULL, NULL, NULL},
                                         {0}};
static PyType_Slot group_slots[] = {
    {Py_tp_dealloc, group_dealloc}, {Py_tp_methods, group_methods}, {Py_tp_getset, group_properties}, {0, NULL}};
static PyType_Spec group_spec = {"taper._C._Group", sizeof(group_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, group_slots};

static int add_types(PyObject *module) {
    store_type = (PyTypeObject *)PyType_FromSpec(&store_spec);
    work_type = (PyTypeObject *)PyType_FromSpec(&work_spec);
    group_type = (PyTypeObject *)PyType_FromSpec(&group_spec);
    if (!store_type || !work_type || !group_type) return -1;
    return PyModule_AddType(module, store_type) < 0 || PyModule_AddType(module, work_type) < 0 ||
                   PyModule_AddType(module, group_type) < 0
               ? -1
               : 0;
}

static int add_error(PyObject *module, const char *name, const char *full, PyObject *base, PyObject **error) {
    *error = PyErr_NewException(full, base, NULL);
    return *error ? PyModule_AddObjectRef(module, name, *error) : -1;
}

int tpy_init_dist(PyObject *module) {
    static PyMethodDef functions[] = {
        {"_store_tcp", store_tcp, METH_VARARGS, "_store_tcp(host, port, serve, timeout)"},
        {"_store_file", store_file, METH_VARARGS, "_store_file(path, users)"},
        {"_store_hash", store_hash, METH_NOARGS, NULL},
        {"_store_prefix", store_prefix, METH_VARARGS, "_store_prefix(prefix, store)"},
        {"_dist_init", dist_init, METH_VARARGS,
         "_dist_init(backend, rank, world_size, store, timeout): the group of all ranks."},
        {"_dist_end", dist_end, METH_NOARGS, NULL},
        {"_dist_group", dist_group, METH_VARARGS, "_dist_group(ranks, timeout, name)"},
        {"_dist_place", dist_place, METH_NOARGS,
         "What the launcher says: (launcher, rank, world_size, local_rank, local_size)."},
        {"_dist_unheeded", dist_unheeded, METH_NOARGS,
         "The launcher of several ranks that RANK=0 and WORLD_SIZE=1 hide: (launcher or None, rank, world_size)."},
        {"_dist_engine", dist_engine, METH_NOARGS, "What carries the data."},
        {"_dist_store", dist_store, METH_NOARGS, NULL},
        {"_dist_prove", dist_prove, METH_VARARGS,
         "_dist_prove(fd, serves, seconds): both sides of a connection show that they know the job's secret."},
        {"_dist_tell", dist_tell, METH_O, "Tells the other ranks why this one ends."},
        {"_dist_leave", dist_leave, METH_NOARGS, "At the process's end."},
        {"_end_with_parent", end_with_parent, METH_O,
         "_end_with_parent(pid): SIGTERM comes when the parent, which has this number, ends."},
        {"preempted", preempted, METH_NOARGS,
         "Has the scheduler sent SIGTERM or SIGUSR1 since the first call of this function? A training loop asks, "
         "saves, and leaves."},
        {"_dist_available", dist_available, METH_O, "Can a backend be opened here?"},
        {"_dist_nccl_version", dist_nccl_version, METH_NOARGS, NULL},
        {0}};
    PyObject *base;
    main_thread = pthread_self();
    const char *grace = getenv("TAPER_GRACE");
    tp_dist_set_interrupt(interrupted);
    tp_dist_set_watcher(write_lines, end_process, grace ? atof(grace) : 0);
    if (add_types(module) < 0 ||
        add_error(module, "_DistError", "torch.distributed.DistError", PyExc_RuntimeError, &base) < 0)
        return -1;
    if (add_error(module, "_DistBackendError", "torch.distributed.DistBackendError", base, &backend_error) < 0 ||
        add_error(module, "_DistNetworkError", "torch.distributed.DistNetworkError", base, &network_error) < 0 ||
        add_error(module, "_DistStoreError", "torch.distributed.DistStoreError", base, &store_error) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
