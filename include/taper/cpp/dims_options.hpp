/* Options of layers by the number of their dims: ConvOptions<2> is Conv2dOptions. */
#pragma once
#include <taper/cpp/layers.hpp>

namespace taper {
namespace nn {
#define TAPER_BY_DIMS_(Name, Kind)                                             \
    namespace by_dims {                                                        \
    template <size_t> struct Name##Kind##ByDims;                               \
    template <> struct Name##Kind##ByDims<1> { using type = Name##1d##Kind; }; \
    template <> struct Name##Kind##ByDims<2> { using type = Name##2d##Kind; }; \
    template <> struct Name##Kind##ByDims<3> { using type = Name##3d##Kind; }; \
    }                                                                          \
    template <size_t D> using Name##Kind = typename by_dims::Name##Kind##ByDims<D>::type
TAPER_BY_DIMS_(Conv, Options);
TAPER_BY_DIMS_(ConvTranspose, Options);
TAPER_BY_DIMS_(MaxPool, Options);
TAPER_BY_DIMS_(AvgPool, Options);
TAPER_BY_DIMS_(AdaptiveAvgPool, Options);
TAPER_BY_DIMS_(AdaptiveMaxPool, Options);
TAPER_BY_DIMS_(MaxUnpool, Options);
TAPER_BY_DIMS_(ConstantPad, Options);
TAPER_BY_DIMS_(ReflectionPad, Options);
TAPER_BY_DIMS_(ReplicationPad, Options);
TAPER_BY_DIMS_(ZeroPad, Options);
TAPER_BY_DIMS_(LPPool, Options);
template <size_t D>
using FractionalMaxPoolOptions = std::conditional_t<D == 2, FractionalMaxPool2dOptions, FractionalMaxPool3dOptions>;
using BatchNormOptions = BatchNorm1dOptions; /* one struct for all numbers of dims */
using InstanceNormOptions = InstanceNorm1dOptions;
using activation_t = Text;
namespace functional {
TAPER_BY_DIMS_(Conv, FuncOptions);
TAPER_BY_DIMS_(ConvTranspose, FuncOptions);
TAPER_BY_DIMS_(MaxPool, FuncOptions);
TAPER_BY_DIMS_(AvgPool, FuncOptions);
TAPER_BY_DIMS_(MaxUnpool, FuncOptions);
using MultilabelMarginLossFuncOptions = MultiLabelMarginLossFuncOptions;
using MultilabelSoftMarginLossFuncOptions = MultiLabelSoftMarginLossFuncOptions;
} // namespace functional
#undef TAPER_BY_DIMS_
} // namespace nn
} // namespace taper
