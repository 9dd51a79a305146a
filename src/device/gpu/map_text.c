/* The kernel of a pointwise operator, a copy or a fill, written for one form of plan: see map.c for what forms there
 * are.
 *
 * A thread finds where its groups are, reads all of them, and then computes and writes one after the other: the more
 * reads are on their way at once, the nearer memory comes to its speed. */
#include "device/gpu/map.h"
#include <stdio.h>

static const char *const ctype_c[TPI_CTYPES] = {"uint8_t", "int32_t", "int64_t", "float",
                                                "double",  "tpi_c64", "tpi_c128"};
static const char *const ctype_name[TPI_CTYPES] = {"b8", "i32", "i64", "f32", "f64", "c64", "c128"};
const char *tpi_gpu_ctype_text(tpi_ctype c) { return ctype_c[c]; }
const char *tpi_gpu_ctype_suffix(tpi_ctype c) { return ctype_name[c]; }
const char *tpi_gpu_cast_suffix(tp_dtype dtype) {
    return dtype == TP_UINT64 ? "u64" : ctype_name[tpi_gpu_ctype(dtype)];
}
bool tpi_gpu_put_dtype(tpi_text *t, tp_dtype dtype) {
    return tpi_dtype_group[dtype] & TPI_CAT_ALL || tpi_text_put(t, "#include \"limited.h\"\n");
}

static const char *index_type(const tpi_gpu_form *f) { return f->wide ? "int64_t" : "uint32_t"; }
static const char *offset_type(const tpi_gpu_form *f) { return f->wide || f->packed ? "int64_t" : "int32_t"; }

/* Has the operand an offset of its own in each group? */
static bool moves(const tpi_gpu_form *f, int k) {
    return f->packed ? f->way[k] == TPI_WAY_ALONG : f->way[k] != TPI_WAY_NUMBER;
}
static bool in_groups(const tpi_gpu_form *f, int k) {
    return f->way[k] == TPI_WAY_ALONG || f->way[k] == TPI_WAY_STRIDED;
}

/* ---- What stands before the kernel ---- */

/* One group of an operand, and how it is read and written. */
static bool put_group(tpi_text *t, const tpi_gpu_form *f, int k) {
    int bytes = f->vector * tpi_dtype_bytes[f->dtype[k]], words = bytes % 16 == 0 ? bytes / 16 : 1;
    const char *word = bytes % 16 == 0 ? "word16"
                       : bytes == 8    ? "word8"
                       : bytes == 4    ? "uint32_t"
                       : bytes == 2    ? "uint16_t"
                                       : "uint8_t";
    const char *dtype = tp_dtype_name(f->dtype[k]);
    if (!tpi_text_put(t, "typedef union group%d { %s w[%d]; s_%s e[%d]; } group%d;\n", k, word, words, dtype, f->vector,
                      k))
        return false;
    bool along = f->way[k] == TPI_WAY_ALONG;
    const char *count = along ? "w" : "e", *type = along ? word : dtype, *prefix = along ? "" : "s_",
               *at = along ? "i * (int)sizeof g.w[0]" : "i * step";
    int n = along ? words : f->vector;
    if (k >= f->nout)
        return tpi_text_put(
            t,
            "INLINE group%d load%d(GLOBAL const char *p, const %s step) {\n    group%d g;\n    UNROLL\n    for (int i "
            "= 0; i < %d; i++) g.%s[i] = *(GLOBAL const %s%s *)(p + %s);\n    return g;\n}\n",
            k, k, offset_type(f), k, n, count, prefix, type, at);
    return tpi_text_put(
        t,
        "INLINE void store%d(GLOBAL char *p, const group%d g, const %s step) {\n    UNROLL\n    for (int "
        "i = 0; i < %d; i++) *(GLOBAL %s%s *)(p + %s) = g.%s[i];\n}\n",
        k, k, offset_type(f), n, prefix, type, at, count);
}

static bool put_layout(tpi_text *t, const tpi_gpu_form *f) {
    int dims = f->ndim > 1 ? f->ndim - 1 : 1;
    if (f->packed) return true;
    if (f->wide)
        return tpi_text_put(t, "typedef struct layout_t { int64_t size[%d], stride[%d][%d]; } layout_t;\n", dims,
                            f->nargs, f->ndim);
    return tpi_text_put(
        t,
        "typedef struct layout_t { uint32_t size[%d], multiplier[%d], shift[%d]; int32_t stride[%d][%d]; } layout_t;\n",
        dims, dims, dims, f->nargs, f->ndim);
}

