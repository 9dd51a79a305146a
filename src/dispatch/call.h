/* Boxed values to C values and back; the list of operators that opgen writes. */
#ifndef TPI_CALL_H
#define TPI_CALL_H
#include "tensor/tensor.h"
#include <taper/call.h>

/* The record of one operator, by its C name: a name that is not in the tables does not link. */
#define TPI_OPERATOR(cname)                            \
    __extension__({                                    \
        extern const tp_operator tpi_operator_##cname; \
        &tpi_operator_##cname;                         \
    })

/* Do the sizes of this call's results depend on values? args: where each argument is. */
bool tpi_has_dynamic_shape(const tp_operator *op, void *const *args);

/* Each takes the value of the argument `name` into *out, which holds the default: TP_K_NONE keeps it, unless it is
 * required. */
bool tpi_unbox_tensor(const tp_value *v, const char *name, bool required, tp_tensor **out);
bool tpi_unbox_tensors(const tp_value *v, const char *name, bool required, tp_tensors *out);
bool tpi_unbox_operand(const tp_value *v, const char *name, bool required, tp_operand *out);
bool tpi_unbox_scalar(const tp_value *v, const char *name, bool required, tp_scalar *out);
bool tpi_unbox_int(const tp_value *v, const char *name, bool required, int64_t *out);
bool tpi_unbox_ints(const tp_value *v, const char *name, bool required, tp_ints *out);
bool tpi_unbox_float(const tp_value *v, const char *name, bool required, double *out);
bool tpi_unbox_floats(const tp_value *v, const char *name, bool required, tp_floats *out);
bool tpi_unbox_scalars(const tp_value *v, const char *name, bool required, tp_scalars *out);
bool tpi_unbox_truth(const tp_value *v, const char *name, bool required, int64_t *out);
bool tpi_unbox_bool(const tp_value *v, const char *name, bool required, bool *out);
bool tpi_unbox_string(const tp_value *v, const char *name, bool required, const char **out);
bool tpi_unbox_dtype(const tp_value *v, const char *name, bool required, tp_dtype *out);
bool tpi_unbox_device(const tp_value *v, const char *name, bool required, tp_device *out);
bool tpi_unbox_layout(const tp_value *v, const char *name, bool required, tp_layout *out);
bool tpi_unbox_generator(const tp_value *v, const char *name, bool required, tp_generator **out);
#endif
