/* Epilogues and prologues on GPUs (device/epilogue.h): which a kernel can run, and their text. A program's op_element()
 * (block_program.c) is called for elements that are still in registers; its other operands are read, and its results
 * written, as many at a time as the kernel moves of its own. Operands lie as the kernel's tensor does, or are one
 * element.
 *
 * Both may stand in one kernel. So a prologue's words that begin with op_ begin with pre_op_, its pieces are ppiece_N
 * and its arguments qN, where an epilogue has epiece_N and eN. */
#include "device/gpu/epilogue.h"
#include <ctype.h>
#include <string.h>
#include "device/gpu/map.h"
#include "device/gpu/program.h"

static bool lies_like(const tp_tensor *t, const tp_tensor *like) {
    if (t->ndim != like->ndim) return false;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] != like->shape[d] || (t->shape[d] != 1 && t->strides[d] != like->strides[d])) return false;
    return true;
}

static bool is_single(const tpi_neighbour *b, int k) {
    return k >= b->program->nout && b->operands[k] && b->operands[k]->numel == 1 && b->like->numel != 1;
}

/* Can a kernel run it that moves `vector` elements of `t` at a time? */
static tpi_neighbour *if_fits(tpi_neighbour *b, const tp_tensor *t, int vector) {
    if (b->taken || t->dtype != b->like->dtype || !lies_like(t, b->like)) return NULL;
    for (int k = 0; k < b->program->noperands; k++) {
        const tp_tensor *operand = b->operands[k];
        if (!operand || is_single(b, k)) continue;
        if (!lies_like(operand, t) || (uintptr_t)operand->data % (tpi_itemsize(operand) * (size_t)vector)) return NULL;
    }
    return b;
}

tpi_neighbour *tpi_gpu_epilogue_for(const tpi_neighbours *neighbours, const tp_tensor *result, int vector) {
    return neighbours && neighbours->epilogue ? if_fits(neighbours->epilogue, result, vector) : NULL;
}

tpi_neighbour *tpi_gpu_prologue_for(const tpi_neighbours *neighbours, const tp_tensor *argument, int vector) {
    tpi_neighbour *b = neighbours ? neighbours->prologue : NULL;
    return b && b->like->data == argument->data ? if_fits(b, argument, vector) : NULL;
}

uint64_t tpi_gpu_neighbour_form(const tpi_neighbour *b) {
    if (!b) return 0;
    uint64_t form = ((uint64_t)(uintptr_t)b->program->fused * 2 + b->keeps) * 64 + (uint64_t)b->fed;
    for (int k = 0; k < b->program->noperands; k++) form = form * 2 + is_single(b, k);
    return b->before ? (form ^ 0x5851f42d4c957f2du) * 0xbf58476d1ce4e5b9u : form * 0x9e3779b97f4a7c15u;
}

/* ---- The text of the program ---- */

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

bool tpi_gpu_put_neighbour_program(tpi_text *t, const tpi_neighbour *b) {
    if (!b) return true;
    if (b->before) return tpi_gpu_put_program_before(t, b->program);
    int numbers = tpi_gpu_program_numbers(b->program);
    return tpi_text_put(t, "#include \"rounding.h\"\nPARAMS_TYPE(%d)\n%s", numbers ? numbers : 1,
                        tpi_gpu_fused_text(b->program->fused));
}

/* ---- The text of what calls it ---- */

static char letter(const tpi_neighbour *b) { return b->before ? 'p' : 'e'; } /* of its pieces */

static const char *dtype_of(const tpi_neighbour *b, int k) {
    return tp_dtype_name((tp_dtype)(b->operands[k] ? b->operands[k]->dtype : b->like->dtype));
}

static bool put_pieces(tpi_text *t, const tpi_neighbour *b) {
    bool ok = tpi_text_put(t, "#include \"piece.h\"\n");
    for (int k = 0; k < b->program->noperands && ok; k++)
        if (b->operands[k])
            ok = tpi_text_put(t, "typedef struct ALIGNED(s_%s) %cpiece_%d { s_%s v[VEC]; } %cpiece_%d;\n",
                              dtype_of(b, k), letter(b), k, dtype_of(b, k), letter(b), k);
    return ok;
}

/* Every operand but an epilogue's shared one, as `before`, its number and `after`. */
static bool put_each(tpi_text *t, const tpi_neighbour *b, const char *before, const char *after) {
    bool ok = true;
    for (int k = 0; k < b->program->noperands && ok; k++)
        if (b->operands[k]) ok = tpi_text_put(t, "%s%d%s", before, k, after);
    return ok;
}

