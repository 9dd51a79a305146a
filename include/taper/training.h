/* A training in one file: the network, its optimiser, schedules, scaler, random numbers and the loader's place, to go
 * on from where it stopped.
 *
 *     tp_training all = TP_TRAINING(.model = net, .optimiser = adam, .loader = loader);
 *     if (access("last.pt", F_OK) == 0) tp_training_load("last.pt", &all);    // all.epoch: how many are done
 *     while (all.epoch < 10 && tp_ok()) {
 *         train();
 *         all.epoch++;
 *         tp_training_save("last.pt", &all);
 *     }
 *
 * The file is PyTorch's: torch.load gives a dict whose "model", "optimizer", "lr_scheduler" and "scaler" go into
 * load_state_dict, and files that a Python program wrote with these names are read. It is written beside the old one,
 * checksummed, synced and renamed. Save after a test, not before it: other loaders draw random numbers, too. */
#ifndef TAPER_TRAINING_H
#define TAPER_TRAINING_H
#include <taper/data.h>
#include <taper/io.h>
#include <taper/nn.h>
#include <taper/scaler.h>
#include <taper/schedule.h>

TP_BEGIN

typedef struct tp_training {
    TP_STRUCT_SIZE(tp_training);      /* sizeof(tp_training) */
    tp_module *model TP_MEMBER(NULL); /* any of these may be NULL */
    tp_optimiser *optimiser TP_MEMBER(NULL);
    tp_schedule *schedule TP_MEMBER(NULL); /* of combined schedules the whole; its parts go into schedules */
    tp_scaler *scaler TP_MEMBER(NULL);
    tp_loader *loader TP_MEMBER(NULL);
    tp_generator *generator TP_MEMBER(NULL);       /* besides the default one of the CPU, which is always saved */
    tp_schedule *const *schedules TP_MEMBER(NULL); /* further ones */
    int64_t nschedules TP_MEMBER(0);
    int64_t epoch TP_MEMBER(0), step TP_MEMBER(0); /* saved, and set by tp_training_load */
    TP_OPTIONS_GUARD_
} tp_training;
#ifndef __cplusplus
#define TP_TRAINING(...) \
    { .size = (int64_t)sizeof(tp_training), __VA_ARGS__ }
#endif
/* Writes all of it to one file, which stays as it was until the new one is on disk. */
TP_API bool tp_training_save(const char *path, const tp_training *training);
/* What training names must be in the file, and fit; what the file has besides is left alone. If anything is missing or
 * does not fit, or is the state of another kind of optimiser or schedule, or of a loader of other data, nothing is
 * changed, and the error says what was found and expected. */
TP_API bool tp_training_load(const char *path, tp_training *training);

/* The parts by themselves, into and from a dict of a file (io.h), in the layout of PyTorch's state_dict. */
TP_API bool tp_put_optimiser(tp_file *file, tp_saved *into, const char *key, const tp_optimiser *o);
TP_API bool tp_saved_load_optimiser(const tp_saved *state, tp_optimiser *o);
TP_API bool tp_put_schedule(tp_file *file, tp_saved *into, const char *key, tp_schedule *schedule);
TP_API bool tp_saved_load_schedule(const tp_saved *state, tp_schedule *schedule);

TP_END
#endif
