/* Programs of maps (device/block_program.h) as one kernel each: a pointwise kernel like any other (map.c), whose
 * op_element() is written here and calls those of the program's steps. Values stay in registers. One that a tensor
 * would round is rounded, and operations round one by one (kernels/rounding.h), so that the bits are those of the
 * operators one by one.
 *
 * A program is known by the text of its op_element(): programs of one text, of whatever graph, share their kernels. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "device/gpu/map.h"
#include "device/gpu/program.h"
#include "device/block_program.h"

/* ---- The text ---- */

/* The first step that computes the same: its operator's text serves both. */
static int same_step(const tpi_program *p, int i) {
    for (int k = 0; k < i; k++)
        if (p->steps[k].op == p->steps[i].op && p->steps[k].compute == p->steps[i].compute) return k;
    return i;
}

static bool put_operators(tpi_text *t, const tpi_program *p) {
    bool ok = true;
    for (int i = 0; i < p->nsteps && ok; i++) {
        if (same_step(p, i) != i) continue;
        ok = tpi_text_put(t, "#define op_element op_%d\n%s#undef op_element\n", i,
                          p->steps[i].op->source[p->steps[i].compute]);
    }
    return ok;
}

static bool put_argument(tpi_text *t, const tpi_program *p, const tpi_program_arg *a, int number) {
    tpi_ctype wanted = tpi_gpu_ctype((tp_dtype)a->type);
    if (a->value < 0) return tpi_text_put(t, "param.p[%d].%s, ", number, tpi_gpu_ctype_suffix(wanted));
    tp_dtype dtype = (tp_dtype)p->values[a->value].dtype;
    if (tpi_gpu_ctype(dtype) == wanted) return tpi_text_put(t, "v%d, ", a->value);
    return tpi_text_put(t, "to_%s_%s(v%d), ", tpi_gpu_ctype_suffix(wanted), tpi_gpu_cast_suffix(dtype), a->value);
}

/* A step's value as its tensor would hold it. Its parameters, and numbers among its inputs, are param's from `number`
 * on. */
static bool put_step(tpi_text *t, const tpi_program *p, int i, int number) {
    const tpi_program_step *s = &p->steps[i];
    const tpi_program_value *out = &p->values[s->out];
    tp_dtype dtype = (tp_dtype)out->dtype;
    const char *name = tp_dtype_name(dtype);
    tpi_ctype own = tpi_gpu_ctype(dtype), given = tpi_gpu_ctype((tp_dtype)s->type);
    bool ok = !s->op->nparam || tpi_text_put(t, "    params_t q%d;\n", i);
    for (int k = 0; k < s->op->nparam && ok; k++)
        ok = tpi_text_put(t, "    q%d.p[%d] = param.p[%d];\n", i, k, number + k);
    ok = ok && tpi_text_put(t, "    const s_%s s%d = set_%s(", name, s->out, name);
    if (own != given) ok = ok && tpi_text_put(t, "to_%s_%s(", tpi_gpu_cast_suffix(dtype), tpi_gpu_ctype_suffix(given));
    ok = ok && tpi_text_put(t, "op_%d(", same_step(p, i));
    number += s->op->nparam;
    for (int k = 0; k < s->op->nin && ok; k++) {
        ok = put_argument(t, p, &s->in[k], number);
        number += s->in[k].value < 0;
    }
    ok = ok && (s->op->nparam ? tpi_text_put(t, "q%d)", i) : tpi_text_put(t, "param)")) &&
         tpi_text_put(t, "%s);\n    const %s v%d = get_%s(s%d);\n", own == given ? "" : ")", tpi_gpu_ctype_text(own),
                      s->out, name, s->out);
    if (out->operand >= 0) ok = ok && tpi_text_put(t, "    *r%d = s%d;\n", out->operand, s->out);
    return ok;
}

static int numbers_of(const tpi_program_step *s) {
    int n = s->op->nparam;
    for (int k = 0; k < s->op->nin; k++) n += s->in[k].value < 0;
    return n;
}

/* Operand k's value. */
static int value_of(const tpi_program *p, int k) {
    int v = 0;
    while (p->values[v].operand != k) v++;
    return v;
}

