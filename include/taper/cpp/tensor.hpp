/* Tensor: one counted reference to a tp_tensor, with PyTorch's operators and methods. The generated part of the class
 * is methods.inc, that of the functions operators.hpp. */
#pragma once
#include <taper/cpp/base.hpp>

namespace taper {
namespace autograd {
class Node;
}

/* An argument that may be a tensor or nothing. */
class OptionalTensor {
  public:
    OptionalTensor() = default;
    OptionalTensor(std::nullopt_t) {}
    inline OptionalTensor(const Tensor &t);
    inline OptionalTensor(const std::optional<Tensor> &t);
    tp_tensor *get() const { return t_; }

  private:
    tp_tensor *t_ = nullptr;
};

/* An argument that may be a tensor or a number. */
struct Operand : tp_operand {
    inline Operand(const Tensor &t);
    Operand(const Scalar &s) : tp_operand(tp_operand_scalar(s)) {}
    template <class T, class = decltype(Scalar(std::declval<T>())),
              class = std::enable_if_t<!std::is_convertible_v<T, tp_scalar>>>
    Operand(const T &v) : Operand(Scalar(v)) {}
};

namespace detail {
inline tp_tensors c_tensors(TensorList list);
inline Tensor take(tp_tensor *t);
inline Tensor made(tp_tensor *t, const TensorOptions &options);
inline Tensor &written(tp_tensor *result, const Tensor &t);
inline std::vector<Tensor> vector(tp_tensors list);
template <class... T> inline std::tuple<std::conditional_t<true, Tensor, T>...> several(T *...t);
inline bool plain(bool v) {
    check(v || tp_ok());
    return v;
}
inline int64_t plain(int64_t v) {
    check(tp_ok());
    return v;
}
inline double plain(double v) {
    check(tp_ok());
    return v;
}
inline Scalar plain(tp_scalar v) {
    check(tp_ok());
    return v;
}
template <class T, size_t N> class Accessor;
/* In var(x, 0) the number is a dim; in var(x, false) it is not. */
template <class I> using when_dim = std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>>;
} // namespace detail

namespace indexing {
class TensorIndex;
}
template <class T, size_t N> using TensorAccessor = detail::Accessor<T, N>;
class Storage;
class GradReference;
class DeprecatedTypeProperties;

class Tensor {
  public:
    Tensor() noexcept : impl_(nullptr) {}
    Tensor(const Tensor &other) : impl_(other.impl_ ? tp_retain(other.impl_) : nullptr) {}
    Tensor(Tensor &&other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
    ~Tensor() {
        if (impl_) tp_release(impl_);
    }
    Tensor &operator=(const Tensor &other) & {
        Tensor copy(other);
        std::swap(impl_, copy.impl_);
        return *this;
    }
    Tensor &operator=(Tensor &&other) &noexcept {
        std::swap(impl_, other.impl_);
        return *this;
    }
    /* x[0] = y and x.index(...) = y write into the tensor. */
    Tensor &operator=(const Tensor &other) && {
        copy_(other);
        return *this;
    }
    Tensor &operator=(Tensor &&other) && {
        copy_(other);
        return *this;
    }
    Tensor &operator=(const Scalar &value) && {
        fill_(value);
        return *this;
    }

    /* Takes over a reference that the caller owns; looks at one that somebody else owns. */
    static Tensor steal(tp_tensor *t) {
        Tensor result;
        result.impl_ = t;
        return result;
    }
    static Tensor borrow(tp_tensor *t) { return steal(t ? tp_retain(t) : nullptr); }
    tp_tensor *get() const { return impl_; }
    /* Hands the reference to the caller. */
    tp_tensor *release() { return std::exchange(impl_, nullptr); }
    void reset() { *this = Tensor(); }
    bool defined() const { return impl_ != nullptr; }
    bool has_storage() const { return defined(); }
    bool is_same(const Tensor &other) const { return impl_ == other.impl_; }
    size_t use_count() const { return impl_ ? static_cast<size_t>(tp_references(impl_)) : 0; }
    tp_tensor *unsafeGetTensorImpl() const { return impl_; }

    // ---- What it is: an undefined tensor has one dim of no elements, no dtype and no device ----
    int64_t dim() const { return impl_ ? tp_ndim(impl_) : 1; }
    int64_t ndimension() const { return dim(); }
    int64_t numel() const { return impl_ ? tp_numel(impl_) : 0; }
    int64_t nbytes() const { return numel() * element_size(); }
    int64_t element_size() const { return tp_item_bytes(given("itemsize()")); }
    int64_t itemsize() const { return element_size(); }
    IntArrayRef sizes() const { return impl_ ? ref(tp_shape(impl_)) : IntArrayRef(no_elements, 1); }
    IntArrayRef strides() const { return ref(tp_strides(given("strides()"))); }
    int64_t size(int64_t d) const {
        if (!impl_ && (d == 0 || d == -1)) return 0;
        if (!impl_)
            detail::raise(TP_ERR_INDEX,
                          detail::text("Dimension out of range (expected to be in range of [-1, 0], but got ", d, ")"));
        const int64_t n = tp_size(impl_, d);
        detail::check(n >= 0);
        return n;
    }
    int64_t stride(int64_t d) const {
        return sizes().size() ? strides().at(place(d)) : detail::plain(tp_stride(given("stride()"), d));
    }
    int64_t storage_offset() const { return impl_ ? tp_storage_offset(impl_) : 0; }
    TypeMeta dtype() const { return scalar_type(); }
    ScalarType scalar_type() const {
        return impl_ ? static_cast<ScalarType>(tp_dtype_of(impl_)) : ScalarType::Undefined;
    }
    Device device() const { return Device(tp_device_of(given("device()"))); }
    int64_t get_device() const { return device().is_cpu() ? -1 : tp_device_of(impl_).index; }
    Layout layout() const { return kStrided; }
    TensorOptions options() const { return TensorOptions(scalar_type()).device(device()).layout(kStrided); }
    bool is_cpu() const { return impl_ && tp_device_of(impl_).type == TP_CPU; }
    bool is_cuda() const { return impl_ && tp_device_of(impl_).type == TP_CUDA; }
    bool is_xpu() const { return impl_ && tp_device_of(impl_).type == TP_XPU; }
    bool is_hip() const { return impl_ && tp_device_of(impl_).type == TP_HIP; }
    bool is_meta() const { return impl_ && tp_device_of(impl_).type == TP_META; }
    bool is_sparse() const { return false; }
    bool is_sparse_csr() const { return false; }
    bool is_quantized() const { return false; }
    bool is_mkldnn() const { return false; }
    bool is_mps() const { return false; }
    bool is_xla() const { return false; }
    bool is_vulkan() const { return false; }
    bool is_privateuseone() const { return false; }
    bool is_conj() const { return impl_ && tp_is_conj(impl_); }
    bool is_neg() const { return impl_ && tp_is_neg(impl_); }
    bool is_uniquely_owned() const { return use_count() == 1; }
    bool is_nested() const { return false; }
    bool is_floating_point() const { return impl_ && tp_dtype_is_floating(tp_dtype_of(impl_)); }
    bool is_complex() const { return impl_ && tp_dtype_is_complex(tp_dtype_of(impl_)); }
    bool is_signed() const { return scalar_type() != kByte && scalar_type() != kBool; }
    bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
        return !impl_ || tp_is_contiguous_as(impl_, static_cast<tp_layout>(format));
    }
    bool is_non_overlapping_and_dense() const { return !impl_ || !tp_overlaps_itself(impl_); }
    MemoryFormat suggest_memory_format() const {
        if (dim() == 4 && !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast))
            return MemoryFormat::ChannelsLast;
        if (dim() == 5 && !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast3d))
            return MemoryFormat::ChannelsLast3d;
        return MemoryFormat::Contiguous;
    }
    bool is_view() const { return impl_ && tp_is_view(impl_); }
    bool is_alias_of(const Tensor &other) const {
        return impl_ && other.impl_ && tp_shares_storage(impl_, other.impl_);
    }
    bool is_set_to(const Tensor &o) const {
        return is_alias_of(o) && storage_offset() == o.storage_offset() && sizes() == o.sizes() &&
               strides() == o.strides();
    }
    std::string toString() const {
        if (!impl_) return "UndefinedType";
        return DeviceTypeName(device().type()) + taper::toString(scalar_type()) + "Type";
    }

    // ---- Elements ----
    void *data_ptr() const { return tp_data(given("data_ptr()")); }
    const void *const_data_ptr() const { return data_ptr(); }
    void *mutable_data_ptr() const { return data_ptr(); }
    template <class T> T *data_ptr() const {
        using V = std::remove_const_t<T>;
        if (CppTypeToScalarType<V>::value != scalar_type())
            detail::raise(TP_ERR_RUNTIME, detail::text("expected scalar type ", CppTypeToScalarType<V>::value,
                                                       " but found ", scalar_type()));
        return static_cast<T *>(data_ptr());
    }
    template <class T> const T *const_data_ptr() const { return data_ptr<std::remove_const_t<T>>(); }
    template <class T> T *mutable_data_ptr() const { return data_ptr<T>(); }
    template <class T> T *data() const { return data_ptr<T>(); }
    Scalar item() const { return detail::plain(tp_item_scalar(impl_)); }
    template <class T> T item() const { return item().to<T>(); }
    template <class T, size_t N> detail::Accessor<T, N> accessor() const &;
    template <class T, size_t N> detail::Accessor<T, N> packed_accessor32() const & { return accessor<T, N>(); }
    template <class T, size_t N> detail::Accessor<T, N> packed_accessor64() const & { return accessor<T, N>(); }
    bool is_nonzero() const { return tp_scalar_to_bool(item()); }
    Storage storage() const;

    // ---- Indexing ----
    Tensor operator[](int64_t i) const { return select(0, i); }
    Tensor operator[](const Scalar &i) const { return select(0, i.toLong()); }
    Tensor operator[](const Tensor &i) const;
    Tensor slice(int64_t dim = 0, std::optional<int64_t> start = std::nullopt,
                 std::optional<int64_t> end = std::nullopt, int64_t step = 1) const;
    Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
    Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
    Tensor &index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor &value) const;
    Tensor &index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor &value) const;
    Tensor &index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar &value) const;
    Tensor &index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar &value) const;

    // ---- Other places and dtypes (`to` with a dtype, options or a tensor is in the table) ----
    Tensor to(DeviceType type, bool non_blocking = false) const { return to(Device(type), std::nullopt, non_blocking); }
    Tensor to(TypeMeta t) const { return to(t.toScalarType()); }
    Tensor toType(ScalarType t) const { return to(t); }
    Tensor cpu() const { return to(kCPU); }
    Tensor cuda() const { return to(kCUDA); }
    Tensor xpu() const { return to(kXPU); }
    Tensor hip() const { return to(kHIP); }
    Tensor meta() const { return to(kMeta); }
    /* Of LibTorch's old interface: what a tensor is, which dispatch by type takes, too. */
    inline DeprecatedTypeProperties type() const;
    Tensor pin_memory() const { return *this; }
    bool is_pinned() const { return false; }
    template <class I, class = detail::when_dim<I>> Tensor var(I dim) const {
        return var(IntArrayRef(static_cast<int64_t>(dim)));
    }
    template <class I, class = detail::when_dim<I>> Tensor std(I dim) const {
        return std(IntArrayRef(static_cast<int64_t>(dim)));
    }
    Tensor sum(ScalarType dtype) const { return sum(std::nullopt, false, dtype); }
    Tensor mean(ScalarType dtype) const { return mean(std::nullopt, false, dtype); }
    Tensor &set_data(const Tensor &other) const {
        detail::check(tp_set_data(impl_, other.impl_));
        return self();
    }
    Tensor variable_data() const { return data(); }
    Tensor tensor_data() const { return data(); }
    Tensor data() const;
    Tensor &resize_(IntArrayRef size) const {
        detail::check(tp_resize(impl_, detail::c_ints(size)));
        return self();
    }
    Tensor &resize_as_(const Tensor &other) const { return resize_(other.sizes()); }
    Tensor &set_(const Tensor &source) const { return set_data(source); }

    // ---- Gradients ----
    bool requires_grad() const { return tp_requires_grad(impl_); }
    Tensor &requires_grad_(bool on = true) const {
        detail::check(tp_set_requires_grad(impl_, on) != nullptr);
        return self();
    }
    const Tensor &set_requires_grad(bool on) const { return requires_grad_(on); }
    bool is_leaf() const { return tp_is_leaf(impl_); }
    int64_t output_nr() const { return tp_output_nr(impl_); }
    int64_t _version() const { return impl_ ? tp_tensor_version(impl_) : 0; }
    void retain_grad() const { detail::check(tp_retain_grad(impl_)); }
    bool retains_grad() const { return tp_retains_grad(impl_); }
    bool is_inference() const { return tp_is_inference(impl_); }
    Tensor detach() const;
    Tensor &detach_() const {
        detail::check(tp_detach_(impl_));
        return self();
    }
    const Tensor &grad() const;
    GradReference mutable_grad() const;
    void set_grad(const Tensor &grad) const { detail::check(tp_set_grad(impl_, grad.impl_)); }
    void backward(const Tensor &gradient = {}, std::optional<bool> retain_graph = std::nullopt,
                  bool create_graph = false, std::optional<TensorList> inputs = std::nullopt) const;
    template <class F> unsigned register_hook(F &&hook) const;
    void remove_hook(unsigned handle) const { detail::check(tp_remove_hook(impl_, handle)); }
    std::shared_ptr<autograd::Node> grad_fn() const; /* node.hpp */
    const char *grad_fn_name() const { return tp_grad_fn_name(impl_); }

    void print() const;

    // ---- Operators of C++ ----
    Tensor operator~() const { return bitwise_not(); }
    Tensor operator-() const { return neg(); }
    Tensor &operator+=(const Operand &o) const { return add_(o), self(); }
    Tensor &operator-=(const Operand &o) const { return sub_(o), self(); }
    Tensor &operator*=(const Operand &o) const { return mul_(o), self(); }
    Tensor &operator/=(const Operand &o) const { return div_(o), self(); }
    Tensor &operator&=(const Operand &o) const { return bitwise_and_(o), self(); }
    Tensor &operator|=(const Operand &o) const { return bitwise_or_(o), self(); }
    Tensor &operator^=(const Operand &o) const { return bitwise_xor_(o), self(); }

