/* Optimisers' stanzas: options, checks, state and the update, with every mistake named by file and line. docs/tables.md
 * has the language. */
#include "optimiser.h"
#include <ctype.h>
#include <string.h>

optimiser **optimisers;
int noptimisers;

static optimiser *find_optimiser(const char *name) {
    for (int i = 0; i < noptimisers; i++)
        if (!strcmp(optimisers[i]->name, name)) return optimisers[i];
    return NULL;
}

static char *next_word(const char **s) {
    char *w = word(s);
    *s = spaces(*s);
    return w;
}
static bool accept(const char **s, char c) {
    if (*spaces(*s) != c) return false;
    *s = spaces(spaces(*s) + 1);
    return true;
}

static const option *find_option(const optimiser *o, const char *name) {
    for (int i = 0; i < o->noptions; i++)
        if (!strcmp(o->options[i].name, name)) return &o->options[i];
    return NULL;
}

static option_kind kind_named(const char *name, location at) {
    if (!strcmp(name, "float")) return O_FLOAT;
    if (!strcmp(name, "int")) return O_INT;
    if (!strcmp(name, "bool")) return O_BOOL;
    if (!strcmp(name, "str")) return O_STRING;
    fail(at, "an option is a float, int, bool or str, not '%s'", name);
}

/* NAME[: TYPE[?]] = DEFAULT [as A, B] */
static void parse_option(optimiser *o, const char *s, location at, const char *key) {
    if (o->noptions == 24) fail(at, "more than 24 options");
    option *p = &o->options[o->noptions];
    *p = (option){.name = next_word(&s),
                  .keyword = o->keywords,
                  .fixed = !strcmp(key, "fixed"),
                  .at = o->nvalues,
                  .count = strcmp(key, "accept") != 0};
    if (find_option(o, p->name)) fail(at, "two options are called '%s'", p->name);
    if (accept(&s, ':')) {
        char *t = next_word(&s);
        p->optional = accept(&s, '?');
        p->kind = kind_named(t, at);
    }
    if (!accept(&s, '=')) fail(at, "expected '= DEFAULT' after the option '%s'", p->name);
    const char *as = strstr(s, " as ");
    char *text = copy_n(s, as ? (size_t)(as - s) : strlen(s));
    if (*text == '(') text = format("[%.*s]", (int)strlen(text) - 2, text + 1);
    p->fallback = parse_expr(text, at);
    if (p->fallback->kind == E_LIST) p->count = p->fallback->n;
    if (p->count > 4) fail(at, "an option holds at most 4 values");
    p->part[0] = p->name;
    s = as ? as + 4 : "";
    for (int i = 0; as && i < p->count; i++) {
        p->part[i] = next_word(&s);
        if (i + 1 < p->count && !accept(&s, ',')) fail(at, "%s: expected %d names after 'as'", p->name, p->count);
    }
    if (p->count > 1 && !as) fail(at, "%s: expected 'as' and a name for each value", p->name);
    o->group[o->noptions++] = (int)(p - o->options);
    o->nvalues += p->count;
}

static void parse_groups(optimiser *o, const char *s, location at) {
    int n = 0;
    while (*spaces(s)) {
        char *name = next_word(&s);
        const option *p = find_option(o, name);
        if (!p) fail(at, "'%s' is not an option of %s", name, o->name);
        o->group[n++] = (int)(p - o->options);
    }
    if (n != o->noptions) fail(at, "%s has %d options, and %d are named here", o->name, o->noptions, n);
}

int find_value(const optimiser *o, const char *name) {
    for (int i = 0; i < o->noptions; i++)
        for (int k = 0; k < o->options[i].count; k++)
            if (!strcmp(o->options[i].part[k], name)) return o->options[i].at + k;
    return -1;
}

static void parse_momentum(optimiser *o, const char *s, location at) {
    char *name = next_word(&s);
    o->momentum = find_value(o, name);
    if (o->momentum < 0) fail(at, "'%s' is no value of %s's options", name, o->name);
}

static void parse_check(optimiser *o, const char *s, location at) {
    const char *colon = strstr(s, " : ");
    if (!colon || o->nchecks == 12) fail(at, "expected 'check CONDITION : MESSAGE', at most 12 times");
    o->checks[o->nchecks++] = (check){.condition = parse_expr(copy_n(s, (size_t)(colon - s)), at),
                                      .message = copy_n(colon + 3, strlen(colon + 3))};
}

