#pragma once
#include <taper/cpp/distributed.hpp>
#include <torch/types.h>
namespace c10d {
using namespace taper::c10d;
}
