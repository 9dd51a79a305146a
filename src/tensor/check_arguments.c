/* See check_arguments.h. */
#include "tensor/check_arguments.h"

/* The array of a list or a state that was freed. */
static bool is_list_gone(const void *v, const char *argument) {
    return tpi_debugging && tpi_ended(v, tpi_op_now ? tpi_op_now : "list", argument, "a list");
}

bool tpi_sound_tensors(tp_tensors list, const char *argument) {
    if (!tpi_sound_list(list.v, list.n, argument) || is_list_gone(list.v, argument)) return false;
    for (int64_t i = 0; i < list.n; i++)
        if (!tpi_sound_tensor(list.v[i], argument)) return false;
    return true;
}

bool tpi_refuse_list(const void *v, int64_t n, const char *argument) {
    return tpi_refuse(TP_ERR_VALUE,
                      v ? "argument '%s': expected a list, got one of length %lld"
                        : "argument '%s': expected a list, got NULL with length %lld",
                      argument, (long long)n);
}

bool tpi_list_there(const void *v, int64_t n, const char *function, const char *argument) {
    const char *before = tpi_op_enter(function);
    bool ok = n == 0 || (tpi_sound_list(v, n, argument) && !is_list_gone(v, argument));
    tpi_op_leave(before);
    return ok;
}

bool tpi_refuse_scalar(tp_scalar s, const char *argument) {
    if (s.kind == TP_SCALAR_NONE)
        return tpi_refuse(TP_ERR_VALUE, "argument '%s': expected a number, got none", argument);
    return tpi_refuse(TP_ERR_TYPE, "argument '%s': expected a number, got a scalar of the unknown kind %lld", argument,
                      (long long)s.kind);
}

bool tpi_refuse_choice(int64_t number, const char *argument, const char *what) {
    return tpi_refuse(TP_ERR_TYPE, "argument '%s': expected %s, got number %lld", argument, what, (long long)number);
}

bool tpi_sound_size(int64_t size, const char *argument) {
    return size > 0 || tpi_refuse(TP_ERR_VALUE,
                                  "argument '%s': expected a struct that begins with its size, got size %lld: write "
                                  ".size = sizeof of it",
                                  argument, (long long)size);
}

bool tpi_sound_text(const char *text, const char *argument) {
    return text || tpi_refuse(TP_ERR_VALUE, "argument '%s': expected a text, got NULL", argument);
}
