/* Sequences of different lengths: padded to one tensor, or packed step by step for recurrent layers. */
#pragma once
#include <taper/cpp/tensor.hpp>
#include <taper/sequence.h>

namespace taper {
namespace nn {
namespace utils {
namespace rnn {
class PackedSequence {
  public:
    PackedSequence() = default;
    explicit PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {}, Tensor unsorted_indices = {})
        : data_(std::move(data)), batch_sizes_(std::move(batch_sizes)), sorted_(std::move(sorted_indices)),
          unsorted_(std::move(unsorted_indices)) {}
    /* Takes what a function of C made. */
    explicit PackedSequence(const tp_packed &made)
        : data_(Tensor::steal(made.data)), batch_sizes_(Tensor::steal(made.batch_sizes)),
          sorted_(Tensor::steal(made.sorted_indices)), unsorted_(Tensor::steal(made.unsorted_indices)) {
        detail::check(made.data != nullptr);
    }
    const Tensor &data() const { return data_; }
    const Tensor &batch_sizes() const { return batch_sizes_; }
    const Tensor &sorted_indices() const { return sorted_; }
    const Tensor &unsorted_indices() const { return unsorted_; }
    Device device() const { return data_.device(); }
    bool is_cuda() const { return data_.is_cuda(); }
    PackedSequence to(const TensorOptions &options) const {
        Tensor sorted = sorted_, unsorted = unsorted_;
        if (options.has_device() && sorted.defined()) {
            sorted = sorted.to(options.device());
            unsorted = unsorted.to(options.device());
        }
        return PackedSequence(data_.to(options), batch_sizes_, sorted, unsorted);
    }
    PackedSequence cpu() const { return to(TensorOptions(Device(kCPU))); }
    PackedSequence cuda() const { return to(TensorOptions(Device(kCUDA))); }
    tp_packed c_packed() const {
        tp_packed p;
        p.data = data_.get();
        p.batch_sizes = batch_sizes_.get();
        p.sorted_indices = sorted_.get();
        p.unsorted_indices = unsorted_.get();
        return p;
    }

  private:
    Tensor data_, batch_sizes_, sorted_, unsorted_;
};

inline PackedSequence pack_padded_sequence(const Tensor &input, const Tensor &lengths, bool batch_first = false,
                                           bool enforce_sorted = true) {
    return PackedSequence(tp_pack_padded_sequence(input.get(), lengths.get(), batch_first, enforce_sorted));
}
inline std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence &sequence, bool batch_first = false,
                                                      double padding_value = 0.0,
                                                      std::optional<int64_t> total_length = std::nullopt) {
    tp_tensor *lengths = nullptr;
    Tensor padded = detail::take(tp_pad_packed_sequence(sequence.c_packed(), batch_first, padding_value,
                                                        total_length ? *total_length : TP_NONE, &lengths));
    return {padded, Tensor::steal(lengths)};
}
inline Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first = false, double padding_value = 0) {
    return detail::take(tp_pad_sequence(detail::c_tensors(sequences), batch_first, padding_value));
}
inline PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted = true) {
    return PackedSequence(tp_pack_sequence(detail::c_tensors(sequences), enforce_sorted));
}
inline Tensor invert_permutation(const Tensor &permutation) {
    if (!permutation.defined()) return Tensor();
    return empty_like(permutation).scatter_(0, permutation, arange(permutation.numel(), permutation.options()));
}
} // namespace rnn
} // namespace utils
} // namespace nn
} // namespace taper