#include <taper/cpp/methods.inc>

  private:
    static constexpr int64_t no_elements[1] = {0};
    Tensor &self() const { return const_cast<Tensor &>(*this); }
    tp_tensor *given(const char *asked) const {
        if (!impl_) detail::raise(TP_ERR_RUNTIME, detail::text(asked, " called on an undefined Tensor"));
        return impl_;
    }
    static IntArrayRef ref(tp_ints v) { return IntArrayRef(v.v, static_cast<size_t>(v.n)); }
    size_t place(int64_t d) const {
        size(d); /* an error where there is no such dim */
        return static_cast<size_t>(d < 0 ? d + dim() : d);
    }
    tp_tensor *impl_;
};
static_assert(sizeof(Tensor) == sizeof(tp_tensor *), "a list of tensors is an array of the C library's");

inline OptionalTensor::OptionalTensor(const Tensor &t) : t_(t.get()) {}
inline OptionalTensor::OptionalTensor(const std::optional<Tensor> &t) : t_(t ? t->get() : nullptr) {}
inline Operand::Operand(const Tensor &t) : tp_operand(tp_operand_tensor(t.get())) {}

namespace detail {
inline tp_tensors c_tensors(TensorList list) {
    return tp_list(static_cast<int64_t>(list.size()), reinterpret_cast<tp_tensor *const *>(list.data()));
}
inline Tensor take(tp_tensor *t) {
    if (__builtin_expect(!t, 0)) {
        fail();
        return Tensor();
    }
    return Tensor::steal(tp_own(t));
}
inline Tensor made(tp_tensor *t, const TensorOptions &options) {
    Tensor result = take(t);
    if (options.requires_grad() && result.defined()) result.requires_grad_(true);
    return result;
}
inline Tensor &written(tp_tensor *result, const Tensor &t) {
    check(result != nullptr);
    return const_cast<Tensor &>(t);
}
/* A list that a call has handed out: each tensor and the array are ours. */
inline std::vector<Tensor> vector(tp_tensors list) {
    if (!list.v) check(tp_ok());
    std::vector<Tensor> result;
    result.reserve(static_cast<size_t>(list.n));
    for (int64_t i = 0; i < list.n; i++) result.push_back(Tensor::borrow(list.v[i]));
    tp_release_all(list);
    return result;
}
template <class... T> inline std::tuple<std::conditional_t<true, Tensor, T>...> several(T *...t) {
    check(tp_ok());
    return std::make_tuple(Tensor::steal(t ? tp_own(t) : nullptr)...);
}
} // namespace detail

