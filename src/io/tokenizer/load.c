/* Tokenizers from files: Hugging Face's tokenizer.json, and GPT-2's vocab.json with merges.txt.
 *
 * The first file describes a pipeline (normalizer, cuts, model, tokens around a text). What Taper does not do is
 * refused when the file is loaded, so that ids are those of the file's own tokenizer or none. */
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "io/checkpoint/json.h"
#include "io/file.h"
#include "io/tokenizer/tokenizer.h"
#include <stdlib.h>

static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static bool refuse(const char *path, const char *what) {
    return tpi_refuse(TP_ERR_IO, "'%s' is not a valid tokenizer: %s", path, what);
}
static bool lacks(const char *path, const char *part, const tp_saved *type) {
    return tpi_refuse(TP_ERR_MISSING, "'%s' has the %s '%.60s', which Taper does not know", path, part,
                      type && type->kind == TP_SAVED_TEXT ? type->as.text : "(none)");
}

static bool is_there(const tp_saved *v) { return v && v->kind != TP_SAVED_NONE; }
static bool is_true(const tp_saved *v, bool otherwise) { return tpi_is_bool(v) ? v->as.number.as.i != 0 : otherwise; }
static const char *text_in(const tp_saved *v) { return v && v->kind == TP_SAVED_TEXT ? v->as.text : NULL; }
static int64_t items_in(const tp_saved *v) { return v && v->kind == TP_SAVED_LIST ? v->n : 0; }

/* ---- A whole file ---- */

static const tp_saved *read_json(tpi_arena *arena, const char *path) {
    tp_tensor *file = tpi_read_file(path);
    if (!file) return NULL;
    tpi_json s = {.p = (const unsigned char *)file->data,
                  .end = (const unsigned char *)file->data + file->numel,
                  .arena = arena,
                  .path = path,
                  .format = "tokenizer"};
    const tp_saved *v = tpi_json_all(&s);
    tp_release(file);
    return v;
}

static tp_tokenizer *tokenizer_new(void) {
    tp_tokenizer *t = tpi_new0(sizeof *t);
    if (!t) return NULL;
    t->bpe.unknown = -1;
    tpi_handle_made(t, "tokenizer");
    return t;
}

void tp_tokenizer_free(tp_tokenizer *t) {
    if (!TPI_ENDS(t, "tokenizer", "a tokenizer")) return;
    tpi_bpe_free(&t->bpe);
    tpi_mfree(t->added);
    tpi_arena_free(&t->arena);
    tpi_handle_delete(t, sizeof *t);
}

/* ---- The model ---- */

/* Texts of the reader's tree are in another arena, which ends with the loading. */
static const char *kept(tp_tokenizer *t, const tp_saved *text) {
    return tpi_arena_text(&t->arena, text->as.text, (size_t)text->n);
}

static bool read_vocabulary(tp_tokenizer *t, const tp_saved *vocab, const char *path) {
    if (!vocab || vocab->kind != TP_SAVED_DICT) return refuse(path, "expected a dict of tokens and ids");
    for (int64_t i = 0; i < vocab->n; i++) {
        const tp_saved *token = vocab->as.items.v[2 * i], *id = vocab->as.items.v[2 * i + 1];
        if (!tpi_is_int(id)) return refuse(path, "a token's id is no number");
        const char *text = kept(t, token);
        if (!text || !tpi_bpe_add(&t->bpe, text, id->as.number.as.i)) return false;
    }
    tpi_bpe_settle(&t->bpe);
    return true;
}

static bool read_merge_line(tp_tokenizer *t, const char *line, size_t n, const char *path) {
    const char *space = memchr(line, ' ', n);
    if (!space || memchr(space + 1, ' ', n - (size_t)(space + 1 - line)))
        return refuse(path, "a merge is not two tokens with a space between");
    size_t left = (size_t)(space - line);
    return tpi_bpe_add_merge(&t->bpe, line, left, space + 1, n - left - 1, path);
}

