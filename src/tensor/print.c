/* Printing in PyTorch's format, byte for byte: tensor([[ 1.0000, -2.5000]], dtype=torch.float64).
 *
 * Two walks over the elements that will be shown: the first settles one format for all of them (integers as "1.", fixed
 * or scientific, and the common width), the second writes. Large tensors are summarised before either walk, so that
 * printing costs what is printed. Text grows in one buffer; when it cannot, the rest is dropped and the call fails. */
#include "tensor/recorder.h"
#include "tensor/upcalls.h"
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <taper/print.h>

#define MAX_PRECISION 100
#define NUMBER_BYTES  512 /* the longest number: 1e308 with 309 digits, a point, MAX_PRECISION digits */

static tp_print_options options = {sizeof(tp_print_options), 4, 1000, 3, 80, -1};
static pthread_mutex_t options_lock = PTHREAD_MUTEX_INITIALIZER;

static tp_print_options options_now(void) {
    pthread_mutex_lock(&options_lock);
    tp_print_options now = options;
    pthread_mutex_unlock(&options_lock);
    return now;
}

/* How much of a caller's struct there is: one built against another version may know fewer fields, or more. */
static size_t known(const tp_print_options *o) {
    if (!o) {
        tpi_fail(TP_ERR_VALUE, "argument 'options': expected a tp_print_options, got NULL");
        return 0;
    }
    if (o->size < (int64_t)sizeof o->size) {
        tpi_fail(TP_ERR_VALUE, "argument 'options': its size must be set to sizeof(tp_print_options), got %lld",
                 (long long)o->size);
        return 0;
    }
    return (size_t)o->size < sizeof *o ? (size_t)o->size : sizeof *o;
}

bool tp_get_print_options(tp_print_options *o) {
    size_t n = known(o);
    if (!n) return false;
    tp_print_options now = options_now();
    now.size = o->size;
    memcpy(o, &now, n);
    return true;
}

bool tp_set_print_options(const tp_print_options *given) {
    size_t n = known(given);
    if (!n) return false;
    tp_print_options o = options_now();
    memcpy(&o, given, n);
    o.size = (int64_t)sizeof o;
    if (o.precision < 0 || o.precision > MAX_PRECISION)
        return tpi_refuse(TP_ERR_VALUE, "argument 'options.precision': expected 0 to %d, got %d", MAX_PRECISION,
                          o.precision);
    if (o.threshold < 0)
        return tpi_refuse(TP_ERR_VALUE, "argument 'options.threshold': expected 0 or more, got %d", o.threshold);
    if (o.edge_items < 0)
        return tpi_refuse(TP_ERR_VALUE, "argument 'options.edge_items': expected 0 or more, got %d", o.edge_items);
    if (o.line_width < 1)
        return tpi_refuse(TP_ERR_VALUE, "argument 'options.line_width': expected 1 or more, got %d", o.line_width);
    if (o.sci_mode < -1 || o.sci_mode > 1)
        return tpi_refuse(TP_ERR_VALUE, "argument 'options.sci_mode': expected -1, 0 or 1, got %d", o.sci_mode);
    pthread_mutex_lock(&options_lock);
    options = o;
    pthread_mutex_unlock(&options_lock);
    return true;
}

/* ---- Text that grows ---- */

typedef struct text {
    char *v;
    size_t n, capacity;
    bool failed;
} text;

static void put_n(text *out, const char *s, size_t n) {
    if (out->failed) return;
    if (out->capacity - out->n <= n) {
        size_t capacity = (out->capacity + n + 1) * 2;
        char *larger = tpi_realloc(out->v, capacity);
        if (!larger) {
            out->failed = true;
            return;
        }
        out->v = larger;
        out->capacity = capacity;
    }
    memcpy(out->v + out->n, s, n);
    out->v[out->n += n] = 0;
}

static void put(text *out, const char *s) { put_n(out, s, strlen(s)); }

static void put_many(text *out, char c, int64_t n) {
    for (; n > 0; n--) put_n(out, &c, 1);
}

/* ---- The format of a number ---- */

typedef struct format {
    bool floating, int_mode, sci_mode;
    int width, precision;
    double least, most; /* of the finite nonzero magnitudes; most is 0 if there are none */
} format;

