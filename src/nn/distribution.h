/* What the files of distributions share: a distribution is a kind and its parameters, and a kind is a row of formulas
 * over them. */
#ifndef TPI_DISTRIBUTION_H
#define TPI_DISTRIBUTION_H
#include "tensor/tensor.h"
#include <taper/distribution.h>

typedef struct tpi_distribution_kind tpi_distribution_kind;
struct tp_distribution {
    const tpi_distribution_kind *kind;
    tp_tensor *a, *b, *c;           /* owned; NULL where a kind has fewer */
    tp_distribution *base, *mixing; /* what it is made of; owned, or NULL */
    tp_transform *transform;        /* what a base's values go through; owned, or NULL */
    int64_t number;                 /* of tries, of dims */
    bool has_gradient;              /* a draw is a function of the parameters and of noise */
    int64_t shape[TP_MAX_DIMS];     /* of the batch, then of one value */
    int64_t nbatch, nevent;
    uint32_t alive; /* base/handle.h */
};
typedef tp_tensor *(*tpi_of_parameters)(tp_tensor *a, tp_tensor *b);
typedef tp_tensor *(*tpi_of_whole)(tp_distribution *d);
/* Formulas of kinds that are more than two parameters. cdf, icdf, entropy, mean, variance: NULL: no closed form. */
typedef struct tpi_distribution_methods {
    tp_tensor *(*draw)(tp_distribution *d, tp_ints draws, tp_generator *g);
    tp_tensor *(*log_prob)(tp_distribution *d, tp_tensor *x);
    tpi_of_whole entropy, mean, variance;
    tp_tensor *(*cdf)(tp_distribution *d, tp_tensor *x);
    tp_tensor *(*icdf)(tp_distribution *d, tp_tensor *p);
} tpi_distribution_methods;
struct tpi_distribution_kind {
    const char *name;
    /* Draws of the given shape, that of draws and batch, from parameters that are expanded to it. */
    tp_tensor *(*draw)(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g);
    bool has_gradient; /* the draw is a function of the parameters and of noise */
    tp_tensor *(*log_prob)(tp_tensor *a, tp_tensor *b, tp_tensor *x);
    tpi_of_parameters entropy, mean, variance; /* NULL: no closed form */
    tp_tensor *(*cdf)(tp_tensor *a, tp_tensor *b, tp_tensor *x);
    tp_tensor *(*icdf)(tp_tensor *a, tp_tensor *b, tp_tensor *p);
    tp_tensor *(*kl)(const tp_distribution *p, const tp_distribution *q);
    int event_dims;                           /* of a, behind its batch: the classes of a categorical */
    bool is_index;                            /* a value is a number for the dims of `event_dims` */
    const tpi_distribution_methods *of_whole; /* in place of the formulas above, but for kl */
};
typedef enum tpi_distribution_question { TPI_ENTROPY, TPI_MEAN, TPI_VARIANCE } tpi_distribution_question;

/* The public functions without their checks; results go to the scope of the caller. */
tp_tensor *tpi_distribution_draw(tp_distribution *d, tp_ints draws, tp_generator *generator);
tp_tensor *tpi_distribution_log_prob(tp_distribution *d, tp_tensor *x);
tp_tensor *tpi_distribution_at(tp_distribution *d, bool back, tp_tensor *x); /* cdf, icdf */
tp_tensor *tpi_distribution_ask(tp_distribution *d, tpi_distribution_question question);
void tpi_distribution_shape(tp_distribution *d, tp_ints batch, tp_ints event);
/* Draws, batch and (if wanted) a value's shape one after the other, in `whole`, which has room for them. */
tp_ints tpi_distribution_extended(const tp_distribution *d, tp_ints draws, bool event, int64_t *whole);

/* Takes references of its own, as they are; b NULL: one parameter. */
tp_distribution *tpi_distribution_new(const tpi_distribution_kind *k, tp_tensor *a, tp_tensor *b);
/* The same of floating parameters that are broadcast to one shape; errors name the function and the argument. */
tp_distribution *tpi_distribution_of_two(const tpi_distribution_kind *k, tp_tensor *a, tp_tensor *b, const char *name_a,
                                         const char *name_b, const char *function);
/* Defines a public constructor of two tensors. */
#define TPI_DISTRIBUTION_OF_TWO(function, kind, a, b)                   \
    tp_distribution *function(tp_tensor *a, tp_tensor *b) {             \
        return tpi_distribution_of_two(&kind, a, b, #a, #b, #function); \
    }
tp_distribution *tpi_distribution_of_one(const tpi_distribution_kind *k, tp_tensor *a, const char *name,
                                         const char *function);
/* By probabilities or by logits, of which one is NULL: a becomes the probabilities and b the logits. With event_dims
 * those of the last dim's classes, normalised. */
tp_distribution *tpi_distribution_by_chance(const tpi_distribution_kind *k, tp_tensor *probs, tp_tensor *logits,
                                            const char *function);
bool tpi_distribution_floating(const tp_tensor *t, const char *argument, const char *function);

/* Formulas that several kinds use. */
tp_tensor *tpi_sample_like(tp_tensor *a, tp_ints shape);
double tpi_smallest_of(const tp_tensor *a); /* normal number of its dtype */
double tpi_epsilon_of(const tp_tensor *a);
tp_tensor *tpi_gamma_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g);
tp_tensor *tpi_gamma_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x);
tp_tensor *tpi_gamma_entropy(tp_tensor *a, tp_tensor *b);
tp_tensor *tpi_gamma_mean(tp_tensor *a, tp_tensor *b);
tp_tensor *tpi_gamma_variance(tp_tensor *a, tp_tensor *b);
tp_tensor *tpi_gamma_cdf(tp_tensor *a, tp_tensor *b, tp_tensor *x);
tp_tensor *tpi_cauchy_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x);
tp_tensor *tpi_cauchy_entropy(tp_tensor *a, tp_tensor *b);
tp_tensor *tpi_categorical_draw(tp_tensor *a, tp_tensor *b, tp_ints shape, tp_generator *g);
tp_tensor *tpi_categorical_log_prob(tp_tensor *a, tp_tensor *b, tp_tensor *x);
tp_tensor *tpi_categorical_entropy(tp_tensor *a, tp_tensor *b);
tp_tensor *tpi_bernoulli_variance(tp_tensor *a, tp_tensor *b);
tp_tensor *tpi_first_parameter(tp_tensor *a, tp_tensor *b);
#endif