inline Tensor Tensor::detach() const { return detail::take(tp_detach(impl_)); }
inline Tensor Tensor::data() const { return detail::take(tp_data_alias(impl_)); }

/* The gradient as LibTorch hands it out: a reference, to an undefined tensor where there is none. The references live
 * until the thread has asked for sixteen others. */
inline const Tensor &Tensor::grad() const {
    thread_local Tensor kept[16];
    thread_local unsigned next = 0;
    Tensor &slot = kept[next++ % 16];
    slot = Tensor::borrow(tp_grad(impl_));
    return slot;
}
/* The gradient, to be put in another's place: x.mutable_grad() = g, x.mutable_grad().reset(). */
class GradReference : public Tensor {
  public:
    explicit GradReference(const Tensor &owner) : Tensor(owner.grad()), owner_(owner) {}
    GradReference(const GradReference &) = default;
    GradReference &operator=(const GradReference &other) { return *this = static_cast<const Tensor &>(other); }
    GradReference &operator=(const Tensor &grad) {
        owner_.set_grad(grad);
        static_cast<Tensor &>(*this) = grad;
        return *this;
    }
    void reset() { *this = Tensor(); }

  private:
    Tensor owner_;
};
inline GradReference Tensor::mutable_grad() const { return GradReference(*this); }

