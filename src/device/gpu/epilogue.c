/* Epilogues on GPUs: which a kernel can run, and their text. A program's op_element() (fused.c) is called for elements
 * that are still in registers; its other operands are read, and its results written, as many at a time as the kernel
 * writes of its own result. Operands lie as the result does, or are one element. */
#include "device/gpu/epilogue.h"
#include <string.h>
#include "device/gpu/map.h"
#include "device/gpu/program.h"

TPI_THREAD_LOCAL tpi_epilogue *tpi_epilogue_offered;

static bool lies_like(const tp_tensor *t, const tp_tensor *like) {
    if (t->ndim != like->ndim) return false;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] != like->shape[d] || (t->shape[d] != 1 && t->strides[d] != like->strides[d])) return false;
    return true;
}

static bool is_single(const tpi_epilogue *e, int k) {
    return k >= e->program->nout && e->operands[k] && e->operands[k]->numel == 1 && e->like->numel != 1;
}

tpi_epilogue *tpi_gpu_epilogue_for(const tp_tensor *result, int vector) {
    tpi_epilogue *e = tpi_epilogue_offered;
    if (!e || e->taken || result->dtype != e->like->dtype || !lies_like(result, e->like)) return NULL;
    for (int k = 0; k < e->program->noperands; k++) {
        const tp_tensor *t = e->operands[k];
        if (!t || is_single(e, k)) continue;
        if (!lies_like(t, result) || (uintptr_t)t->data % (tpi_itemsize(t) * (size_t)vector)) return NULL;
    }
    return e;
}

uint64_t tpi_gpu_epilogue_form(const tpi_epilogue *e) {
    if (!e) return 0;
    uint64_t form = ((uint64_t)(uintptr_t)e->program->fused * 2 + e->keeps) * 64 + (uint64_t)e->fed;
    for (int k = 0; k < e->program->noperands; k++) form = form * 2 + is_single(e, k);
    return form * 0x9e3779b97f4a7c15u;
}

/* ---- The text ---- */

static const char *dtype_of(const tpi_epilogue *e, int k) {
    return tp_dtype_name(e->operands[k] ? e->operands[k]->dtype : e->like->dtype);
}

static bool put_pieces(tpi_text *t, const tpi_epilogue *e) {
    bool ok = tpi_text_put(t, "#include \"piece.h\"\n");
    for (int k = 0; k < e->program->noperands && ok; k++)
        if (e->operands[k])
            ok = tpi_text_put(t, "typedef struct ALIGNED(s_%s) epiece_%d { s_%s v[VEC]; } epiece_%d;\n", dtype_of(e, k),
                              k, dtype_of(e, k), k);
    return ok;
}

/* Every operand but the kernel's own result, as `before`, its number and `after`. */
static bool put_each(tpi_text *t, const tpi_epilogue *e, const char *before, const char *after) {
    bool ok = true;
    for (int k = 0; k < e->program->noperands && ok; k++)
        if (e->operands[k]) ok = tpi_text_put(t, "%s%d%s", before, k, after);
    return ok;
}

static bool put_reads(tpi_text *t, const tpi_epilogue *e) {
    bool ok = true;
    for (int k = 0; k < e->program->noperands && ok; k++) {
        if (!e->operands[k]) continue;
        if (k < e->program->nout)
            ok = tpi_text_put(t, "    epiece_%d g%d;\n", k, k);
        else if (is_single(e, k))
            ok = tpi_text_put(t, "    const s_%s g%d = *(GLOBAL const s_%s *)p%d;\n", dtype_of(e, k), k, dtype_of(e, k),
                              k);
        else
            ok = tpi_text_put(t,
                              "    const epiece_%d g%d = *(GLOBAL const epiece_%d *)((GLOBAL const s_%s *)p%d + at);\n",
                              k, k, k, dtype_of(e, k), k);
    }
    return ok;
}

static bool put_call(tpi_text *t, const tpi_epilogue *e) {
    bool ok = tpi_text_put(t, "    UNROLL\n    for (int j = 0; j < VEC; j++) op_element(");
    for (int k = e->program->nout; k < e->program->noperands && ok; k++) {
        const char *at = is_single(e, k) ? "" : ".v[j]";
        ok = e->operands[k] ? tpi_text_put(t, "get_%s(g%d%s), ", dtype_of(e, k), k, at)
                            : tpi_text_put(t, "get_%s(y[j]), ", dtype_of(e, k));
    }
    ok = ok && tpi_text_put(t, "param");
    for (int k = 0; k < e->program->nout && ok; k++) ok = tpi_text_put(t, ", &g%d.v[j]", k);
    return ok && tpi_text_put(t, ");\n");
}

bool tpi_gpu_put_epilogue_program(tpi_text *t, const tpi_epilogue *e) {
    if (!e) return true;
    int numbers = tpi_gpu_program_numbers(e->program);
    return tpi_text_put(t, "#include \"rounding.h\"\nPARAMS_TYPE(%d)\n%s", numbers ? numbers : 1,
                        tpi_gpu_fused_text(e->program->fused));
}

bool tpi_gpu_put_epilogue(tpi_text *t, const tpi_epilogue *e) {
    if (!e) return true;
    bool ok =
        tpi_text_put(t, "#define EPILOGUE 1\n#define EPILOGUE_KEEPS %d\n", e->keeps) && put_pieces(t, e) &&
        tpi_text_put(t, "#define EPILOGUE_ARGUMENTS ") && put_each(t, e, ", PTR(e", ")") &&
        tpi_text_put(t, ", const params_t epilogue_param\n#define EPILOGUE_WRITE(at, y) epilogue_write(") &&
        put_each(t, e, "AT(char, e", "), ") && tpi_text_put(t, "epilogue_param, at, y);\n") &&
        tpi_text_put(t, "INLINE void epilogue_write(") && put_each(t, e, "GLOBAL char *p", ", ") &&
        tpi_text_put(t, "const params_t param, const int64_t at, const s_%s *y) {\n", tp_dtype_name(e->like->dtype)) &&
        put_reads(t, e) && put_call(t, e);
    for (int k = 0; k < e->program->nout && ok; k++)
        ok = tpi_text_put(t, "    *(GLOBAL epiece_%d *)((GLOBAL s_%s *)p%d + at) = g%d;\n", k, dtype_of(e, k), k, k);
    return ok && tpi_text_put(t, "}\n");
}

int tpi_gpu_epilogue_args(const tpi_epilogue *e, tpi_gpu_arg *args, tpi_gpu_epilogue_params *params) {
    if (!e) return 0;
    int n = 0, numbers = tpi_gpu_program_numbers(e->program);
    for (int k = 0; k < e->program->noperands; k++)
        if (e->operands[k]) args[n++] = TPI_GPU_PTR(e->operands[k]->data);
    memset(params, 0, sizeof *params);
    tpi_gpu_fill_params(e->program, params->p);
    args[n++] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)((numbers ? numbers : 1) * (int)sizeof *params->p), params->p};
    return n;
}
