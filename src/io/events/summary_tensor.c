/* Summaries that carry a tensor (tensorflow.TensorProto) for one of TensorBoard's plugins: tensors as they are, texts,
 * precision-recall curves and meshes. */
#include "io/events/summary.h"
#include "tensor/tensor.h"
#include <math.h>
#include <string.h>

enum { DT_STRING = 7 };

tp_tensor *tpi_plain_of(const tp_tensor *t, tp_dtype dtype) {
    tp_tensor *plain = tpi_empty(tpi_shape(t), dtype, (tp_device){TP_CPU, 0});
    if (plain && tpi_copy_data(plain, t)) return plain;
    tpi_release(plain);
    return NULL;
}
tp_tensor *tpi_doubles_of(const tp_tensor *t) { return tpi_plain_of(t, TP_FLOAT64); }

/* ---- Tensors ---- */

static void write_shape(tpi_wire *w, tp_ints shape) {
    size_t message = tpi_wire_open(w, 2);
    for (int64_t i = 0; i < shape.n; i++) {
        size_t dim = tpi_wire_open(w, 2);
        tpi_wire_int(w, 1, shape.v[i]);
        tpi_wire_close(w, dim);
    }
    tpi_wire_close(w, message);
}

/* The number of each dtype and of the field that holds its elements. */
static const struct kind {
    int8_t number, field;
} kinds[TP_DTYPE_COUNT] = {
    [TP_FLOAT32] = {1, 5}, [TP_FLOAT64] = {2, 6},    [TP_INT32] = {3, 7},        [TP_UINT8] = {4, 16},
    [TP_INT16] = {5, 7},   [TP_INT8] = {6, 7},       [TP_COMPLEX64] = {8, 9},    [TP_INT64] = {9, 10},
    [TP_BOOL] = {10, 11},  [TP_BFLOAT16] = {14, 13}, [TP_COMPLEX128] = {18, 12}, [TP_FLOAT16] = {19, 13},
    [TP_UINT16] = {17, 7}, [TP_UINT32] = {22, 16},   [TP_UINT64] = {23, 17},
};

static int64_t whole_at(const tp_tensor *t, int64_t i) { /* halves count as their bits */
    if (t->dtype == TP_FLOAT16 || t->dtype == TP_BFLOAT16) return ((const uint16_t *)t->data)[i];
    return tp_scalar_to_int(tpi_load_scalar(t->data + i * (int64_t)tpi_itemsize(t), (tp_dtype)t->dtype));
}

static void write_elements(tpi_wire *w, const tp_tensor *t) { /* contiguous, on the CPU */
    int field = kinds[t->dtype].field;
    size_t n = (size_t)t->numel;
    if (!n) return;
    if (t->dtype == TP_FLOAT32 || t->dtype == TP_COMPLEX64) {
        tpi_wire_floats(w, field, (const float *)t->data, t->dtype == TP_COMPLEX64 ? 2 * n : n);
        return;
    }
    if (t->dtype == TP_FLOAT64 || t->dtype == TP_COMPLEX128) {
        tpi_wire_doubles(w, field, (const double *)t->data, t->dtype == TP_COMPLEX128 ? 2 * n : n);
        return;
    }
    size_t packed = tpi_wire_open(w, field);
    for (size_t i = 0; i < n; i++) tpi_wire_varint(w, (uint64_t)whole_at(t, (int64_t)i));
    tpi_wire_close(w, packed);
}

/* A value that carries t, shown by a plugin that is told `content`. */
static bool write_value(tp_summary *s, const char *tag, const tp_tensor *t, const char *plugin,
                        const tpi_wire *content) {
    if (!kinds[t->dtype].number)
        return tpi_refuse(TP_ERR_MISSING, "no summary holds elements of %s", tp_dtype_name((tp_dtype)t->dtype));
    tp_tensor *plain = tpi_plain_of(t, (tp_dtype)t->dtype);
    size_t value;
    bool ok = plain && tpi_value_open(s, tag, &value);
    if (ok) {
        size_t tensor = tpi_wire_open(&s->wire, 8);
        tpi_wire_int(&s->wire, 1, kinds[t->dtype].number);
        write_shape(&s->wire, tpi_shape(t));
        write_elements(&s->wire, plain);
        tpi_wire_close(&s->wire, tensor);
        tpi_value_plugin(&s->wire, plugin, content ? content->data : NULL, content ? content->n : 0, NULL, NULL);
        tpi_wire_close(&s->wire, value);
    }
    tpi_release(plain);
    return ok;
}

