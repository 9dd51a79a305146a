/* Named tensors to and from files of any format. */
#include "base/error.h"
#include "tensor/check_arguments.h"
#include "base/memory.h"
#include "io/checkpoint/formats.h"
#include "io/checkpoint/saved.h"
#include <stdlib.h>

/* ---- Saving ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool check_names(int64_t n, const char *const *names) {
    for (int64_t i = 0; i < n; i++) {
        if (!names[i] || !names[i][0])
            return tpi_refuse(TP_ERR_VALUE, "argument 'names': expected a name, got none for tensor %lld",
                              (long long)i);
        if (!tpi_is_utf8(names[i], strlen(names[i])))
            return tpi_refuse(TP_ERR_VALUE, "argument 'names': expected UTF-8, got other bytes for tensor %lld",
                              (long long)i);
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

static bool check_arguments(int64_t n, const char *const *names, tp_tensor *const *tensors) {
    if (n < 0) return tpi_refuse(TP_ERR_VALUE, "argument 'n': expected 0 or more, got %lld", (long long)n);
    if (!tpi_sound_list(names, n, "names") || !tpi_sound_list(tensors, n, "tensors")) return false;
    if (!check_names(n, names)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!tensors[i])
            return tpi_refuse(TP_ERR_TYPE, "argument 'tensors': expected a tensor for '%s', got NULL", names[i]);
        else if (!tpi_is_tensor(tensors[i], "tensors"))
            return false;
    return true;
}

static bool ends_with(const char *path, const char *ending) {
    size_t n = strlen(path), k = strlen(ending);
    return n >= k && strcmp(path + n - k, ending) == 0;
}

bool tp_save(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    TPI_STOP_ON_ERROR(false);
    if (!path || !path[0]) return tpi_refuse(TP_ERR_VALUE, "argument 'path': expected a file's name, got none");
    if (!check_arguments(n, names, tensors)) return false;
    if (ends_with(path, ".npz")) return tpi_npz_save(path, n, names, tensors);
    if (ends_with(path, ".safetensors")) return tpi_safetensors_save(path, n, names, tensors);
    return tpi_pt_save(path, n, names, tensors);
}

/* ---- Loading into tensors that exist ---- */

/* t in the dtype and on the device of `into`: after this, copying it over asks for nothing that could fail. */
static tp_tensor *made_to_fit(tp_tensor *t, const tp_tensor *into) {
    if (tpi_device(into).type == TP_CPU) return tpi_as_dtype_data(t, (tp_dtype)into->dtype);
    tp_tensor *there = tpi_empty(tpi_shape(t), (tp_dtype)into->dtype, tpi_device(into));
    if (there && tpi_copy_data(there, t)) return there;
    tp_release(there);
    return NULL;
}

static tp_tensor *read_for(const tp_saved *dict, const char *name, const tp_tensor *into) {
    if (tpi_overlaps_itself(into))
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'tensors': the tensor for '%s' is expanded: several of its elements share memory",
                        name);
    if (!tp_saved_has(dict, name))
        return tpi_fail(TP_ERR_VALUE, "argument 'names': the file holds no tensor named '%s'", name);
    tp_tensor *t = tp_own(tp_saved_tensor(tp_saved_get(dict, name))), *fit = NULL;
    if (!t) return NULL;
    if (tpi_same_shape(t, into))
        fit = made_to_fit(t, into);
    else
        tpi_fail(TP_ERR_RUNTIME, "tensor '%s': expected shape %s, got %s", name, tpi_shape_text(tpi_shape(into)),
                 tpi_shape_text(tpi_shape(t)));
    tp_release(t);
    return fit;
}

bool tp_saved_load(const tp_saved *dict, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    TPI_STOP_ON_ERROR(false);
    if (tp_saved_kind_of(dict) != TP_SAVED_DICT)
        return dict
                   ? tpi_refuse(TP_ERR_TYPE, "argument 'dict': expected a dict of tensors, got %s", tpi_kind_name(dict))
                   : false;
    if (!check_arguments(n, names, tensors)) return false;
    tp_tensor **read = tpi_malloc((size_t)n * sizeof *read + 1);
    int64_t have = 0;
    bool ok = read != NULL;
    for (; ok && have < n; have += ok) {
        read[have] = read_for(dict, names[have], tensors[have]);
        ok = read[have] != NULL;
    }
    for (int64_t i = 0; ok && i < n; i++) {
        ok = tpi_copy_data(tensors[i], read[i]);
        if (ok) tpi_touch(tensors[i]);
    }
    for (int64_t i = 0; i < have; i++) tp_release(read[i]);
    tpi_mfree(read);
    return ok;
}

bool tp_load(const char *path, int64_t n, const char *const *names, tp_tensor *const *tensors) {
    TPI_STOP_ON_ERROR(false);
    tp_file *file = tp_open_file(path, NULL);
    bool ok = file && tpi_error_in_file(path, tp_saved_load(tp_file_value(file), n, names, tensors));
    tp_close_file(file);
    return ok;
}