/* What is printed, and how. A complex tensor has one format for the real and one for the imaginary parts. */
typedef struct printer {
    tp_print_options o;
    const tp_tensor *t; /* on the CPU */
    bool summarize, complex;
    int64_t indent; /* of what stands before the elements: "tensor(" */
    format part[2];
    text out;
} printer;

static int number_text(char *buffer, const format *f, double v) {
    if (isnan(v)) return snprintf(buffer, NUMBER_BYTES, "nan"); /* printf may show a sign */
    if (f->sci_mode) return snprintf(buffer, NUMBER_BYTES, "%.*e", f->precision, v);
    if (!f->int_mode) return snprintf(buffer, NUMBER_BYTES, "%.*f", f->precision, v);
    return snprintf(buffer, NUMBER_BYTES, isinf(v) ? "%.0f" : "%.0f.", v);
}

static int plain_text(char *buffer, tp_scalar s) {
    if (s.kind == TP_SCALAR_BOOL) return snprintf(buffer, NUMBER_BYTES, "%s", s.as.i ? "True" : "False");
    if (s.kind == TP_SCALAR_UINT) return snprintf(buffer, NUMBER_BYTES, "%llu", (unsigned long long)s.as.i);
    return snprintf(buffer, NUMBER_BYTES, "%lld", (long long)s.as.i);
}

static int element_text(char *buffer, const format *f, tp_scalar s, int part) {
    return f->floating ? number_text(buffer, f, s.as.d[part]) : plain_text(buffer, s);
}

static bool counts(double v) { return isfinite(v) && v != 0; }

/* First walk, first pass: the range of the values, and whether all are whole numbers. */
static void see_range(printer *p, tp_scalar s) {
    for (int i = 0; i <= p->complex; i++) {
        format *f = &p->part[i];
        double v = s.as.d[i], size = fabs(v);
        if (!counts(v)) continue;
        if (v != ceil(v)) f->int_mode = false;
        if (f->most == 0 || size < f->least) f->least = size;
        if (size > f->most) f->most = size;
    }
}

/* First walk, second pass: the width. Zeros, infinities and NaNs do not count among floating values. */
static void see_width(printer *p, tp_scalar s) {
    char buffer[NUMBER_BYTES];
    for (int i = 0; i <= p->complex; i++) {
        format *f = &p->part[i];
        if (f->floating && !counts(s.as.d[i])) continue;
        int width = element_text(buffer, f, s, i);
        if (width > f->width) f->width = width;
    }
}

/* Visits the elements that are shown, from dim on. */
static void visit(printer *p, int dim, const char *data, void (*see)(printer *p, tp_scalar s)) {
    const tp_tensor *t = p->t;
    if (dim == t->ndim) {
        see(p, tpi_load_scalar(data, (tp_dtype)t->dtype));
        return;
    }
    int64_t n = t->shape[dim], edge = p->o.edge_items, step = t->strides[dim] * (int64_t)tpi_itemsize(t);
    bool gap = p->summarize && n > 2 * edge;
    for (int64_t i = 0; i < n; i++) {
        if (gap && i == edge) i = n - edge;
        if (i < n) visit(p, dim + 1, data + i * step, see);
    }
}

static void settle_format(printer *p) {
    for (int i = 0; i < 2; i++)
        p->part[i] = (format){.floating = tpi_dtype_category[p->t->dtype] & (TPI_CAT_FLOAT | TPI_CAT_COMPLEX),
                              .int_mode = true,
                              .width = 1,
                              .precision = p->o.precision};
    if (p->part[0].floating) visit(p, 0, p->t->data, see_range);
    for (int i = 0; i < 2; i++) {
        format *f = &p->part[i];
        if (f->most == 0) continue;
        bool wide = f->most / f->least > 1000.0 || f->most > 1.0e8 || f->least < 1.0e-4;
        f->sci_mode = p->o.sci_mode < 0 ? wide : p->o.sci_mode;
    }
    visit(p, 0, p->t->data, see_width);
}

/* ---- Writing ---- */

static void put_element(printer *p, const char *data) {
    char buffer[NUMBER_BYTES];
    tp_scalar s = tpi_load_scalar(data, (tp_dtype)p->t->dtype);
    int n = element_text(buffer, &p->part[0], s, 0);
    put_many(&p->out, ' ', p->part[0].width - n);
    put(&p->out, buffer);
    if (!p->complex) return;
    element_text(buffer, &p->part[1], s, 1);
    if (buffer[0] != '-') put(&p->out, "+");
    put(&p->out, buffer);
    put(&p->out, "j");
}

