/* Are the arguments of a public function what they claim to be? Each answers false and leaves an error that names the
 * argument for what no program may pass: a tensor that was freed, a list without an array, a number, a dtype or a
 * layout that is none. What "not given" means (NULL, an empty list) passes: the operator itself knows whether it needs
 * the argument. */
#ifndef TPI_CHECK_ARGUMENTS_H
#define TPI_CHECK_ARGUMENTS_H
#include "tensor/tensor.h"
#include <taper/random.h>

static inline bool tpi_sound_tensor(const tp_tensor *t, const char *argument) {
    return !t || tpi_is_tensor(t, argument);
}
bool tpi_sound_tensors(tp_tensors list, const char *argument);
/* `v` and `n` of a list of anything else. */
bool tpi_refuse_list(const void *v, int64_t n, const char *argument);
static inline bool tpi_sound_list(const void *v, int64_t n, const char *argument) {
    return __builtin_expect(v ? n >= 0 : n == 0, 1) || tpi_refuse_list(v, n, argument);
}
/* The same for functions written by hand, whose error names them: TPI_LIST_GIVEN(names, n). */
bool tpi_list_there(const void *v, int64_t n, const char *function, const char *argument);
#define TPI_LIST_GIVEN(v, n)    tpi_list_there(v, n, __func__, #v)
#define TPI_TENSORS_GIVEN(list) tpi_list_there((list).v, (list).n, __func__, #list)
bool tpi_refuse_scalar(tp_scalar s, const char *argument);
static inline bool tpi_sound_scalar(tp_scalar s, bool optional, const char *argument) {
    return (s.kind > TP_SCALAR_NONE && s.kind <= TP_SCALAR_UINT) || (optional && s.kind == TP_SCALAR_NONE) ||
           tpi_refuse_scalar(s, argument);
}
/* An enumeration's number, 0 to count - 1. */
bool tpi_refuse_choice(int64_t number, const char *argument, const char *what);
static inline bool tpi_sound_choice(int64_t number, int64_t count, const char *argument, const char *what) {
    return (number >= 0 && number < count) || tpi_refuse_choice(number, argument, what);
}
/* TP_DEVICE_TYPES itself passes: Python names a device by it that nobody has, mps, and who looks devices up refuses it
 * in PyTorch's words. */
static inline bool tpi_sound_device(tp_device device, const char *argument) {
    return tpi_sound_choice(device.type, TP_DEVICE_TYPES + 1, argument, "a device");
}
static inline bool tpi_sound_dtype(tp_dtype dtype, bool optional, const char *argument) {
    return (dtype > TP_NO_DTYPE && dtype < TP_DTYPE_COUNT) || (optional && dtype == TP_NO_DTYPE) ||
           tpi_refuse_choice(dtype, argument, "a dtype");
}
static inline bool tpi_sound_generator(const tp_generator *g, const char *argument) {
    return !__builtin_expect(tpi_debugging, 0) || !tpi_ended(g, tpi_op_now, argument, "a generator");
}
bool tpi_sound_text(const char *text, const char *argument);
/* The size that a struct of the caller's begins with: without it nobody can know how much there is to read or fill. */
bool tpi_sound_size(int64_t size, const char *argument);
#endif
