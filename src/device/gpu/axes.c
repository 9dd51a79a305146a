/* Geometry, cuts and text of reductions and scans; see axes.h. */
#include "device/gpu/axes.h"
#include <stdio.h>
#include "base/threads.h"
#include "device/gpu/map.h"
#include "device/gpu/program.h"
#include "device/launch.h"

enum { BLOCKS_PER_UNIT = 16 }; /* that keep a multiprocessor busy, with some to spare for an even end */

/* ---- The text ---- */
static uint64_t word_of(const tpi_gpu_axes_form *f) {
    uint64_t word = f->kernel | (uint64_t)f->compute << 3 | (uint64_t)f->x << 6 | (uint64_t)f->vec << 11 |
                    (uint64_t)f->kdims << 16 | (uint64_t)f->rdims << 20 | (uint64_t)f->wide << 24 |
                    (uint64_t)f->split << 25 | (uint64_t)f->sharing << 26 | (uint64_t)(f->block / 16) << 27;
    for (int k = 0; k < f->nout; k++) word |= (uint64_t)f->out[k] << (36 + 5 * k);
    return f->feed ? word ^ tpi_gpu_fold_prologue_form(f->feed) : word;
}

static bool put_each(tpi_text *t, const char *name, int n, const char *between, const char *before, const char *after) {
    bool ok = tpi_text_put(t, "#define %s ", name);
    for (int k = 0; k < n && ok; k++) ok = tpi_text_put(t, "%s%s%d%s", k ? between : "", before, k, after);
    return ok && tpi_text_put(t, "\n");
}

static bool put_results(tpi_text *t, const tpi_gpu_axes_form *f) {
    bool ok = put_each(t, "EACH_OUT(X)", f->nout, " ", "X(", ")") &&
              put_each(t, "OUT_ARGUMENTS", f->nout, ", ", "PTR(out", ")") &&
              put_each(t, "OUT_POINTERS", f->nout, ", ", "GLOBAL char *out", "") &&
              put_each(t, "OUT_VALUES", f->nout, ", ", "AT(char, out", ")") &&
              put_each(t, "OUT_RESULTS", f->nout, ", ", "&r", "");
    for (int k = 0; k < f->nout && ok; k++) {
        tp_dtype stored = (tp_dtype)f->out[k];
        int kind = f->out_type[k] == TPI_RESULT_TRUTH ? TPI_RESULT_BOOL : f->out_type[k];
        tpi_ctype given = tpi_gpu_ctype(tpi_result_dtype(kind, tpi_ctype_dtype((tpi_ctype)f->compute)));
        ok = tpi_text_put(t, "typedef s_%s so%d_t;\n#define WRITE%d(v) set_%s(to_%s_%s(v))\n", tp_dtype_name(stored), k,
                          k, tp_dtype_name(stored), tpi_gpu_cast_suffix(stored), tpi_gpu_ctype_suffix(given));
    }
    return ok;
}

/* The name that profilers show: the operator's, behind those of the program that feeds it. */
static bool put_entry(tpi_text *t, const tpi_gpu_axes_form *f) {
    char name[128];
    const char *before = f->feed ? tpi_gpu_fused_name(f->feed->feed->program->fused) : "";
    snprintf(name, sizeof name, "%s%s%s", before, *before ? "_" : "", f->name);
    return tpi_gpu_put_entry(t, f->define, name);
}

