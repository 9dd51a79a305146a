/* Whether all elements lie in a range, on GPUs: only the answer comes to the host. */
#include "ops/gpu/kernel.h"
#include "tpi_ops.h"

bool tpi_gpu_within(tp_tensor *self, double low, double high, bool *out) {
    if (!tpi_gpu_floats(self) || !self->numel) return false;
    if (tpi_device(self).type == TP_META) return *out = true;
    tp_tensor *x = tpi_detached(self), *above = x ? tpo_ge(x, tp_operand_double(low)) : NULL, *below = above ? tpo_le(x, tp_operand_double(high)) : NULL;
    tp_tensor *both = below ? tpo_logical_and(above, below) : NULL, *all = both ? tpo_all(both, tp_no_ints(), false) : NULL;
    tp_scalar answer = all ? tp_item_scalar(all) : tp_no_scalar();
    tpi_release(x), tpi_release(above), tpi_release(below), tpi_release(both), tpi_release(all);
    if (answer.kind == TP_SCALAR_NONE) return false;
    *out = tp_scalar_to_double(answer) != 0;
    return true;
}
