/* See split.h. A pattern is compiled to a tree: alternatives of items, where an item is a repeated character, a group
 * or a look ahead. Matching recurses over a pattern's items, never over a text's characters, so its depth is the
 * pattern's. */
#include "io/tokenizer/split.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/tokenizer/unicode_ranges.h"

enum { LONGEST_PATTERN = 4096, DEEPEST_GROUP = 16, MOST_RANGES = 32 };
enum { LETTER = 1, NUMBER = 2, SPACE = 4, NO_CHARACTER = 0x110000 };

typedef struct charset {
    bool negated, fold;
    uint8_t is, is_not; /* categories of which one is enough, and of which lacking one is enough */
    int nranges;
    uint32_t ranges[MOST_RANGES][2];
} charset;

typedef enum item_kind { CHARACTERS, GROUP, AHEAD, NOT_AHEAD, TEXT_END } item_kind;
typedef struct item {
    item_kind kind;
    struct item *next;
    charset set;      /* of CHARACTERS, at least `min` and at most `max` of them */
    int64_t min, max; /* max -1: any number */
    bool possessive;  /* gives none back */
    struct alternative *alternatives;
} item;
typedef struct alternative {
    item *first;
    struct alternative *next;
} alternative;
struct tpi_pattern {
    alternative *alternatives;
};

/* ---- Characters ---- */

static bool in_table(const uint32_t (*table)[2], size_t n, uint32_t c) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > table[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && c >= table[low][0];
}

static int categories_of(uint32_t c) {
    int found = 0;
    if (in_table(letters, sizeof letters / sizeof *letters, c)) found |= LETTER;
    if (in_table(numbers, sizeof numbers / sizeof *numbers, c)) found |= NUMBER;
    if (in_table(spaces, sizeof spaces / sizeof *spaces, c)) found |= SPACE;
    return found;
}

/* Without case, for (?i:): the long s and the sign of kelvin are letters of ASCII too. */
static uint32_t folded(uint32_t c) {
    if (c >= 'A' && c <= 'Z') return c + ('a' - 'A');
    return c == 0x17f ? 's' : c == 0x212a ? 'k' : c;
}

static bool holds(const charset *s, uint32_t c) {
    bool found = false;
    if (s->is || s->is_not) {
        int categories = categories_of(c);
        found = (categories & s->is) || (~categories & s->is_not);
    }
    for (int i = 0; !found && i < s->nranges; i++) {
        found = c >= s->ranges[i][0] && c <= s->ranges[i][1];
        if (s->fold) found = found || (folded(c) >= folded(s->ranges[i][0]) && folded(c) <= folded(s->ranges[i][1]));
    }
    return found != s->negated;
}

/* How many bytes a character of UTF-8 has that begins so; 0: none does. */
static int length_by_first(unsigned char first) {
    if (first < 0x80) return 1;
    if (first < 0xc2) return 0;
    if (first < 0xe0) return 2;
    if (first < 0xf0) return 3;
    return first < 0xf5 ? 4 : 0;
}

/* One character of UTF-8, or one byte that is none. */
static uint32_t decode(const unsigned char *p, int64_t left, int *bytes) {
    const int n = length_by_first(*p);
    *bytes = 1;
    if (n == 1) return *p;
    if (!n || n > left || !tpi_is_utf8((const char *)p, (size_t)n)) return NO_CHARACTER + *p;
    uint32_t code = *p & (0x7fu >> n);
    for (int i = 1; i < n; i++) code = code << 6 | (p[i] & 0x3fu);
    *bytes = n;
    return code;
}

bool tpi_characters_of(tpi_characters *to, const char *bytes, int64_t n) {
    to->codes = tpi_malloc(((size_t)n + 1) * sizeof *to->codes);
    to->begins = tpi_malloc(((size_t)n + 1) * sizeof *to->begins);
    to->n = 0;
    if (!to->codes || !to->begins) return false;
    int64_t at = 0;
    while (at < n) {
        int taken;
        to->codes[to->n] = decode((const unsigned char *)bytes + at, n - at, &taken);
        to->begins[to->n++] = at;
        at += taken;
    }
    to->begins[to->n] = n;
    return true;
}

void tpi_characters_free(tpi_characters *c) {
    tpi_mfree(c->codes);
    tpi_mfree(c->begins);
}

/* ---- Compiling ---- */

typedef struct compiler {
    tpi_arena *arena;
    const uint32_t *p, *end;
    const char *path;
    bool fold;
} compiler;

static void *refuse(const compiler *c, const char *what) {
    return tpi_fail(TP_ERR_MISSING, "'%s' cuts words by a regular expression with %s, which Taper does not know",
                    c->path, what);
}
static bool accept(compiler *c, uint32_t wanted) {
    if (c->p == c->end || *c->p != wanted) return false;
    c->p++;
    return true;
}
static bool accept_word(compiler *c, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(c->end - c->p) < n) return false;
    for (size_t i = 0; i < n; i++)
        if (c->p[i] != (unsigned char)word[i]) return false;
    c->p += n;
    return true;
}

