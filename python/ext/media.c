/* Images and sounds in files: the functions of taper._C on which torchvision.io, torchaudio and the pictures in event
 * logs stand. */
#include "tpy.h"

/* "O&": a tensor, borrowed */
static int to_tensor(PyObject *o, void *out) {
    if (!tpy_is_tensor(o)) {
        PyErr_Format(PyExc_TypeError, "expected a Tensor, got %s", Py_TYPE(o)->tp_name);
        return 0;
    }
    *(tp_tensor **)out = tpy_unwrap(o);
    return 1;
}

static PyObject *wrapped(tp_tensor *t) { return tpy_wrap(tpy_own(t)); }

static PyObject *read_file(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&:read_file", PyUnicode_FSConverter, &path)) return NULL;
    tp_tensor *t;
    TPY_UNLOCKED(t = tp_read_file(PyBytes_AS_STRING(path)));
    Py_DECREF(path);
    return wrapped(t);
}

static PyObject *write_file(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path;
    tp_tensor *t;
    if (!PyArg_ParseTuple(args, "O&O&:write_file", PyUnicode_FSConverter, &path, to_tensor, &t)) return NULL;
    bool ok;
    TPY_READING(ok = tp_write_file(PyBytes_AS_STRING(path), t));
    Py_DECREF(path);
    return tpy_none_or_raise(ok);
}

typedef tp_tensor *decoder(const tp_tensor *, const tp_decode_options *);
static PyObject *decode(PyObject *args, decoder *function) { /* (bytes, mode, apply_exif_orientation) */
    tp_tensor *bytes, *image;
    long long mode;
    int orients;
    if (!PyArg_ParseTuple(args, "O&Lp:decode_image", to_tensor, &bytes, &mode, &orients)) return NULL;
    tp_decode_options options = {.size = sizeof options, .mode = mode, .apply_exif_orientation = orients};
    TPY_READING(image = function(bytes, &options));
    return wrapped(image);
}
static PyObject *decode_image(PyObject *module, PyObject *args) {
    (void)module;
    return decode(args, tp_decode_image_with);
}
static PyObject *decode_png(PyObject *module, PyObject *args) {
    (void)module;
    return decode(args, tp_decode_png_with);
}
static PyObject *decode_jpeg(PyObject *module, PyObject *args) {
    (void)module;
    return decode(args, tp_decode_jpeg_with);
}

static PyObject *encode_png(PyObject *module, PyObject *args) {
    (void)module;
    tp_tensor *image, *bytes;
    long long level = 6;
    if (!PyArg_ParseTuple(args, "O&|L:encode_png", to_tensor, &image, &level)) return NULL;
    TPY_READING(bytes = tp_encode_png(image, .level = level));
    return wrapped(bytes);
}
static PyObject *encode_jpeg(PyObject *module, PyObject *args) {
    (void)module;
    tp_tensor *image, *bytes;
    long long quality = 75;
    if (!PyArg_ParseTuple(args, "O&|L:encode_jpeg", to_tensor, &image, &quality)) return NULL;
    TPY_READING(bytes = tp_encode_jpeg(image, .quality = quality));
    return wrapped(bytes);
}

static PyObject *decode_wav(PyObject *module, PyObject *args) {
    (void)module;
    tp_tensor *bytes, *sound;
    long long offset = 0, frames = -1;
    int normalize = 1;
    int64_t rate = 0;
    if (!PyArg_ParseTuple(args, "O&|LLp:decode_wav", to_tensor, &bytes, &offset, &frames, &normalize)) return NULL;
    TPY_READING(sound =
                    tp_decode_wav(bytes, &rate, .frame_offset = offset, .num_frames = frames, .normalize = normalize));
    PyObject *result = wrapped(sound);
    return result ? Py_BuildValue("NL", result, (long long)rate) : NULL;
}
static PyObject *encode_wav(PyObject *module, PyObject *args) {
    (void)module;
    tp_tensor *sound, *bytes;
    long long rate, bits = 0;
    int floating = 0;
    if (!PyArg_ParseTuple(args, "O&L|Lp:encode_wav", to_tensor, &sound, &rate, &bits, &floating)) return NULL;
    TPY_READING(bytes = tp_encode_wav(sound, rate, .bits = bits, .floating = floating));
    return wrapped(bytes);
}
static PyObject *describe_wav(PyObject *module, PyObject *args) {
    (void)module;
    tp_tensor *bytes;
    tp_wav_info info = {.size = sizeof info};
    if (!PyArg_ParseTuple(args, "O&:describe_wav", to_tensor, &bytes)) return NULL;
    if (!tp_wav_describe(bytes, &info)) return tpy_raise();
    return Py_BuildValue("LLLLO", (long long)info.sample_rate, (long long)info.frames, (long long)info.channels,
                         (long long)info.bits, info.floating ? Py_True : Py_False);
}

static PyMethodDef functions[] = {
    {"_read_file", read_file, METH_VARARGS, "_read_file(path): a file's bytes."},
    {"_write_file", write_file, METH_VARARGS, "_write_file(path, bytes)"},
    {"_decode_image", decode_image, METH_VARARGS, "_decode_image(bytes, mode, apply_exif_orientation)"},
    {"_decode_png", decode_png, METH_VARARGS, NULL},
    {"_decode_jpeg", decode_jpeg, METH_VARARGS, NULL},
    {"_encode_png", encode_png, METH_VARARGS, "_encode_png(image, level=6)"},
    {"_encode_jpeg", encode_jpeg, METH_VARARGS, "_encode_jpeg(image, quality=75)"},
    {"_decode_wav", decode_wav, METH_VARARGS,
     "_decode_wav(bytes, frame_offset=0, num_frames=-1, normalize=True): samples, rate"},
    {"_encode_wav", encode_wav, METH_VARARGS, "_encode_wav(samples, rate, bits=0, floating=False)"},
    {"_describe_wav", describe_wav, METH_VARARGS, "_describe_wav(bytes): rate, frames, channels, bits, floating"},
    {0}};

int tpy_init_media(PyObject *module) { return PyModule_AddFunctions(module, functions); }