bool tpi_gpu_axes_source(tpi_text *t, const void *form) {
    const tpi_gpu_axes_form *f = form;
    const char *x = tp_dtype_name((tp_dtype)f->x), *own = tpi_gpu_cast_suffix((tp_dtype)f->x);
    bool ok = tpi_text_put(t, "#include \"rounding.h\"\n") && tpi_gpu_put_dtype(t, (tp_dtype)f->x);
    ok = ok && (!f->name || put_entry(t, f));
    for (int k = 0; k < f->nout && ok; k++) ok = tpi_gpu_put_dtype(t, (tp_dtype)f->out[k]);
    return ok && tpi_text_put(t, "PARAMS_TYPE(%d)\n%s#define %s\n", f->nparam ? f->nparam : 1, f->source, f->define) &&
           tpi_text_put(t, "#define KDIMS %d\n#define RDIMS %d\n#define NOUT %d\n#define VEC %d\n", f->kdims, f->rdims,
                        f->nout, f->vec) &&
           tpi_text_put(t, "#define BLOCK_SIZE %d\n#define SPLIT %d\n#define SHARING %d\n", f->block, f->split,
                        f->sharing) &&
           tpi_text_put(t, "typedef %s index_t;\ntypedef s_%s sx_t;\n#define READ(s) to_%s_%s(get_%s(s))\n",
                        f->wide ? "int64_t" : "uint32_t", x, tpi_gpu_ctype_suffix((tpi_ctype)f->compute), own, x) &&
           put_results(t, f) &&
           (!f->feed || (tpi_text_put(t, "#include \"axes.h\"\n") && tpi_gpu_put_fold_prologue(t, f->feed))) &&
           tpi_text_put(t, "#include \"%s\"\n", f->text);
}

const char *tpi_gpu_axes_functions(const char *const *sources, const char *name, tpi_ctype compute) {
    if (sources && sources[compute]) return sources[compute];
    tpi_fail(TP_ERR_MISSING, "%s has no kernel for %s on this device", name, tp_dtype_name(tpi_ctype_dtype(compute)));
    return NULL;
}

/* ---- Geometry ---- */
bool tpi_gpu_axes_begin(tpi_gpu_axes_call *c, tpi_ctype compute, int nout, const uint8_t *out_type, int nparam,
                        const char *source) {
    tpi_gpu_axes_form *f = &c->form;
    *f = (tpi_gpu_axes_form){.compute = (uint8_t)compute,
                             .x = c->x->dtype,
                             .nout = (uint8_t)nout,
                             .nparam = (uint8_t)nparam,
                             .name = c->name,
                             .source = source,
                             .wide = c->x->numel >= INT32_MAX || c->reduced.total >= INT32_MAX};
    f->kdims = c->kept.ndim ? (uint8_t)c->kept.ndim : 1;
    f->rdims = c->reduced.ndim ? (uint8_t)c->reduced.ndim : 1;
    for (int k = 0; k < nout; k++) {
        f->out[k] = c->outs[k]->dtype;
        f->out_type[k] = out_type[k];
    }
    c->piece = c->reduced.total;
    c->pieces = 1;
    if (!(c->caps = tpi_gpu_caps_of(c->device))) return false;
    f->sharing = tpi_gpu_sharing(c->caps);
    f->block = (uint16_t)tpi_gpu_block_size(c->caps);
    return true;
}

void tpi_gpu_axes_cut(tpi_gpu_axes_call *c, int64_t blocks, int64_t step) {
    int64_t total = c->reduced.total, wanted = (int64_t)c->caps->units * BLOCKS_PER_UNIT;
    if (blocks * 2 > wanted || total < 4 * step) return;
    int64_t pieces = wanted / blocks < total / (2 * step) ? wanted / blocks : total / (2 * step);
    c->piece = tpi_ceil_div(tpi_ceil_div(total, pieces), step) * step;
    c->pieces = tpi_ceil_div(total, c->piece);
}

bool tpi_gpu_axes_states(tpi_gpu_axes_call *c, int64_t states) {
    c->states_bytes = (size_t)(states * c->nstate) * sizeof(tpi_c128); /* no variable of a state is larger */
    return (c->states = tpi_gpu_alloc(c->device, c->states_bytes)) != NULL;
}

void tpi_gpu_axes_end(tpi_gpu_axes_call *c) {
    if (c->states) tpi_gpu_free(c->device, c->states, c->states_bytes);
}

/* ---- The launch ---- */

/* Dims beyond those there are have one element. */
static int64_t *put_axis(int64_t *at, const int64_t *from, int have, int want, int64_t otherwise) {
    for (int d = 0; d < want; d++) *at++ = d < have ? from[d] : otherwise;
    return at;
}

