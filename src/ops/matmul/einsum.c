/* einsum: sums of products in Einstein's notation, composed of permute, reshape, mul and bmm, so that it differentiates
 * itself.
 *
 * Every label gets one axis of a common space: first the result's labels in order (the ellipsis stands for one axis per
 * dim it covers), then the labels that are summed away. Every operand is brought into that space, with size 1 along
 * labels it does not have. Operands are then multiplied from left to right; a label is summed as soon as no later
 * operand has it, and where both sides have it that is a matrix product. */
#include "ops/temporaries.h"
#include "ops/native.h"
#include "tpi_ops.h"

enum { LABELS = 52, OPERANDS = 64 };

typedef struct equation {
    const char *text;
    int operands;
    int8_t sub[OPERANDS][TP_MAX_DIMS]; /* each operand's labels in order; -1 is a dim of the ellipsis */
    int ellipsis[OPERANDS];            /* how many dims the operand's ellipsis covers; -1: it has none */
    int ndim[OPERANDS];
    int wide;              /* the most dims an ellipsis covers */
    int count[LABELS];     /* how often a label occurs among the inputs */
    int axis[LABELS];      /* the label's axis in the common space; -1: not used */
    int last[TP_MAX_DIMS]; /* the last operand that has the axis */
    int axes, kept;        /* of the common space; the result's */
    int ellipsis_axis;     /* where the ellipsis starts */
} equation;

static int label_of(char c) {
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    return c >= 'A' && c <= 'Z' ? c - 'A' : -1;
}
static char label_name(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

static bool bad_character(const equation *e, const char *at) {
    return tpi_refuse(
        TP_ERR_RUNTIME,
        "argument 'equation': invalid subscript given at index %d in the equation string, subscripts must be in "
        "[a-zA-Z]: '%s' has an invalid character there; expected letters, ',', '...' and '->'",
        (int)(at - e->text), e->text);
}

/* One operand's subscripts, up to ',' or '->' or the end. */
static bool parse_operand(equation *e, const char **at, const tp_tensor *t) {
    int i = e->operands, labels[TP_MAX_DIMS], n = 0, dots = -1;
    for (; **at && **at != ',' && **at != '-'; (*at)++) {
        if (**at == ' ') continue;
        if (**at == '.') {
            if ((*at)[1] != '.' || (*at)[2] != '.' || dots >= 0) return bad_character(e, *at);
            dots = n;
            *at += 2;
            continue;
        }
        int label = label_of(**at);
        if (label < 0) return bad_character(e, *at);
        if (n == TP_MAX_DIMS)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'equation': operand %d has more than %d subscripts", i,
                              TP_MAX_DIMS);
        labels[n++] = label;
        e->count[label]++;
    }
    int covered = t->ndim - n;
    if (covered < 0 || (dots < 0 && covered > 0))
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'equation': the number of subscripts in the equation (%d) does not match the number of "
            "dimensions (%d) for operand %d%s: it has %d subscripts but %d dimensions",
            n, t->ndim, i, dots < 0 ? " and no ellipsis was given" : "", n, t->ndim);
    e->ellipsis[i] = dots < 0 ? -1 : covered;
    if (dots >= 0 && covered > e->wide) e->wide = covered;
    e->ndim[i] = 0;
    for (int d = 0; d <= n; d++) {
        for (int c = 0; d == dots && c < covered; c++) e->sub[i][e->ndim[i]++] = -1;
        if (d < n) e->sub[i][e->ndim[i]++] = (int8_t)labels[d];
    }
    e->operands++;
    return true;
}

static void new_axis(equation *e, int label) { e->axis[label] = e->axes++; }

/* The part behind '->': the result's labels in order. */
static bool parse_result(equation *e, const char *at) {
    bool dots = false;
    for (; *at; at++) {
        if (*at == ' ') continue;
        if (*at == '.') {
            if (at[1] != '.' || at[2] != '.' || dots) return bad_character(e, at);
            dots = true;
            at += 2;
            e->ellipsis_axis = e->axes;
            e->axes += e->wide;
            continue;
        }
        int label = label_of(*at);
        if (label < 0) return bad_character(e, at);
        if (!e->count[label])
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "argument 'equation': output subscript %c does not appear in the equation for any input operand", *at);
        if (e->axis[label] >= 0)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'equation': the output subscript '%c' appears more than once",
                              *at);
        new_axis(e, label);
    }
    e->kept = e->axes;
    if (!dots) { /* the ellipsis is summed away */
        e->ellipsis_axis = e->axes;
        e->axes += e->wide;
    }
    return true;
}

