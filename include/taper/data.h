/* Datasets that are read in C, and loaders that make batches of them, ahead of the program, on threads.
 *
 *     tp_dataset *digits = tp_dataset_mnist("train-images.idx.gz", "train-labels.idx.gz");
 *     tp_loader *loader = tp_loader_new(digits, .batch = 64, .shuffle = true, .threads = 2);
 *     for (int epoch = 0; epoch < 3; epoch++)
 *         while (tp_loader_next(loader)) TP_SCOPE {
 *             train(tp_loader_field(loader, 0), tp_loader_field(loader, 1));
 *         }
 *     if (!tp_ok()) puts(tp_error());
 *     tp_loader_free(loader);
 *     tp_dataset_release(digits);
 */
#ifndef TAPER_DATA_H
#define TAPER_DATA_H
#include <taper/random.h>
#include <taper/tensor.h>

TP_BEGIN

/* ---- Datasets: numbered items, each with the same fields (an image and a label, say) of fixed shape and dtype ---- */
typedef struct tp_dataset tp_dataset; /* counted; never changes, so threads may share it */
#define TP_MAX_FIELDS 16

typedef struct tp_field { /* what a field is like in one item */
    tp_dtype dtype;
    tp_ints shape;
} tp_field;

/* A dataset of the caller's own. read writes item i's fields, contiguous, to the places given; it is called from
 * several threads at once, and on failure returns false, with an error if it has one. release(context), if given, is
 * called at the end; not on failure. */
TP_API tp_dataset *tp_dataset_new(int64_t count, int64_t nfields, const tp_field *fields,
                                  bool (*read)(void *context, int64_t i, void *const *into),
                                  void (*release)(void *context), void *context);
TP_API tp_dataset *tp_dataset_of_tensors(tp_tensors tensors); /* item i: the i-th row of each; they must have as many */
/* The same of named tensors in a file that tp_open_file reads (.npz, .safetensors, .pt), which is mapped where it can
 * be. */
TP_API tp_dataset *tp_dataset_of_file(const char *path, int64_t n, const char *const *names);
TP_API tp_dataset *tp_dataset_subset(tp_dataset *dataset, tp_ints indices);
/* With the field as float32: (x / divisor - mean) / std, a mean and a std for all or for each channel (the item's first
 * dimension); not given: 0 and 1. As torchvision's ToTensor (divisor 255) and Normalize compute it. */
TP_API tp_dataset *tp_dataset_normalised(tp_dataset *dataset, int64_t field, double divisor, tp_floats mean,
                                         tp_floats std);
/* MNIST's files, compressed or not: (1, 28, 28) in [0, 1] as float32, and the label as int64. */
TP_API tp_dataset *tp_dataset_mnist(const char *images, const char *labels);
/* CIFAR's binary files, one after the other: (3, 32, 32) in [0, 1] as float32, and the label among 10 or 100 classes as
 * int64. */
TP_API tp_dataset *tp_dataset_cifar(int64_t n, const char *const *paths, int64_t classes);

/* One dataset behind the other; they must have the same fields. */
TP_API tp_dataset *tp_dataset_concat(int64_t n, tp_dataset *const *datasets);
/* Side by side: item i has the fields of all datasets' item i, which must have as many. */
TP_API tp_dataset *tp_dataset_stack(int64_t n, tp_dataset *const *datasets);
/* With each item's tensors sent through a function, on the threads that read. fields says what comes out. `map` gets
 * the item's fields as tensors and fills `out` with results of operators, or tensors it called tp_retain on; it runs in
 * a scope of its own, without a tape, and is called from several threads at once. False, or an error left: the item
 * cannot be read. release(context), if given, is called at the end; not on failure. */
typedef bool (*tp_map_fn)(void *context, tp_tensors in, tp_tensor **out);
TP_API tp_dataset *tp_dataset_map(tp_dataset *dataset, int64_t nfields, const tp_field *fields, tp_map_fn map,
                                  void (*release)(void *context), void *context);
/* Parts of the given lengths, which must add up to the dataset's, or of shares that add up to 1; drawn at random
 * without overlap, as PyTorch's random_split draws them. generator NULL: the default one. Fills parts with as many
 * datasets. */
TP_API bool tp_dataset_random_split(tp_dataset *dataset, tp_ints lengths, tp_generator *generator, tp_dataset **parts);
TP_API bool tp_dataset_random_shares(tp_dataset *dataset, tp_floats shares, tp_generator *generator,
                                     tp_dataset **parts);

/* One more reference to the dataset, which it returns. */
TP_API tp_dataset *tp_dataset_retain(tp_dataset *dataset);
TP_API void tp_dataset_release(tp_dataset *dataset); /* NULL is fine */
/* How many items the dataset has, and how many fields each of them. */
TP_API int64_t tp_dataset_count(const tp_dataset *dataset);
TP_API int64_t tp_dataset_fields(const tp_dataset *dataset);
TP_API tp_field tp_dataset_field(const tp_dataset *dataset, int64_t field); /* its shape lives as long as the dataset */
TP_API bool tp_dataset_get(const tp_dataset *dataset, int64_t i,
                           tp_tensor **fields); /* item i's fields as tensors, the caller's */

