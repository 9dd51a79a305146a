/* Distributions as objects: making one of its kind and parameters, and asking it. What the kinds compute is in
 * distribution_kinds.c, and of those that are made of others in the files beside it. */
#include "base/handle.h"
#include "nn/distribution.h"
#include "tensor/check_arguments.h"
#include <taper/autograd.h>
#include <taper/ops.h>

typedef tpi_distribution_kind kind;
typedef tpi_of_parameters of_parameters;

/* ---- Making ---- */
bool tpi_distribution_floating(const tp_tensor *t, const char *argument, const char *function) {
    if (!tpi_is_tensor_of(t, argument, function)) return false;
    if (tp_dtype_is_floating((tp_dtype)t->dtype)) return true;
    tpi_fail_in(function, TP_ERR_TYPE, "argument '%s': expected floating numbers, got %s", argument,
                tp_dtype_name((tp_dtype)t->dtype));
    return false;
}

tp_distribution *tpi_distribution_new(const kind *k, tp_tensor *a, tp_tensor *b) {
    tp_distribution *d = a ? tpi_new0(sizeof *d) : NULL;
    if (!d) return NULL;
    d->a = tp_retain(a);
    d->b = tp_retain(b);
    d->kind = k;
    d->has_gradient = k->has_gradient;
    const int batch = a->ndim - k->event_dims;
    tpi_distribution_shape(d, tp_ints_view(a->shape, batch),
                           tp_ints_view(a->shape + batch, k->is_index ? 0 : k->event_dims));
    d->alive = TPI_HANDLE_ALIVE;
    tpi_handle_made(d, "distribution");
    return d;
}
void tpi_distribution_shape(tp_distribution *d, tp_ints batch, tp_ints event) {
    d->nbatch = batch.n;
    d->nevent = event.n;
    for (int64_t i = 0; i < batch.n; i++) d->shape[i] = batch.v[i];
    for (int64_t i = 0; i < event.n; i++) d->shape[batch.n + i] = event.v[i];
}

static tp_distribution *broadcast(const kind *k, tp_tensor *a, tp_tensor *b) {
    tp_distribution *d = NULL;
    TP_SCOPE {
        tp_tensors both = tp_broadcast_tensors(TP_LIST(a, b));
        if (both.n == 2) d = tpi_distribution_new(k, both.v[0], both.v[1]);
    }
    return d;
}
tp_distribution *tpi_distribution_of_two(const kind *k, tp_tensor *a, tp_tensor *b, const char *name_a,
                                         const char *name_b, const char *function) {
    return tpi_distribution_floating(a, name_a, function) && tpi_distribution_floating(b, name_b, function)
               ? broadcast(k, a, b)
               : NULL;
}
tp_distribution *tpi_distribution_of_one(const kind *k, tp_tensor *a, const char *name, const char *function) {
    return tpi_distribution_floating(a, name, function) ? tpi_distribution_new(k, a, NULL) : NULL;
}

