/* Averages of a network's weights over a training: EMA (what came before counts `decay`) and SWA (all that came count
 * alike). As PyTorch's AveragedModel, with its names in states: "module.fc.weight", "n_averaged".
 *
 *     tp_module *average = tp_average_new(net, 0.999, false);
 *     for (...) { ... tp_step(adam); tp_average_update(average, net); }
 *     tp_forward(average, x);                      // the averaged network's answer
 *     tp_module_release(average);
 */
#ifndef TAPER_AVERAGE_H
#define TAPER_AVERAGE_H
#include <taper/data.h>
#include <taper/nn.h>

TP_BEGIN

/* A module with a copy of the network, "module", and how many networks it has seen, "n_averaged". decay from 0 to 1, or
 * NaN for an average in which all count alike. use_buffers: buffers are averaged too, not copied. */
TP_API tp_module *tp_average_new(const tp_module *net, double decay, bool use_buffers);
TP_API bool tp_average_update(tp_module *average, tp_module *net); /* takes the network's weights in */
/* The running statistics of all batch norms, anew from an epoch of the loader's field 0: an average's own were those of
 * no network. */
TP_API bool tp_update_bn(tp_module *net, tp_loader *loader);

TP_END
#endif