static void parse_choices(optimiser *o, const char *s, location at) {
    char *name = next_word(&s);
    option *p = (option *)find_option(o, name);
    if (!p || p->kind != O_STRING) fail(at, "'%s' is not an option of type str", name);
    while (*s && *s != ':' && p->nchoices < 8) p->choice[p->nchoices++] = next_word(&s);
    if (!accept(&s, ':')) fail(at, "expected ': MESSAGE' after the choices");
    p->choice_message = copy_n(s, strlen(s));
}

static int find_flag(const optimiser *o, const char *name) {
    for (int i = 0; i < o->nflags; i++)
        if (!strcmp(o->flag[i], name)) return i;
    return -1;
}

/* NAME [= CONDITION]: without one it is the option of that name. */
static void parse_flag(optimiser *o, const char *s, location at) {
    if (o->nflags == 4) fail(at, "more than 4 flags");
    char *name = next_word(&s);
    o->flag[o->nflags] = name;
    const char *condition = o->flag_text[o->nflags] = accept(&s, '=') ? copy_n(s, strlen(s)) : name;
    o->flag_value[o->nflags++] = parse_expr(condition, at);
}

/* NAME[: SHAPE] = START [when FLAG] */
static void parse_state(optimiser *o, const char *s, location at) {
    static const char *const shapes[] = {"scalar", "like", "rows", "columns", "vector"};
    if (o->nslots == 8) fail(at, "more than 8 state variables");
    slot *p = &o->slots[o->nslots++];
    *p = (slot){.name = next_word(&s), .shape = "scalar", .flag = -1};
    if (accept(&s, ':')) p->shape = next_word(&s);
    bool known = false;
    for (int i = 0; i < 5; i++) known = known || !strcmp(shapes[i], p->shape);
    if (!known || !accept(&s, '=')) fail(at, "expected 'state NAME[: like|rows|columns|vector] = START'");
    const char *when = strstr(s, " when ");
    p->start = parse_expr(copy_n(s, when ? (size_t)(when - s) : strlen(s)), at);
    if (!when) return;
    when += 6;
    char *name = next_word(&when);
    p->flag = find_flag(o, name);
    if (p->flag < 0) fail(at, "'%s' is no flag of %s", name, o->name);
}

/* A new line separates parts, as a semicolon does. */
static block *parse_lines(const char *s, location at) {
    text t = {0};
    for (; *s; s++) put(&t, *s == '\n' ? ";\n" : "%c", *s);
    return parse_block(t.s, at);
}

static void inherit(optimiser *o, const char *s, location at) {
    char *name = next_word(&s);
    optimiser *from = find_optimiser(name);
    o->like = from;
    if (!from || from == o) fail(at, "'%s' is no optimiser above this one", name);
    o->nchecks = from->nchecks;
    o->nflags = from->nflags;
    o->nslots = from->nslots;
    o->early = from->early;
    o->momentum = from->momentum;
    memcpy(o->checks, from->checks, sizeof o->checks);
    memcpy(o->flag, from->flag, sizeof o->flag);
    memcpy(o->flag_value, from->flag_value, sizeof o->flag_value);
    memcpy(o->flag_text, from->flag_text, sizeof o->flag_text);
    memcpy(o->slots, from->slots, sizeof o->slots);
    o->scalar = from->scalar;
    o->update = from->update;
    o->native = from->native;
}

