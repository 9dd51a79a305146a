/* Named tensors in .npz files: zip archives of .npy members, as np.savez and np.savez_compressed write and np.load reads them.
 * bfloat16, which NumPy does not know, is marked in the member's comment. Reading checks a member's checksum before its tensor is handed
 * out; tp_load_arrays reads and converts everything before it writes anything. */
#include <taper/io.h>
#include "io/npy.h"
#include "io/saved.h"
#include "io/zip.h"
#include "tensor/tensor.h"
#include <stdlib.h>
#include <string.h>

static const char suffix[] = ".npy";
enum { SUFFIX = sizeof suffix - 1 };
static const char bfloat16_mark[] = "bfloat16";

/* ---- Saving --------------------------------------------------------------------------------------------------------------- */

/* The elements in row-major order on the CPU; owned. */
static tp_tensor *on_cpu(tp_tensor *t) {
    if (tpi_device(t).type == TP_CPU) return tpi_contiguous_data(t);
    tp_tensor *here = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    if (here && tpi_copy_data(here, t)) return here;
    tp_release(here);
    return NULL;
}

static bool save_one(tpi_zip_writer *w, const char *name, tp_tensor *t) {
    size_t n = strlen(name);
    char header[TPI_NPY_ROOM], *member = tpi_malloc(n + SUFFIX + 1);
    tp_tensor *here = member ? on_cpu(t) : NULL;
    bool ok = false;
    if (here) {
        memcpy(member, name, n);
        memcpy(member + n, suffix, SUFFIX + 1);
        size_t length = tpi_npy_write(header, (tp_dtype)t->dtype, tpi_shape(t));
        tpi_zip_piece pieces[2] = {{header, length}, {here->data, (size_t)t->numel * tpi_itemsize(t)}};
        ok = tpi_zip_add(w, member, t->dtype == TP_BFLOAT16 ? bfloat16_mark : NULL, 2, pieces);
    }
    tp_release(here);
    tpi_mfree(member);
    return ok;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool check_names(int64_t n, const char *const *names) {
    for (int64_t i = 0; i < n; i++) {
        if (!names[i] || !names[i][0]) return tpi_refuse(TP_ERR_VALUE, "argument 'names': expected a name, got none for array %lld", (long long)i);
        if (!tpi_is_utf8(names[i], strlen(names[i]))) return tpi_refuse(TP_ERR_VALUE, "argument 'names': expected UTF-8, got other bytes for array %lld", (long long)i);
    }
    const char **sorted = tpi_malloc((size_t)n * sizeof *sorted + 1);
    if (!sorted) return false;
    for (int64_t i = 0; i < n; i++) sorted[i] = names[i];
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_text);
    const char *twice = NULL;
    for (int64_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) twice = sorted[i];
    tpi_mfree(sorted);
    return !twice || tpi_refuse(TP_ERR_VALUE, "argument 'names': expected different names, got '%s' twice", twice);
}

static bool check_arguments(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    if (!path || !path[0]) return tpi_refuse(TP_ERR_VALUE, "argument 'path': expected a file's name, got none");
    if (n < 0) return tpi_refuse(TP_ERR_VALUE, "argument 'n': expected 0 or more, got %lld", (long long)n);
    if (!check_names(n, names)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!tensors[i]) return tpi_refuse(TP_ERR_TYPE, "argument 'tensors': expected a tensor for '%s', got NULL", names[i]);
    return true;
}

bool tp_save_arrays(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    if (!check_arguments(path, n, names, tensors)) return false;
    tpi_zip_writer *w = tpi_zip_create(path, NULL, 1);
    for (int64_t i = 0; w && i < n; i++) {
        if (save_one(w, names[i], tensors[i])) continue;
        tpi_zip_abandon(w);
        return false;
    }
    return w && tpi_zip_commit(w);
}

/* ---- Reading --------------------------------------------------------------------------------------------------------------- */

struct tp_array_file {
    tpi_zip zip; /* members that are not arrays are left out, names have no suffix */
};

