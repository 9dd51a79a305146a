/* Words of the language on lists, tuples and dicts. */
#include "base/error.h"
#include "base/memory.h"
#include "io/script/program.h"
#include <stdlib.h>

const tpi_item *tpi_script_argument(const tpi_script_call *c, int64_t position, const char *name) {
    for (int64_t i = 0; i < c->n; i++)
        if (c->names && c->names[i] ? strcmp(c->names[i], name) == 0 : i == position)
            return c->args[i].kind == TP_IVALUE_NONE ? NULL : &c->args[i];
    return NULL;
}

static bool is_list(const tpi_script_call *c, int64_t n) { return c->n == n && c->args[0].kind == TP_IVALUE_LIST; }
static bool is_items(const tpi_script_call *c) {
    return c->n >= 1 && (c->args[0].kind == TP_IVALUE_LIST || c->args[0].kind == TP_IVALUE_TUPLE);
}
static bool is_dict(const tpi_script_call *c, int64_t n) { return c->n == n && c->args[0].kind == TP_IVALUE_DICT; }
static tpi_box *box(const tpi_script_call *c) { return c->args[0].as.box; }
static tpi_heap *heap(const tpi_script_call *c) { return &c->run->program->heap; }

static tpi_done no_key(void) {
    tpi_fail(TP_ERR_INDEX, "KeyError: the dict has no such key");
    return TPI_FAILED_WORD;
}

/* ---- Reading ---- */

static tpi_done w_len(tpi_script_call *c) {
    if (c->n != 1 || (!is_items(c) && !is_dict(c, 1))) return TPI_OTHER;
    return tpi_script_return(c, tpi_item_int(box(c)->n));
}

tpi_done tpi_script_getitem(tpi_script_call *c) {
    if (is_dict(c, 2)) {
        int64_t at = tpi_item_can_be_key(&c->args[1]) ? tpi_dict_find(box(c), &c->args[1]) : -1;
        return at < 0 ? no_key() : tpi_script_return(c, tpi_item_retain(box(c)->items[2 * at + 1]));
    }
    if (c->n == 2 && c->args[0].kind == TP_IVALUE_TEXT) return tpi_script_text_word("__getitem__")->run(c);
    if (!is_items(c) || c->n != 2 || !tpi_item_is_int(&c->args[1])) return TPI_OTHER;
    int64_t at = tpi_script_position(c->args[1].as.number.as.i, box(c)->n);
    return at < 0 ? TPI_FAILED_WORD : tpi_script_return(c, tpi_item_retain(box(c)->items[at]));
}

static int64_t bound(const tpi_item *v, int64_t otherwise, int64_t least, int64_t most, int64_t n) {
    int64_t i = v && tpi_item_is_int(v) ? v->as.number.as.i : otherwise;
    if (v && i < 0) i += n;
    return i < least ? least : i > most ? most : i;
}

static tpi_done w_slice(tpi_script_call *c) {
    if (!is_items(c)) return TPI_OTHER;
    int64_t n = box(c)->n;
    const tpi_item *s = tpi_script_argument(c, 3, "step");
    int64_t step = s && tpi_item_is_int(s) ? s->as.number.as.i : 1, count = 0;
    if (step == 0 || step == INT64_MIN) {
        tpi_fail(TP_ERR_VALUE, "slice step cannot be zero");
        return TPI_FAILED_WORD;
    }
    int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    int64_t from = bound(tpi_script_argument(c, 1, "start"), step < 0 ? n - 1 : 0, least, most, n);
    int64_t to = bound(tpi_script_argument(c, 2, "end"), step < 0 ? -1 : n, least, most, n);
    if (step > 0 ? to > from : to < from) count = (step > 0 ? (to - from - 1) / step : (from - to - 1) / -step) + 1;
    tpi_item v = tpi_item_box(heap(c), (tp_ivalue_kind)c->args[0].kind, count);
    for (int64_t i = 0; v.kind && i < count; i++) v.as.box->items[i] = tpi_item_retain(box(c)->items[from + i * step]);
    return tpi_script_return(c, v);
}