inline void Tensor::backward(const Tensor &gradient, std::optional<bool> retain_graph, bool create_graph,
                             std::optional<TensorList> inputs) const {
    tp_backward_options o;
    o.gradient = gradient.get();
    o.retain_graph = retain_graph.value_or(create_graph);
    o.create_graph = create_graph;
    if (inputs) o.inputs = detail::c_tensors(*inputs);
    detail::check(tp_backward_with(impl_, &o));
}

template <class F> inline unsigned Tensor::register_hook(F &&hook) const {
    using Hook = std::decay_t<F>;
    auto *kept = new Hook(std::forward<F>(hook));
    const int64_t handle = tp_add_hook(
        impl_,
        [](tp_tensor *grad, void *context) -> tp_tensor * {
            Tensor result;
            detail::guarded([&] {
                if constexpr (std::is_void_v<decltype((*static_cast<Hook *>(context))(Tensor()))>)
                    (*static_cast<Hook *>(context))(Tensor::borrow(grad));
                else
                    result = (*static_cast<Hook *>(context))(Tensor::borrow(grad));
            });
            return result.release();
        },
        kept, [](void *context) { delete static_cast<Hook *>(context); });
    if (!handle) {
        delete kept;
        detail::fail();
    }
    return static_cast<unsigned>(handle);
}