static bool put_reads(tpi_text *t, const tpi_neighbour *b) {
    bool ok = true;
    for (int k = 0; k < b->program->noperands && ok; k++) {
        const char *dtype = dtype_of(b, k);
        char c = letter(b);
        if (!b->operands[k]) continue;
        if (k < b->program->nout)
            ok = tpi_text_put(t, "    %cpiece_%d g%d;\n", c, k, k);
        else if (is_single(b, k))
            ok = tpi_text_put(t, "    const s_%s g%d = *(GLOBAL const s_%s *)p%d;\n", dtype, k, dtype, k);
        else
            ok = tpi_text_put(
                t, "    const %cpiece_%d g%d = *(GLOBAL const %cpiece_%d *)((GLOBAL const s_%s *)p%d + at);\n", c, k, k,
                c, k, dtype, k);
    }
    return ok;
}

static bool put_call(tpi_text *t, const tpi_neighbour *b) {
    bool ok = tpi_text_put(t, "    UNROLL\n    for (int j = 0; j < VEC; j++) %sop_element(", b->before ? "pre_" : "");
    for (int k = b->program->nout; k < b->program->noperands && ok; k++) {
        const char *at = is_single(b, k) ? "" : ".v[j]";
        ok = b->operands[k] ? tpi_text_put(t, "get_%s(g%d%s), ", dtype_of(b, k), k, at)
                            : tpi_text_put(t, "get_%s(y[j]), ", dtype_of(b, k));
    }
    ok = ok && tpi_text_put(t, "param");
    for (int k = 0; k < b->program->nout && ok; k++) ok = tpi_text_put(t, ", &g%d.v[j]", k);
    return ok && tpi_text_put(t, ");\n");
}

/* The program's results: of a prologue, the argument only if somebody else reads it. */
static bool put_writes(tpi_text *t, const tpi_neighbour *b) {
    bool ok = true;
    for (int k = 0; k < b->program->nout && ok; k++)
        if (!b->before || k != b->fed || b->keeps)
            ok = tpi_text_put(t, "    *(GLOBAL %cpiece_%d *)((GLOBAL s_%s *)p%d + at) = g%d;\n", letter(b), k,
                              dtype_of(b, k), k, k);
    return ok;
}

static bool put_prologue(tpi_text *t, const tpi_neighbour *b) {
    return tpi_text_put(t, "#define PROLOGUE 1\n#define PROLOGUE_PIECE ppiece_%d\n", b->fed) && put_pieces(t, b) &&
           tpi_text_put(t, "#define PROLOGUE_ARGUMENTS ") && put_each(t, b, ", PTR(q", ")") &&
           tpi_text_put(t, ", const pre_params_t prologue_param\n#define PROLOGUE_READ(at) prologue_read(") &&
           put_each(t, b, "AT(char, q", "), ") && tpi_text_put(t, "prologue_param, at)\n") &&
           tpi_text_put(t, "INLINE ppiece_%d prologue_read(", b->fed) && put_each(t, b, "GLOBAL char *p", ", ") &&
           tpi_text_put(t, "const pre_params_t param, const int64_t at) {\n") && put_reads(t, b) && put_call(t, b) &&
           put_writes(t, b) && tpi_text_put(t, "    return g%d;\n}\n", b->fed);
}

static bool put_epilogue(tpi_text *t, const tpi_neighbour *b) {
    return tpi_text_put(t, "#define EPILOGUE 1\n#define EPILOGUE_KEEPS %d\n", b->keeps) && put_pieces(t, b) &&
           tpi_text_put(t, "#define EPILOGUE_ARGUMENTS ") && put_each(t, b, ", PTR(e", ")") &&
           tpi_text_put(t, ", const params_t epilogue_param\n#define EPILOGUE_WRITE(at, y) epilogue_write(") &&
           put_each(t, b, "AT(char, e", "), ") && tpi_text_put(t, "epilogue_param, at, y);\n") &&
           tpi_text_put(t, "INLINE void epilogue_write(") && put_each(t, b, "GLOBAL char *p", ", ") &&
           tpi_text_put(t, "const params_t param, const int64_t at, const s_%s *y) {\n",
                        tp_dtype_name((tp_dtype)b->like->dtype)) &&
           put_reads(t, b) && put_call(t, b) && put_writes(t, b) && tpi_text_put(t, "}\n");
}

bool tpi_gpu_put_neighbour(tpi_text *t, const tpi_neighbour *b) {
    if (!b) return true;
    return b->before ? put_prologue(t, b) : put_epilogue(t, b);
}

int tpi_gpu_neighbour_args(const tpi_neighbour *b, tpi_gpu_arg *args, tpi_gpu_neighbour_params *params) {
    if (!b) return 0;
    int n = 0, numbers = tpi_gpu_program_numbers(b->program);
    for (int k = 0; k < b->program->noperands; k++)
        if (b->operands[k]) args[n++] = TPI_GPU_PTR(b->operands[k]->data);
    memset(params, 0, sizeof *params);
    tpi_gpu_fill_params(b->program, params->p);
    args[n++] = (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)((numbers ? numbers : 1) * (int)sizeof *params->p), params->p};
    return n;
}
