/* ATen's checks of a function's arguments: at::checkDim(c, {x, "x", 0}, 2) and their like. */
#pragma once
#include <taper/cpp/macros.hpp>

namespace taper {
/* The function that checks its arguments. */
using CheckedFrom = const char *;
/* A tensor, its argument's name, and the argument's place, from 1 on; 0 for self. */
struct TensorGeometryArg {
    TensorGeometryArg(const Tensor &t, const char *n, int p) : tensor(t), name(n), pos(p) {}
    const Tensor &tensor;
    const char *name;
    int pos;
    const Tensor *operator->() const { return &tensor; }
    const Tensor &operator*() const { return tensor; }
};
using TensorArg = TensorGeometryArg;
inline std::ostream &operator<<(std::ostream &out, const TensorArg &t) {
    if (t.pos == 0) return out << "'" << t.name << "'";
    return out << "argument #" << t.pos << " '" << t.name << "'";
}
namespace detail {
template <class... A> inline void argument_check(bool good, CheckedFrom c, const A &...parts) {
    if (!good) raise(TP_ERR_RUNTIME, text(parts..., " (while checking arguments for ", c, ")"));
}
template <class F> inline void each_of(ArrayRef<TensorArg> tensors, const F &f) {
    for (const TensorArg &t : tensors)
        if (t->defined()) f(t);
}
} // namespace detail
inline void checkDim(CheckedFrom c, const TensorArg &t, int64_t dim) {
    detail::argument_check(t->dim() == dim, c, "Expected ", dim, "-dimensional tensor, but got ", t->dim(),
                           "-dimensional tensor for ", t);
}
inline void checkDim(CheckedFrom c, const Tensor &t, const char *name, int pos, int64_t dim) {
    checkDim(c, TensorArg(t, name, pos), dim);
}
inline void checkDimRange(CheckedFrom c, const TensorArg &t, int64_t from, int64_t to) {
    detail::argument_check(t->dim() >= from && t->dim() < to, c, "Expected ", from, " to ", to - 1,
                           " dimensions, but got ", t->dim(), "-dimensional tensor for ", t);
}
inline void checkContiguous(CheckedFrom c, const TensorArg &t) {
    detail::argument_check(t->is_contiguous(), c, "Expected contiguous tensor, but got non-contiguous tensor for ", t);
}
inline void checkAllContiguous(CheckedFrom c, ArrayRef<TensorArg> tensors) {
    detail::each_of(tensors, [&](const TensorArg &t) { checkContiguous(c, t); });
}
inline void checkSize(CheckedFrom c, const TensorArg &t, IntArrayRef sizes) {
    checkDim(c, t, static_cast<int64_t>(sizes.size()));
    detail::argument_check(t->sizes() == sizes, c, "Expected tensor of size ", sizes, ", but got tensor of size ",
                           t->sizes(), " for ", t);
}
inline void checkSize(CheckedFrom c, const TensorArg &t, int64_t dim, int64_t size) {
    detail::argument_check(t->size(dim) == size, c, "Expected tensor to have size ", size, " at dimension ", dim,
                           ", but got size ", t->size(dim), " for ", t);
}
inline void checkNumel(CheckedFrom c, const TensorArg &t, int64_t numel) {
    detail::argument_check(t->numel() == numel, c, "Expected tensor for ", t, " to have ", numel,
                           " elements; but it actually has ", t->numel(), " elements");
}
inline void checkSameNumel(CheckedFrom c, const TensorArg &a, const TensorArg &b) {
    detail::argument_check(a->numel() == b->numel(), c, "Expected tensor for ", a,
                           " to have same number of elements as tensor for ", b, "; but ", a->numel(),
                           " does not equal ", b->numel());
}
inline void checkSameSize(CheckedFrom c, const TensorArg &a, const TensorArg &b) {
    detail::argument_check(a->sizes() == b->sizes(), c, "Expected tensor for ", a, " to have same size as tensor for ",
                           b, "; but ", a->sizes(), " does not equal ", b->sizes());
}
inline void checkSameDim(CheckedFrom c, const TensorArg &a, const TensorArg &b) {
    detail::argument_check(a->dim() == b->dim(), c, "Expected tensor for ", a,
                           " to have the same dimension as tensor for ", b, "; but ", a->dim(), " does not equal ",
                           b->dim());
}
inline void checkScalarType(CheckedFrom c, const TensorArg &t, ScalarType type) {
    detail::argument_check(t->scalar_type() == type, c, "Expected tensor for ", t, " to have scalar type ", type,
                           "; but got ", t->scalar_type(), " instead");
}
inline void checkScalarTypes(CheckedFrom c, const TensorArg &t, ArrayRef<ScalarType> types) {
    bool good = false;
    for (ScalarType type : types) good |= t->scalar_type() == type;
    detail::argument_check(good, c, "Expected tensor for ", t, " to have one of the given scalar types; but got ",
                           t->scalar_type(), " instead");
}
inline void checkSameType(CheckedFrom c, const TensorArg &a, const TensorArg &b) {
    detail::argument_check(a->scalar_type() == b->scalar_type(), c, "Expected tensor for ", a,
                           " to have the same type as tensor for ", b, "; but type ", a->scalar_type(),
                           " does not equal ", b->scalar_type());
}
inline void checkAllSameType(CheckedFrom c, ArrayRef<TensorArg> tensors) {
    const TensorArg *first = nullptr;
    detail::each_of(tensors, [&](const TensorArg &t) {
        if (first) checkSameType(c, *first, t);
        if (!first) first = &t;
    });
}
inline void checkAllSameNumel(CheckedFrom c, ArrayRef<TensorArg> tensors) {
    const TensorArg *first = nullptr;
    detail::each_of(tensors, [&](const TensorArg &t) {
        if (first) checkSameNumel(c, *first, t);
        if (!first) first = &t;
    });
}
inline void checkDefined(CheckedFrom c, const TensorArg &t) {
    detail::argument_check(t->defined(), c, "Expected tensor for ", t, " to be non-null, but it was undefined");
}
inline void checkAllDefined(CheckedFrom c, ArrayRef<TensorArg> tensors) {
    for (const TensorArg &t : tensors) checkDefined(c, t);
}
inline void checkDeviceType(CheckedFrom c, const Tensor &t, DeviceType type) {
    detail::argument_check(!t.defined() || t.device().type() == type, c, "Expected tensor to have ", Device(type),
                           " DeviceType, but got tensor with ", t.device(), " DeviceType");
}
inline void checkDeviceType(CheckedFrom c, ArrayRef<Tensor> tensors, DeviceType type) {
    for (const Tensor &t : tensors) checkDeviceType(c, t, type);
}
inline void checkSameGPU(CheckedFrom c, const TensorArg &a, const TensorArg &b) {
    detail::argument_check(!a->device().is_cpu() && a->device() == b->device(), c, "Expected tensor for ", a,
                           " to be on the same GPU as tensor for ", b, "; but they are on ", a->device(), " and ",
                           b->device());
}

/* Is this thread below the kernels for Autograd? How deep. */
inline int &below_autograd() {
    thread_local int depth = 0;
    return depth;
}
/* Until the end of the scope, operators run their kernels for devices, without the tape. */
class AutoDispatchBelowADInplaceOrView {
  public:
    AutoDispatchBelowADInplaceOrView() { below_autograd()++; }
    AutoDispatchBelowADInplaceOrView(const AutoDispatchBelowADInplaceOrView &) = delete;
    ~AutoDispatchBelowADInplaceOrView() { below_autograd()--; }

  private:
    NoGradGuard guard_;
};
using AutoDispatchBelowAutograd = AutoDispatchBelowADInplaceOrView;
using AutoNonVariableTypeMode = AutoDispatchBelowADInplaceOrView;
} // namespace taper
