/* Recording what a thread computes, for graphs (src/graph). Who computes tells the thread's recorder, if there is one,
 * what was done, after it was done: launches of kernels, plain copies and fills, native operators and views by name,
 * memory that was made, and values that the program looked at, which no graph can repeat. A step tells of itself alone:
 * while it runs there is no recorder. */
#ifndef TPI_RECORDER_H
#define TPI_RECORDER_H
#include "tensor/tensor.h"

struct tpi_map_op;
struct tpi_fold_op;
struct tpi_scan_op;

typedef struct tpi_custom {
    const char *name;
    bool (*run)(void *context, tp_tensors in, tp_tensor **out); /* out: owned by the caller */
    void (*drop)(void *context);                                /* may be NULL */
    void *context;
} tpi_custom;

typedef struct tpi_recorder tpi_recorder;
struct tpi_recorder {
    /* made: `result` is new; otherwise it was written in place. */
    void (*map)(tpi_recorder *r, const struct tpi_map_op *op, tp_tensor *result, bool made, const tp_operand *in,
                const tp_scalar *params);
    void (*fold)(tpi_recorder *r, const struct tpi_fold_op *op, tp_tensor *const *results, tp_tensor *x, tp_ints dims,
                 bool keepdim, tp_dtype dtype, const tp_scalar *params);
    void (*scan)(tpi_recorder *r, const struct tpi_scan_op *op, tp_tensor *const *results, tp_tensor *x, int64_t dim,
                 tp_dtype dtype, const tp_scalar *params);
    void (*copy)(tpi_recorder *r, tp_tensor *dst, const tp_tensor *src);
    void (*fill)(tpi_recorder *r, tp_tensor *dst, tp_scalar value);
    /* An operator by its entry's name and letters (src/dispatch/detour.h). */
    void (*call)(tpi_recorder *r, const char *name, const char *letters, void *const *args, int64_t n,
                 tp_tensor *const *results);
    /* Anything else that was done to tensors, to be done again by `done->run`; the recorder takes its context over.
     * `out` is new, `in` may have been written. */
    void (*custom)(tpi_recorder *r, const struct tpi_custom *done, tp_tensors in, tp_tensors out);
    void (*accumulated)(tpi_recorder *r, tp_tensor *leaf, tp_tensor *grad); /* by a backward, into leaf.grad */
    void (*set_grad)(tpi_recorder *r, tp_tensor *t, tp_tensor *grad); /* t.grad is about to become grad, or NULL */
    void (*read_grad)(tpi_recorder *r, tp_tensor *t,
                      tp_tensor *grad); /* the program sees t.grad, or that there is none */
    void (*born)(tpi_recorder *r, const tp_storage *storage);
    void (*looked)(tpi_recorder *r, const tp_tensor *t);
    void (*marked)(tpi_recorder *r); /* a lazy conjugate or negative view was met, which no graph holds */
    bool ended;                      /* it wants to hear no more */
};

extern TPI_THREAD_LOCAL tpi_recorder *tpi_recording; /* NULL: nobody records */

/* The program is about to see, or to change unseen, elements of t. */
static inline void tpi_looked(const tp_tensor *t) {
    if (__builtin_expect(tpi_recording != NULL, 0)) tpi_recording->looked(tpi_recording, t);
}
/* A marked tensor (tensor/tensor.h) was made or is used. */
static inline void tpi_met_mark(void) {
    if (__builtin_expect(tpi_recording != NULL, 0)) tpi_recording->marked(tpi_recording);
}
#endif
