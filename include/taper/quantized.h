/* Numbers in eight bits: value = scale * (number - zero_point). As PyTorch's quantize_per_tensor, and its dynamic
 * quantization of linear and recurrent layers.
 *
 *     tp_quantize_dynamic(net);              // every Linear, LSTM and GRU keeps its weights in int8 from now on
 *     tp_tensor *y = tp_forward(net, x);     // inputs are rounded by what each call brings
 */
#ifndef TAPER_QUANTIZED_H
#define TAPER_QUANTIZED_H
#include <taper/nn.h>

TP_BEGIN

/* The scale and the zero point by which all numbers from `least` to `most`, and 0, fit the whole numbers from `lowest`
 * to `highest` (-128 to 127 of int8). */
TP_API bool tp_choose_qparams(double least, double most, int64_t lowest, int64_t highest, double *scale,
                              int64_t *zero_point);
/* The nearest whole numbers, as int8, uint8 or int32. */
TP_API tp_tensor *tp_quantize_per_tensor(tp_tensor *self, double scale, int64_t zero_point, tp_dtype dtype);
TP_API tp_tensor *tp_dequantize(tp_tensor *self, double scale, int64_t zero_point); /* float32 */
/* Quantized and turned back, with a gradient that passes where nothing was cut off. */
TP_API tp_tensor *tp_fake_quantize_per_tensor_affine(tp_tensor *self, double scale, int64_t zero_point,
                                                     int64_t quant_min, int64_t quant_max);

/* A module that computes what a Linear does with its weight in int8: buffers "weight" (int8) and "scale", and "bias".
 * The caller's; the layer stays as it is. */
TP_API tp_module *tp_quantized_linear(const tp_module *linear);
/* The same of an LSTM or a GRU: each weight is a buffer in int8 with its scale behind it ("weight_ih_l0_scale"), and is
 * turned back when the module runs; inputs and states stay floats, and there is no dropout. */
TP_API tp_module *tp_quantized_recurrent(const tp_module *recurrent);
/* Puts such modules in the place of all Linear, LSTM and GRU layers below m; how many, or -1 on failure. The network is
 * for inference then: it has no gradient to those weights. */
TP_API int64_t tp_quantize_dynamic(tp_module *m);

TP_END
#endif