static void parse_optimiser_line(optimiser *o, const char *s, location at) {
    char *key = next_word(&s);
    if (!strcmp(key, "doc"))
        o->doc = copy_n(s, strlen(s));
    else if (!strcmp(key, "like"))
        inherit(o, s, at);
    else if (!strcmp(key, "option") || !strcmp(key, "fixed") || !strcmp(key, "accept"))
        parse_option(o, s, at, key);
    else if (!strcmp(key, "keywords"))
        o->keywords = true;
    else if (!strcmp(key, "groups"))
        parse_groups(o, s, at);
    else if (!strcmp(key, "momentum"))
        parse_momentum(o, s, at);
    else if (!strcmp(key, "check"))
        parse_check(o, s, at);
    else if (!strcmp(key, "choices"))
        parse_choices(o, s, at);
    else if (!strcmp(key, "flag"))
        parse_flag(o, s, at);
    else if (!strcmp(key, "early"))
        o->early = true;
    else if (!strcmp(key, "state"))
        parse_state(o, s, at);
    else if (!strcmp(key, "scalar")) {
        o->scalar = parse_lines(s, at);
        o->scalar_text = copy_n(s, strlen(s));
    } else if (!strcmp(key, "update")) {
        o->update = parse_lines(s, at);
        o->update_text = copy_n(s, strlen(s));
    } else if (!strcmp(key, "native"))
        o->native = next_word(&s);
    else if (!strcmp(key, "closure"))
        o->closure = true;
    else
        fail(at,
             "unknown keyword '%s'; expected doc, like, option, fixed, accept, keywords, groups, momentum, check, "
             "choices, flag, early, state, scalar, update, native or closure",
             key);
}

void read_optimisers(const char *path) {
    int n;
    table_line *lines = read_lines(path, "optimiser", &n);
    optimiser *o = NULL;
    for (int i = 0; i < n; i++) {
        if (!lines[i].head) {
            parse_optimiser_line(o, lines[i].text, lines[i].at);
            continue;
        }
        o = need(sizeof *o);
        o->momentum = -1;
        const char *s = lines[i].text;
        o->at = lines[i].at;
        o->family = table_name(path);
        o->name = next_word(&s);
        if (find_optimiser(o->name)) fail(o->at, "%s is defined twice", o->name);
        o->cname = copy_n(o->name, strlen(o->name));
        for (char *c = o->cname; *c; c++) *c = (char)tolower((unsigned char)*c);
        optimiser **more = need(sizeof(optimiser *) * (size_t)(noptimisers + 1));
        if (noptimisers) memcpy(more, optimisers, sizeof(optimiser *) * (size_t)noptimisers);
        optimisers = more;
        optimisers[noptimisers++] = o;
    }
}

/* A variant runs the kernels of the other, which find options by their place. */
static void check_like(const optimiser *o) {
    for (int i = 0; i < o->noptions; i++)
        for (int k = 0; k < o->options[i].count; k++) {
            const option *there = find_option(o->like, o->options[i].name);
            if (!there || there->at != o->options[i].at || strcmp(there->part[k], o->options[i].part[k]))
                fail(o->at, "%s: the option '%s' stands elsewhere in %s", o->name, o->options[i].name, o->like->name);
        }
    if (o->nvalues != o->like->nvalues) fail(o->at, "%s: expected the options of %s", o->name, o->like->name);
}

/* Vector functions may differ in the last bit from scalar ones, and then an element's value would depend on where it
 * stands. */
static void check_exact(const optimiser *o, const expr *e) {
    const function *f = e->kind == E_CALL ? find_function(e->name, e->n) : NULL;
    if (f && f->facts & COSTLY && !(f->facts & EXACT))
        fail(e->at, "%s: '%s' is not exact; an update may use sqrt, abs, max and the like", o->name, e->name);
    for (int i = 0; i < e->n; i++) check_exact(o, e->arg[i]);
}

void check_optimisers(void) {
    for (int i = 0; i < noptimisers; i++) {
        const optimiser *o = optimisers[i];
        if (o->like) check_like(o);
        for (int k = 0; o->update && k < o->update->n; k++) check_exact(o, o->update->value[k]);
        if (!o->doc) fail(o->at, "%s: a doc line is missing", o->name);
        if (find_value(o, "lr") < 0) fail(o->at, "%s: expected an option 'lr', which schedules set", o->name);
        if ((o->update != NULL) + (o->native != NULL) + o->closure != 1)
            fail(o->at, "%s: expected one of update, native and closure", o->name);
        for (int k = 0; o->native && k < o->nslots; k++)
            if (o->slots[k].flag >= 0) fail(o->at, "%s: state of a native update is always kept", o->name);
        for (int k = 0; o->update && k < o->nslots; k++)
            if (strcmp(o->slots[k].shape, "like") && strcmp(o->slots[k].shape, "scalar"))
                fail(o->at, "%s: state of shape '%s' is for native updates", o->name, o->slots[k].shape);
    }
}