static bool parse(equation *e, const char *text, tp_tensors tensors) {
    if (tensors.n < 1 || tensors.n > OPERANDS)
        return tpi_refuse(TP_ERR_VALUE, "argument 'tensors': expected 1 to %d operands, got %lld", OPERANDS,
                          (long long)tensors.n);
    e->text = text;
    for (int l = 0; l < LABELS; l++) e->axis[l] = -1;
    const char *at = text;
    for (;;) {
        if (e->operands == tensors.n)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'equation': '%s' names more operands than the %lld given", text,
                              (long long)tensors.n);
        if (!parse_operand(e, &at, tensors.v[e->operands])) return false;
        if (*at != ',') break;
        at++;
    }
    if (e->operands < tensors.n)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'equation': '%s' names fewer operands (%d) than the %lld given",
                          text, e->operands, (long long)tensors.n);
    if (*at == '-') {
        if (at[1] != '>') return bad_character(e, at);
        if (!parse_result(e, at + 2)) return false;
    } else { /* without '->': the ellipsis, then the labels that occur once, in alphabetical order */
        e->ellipsis_axis = 0;
        e->axes = e->wide;
        for (int l = 0; l < LABELS; l++)
            if (e->count[l] == 1) new_axis(e, l);
        e->kept = e->axes;
    }
    for (int l = 0; l < LABELS; l++)
        if (e->count[l] && e->axis[l] < 0) new_axis(e, l);
    return e->axes <= TP_MAX_DIMS ||
           tpi_refuse(TP_ERR_RUNTIME, "argument 'equation': more than %d different subscripts", TP_MAX_DIMS);
}

/* Sizes along each axis must agree or be 1. */
static bool check_sizes(equation *e, tp_tensors tensors) {
    int64_t size[TP_MAX_DIMS];
    for (int a = 0; a < e->axes; a++) {
        size[a] = 1;
        e->last[a] = 0;
    }
    for (int i = 0; i < e->operands; i++) {
        int dots = 0;
        for (int d = 0; d < e->ndim[i]; d++) {
            int label = e->sub[i][d];
            int axis = label >= 0 ? e->axis[label] : e->ellipsis_axis + e->wide - e->ellipsis[i] + dots++;
            int64_t here = tensors.v[i]->shape[d];
            if (size[axis] != 1 && here != 1 && size[axis] != here) {
                char name[2] = {label >= 0 ? label_name(label) : '.', 0};
                return tpi_refuse(TP_ERR_RUNTIME,
                                  "argument 'tensors': operand %d has size %lld for subscript '%s', which does not "
                                  "broadcast with size %lld",
                                  i, (long long)here, name, (long long)size[axis]);
            }
            if (here != 1) size[axis] = here;
            e->last[axis] = i;
        }
    }
    return true;
}

/* A repeated label takes the diagonal. Returns an owned tensor whose dims have the labels in sub[0 .. *ndim). */
static tp_tensor *diagonals_of_repeats(tp_tensor *t, int *sub, int *ndim) {
    tp_tensor *now = tpi_retain(t);
    for (int d = 0; now && d < *ndim; d++) {
        int again = d + 1;
        while (again < *ndim && sub[again] != sub[d]) again++;
        if (again == *ndim) continue;
        if (now->shape[d] != now->shape[again]) {
            tpi_fail(TP_ERR_RUNTIME, "argument 'tensors': a repeated subscript has the sizes %lld and %lld",
                     (long long)now->shape[d], (long long)now->shape[again]);
            return tpi_release_then(now, NULL);
        }
        int axis = sub[d];
        now = tpi_release_then(now, tpo_diagonal(now, 0, d, again)); /* the diagonal becomes the last dim */
        for (int k = again; k + 1 < *ndim; k++) sub[k] = sub[k + 1];
        for (int k = d; k + 2 < *ndim; k++) sub[k] = sub[k + 1];
        sub[--*ndim - 1] = axis;
        d--;
    }
    return now;
}

/* The operand in the common space. */
static tp_tensor *into_space(const equation *e, int i, tp_tensor *t) {
    int sub[TP_MAX_DIMS], ndim = e->ndim[i], dots = 0;
    for (int d = 0; d < ndim; d++)
        sub[d] = e->sub[i][d] >= 0 ? e->axis[e->sub[i][d]] : e->ellipsis_axis + e->wide - e->ellipsis[i] + dots++;
    tpi_temporaries temps = {0};
    tp_tensor *plain = tpi_put(&temps, diagonals_of_repeats(t, sub, &ndim));
    if (!plain) return NULL;
    int64_t order[TP_MAX_DIMS], shape[TP_MAX_DIMS];
    int n = 0;
    for (int a = 0; a < e->axes; a++) {
        shape[a] = 1;
        for (int d = 0; d < ndim; d++)
            if (sub[d] == a) {
                order[n++] = d;
                shape[a] = plain->shape[d];
            }
    }
    tp_tensor *ordered = tpi_put(&temps, tpo_permute(plain, tp_ints_view(order, n)));
    return tpi_release_temporaries(&temps, tpo_reshape(ordered, tp_ints_view(shape, e->axes)));
}

/* Axes of a pair of operands, by what happens to them. */
typedef struct groups {
    int64_t both[TP_MAX_DIMS], left[TP_MAX_DIMS], right[TP_MAX_DIMS], summed[TP_MAX_DIMS];
    int nboth, nleft, nright, nsummed;
} groups;