tp_array_file *tp_open_arrays(const char *path) {
    tpi_source source;
    tp_array_file *file = tpi_source_open(&source, path) ? tpi_new0(sizeof *file) : NULL;
    if (!file) return tpi_source_close(&source), NULL;
    if (!tpi_zip_open(&file->zip, source)) {
        tpi_delete(file, sizeof *file);
        return NULL;
    }
    tpi_zip *z = &file->zip;
    int64_t kept = 0;
    for (int64_t i = 0; i < z->n; i++) {
        tpi_zip_member m = z->members[i];
        size_t n = strlen(m.name);
        if (n < SUFFIX || strcmp(m.name + n - SUFFIX, suffix) != 0) continue;
        m.name[n - SUFFIX] = 0;
        z->members[kept++] = m;
    }
    z->n = kept;
    return file;
}

int64_t tp_array_count(const tp_array_file *file) { return file ? file->zip.n : -1; }

const char *tp_array_name(const tp_array_file *file, int64_t i) {
    if (!file) return tpi_fail(TP_ERR_TYPE, "argument 'file': expected an open array file, got NULL");
    if (i >= 0 && i < file->zip.n) return file->zip.members[i].name;
    return tpi_fail(TP_ERR_INDEX, "argument 'i': expected 0 to %lld, got %lld", (long long)file->zip.n - 1, (long long)i);
}

void tp_close_arrays(tp_array_file *file) {
    if (!file) return;
    tpi_zip_close(&file->zip);
    tpi_delete(file, sizeof *file);
}

static bool read_header(tpi_zip_stream *s, const tpi_zip_member *m, tpi_npy *header, uint64_t *length) {
    unsigned char prefix[12];
    if (!tpi_zip_read(s, prefix, 8)) return false;
    if (memcmp(prefix, "\x93NUMPY", 6) != 0) return tpi_refuse(TP_ERR_IO, "array '%s': it does not start as a NumPy array", m->name);
    if (prefix[6] < 1 || prefix[6] > 3)
        return tpi_refuse(TP_ERR_MISSING, "array '%s': expected version 1 to 3 of NumPy's format, got %d", m->name, prefix[6]);
    size_t wide = prefix[6] == 1 ? 2 : 4, n = 0;
    if (!tpi_zip_read(s, prefix + 8, wide)) return false;
    for (size_t i = wide; i-- > 0;) n = n << 8 | prefix[8 + i];
    *length = 8 + wide + n;
    if (*length > m->bytes || n > 1 << 20) return tpi_refuse(TP_ERR_IO, "array '%s': its header of %zu bytes is too long", m->name, n);
    char *text = tpi_malloc(n + 1);
    bool ok = text && tpi_zip_read(s, text, n) && tpi_npy_parse(header, text, n, strcmp(m->comment, bfloat16_mark) == 0, m->name);
    tpi_mfree(text);
    return ok;
}

/* The header's promise must be exactly what the member holds, before memory is asked for. */
static tp_tensor *empty_for(const tpi_npy *h, const tpi_zip_member *m, uint64_t length) {
    tp_ints shape = tp_ints_view(h->shape, h->ndim);
    int64_t numel = tpi_numel_of(shape), strides[TP_MAX_DIMS], step = 1, bytes;
    if (numel < 0) return NULL;
    if (__builtin_mul_overflow(numel, (int64_t)tpi_dtype_bytes[h->dtype], &bytes) || (uint64_t)bytes != m->bytes - length)
        return tpi_fail(TP_ERR_IO, "array '%s': shape %s of %s does not fit its %llu bytes", m->name, tpi_shape_text(shape), tp_dtype_name(h->dtype),
            (unsigned long long)(m->bytes - length));
    if (!h->fortran || h->ndim < 2) return tpi_empty(shape, h->dtype, (tp_device){TP_CPU, 0});
    for (int i = 0; i < h->ndim; i++) {
        strides[i] = step;
        if (h->shape[i] > 1) step *= h->shape[i];
    }
    return tpi_empty_strided(shape, tp_ints_view(strides, h->ndim), h->dtype, (tp_device){TP_CPU, 0});
}

static void swap_bytes(char *data, int64_t n, size_t size) {
    for (; n > 0; n--, data += size)
        for (size_t i = 0; i < size / 2; i++) {
            char c = data[i];
            data[i] = data[size - 1 - i], data[size - 1 - i] = c;
        }
}