/* Kernels that wait for memory rather than compute: with registers for as many threads as a processor holds, 2048
 * (H200: gelu with 40 registers was a hundredth behind exp with 20). A program's values need more of them: for half as
 * many threads, which still ask for enough at a time. 0: as many as the compiler likes. */
static int threads_at_once(const tpi_gpu_map_text *m) {
    bool light = m->form->packed && m->form->vector > 1;
    for (int k = 0; k < m->form->nargs; k++)
        light &= m->type[k] == TPI_B8 || m->type[k] == TPI_I32 || m->type[k] == TPI_F32;
    return !light ? 0 : m->program ? 1024 : 2048;
}

static bool put_head(tpi_text *t, const tpi_gpu_map_text *m) {
    const tpi_gpu_form *f = m->form;
    int params = m->nparam, at_once = threads_at_once(m);
    for (int k = f->nout; k < f->nargs; k++) params += f->way[k] == TPI_WAY_NUMBER;
    bool ok = tpi_text_put(t, "#include \"rounding.h\"\n") &&
              (!m->name || tpi_gpu_put_entry(t, m->program ? "fused" : "map", m->name));
    for (int k = 0; k < f->nargs && ok; k++)
        ok = f->way[k] == TPI_WAY_NUMBER || tpi_gpu_put_dtype(t, (tp_dtype)f->dtype[k]);
    ok = ok && tpi_text_put(t, "PARAMS_TYPE(%d)\n", params ? params : 1) && tpi_text_put(t, "%s", m->source) &&
         put_layout(t, f);
    for (int k = 0; k < f->nargs && ok; k++)
        if (in_groups(f, k)) ok = put_group(t, f, k);
    ok = ok && (at_once ? tpi_text_put(t, "KERNEL_OF(entry, %d, %d)(", tpi_gpu_map_threads(f),
                                       at_once / tpi_gpu_map_threads(f))
                        : tpi_text_put(t, "KERNEL(entry)("));
    for (int k = 0; k < f->nargs && ok; k++)
        if (f->way[k] != TPI_WAY_NUMBER) ok = tpi_text_put(t, "PTR(a%d), ", k);
    return ok &&
           tpi_text_put(t, "const int64_t n, %sconst params_t param) {\n", f->packed ? "" : "const layout_t at, ");
}

/* ---- Values ---- */

/* The element `e` of operand k, in the type that op_element() takes. */
static bool put_value(tpi_text *t, const tpi_gpu_map_text *m, int k, const char *e) {
    tpi_ctype own = tpi_gpu_ctype(m->form->dtype[k]), wanted = (tpi_ctype)m->type[k];
    const char *dtype = tp_dtype_name(m->form->dtype[k]);
    if (own == wanted) return tpi_text_put(t, "get_%s(%s)", dtype, e);
    return tpi_text_put(t, "to_%s_%s(get_%s(%s))", ctype_name[wanted], tpi_gpu_cast_suffix(m->form->dtype[k]), dtype,
                        e);
}

/* The one element of an operand that is the same along dimension 0, at an offset or none. */
static bool put_same(tpi_text *t, const tpi_gpu_map_text *m, int k, const char *target, const char *offset) {
    char e[96];
    snprintf(e, sizeof e, "*(GLOBAL const s_%s *)(p%d%s)", tp_dtype_name(m->form->dtype[k]), k, offset);
    return tpi_text_put(t, "%s = ", target) && put_value(t, m, k, e) && tpi_text_put(t, ";\n");
}

static bool put_arguments(tpi_text *t, const tpi_gpu_map_text *m, const char *i, const char *j) {
    const tpi_gpu_form *f = m->form;
    bool ok = true;
    for (int k = f->nout, numbers = 0; k < f->nargs && ok; k++) {
        char e[64];
        if (f->way[k] == TPI_WAY_NUMBER)
            ok = tpi_text_put(t, "param.p[%d].%s", m->nparam + numbers++, ctype_name[m->type[k]]);
        else if (f->way[k] == TPI_WAY_SAME)
            ok = f->packed ? tpi_text_put(t, "c%d", k) : tpi_text_put(t, "c%d[%s]", k, i);
        else {
            snprintf(e, sizeof e, "g%d[%s].e[%s]", k, i, j);
            ok = put_value(t, m, k, e);
        }
        ok = ok && tpi_text_put(t, ", ");
    }
    return ok;
}

