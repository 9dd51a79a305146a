/* Finds what calls mean, once, when a program is loaded: words of the language, overloads of operators, functions and
 * classes of the file. What is not found is left, and named when the program comes there: much of a file's code is for
 * cases that never come. */
#include "base/error.h"
#include "io/script/program.h"
#include <string.h>

const tpi_script_word *tpi_script_word_in(const tpi_script_word *words, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, words[i].name) == 0) return &words[i];
    return NULL;
}

static void find_words(tpi_expr *e) {
    e->words[0] = tpi_script_number_word(e->text);
    e->words[1] = tpi_script_text_word(e->text);
    e->words[2] = tpi_script_container_word(e->text);
    e->words[3] = tpi_script_tensor_word(e->text);
}

static const tpi_script_class *find_class(const tpi_program *p, const char *name) {
    int64_t at = tpi_names_find(&p->classes, name);
    return at >= 0 ? p->declared.classes[at] : NULL;
}

/* Class.__new__(Class) is a class's call. */
static bool bind_function(tpi_program *p, tpi_expr *e) {
    int64_t at = tpi_names_find(&p->functions, e->text);
    if (at >= 0) e->function = p->declared.functions[at];
    size_t n = strlen(e->text);
    static const char make[] = ".__new__";
    if (n > sizeof make && strcmp(e->text + n - (sizeof make - 1), make) == 0) {
        char *name = tpi_arena_text(&p->arena, e->text, n - (sizeof make - 1));
        if (!name) return false;
        e->cls = find_class(p, name);
    } else if (at < 0) {
        e->cls = find_class(p, e->text);
    }
    return true;
}

/* A class, or a member of an enumeration, which stands for its value. */
static bool bind_global(tpi_program *p, tpi_expr *e) {
    e->cls = find_class(p, e->text);
    const char *dot = strrchr(e->text, '.');
    if (e->cls || !dot) return true;
    char *owner = tpi_arena_text(&p->arena, e->text, (size_t)(dot - e->text));
    if (!owner) return false;
    const tpi_script_class *c = find_class(p, owner);
    int64_t at = c && c->kind == CLASS_ENUM ? tpi_names_find(&c->attribute_numbers, dot + 1) : -1;
    if (at >= 0 && c->attributes[at].value && c->attributes[at].value->kind == E_VALUE)
        e->value = c->attributes[at].value->value;
    return true;
}

static bool bind_expr(tpi_program *p, tpi_expr *e) {
    if (!e) return true;
    for (int64_t i = 0; i < e->n; i++)
        if (!bind_expr(p, e->args[i])) return false;
    if (e->kind == E_FUNCTION) return bind_function(p, e);
    if (e->kind == E_GLOBAL) return bind_global(p, e);
    if (e->kind != E_OPERATOR) return true;
    find_words(e);
    e->operators = tpi_script_operators(p, e->text, &e->inplace);
    return e->operators || tp_ok();
}

static bool bind_block(tpi_program *p, const tpi_block *b) {
    for (int64_t i = 0; i < b->n; i++) {
        tpi_statement *s = b->v[i];
        for (int64_t k = 0; k < s->ntargets; k++)
            if (!bind_expr(p, s->targets[k])) return false;
        if (!bind_expr(p, s->value) || !bind_block(p, &s->body) || !bind_block(p, &s->otherwise)) return false;
    }
    return true;
}

static bool bind_to(tpi_program *p, tpi_script_function *f) {
    for (int64_t i = 0; i < f->nparameters; i++)
        if (!bind_expr(p, f->parameters[i].otherwise)) return false;
    return bind_block(p, &f->body);
}

/* PyTorch's fused attention for inference is not here. This function of torch.backends.mha, whose value was written
 * into the file, is its switch: without it modules take the way that they take while training, with the same results.
 */
static bool disable_fast_path(tpi_program *p) {
    int64_t at = tpi_names_find(&p->functions, "__torch__.torch.backends.mha.get_fastpath_enabled");
    if (at < 0) return true;
    tpi_script_function *f = p->declared.functions[at];
    if (f->body.n != 1 || f->body.v[0]->kind != S_RETURN) return true;
    f->body.v[0]->value->kind = E_VALUE;
    f->body.v[0]->value->value = tpi_item_bool(false);
    return true;
}

bool tpi_program_bind(tpi_program *p) {
    for (int64_t i = 0; i < p->declared.nclasses; i++) {
        tpi_script_class *c = p->declared.classes[i];
        c->program = p;
        if (!tpi_names_put(&p->classes, &p->arena, c->name, i)) return false;
    }
    for (int64_t i = 0; i < p->declared.nfunctions; i++)
        if (!tpi_names_put(&p->functions, &p->arena, p->declared.functions[i]->qualified, i)) return false;
    for (int64_t i = 0; i < p->declared.nfunctions; i++)
        if (!bind_to(p, p->declared.functions[i])) return false;
    for (int64_t i = 0; i < p->declared.nclasses; i++) {
        tpi_script_class *c = p->declared.classes[i];
        for (int64_t k = 0; k < c->nattributes; k++)
            if (!bind_expr(p, c->attributes[k].value)) return false;
        for (int64_t k = 0; k < c->nmethods; k++)
            if (!bind_to(p, c->methods[k])) return false;
    }
    return disable_fast_path(p);
}