/* Makes every byte of a bool array 0 or 1: other values are not bools to C. */
static void settle_elements(tp_tensor *t, bool swapped) {
    if (t->dtype == TP_BOOL)
        for (int64_t i = 0; i < t->numel; i++) t->data[i] = t->data[i] != 0;
    if (!swapped) return;
    bool complex = tp_dtype_is_complex((tp_dtype)t->dtype);
    swap_bytes(t->data, t->numel * (complex ? 2 : 1), tpi_itemsize(t) / (complex ? 2 : 1));
}

static tp_tensor *read_member(const tpi_zip *z, const tpi_zip_member *m) {
    tpi_npy header;
    uint64_t length;
    tpi_zip_stream *s = tpi_zip_begin(z, m);
    if (!s) return NULL;
    tp_tensor *t = read_header(s, m, &header, &length) ? empty_for(&header, m, length) : NULL;
    if (!t || !tpi_zip_read(s, t->data, (size_t)(m->bytes - length))) {
        tpi_zip_stop(s);
        tp_release(t);
        return NULL;
    }
    if (!tpi_zip_end(s)) {
        tp_release(t);
        return NULL;
    }
    settle_elements(t, header.swapped);
    return t;
}

static tp_tensor *read_named(const tpi_zip *z, const char *name) {
    for (int64_t i = 0; i < z->n; i++)
        if (strcmp(z->members[i].name, name) == 0) return read_member(z, &z->members[i]);
    return tpi_fail(TP_ERR_VALUE, "argument 'name': '%s' holds no array named '%s'", z->source.path, name);
}

tp_tensor *tp_read_array(tp_array_file *file, const char *name) {
    if (!file) return tpi_fail(TP_ERR_TYPE, "argument 'file': expected an open array file, got NULL");
    if (!name) return tpi_fail(TP_ERR_VALUE, "argument 'name': expected a name, got NULL");
    return tpi_to_scope(read_named(&file->zip, name));
}

/* ---- Loading into tensors that exist --------------------------------------------------------------------------------------- */

/* t in the dtype and on the device of `into`: after this, copying it over asks for nothing that could fail. */
static tp_tensor *made_to_fit(tp_tensor *t, const tp_tensor *into) {
    if (tpi_device(into).type == TP_CPU) return tpi_as_dtype_data(t, (tp_dtype)into->dtype);
    tp_tensor *there = tpi_empty(tpi_shape(t), (tp_dtype)into->dtype, tpi_device(into));
    if (there && tpi_copy_data(there, t)) return there;
    tp_release(there);
    return NULL;
}

static tp_tensor *read_for(const tpi_zip *z, const char *name, const tp_tensor *into) {
    if (tpi_overlaps_itself(into))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'tensors': the tensor for '%s' is expanded: several of its elements share memory", name);
    tp_tensor *t = read_named(z, name), *fit = NULL;
    if (!t) return NULL;
    if (tpi_same_shape(t, into))
        fit = made_to_fit(t, into);
    else
        tpi_fail(TP_ERR_RUNTIME, "array '%s': expected shape %s, got %s", name, tpi_shape_text(tpi_shape(into)), tpi_shape_text(tpi_shape(t)));
    tp_release(t);
    return fit;
}

bool tp_load_arrays(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    if (!check_arguments(path, n, names, tensors)) return false;
    tp_array_file *file = tp_open_arrays(path);
    tp_tensor **read = file ? tpi_malloc((size_t)n * sizeof *read + 1) : NULL;
    int64_t have = 0;
    bool ok = read != NULL;
    for (; ok && have < n; have += ok) {
        read[have] = read_for(&file->zip, names[have], tensors[have]);
        ok = read[have] != NULL;
    }
    for (int64_t i = 0; ok && i < n; i++) {
        ok = tpi_copy_data(tensors[i], read[i]);
        if (ok) tpi_touch(tensors[i]);
    }
    for (int64_t i = 0; i < have; i++) tp_release(read[i]);
    tpi_mfree(read);
    tp_close_arrays(file);
    return ok;
}
