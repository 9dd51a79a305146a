/* The detour that a call of an operator takes when somebody watches the thread, a capture records it, or automatic
 * mixed precision has a say in it. Generated code enters every operator like this, so that a call costs one test of a
 * byte where none of these is on:
 *
 *     tp_tensor *tpo_mul(tp_operand self, tp_operand other) {
 *         if (tpi_detours & ... or marked tensors are alive) {
 *             if (!tpi_detour_begin(&detour, &entry, (void *[]){&self, &other}, NULL)) return NULL;
 *             // arguments may have been replaced by their casts and by resolved copies
 *             tp_tensor *given = inner_mul(self, other);
 *             tpi_detour_end(&detour);
 *             return given;
 *         }
 *         return inner_mul(self, other);
 *     }
 */
#ifndef TPI_DETOUR_H
#define TPI_DETOUR_H
#include "dispatch/profile.h"
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

/* What a call does about marked tensors (tensor/tensor.h). */
typedef enum tpi_marks_rule {
    TPI_MARKS_RESOLVED, /* it gets resolved copies */
    TPI_MARKS_KEPT,     /* it takes them as they are: views, and what is made of nothing but views */
    TPI_MARKS_WRITTEN   /* it overwrites self: with the other arguments turned, by way of the memory as it is */
} tpi_marks_rule;

typedef struct tpi_operator_entry {
    const char *name; /* the operator's, with a trailing underscore for the in-place form */
    /* A letter per argument, as in tp_operator; in the in-place form the first is a tensor. */
    const char *args;
    tpi_cast cast, gpu_cast; /* where its tensors are on the CPU, and elsewhere: PyTorch has a list for each */
    bool step; /* one step of a graph; then all arguments are given here, otherwise those of the letters tolin */
    tpi_marks_rule marks;
} tpi_operator_entry;

typedef struct tpi_detour {
    int64_t event;
    struct tpi_casts *casts; /* NULL: nothing was cast */
    struct tpi_plain *plain; /* the resolved copies of marked arguments; NULL: there are none */
    tp_tensor *written;      /* a marked tensor that the call writes by way of a copy of it; NULL: none */
    tp_tensor *copy;         /* that copy */
    uint8_t before;          /* tpi_detours */
    tpi_recorder
        *recorder; /* a graph is recorded: nothing inside is a step of its own. NULL: none is, or this is no step */
    const tpi_operator_entry *entry;
    void *const *args;
} tpi_detour;

/* written: where the argument stands that the call writes; NULL for a call that only reads. False: an error is pending,
 * and there is nothing to end. */
bool tpi_detour_begin(tpi_detour *detour, const tpi_operator_entry *entry, void *const *args, tp_tensor **written);
/* What a step gave, for the recorder. */
void tpi_detour_gave(tpi_detour *detour, bool fine, int64_t n, tp_tensor *const *results);
void tpi_detour_end(tpi_detour *detour);
/* The end of a call that writes: gives the tensor that was to be written, NULL where `given` is. */
tp_tensor *tpi_detour_wrote(tpi_detour *detour, tp_tensor *given);

/* autocast.c: what the thread's regions ask of this call. */
tpi_cast tpi_autocast_rule(const tpi_operator_entry *entry, void *const *args);
/* Replaces tensors among the arguments by casts that *casts holds. False: an error is pending, and nothing is held. */
bool tpi_autocast_arguments(const tpi_operator_entry *entry, tpi_cast rule, void *const *args,
                            struct tpi_casts **casts);
void tpi_autocast_release(struct tpi_casts *casts);
/* Does automatic mixed precision want the tensor in float32? For operators without an `autocast` line, which read
 * 16-bit floats as they are and compute in float32. */
bool tpi_autocast_wants_float(const tp_tensor *t);
#endif