static bool add_range(compiler *c, charset *set, uint32_t first, uint32_t last) {
    if (set->nranges == MOST_RANGES) return refuse(c, "a class of too many characters") != NULL;
    set->ranges[set->nranges][0] = first;
    set->ranges[set->nranges++][1] = last;
    return true;
}

/* What follows a backslash: a category, which goes into the set, or one character, *code. */
static bool escape(compiler *c, charset *set, uint32_t *code) {
    static const char from[] = "rntfv", to[] = "\r\n\t\f\v";
    *code = NO_CHARACTER;
    if (c->p == c->end) return refuse(c, "a backslash at its end") != NULL;
    uint32_t letter = *c->p++;
    if (letter == 's') {
        set->is |= SPACE;
        return true;
    }
    if (letter == 'S') {
        set->is_not |= SPACE;
        return true;
    }
    if (letter == 'p' && accept_word(c, "{L}")) {
        set->is |= LETTER;
        return true;
    }
    if (letter == 'p' && accept_word(c, "{N}")) {
        set->is |= NUMBER;
        return true;
    }
    if (letter == 'p') return refuse(c, "a \\p{} other than L and N") != NULL;
    const char *simple = letter && letter < 0x80 ? strchr(from, (int)letter) : NULL;
    bool is_word = (letter >= '0' && letter <= '9') || (folded(letter) >= 'a' && folded(letter) <= 'z');
    if (is_word && !simple) return refuse(c, "an unknown escape") != NULL;
    *code = simple ? (uint32_t)to[simple - from] : letter;
    return true;
}

static bool class_of(compiler *c, charset *set) {
    set->negated = accept(c, '^');
    while (!accept(c, ']')) {
        if (c->p == c->end) return refuse(c, "a class that does not end") != NULL;
        uint32_t first = *c->p++;
        if (first == '[' || first == '&') return refuse(c, "a class within a class") != NULL;
        if (first == '\\' && !escape(c, set, &first)) return false;
        if (first == NO_CHARACTER) continue;
        uint32_t last = first;
        if (c->end - c->p >= 2 && c->p[0] == '-' && c->p[1] != ']') {
            c->p++;
            last = *c->p++;
            if (last == '\\' && !escape(c, set, &last)) return false;
            if (last == NO_CHARACTER || last < first) return refuse(c, "a range that is none") != NULL;
        }
        if (!add_range(c, set, first, last)) return false;
    }
    return true;
}

static bool count_of(compiler *c, int64_t *out) {
    const uint32_t *from = c->p;
    for (*out = 0; c->p < c->end && *c->p >= '0' && *c->p <= '9' && c->p - from < 6; c->p++)
        *out = 10 * *out + (*c->p - '0');
    return c->p > from;
}

static bool repeat_of(compiler *c, item *i) {
    bool repeated = true;
    if (accept(c, '?'))
        i->min = 0;
    else if (accept(c, '*')) {
        i->min = 0;
        i->max = -1;
    } else if (accept(c, '+'))
        i->max = -1;
    else if (accept(c, '{')) {
        if (!count_of(c, &i->min)) return refuse(c, "a repeat without a number") != NULL;
        i->max = i->min;
        if (accept(c, ',') && !count_of(c, &i->max)) i->max = -1;
        if (!accept(c, '}') || (i->max >= 0 && i->max < i->min)) return refuse(c, "a repeat that is none") != NULL;
    } else
        repeated = false;
    if (!repeated) return true;
    if (i->kind != CHARACTERS) return refuse(c, "a repeated group") != NULL;
    if (accept(c, '?')) return refuse(c, "a lazy repeat") != NULL;
    i->possessive = accept(c, '+');
    return true;
}

static alternative *alternatives_of(compiler *c, int depth);

static bool group_of(compiler *c, item *i, int depth) {
    bool fold = c->fold;
    i->kind = GROUP;
    if (accept_word(c, "?!"))
        i->kind = NOT_AHEAD;
    else if (accept_word(c, "?="))
        i->kind = AHEAD;
    else if (accept_word(c, "?i:"))
        c->fold = true;
    else if (!accept_word(c, "?:") && c->p < c->end && *c->p == '?')
        return refuse(c, "an unknown kind of group") != NULL;
    i->alternatives = alternatives_of(c, depth + 1);
    c->fold = fold;
    if (!i->alternatives) return false;
    return accept(c, ')') || refuse(c, "a group that does not end") != NULL;
}

