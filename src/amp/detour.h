/* The detour that a call of an operator takes when somebody watches the thread or automatic mixed precision has a say
 * in it. Generated code enters every operator like this, so that a call costs one test of a byte where neither is on:
 *
 *     if (tpi_detours & ...) {
 *         int way = tpi_detour_begin(&detour, &entry, (void *[]){&self, &other});  arguments may be replaced by their
 * casts if (way < 0) return failure; if (way > 0) { the same call again; tpi_detour_end(&detour); return its result; }
 *     }
 *
 * The call made in between comes here a second time and goes straight on (way 0). */
#ifndef TPI_DETOUR_H
#define TPI_DETOUR_H
#include "autograd/profile.h"
#include "tensor/recorder.h"

typedef enum tpi_cast {
    TPI_CAST_NOTHING,
    TPI_CAST_LOWER,   /* float32 and float16 tensors to the region's dtype */
    TPI_CAST_FLOAT,   /* 16-bit tensors to float32 */
    TPI_CAST_PROMOTE, /* all to the widest among them */
    TPI_CAST_OFF, /* the arguments as they are, and no casts inside either: forms that write into a tensor, what PyTorch
                     computes in one kernel */
    TPI_CAST_REFUSED /* an error: not safe in a lower precision */
} tpi_cast;

typedef struct tpi_entry {
    const char *name;        /* the operator's, with a trailing underscore for the in-place form */
    const char *args;        /* a letter per argument: t tensor, o operand, l list of tensors, i int64_t, n tp_ints, s
                              * tp_scalar, f double, F tp_floats, S tp_scalars,        b bool, q bool or none as int64_t, c text, d
                              * dtype, D device, L layout, g generator */
    tpi_cast cast, gpu_cast; /* where its tensors are on the CPU, and elsewhere: PyTorch has a list for each */
    bool step; /* one step of a graph; then all arguments are given here, otherwise those of the letters tolin */
} tpi_entry;

typedef struct tpi_detour {
    int64_t event;
    struct tpi_casts *casts; /* NULL: nothing was cast */
    uint8_t before;          /* tpi_detours */
    tpi_recorder
        *recorder; /* a graph is recorded: nothing inside is a step of its own. NULL: none is, or this is no step */
    const tpi_entry *entry;
    void *const *args;
} tpi_detour;

int tpi_detour_begin(tpi_detour *detour, const tpi_entry *entry, void *const *args);
/* What a step gave, for the recorder. */
void tpi_detour_gave(tpi_detour *detour, bool fine, int64_t n, tp_tensor *const *results);
void tpi_detour_end(tpi_detour *detour);

/* autocast.c: what the thread's regions ask of this call. */
tpi_cast tpi_autocast_rule(const tpi_entry *entry, void *const *args);
/* Replaces tensors among the arguments by casts that *casts holds. False: an error is pending, and nothing is held. */
bool tpi_autocast_arguments(const tpi_entry *entry, tpi_cast rule, void *const *args, struct tpi_casts **casts);
void tpi_autocast_release(struct tpi_casts *casts);
#endif