static bool put_program(tpi_text *t, const tpi_program *p) {
    bool ok = true;
    for (int v = 0; v < p->nvalues && ok; v++) ok = tpi_gpu_put_dtype(t, (tp_dtype)p->values[v].dtype);
    ok = ok && put_operators(t, p) && tpi_text_put(t, "INLINE void op_element(");
    for (int k = p->nout; k < p->noperands && ok; k++) {
        int v = value_of(p, k);
        ok = tpi_text_put(t, "const %s v%d /* %s */, ", tpi_gpu_ctype_text(tpi_gpu_ctype(p->values[v].dtype)), v,
                          tp_dtype_name(p->values[v].dtype));
    }
    ok = ok && tpi_text_put(t, "const params_t param");
    for (int k = 0; k < p->nout && ok; k++)
        ok = tpi_text_put(t, ", s_%s *r%d", tp_dtype_name(p->values[value_of(p, k)].dtype), k);
    ok = ok && tpi_text_put(t, ") {\n");
    for (int i = 0, number = 0; i < p->nsteps && ok; number += numbers_of(&p->steps[i++]))
        ok = put_step(t, p, i, number);
    return ok && tpi_text_put(t, "}\n");
}

/* ---- Programs by their texts ---- */

typedef struct tpi_gpu_fused tpi_gpu_fused;
struct tpi_gpu_fused {
    tpi_gpu_fused *next;
    tpi_gpu_hash hash;
    char *source;
    char name[96]; /* its operators, as profilers show it */
};
static tpi_gpu_fused *all; /* kept for as long as the process lives, as their kernels are */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static tpi_gpu_fused *find(tpi_gpu_hash hash, const char *source) {
    for (tpi_gpu_fused *f = all; f; f = f->next)
        if (f->hash.a == hash.a && f->hash.b == hash.b && !strcmp(f->source, source)) return f;
    return NULL;
}

/* "mul_add_tanh"; what does not fit is left out. */
static void fill_name(char *name, size_t capacity, const tpi_program *p) {
    size_t n = 0;
    for (int i = 0; i < p->nsteps; i++) {
        const char *op = p->steps[i].op->name;
        if (n + strlen(op) + 2 > capacity) return;
        n += (size_t)snprintf(name + n, capacity - n, "%s%s", i ? "_" : "", op);
    }
}

/* The one of this text, which it takes over; NULL and an error without memory. */
static tpi_gpu_fused *known(tpi_text *text, const tpi_program *p) {
    tpi_gpu_hash hash = tpi_gpu_hash_of(text->s, text->n);
    pthread_mutex_lock(&lock);
    tpi_gpu_fused *f = find(hash, text->s);
    if (!f && (f = tpi_new0(sizeof *f))) {
        *f = (tpi_gpu_fused){.next = all, .hash = hash, .source = text->s};
        fill_name(f->name, sizeof f->name, p);
        all = f;
        *text = (tpi_text){NULL, 0, 0};
    }
    pthread_mutex_unlock(&lock);
    return f;
}

bool tpi_gpu_program_ready(tpi_program *p) {
    tpi_text text = {NULL, 0, 0};
    bool ok = put_program(&text, p);
    if (ok) p->fused = known(&text, p);
    tpi_text_free(&text);
    return ok && p->fused;
}

const char *tpi_gpu_fused_text(const tpi_gpu_fused *fused) { return fused->source; }
const char *tpi_gpu_fused_name(const tpi_gpu_fused *fused) { return fused->name; }

/* ---- The launch ---- */

int tpi_gpu_program_numbers(const tpi_program *p) {
    int n = 0;
    for (int i = 0; i < p->nsteps; i++) n += numbers_of(&p->steps[i]);
    return n;
}

void tpi_gpu_fill_params(const tpi_program *p, tpi_param *to) {
    for (int i = 0; i < p->nsteps; i++) {
        const tpi_program_step *s = &p->steps[i];
        memcpy(to, s->params, s->op->nparam * sizeof *to);
        to += s->op->nparam;
        for (int k = 0; k < s->op->nin; k++)
            if (s->in[k].value < 0) *to++ = s->in[k].number;
    }
}

bool tpi_gpu_program_run(tp_device device, const tpi_program *p, tpi_plan *plan) {
    if (plan->numel == 0) return true;
    tpi_param params[TPI_GPU_MAP_PARAMS];
    tpi_gpu_map_call call = {.what = p->fused,
                             .text = {.name = p->fused->name, .source = p->fused->source, .program = true},
                             .params = params};
    call.text.nparam = tpi_gpu_program_numbers(p);
    tpi_gpu_fill_params(p, params);
    for (int k = 0; k < plan->nargs; k++) call.text.type[k] = (uint8_t)tpi_gpu_ctype((tp_dtype)plan->dtype[k]);
    return tpi_gpu_run_map(device, &call, plan);
}