class DeprecatedTypeProperties {
  public:
    DeprecatedTypeProperties(ScalarType type, std::string name, bool cuda)
        : type_(type), name_(std::move(name)), cuda_(cuda) {}
    ScalarType scalarType() const { return type_; }
    TypeMeta typeMeta() const { return type_; }
    operator ScalarType() const { return type_; }
    bool is_cuda() const { return cuda_; }
    bool is_sparse() const { return false; }
    std::string toString() const { return name_; }
    bool operator==(const DeprecatedTypeProperties &other) const { return name_ == other.name_; }
    bool operator!=(const DeprecatedTypeProperties &other) const { return name_ != other.name_; }
    friend std::ostream &operator<<(std::ostream &out, const DeprecatedTypeProperties &t) { return out << t.name_; }

  private:
    ScalarType type_;
    std::string name_;
    bool cuda_;
};
inline DeprecatedTypeProperties Tensor::type() const {
    return DeprecatedTypeProperties(scalar_type(), toString(), is_cuda());
}

// ---- Elements by their place ----
namespace detail {
template <class T, size_t N> class Accessor {
  public:
    Accessor(T *data, const int64_t *sizes, const int64_t *strides) : data_(data), sizes_(sizes), strides_(strides) {}
    IntArrayRef sizes() const { return IntArrayRef(sizes_, N); }
    IntArrayRef strides() const { return IntArrayRef(strides_, N); }
    int64_t size(size_t i) const { return sizes_[i]; }
    int64_t stride(size_t i) const { return strides_[i]; }
    T *data() const { return data_; }
    decltype(auto) operator[](int64_t i) const {
        if constexpr (N == 1)
            return static_cast<T &>(data_[i * strides_[0]]);
        else
            return Accessor<T, N - 1>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
    }

  private:
    T *data_;
    const int64_t *sizes_, *strides_;
};
} // namespace detail
template <class T, size_t N> inline detail::Accessor<T, N> Tensor::accessor() const & {
    static_assert(N > 0, "a tensor without dims has item()");
    if (dim() != static_cast<int64_t>(N))
        detail::raise(TP_ERR_RUNTIME, detail::text("TensorAccessor expected ", N, " dims but tensor has ", dim()));
    return detail::Accessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
}

