/* The thread's pending error: set once by the first failure, read by the caller through tp_error(). */
#ifndef TPI_ERROR_H
#define TPI_ERROR_H
#include <string.h>
#include <taper/base.h>

/* Thread-local variables on hot paths: reached without a call, from the static block that dlopen leaves room for (under
 * 1 KB for the whole library, so large things stay out of it). */
#define TPI_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* Records an error unless one is pending, and returns NULL so that `return tpi_fail(...)` serves any pointer.
 * The message is put behind the name of the operator the user called (tpi_op_enter), when inside one. Outside of any it
 * begins with the name of the public function: the one that leaves it, if it is about an argument or option of its own,
 * or the one that the program called, where the stack tells (tpi_called_function). */
#define tpi_fail(...) tpi_fail_in(__func__, __VA_ARGS__)
void *tpi_fail_in(const char *function, tp_code code, const char *format, ...) TP_PRINTF(3, 4);
/* The same for functions that return bool. */
#define tpi_refuse(...) (tpi_fail(__VA_ARGS__), false)

/* Adds a line to the pending error, if there is one and memory for it. */
void tpi_error_add(const char *text);

/* Out of memory, in numbers: the request, what is allocated and reserved, the largest free block. Needs no memory.
 * Returns NULL. */
void *tpi_fail_memory(size_t bytes, const char *what);

/* The outermost operator the thread is in; messages start with its name. Calls nest: only the outermost counts.
 *     const char *before = tpi_op_enter("softmax"); ... tpi_op_leave(before); */
extern TPI_THREAD_LOCAL const char *tpi_op_now;
static inline const char *tpi_op_enter(const char *name) {
    const char *before = tpi_op_now;
    if (!before) tpi_op_now = name;
    return before;
}
static inline void tpi_op_leave(const char *before) { tpi_op_now = before; }

/* The first line of a function whose effect outlives the call (a step, a save, a collective): while an error of this
 * thread stands it does nothing and returns `failed`. The caller has not seen yet that something failed, so what it
 * hands over may be old or half done. */
#define TPI_STOP_ON_ERROR(...)            \
    do {                                  \
        if (!tp_ok()) return __VA_ARGS__; \
    } while (0)

/* For functions that are given a pointer they need: false and an error "tp_step: argument 'o': expected an optimiser,
 * got NULL". `what` begins with an article. */
bool tpi_given(const void *pointer, const char *function, const char *argument, const char *what);
#define TPI_GIVEN(argument, what) tpi_given(argument, __func__, #argument, what)
/* For those that may be given NULL: true and an error for a handle that was released, where TAPER_DEBUG=1 knows it. */
extern bool tpi_debugging; /* TAPER_DEBUG=1; set when the library is loaded, and never changed */
bool tpi_ended(const void *handle, const char *function, const char *argument, const char *what);
#define TPI_ENDED(argument, what) (__builtin_expect(tpi_debugging, 0) && tpi_ended(argument, __func__, #argument, what))

/* Two arguments for "%s%s" in a message: " in mul" where the operator at work is not the one that the message begins
 * with. */
#define TPI_IN(op) tpi_is_inner(op) ? " in " : "", tpi_is_inner(op) ? (op) : ""
static inline bool tpi_is_inner(const char *op) { return !tpi_op_now || strcmp(tpi_op_now, op); }

/* "[2, 3]" into one of four rotating thread-local buffers, for messages. */
const char *tpi_shape_text(tp_ints shape);
#endif