static bool read_merges(tp_tokenizer *t, const tp_saved *merges, const char *path) {
    if (!merges || merges->kind != TP_SAVED_LIST) return refuse(path, "expected a list of merges");
    for (int64_t i = 0; i < merges->n; i++) {
        const tp_saved *m = merges->as.items.v[i];
        bool ok = false;
        if (m->kind == TP_SAVED_TEXT) {
            ok = read_merge_line(t, m->as.text, (size_t)m->n, path);
        } else if (items_in(m) == 2 && text_in(m->as.items.v[0]) && text_in(m->as.items.v[1])) {
            const tp_saved *left = m->as.items.v[0], *right = m->as.items.v[1];
            ok = tpi_bpe_add_merge(&t->bpe, left->as.text, (size_t)left->n, right->as.text, (size_t)right->n, path);
        } else {
            refuse(path, "a merge is not two tokens");
        }
        if (!ok) return false;
    }
    return true;
}

static bool read_model(tp_tokenizer *t, const tp_saved *model, const char *path) {
    const tp_saved *type = tpi_json_get(model, "type");
    if (!tpi_is_text(type, "BPE") && (type || !tpi_json_get(model, "merges"))) return lacks(path, "model", type);
    if (is_true(tpi_json_get(model, "byte_fallback"), false))
        return refuse(path, "its tokens are characters with bytes as a fallback, which Taper does not know");
    const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *affix = text_in(tpi_json_get(model, affixes[i]));
        if (affix && *affix) return refuse(path, "its tokens have prefixes or suffixes, which Taper does not know");
    }
    if (is_there(tpi_json_get(model, "dropout"))) return refuse(path, "it drops merges at random");
    t->bpe.whole_words = is_true(tpi_json_get(model, "ignore_merges"), false);
    if (!read_vocabulary(t, tpi_json_get(model, "vocab"), path)) return false;
    const tp_saved *unknown = tpi_json_get(model, "unk_token");
    if (text_in(unknown)) t->bpe.unknown = tpi_bpe_find(&t->bpe, unknown->as.text, (size_t)unknown->n);
    return read_merges(t, tpi_json_get(model, "merges"), path);
}

/* ---- Tokens that are looked for first ---- */