/* op_element() of element j of the thread's group i, into element j of the groups w<k>, as results are stored. */
static bool put_call(tpi_text *t, const tpi_gpu_map_text *m, const char *i, const char *j) {
    const tpi_gpu_form *f = m->form;
    if (m->program) {
        bool ok = tpi_text_put(t, "op_element(") && put_arguments(t, m, i, j) && tpi_text_put(t, "param");
        for (int k = 0; k < f->nout && ok; k++) ok = tpi_text_put(t, ", &w%d.e[%s]", k, j);
        return ok && tpi_text_put(t, ");\n");
    }
    tpi_ctype own = tpi_gpu_ctype(f->dtype[0]), given = (tpi_ctype)m->type[0];
    bool ok = tpi_text_put(t, "w0.e[%s] = set_%s(", j, tp_dtype_name(f->dtype[0]));
    if (own != given) ok = ok && tpi_text_put(t, "to_%s_%s(", tpi_gpu_cast_suffix(f->dtype[0]), ctype_name[given]);
    return ok && tpi_text_put(t, "op_element(") && put_arguments(t, m, i, j) &&
           tpi_text_put(t, "param))%s;\n", own == given ? "" : ")");
}

static bool put_results(tpi_text *t, const tpi_gpu_form *f) {
    bool ok = true;
    for (int k = 0; k < f->nout && ok; k++) ok = tpi_text_put(t, "        group%d w%d;\n", k, k);
    return ok;
}

static bool put_stores(tpi_text *t, const tpi_gpu_form *f) {
    bool ok = true;
    for (int k = 0; k < f->nout && ok; k++)
        ok = tpi_text_put(t, "        store%d(p%d + o%d[i], w%d, d%d);\n", k, k, k, k, k);
    return ok;
}

/* ---- The kernel ---- */
static bool put_locals(tpi_text *t, const tpi_gpu_map_text *m) {
    const tpi_gpu_form *f = m->form;
    int each = tpi_gpu_map_groups(f);
    bool ok = true;
    for (int k = 0; k < f->nargs && ok; k++) {
        char target[64];
        if (f->way[k] == TPI_WAY_NUMBER) continue;
        ok = tpi_text_put(t, "    GLOBAL %schar *p%d = AT(char, a%d);\n", k >= f->nout ? "const " : "", k, k);
        if (moves(f, k)) ok = ok && tpi_text_put(t, "    %s o%d[%d];\n", offset_type(f), k, each);
        if (k >= f->nout && in_groups(f, k)) ok = ok && tpi_text_put(t, "    group%d g%d[%d];\n", k, k, each);
        if (in_groups(f, k))
            ok = ok && (f->way[k] == TPI_WAY_ALONG ? tpi_text_put(t, "    const %s d%d = 0;\n", offset_type(f), k)
                                                   : tpi_text_put(t, "    const %s d%d = at.stride[%d][0] / %d;\n",
                                                                  offset_type(f), k, k, f->vector));
        if (f->way[k] != TPI_WAY_SAME) continue;
        snprintf(target, sizeof target, "    const %s c%d", ctype_c[m->type[k]], k);
        ok = ok && (f->packed ? put_same(t, m, k, target, "")
                              : tpi_text_put(t, "    %s c%d[%d];\n", ctype_c[m->type[k]], k, each));
    }
    return ok;
}

