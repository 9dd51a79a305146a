/* Taper in C++17, header only: tensors with operators and methods, modules, optimisers, data, files. Link with
 * libtaper.
 *
 *     taper::nn::Sequential net{taper::nn::Linear(2, 16), taper::nn::Tanh(), taper::nn::Linear(16, 1)};
 *     taper::optim::Adam adam(net->parameters(), 1e-2);
 *     for (int step = 0; step < 100; step++) {
 *         adam.zero_grad();
 *         taper::mse_loss(net->forward(x), y).backward();
 *         adam.step();
 *     }
 *
 * Names are LibTorch's: docs/cpp.md. torch/torch.h, in the folder libtorch beside this file, has them under torch::. */
#pragma once
#include <taper/cpp/autograd.hpp>
#include <taper/cpp/base.hpp>
#include <taper/cpp/containers.hpp>
#include <taper/cpp/data.hpp>
#include <taper/cpp/dims_options.hpp>
#include <taper/cpp/indexing.hpp>
#include <taper/cpp/jit.hpp>
#include <taper/cpp/layers.hpp>
#include <taper/cpp/losses.hpp>
#include <taper/cpp/module.hpp>
#include <taper/cpp/node.hpp>
#include <taper/cpp/optim.hpp>
#include <taper/cpp/print.hpp>
#include <taper/cpp/sequence.hpp>
#include <taper/cpp/serialize.hpp>
#include <taper/cpp/tensor.hpp>
#include <taper/cpp/transformers.hpp>
#include <taper/cpp/value.hpp>
