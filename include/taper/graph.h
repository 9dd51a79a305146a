/* Graphs: what a piece of a program computed, recorded while it ran, to be run again without the program.
 *
 *     tp_capture *c = tp_capture_begin(TP_LIST(x));
 *     tp_tensor *y = model(x);                          // runs as always, and is recorded
 *     tp_compiled *g = tp_capture_end(c, TP_LIST(y));      // NULL: it cannot be repeated, and the error says why
 *     ...
 *     tp_compiled_run(g, TP_LIST(x2), &y2);                // the same steps on other values
 *
 * A graph is for inputs of the same shapes, dtypes, strides and devices (tp_compiled_fits); one that torch.export or
 * torch.jit wrote runs at other sizes too, where it was told that they change (tp_compiled_input_dim). Tensors that
 * were there before, like parameters, are used as they are at each run; random numbers are drawn anew. A backward
 * inside of the program puts gradients into leaves again at each run. Where gradients flow, a run is one node of the
 * tape, and its backward is part of the graph; gradients of gradients are not. Chains of pointwise operators run as
 * one, with the same bits. */
#ifndef TAPER_GRAPH_H
#define TAPER_GRAPH_H
#include <taper/tensor.h>

TP_BEGIN

typedef struct tp_capture tp_capture;
typedef struct tp_compiled tp_compiled;

/* From here on the thread's operators are recorded, until tp_capture_end or tp_capture_cancel. NULL and an error if a
 * capture is going on. */
TP_API tp_capture *tp_capture_begin(tp_tensors inputs);
/* What stands in the way of a graph, so far: a text, or NULL. tp_capture_on_break: called once, when it comes up. */
TP_API const char *tp_capture_broken(const tp_capture *capture);
TP_API void tp_capture_on_break(tp_capture *capture, void (*told)(const char *why, void *context), void *context);
TP_API bool tp_capture_break(
    const char *why); /* the program itself says that it cannot be repeated; false if nothing is captured */
TP_API bool tp_capturing(void);
/* Runs a call of the program's own, unrecorded: what it does is its affair (an optimiser's step with the rates of the
 * day). While a capture goes on, each run of the graph makes the call again at its place; the graph keeps the context.
 * `drop` (may be NULL) frees it, at once if nothing is captured. */
TP_API bool tp_capture_call(bool (*run)(void *context), void (*drop)(void *context), void *context);
/* A tensor that the program made from plain numbers, which come out the same each time. */
TP_API bool tp_capture_constant(tp_tensor *t);
/* Ends the capture; outputs are what runs give. The outputs keep the history they have. */
TP_API tp_compiled *tp_capture_end(tp_capture *capture, tp_tensors outputs);
TP_API void tp_capture_cancel(tp_capture *capture);

/* One more reference to the graph, which it returns. */
TP_API tp_compiled *tp_compiled_retain(tp_compiled *graph);
TP_API void tp_compiled_release(tp_compiled *graph); /* NULL is fine */
/* How many inputs the graph takes, and how many outputs it gives. */
TP_API int64_t tp_compiled_inputs(const tp_compiled *graph);
TP_API int64_t tp_compiled_outputs(const tp_compiled *graph);
TP_API int64_t tp_compiled_steps(const tp_compiled *graph); /* of the forward; a chain that runs as one counts once */
/* Can the graph run on these, with the modes as they are now? No error if not. */
TP_API bool tp_compiled_fits(const tp_compiled *graph, tp_tensors inputs);
/* Runs it; the outputs are the caller's or its scope's, like any operator's results. */
TP_API bool tp_compiled_run(tp_compiled *graph, tp_tensors inputs, tp_tensor **outputs);

/* How steps on a GPU are started, where the driver can start many as one (CUDA graphs): small graphs as one by default,
 * as their kernels are shorter than the time that launching them takes; all, or none. One that is started as one keeps
 * the memory of its results, and writes it again when nobody has them any more. */
typedef enum tp_replay { TP_REPLAY_DEFAULT, TP_REPLAY_LAUNCH_ONCE, TP_REPLAY_STEPS } tp_replay;
TP_API bool tp_compiled_set_replay(tp_compiled *graph, tp_replay how);

/* Writes the graph, without its backward, with the tensors it uses, in PyTorch's format; and brings it back, to run
 * with no program behind it. Loading executes nothing and refuses what does not fit together. The note is the caller's
 * text, NULL if there is none. */
TP_API bool tp_compiled_save(const tp_compiled *graph, const char *path, const char *note);
TP_API tp_compiled *tp_compiled_load(const char *path);
TP_API tp_compiled *
tp_compiled_load_with(const char *path, const tp_compiled *other); /* the same with the tensors of a graph that has the
                                                                      same values, such as the one that was saved */
TP_API const char *tp_compiled_note(const tp_compiled *graph);
/* The tensors of the program's that the graph uses (parameters, buffers), i from 0; borrowed, NULL beyond the last.
 * *value is their number in a file of the graph. */
TP_API tp_tensor *tp_compiled_tensor(const tp_compiled *graph, int64_t i, int64_t *value);
/* What an input looked like when it was captured: false and an error if there is none. */
TP_API bool tp_compiled_input(const tp_compiled *graph, int64_t i, tp_dtype *dtype, tp_ints *shape);
/* How large a dim of it may be: least and most are the same where it is fixed, most is INT64_MAX where nothing limits
 * it. A size that runs for the first time takes a moment, for the steps are planned for it; graphs of the last 16 sizes
 * are kept. */
TP_API bool tp_compiled_input_dim(const tp_compiled *graph, int64_t i, int64_t dim, int64_t *least, int64_t *most);

TP_END
#endif
