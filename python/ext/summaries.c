/* What TensorBoard shows, as bytes: the library's summaries for torch.utils.tensorboard.summary. Each function takes
 * its arguments by position and returns the serialised tensorflow.Summary, or GraphDef. */
#include "tpy.h"

static PyObject *bytes_of(tp_summary *s) { /* takes s over */
    if (!s) return tpy_raise();
    size_t n;
    const void *data = tp_summary_bytes(s, &n);
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)n);
    tp_summary_free(s);
    return bytes;
}

/* "O&": a tensor, or None where the variable holds nothing. */
static int tensor_arg(PyObject *o, void *out) {
    if (!tpy_is_tensor(o)) {
        PyErr_Format(PyExc_TypeError, "expected a tensor, got %s", Py_TYPE(o)->tp_name);
        return 0;
    }
    *(tp_tensor **)out = tpy_unwrap(o);
    return 1;
}
static int tensor_or_none(PyObject *o, void *out) { return o == Py_None ? 1 : tensor_arg(o, out); }

#define SUMMARY(elements, call)    \
    tp_summary *s;                 \
    TPY_HEAVY(elements, s = call); \
    return bytes_of(s)

static PyObject *summary_scalar(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag;
    double value;
    int as_tensor = 0, as_double = 0;
    tp_summary_scalar_options o = {.size = sizeof o};
    if (!PyArg_ParseTuple(args, "sd|ppzz:scalar", &tag, &value, &as_tensor, &as_double, &o.display_name,
                          &o.description))
        return NULL;
    o.as_tensor = as_tensor;
    o.as_double = as_double;
    return bytes_of(tp_summary_scalar(tag, value, &o));
}
static PyObject *summary_text(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag, *text;
    if (!PyArg_ParseTuple(args, "ss:text", &tag, &text)) return NULL;
    return bytes_of(tp_summary_text(tag, text));
}
static PyObject *summary_tensor(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag;
    tp_tensor *t;
    if (!PyArg_ParseTuple(args, "sO&:tensor_proto", &tag, tensor_arg, &t)) return NULL;
    SUMMARY(tp_numel(t), tp_summary_tensor(tag, t));
}

/* ---- Histograms and curves ---- */
static PyObject *summary_histogram(PyObject *module,
                                   PyObject *args) { /* bins: a rule's name, a number, or a tensor of edges */
    (void)module;
    const char *tag;
    tp_tensor *t;
    PyObject *bins;
    long long max_bins;
    tp_summary_histogram_options o = {.size = sizeof o};
    if (!PyArg_ParseTuple(args, "sO&OL:histogram", &tag, tensor_arg, &t, &bins, &max_bins)) return NULL;
    o.max_bins = max_bins;
    if (PyUnicode_Check(bins))
        o.rule = PyUnicode_AsUTF8(bins);
    else if (tpy_is_tensor(bins))
        o.edges = tpy_unwrap(bins);
    else
        o.bin_count = PyLong_AsLongLong(bins);
    if (PyErr_Occurred()) return NULL;
    SUMMARY(tp_numel(t), tp_summary_histogram(tag, t, &o));
}
static PyObject *summary_histogram_raw(PyObject *module, PyObject *args) { /* limits and counts: float64 tensors */
    (void)module;
    const char *tag;
    double min, max, num, sum, squares;
    tp_tensor *limits, *counts;
    if (!PyArg_ParseTuple(args, "sdddddO&O&:histogram_raw", &tag, &min, &max, &num, &sum, &squares, tensor_arg, &limits,
                          tensor_arg, &counts))
        return NULL;
    tp_floats edges = {tp_data(limits), tp_numel(limits)}, held = {tp_data(counts), tp_numel(counts)};
    if (tp_dtype_of(limits) != TP_FLOAT64 || tp_dtype_of(counts) != TP_FLOAT64 || !tp_is_contiguous(limits) ||
        !tp_is_contiguous(counts)) {
        PyErr_SetString(PyExc_TypeError, "histogram_raw(): expected limits and counts as contiguous float64 tensors");
        return NULL;
    }
    return bytes_of(tp_summary_histogram_raw(tag, min, max, num, sum, squares, edges, held));
}
static PyObject *summary_pr_curve(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag;
    tp_tensor *labels, *predictions, *weights = NULL;
    long long thresholds;
    if (!PyArg_ParseTuple(args, "sO&O&LO&:pr_curve", &tag, tensor_arg, &labels, tensor_arg, &predictions, &thresholds,
                          tensor_or_none, &weights))
        return NULL;
    SUMMARY(tp_numel(labels), tp_summary_pr_curve(tag, labels, predictions, thresholds, weights));
}
static PyObject *summary_pr_curve_raw(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag;
    tp_tensor *rows;
    if (!PyArg_ParseTuple(args, "sO&:pr_curve_raw", &tag, tensor_arg, &rows)) return NULL;
    return bytes_of(tp_summary_pr_curve_raw(tag, rows));
}

