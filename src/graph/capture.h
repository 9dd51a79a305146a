/* What the files of a capture share: capture.c, which records steps, capture_values.c, which knows the values of
 * tensors, and gradients.c, which records what happens to gradients. */
#ifndef TPI_CAPTURE_H
#define TPI_CAPTURE_H
#include "graph/graph.h"
#include "tensor/recorder.h"

enum { TPI_BUCKETS = 4096 };

struct tp_capture {
    tpi_recorder recorder; /* first: the recorder is the capture */
    tp_compiled *g;
    tpi_graph_memory memory;
    struct address_entry *by_data[TPI_BUCKETS], *by_storage[TPI_BUCKETS];
    struct family *families; /* what steps made, as long as it has memory */
    bool on, failed;         /* failed: no memory, an error is pending */
    bool walked;             /* a backward went into leaves, or .grad was set */
    char why[256];
    void (*told)(const char *why, void *context);
    void *context;
    const char *doing; /* the step that is recorded, for messages */
};

/* ---- capture.c ---- */
void tpi_capture_stop(tp_capture *c);
void tpi_capture_start(tp_capture *c);
void tpi_capture_abandon(tp_capture *c, const char *format, const char *what);
void tpi_capture_no_memory(tp_capture *c);
tpi_graph_step *tpi_capture_step(tp_capture *c, tpi_step_kind kind, int nin, int nout); /* NULL: the same */
/* ---- capture_values.c: a value's number, or -1: given up ---- */
int32_t tpi_capture_known(tp_capture *c, const tp_tensor *t); /* -1: it was not seen yet */
int32_t tpi_capture_add(tp_capture *c, tpi_value_kind kind, tp_tensor *t, int32_t of, int64_t offset);
int32_t tpi_capture_value(tp_capture *c, tp_tensor *t);             /* of what a step reads */
int32_t tpi_capture_result(tp_capture *c, tp_tensor *t, bool made); /* of what a step makes, or writes */
void tpi_capture_born(tp_capture *c, const tp_storage *storage);    /* a recorded operator made it */
bool tpi_capture_is_new(const tp_capture *c, const tp_tensor *t);   /* born, and no value yet */
void tpi_capture_free_unused(tp_capture *c);                        /* memory that the program is done with */
/* ---- gradients.c ---- */
void tpi_capture_watch_grads(tpi_recorder *r);                 /* fills in its functions of .grad */
bool tpi_capture_is_current(tp_capture *c, int32_t leaf_grad); /* a value that was some leaf's gradient: is it still? */
/* The backward of the outputs whose gradients flow through the graph's node. False: given up. */
bool tpi_capture_backward(tp_capture *c, tp_tensors outputs);
bool tpi_capture_is_spent(const tp_tensor *output); /* a backward has gone through it and kept nothing */
bool tpi_capture_check_walk(tp_capture *c);         /* is all that a backward inside went through part of the graph? */
#endif