/* Both forms of a choice: of two (bernoulli), or of the last dim's classes. */
tp_distribution *tpi_distribution_by_chance(const kind *k, tp_tensor *probs, tp_tensor *logits, const char *function) {
    if (!probs == !logits)
        return tpi_fail(TP_ERR_VALUE, "%s: Either `probs` or `logits` must be specified, but not both.", function);
    tp_tensor *given = probs ? probs : logits;
    if (!tpi_distribution_floating(given, probs ? "probs" : "logits", function)) return NULL;
    if (k->event_dims && !given->ndim)
        return tpi_fail(TP_ERR_VALUE, "%s: parameter must be at least one-dimensional.", function);
    tp_distribution *d = NULL;
    TP_SCOPE {
        tp_tensor *a, *b;
        if (k->event_dims) {
            a = probs ? tp_div(probs, tp_sum(probs, .dim = TP_INTS(-1), .keepdim = true)) : NULL;
            b = probs ? tp_log(tp_clamp(a, .min = tp_float(tpi_epsilon_of(a)), .max = tp_float(1 - tpi_epsilon_of(a))))
                      : tp_sub(logits, tp_logsumexp(logits, TP_INTS(-1), .keepdim = true));
            if (logits) a = tp_softmax(b, -1);
        } else {
            const double eps = tpi_epsilon_of(given);
            a = probs ? probs : tp_sigmoid(logits);
            tp_tensor *p = tp_clamp(a, .min = tp_float(eps), .max = tp_float(1 - eps));
            b = logits ? logits : tp_sub(tp_log(p), tp_log1p(tp_neg(p)));
        }
        if (a && b && tp_ok()) d = broadcast(k, a, b);
    }
    return d;
}
void tp_distribution_free(tp_distribution *d) {
    if (!d || !TPI_HANDLE_GIVEN(d, "a distribution")) return;
    tp_release(d->a);
    tp_release(d->b);
    tp_release(d->c);
    tp_distribution_free(d->base);
    tp_distribution_free(d->mixing);
    tp_transform_free(d->transform);
    d->alive = 0;
    tpi_handle_delete(d, sizeof *d);
}
const char *tp_distribution_name(const tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? d->kind->name : NULL;
}

tp_ints tp_distribution_batch_shape(const tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? tp_ints_view(d->shape, d->nbatch) : tp_no_ints();
}
tp_ints tp_distribution_event_shape(const tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? tp_ints_view(d->shape + d->nbatch, d->nevent) : tp_no_ints();
}

/* ---- Asking ---- */
tp_ints tpi_distribution_extended(const tp_distribution *d, tp_ints draws, bool event, int64_t *whole) {
    int64_t n = 0;
    for (int64_t i = 0; i < draws.n; i++) whole[n++] = draws.v[i];
    for (int64_t i = 0; i < d->nbatch + (event ? d->nevent : 0); i++) whole[n++] = d->shape[i];
    return tp_ints_view(whole, n);
}
tp_tensor *tpi_distribution_draw(tp_distribution *d, tp_ints draws, tp_generator *generator) {
    int64_t whole[2 * TP_MAX_DIMS];
    if (draws.n + d->nbatch + d->nevent > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "argument 'shape': a sample has at most %d dims", TP_MAX_DIMS);
    if (d->kind->of_whole) return d->kind->of_whole->draw(d, draws, generator);
    return d->kind->draw(d->a, d->b, tpi_distribution_extended(d, draws, false, whole), generator);
}
tp_tensor *tpi_distribution_log_prob(tp_distribution *d, tp_tensor *x) {
    return d->kind->of_whole ? d->kind->of_whole->log_prob(d, x) : d->kind->log_prob(d->a, d->b, x);
}
static tp_tensor *draw(tp_distribution *d, tp_ints shape, tp_generator *generator) {
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(tpi_distribution_draw(d, shape, generator));
    return out;
}
tp_tensor *tp_distribution_sample(tp_distribution *d, tp_ints shape, tp_generator *generator) {
    if (TPI_ENDED(generator, "a generator")) return NULL;
    if (!TPI_HANDLE_GIVEN(d, "a distribution") || !TPI_LIST_GIVEN(shape.v, shape.n)) return NULL;
    tp_tensor *out = NULL;
    TP_NO_GRAD
        out = draw(d, shape, generator);
    return out;
}
tp_tensor *tp_distribution_rsample(tp_distribution *d, tp_ints shape, tp_generator *generator) {
    if (TPI_ENDED(generator, "a generator")) return NULL;
    if (!TPI_HANDLE_GIVEN(d, "a distribution") || !TPI_LIST_GIVEN(shape.v, shape.n)) return NULL;
    if (!d->has_gradient)
        return tpi_fail(TP_ERR_MISSING, "tp_distribution_rsample: a sample of %s has no gradient", d->kind->name);
    return draw(d, shape, generator);
}
tp_tensor *tp_distribution_log_prob(tp_distribution *d, tp_tensor *value) {
    if (!TPI_HANDLE_GIVEN(d, "a distribution") || !tpi_is_tensor(value, "value")) return NULL;
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(tpi_distribution_log_prob(d, value));
    return out;
}