static int64_t append(int64_t *order, int *n, const int64_t *axes, int count, const tp_tensor *t) {
    int64_t size = 1;
    for (int i = 0; i < count; i++) {
        order[(*n)++] = axes[i];
        size *= t->shape[axes[i]];
    }
    return size;
}

/* Both sides as batches of matrices, one bmm, and back into the common space. */
static tp_tensor *contract(tp_tensor *a, tp_tensor *b, const groups *g) {
    int64_t left[TP_MAX_DIMS], right[TP_MAX_DIMS], back[TP_MAX_DIMS], shape[TP_MAX_DIMS];
    int n = 0, nr = 0;
    int64_t batch = append(left, &n, g->both, g->nboth, a), m = append(left, &n, g->left, g->nleft, a),
            k = append(left, &n, g->summed, g->nsummed, a);
    append(left, &n, g->right, g->nright, a);
    append(right, &nr, g->both, g->nboth, b);
    append(right, &nr, g->summed, g->nsummed, b);
    int64_t p = append(right, &nr, g->right, g->nright, b);
    append(right, &nr, g->left, g->nleft, b);
    tpi_temporaries temps = {0};
    tp_tensor *x =
        tpi_put(&temps, tpo_reshape(tpi_put(&temps, tpo_permute(a, tp_ints_view(left, n))), TP_INTS(batch, m, k)));
    tp_tensor *y =
        tpi_put(&temps, tpo_reshape(tpi_put(&temps, tpo_permute(b, tp_ints_view(right, nr))), TP_INTS(batch, k, p)));
    tp_tensor *product = tpi_put(&temps, tpo_bmm(x, y));
    /* the product's dims: both, left, summed (now 1), right */
    for (int i = 0; i < n; i++) {
        int64_t axis = left[i];
        bool summed = i >= g->nboth + g->nleft && i < g->nboth + g->nleft + g->nsummed;
        shape[i] = summed ? 1 : a->shape[axis] == 1 ? b->shape[axis] : a->shape[axis];
        back[axis] = i;
    }
    tp_tensor *spread = tpi_put(&temps, tpo_reshape(product, tp_ints_view(shape, n)));
    return tpi_release_temporaries(&temps, tpo_permute(spread, tp_ints_view(back, n)));
}

/* Sums t over the axes marked, which stay with size 1. */
static tp_tensor *sum_axes(tp_tensor *t, const bool *mark) {
    int64_t shape[TP_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++) shape[d] = mark[d] ? 1 : t->shape[d];
    return tpo_sum_to(t, tp_ints_view(shape, t->ndim));
}

/* The product of two operands in the common space, summed over the axes in `done`. */
static tp_tensor *multiply_pair(tp_tensor *a, tp_tensor *b, const bool *done) {
    groups g = {0};
    bool alone_a[TP_MAX_DIMS] = {false}, alone_b[TP_MAX_DIMS] = {false};
    for (int d = 0; d < a->ndim; d++) {
        bool in_a = a->shape[d] != 1, in_b = b->shape[d] != 1;
        if (in_a && in_b && done[d])
            g.summed[g.nsummed++] = d;
        else if (in_a && !in_b && !done[d])
            g.left[g.nleft++] = d;
        else if (in_b && !in_a && !done[d])
            g.right[g.nright++] = d;
        else
            g.both[g.nboth++] = d;
        alone_a[d] = done[d] && in_a && !in_b;
        alone_b[d] = done[d] && in_b && !in_a;
    }
    tpi_temporaries temps = {0};
    tp_tensor *x = tpi_put(&temps, sum_axes(a, alone_a)), *y = tpi_put(&temps, sum_axes(b, alone_b));
    if (!x || !y) return tpi_release_temporaries(&temps, NULL);
    return tpi_release_temporaries(&temps, g.nsummed ? contract(x, y, &g) : tpo_mul(TP_OPERAND(x), TP_OPERAND(y)));
}

/* Sums what is left and drops the axes that are not the result's. */
static tp_tensor *finish(const equation *e, tp_tensor *t) {
    bool mark[TP_MAX_DIMS] = {false};
    for (int a = e->kept; a < e->axes; a++) mark[a] = true;
    tpi_temporaries temps = {0};
    tp_tensor *summed = tpi_put(&temps, sum_axes(t, mark));
    return summed ? tpi_release_temporaries(&temps, tpo_reshape(summed, tp_ints_view(summed->shape, e->kept))) : NULL;
}

tp_tensor *tpi_compose_einsum(const char *text, tp_tensors tensors) {
    equation e = {0};
    if (!parse(&e, text, tensors) || !check_sizes(&e, tensors)) return NULL;
    tp_tensor *now = into_space(&e, 0, tensors.v[0]);
    for (int i = 1; now && i < e.operands; i++) {
        bool done[TP_MAX_DIMS] = {false};
        for (int a = e.kept; a < e.axes; a++) done[a] = e.last[a] <= i;
        tp_tensor *next = into_space(&e, i, tensors.v[i]);
        now = tpi_release_then(now, next ? multiply_pair(now, next, done) : NULL);
        tpi_release(next);
    }
    return now ? tpi_release_then(now, finish(&e, now)) : NULL;
}