tp_summary *tp_summary_tensor(const char *tag, const tp_tensor *t) {
    if (!tpi_is_tensor(t, "t")) return NULL;
    tp_summary *s = tpi_summary_new();
    if (s && !write_value(s, tag, t, "tensor", NULL)) {
        tp_summary_free(s);
        s = NULL;
    }
    return tpi_summary_done(s);
}

/* ---- Texts ---- */

bool tpi_write_text(tp_summary *s, const char *tag, const char *plugin, const void *text, size_t bytes, int ndim) {
    size_t value;
    if (!tpi_value_open(s, tag, &value)) return false;
    size_t tensor = tpi_wire_open(&s->wire, 8);
    tpi_wire_int(&s->wire, 1, DT_STRING);
    write_shape(&s->wire, tp_ints_view(&(int64_t){1}, ndim));
    tpi_wire_bytes(&s->wire, 8, text, bytes);
    tpi_wire_close(&s->wire, tensor);
    tpi_value_plugin(&s->wire, plugin, NULL, 0, NULL, NULL);
    tpi_wire_close(&s->wire, value);
    return true;
}

tp_summary *tp_summary_text(const char *tag, const char *text) {
    if (!text) return tpi_fail(TP_ERR_VALUE, "argument 'text': expected a text, got none");
    tp_summary *s = tpi_summary_new();
    if (s && !tpi_write_text(s, tag, "text", text, strlen(text), 1)) {
        tp_summary_free(s);
        s = NULL;
    }
    return tpi_summary_done(s);
}

/* ---- Precision and recall ---- */
enum { TRUE_POSITIVES, FALSE_POSITIVES, TRUE_NEGATIVES, FALSE_NEGATIVES, PRECISION, RECALL, ROWS };
#define MAX_THRESHOLDS 127

static tp_summary *pr_summary(const char *tag, const tp_tensor *rows) { /* (6, thresholds) of float32 */
    tpi_wire content = {0};
    tpi_wire_int(&content, 2, rows->shape[1]);
    tp_summary *s = content.failed ? NULL : tpi_summary_new();
    if (s && !write_value(s, tag, rows, "pr_curves", &content)) {
        tp_summary_free(s);
        s = NULL;
    }
    tpi_wire_free(&content);
    return tpi_summary_done(s);
}

/* Row 0 and 1: how much weight of true and false labels lies at or above each threshold; the others follow from them.
 */
static void fill_rows(double *rows, int64_t n) {
    for (int64_t i = n - 2; i >= 0; i--)
        for (int r = 0; r < 2; r++) rows[r * n + i] += rows[r * n + i + 1];
    for (int64_t i = 0; i < n; i++) {
        double tp = rows[i], fp = rows[n + i], fn = rows[0] - tp;
        rows[TRUE_NEGATIVES * n + i] = rows[n] - fp;
        rows[FALSE_NEGATIVES * n + i] = fn;
        rows[PRECISION * n + i] = tp / fmax(1e-7, tp + fp);
        rows[RECALL * n + i] = tp / fmax(1e-7, tp + fn);
    }
}

static bool same_count(const char *name, const tp_tensor *t, int64_t n) {
    return t->numel == n ||
           tpi_refuse(TP_ERR_VALUE, "argument '%s': expected %lld elements, one for each of 'predictions', got %lld",
                      name, (long long)n, (long long)t->numel);
}

/* Predictions that are not from 0 to 1 count nowhere. */
static void count_labels(double *rows, int64_t n, const double *labels, const double *predictions,
                         const double *weights, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double at = floor(predictions[i] * (double)(n - 1)), weight = weights ? weights[i] : 1;
        if (!(at >= 0 && at < (double)n)) continue;
        rows[(int64_t)at] += labels[i] * weight;
        rows[n + (int64_t)at] += (1 - labels[i]) * weight;
    }
}

