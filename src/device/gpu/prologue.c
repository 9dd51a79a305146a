/* Prologues on GPUs (device/epilogue.h): as epilogue.c, before an argument. The program's text has the same names as an
 * epilogue's, which may stand in the same kernel: its words that begin with op_ begin with pre_op_ here. */
#include <ctype.h>
#include <string.h>
#include "device/gpu/epilogue.h"
#include "device/gpu/map.h"
#include "device/gpu/program.h"

TPI_THREAD_LOCAL tpi_prologue *tpi_prologue_offered;

static bool lies_like(const tp_tensor *t, const tp_tensor *like) {
    if (t->ndim != like->ndim) return false;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] != like->shape[d] || (t->shape[d] != 1 && t->strides[d] != like->strides[d])) return false;
    return true;
}

static bool is_single(const tpi_prologue *p, int k) {
    return k >= p->program->nout && p->operands[k]->numel == 1 && p->operands[p->fed]->numel != 1;
}

tpi_prologue *tpi_gpu_prologue_for(const tp_tensor *argument, int vector) {
    tpi_prologue *p = tpi_prologue_offered;
    if (!p || p->taken || p->operands[p->fed]->data != argument->data || p->operands[p->fed]->dtype != argument->dtype)
        return NULL;
    for (int k = 0; k < p->program->noperands; k++) {
        const tp_tensor *t = p->operands[k];
        if (is_single(p, k)) continue;
        if (!lies_like(t, argument) || (uintptr_t)t->data % (tpi_itemsize(t) * (size_t)vector)) return NULL;
    }
    return p;
}

uint64_t tpi_gpu_prologue_form(const tpi_prologue *p) {
    if (!p) return 0;
    uint64_t form = ((uint64_t)(uintptr_t)p->program->fused * 2 + p->keeps) * 64 + (uint64_t)p->fed;
    for (int k = 0; k < p->program->noperands; k++) form = form * 2 + is_single(p, k);
    return (form ^ 0x5851f42d4c957f2du) * 0xbf58476d1ce4e5b9u;
}

/* ---- The text ---- */

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool put_renamed(tpi_text *t, const char *source) {
    static const char *const words[] = {"op_", "params_t"};
    bool ok = true;
    for (const char *from = source, *at = source; ok && *from; from = at) {
        size_t hit = 0;
        while (*at && !hit) {
            at++;
            for (int w = 0; w < 2 && !in_word(at[-1]); w++)
                if (!strncmp(at, words[w], strlen(words[w]))) hit = 1;
        }
        ok = tpi_text_put(t, "%.*s%s", (int)(at - from), from, hit ? "pre_" : "");
    }
    return ok;
}

bool tpi_gpu_put_program_before(tpi_text *t, const tpi_program *p) {
    int numbers = tpi_gpu_program_numbers(p);
    return tpi_text_put(t, "#include \"rounding.h\"\n#define params_t pre_params_t\nPARAMS_TYPE(%d)\n#undef params_t\n",
                        numbers ? numbers : 1) &&
           put_renamed(t, tpi_gpu_fused_text(p->fused));
}

bool tpi_gpu_put_prologue_program(tpi_text *t, const tpi_prologue *p) {
    return !p || tpi_gpu_put_program_before(t, p->program);
}

static const char *dtype_of(const tpi_prologue *p, int k) { return tp_dtype_name((tp_dtype)p->operands[k]->dtype); }

static bool put_pieces(tpi_text *t, const tpi_prologue *p) {
    bool ok = tpi_text_put(t, "#include \"piece.h\"\n");
    for (int k = 0; k < p->program->noperands && ok; k++)
        ok = tpi_text_put(t, "typedef struct ALIGNED(s_%s) ppiece_%d { s_%s v[VEC]; } ppiece_%d;\n", dtype_of(p, k), k,
                          dtype_of(p, k), k);
    return ok;
}

static bool put_each(tpi_text *t, const tpi_prologue *p, const char *before, const char *after) {
    bool ok = true;
    for (int k = 0; k < p->program->noperands && ok; k++) ok = tpi_text_put(t, "%s%d%s", before, k, after);
    return ok;
}

static bool put_reads(tpi_text *t, const tpi_prologue *p) {
    bool ok = true;
    for (int k = 0; k < p->program->noperands && ok; k++) {
        const char *dtype = dtype_of(p, k);
        if (k < p->program->nout)
            ok = tpi_text_put(t, "    ppiece_%d g%d;\n", k, k);
        else if (is_single(p, k))
            ok = tpi_text_put(t, "    const s_%s g%d = *(GLOBAL const s_%s *)p%d;\n", dtype, k, dtype, k);
        else
            ok = tpi_text_put(t,
                              "    const ppiece_%d g%d = *(GLOBAL const ppiece_%d *)((GLOBAL const s_%s *)p%d + at);\n",
                              k, k, k, dtype, k);
    }
    return ok;
}

static bool put_call(tpi_text *t, const tpi_prologue *p) {
    bool ok = tpi_text_put(t, "    UNROLL\n    for (int j = 0; j < VEC; j++) pre_op_element(");
    for (int k = p->program->nout; k < p->program->noperands && ok; k++)
        ok = tpi_text_put(t, "get_%s(g%d%s), ", dtype_of(p, k), k, is_single(p, k) ? "" : ".v[j]");
    ok = ok && tpi_text_put(t, "param");
    for (int k = 0; k < p->program->nout && ok; k++) ok = tpi_text_put(t, ", &g%d.v[j]", k);
    return ok && tpi_text_put(t, ");\n");
}

bool tpi_gpu_put_prologue(tpi_text *t, const tpi_prologue *p) {
    if (!p) return true;
    bool ok = tpi_text_put(t, "#define PROLOGUE 1\n#define PROLOGUE_PIECE ppiece_%d\n", p->fed) && put_pieces(t, p) &&
              tpi_text_put(t, "#define PROLOGUE_ARGUMENTS ") && put_each(t, p, ", PTR(q", ")") &&
              tpi_text_put(t, ", const pre_params_t prologue_param\n#define PROLOGUE_READ(at) prologue_read(") &&
              put_each(t, p, "AT(char, q", "), ") && tpi_text_put(t, "prologue_param, at)\n") &&
              tpi_text_put(t, "INLINE ppiece_%d prologue_read(", p->fed) && put_each(t, p, "GLOBAL char *p", ", ") &&
              tpi_text_put(t, "const pre_params_t param, const int64_t at) {\n") && put_reads(t, p) && put_call(t, p);
    for (int k = 0; k < p->program->nout && ok; k++)
        if (k != p->fed || p->keeps)
            ok =
                tpi_text_put(t, "    *(GLOBAL ppiece_%d *)((GLOBAL s_%s *)p%d + at) = g%d;\n", k, dtype_of(p, k), k, k);
    return ok && tpi_text_put(t, "    return g%d;\n}\n", p->fed);
}

int tpi_gpu_prologue_args(const tpi_prologue *p, tpi_gpu_arg *args, tpi_gpu_epilogue_params *params) {
    if (!p) return 0;
    int n = 0, numbers = tpi_gpu_program_numbers(p->program);
    for (int k = 0; k < p->program->noperands; k++) args[n++] = TPI_GPU_PTR(p->operands[k]->data);
    memset(params, 0, sizeof *params);
    tpi_gpu_fill_params(p->program, params->p);
    args[n++] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)((numbers ? numbers : 1) * (int)sizeof *params->p), params->p};
    return n;
}
