/* Samplers: the items of an epoch. Each draws the numbers that PyTorch's sampler of the same name draws, all of them
 * when the epoch begins. */
#include "autograd/glue.h"
#include "base/handle.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "tensor/check_arguments.h"
#include <string.h>
#include <taper/autograd.h>
#include <taper/ops.h>

typedef enum sampler_kind { SEQUENTIAL, RANDOM, SUBSET, WEIGHTED, DISTRIBUTED } sampler_kind;
struct tp_sampler {
    sampler_kind kind;
    int64_t items, count; /* of the dataset; of an epoch */
    bool replacement, shuffle;
    int64_t ranks, rank, seed, epoch;
    tp_tensor *numbers; /* weights as float64, or indices */
    tp_generator *generator;
};

tp_generator *tpi_sampler_generator(const tp_sampler *s) { return s->generator; }

bool tpi_draw_seed(tp_generator *g, int64_t *seed) {
    bool fine = false;
    TP_SCOPE {
        tp_tensor *t = tp_empty(tp_ints_view(NULL, 0), .dtype = TP_INT64);
        fine = t && tp_random_(t, .generator = g);
        if (fine) *seed = tp_item_int(t);
    }
    return fine;
}

static tp_sampler *make(tp_sampler like) {
    tp_sampler *s = tpi_malloc(sizeof *s);
    if (s)
        *s = like;
    else
        tp_release(like.numbers);
    tpi_handle_made(s, "sampler");
    return s;
}
static bool natural(int64_t n, const char *function, const char *argument, int64_t least) {
    return n >= least || tpi_refuse(TP_ERR_VALUE, "%s: argument '%s': expected %lld or more, got %lld", function,
                                    argument, (long long)least, (long long)n);
}

tp_sampler *tp_sampler_sequential(int64_t count) {
    if (!natural(count, __func__, "count", 0)) return NULL;
    return make((tp_sampler){.kind = SEQUENTIAL, .items = count, .count = count});
}
tp_sampler *tp_sampler_random(int64_t count, bool replacement, int64_t num_samples, tp_generator *generator) {
    if (TPI_ENDED(generator, "a generator")) return NULL;
    if (!natural(count, __func__, "count", 1) || !natural(num_samples, __func__, "num_samples", 0)) return NULL;
    return make((tp_sampler){.kind = RANDOM,
                             .items = count,
                             .count = num_samples ? num_samples : count,
                             .replacement = replacement,
                             .generator = generator});
}
tp_sampler *tp_sampler_subset_random(tp_ints indices, tp_generator *generator) {
    if (TPI_ENDED(generator, "a generator")) return NULL;
    if (!TPI_LIST_GIVEN(indices.v, indices.n)) return NULL;
    tp_tensor *own = tp_own(tp_from_data(indices.v, TP_INT64, TP_INTS(indices.n)));
    if (!own) return NULL;
    return make(
        (tp_sampler){.kind = SUBSET, .items = indices.n, .count = indices.n, .numbers = own, .generator = generator});
}
tp_sampler *tp_sampler_weighted(tp_tensor *weights, int64_t num_samples, bool replacement, tp_generator *generator) {
    if (TPI_ENDED(generator, "a generator")) return NULL;
    if (!tpi_is_tensor(weights, "weights") || !natural(num_samples, __func__, "num_samples", 1)) return NULL;
    if (weights->ndim != 1)
        return tpi_fail(TP_ERR_VALUE,
                        "tp_sampler_weighted: argument 'weights': expected a row of numbers, got shape %s",
                        tpi_shape_text(tpi_shape(weights)));
    tp_tensor *own = NULL;
    TP_SCOPE
        own =
            tp_retain(tp_to(tp_detach(weights), .dtype = TP_FLOAT64, .device = ((tp_device){TP_CPU, 0}), .copy = true));
    if (!own) return NULL;
    return make((tp_sampler){.kind = WEIGHTED,
                             .items = weights->numel,
                             .count = num_samples,
                             .replacement = replacement,
                             .numbers = own,
                             .generator = generator});
}
tp_sampler *tp_sampler_distributed(int64_t count, int64_t ranks, int64_t rank, bool shuffle, int64_t seed,
                                   bool drop_last) {
    if (!natural(count, __func__, "count", 1) || !natural(ranks, __func__, "ranks", 1)) return NULL;
    if (rank < 0 || rank >= ranks)
        return tpi_fail(TP_ERR_VALUE,
                        "tp_sampler_distributed: argument 'rank': Invalid rank %lld, rank should be in the interval "
                        "[0, %lld]",
                        (long long)rank, (long long)ranks - 1);
    return make((tp_sampler){.kind = DISTRIBUTED,
                             .items = count,
                             .count = drop_last ? count / ranks : count / ranks + (count % ranks != 0),
                             .shuffle = shuffle,
                             .ranks = ranks,
                             .rank = rank,
                             .seed = seed});
}