/* The memory under tensors. */
class Storage {
  public:
    explicit Storage(tp_storage *s) : s_(s, tp_storage_release) { detail::check(s != nullptr); }
    void *data() const { return tp_storage_data(s_.get()); }
    void *mutable_data() const { return data(); }
    size_t nbytes() const { return static_cast<size_t>(tp_storage_size(s_.get())); }
    Device device() const { return Device(tp_storage_device(s_.get())); }
    long use_count() const { return static_cast<long>(tp_storage_references(s_.get())); }
    bool is_alias_of(const Storage &other) const { return s_ == other.s_ || data() == other.data(); }

  private:
    std::shared_ptr<tp_storage> s_;
};
inline Storage Tensor::storage() const { return Storage(tp_storage_of(impl_)); }
} // namespace taper

#include <taper/cpp/operators.hpp>

namespace taper {
#define TAPER_BINARY_(symbol, function)                                                               \
    inline Tensor operator symbol(const Tensor &a, const Tensor &b) { return taper::function(a, b); } \
    inline Tensor operator symbol(const Tensor &a, const Scalar &b) { return taper::function(a, b); } \
    inline Tensor operator symbol(const Scalar &a, const Tensor &b) { return taper::function(a, b); }
TAPER_BINARY_(+, add)
TAPER_BINARY_(-, sub)
TAPER_BINARY_(*, mul)
TAPER_BINARY_(/, div)
TAPER_BINARY_(%, remainder)
TAPER_BINARY_(&, bitwise_and)
TAPER_BINARY_(|, bitwise_or)
TAPER_BINARY_(^, bitwise_xor)
#undef TAPER_BINARY_
#define TAPER_COMPARE_(symbol, function, turned)                                                      \
    inline Tensor operator symbol(const Tensor &a, const Tensor &b) { return taper::function(a, b); } \
    inline Tensor operator symbol(const Tensor &a, const Scalar &b) { return taper::function(a, b); } \
    inline Tensor operator symbol(const Scalar &a, const Tensor &b) { return taper::turned(b, a); }
TAPER_COMPARE_(==, eq, eq)
TAPER_COMPARE_(!=, ne, ne)
TAPER_COMPARE_(<, lt, gt)
TAPER_COMPARE_(<=, le, ge)
TAPER_COMPARE_(>, gt, lt)
TAPER_COMPARE_(>=, ge, le)
#undef TAPER_COMPARE_
inline Tensor operator<<(const Tensor &a, const Operand &b) { return bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor &a, const Operand &b) { return bitwise_right_shift(a, b); }
inline Tensor Tensor::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) const {
    return taper::slice(*this, dim, start, end, step);
}
#define TAPER_OF_DIM_(function)                                                             \
    template <class I, class = detail::when_dim<I>> auto function(const Tensor &t, I dim) { \
        return function(t, IntArrayRef(static_cast<int64_t>(dim)));                         \
    }
TAPER_OF_DIM_(var)
TAPER_OF_DIM_(std)
TAPER_OF_DIM_(var_mean)
TAPER_OF_DIM_(std_mean)
#undef TAPER_OF_DIM_
inline Tensor detach(const Tensor &t) { return t.detach(); }
inline Tensor sum(const Tensor &t, ScalarType dtype) { return t.sum(dtype); }
inline Tensor mean(const Tensor &t, ScalarType dtype) { return t.mean(dtype); }
inline int64_t numel(const Tensor &t) { return t.numel(); }
inline bool is_floating_point(const Tensor &t) { return t.is_floating_point(); }
inline bool is_complex(const Tensor &t) { return t.is_complex(); }
/* The dtype of arithmetic on the two: numbers, and tensors without dims, are weak. */
inline ScalarType result_type(const Tensor &a, const Tensor &b) {
    const auto small = [](const Tensor &t) {
        return empty(std::vector<int64_t>(t.dim() ? 1 : 0, 0), t.options().device(kCPU));
    };
    return where(zeros({}, kBool), small(a), small(b)).scalar_type();
}
inline ScalarType result_type(const Tensor &a, const Scalar &b) {
    const std::vector<int64_t> sizes(a.dim() ? 1 : 0, 0);
    return where(zeros({}, kBool), empty(sizes, a.options().device(kCPU)), b).scalar_type();
}
inline ScalarType result_type(const Scalar &a, const Tensor &b) { return result_type(b, a); }
inline ScalarType result_type(const Scalar &a, const Scalar &b) { return where(zeros({}, kBool), a, b).scalar_type(); }
/* stft as it was before `center`, which LibTorch still has: its numbers begin at each hop. */
inline Tensor stft(const Tensor &self, int64_t n_fft, std::optional<int64_t> hop_length,
                   std::optional<int64_t> win_length, const OptionalTensor &window, bool normalized,
                   std::optional<bool> onesided, std::optional<bool> return_complex = std::nullopt) {
    return stft(self, n_fft, hop_length, win_length, window, false, "reflect", normalized, onesided, return_complex);
}
/* nll_loss in ATen's order: the reduction before the index that is passed over. */
inline Tensor nll_loss(const Tensor &self, const Tensor &target, const OptionalTensor &weight,
                       Reduction::Reduction reduction, int64_t ignore_index = -100) {
    return nll_loss(self, target, weight, ignore_index, Text(reduction));
}
inline Tensor cross_entropy_loss(const Tensor &self, const Tensor &target, const OptionalTensor &weight = {},
                                 Reduction::Reduction reduction = Reduction::Mean, int64_t ignore_index = -100,
                                 double label_smoothing = 0.0) {
    return cross_entropy(self, target, weight, ignore_index, Text(reduction), label_smoothing);
}
inline Tensor &matmul_out(Tensor &out, const Tensor &self, const Tensor &other) {
    const Tensor product = matmul(self, other);
    out.resize_(product.sizes());
    out.copy_(product);
    return out;
}
inline Tensor index_select_backward(const Tensor &grad, IntArrayRef sizes, int64_t dim, const Tensor &index) {
    return zeros(sizes, grad.options()).index_add_(dim, index, grad);
}

