/* Graphs put together from the input: its bytes choose values, operators of the tables and their arguments, so that
 * nearly every input is a graph that loads. What loads is run. A crash in an operator is one that a crafted file
 * reaches. */
#include "fuzz.h"
#include "io/graph/file.h"
#include "io/checkpoint/saved.h"
#include "ops/kernels.h"
#include <stdio.h>

enum { MOST_VALUES = 12, MOST_STEPS = 4 };
static const unsigned kinds[] = {TPI_VALUE_INPUT, TPI_VALUE_OUTSIDE, TPI_VALUE_CONSTANT, TPI_VALUE_MADE,
                                 TPI_VALUE_MADE,  TPI_VALUE_VIEW,    TPI_VALUE_GRAD};

typedef struct bytes {
    const uint8_t *p;
    size_t left;
} bytes;

static unsigned read_below(bytes *b, unsigned below) {
    if (!b->left) return 0;
    unsigned v = b->p[0];
    b->p++;
    b->left--;
    if (below > 256 && b->left) {
        v = v << 8 | b->p[0];
        b->p++;
        b->left--;
    }
    return v % below;
}

static int64_t number(bytes *b) {
    static const int64_t odd[] = {
        INT64_MAX, INT64_MIN, -1, INT64_C(1) << 31, INT64_C(1) << 32, INT64_C(1) << 62, -(INT64_C(1) << 31),
        1 << 16,   100,       -2};
    unsigned kind = read_below(b, 8);
    return kind < 6    ? (int64_t)read_below(b, 6)
           : kind == 6 ? (int64_t)read_below(b, 256) - 128
                       : odd[read_below(b, sizeof odd / sizeof *odd)];
}

static void put_int(tp_file *f, tp_saved *into, int64_t v) { tp_put_number(f, into, NULL, tp_int(v)); }

static void put_numbers(bytes *b, tp_file *f, tp_saved *into, const char *key, unsigned most) {
    tp_saved *list = tp_put_list(f, into, key);
    for (unsigned n = read_below(b, most + 1); n > 0; n--) put_int(f, list, number(b));
}

static void put_scalar(bytes *b, tp_file *f, tp_saved *into) {
    switch (read_below(b, 4)) {
    case 0: tp_put_number(f, into, NULL, tp_float((double)number(b) * 0.5)); break;
    case 1: tp_put_number(f, into, NULL, tp_truth(read_below(b, 2))); break;
    case 2: tp_put_number(f, into, NULL, tp_cplx((double)number(b), 1)); break;
    default: put_int(f, into, number(b)); break;
    }
}

/* Small shapes; strides are contiguous, but of a view any. */
static void put_value(bytes *b, tp_file *f, tp_saved *values, unsigned kind, unsigned of) {
    int64_t shape[4], step = 1;
    unsigned ndim = read_below(b, 5), dtype = read_below(b, 3) ? TP_FLOAT32 : 1 + read_below(b, TP_DTYPE_COUNT - 1);
    for (unsigned d = 0; d < ndim; d++) shape[d] = read_below(b, 5);
    tp_saved *v = tp_put_list(f, values, NULL), *facts = tp_put_list(f, v, NULL);
    put_int(f, facts, kind);
    put_int(f, facts, dtype);
    put_int(f, facts, of);
    put_int(f, facts, kind == TPI_VALUE_VIEW ? 4 * (int64_t)read_below(b, 4) : 0);
    put_int(f, facts, 0);
    tp_saved *sizes = tp_put_list(f, v, NULL), *strides = tp_put_list(f, v, NULL);
    int64_t contiguous[4];
    for (unsigned d = ndim; d-- > 0; step *= shape[d] > 1 ? shape[d] : 1) contiguous[d] = step;
    for (unsigned d = 0; d < ndim; d++) {
        put_int(f, sizes, shape[d]);
        put_int(f, strides, kind == TPI_VALUE_VIEW && read_below(b, 2) ? read_below(b, 4) : contiguous[d]);
    }
    if (kind != TPI_VALUE_OUTSIDE && kind != TPI_VALUE_CONSTANT) return;
    tp_tensor *t = tp_ones(tp_ints_view(shape, ndim), .dtype = (tp_dtype)dtype);
    if (t) tp_put_tensor(f, v, NULL, t);
}