/* Where group g of each operand begins. */
static bool put_offsets(tpi_text *t, const tpi_gpu_form *f) {
    bool ok = true;
    for (int k = 0; k < f->nargs && ok; k++) {
        if (!moves(f, k)) continue;
        ok = f->packed
                 ? tpi_text_put(t, "        o%d[i] = (int64_t)g * %d;\n", k, f->vector * tpi_dtype_bytes[f->dtype[k]])
                 : tpi_text_put(t, "        o%d[i] = 0;\n", k);
    }
    if (f->packed) return ok;
    ok = ok && tpi_text_put(t, "        %s q = g, r;\n", index_type(f));
    for (int d = 0; d < f->ndim && ok; d++) {
        if (d == f->ndim - 1)
            ok = tpi_text_put(t, "        r = q;\n");
        else if (f->wide)
            ok = tpi_text_put(t, "        r = q %% at.size[%d], q /= at.size[%d];\n", d, d);
        else
            ok = tpi_text_put(
                t, "        r = q, q = divide(q, at.multiplier[%d], at.shift[%d]), r -= q * at.size[%d];\n", d, d, d);
        for (int k = 0; k < f->nargs && ok; k++)
            if (moves(f, k))
                ok = tpi_text_put(t, "        o%d[i] += (%s)r * at.stride[%d][%d];\n", k, offset_type(f), k, d);
    }
    return ok;
}

static bool put_loads(tpi_text *t, const tpi_gpu_map_text *m) {
    const tpi_gpu_form *f = m->form;
    bool ok = true;
    for (int k = f->nout; k < f->nargs && ok; k++) {
        char target[32], offset[32];
        snprintf(target, sizeof target, "        c%d[i]", k);
        snprintf(offset, sizeof offset, " + o%d[i]", k);
        if (in_groups(f, k))
            ok = tpi_text_put(t, "        g%d[i] = load%d(p%d + o%d[i], d%d);\n", k, k, k, k, k);
        else if (f->way[k] == TPI_WAY_SAME && !f->packed)
            ok = put_same(t, m, k, target, offset);
    }
    return ok;
}

/* The elements behind the last whole group, one thread each. */
static bool put_rest(tpi_text *t, const tpi_gpu_map_text *m) {
    const tpi_gpu_form *f = m->form;
    if (!f->packed || f->vector == 1) return true;
    bool ok = tpi_text_put(
        t, "    if (BLOCK == BLOCKS - 1 && THREAD < n %% %d) {\n        const int64_t last = n - 1 - THREAD;\n",
        f->vector);
    for (int k = f->nout; k < f->nargs && ok; k++)
        if (in_groups(f, k))
            ok = tpi_text_put(t, "        g%d[0].e[0] = ((GLOBAL const s_%s *)p%d)[last];\n", k,
                              tp_dtype_name(f->dtype[k]), k);
    ok = ok && put_results(t, f) && tpi_text_put(t, "        ") && put_call(t, m, "0", "0");
    for (int k = 0; k < f->nout && ok; k++)
        ok = tpi_text_put(t, "        ((GLOBAL s_%s *)p%d)[last] = w%d.e[0];\n", tp_dtype_name(f->dtype[k]), k, k);
    return ok && tpi_text_put(t, "    }\n");
}

bool tpi_gpu_put_map(tpi_text *t, const void *map_text) {
    const tpi_gpu_map_text *m = map_text;
    const tpi_gpu_form *f = m->form;
    const char *index = index_type(f);
    int each = tpi_gpu_map_groups(f), threads = tpi_gpu_map_threads(f);
    /* n counts elements where all is packed, and groups otherwise. A thread's groups lie a block's width apart. */
    return put_head(t, m) && put_locals(t, m) &&
           tpi_text_put(t, "    const %s groups = (%s)(n / %d), first = (%s)BLOCK * %d + THREAD;\n", index, index,
                        f->packed ? f->vector : 1, index, each * threads) &&
           tpi_text_put(t,
                        "    UNROLL\n    for (int i = 0; i < %d; i++) {\n        const %s g = first + i * %d;\n        "
                        "if (g >= groups) break;\n",
                        each, index, threads) &&
           put_offsets(t, f) && put_loads(t, m) &&
           tpi_text_put(
               t,
               "    }\n    UNROLL\n    for (int i = 0; i < %d; i++) {\n        if (first + i * %d >= groups) break;\n",
               each, threads) &&
           put_results(t, f) && tpi_text_put(t, "        UNROLL\n        for (int j = 0; j < %d; j++) ", f->vector) &&
           put_call(t, m, "i", "j") && put_stores(t, f) && tpi_text_put(t, "    }\n") && put_rest(t, m) &&
           tpi_text_put(t, "}\n");
}
