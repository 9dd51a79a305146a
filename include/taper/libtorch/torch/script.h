/* What torch.jit saved: torch::jit::load. */
#pragma once
#include <torch/torch.h>
#include <torch/library.h>