static tp_tensor *lacks(const tp_distribution *d, const char *name, const char *function) {
    return tpi_fail(TP_ERR_MISSING, "%s: %s has no closed form of its %s", function, d->kind->name, name);
}
tp_tensor *tpi_distribution_at(tp_distribution *d, bool back, tp_tensor *x) {
    const kind *k = d->kind;
    const char *name = back ? "inverse cumulative probability" : "cumulative probability";
    const char *function = back ? "tp_distribution_icdf" : "tp_distribution_cdf";
    if (k->of_whole) {
        tp_tensor *(*whole)(tp_distribution *, tp_tensor *) = back ? k->of_whole->icdf : k->of_whole->cdf;
        return whole ? whole(d, x) : lacks(d, name, function);
    }
    tp_tensor *(*plain)(tp_tensor *, tp_tensor *, tp_tensor *) = back ? k->icdf : k->cdf;
    return plain ? plain(d->a, d->b, x) : lacks(d, name, function);
}
static tp_tensor *at(tp_distribution *d, bool back, tp_tensor *x) {
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(tpi_distribution_at(d, back, x));
    return out;
}
tp_tensor *tp_distribution_cdf(tp_distribution *d, tp_tensor *value) {
    if (!TPI_HANDLE_GIVEN(d, "a distribution") || !tpi_is_tensor(value, "value")) return NULL;
    return at(d, false, value);
}
tp_tensor *tp_distribution_icdf(tp_distribution *d, tp_tensor *value) {
    if (!TPI_HANDLE_GIVEN(d, "a distribution") || !tpi_is_tensor(value, "value")) return NULL;
    return at(d, true, value);
}

/* In order: a kind's formulas of that meaning, over the parameters or over the whole distribution. */
tp_tensor *tpi_distribution_ask(tp_distribution *d, tpi_distribution_question question) {
    static const char *const functions[] = {"tp_distribution_entropy", "tp_distribution_mean",
                                            "tp_distribution_variance"};
    const char *name = functions[question] + strlen("tp_distribution_");
    const kind *k = d->kind;
    if (k->of_whole) {
        const tpi_of_whole of[] = {k->of_whole->entropy, k->of_whole->mean, k->of_whole->variance};
        return of[question] ? of[question](d) : lacks(d, name, functions[question]);
    }
    const of_parameters of[] = {k->entropy, k->mean, k->variance};
    return of[question] ? of[question](d->a, d->b) : lacks(d, name, functions[question]);
}
static tp_tensor *ask(tp_distribution *d, tpi_distribution_question question) {
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(tpi_distribution_ask(d, question));
    return out;
}
tp_tensor *tp_distribution_entropy(tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? ask(d, TPI_ENTROPY) : NULL;
}
tp_tensor *tp_distribution_mean(tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? ask(d, TPI_MEAN) : NULL;
}
tp_tensor *tp_distribution_variance(tp_distribution *d) {
    return TPI_HANDLE_GIVEN(d, "a distribution") ? ask(d, TPI_VARIANCE) : NULL;
}
tp_tensor *tp_distribution_kl(tp_distribution *p, tp_distribution *q) {
    if (!TPI_HANDLE_GIVEN(p, "a distribution") || !TPI_HANDLE_GIVEN(q, "a distribution")) return NULL;
    if (p->kind != q->kind || !p->kind->kl)
        return tpi_fail(TP_ERR_MISSING, "tp_distribution_kl: no KL(p || q) is implemented for p of %s and q of %s",
                        p->kind->name, q->kind->name);
    tp_tensor *out = NULL;
    TP_SCOPE
        out = tp_keep(p->kind->kl(p, q));
    return out;
}
