/* Indexing as Python has it: x.index({Slice(1, None), "...", 0, mask}). */
#pragma once
#include <taper/cpp/tensor.hpp>

namespace taper {
namespace indexing {
inline constexpr std::nullopt_t None = std::nullopt;
struct EllipsisIndexType {};
inline constexpr EllipsisIndexType Ellipsis{};

struct Slice {
    Slice(std::optional<int64_t> start = std::nullopt, std::optional<int64_t> stop = std::nullopt,
          std::optional<int64_t> step = std::nullopt)
        : start(start), stop(stop), step(step.value_or(1)) {}
    std::optional<int64_t> start, stop;
    int64_t step;
};

class TensorIndex {
  public:
    enum Kind { kNone, kEllipsis, kInteger, kBoolean, kSlice, kTensor };
    TensorIndex(std::nullopt_t) : kind(kNone) {}
    TensorIndex(EllipsisIndexType) : kind(kEllipsis) {}
    TensorIndex(const char *dots) : kind(kEllipsis) {
        if (std::string_view(dots) != "...")
            detail::raise(TP_ERR_VALUE,
                          "Expected \"...\" to represent an ellipsis index, but got \"" + std::string(dots) + "\"");
    }
    TensorIndex(bool b) : kind(kBoolean), integer(b) {}
    template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
    TensorIndex(T i) : kind(kInteger), integer(static_cast<int64_t>(i)) {}
    TensorIndex(Slice s) : kind(kSlice), slice(s) {}
    TensorIndex(Tensor t) : kind(kTensor), tensor(std::move(t)) {}
    Kind kind;
    int64_t integer = 0;
    Slice slice;
    Tensor tensor;
};

/* The view that plain indices give; index tensors and masks stay for `picks`, one entry for each dim of the view. */
inline Tensor view_of(const Tensor &self, ArrayRef<TensorIndex> indices, std::vector<Tensor> &picks) {
    int64_t taken = 0;
    for (const TensorIndex &i : indices) {
        if (i.kind == TensorIndex::kInteger || i.kind == TensorIndex::kSlice) taken++;
        if (i.kind == TensorIndex::kTensor) {
            const bool mask = i.tensor.scalar_type() == kBool || i.tensor.scalar_type() == kByte;
            taken += mask ? i.tensor.dim() : 1;
        }
    }
    if (taken > self.dim())
        detail::raise(TP_ERR_INDEX, detail::text("too many indices for tensor of dimension ", self.dim()));
    Tensor view = self;
    int64_t dim = 0;
    bool any = false;
    for (const TensorIndex &i : indices) {
        switch (i.kind) {
        case TensorIndex::kNone:
            view = view.unsqueeze(dim++);
            picks.emplace_back();
            break;
        case TensorIndex::kEllipsis:
            for (int64_t k = 0; k < self.dim() - taken; k++, dim++) picks.emplace_back();
            break;
        case TensorIndex::kInteger: view = view.select(dim, i.integer); break;
        case TensorIndex::kSlice:
            view = view.slice(dim++, i.slice.start, i.slice.stop, i.slice.step);
            picks.emplace_back();
            break;
        case TensorIndex::kBoolean:
            view = view.unsqueeze(dim++);
            picks.push_back(i.integer ? zeros({1}, kLong) : empty({0}, kLong));
            any = true;
            break;
        case TensorIndex::kTensor:
            picks.push_back(i.tensor.scalar_type() == kByte ? i.tensor.to(kBool) : i.tensor);
            dim += i.tensor.scalar_type() == kBool || i.tensor.scalar_type() == kByte ? i.tensor.dim() : 1;
            any = true;
            break;
        }
    }
    if (!any) picks.clear();
    return view;
}
} // namespace indexing

inline Tensor Tensor::index(ArrayRef<indexing::TensorIndex> indices) const {
    std::vector<Tensor> picks;
    Tensor view = indexing::view_of(*this, indices, picks);
    return picks.empty() ? view : taper::index(view, picks);
}
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
    return index(ArrayRef<indexing::TensorIndex>(indices));
}
inline Tensor &Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor &value) const {
    std::vector<Tensor> picks;
    Tensor view = indexing::view_of(*this, indices, picks);
    if (picks.empty()) {
        Tensor given = value.to(device(), scalar_type());
        while (given.dim() > view.dim() && given.size(0) == 1) given = given.squeeze(0);
        view.copy_(given);
    } else
        taper::index_put_(view, picks, value.to(device(), scalar_type()));
    return self();
}
inline Tensor &Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor &value) const {
    return index_put_(ArrayRef<indexing::TensorIndex>(indices), value);
}
inline Tensor &Tensor::index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar &value) const {
    return index_put_(indices, scalar_tensor(value, options()));
}
inline Tensor &Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar &value) const {
    return index_put_(ArrayRef<indexing::TensorIndex>(indices), value);
}
inline Tensor Tensor::operator[](const Tensor &i) const {
    return i.dim() == 0 && isIntegralType(i.scalar_type(), false) ? select(0, i.item<int64_t>()) : index({i});
}
} // namespace taper
