/* Options of layers by the number of their dims: ConvOptions<2> is Conv2dOptions. */
#pragma once
#include <taper/cpp/layers.hpp>

namespace taper {
namespace nn {
#define TAPER_BY_DIMS_(Name)                                              \
    namespace by_dims {                                                   \
    template <size_t> struct Name##ByDims;                                \
    template <> struct Name##ByDims<1> { using type = Name##1dOptions; }; \
    template <> struct Name##ByDims<2> { using type = Name##2dOptions; }; \
    template <> struct Name##ByDims<3> { using type = Name##3dOptions; }; \
    }                                                                     \
    template <size_t D> using Name##Options = typename by_dims::Name##ByDims<D>::type
TAPER_BY_DIMS_(Conv);
TAPER_BY_DIMS_(ConvTranspose);
TAPER_BY_DIMS_(MaxPool);
TAPER_BY_DIMS_(AvgPool);
TAPER_BY_DIMS_(AdaptiveAvgPool);
TAPER_BY_DIMS_(AdaptiveMaxPool);
TAPER_BY_DIMS_(MaxUnpool);
TAPER_BY_DIMS_(ConstantPad);
TAPER_BY_DIMS_(ReflectionPad);
TAPER_BY_DIMS_(ReplicationPad);
TAPER_BY_DIMS_(ZeroPad);
#undef TAPER_BY_DIMS_
using activation_t = Text;
} // namespace nn
} // namespace taper