static int64_t find(const tpi_box *b, const tpi_item *v) {
    for (int64_t i = 0; i < b->n; i++)
        if (tpi_item_equal(&b->items[i], v)) return i;
    return -1;
}

static tpi_done w_contains(tpi_script_call *c) {
    if (is_dict(c, 2))
        return tpi_script_return(
            c, tpi_item_bool(tpi_item_can_be_key(&c->args[1]) && tpi_dict_find(box(c), &c->args[1]) >= 0));
    return is_items(c) && c->n == 2 ? tpi_script_return(c, tpi_item_bool(find(box(c), &c->args[1]) >= 0)) : TPI_OTHER;
}

static tpi_done w_index(tpi_script_call *c) {
    if (c->n < 2 || !is_items(c)) return TPI_OTHER;
    int64_t at = find(box(c), &c->args[1]);
    if (at < 0) tpi_fail(TP_ERR_VALUE, "the value is not in the list");
    return at < 0 ? TPI_FAILED_WORD : tpi_script_return(c, tpi_item_int(at));
}

static tpi_done w_count(tpi_script_call *c) {
    if (c->n != 2 || !is_items(c)) return TPI_OTHER;
    int64_t n = 0;
    for (int64_t i = 0; i < box(c)->n; i++) n += tpi_item_equal(&box(c)->items[i], &c->args[1]);
    return tpi_script_return(c, tpi_item_int(n));
}

/* Boxes are the same if they are one; other values if they are equal. */
static bool are_same(const tpi_script_call *c) {
    bool boxes = c->args[0].kind >= TP_IVALUE_LIST && c->args[0].kind == c->args[1].kind;
    return boxes ? c->args[0].as.box == c->args[1].as.box : tpi_item_equal(&c->args[0], &c->args[1]);
}
static tpi_done w_is(tpi_script_call *c) {
    return c->n == 2 ? tpi_script_return(c, tpi_item_bool(are_same(c))) : TPI_OTHER;
}
static tpi_done w_isnot(tpi_script_call *c) {
    return c->n == 2 ? tpi_script_return(c, tpi_item_bool(!are_same(c))) : TPI_OTHER;
}

/* sum, any, all of a list of numbers */
static tpi_done folded(tpi_script_call *c, char how) {
    if (!is_list(c, 1)) return TPI_OTHER;
    bool floats = false, any = false, all = true;
    uint64_t whole = 0;
    double total = 0;
    for (int64_t i = 0; i < box(c)->n; i++) {
        const tpi_item *v = &box(c)->items[i];
        bool truth = false;
        if (v->kind != TP_IVALUE_NUMBER) return TPI_OTHER;
        if (!tpi_is_true(v, &truth)) return TPI_FAILED_WORD;
        floats = floats || tpi_item_is_float(v);
        any = any || truth;
        all = all && truth;
        total += tp_scalar_to_double(v->as.number);
        if (!floats) whole += (uint64_t)v->as.number.as.i;
    }
    if (how != '+') return tpi_script_return(c, tpi_item_bool(how == 'a' ? any : all));
    return tpi_script_return(c, floats ? tpi_item_float(total) : tpi_item_int((int64_t)whole));
}
static tpi_done w_sum(tpi_script_call *c) { return folded(c, '+'); }
static tpi_done w_any(tpi_script_call *c) { return folded(c, 'a'); }
static tpi_done w_all(tpi_script_call *c) { return folded(c, 'l'); }

/* ---- Changing ---- */

static tpi_done w_append(tpi_script_call *c) {
    if (!is_list(c, 2)) return TPI_OTHER;
    if (!tpi_list_append(box(c), tpi_item_retain(c->args[1]))) return TPI_FAILED_WORD;
    return tpi_script_return(c, tpi_item_retain(c->args[0]));
}

