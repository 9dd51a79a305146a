/* Filling tensors with random numbers in PyTorch's order: what the natives of ops/random/creation.c,
 * ops/random/sample.c and dropout.c share. */
#ifndef TPI_RANDOM_FILL_H
#define TPI_RANDOM_FILL_H
#include "base/random.h"
#include "tensor/tensor.h"

/* Each writes all of t, whose elements are visited in memory order, and draws from g (NULL: the default generator). */
bool tpi_native_uniform(tp_tensor *t, double from, double to, tp_generator *g);
bool tpi_native_normal(tp_tensor *t, double mean, double std, tp_generator *g);
bool tpi_native_exponential(tp_tensor *t, double lambd, tp_generator *g);
bool tpi_native_cauchy(tp_tensor *t, double median, double sigma, tp_generator *g);
bool tpi_native_log_normal(tp_tensor *t, double mean, double std, tp_generator *g);
bool tpi_native_geometric(tp_tensor *t, double p, tp_generator *g);
bool tpi_native_bernoulli_p(tp_tensor *t, double p, tp_generator *g);
bool tpi_native_random(tp_tensor *t, tp_generator *g);
bool tpi_native_random_to(tp_tensor *t, int64_t to, tp_generator *g);
bool tpi_native_random_from(tp_tensor *t, int64_t from, int64_t to, tp_generator *g); /* to: TP_NONE for all above */

/* Between what the dtype tells from 0 and from 1 lie samples of gammas and Dirichlets: its smallest normal number, and
 * the largest below 1. */
double tpi_least_normal(tp_dtype dtype);
double tpi_below_one(tp_dtype dtype);
#endif