void tp_sampler_free(tp_sampler *s) {
    if (!TPI_ENDS(s, "sampler", "a sampler")) return;
    tp_release(s->numbers);
    tpi_handle_mfree(s);
}
int64_t tp_sampler_count(const tp_sampler *sampler) { return TPI_GIVEN(sampler, "a sampler") ? sampler->count : -1; }
bool tp_sampler_set_epoch(tp_sampler *sampler, int64_t epoch) {
    if (!TPI_GIVEN(sampler, "a sampler")) return false;
    if (sampler->kind != DISTRIBUTED)
        return tpi_refuse(TP_ERR_VALUE,
                          "tp_sampler_set_epoch: argument 'sampler': expected one of tp_sampler_distributed");
    sampler->epoch = epoch;
    return true;
}

/* ---- drawing ---- */
/* Pieces of `each` items until `count` are there; PyTorch draws a last piece also where it is empty. */
static tp_tensor *in_pieces(const tp_sampler *s, tp_generator *g, int64_t each) {
    const int64_t pieces = s->count / each + 1;
    tp_tensor **parts = tpi_malloc(sizeof *parts * (size_t)pieces), *all = NULL;
    for (int64_t i = 0; parts && i < pieces; i++) {
        const int64_t left = s->count - i * each, n = left < each ? left : each;
        parts[i] = s->replacement ? tp_randint(s->items, TP_INTS(n), .generator = g)
                                  : tp_narrow(tp_randperm(s->items, .generator = g), 0, 0, n);
    }
    if (parts && tp_ok()) all = tp_cat(tp_list(pieces, parts));
    tpi_mfree(parts);
    return all;
}

static tp_tensor *draw_random(const tp_sampler *s) {
    int64_t seed = 0;
    tp_generator *own = NULL;
    if (!s->generator && !(tpi_draw_seed(NULL, &seed) && (own = tp_generator_new((uint64_t)seed)))) return NULL;
    tp_tensor *all = in_pieces(s, own ? own : s->generator, s->replacement ? 32 : s->items);
    tp_generator_free(own);
    return all;
}

static tp_tensor *draw_distributed(const tp_sampler *s) {
    tp_tensor *order;
    if (s->shuffle) {
        tp_generator *g = tp_generator_new((uint64_t)(s->seed + s->epoch));
        order = g ? tp_randperm(s->items, .generator = g) : NULL;
        tp_generator_free(g);
    } else
        order = tp_arange(s->items, .dtype = TP_INT64);
    tp_tensor *at = tp_add(tp_mul(tp_arange(s->count, .dtype = TP_INT64), s->ranks), s->rank);
    return order ? tp_index_select(order, 0, tp_remainder(at, s->items)) : NULL;
}

tp_tensor *tp_sampler_draw(tp_sampler *sampler) {
    if (!TPI_GIVEN(sampler, "a sampler")) return NULL;
    const tp_sampler *s = sampler;
    tp_tensor *all = NULL;
    TP_NO_GRAD
        TP_SCOPE {
            switch (s->kind) {
            case SEQUENTIAL: all = tp_arange(s->items, .dtype = TP_INT64); break;
            case RANDOM: all = draw_random(s); break;
            case SUBSET: all = tp_index_select(s->numbers, 0, tp_randperm(s->items, .generator = s->generator)); break;
            case WEIGHTED:
                all = tp_multinomial(s->numbers, s->count, .replacement = s->replacement, .generator = s->generator);
                break;
            case DISTRIBUTED: all = draw_distributed(s); break;
            }
            all = tp_keep(tp_contiguous(all));
        }
    return all;
}