enum { AXES_WORDS = 5 + (2 + TPI_AXES_OUTS) * TPI_GPU_DIMS + 2 * TPI_GPU_DIMS + TPI_AXES_OUTS };
static uint32_t pack(const tpi_gpu_axes_call *c, int64_t *words) { /* axes_t of kernels/axes.h */
    const tpi_gpu_axes_form *f = &c->form;
    const tpi_axes *kept = &c->kept, *reduced = &c->reduced;
    int64_t *at = words;
    *at++ = kept->total;
    *at++ = reduced->total;
    *at++ = c->piece;
    *at++ = c->pieces;
    *at++ = c->group;
    at = put_axis(at, kept->size, kept->ndim, f->kdims, 1);
    at = put_axis(at, kept->x, kept->ndim, f->kdims, 0);
    for (int k = 0; k < f->nout; k++) at = put_axis(at, kept->out[k], kept->ndim, f->kdims, 0);
    at = put_axis(at, reduced->size, reduced->ndim, f->rdims, 1);
    at = put_axis(at, reduced->x, reduced->ndim, f->rdims, 0);
    for (int k = 0; k < f->nout; k++) *at++ = c->rout[k];
    return (uint32_t)((char *)at - (char *)words);
}

bool tpi_gpu_axes_launch(tpi_gpu_axes_call *c, bool uses_x, bool uses_outs, int64_t blocks, int64_t down) {
    int64_t words[AXES_WORDS];
    uint32_t bytes = pack(c, words);
    tpi_param none[1] = {{0}};
    tpi_gpu_arg args[3 + TPI_GPU_FOLD_PROLOGUE_ARGS + TPI_AXES_OUTS];
    int n = 0, nparam = c->form.nparam;
    c->form.feed = uses_x ? c->feed : NULL;
    if (c->form.feed) {
        tpi_gpu_fold_prologue_settle(c->feed, c->form.vec, c->form.wide);
        n = tpi_gpu_fold_prologue_args(c->feed, args);
    } else if (uses_x)
        args[n++] = TPI_GPU_PTR(c->x->data);
    for (int k = 0; k < c->form.nout && uses_outs; k++) args[n++] = TPI_GPU_PTR(c->outs[k]->data);
    args[n++] = TPI_GPU_PTR(c->states);
    args[n++] = (tpi_gpu_arg){TPI_GPU_VALUE, bytes, words};
    args[n++] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)((size_t)(nparam ? nparam : 1) * sizeof(tpi_param)),
                              nparam ? c->params : none};
    tpi_gpu_function *kernel = tpi_gpu_kernel(c->device, c->op, word_of(&c->form), tpi_gpu_axes_source, &c->form);
    return kernel && tpi_gpu_launch3(c->device, kernel, (unsigned[]){(unsigned)blocks, (unsigned)down, 1},
                                     (unsigned[]){c->form.block, 1, 1}, 0, n, args);
}

/* ---- Sizes ---- */
int tpi_gpu_vector(const tp_tensor *x, const tpi_axes *along, const tpi_axes *other, bool whole_runs) {
    int64_t item = (int64_t)tpi_itemsize(x), fit = 16 / item;
    if (along->ndim == 0 || along->x[0] != item || fit < 2 || (uintptr_t)x->data % 16 ||
        (whole_runs && along->size[0] % fit))
        return 1;
    for (int d = 1; d < along->ndim; d++)
        if (along->x[d] % 16) return 1;
    for (int d = 0; d < other->ndim; d++)
        if (other->x[d] % 16) return 1;
    return (int)fit;
}

bool tpi_gpu_sharing_there;
bool tpi_gpu_sharing(const tpi_gpu_caps *caps) { return !caps->host_memory || tpi_gpu_sharing_there; }

int tpi_gpu_block_size(const tpi_gpu_caps *caps) {
    int wanted = !caps->host_memory ? 256 : tpi_gpu_sharing_there ? 32 : 16;
    while (wanted > caps->max_threads && wanted > 32) wanted /= 2;
    return wanted;
}

int tpi_gpu_exponent(int64_t n) {
    int e = 0;
    while (((int64_t)1 << e) < n) e++;
    return e;
}