/* ---- Pictures, sound, meshes ---- */
static PyObject *summary_image(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag;
    tp_tensor *image, *boxes = NULL;
    tp_summary_image_options o = {.size = sizeof o};
    if (!PyArg_ParseTuple(args, "sO&sO&d:image", &tag, tensor_arg, &image, &o.format, tensor_or_none, &boxes,
                          &o.rescale))
        return NULL;
    o.boxes = boxes;
    SUMMARY(tp_numel(image), tp_summary_image(tag, image, &o));
}
static PyObject *summary_video(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag;
    tp_tensor *video;
    double fps;
    if (!PyArg_ParseTuple(args, "sO&d:video", &tag, tensor_arg, &video, &fps)) return NULL;
    SUMMARY(tp_numel(video), tp_summary_video(tag, video, fps));
}
static PyObject *summary_audio(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag;
    tp_tensor *sound;
    long long rate;
    if (!PyArg_ParseTuple(args, "sO&L:audio", &tag, tensor_arg, &sound, &rate)) return NULL;
    SUMMARY(tp_numel(sound), tp_summary_audio(tag, sound, rate));
}
static PyObject *summary_mesh(PyObject *module, PyObject *args) {
    (void)module;
    const char *tag, *config = NULL;
    tp_tensor *vertices, *colors = NULL, *faces = NULL;
    if (!PyArg_ParseTuple(args, "sO&O&O&z:mesh", &tag, tensor_arg, &vertices, tensor_or_none, &colors, tensor_or_none,
                          &faces, &config))
        return NULL;
    SUMMARY(tp_numel(vertices), tp_summary_mesh(tag, vertices, colors, faces, config));
}

/* ---- Hyperparameters, charts, graphs: lists of tuples ---- */

/* Memory for what a call points at, freed with the object. */
static void *kept_memory(PyObject *keep, Py_ssize_t n, size_t size) {
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)size);
    void *block = bytes ? memset(PyBytes_AS_STRING(bytes), 0, (size_t)n * size) : NULL;
    if (bytes && PyList_Append(keep, bytes) < 0) block = NULL;
    Py_XDECREF(bytes);
    return block;
}
static const char **texts(PyObject *keep, PyObject *list) {
    Py_ssize_t n = PyList_Size(list);
    const char **v = n < 0 ? NULL : kept_memory(keep, n, sizeof *v);
    for (Py_ssize_t i = 0; v && i < n; i++)
        if (!(v[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i)))) return NULL;
    return v;
}
static bool
setting(PyObject *o,
        tp_setting *out) { /* a text, or a number; truths are PyTorch's numbers unless they come as a bool */
    out->kind = PyUnicode_Check(o) ? TP_SETTING_TEXT : PyBool_Check(o) ? TP_SETTING_BOOL : TP_SETTING_NUMBER;
    if (out->kind == TP_SETTING_TEXT) return (out->text = PyUnicode_AsUTF8(o)) != NULL;
    out->number = PyFloat_AsDouble(o);
    return !PyErr_Occurred();
}
static bool hparam(PyObject *keep, PyObject *item, tp_hparam *out) { /* (name, value, [choices]) */
    PyObject *value, *choices;
    if (!PyArg_ParseTuple(item, "sOO!", &out->name, &value, &PyList_Type, &choices) || !setting(value, &out->value))
        return false;
    out->nchoices = PyList_GET_SIZE(choices);
    tp_setting *v = kept_memory(keep, out->nchoices, sizeof *v);
    for (int64_t i = 0; v && i < out->nchoices; i++)
        if (!setting(PyList_GET_ITEM(choices, i), &v[i])) return false;
    out->choices = v;
    return v != NULL;
}
static PyObject *summary_hparams(PyObject *module, PyObject *args) { /* part, [hparams], [tags of metrics] */
    (void)module;
    int part;
    PyObject *list, *metrics, *result = NULL, *keep = PyList_New(0);
    if (!keep || !PyArg_ParseTuple(args, "iO!O!:hparams", &part, &PyList_Type, &list, &PyList_Type, &metrics))
        goto done;
    tp_hparam *hparams = kept_memory(keep, PyList_GET_SIZE(list), sizeof *hparams);
    const char **tags = texts(keep, metrics);
    bool ok = hparams && tags;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(list); i++)
        ok = hparam(keep, PyList_GET_ITEM(list, i), &hparams[i]);
    if (ok)
        result = bytes_of(
            tp_summary_hparams((tp_hparams_part)part, PyList_GET_SIZE(list), hparams, PyList_GET_SIZE(metrics), tags));
