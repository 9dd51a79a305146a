/* Fills in the table of calls upwards (tensor/upcalls.h). */
#include "tensor/upcalls.h"
#include "autograd/node.h"
#include "device/device.h"
#include "device/gpu/program.h"
#include "ops/kernels.h"
#include "ops/native.h"
#include "tpi_ops.h"
#include <taper/autograd.h>

const tpi_upcalls tpi_above = {.alloc = tpi_device_alloc,
                               .free = tpi_device_free,
                               .copy = tpi_device_copy,
                               .fill = tpi_device_fill,
                               .free_history = tpi_history_free,
                               .new_view = tpi_history_of_view,
                               .requires_grad = tp_requires_grad,
                               .grad_fn_name = tp_grad_fn_name,
                               .is_leaf = tp_is_leaf,
                               .cast = tpi_to_dtype,
                               .resolve = tpo_resolve_marks,
                               .conj_or_neg = tpi_conj_or_neg,
                               .marked_view = tpi_marked_view,
                               .write_back = tpi_write_back,
                               .operators = tpi_operators,
                               .noperators = &tpi_operator_total,
                               .kernel_texts = tpi_kernel_texts};
