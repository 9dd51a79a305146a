/* Taper: tensors, tape-based automatic differentiation and neural networks in C. This header includes all the others.
 */
#ifndef TAPER_H
#define TAPER_H
#include <taper/amp.h>
#include <taper/audio.h>
#include <taper/autograd.h>
#include <taper/average.h>
#include <taper/base.h>
#include <taper/binding.h>
#include <taper/call.h>
#include <taper/checkpoint.h>
#include <taper/clip.h>
#include <taper/data.h>
#include <taper/debug.h>
#include <taper/ddp.h>
#include <taper/dist.h>
#include <taper/distribution.h>
#include <taper/device.h>
#include <taper/events.h>
#include <taper/fsdp.h>
#include <taper/functional.h>
#include <taper/gpu.h>
#include <taper/graph.h>
#include <taper/image.h>
#include <taper/io.h>
#include <taper/mesh.h>
#include <taper/nn.h>
#include <taper/ops.h> /* generated from tables/ */
#include <taper/optim.h>
#include <taper/parametrize.h>
#include <taper/pipeline.h>
#include <taper/print.h>
#include <taper/profile.h>
#include <taper/quantized.h>
#include <taper/random.h>
#include <taper/share.h>
#include <taper/schedule.h>
#include <taper/script.h>
#include <taper/sequence.h>
#include <taper/scaler.h>
#include <taper/sparse.h>
#include <taper/tensor.h>
#include <taper/tokenizer.h>
#include <taper/training.h>
#include <taper/transforms.h>
#endif