static item *item_of(compiler *c, int depth) {
    item *i = tpi_arena_new(c->arena, sizeof *i);
    if (!i) return NULL;
    uint32_t code = *c->p++;
    i->kind = CHARACTERS;
    i->min = 1;
    i->max = 1;
    i->set.fold = c->fold;
    bool ok = true;
    if (code == '(')
        ok = group_of(c, i, depth);
    else if (code == '[')
        ok = class_of(c, &i->set);
    else if (code == '$')
        i->kind = TEXT_END;
    else if (code == '.') {
        i->set.negated = true;
        ok = add_range(c, &i->set, '\n', '\n');
    } else if (code == '\\') {
        ok = escape(c, &i->set, &code) && (code == NO_CHARACTER || add_range(c, &i->set, code, code));
    } else if (code < 0x80 && code && strchr("*+?{^", (int)code))
        ok = refuse(c, code == '^' ? "a '^'" : "a repeat of nothing") != NULL;
    else
        ok = add_range(c, &i->set, code, code);
    return ok && repeat_of(c, i) ? i : NULL;
}

static alternative *alternatives_of(compiler *c, int depth) {
    alternative *first = NULL, **last = &first;
    if (depth > DEEPEST_GROUP) return refuse(c, "groups that are nested too deeply");
    do {
        alternative *a = tpi_arena_new(c->arena, sizeof *a);
        if (!a) return NULL;
        item **at = &a->first;
        while (c->p < c->end && *c->p != '|' && *c->p != ')') {
            *at = item_of(c, depth);
            if (!*at) return NULL;
            at = &(*at)->next;
        }
        *last = a;
        last = &a->next;
    } while (accept(c, '|'));
    return first;
}

tpi_pattern *tpi_pattern_compile(tpi_arena *arena, const char *text, const char *path) {
    size_t bytes = strlen(text);
    if (bytes > LONGEST_PATTERN)
        return tpi_fail(TP_ERR_IO, "'%s': its regular expression of %zu bytes is too long", path, bytes);
    tpi_characters characters;
    tpi_pattern *p = tpi_arena_new(arena, sizeof *p);
    if (p && tpi_characters_of(&characters, text, (int64_t)bytes)) {
        compiler c = {.arena = arena, .p = characters.codes, .end = characters.codes + characters.n, .path = path};
        p->alternatives = alternatives_of(&c, 0);
        if (p->alternatives && c.p != c.end) p->alternatives = refuse(&c, "a ')' too many");
        tpi_characters_free(&characters);
    }
    return p && p->alternatives ? p : NULL;
}

/* ---- Matching ---- */

typedef struct matcher {
    const tpi_characters *text;
    int64_t steps; /* that are left */
} matcher;
typedef struct rest { /* what follows a group */
    const item *next;
    const struct rest *up;
} rest;

static int64_t match(matcher *m, const item *i, const rest *after, int64_t at);

static int64_t match_any(matcher *m, const alternative *a, const rest *after, int64_t at) {
    int64_t end = -1;
    for (; a && end < 0; a = a->next) end = match(m, a->first, after, at);
    return end;
}

static int64_t match_characters(matcher *m, const item *i, const rest *after, int64_t at) {
    int64_t n = 0, most = m->text->n - at;
    if (i->max >= 0 && i->max < most) most = i->max;
    while (n < most && holds(&i->set, m->text->codes[at + n])) n++;
    m->steps -= n + 1;
    if (i->possessive) return n >= i->min ? match(m, i->next, after, at + n) : -1;
    for (; n >= i->min && m->steps > 0; n--) {
        int64_t end = match(m, i->next, after, at + n);
        if (end >= 0) return end;
    }
    return -1;
}

/* Where the rest of the pattern ends that begins with i at `at`; -1: it does not match. */
static int64_t match(matcher *m, const item *i, const rest *after, int64_t at) {
    if (m->steps-- <= 0) return -1;
    if (!i) return after ? match(m, after->next, after->up, at) : at;
    switch (i->kind) {
    case CHARACTERS: return match_characters(m, i, after, at);
    case GROUP: return match_any(m, i->alternatives, &(rest){i->next, after}, at);
    case TEXT_END: return at == m->text->n ? match(m, i->next, after, at) : -1;
    default: break;
    }
    bool found = match_any(m, i->alternatives, NULL, at) >= 0;
    return found == (i->kind == AHEAD) ? match(m, i->next, after, at) : -1;
}

bool tpi_pattern_find(const tpi_pattern *p, const tpi_characters *c, int64_t at, int64_t *from, int64_t *to,
                      bool *failed) {
    matcher m = {.text = c, .steps = 1000000 + 1000 * (c->n - at)};
    for (*from = at; *from < c->n; (*from)++) {
        *to = match_any(&m, p->alternatives, NULL, *from);
        *failed = m.steps <= 0;
        if (*failed)
            return tpi_refuse(TP_ERR_RUNTIME, "the tokenizer's regular expression takes too long for this text");
        if (*to > *from) return true;
    }
    return false;
}