// ---- Tensors from the program's values ----
/* Nested braces, numbers and vectors: tensor({{1, 2}, {3, 4}}). */
class TensorData {
  public:
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    TensorData(T v)
        : dtype_(CppTypeToScalarType<std::conditional_t<std::is_same_v<T, char>, int8_t, T>>::value), values_{
                                                                                                          Scalar(v)} {}
    TensorData(Half v) : dtype_(kHalf), values_{Scalar(v)} {}
    TensorData(BFloat16 v) : dtype_(kBFloat16), values_{Scalar(v)} {}
    template <class T>
    TensorData(const std::complex<T> &v) : dtype_(CppTypeToScalarType<std::complex<T>>::value), values_{Scalar(v)} {}
    TensorData(std::initializer_list<TensorData> list) : shape_{static_cast<int64_t>(list.size())} {
        bool first = true;
        for (const TensorData &item : list) {
            if (first) {
                shape_.insert(shape_.end(), item.shape_.begin(), item.shape_.end());
                dtype_ = item.dtype_;
            } else if (!std::equal(item.shape_.begin(), item.shape_.end(), shape_.begin() + 1, shape_.end()))
                detail::raise(TP_ERR_RUNTIME,
                              detail::text("Expected all sub-lists to have sizes: ", IntArrayRef(shape_).slice(1),
                                           ", but got sub-list with sizes: ", IntArrayRef(item.shape_)));
            else if (item.dtype_ != dtype_)
                detail::raise(TP_ERR_RUNTIME,
                              detail::text("Expected all elements of the tensor to have the same scalar "
                                           "type: ",
                                           dtype_, ", but got element of scalar type: ", item.dtype_));
            values_.insert(values_.end(), item.values_.begin(), item.values_.end());
            first = false;
        }
    }
    template <class T>
    TensorData(const std::vector<T> &v) : dtype_(type_of<T>()), shape_{static_cast<int64_t>(v.size())} {
        if constexpr (std::is_class_v<T> && !std::is_convertible_v<T, Scalar>) {
            for (size_t i = 0; i < v.size(); i++) {
                const TensorData item(v[i]);
                if (!i) shape_.insert(shape_.end(), item.shape_.begin(), item.shape_.end());
                values_.insert(values_.end(), item.values_.begin(), item.values_.end());
            }
        } else
            for (const auto &x : v) values_.push_back(Scalar(static_cast<T>(x)));
    }
    template <class T> TensorData(ArrayRef<T> v) : TensorData(v.vec()) {}
    ScalarType dtype() const { return dtype_; }
    Tensor make(const TensorOptions &options) const {
        ScalarType type = options.has_dtype()                     ? options.dtype().toScalarType()
                          : dtype_ == kInt                        ? kLong
                          : dtype_ == kFloat || dtype_ == kDouble ? get_default_dtype().toScalarType()
                                                                  : dtype_;
        const bool wide = !isComplexType(dtype_);
        Tensor t = empty(shape_, !wide ? kComplexDouble : isFloatingType(dtype_) ? kDouble : kLong);
        for (size_t i = 0; i < values_.size(); i++) {
            if (!wide)
                static_cast<std::complex<double> *>(t.data_ptr())[i] = values_[i].toComplexDouble();
            else if (isFloatingType(dtype_))
                static_cast<double *>(t.data_ptr())[i] = values_[i].toDouble();
            else
                static_cast<int64_t *>(t.data_ptr())[i] = values_[i].toLong();
        }
        t = options.has_device() ? t.to(options.device(), type) : t.to(type);
        if (options.requires_grad()) t.requires_grad_(true);
        return t;
    }