/* The last dim: as many elements on a line as fit behind the indent. */
static void put_vector(printer *p, const char *data, int64_t indent) {
    const tp_tensor *t = p->t;
    int dim = t->ndim - 1;
    int64_t n = t->shape[dim], edge = p->o.edge_items, step = t->strides[dim] * (int64_t)tpi_itemsize(t);
    int64_t length = p->part[0].width + 2 + (p->complex ? p->part[1].width + 1 : 0);
    int64_t per_line = p->o.line_width > indent ? (p->o.line_width - indent) / length : 1, shown = 0;
    bool gap = p->summarize && (n > 2 * edge || edge == 0);
    if (per_line < 1) per_line = 1;
    put(&p->out, "[");
    for (int64_t i = 0; i < n; i++, shown++) {
        if (shown && shown % per_line == 0) {
            put(&p->out, ",\n");
            put_many(&p->out, ' ', indent + 1);
        } else if (shown) {
            put(&p->out, ", ");
        }
        if (gap && i == edge) {
            put(&p->out, edge ? " ..." : "...");
            i = n - edge - 1;
        } else {
            put_element(p, data + i * step);
        }
    }
    put(&p->out, "]");
}

static void put_dims(printer *p, int dim, const char *data, int64_t indent) {
    const tp_tensor *t = p->t;
    if (t->ndim == 0) {
        put_element(p, data);
        return;
    }
    if (dim == t->ndim - 1) {
        put_vector(p, data, indent);
        return;
    }
    int64_t n = t->shape[dim], edge = p->o.edge_items, step = t->strides[dim] * (int64_t)tpi_itemsize(t);
    bool gap = p->summarize && n > 2 * edge;
    put(&p->out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i) {
            put(&p->out, ",");
            put_many(&p->out, '\n', t->ndim - dim - 1);
            put_many(&p->out, ' ', indent + 1);
        }
        if (gap && i == edge) {
            put(&p->out, "...");
            i = n - edge - 1;
        } else {
            put_dims(p, dim + 1, data + i * step, indent + 1);
        }
    }
    put(&p->out, "]");
}

/* ---- What follows the elements ---- */

static void put_suffix(printer *p, const char *suffix, int64_t *last_line) {
    int64_t n = (int64_t)strlen(suffix);
    if (*last_line + n + 2 > p->o.line_width) {
        put(&p->out, ",\n");
        put_many(&p->out, ' ', p->indent);
        *last_line = p->indent + n;
    } else {
        put(&p->out, ", ");
        *last_line += n + 2;
    }
    put(&p->out, suffix);
}

static void size_suffix(printer *p, int64_t *last_line) {
    char buffer[TP_MAX_DIMS * 22 + 16];
    int n = snprintf(buffer, sizeof buffer, "size=(");
    for (int i = 0; i < p->t->ndim; i++)
        n += snprintf(buffer + n, sizeof buffer - (size_t)n, i ? ", %lld" : "%lld", (long long)p->t->shape[i]);
    snprintf(buffer + n, sizeof buffer - (size_t)n, p->t->ndim == 1 ? ",)" : ")");
    put_suffix(p, buffer, last_line);
}

/* Nobody needs to be told the dtype that values of this look would get anyway. */
static bool dtype_is_plain(const tp_tensor *t) {
    tp_dtype usual = tp_default_dtype();
    if (t->numel == 0) return t->dtype == usual;
    return t->dtype == usual || t->dtype == (usual == TP_FLOAT64 ? TP_COMPLEX128 : TP_COMPLEX64) ||
           t->dtype == TP_INT64 || t->dtype == TP_BOOL;
}

