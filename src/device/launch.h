/* What launching a map, a fold and a scan have in common. */
#ifndef TPI_LAUNCH_H
#define TPI_LAUNCH_H
#include "device/device.h"
#include "tensor/overlap.h"

/* The dtype of a result of kind TPI_RESULT_* when the operator computes in `dtype`. */
tp_dtype tpi_result_dtype(int result, tp_dtype dtype);
/* The dtype of a fold's or scan's state variable: see device.h. */
static inline tp_dtype tpi_state_dtype(uint8_t type, tpi_ctype compute) {
    if (type < TPI_CTYPES) return tpi_ctype_dtype((tpi_ctype)type);
    if (type == TPI_CTYPES + 2)
        return compute == TPI_F32   ? TP_FLOAT64
               : compute == TPI_C64 ? TP_COMPLEX128
               : compute == TPI_I32 ? TP_INT64
                                    : tpi_ctype_dtype(compute);
    return type == TPI_CTYPES ? tpi_ctype_dtype(compute) : tpi_dtype_to_real(tpi_ctype_dtype(compute));
}
/* The same for kernels' parameters, as a compute type. */
static inline tpi_ctype tpi_param_ctype(uint8_t type, tpi_ctype compute) {
    if (type < TPI_CTYPES) return (tpi_ctype)type;
    if (type == TPI_CTYPES) return compute;
    return compute == TPI_C64 ? TPI_F32 : compute == TPI_C128 ? TPI_F64 : compute;
}
/* False and an error that names operator and dtype unless the table's `types` line lists the dtype's group. */
bool tpi_check_types(const char *op, uint16_t types, tp_dtype dtype);
/* false, and PyTorch's error that the operator is not there for the dtype. */
bool tpi_refuse_dtype(const char *op, tp_dtype dtype);
/* Parameters in the types that the kernel reads them in; among bools they are bools. */
void tpi_fill_params(tpi_param *out, int n, const uint8_t *types, tp_dtype dtype, tpi_ctype compute,
                     const tp_scalar *params);
/* False and PyTorch's error: a result of one dtype has no place in a tensor of the other. */
bool tpi_refuse_cast(tp_dtype result, tp_dtype wanted);
#endif