  private:
    template <class T> static ScalarType type_of() {
        if constexpr (std::is_class_v<T> && !std::is_convertible_v<T, Scalar>)
            return type_of<typename T::value_type>();
        else
            return CppTypeToScalarType<T>::value;
    }
    ScalarType dtype_ = kDouble;
    std::vector<int64_t> shape_;
    std::vector<Scalar> values_;
};
inline Tensor tensor(const TensorData &data, const TensorOptions &options = {}) { return data.make(options); }
inline Tensor tensor(std::initializer_list<TensorData> data, const TensorOptions &options = {}) {
    return TensorData(data).make(options);
}

/* A tensor over the caller's memory; deleter(data) is called when the last view is gone. */
template <class D, class = std::enable_if_t<std::is_invocable_v<D, void *>>>
inline Tensor from_blob(void *data, IntArrayRef sizes, OptionalIntArrayRef strides, D deleter,
                        const TensorOptions &options = {}) {
    struct Kept {
        D deleter;
        void *data;
    };
    auto *kept = new Kept{std::move(deleter), data};
    tp_tensor *t = tp_over_data(
        data, options.has_dtype() ? options.c_dtype() : tp_default_dtype(), detail::c_ints(sizes),
        detail::c_some_ints(strides),
        [](void *context) {
            auto *k = static_cast<Kept *>(context);
            k->deleter(k->data);
            delete k;
        },
        kept);
    if (!t) delete kept;
    return detail::made(t, options);
}
template <class D, class = std::enable_if_t<std::is_invocable_v<D, void *>>>
inline Tensor from_blob(void *data, IntArrayRef sizes, D deleter, const TensorOptions &options = {}) {
    return from_blob(data, sizes, std::nullopt, std::move(deleter), options);
}
inline Tensor from_blob(void *data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions &options = {}) {
    return detail::made(tp_over_data(data, options.has_dtype() ? options.c_dtype() : tp_default_dtype(),
                                     detail::c_ints(sizes), detail::c_ints(strides), nullptr, nullptr),
                        options);
}
inline Tensor from_blob(void *data, IntArrayRef sizes, const TensorOptions &options = {}) {
    return detail::made(tp_over_data(data, options.has_dtype() ? options.c_dtype() : tp_default_dtype(),
                                     detail::c_ints(sizes), tp_no_ints(), nullptr, nullptr),
                        options);
}
inline Tensor scalar_to_tensor(const Scalar &s, Device = kCPU) { return scalar_tensor(s, s.type()); }

// ---- Guards ----
class AutoGradMode {
  public:
    explicit AutoGradMode(bool on) : before_(tp_grad_mode_enter(on, false)) {}
    ~AutoGradMode() { tp_grad_mode_leave(&before_); }
    AutoGradMode(const AutoGradMode &) = delete;
    AutoGradMode &operator=(const AutoGradMode &) = delete;
    static bool is_enabled() { return tp_grad_enabled(); }
    static void set_enabled(bool on) { tp_set_grad_enabled(on); }

  private:
    tp_grad_mode before_;
};
class NoGradGuard : public AutoGradMode {
  public:
    NoGradGuard() : AutoGradMode(false) {}
};
using GradMode = AutoGradMode;
class InferenceMode {
  public:
    explicit InferenceMode(bool on = true) : before_(tp_grad_mode_enter(on ? false : tp_grad_enabled(), on)) {}
    ~InferenceMode() { tp_grad_mode_leave(&before_); }
    InferenceMode(const InferenceMode &) = delete;
    InferenceMode &operator=(const InferenceMode &) = delete;
    static bool is_enabled() { return tp_inference_enabled(); }

  private:
    tp_grad_mode before_;
};
inline Tensor Generator::get_state() const { return detail::take(tp_generator_get_state(get())); }
inline void Generator::set_state(const Tensor &state) { detail::check(tp_generator_set_state(get(), state.get())); }
} // namespace taper