static tpi_done w_extend(tpi_script_call *c) {
    if (!is_list(c, 2) || c->args[1].kind != TP_IVALUE_LIST) return TPI_OTHER;
    bool fine = true;
    for (int64_t i = 0, n = c->args[1].as.box->n; fine && i < n; i++)
        fine = tpi_list_append(box(c), tpi_item_retain(c->args[1].as.box->items[i]));
    return tpi_finished(c, fine);
}

static tpi_done w_insert(tpi_script_call *c) {
    if (!is_list(c, 3) || !tpi_item_is_int(&c->args[1])) return TPI_OTHER;
    int64_t at = bound(&c->args[1], 0, 0, box(c)->n, box(c)->n);
    return tpi_finished(c, tpi_list_insert(box(c), at, tpi_item_retain(c->args[2])));
}

static tpi_done w_pop(tpi_script_call *c) {
    if (c->n >= 2 && c->args[0].kind == TP_IVALUE_DICT) {
        int64_t at = tpi_item_can_be_key(&c->args[1]) ? tpi_dict_find(box(c), &c->args[1]) : -1;
        if (at < 0) return c->n > 2 ? tpi_script_return(c, tpi_item_retain(c->args[2])) : no_key();
        tpi_item v = tpi_item_retain(box(c)->items[2 * at + 1]);
        tpi_dict_remove(box(c), at);
        return tpi_script_return(c, v);
    }
    if (!is_list(c, 1) && !is_list(c, 2)) return TPI_OTHER;
    int64_t index = c->n == 2 && tpi_item_is_int(&c->args[1]) ? c->args[1].as.number.as.i : -1;
    int64_t at = tpi_script_position(index, box(c)->n);
    return at < 0 ? TPI_FAILED_WORD : tpi_script_return(c, tpi_list_remove(box(c), at));
}

static tpi_done w_remove(tpi_script_call *c) {
    if (!is_list(c, 2)) return TPI_OTHER;
    int64_t at = find(box(c), &c->args[1]);
    if (at < 0) {
        tpi_fail(TP_ERR_VALUE, "list.remove(x): x not in list");
        return TPI_FAILED_WORD;
    }
    tpi_item_release(tpi_list_remove(box(c), at));
    return tpi_script_return(c, tpi_item_none());
}

static tpi_done w_delete(tpi_script_call *c) {
    tpi_done done = w_pop(c);
    if (done != TPI_DONE) return done;
    tpi_item_release(c->result);
    return tpi_script_return(c, tpi_item_none());
}

static tpi_done w_clear(tpi_script_call *c) {
    if (!is_list(c, 1) && !is_dict(c, 1)) return TPI_OTHER;
    bool dict = c->args[0].kind == TP_IVALUE_DICT;
    while (box(c)->n) {
        if (dict)
            tpi_dict_remove(box(c), box(c)->n - 1);
        else
            tpi_item_release(tpi_list_remove(box(c), box(c)->n - 1));
    }
    return tpi_script_return(c, tpi_item_none());
}

static tpi_done w_set_item(tpi_script_call *c) {
    if (is_dict(c, 3))
        return tpi_finished(c, tpi_dict_put(box(c), tpi_item_retain(c->args[1]), tpi_item_retain(c->args[2])));
    if (!is_list(c, 3) || !tpi_item_is_int(&c->args[1])) return TPI_OTHER;
    int64_t at = tpi_script_position(c->args[1].as.number.as.i, box(c)->n);
    if (at < 0) return TPI_FAILED_WORD;
    tpi_item_set(&box(c)->items[at], tpi_item_retain(c->args[2]));
    return tpi_script_return(c, tpi_item_retain(c->args[0]));
}

static tpi_done w_reverse(tpi_script_call *c) {
    if (!is_list(c, 1)) return TPI_OTHER;
    for (int64_t i = 0, k = box(c)->n - 1; i < k; i++, k--) {
        tpi_item v = box(c)->items[i];
        box(c)->items[i] = box(c)->items[k];
        box(c)->items[k] = v;
    }
    return tpi_script_return(c, tpi_item_none());
}