static int longer_first(const void *a, const void *b) {
    const tpi_added *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static bool read_added(tp_tokenizer *t, const tp_saved *list, const char *path) {
    int64_t n = items_in(list);
    t->added = tpi_malloc((size_t)(n + 1) * sizeof *t->added);
    if (!t->added) return false;
    for (int64_t i = 0; i < n; i++) {
        const tp_saved *one = list->as.items.v[i], *text = tpi_json_get(one, "content");
        const tp_saved *id = tpi_json_get(one, "id");
        if (!text_in(text) || !text->n || !tpi_is_int(id)) return refuse(path, "an added token lacks its text or id");
        if (is_true(tpi_json_get(one, "single_word"), false))
            return refuse(path, "an added token wants to stand alone, which Taper does not know");
        const char *own = kept(t, text);
        if (!own || !tpi_bpe_add(&t->bpe, own, id->as.number.as.i)) return false;
        t->added[t->nadded++] = (tpi_added){.text = own,
                                            .bytes = strlen(own),
                                            .id = (int32_t)id->as.number.as.i,
                                            .special = is_true(tpi_json_get(one, "special"), false),
                                            .strips_left = is_true(tpi_json_get(one, "lstrip"), false),
                                            .strips_right = is_true(tpi_json_get(one, "rstrip"), false)};
    }
    if (t->nadded) qsort(t->added, (size_t)t->nadded, sizeof *t->added, longer_first);
    return true;
}

/* ---- Cuts ---- */

static bool add_stage(tp_tokenizer *t, const char *pattern, bool prefix_space, const char *path) {
    if (t->nstages == TPI_MOST_STAGES) return refuse(path, "it cuts words in too many steps");
    tpi_stage *stage = &t->stages[t->nstages];
    stage->prefix_space = prefix_space;
    stage->pattern = pattern ? tpi_pattern_compile(&t->arena, pattern, path) : NULL;
    if (pattern && !stage->pattern) return false;
    t->nstages++;
    return true;
}

static bool read_cut(tp_tokenizer *t, const tp_saved *cut, const char *path) {
    const tp_saved *type = tpi_json_get(cut, "type");
    if (tpi_is_text(type, "ByteLevel")) {
        bool by_words = is_true(tpi_json_get(cut, "use_regex"), true);
        return add_stage(t, by_words ? gpt2_pattern : NULL, is_true(tpi_json_get(cut, "add_prefix_space"), true), path);
    }
    if (!tpi_is_text(type, "Split")) return lacks(path, "pre-tokenizer", type);
    const char *pattern = text_in(tpi_json_get(tpi_json_get(cut, "pattern"), "Regex"));
    if (!pattern || !tpi_is_text(tpi_json_get(cut, "behavior"), "Isolated") ||
        is_true(tpi_json_get(cut, "invert"), false))
        return refuse(path, "it cuts words in another way than by a regular expression whose matches stand alone");
    return add_stage(t, pattern, false, path);
}

static bool read_cuts(tp_tokenizer *t, const tp_saved *cuts, const char *path) {
    bool by_bytes = false;
    if (tpi_is_text(tpi_json_get(cuts, "type"), "Sequence")) {
        const tp_saved *list = tpi_json_get(cuts, "pretokenizers");
        for (int64_t i = 0; i < items_in(list); i++) {
            if (by_bytes) return refuse(path, "it cuts words after they became bytes");
            if (!read_cut(t, list->as.items.v[i], path)) return false;
            by_bytes = tpi_is_text(tpi_json_get(list->as.items.v[i], "type"), "ByteLevel");
        }
    } else {
        if (!read_cut(t, cuts, path)) return false;
        by_bytes = tpi_is_text(tpi_json_get(cuts, "type"), "ByteLevel");
    }
    return by_bytes || refuse(path, "its tokens are not of bytes (it has no pre-tokenizer ByteLevel)");
}

/* ---- Tokens around a text ---- */

static bool put_around(tp_tokenizer *t, bool behind, const tp_saved *id, const char *path) {
    int *n = behind ? &t->nbehind : &t->nbefore;
    if (!tpi_is_int(id) || id->as.number.as.i < 0 || id->as.number.as.i >= t->bpe.ntokens)
        return refuse(path, "a token around texts is not in the vocabulary");
    if (*n == TPI_MOST_AROUND) return refuse(path, "it puts too many tokens around texts");
    (behind ? t->behind : t->before)[(*n)++] = (int32_t)id->as.number.as.i;
    return true;
}

static bool read_template(tp_tokenizer *t, const tp_saved *template, const char *path) {
    const tp_saved *list = tpi_json_get(template, "single"), *known = tpi_json_get(template, "special_tokens");
    bool behind = false;
    for (int64_t i = 0; i < items_in(list); i++) {
        const tp_saved *one = list->as.items.v[i];
        if (tpi_json_get(one, "Sequence")) {
            behind = true;
            continue;
        }
        const char *name = text_in(tpi_json_get(tpi_json_get(one, "SpecialToken"), "id"));
        const tp_saved *ids = name ? tpi_json_get(tpi_json_get(known, name), "ids") : NULL;
        if (!items_in(ids)) return refuse(path, "a token around texts has no ids");
        for (int64_t k = 0; k < ids->n; k++)
            if (!put_around(t, behind, ids->as.items.v[k], path)) return false;
    }
    return true;
}

static bool read_around(tp_tokenizer *t, const tp_saved *processor, const char *path) {
    const tp_saved *type = tpi_json_get(processor, "type");
    if (tpi_is_text(type, "ByteLevel")) return true;
    if (tpi_is_text(type, "TemplateProcessing")) return read_template(t, processor, path);
    if (tpi_is_text(type, "RobertaProcessing") || tpi_is_text(type, "BertProcessing")) {
        const tp_saved *first = tpi_json_get(processor, "cls"), *last = tpi_json_get(processor, "sep");
        if (items_in(first) != 2 || items_in(last) != 2) return refuse(path, "a token around texts has no ids");
        return put_around(t, false, first->as.items.v[1], path) && put_around(t, true, last->as.items.v[1], path);
    }
    if (!tpi_is_text(type, "Sequence")) return lacks(path, "post-processor", type);
    const tp_saved *list = tpi_json_get(processor, "processors");
    for (int64_t i = 0; i < items_in(list); i++) {
        const tp_saved *one = list->as.items.v[i];
        bool nested = tpi_is_text(tpi_json_get(one, "type"), "Sequence");
        if (nested || !read_around(t, one, path)) return nested ? refuse(path, "sequences within sequences") : false;
    }
    return true;
}

/* ---- The two kinds of files ---- */

static bool read_all(tp_tokenizer *t, const tp_saved *root, const char *path) {
    const tp_saved *normalizer = tpi_json_get(root, "normalizer"), *decoder = tpi_json_get(root, "decoder");
    const tp_saved *processor = tpi_json_get(root, "post_processor"), *type = tpi_json_get(normalizer, "type");
    if (!tpi_json_get(root, "model")) return refuse(path, "it has no model");
    if (is_there(normalizer)) return lacks(path, "normalizer", type);
    if (is_there(decoder) && !tpi_is_text(tpi_json_get(decoder, "type"), "ByteLevel"))
        return lacks(path, "decoder", tpi_json_get(decoder, "type"));
    return read_model(t, tpi_json_get(root, "model"), path) &&
           read_added(t, tpi_json_get(root, "added_tokens"), path) &&
           read_cuts(t, tpi_json_get(root, "pre_tokenizer"), path) &&
           (!is_there(processor) || read_around(t, processor, path));
}

tp_tokenizer *tp_tokenizer_load(const char *path) {
    if (!TPI_GIVEN(path, "a path")) return NULL;
    tpi_arena tree = {0};
    tp_tokenizer *t = tokenizer_new();
    const tp_saved *root = t ? read_json(&tree, path) : NULL;
    bool ok = root && read_all(t, root, path);
    tpi_arena_free(&tree);
    if (ok) return t;
    tp_tokenizer_free(t);
    return NULL;
}

static bool read_merge_lines(tp_tokenizer *t, const char *text, size_t n, const char *path) {
    const char *at = text, *end = text + n;
    for (bool first = true; at < end; first = false) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        if (length && at[length - 1] == '\r') length--;
        bool is_comment = first && length >= 8 && memcmp(at, "#version", 8) == 0;
        if (length && !is_comment && !read_merge_line(t, at, length, path)) return false;
        at = newline ? newline + 1 : end;
    }
    return true;
}