tp_summary *tp_summary_pr_curve(const char *tag, const tp_tensor *labels, const tp_tensor *predictions,
                                int64_t thresholds, const tp_tensor *weights) {
    if (TPI_ENDED(labels, "a tensor") || TPI_ENDED(predictions, "a tensor") || TPI_ENDED(weights, "a tensor"))
        return NULL;
    if (!labels || !predictions) return NULL;
    if (thresholds <= 0 || thresholds > MAX_THRESHOLDS) thresholds = MAX_THRESHOLDS;
    if (thresholds < 2) return tpi_fail(TP_ERR_VALUE, "argument 'num_thresholds': expected 2 or more, got 1");
    if (!same_count("labels", labels, predictions->numel) ||
        (weights && !same_count("weights", weights, predictions->numel)))
        return NULL;
    tp_tensor *l = tpi_doubles_of(labels), *p = tpi_doubles_of(predictions),
              *w = weights ? tpi_doubles_of(weights) : NULL;
    tp_tensor *rows = tpi_empty(TP_INTS(ROWS, thresholds), TP_FLOAT64, (tp_device){TP_CPU, 0}), *floats = NULL;
    if (l && p && rows && (w || !weights) && tpi_fill_data(rows, tp_int(0))) {
        count_labels((double *)rows->data, thresholds, (const double *)l->data, (const double *)p->data,
                     w ? (const double *)w->data : NULL, p->numel);
        fill_rows((double *)rows->data, thresholds);
        floats = tpi_plain_of(rows, TP_FLOAT32);
    }
    tp_summary *s = floats ? pr_summary(tag, floats) : NULL;
    tp_tensor *made[] = {l, p, w, rows, floats};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) tpi_release(made[i]);
    return s;
}

tp_summary *tp_summary_pr_curve_raw(const char *tag, const tp_tensor *rows) {
    if (TPI_ENDED(rows, "a tensor")) return NULL;
    if (!rows) return NULL;
    if (rows->ndim != 2 || rows->shape[0] != ROWS)
        return tpi_fail(TP_ERR_VALUE, "argument 'rows': expected shape [6, thresholds], got %s",
                        tpi_shape_text(tpi_shape(rows)));
    tp_tensor *floats = tpi_plain_of(rows, TP_FLOAT32);
    tp_summary *s = floats ? pr_summary(tag, floats) : NULL;
    tpi_release(floats);
    return s;
}

/* ---- Meshes ---- */

static bool write_mesh_part(tp_summary *s, const char *tag, const tp_tensor *t, int part, int components,
                            const char *config) {
    static const char *const endings[] = {NULL, "_VERTEX", "_FACE", "_COLOR"};
    size_t n = strlen(tag);
    char *full = tpi_malloc(n + 8);
    tp_tensor *floats = full ? tpi_plain_of(t, TP_FLOAT32) : NULL;
    tpi_wire content = {0};
    tpi_wire_text(&content, 2, tag);
    tpi_wire_int(&content, 3, part);
    tpi_wire_text(&content, 5, config);
    size_t shape = tpi_wire_open(&content, 6);
    for (int i = 0; i < t->ndim; i++) tpi_wire_varint(&content, (uint64_t)t->shape[i]);
    tpi_wire_close(&content, shape);
    tpi_wire_int(&content, 7, components);
    bool ok = floats && !content.failed;
    if (ok) {
        memcpy(full, tag, n);
        strcpy(full + n, endings[part]);
        ok = write_value(s, full, floats, "mesh", &content);
    }
    tpi_wire_free(&content);
    tpi_release(floats);
    tpi_mfree(full);
    return ok;
}

tp_summary *tp_summary_mesh(const char *tag, const tp_tensor *vertices, const tp_tensor *colors, const tp_tensor *faces,
                            const char *config) {
    if (TPI_ENDED(vertices, "a tensor") || TPI_ENDED(colors, "a tensor") || TPI_ENDED(faces, "a tensor")) return NULL;
    const tp_tensor *const parts[] = {NULL, vertices, faces, colors};
    static const char *const names[] = {NULL, "vertices", "faces", "colors"};
    if (!vertices) return NULL;
    if (!tag) return tpi_fail(TP_ERR_VALUE, "argument 'tag': expected a text, got none");
    int components = 0;
    for (int i = 1; i < 4; i++) {
        if (!parts[i]) continue;
        components |= 1 << i;
        if (parts[i]->ndim != 3 || parts[i]->shape[2] != 3)
            return tpi_fail(TP_ERR_VALUE, "argument '%s': expected shape [batch, n, 3], got %s", names[i],
                            tpi_shape_text(tpi_shape(parts[i])));
    }
    tp_summary *s = tpi_summary_new();
    for (int i = 1; s && i < 4; i++)
        if (parts[i] && !write_mesh_part(s, tag, parts[i], i, components, config)) {
            tp_summary_free(s);
            s = NULL;
        }
    return tpi_summary_done(s);
}