/* An argument of the type that the table says, now and then of another; `in` gets the tensors' numbers. */
static void put_argument(bytes *b, tp_file *f, tp_saved *args, tp_saved *in, const char *type, unsigned nvalues) {
    tp_saved *arg = tp_put_list(f, args, NULL);
    bool odd = read_below(b, 32) == 0, list = strstr(type, "[]") != NULL,
         none = strchr(type, '?') && read_below(b, 3) == 0;
    if (odd) type = "int[]";
    if (none) {
        put_int(f, arg, TP_K_NONE);
    } else if (strstr(type, "Tensor") && list) {
        unsigned n = read_below(b, 4);
        put_int(f, arg, TP_K_TENSORS);
        put_int(f, arg, n);
        for (; n > 0; n--) put_int(f, in, (int64_t)read_below(b, nvalues + 1) - (read_below(b, 8) == 0));
    } else if (strstr(type, "Tensor") || (strstr(type, "Operand") && read_below(b, 3))) {
        put_int(f, arg, TP_K_TENSOR);
        put_int(f, in, read_below(b, 16) ? (int64_t)read_below(b, nvalues) : -1);
    } else if (strstr(type, "int") && list) {
        put_int(f, arg, TP_K_INTS);
        put_numbers(b, f, arg, NULL, 5);
    } else if (strstr(type, "float") && list) {
        put_int(f, arg, TP_K_FLOATS);
        tp_saved *floats = tp_put_list(f, arg, NULL);
        for (unsigned n = read_below(b, 4); n > 0; n--) tp_put_number(f, floats, NULL, tp_float((double)number(b)));
    } else if (strstr(type, "str")) {
        static const char *const words[] = {"mean", "sum",  "none",    "nearest", "bilinear", "reflect", "ij",
                                            "A",    "amax", "reduced", "zeros",   "i,j->ij",  ""};
        put_int(f, arg, TP_K_STRING);
        tp_put_text(f, arg, NULL, words[read_below(b, sizeof words / sizeof *words)]);
    } else if (strstr(type, "dtype")) {
        put_int(f, arg, TP_K_DTYPE);
        put_int(f, arg, 1 + read_below(b, TP_DTYPE_COUNT - 1));
    } else if (strstr(type, "device")) {
        put_int(f, arg, TP_K_DEVICE);
    } else if (strstr(type, "layout")) {
        put_int(f, arg, TP_K_LAYOUT);
        put_int(f, arg, read_below(b, 17));
    } else if (strstr(type, "Scalar") && list) {
        put_int(f, arg, TP_K_SCALARS);
        tp_saved *scalars = tp_put_list(f, arg, NULL);
        for (unsigned n = read_below(b, 4); n > 0; n--) put_scalar(b, f, scalars);
    } else if (strstr(type, "int") || strstr(type, "bool")) {
        put_int(f, arg, TP_K_SCALAR);
        put_int(f, arg, number(b));
    } else {
        put_int(f, arg, TP_K_SCALAR);
        put_scalar(b, f, arg);
    }
}

static void put_call(bytes *b, tp_file *f, tp_saved *step, tp_saved *in, unsigned nvalues, tp_saved *out) {
    const tp_operator *op = tp_operator_at(read_below(b, (unsigned)tp_operator_count()));
    tp_put_text(f, step, "kind", "call");
    tp_put_text(f, step, "op", op->name);
    tp_saved *args = tp_put_list(f, step, "args");
    for (int64_t i = 0; i < op->nargs; i++) put_argument(b, f, args, in, op->args[i].type, nvalues);
    for (int64_t i = 0; i < op->nresults; i++) put_int(f, out, read_below(b, nvalues));
}

static unsigned count(const void *const *table) {
    unsigned n = 0;
    while (table[n]) n++;
    return n;
}

