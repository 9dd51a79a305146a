/* Typical mistakes, one for each CASE. One of the compiler's messages must match the pattern behind `says:`,
 * whichever compiler it is, and the mistake's own line with the function's name stands below it. Case 0 is right. */
#include <taper/taper.h>

void mistake(tp_tensor *x, tp_module *m, const char *s);
void mistake(tp_tensor *x, tp_module *m, const char *s) {
    (void)x;
    (void)m;
    (void)s;
    /* clang-format off */
#if CASE == 0
    tp_softmax(x, 1);
#elif CASE == 1 /* says: expected expression */
    /* a required argument is missing */
    tp_softmax(x);
#elif CASE == 2 /* says: implicit declaration of function .tp_sofmax */
    /* a name misspelt */
    tp_sofmax(x, 1);
#elif CASE == 3 /* says: (no member named|field designator) .dims.*did you mean .dim */
    /* an option misspelt */
    tp_sum(x, .dims = TP_INTS(0));
#elif CASE == 4 /* says: expected expression */
    tp_linear(x);
#elif CASE == 5 /* says: (argument 1 of .tp_softmax|.const char \*. to parameter of type .tp_tensor) */
    /* a text for a tensor */
    tp_softmax(s, 1);
#elif CASE == 6 /* says: too many arguments to function( .tp_relu| call, expected single argument .self) */
    /* one argument too many */
    tp_relu(x, x);
#elif CASE == 7 /* says: expected expression */
    tp_nn_linear(3);
#elif CASE == 8 /* says: (argument 1 of .tp_adam|parameter of incompatible type .tp_tensors) */
    /* a tensor for a list */
    tp_adam(x, .lr = 0.1);
#elif CASE == 9 /* says: (no member named|field designator) .learning_rate */
    /* an option that is none */
    tp_adam(TP_LIST(x), .learning_rate = 0.1);
#elif CASE == 10 /* says: (passing argument 1 of .tp_forward|to parameter of type .tp_module) */
    /* a tensor for a module */
    tp_forward(x, x);
#elif CASE == 11 /* says: (passing argument 1 of .tp_step|to parameter of type .tp_optimiser) */
    /* a module for an optimiser */
    tp_step(m);
#elif CASE == 12 /* says: (argument 2 of .tp_reshape|too many arguments to function call, expected 2) */
    /* numbers for a shape */
    tp_reshape(x, 2, 3);
#elif CASE == 13 /* says: (argument 1 of .tp_cat|parameter of incompatible type .tp_tensors) */
    tp_cat(x, .dim = 0);
#elif CASE == 14 /* says: (argument 2 of .tp_matmul|.double. to parameter of incompatible type .tp_tensor) */
    /* a number for a tensor */
    tp_matmul(x, 2.0);
#elif CASE == 15 /* says: (._Bool. using type .tp_ints|.bool. with an expression of incompatible type) */
    /* a list for a truth */
    tp_sum(x, .keepdim = TP_INTS(1));
#elif CASE == 16 /* says: too few arguments to function( .tp_relu| call, single argument .self) */
    tp_relu();
#elif CASE == 17 /* says: (argument 1 of .tp_zeros|.int. to parameter of incompatible type .tp_ints) */
    tp_zeros(2, 3);
#elif CASE == 18 /* says: .tp_module \*.*tp_tensor \* */
    /* a tensor among modules */
    tp_nn_sequential(tp_nn_linear(2, 3), x);
#elif CASE == 19 /* says: expected expression */
    tp_backward();
#elif CASE == 20 /* says: too few arguments to function( .tp_save| call, expected 4) */
    tp_save("x.pt", x);
#elif CASE == 21 /* says: (passing argument 1 of .tp_item|to parameter of type .const tp_tensor) */
    tp_item(m);
#elif CASE == 22 /* says: .(enum )?tp_dtype. */
    /* a text for a dtype */
    tp_randn(TP_INTS(2), .dtype = "float32");
#elif CASE == 23 /* says: .double. .*tp_tensor */
    /* a tensor is no number: tp_item gives one */
    double y = tp_sum(x);
    (void)y;
#elif CASE == 24 /* says: (no member named|field designator) .scale */
    tp_scaler_new(.scale = 2);
#elif CASE == 25 /* says: (argument 2 of .tp_max_pool2d|.int. to parameter of incompatible type .tp_ints) */
    tp_max_pool2d(x, 2);
#elif CASE == 26 /* says: (no member named|field designator) .batch_size */
    /* PyTorch's name of an option that is called otherwise */
    tp_loader_new(NULL, .batch_size = 4);
#elif CASE == 27 /* says: (write_TP_INTS_and_the_numbers|initializer for aggregate) */
    /* a number for a list */
    tp_conv2d(x, x, .padding = 1);
#elif CASE == 28 /* says: .const char \*.*int */
    tp_mse_loss(x, x, .reduction = 1);
#elif CASE == 29 /* says: (argument 2 of .tp_cross_entropy|.int. to parameter of type .tp_tensor) */
    tp_cross_entropy(x, 1);
#elif CASE == 30 /* says: (argument 2 of .tp_module_to|parameter of incompatible type .tp_dtype) */
    /* tp_module_to_device moves */
    tp_module_to(m, (tp_device){TP_CPU, 0});
#elif CASE == 31 /* says: flexible array member */
    /* an option without its name */
    tp_sum(x, TP_INTS(0));
#elif CASE == 32 /* says: (passing argument 2 of .tp_training_save|to parameter of type .const tp_training) */
    tp_training_save("x.pt", m);
#else
#error done
#endif
    /* clang-format on */
}