static int by_value(const void *a, const void *b) {
    const tpi_item *x = a, *y = b;
    if (x->kind == TP_IVALUE_TEXT) return strcmp(x->as.box->text, y->as.box->text);
    if (tpi_item_is_int(x) && tpi_item_is_int(y))
        return (x->as.number.as.i > y->as.number.as.i) - (x->as.number.as.i < y->as.number.as.i);
    double p = tp_scalar_to_double(x->as.number), q = tp_scalar_to_double(y->as.number);
    return (p > q) - (p < q);
}

static bool sort(tpi_box *list, const tpi_item *descending) {
    for (int64_t i = 0; i < list->n; i++)
        if (list->items[i].kind != list->items[0].kind ||
            (list->items[i].kind != TP_IVALUE_NUMBER && list->items[i].kind != TP_IVALUE_TEXT))
            return tpi_refuse(TP_ERR_TYPE, "sort: expected numbers or texts");
    qsort(list->items, (size_t)list->n, sizeof *list->items, by_value);
    bool down = descending && tpi_item_is_bool(descending) && descending->as.number.as.i;
    for (int64_t i = 0, k = list->n - 1; down && i < k; i++, k--) {
        tpi_item v = list->items[i];
        list->items[i] = list->items[k];
        list->items[k] = v;
    }
    return true;
}

static tpi_done w_sort(tpi_script_call *c) {
    if (c->n < 1 || c->args[0].kind != TP_IVALUE_LIST) return TPI_OTHER;
    return tpi_finished(c, sort(box(c), tpi_script_argument(c, 1, "reverse")));
}

/* ---- Making ---- */

static tpi_item copied(tpi_script_call *c, const tpi_item *v, tp_ivalue_kind kind) {
    tpi_item made = tpi_item_box(heap(c), kind, v->as.box->n);
    for (int64_t i = 0; made.kind && i < v->as.box->n; i++)
        made.as.box->items[i] = tpi_item_retain(v->as.box->items[i]);
    return made;
}

static tpi_done w_sorted(tpi_script_call *c) {
    if (!is_list(c, 1)) return TPI_OTHER;
    tpi_item v = copied(c, &c->args[0], TP_IVALUE_LIST);
    if (!v.kind || sort(v.as.box, NULL)) return tpi_script_return(c, v);
    tpi_item_release(v);
    return TPI_FAILED_WORD;
}

static tpi_item copied_dict(tpi_script_call *c, const tpi_item *from) {
    tpi_item made = tpi_item_box(heap(c), TP_IVALUE_DICT, 0);
    bool fine = made.kind != TP_IVALUE_NOTHING;
    for (int64_t i = 0; fine && i < from->as.box->n; i++) {
        const tpi_item *pair = &from->as.box->items[2 * i];
        fine = tpi_dict_put(made.as.box, tpi_item_retain(pair[0]), tpi_item_retain(pair[1]));
    }
    if (fine) return made;
    tpi_item_release(made);
    return tpi_item_nothing();
}

static tpi_done w_list(tpi_script_call *c) {
    if (c->n == 1 && c->args[0].kind == TP_IVALUE_TEXT) {
        tpi_item v = tpi_item_box(heap(c), TP_IVALUE_LIST, box(c)->n);
        for (int64_t i = 0; v.kind && i < box(c)->n; i++) v.as.box->items[i] = tpi_item_text(box(c)->text + i, 1);
        return tpi_script_return(c, v);
    }
    return c->n == 1 && is_items(c) ? tpi_script_return(c, copied(c, &c->args[0], TP_IVALUE_LIST)) : TPI_OTHER;
}

static tpi_done w_copy(tpi_script_call *c) {
    if (is_dict(c, 1)) return tpi_script_return(c, copied_dict(c, &c->args[0]));
    return is_list(c, 1) ? tpi_script_return(c, copied(c, &c->args[0], TP_IVALUE_LIST)) : TPI_OTHER;
}

