/* Printing under other names, for languages that subclass tensors. */
#ifndef TAPER_PRINT_H
#define TAPER_PRINT_H
#include <taper/tensor.h>

TP_BEGIN

/* Like tp_format, with another name before the parenthesis (NULL: "tensor") and other text in place of the elements
 * (NULL: the elements). */
TP_API int64_t tp_format_as(const tp_tensor *t, const char *name, const char *contents, char *out, size_t room);

TP_END
#endif