static void put_kernel(bytes *b, tp_file *f, tp_saved *step, tp_saved *in, unsigned nvalues, tp_saved *out) {
    static const char *const words[] = {"map", "fold", "scan", "copy", "fill"};
    unsigned kind = read_below(b, 5);
    const tpi_map_op *map = tpi_maps[read_below(b, count((const void *const *)tpi_maps))];
    const tpi_fold_op *fold = tpi_folds[read_below(b, count((const void *const *)tpi_folds))];
    const tpi_scan_op *scan = tpi_scans[read_below(b, count((const void *const *)tpi_scans))];
    const char *const names[] = {map->name, fold->name, scan->name, "", ""};
    const int ins[] = {map->nin, 1, 1, 1, 0}, outs[] = {1, fold->nout, scan->nout, 1, 1},
              params[] = {map->nparam, fold->nparam, scan->nparam, 0, 0};
    tp_put_text(f, step, "kind", words[kind]);
    tp_put_text(f, step, "op", names[kind]);
    tp_saved *numbers = kind == 0 || kind == 4 ? tp_put_list(f, step, "numbers") : NULL,
             *given = kind < 3 ? tp_put_list(f, step, "params") : NULL;
    for (int i = 0; i < ins[kind]; i++) put_int(f, in, kind || read_below(b, 4) ? (int64_t)read_below(b, nvalues) : -1);
    for (int i = 0; numbers && i < (kind ? 1 : map->nin); i++) put_scalar(b, f, numbers);
    for (int i = 0; i < params[kind]; i++) put_scalar(b, f, given);
    for (int i = 0; i < outs[kind]; i++) put_int(f, out, read_below(b, nvalues));
    if (kind != 1 && kind != 2) return;
    if (kind == 2 || read_below(b, 2)) {
        tp_saved *dims = tp_put_list(f, step, "dims");
        for (unsigned n = kind == 2 ? 1 : read_below(b, 4); n > 0; n--)
            put_int(f, dims, read_below(b, 8) ? (int64_t)read_below(b, 4) - 1 : number(b));
    }
    tp_put_number(f, step, "keepdim", tp_int(read_below(b, 2)));
    tp_put_number(f, step, "dtype", tp_int(read_below(b, TP_DTYPE_COUNT)));
}

static tp_file *make_document(bytes *b, unsigned *ninputs) {
    tp_file *f = tp_new_file();
    tp_put_text(f, NULL, "format", "taper.graph 1");
    tp_saved *inputs = tp_put_list(f, NULL, "inputs"), *outputs = tp_put_list(f, NULL, "outputs"),
             *values = tp_put_list(f, NULL, "values"), *steps = tp_put_list(f, NULL, "steps");
    unsigned n = 2 + read_below(b, MOST_VALUES - 1);
    *ninputs = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned kind = i == 0 ? TPI_VALUE_INPUT : kinds[read_below(b, sizeof kinds / sizeof *kinds)];
        put_value(b, f, values, kind,
                  kind == TPI_VALUE_VIEW    ? read_below(b, i)
                  : kind == TPI_VALUE_INPUT ? *ninputs
                                            : 0);
        if (kind == TPI_VALUE_INPUT) {
            put_int(f, inputs, i);
            ++*ninputs;
        }
    }
    for (unsigned k = 1 + read_below(b, MOST_STEPS); k > 0; k--) {
        tp_saved *step = tp_put_dict(f, steps, NULL), *in = tp_put_list(f, step, "in"),
                 *out = tp_put_list(f, step, "out");
        tp_put_number(f, step, "inplace", tp_int(read_below(b, 8) == 0));
        if (read_below(b, 3))
            put_call(b, f, step, in, n, out);
        else
            put_kernel(b, f, step, in, n, out);
    }
    put_int(f, outputs, read_below(b, n));
    return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_begin();
    TP_SCOPE {
        bytes b = {data, n};
        unsigned ninputs;
        tp_file *f = make_document(&b, &ninputs);
        tp_compiled *g = tpi_graph_read(tp_file_value(f), NULL);
        tp_tensor *inputs[MOST_VALUES + 2], *output = NULL;
        bool ok = g != NULL;
        for (unsigned i = 0; ok && i < ninputs; i++) {
            tp_dtype dtype;
            tp_ints shape;
            ok = tp_compiled_input(g, i, &dtype, &shape) && (inputs[i] = tp_ones(shape, .dtype = dtype));
        }
        if (ok && tp_compiled_run(g, (tp_tensors){inputs, ninputs}, &output)) fuzz_touch(output);
        tp_compiled_release(g);
        tp_close_file(f);
    }
    return 0;
}