static tpi_done w_add(tpi_script_call *c) {
    if (c->n != 2 || !is_items(c) || c->args[1].kind != c->args[0].kind) return TPI_OTHER;
    const tpi_box *a = box(c), *b = c->args[1].as.box;
    tpi_item v = tpi_item_box(heap(c), (tp_ivalue_kind)c->args[0].kind, a->n + b->n);
    for (int64_t i = 0; v.kind && i < a->n + b->n; i++)
        v.as.box->items[i] = tpi_item_retain(i < a->n ? a->items[i] : b->items[i - a->n]);
    return tpi_script_return(c, v);
}

static tpi_done w_add_(tpi_script_call *c) {
    tpi_done done = w_extend(c);
    return done == TPI_DONE ? tpi_script_return(c, tpi_item_retain(c->args[0])) : done;
}

static tpi_done w_mul(tpi_script_call *c) {
    int64_t list = c->n == 2 && tpi_item_is_int(&c->args[0]) ? 1 : 0;
    if (c->n != 2 || c->args[list].kind != TP_IVALUE_LIST || !tpi_item_is_int(&c->args[1 - list])) return TPI_OTHER;
    const tpi_box *b = c->args[list].as.box;
    int64_t times = c->args[1 - list].as.number.as.i, n = 0;
    if (times < 0) times = 0;
    if (__builtin_mul_overflow(times, b->n, &n) || n > (int64_t)1 << 32) {
        tpi_fail(TP_ERR_VALUE, "a list of more than 2**32 items");
        return TPI_FAILED_WORD;
    }
    tpi_item v = tpi_item_box(heap(c), TP_IVALUE_LIST, n);
    for (int64_t i = 0; v.kind && i < n; i++) v.as.box->items[i] = tpi_item_retain(b->items[i % b->n]);
    return tpi_script_return(c, v);
}

/* ---- Dicts ---- */

static tpi_done half(tpi_script_call *c, int which) {
    if (!is_dict(c, 1)) return TPI_OTHER;
    tpi_item v = tpi_item_box(heap(c), TP_IVALUE_LIST, box(c)->n);
    for (int64_t i = 0; v.kind && i < box(c)->n; i++)
        v.as.box->items[i] = tpi_item_retain(box(c)->items[2 * i + which]);
    return tpi_script_return(c, v);
}
static tpi_done w_keys(tpi_script_call *c) { return half(c, 0); }
static tpi_done w_values(tpi_script_call *c) { return half(c, 1); }

static tpi_item pair_at(tpi_script_call *c, int64_t i) {
    tpi_item v = tpi_item_box(heap(c), TP_IVALUE_TUPLE, 2);
    for (int k = 0; v.kind && k < 2; k++) v.as.box->items[k] = tpi_item_retain(box(c)->items[2 * i + k]);
    return v;
}

static tpi_done w_items(tpi_script_call *c) {
    if (!is_dict(c, 1)) return TPI_OTHER;
    tpi_item v = tpi_item_box(heap(c), TP_IVALUE_LIST, box(c)->n);
    bool fine = v.kind != TP_IVALUE_NOTHING;
    for (int64_t i = 0; fine && i < box(c)->n; i++) {
        v.as.box->items[i] = pair_at(c, i);
        fine = v.as.box->items[i].kind != TP_IVALUE_NOTHING;
    }
    if (fine) return tpi_script_return(c, v);
    tpi_item_release(v);
    return TPI_FAILED_WORD;
}

static tpi_done w_popitem(tpi_script_call *c) {
    if (!is_dict(c, 1)) return TPI_OTHER;
    if (!box(c)->n) return no_key();
    tpi_item v = pair_at(c, box(c)->n - 1);
    if (v.kind) tpi_dict_remove(box(c), box(c)->n - 1);
    return tpi_script_return(c, v);
}

