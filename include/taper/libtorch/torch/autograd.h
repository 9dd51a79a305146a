#pragma once
#include <torch/library.h>
#include <torch/torch.h>