static bool add_end_of_text(tp_tokenizer *t) {
    static const char text[] = "<|endoftext|>";
    int32_t id = tpi_bpe_find(&t->bpe, text, sizeof text - 1);
    t->added = tpi_malloc(sizeof *t->added);
    if (!t->added) return false;
    if (id >= 0) t->added[t->nadded++] = (tpi_added){.text = text, .bytes = sizeof text - 1, .id = id, .special = true};
    return true;
}

tp_tokenizer *tp_tokenizer_load_gpt2(const char *vocab, const char *merges) {
    if (!TPI_GIVEN(vocab, "a path") || !TPI_GIVEN(merges, "a path")) return NULL;
    tpi_arena tree = {0};
    tp_tokenizer *t = tokenizer_new();
    const tp_saved *root = t ? read_json(&tree, vocab) : NULL;
    tp_tensor *lines = root ? tpi_read_file(merges) : NULL;
    bool ok = lines && read_vocabulary(t, root, vocab) &&
              read_merge_lines(t, lines->data, (size_t)lines->numel, merges) && add_end_of_text(t) &&
              add_stage(t, gpt2_pattern, false, vocab);
    tp_release(lines);
    tpi_arena_free(&tree);
    if (ok) return t;
    tp_tokenizer_free(t);
    return NULL;
}