static tpi_done w_get(tpi_script_call *c) {
    if (!is_dict(c, 2) && !is_dict(c, 3)) return TPI_OTHER;
    int64_t at = tpi_item_can_be_key(&c->args[1]) ? tpi_dict_find(box(c), &c->args[1]) : -1;
    if (at >= 0) return tpi_script_return(c, tpi_item_retain(box(c)->items[2 * at + 1]));
    return tpi_script_return(c, c->n == 3 ? tpi_item_retain(c->args[2]) : tpi_item_none());
}

static tpi_done w_setdefault(tpi_script_call *c) {
    if (!is_dict(c, 3)) return TPI_OTHER;
    int64_t at = tpi_item_can_be_key(&c->args[1]) ? tpi_dict_find(box(c), &c->args[1]) : -1;
    if (at >= 0) return tpi_script_return(c, tpi_item_retain(box(c)->items[2 * at + 1]));
    bool put = tpi_dict_put(box(c), tpi_item_retain(c->args[1]), tpi_item_retain(c->args[2]));
    return put ? tpi_script_return(c, tpi_item_retain(c->args[2])) : TPI_FAILED_WORD;
}

static tpi_done w_update(tpi_script_call *c) {
    if (!is_dict(c, 2) || c->args[1].kind != TP_IVALUE_DICT) return TPI_OTHER;
    bool fine = true;
    const tpi_box *from = c->args[1].as.box;
    for (int64_t i = 0; fine && i < from->n; i++)
        fine = tpi_dict_put(box(c), tpi_item_retain(from->items[2 * i]), tpi_item_retain(from->items[2 * i + 1]));
    return tpi_finished(c, fine);
}

/* dict(), dict(another), dict([(key, value), ...]) */
static tpi_done w_dict(tpi_script_call *c) {
    if (is_dict(c, 1)) return tpi_script_return(c, copied_dict(c, &c->args[0]));
    if (c->n && !is_list(c, 1)) return TPI_OTHER;
    tpi_item v = tpi_item_box(heap(c), TP_IVALUE_DICT, 0);
    bool fine = v.kind != TP_IVALUE_NOTHING;
    for (int64_t i = 0; fine && c->n && i < box(c)->n; i++) {
        const tpi_item *pair = &box(c)->items[i];
        fine = (pair->kind == TP_IVALUE_TUPLE && pair->as.box->n == 2) ||
               tpi_refuse(TP_ERR_TYPE, "dict: expected pairs, got %s", tpi_item_kind_name(pair));
        fine = fine &&
               tpi_dict_put(v.as.box, tpi_item_retain(pair->as.box->items[0]), tpi_item_retain(pair->as.box->items[1]));
    }
    if (fine) return tpi_script_return(c, v);
    tpi_item_release(v);
    return TPI_FAILED_WORD;
}

static const tpi_script_word words[] = {
    {"len", w_len},
    {"__getitem__", tpi_script_getitem},
    {"slice", w_slice},
    {"__contains__", w_contains},
    {"index", w_index},
    {"count", w_count},
    {"__is__", w_is},
    {"__isnot__", w_isnot},
    {"sum", w_sum},
    {"any", w_any},
    {"all", w_all},
    {"append", w_append},
    {"extend", w_extend},
    {"insert", w_insert},
    {"pop", w_pop},
    {"remove", w_remove},
    {"Delete", w_delete},
    {"clear", w_clear},
    {"_set_item", w_set_item},
    {"reverse", w_reverse},
    {"sort", w_sort},
    {"sorted", w_sorted},
    {"word.sorted", w_sorted},
    {"list", w_list},
    {"copy", w_copy},
    {"add", w_add},
    {"add_", w_add_},
    {"mul", w_mul},
    {"keys", w_keys},
    {"values", w_values},
    {"items", w_items},
    {"popitem", w_popitem},
    {"get", w_get},
    {"setdefault", w_setdefault},
    {"update", w_update},
    {"dict", w_dict},
};

const tpi_script_word *tpi_script_container_word(const char *name) {
    return tpi_script_word_in(words, sizeof words / sizeof *words, name);
}