done:
    Py_XDECREF(keep);
    return result;
}
static PyObject *summary_custom_scalars(PyObject *module, PyObject *list) { /* [(category, title, margin, [tags])] */
    (void)module;
    PyObject *tags, *result = NULL, *keep = PyList_New(0);
    Py_ssize_t n = PyList_Size(list);
    tp_chart *charts = keep && n >= 0 ? kept_memory(keep, n, sizeof *charts) : NULL;
    bool ok = charts != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        int margin;
        ok = PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sspO!", &charts[i].category, &charts[i].title, &margin,
                              &PyList_Type, &tags) &&
             (charts[i].tags = texts(keep, tags));
        if (ok) {
            charts[i].margin = margin;
            charts[i].ntags = PyList_GET_SIZE(tags);
        }
    }
    if (ok) result = bytes_of(tp_summary_custom_scalars(n, charts));
    Py_XDECREF(keep);
    return result;
}

static bool shapes(PyObject *keep, PyObject *list, tp_graph_node *node) { /* a list of tuples of integers */
    tp_ints *v = kept_memory(keep, PyList_GET_SIZE(list), sizeof *v);
    node->nshapes = PyList_GET_SIZE(list);
    node->shapes = v;
    for (int64_t i = 0; v && i < node->nshapes; i++) {
        PyObject *shape = PyList_GET_ITEM(list, i);
        Py_ssize_t n = PyTuple_Size(shape);
        int64_t *sizes = n < 0 ? NULL : kept_memory(keep, n, sizeof *sizes);
        if (!sizes) return false;
        for (Py_ssize_t d = 0; d < n; d++) sizes[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, d));
        v[i] = tp_ints_view(sizes, n);
    }
    return v && !PyErr_Occurred();
}
static PyObject *graph(PyObject *module, PyObject *list) { /* [(name, op, [inputs], device, detail, [shapes])] */
    (void)module;
    Py_ssize_t n = PyList_Size(list);
    PyObject *inputs, *sizes, *keep = PyList_New(0);
    tp_summary *g = keep && n >= 0 ? tp_graph_new() : NULL;
    bool ok = g != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        tp_graph_node node = {0};
        ok = PyArg_ParseTuple(PyList_GET_ITEM(list, i), "szO!zzO!", &node.name, &node.op, &PyList_Type, &inputs,
                              &node.device, &node.detail, &PyList_Type, &sizes) &&
             (node.inputs = texts(keep, inputs)) && shapes(keep, sizes, &node);
        if (!ok) break;
        node.ninputs = PyList_GET_SIZE(inputs);
        ok = tp_graph_add(g, &node);
    }
    Py_XDECREF(keep);
    if (ok) return bytes_of(g);
    tp_summary_free(g);
    return PyErr_Occurred() ? NULL : tpy_raise();
}

int tpy_init_summaries(PyObject *module) {
    static PyMethodDef functions[] = {
        {"_summary_scalar", summary_scalar, METH_VARARGS, NULL},
        {"_summary_text", summary_text, METH_VARARGS, NULL},
        {"_summary_tensor", summary_tensor, METH_VARARGS, NULL},
        {"_summary_histogram", summary_histogram, METH_VARARGS, NULL},
        {"_summary_histogram_raw", summary_histogram_raw, METH_VARARGS, NULL},
        {"_summary_pr_curve", summary_pr_curve, METH_VARARGS, NULL},
        {"_summary_pr_curve_raw", summary_pr_curve_raw, METH_VARARGS, NULL},
        {"_summary_image", summary_image, METH_VARARGS, NULL},
        {"_summary_video", summary_video, METH_VARARGS, NULL},
        {"_summary_audio", summary_audio, METH_VARARGS, NULL},
        {"_summary_mesh", summary_mesh, METH_VARARGS, NULL},
        {"_summary_hparams", summary_hparams, METH_VARARGS, NULL},
        {"_summary_custom_scalars", summary_custom_scalars, METH_O, NULL},
        {"_summary_graph", graph, METH_O, NULL},
        {0},
    };
    return PyModule_AddFunctions(module, functions);
}
