/* What must compile without a warning, as a program in strict C11 has it: numbers of every type, options by name,
 * blocks after if and else. */
#include <complex.h>
#include <taper/taper.h>

int main(void) {
    tp_tensor *x = tp_ones(TP_INTS(2, 2));
    const tp_tensor *same = x;
    tp_adam_options adam = TP_DEFAULTS(ADAM);
    tp_fsdp_options fsdp = TP_DEFAULTS(FSDP);
    if (adam.lr != 1e-3 || adam.size != sizeof adam || fsdp.size != sizeof fsdp) return 1;
    for (int step = 0; step < 2; step++) {
        TP_SCOPE_HERE;
        TP_NO_GRAD_HERE;
        TP_AUTOCAST_HERE(TP_BFLOAT16);
        tp_mul(x, true);
        tp_mul(x, (char)1);
        tp_mul(x, (signed char)1);
        tp_mul(x, (unsigned char)1);
        tp_mul(x, (short)1);
        tp_mul(x, (unsigned short)1);
        tp_mul(x, 1);
        tp_mul(x, 1u);
        tp_mul(x, 1l);
        tp_mul(x, 1ul);
        tp_mul(x, 1ll);
        tp_mul(x, 1ull);
        tp_mul(x, sizeof x);
        tp_mul(x, (int64_t)1);
        tp_mul(x, 1.f);
        tp_mul(x, 1.);
        tp_mul(x, 1.L);
        tp_mul(x, (float)1 * I);
        tp_mul(x, 1. * I);
        tp_mul(x, (long double)1 * I);
        tp_mul(x, TP_FLOAT32);
        tp_mul(same, same);
        tp_mul(x, tp_int(1));
        tp_mul(x, tp_operand_tensor(x));
        tp_full(TP_INTS(1), 2.L);
        tp_full(TP_INTS(1), 2. * I);
        tp_full(TP_INTS(1), 2ull);
        tp_full(TP_INTS(1), tp_float(2));
        tp_sum(x);
        tp_sum(x, .keepdim = true);
        tp_sum(x, .dim = TP_INTS(0), .keepdim = true);
        tp_sum(x, .dim = tp_shape(x), .dim = TP_INTS(1));
        tp_add(x, x, .alpha = tp_int(2));
        tp_call("softmax", x, 1);
        tp_call("mul", same, 1ull);
        tp_cat(TP_LIST(x, x), .dim = 1);
        if (step == 1) break;
    }
    if (tp_ok())
        TP_SCOPE
            tp_relu(x);
    else
        TP_NO_GRAD {
            tp_relu(x);
        }
    tp_release(x);
    if (tp_ok()) return 0;
    puts(tp_error());
    return 1;
}