/* a file in MNIST's format, compressed or not, with its dtype and shape */
TP_API tp_tensor *tp_read_idx(const char *path);

/* ---- Reading batches of given items, ahead, in the order in which they were asked for ---- */
typedef struct tp_reader tp_reader; /* used by one thread at a time */
TP_API tp_reader *tp_reader_new(tp_dataset *dataset, int threads,
                                int64_t room); /* threads 0: read when taken; room: batches that may wait */
TP_API bool tp_reader_ask(tp_reader *reader, tp_ints indices); /* an error when there is no room */
TP_API bool
tp_reader_take(tp_reader *reader,
               tp_tensor **fields); /* the oldest batch asked for, the caller's; waits; an error when there is none */
TP_API int64_t tp_reader_waiting(const tp_reader *reader); /* asked for and not taken */
TP_API void tp_reader_free(tp_reader *reader);             /* NULL is fine */

/* ---- Samplers: which items an epoch has, in which order. They draw what PyTorch's draw with the same seed ----
 * A generator that is NULL is the default one; another must outlive the sampler. */
typedef struct tp_sampler tp_sampler;
/* 0, 1, 2 and so on to count - 1. */
TP_API tp_sampler *tp_sampler_sequential(int64_t count);
/* num_samples 0: as many as there are items. Without replacement more than those start over. */
TP_API tp_sampler *tp_sampler_random(int64_t count, bool replacement, int64_t num_samples, tp_generator *generator);
TP_API tp_sampler *tp_sampler_subset_random(tp_ints indices, tp_generator *generator);
/* Each item with its weight, in a row of numbers; they need not add up to 1. */
TP_API tp_sampler *tp_sampler_weighted(tp_tensor *weights, int64_t num_samples, bool replacement,
                                       tp_generator *generator);
/* Every `ranks`-th item from `rank` on, so that all ranks have as many. Shuffled by seed + epoch: tp_sampler_set_epoch
 * before each epoch, the same on all ranks. What is missing at the end starts over, or is left out (drop_last). */
TP_API tp_sampler *tp_sampler_distributed(int64_t count, int64_t ranks, int64_t rank, bool shuffle, int64_t seed,
                                          bool drop_last);
TP_API bool tp_sampler_set_epoch(tp_sampler *sampler, int64_t epoch); /* of a distributed one */
TP_API int64_t tp_sampler_count(const tp_sampler *sampler);           /* of items in an epoch; -1 on failure */
TP_API tp_tensor *tp_sampler_draw(tp_sampler *sampler);               /* an epoch's items: int64 */
TP_API void tp_sampler_free(tp_sampler *sampler);                     /* NULL is fine */

/* ---- Loaders ---- */
typedef struct tp_loader tp_loader;
typedef struct tp_loader_options {
    TP_STRUCT_SIZE(tp_loader_options); /* sizeof(tp_loader_options) */
    int64_t batch TP_MEMBER(0);        /* items in a batch; 0: 1 */
    bool shuffle TP_MEMBER(false); /* in the order that PyTorch's loader gives with the same seed, anew in each epoch */
    bool drop_last TP_MEMBER(false);         /* a last batch that is not full */
    int threads TP_MEMBER(0);                /* that read ahead; 0: none */
    int64_t ahead TP_MEMBER(0);              /* batches per thread; 0: 2 */
    tp_generator *generator TP_MEMBER(NULL); /* the order comes from; NULL: the default one. Must outlive the loader */
    tp_sampler *sampler TP_MEMBER(NULL);     /* the order itself, instead of shuffle. Must outlive the loader */
    TP_OPTIONS_GUARD_
} tp_loader_options;
TP_API tp_loader *tp_loader_new_with(tp_dataset *dataset, const tp_loader_options *options); /* options may be NULL */
#ifndef __cplusplus
#define TP_LOADER_DEFAULTS_ .size = (int64_t)sizeof(tp_loader_options), .sampler = NULL
#define TP_LOADER_NEW_(dataset, ...) \
    TP_WITH_(tp_loader_options, tp_loader_new_with(dataset, &tp_o_), TP_LOADER_DEFAULTS_, __VA_ARGS__)
#define tp_loader_new(...) TP_LOADER_NEW_(__VA_ARGS__, )
#else
static inline tp_loader *tp_loader_new(tp_dataset *dataset, const tp_loader_options &options = tp_loader_options()) {
    return tp_loader_new_with(dataset, &options);
}
#endif
TP_API bool tp_loader_next(tp_loader *loader); /* the next batch; false at the end of an epoch (the next call begins
                                                  another), and on failure */
TP_API tp_tensor *tp_loader_field(const tp_loader *loader,
                                  int64_t field);          /* of the batch: (n, ...); borrowed until the next one */
TP_API int64_t tp_loader_batches(const tp_loader *loader); /* in an epoch */
/* Where it stands, also within an epoch, as a uint8 tensor. Going there makes the next batch the one that would have
 * followed; the generator is put where it was, too. */
TP_API tp_tensor *tp_loader_get_state(const tp_loader *loader);
TP_API bool tp_loader_set_state(tp_loader *loader, const tp_tensor *state);
TP_API void tp_loader_free(tp_loader *loader); /* NULL is fine */

TP_END
#endif