static void put_suffixes(printer *p, const tp_tensor *given) {
    static const char *const devices[] = {"none", "cpu", "cuda", "xpu", "hip", "test"};
    char buffer[256];
    int64_t last_line = (int64_t)p->out.n + 2;
    for (size_t i = p->out.n; i > 0; i--)
        if (p->out.v[i - 1] == '\n') {
            last_line = (int64_t)(p->out.n - (i - 1)) + 1;
            break;
        }
    tp_device device = tpi_device(given);
    bool meta = device.type == TP_META; /* all there is to tell */
    if (device.type != TP_CPU) {
        if (meta)
            snprintf(buffer, sizeof buffer, "device='meta'");
        else
            snprintf(buffer, sizeof buffer, "device='%s:%d'", devices[device.type], device.index);
        put_suffix(p, buffer, &last_line);
    }
    if (meta || (p->t->numel == 0 ? p->t->ndim != 1 : p->o.edge_items == 0)) size_suffix(p, &last_line);
    if (meta ? p->t->dtype != tp_default_dtype() : !dtype_is_plain(p->t)) {
        snprintf(buffer, sizeof buffer, "dtype=torch.%s", tp_dtype_name((tp_dtype)p->t->dtype));
        put_suffix(p, buffer, &last_line);
    }
    const char *grad_fn = tpi_above.grad_fn_name(given);
    if (grad_fn) {
        snprintf(buffer, sizeof buffer, "grad_fn=<%s>", grad_fn);
        put_suffix(p, buffer, &last_line);
    } else if (tpi_above.requires_grad(given)) {
        put_suffix(p, "requires_grad=True", &last_line);
    }
    put(&p->out, ")");
}

/* ---- The public calls ---- */

static locale_t c_locale;
static void make_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* The text of t, from tpi_malloc; NULL and an error on failure. Numbers are written with points in every locale. */
static char *text_of(const tp_tensor *t, const char *name, const char *contents, size_t *length) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!tpi_is_tensor(t, "t")) return NULL;
    tp_tensor *here = NULL;
    if (!contents && t->numel && tpi_device(t).type != TP_META && !tp_dtype_has_values((tp_dtype)t->dtype))
        return tpi_fail(TP_ERR_MISSING, "\"_local_scalar_dense_cpu\" not implemented for '%s'",
                        tp_dtype_word((tp_dtype)t->dtype));
    if (!contents && t->numel && tpi_device(t).type != TP_META) tpi_looked(t);
    if (tpi_device(t).type == TP_META) {
        contents = "...";
    } else if (!contents && (tpi_marked(t) || tpi_device(t).type != TP_CPU)) {
        tp_tensor *plain = tpi_resolved((tp_tensor *)(uintptr_t)t);
        here = plain ? tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0}) : NULL;
        bool fine = here && tpi_copy_data(here, plain);
        tp_release(plain);
        if (!fine) {
            tp_release(here);
            return NULL;
        }
    }
    pthread_once(&once, make_locale);
    locale_t before = c_locale ? uselocale(c_locale) : (locale_t)0;
    printer p = {.o = options_now(), .t = here ? here : t};
    p.complex = tp_dtype_is_complex((tp_dtype)t->dtype);
    p.summarize = t->numel > p.o.threshold;
    put(&p.out, name ? name : "tensor");
    put(&p.out, "(");
    p.indent = (int64_t)p.out.n;
    if (contents) {
        put(&p.out, contents);
    } else if (t->numel == 0) {
        put(&p.out, "[]");
    } else {
        settle_format(&p);
        put_dims(&p, 0, p.t->data, p.indent);
    }
    if (!p.out.failed) put_suffixes(&p, t);
    if (before) uselocale(before);
    tp_release(here);
    if (p.out.failed) {
        tpi_mfree(p.out.v);
        return NULL;
    }
    *length = p.out.n;
    return p.out.v;
}

int64_t tp_format_as(const tp_tensor *t, const char *name, const char *contents, char *out, size_t room) {
    size_t n;
    char *s = text_of(t, name, contents, &n);
    if (!s) return -1;
    if (room) {
        size_t fits = n < room ? n : room - 1;
        memcpy(out, s, fits);
        out[fits] = 0;
    }
    tpi_mfree(s);
    return (int64_t)n;
}

int64_t tp_format(const tp_tensor *t, char *out, size_t room) { return tp_format_as(t, NULL, NULL, out, room); }

bool tp_fprint(FILE *file, const tp_tensor *t) {
    if (TPI_ENDED(t, "a tensor")) return false;
    if (!TPI_GIVEN(file, "a file")) return false;
    size_t n;
    char *s = text_of(t, NULL, NULL, &n);
    if (!s) return false;
    bool ok = fwrite(s, 1, n, file) == n && fputc('\n', file) != EOF;
    tpi_mfree(s);
    return ok || tpi_refuse(TP_ERR_IO, "argument 'file': could not write the text of a tensor to it");
}

bool tp_print(const tp_tensor *t) { return tp_fprint(stdout, t); }
