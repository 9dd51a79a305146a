/* IValue: a value of any of the kinds that programs hand to functions loaded from files. */
#pragma once
#include <taper/cpp/tensor.hpp>

#include <variant>

namespace taper {
class IValue;
class Tuple {
  public:
    explicit Tuple(std::vector<IValue> v) : elements_(std::move(v)) {}
    const std::vector<IValue> &elements() const { return elements_; }
    size_t size() const;

  private:
    std::vector<IValue> elements_;
};
class IValue {
  public:
    IValue() = default;
    IValue(std::nullopt_t) {}
    IValue(Tensor t) : v_(std::move(t)) {}
    IValue(bool b) : v_(b) {}
    IValue(double d) : v_(d) {}
    IValue(int64_t i) : v_(i) {}
    IValue(int i) : v_(static_cast<int64_t>(i)) {}
    IValue(const char *s) : v_(std::string(s)) {}
    IValue(std::string s) : v_(std::move(s)) {}
    IValue(const Scalar &s) {
        if (s.isFloatingPoint())
            v_ = s.toDouble();
        else if (s.isBoolean())
            v_ = s.toBool();
        else
            v_ = s.toLong();
    }
    IValue(std::vector<Tensor> v) : v_(std::move(v)) {}
    IValue(std::vector<int64_t> v) : v_(std::move(v)) {}
    IValue(IntArrayRef v) : v_(v.vec()) {}
    IValue(std::vector<double> v) : v_(std::move(v)) {}
    IValue(std::vector<IValue> v) : v_(std::make_shared<Tuple>(std::move(v))) {}
    IValue(std::shared_ptr<Tuple> t) : v_(std::move(t)) {}
    template <class... A>
    IValue(const std::tuple<A...> &t)
        : v_(std::make_shared<Tuple>(
              std::apply([](const auto &...x) { return std::vector<IValue>{IValue(x)...}; }, t))) {}
    bool isNone() const { return std::holds_alternative<std::monostate>(v_); }
    bool isTensor() const { return std::holds_alternative<Tensor>(v_); }
    bool isBool() const { return std::holds_alternative<bool>(v_); }
    bool isInt() const { return std::holds_alternative<int64_t>(v_); }
    bool isDouble() const { return std::holds_alternative<double>(v_); }
    bool isString() const { return std::holds_alternative<std::string>(v_); }
    bool isTuple() const { return std::holds_alternative<std::shared_ptr<Tuple>>(v_); }
    bool isTensorList() const { return std::holds_alternative<std::vector<Tensor>>(v_); }
    bool isIntList() const { return std::holds_alternative<std::vector<int64_t>>(v_); }
    bool isDoubleList() const { return std::holds_alternative<std::vector<double>>(v_); }
    bool isList() const { return isTensorList() || isIntList() || isDoubleList(); }
    bool isScalar() const { return isInt() || isDouble() || isBool(); }
    const Tensor &toTensor() const { return as<Tensor>("Tensor"); }
    bool toBool() const { return as<bool>("bool"); }
    int64_t toInt() const { return as<int64_t>("int"); }
    double toDouble() const { return as<double>("float"); }
    Scalar toScalar() const { return isInt() ? Scalar(toInt()) : isBool() ? Scalar(toBool()) : Scalar(toDouble()); }
    const std::string &toStringRef() const { return as<std::string>("str"); }
    const std::string &string() const { return toStringRef(); }
    std::shared_ptr<Tuple> toTuple() const { return as<std::shared_ptr<Tuple>>("tuple"); }
    const std::vector<Tensor> &toTensorVector() const { return as<std::vector<Tensor>>("List[Tensor]"); }
    const std::vector<Tensor> &toTensorList() const { return toTensorVector(); }
    const std::vector<int64_t> &toIntVector() const { return as<std::vector<int64_t>>("List[int]"); }
    const std::vector<int64_t> &toIntList() const { return toIntVector(); }
    const std::vector<double> &toDoubleVector() const { return as<std::vector<double>>("List[float]"); }
    std::string tagKind() const {
        static const char *const names[] = {"None",   "Tensor",     "Bool",    "Double",     "Int",
                                            "String", "TensorList", "IntList", "DoubleList", "Tuple"};
        return names[v_.index()];
    }
    template <class T> T to() const {
        if constexpr (std::is_same_v<T, Tensor>)
            return toTensor();
        else if constexpr (std::is_arithmetic_v<T>)
            return toScalar().to<T>();
        else if constexpr (std::is_same_v<T, std::string>)
            return toStringRef();
        else
            return as<T>("that type");
    }

  private:
    template <class T> const T &as(const char *name) const {
        if (!std::holds_alternative<T>(v_))
            detail::raise(TP_ERR_TYPE, "Expected " + std::string(name) + " but got " + tagKind());
        return std::get<T>(v_);
    }
    std::variant<std::monostate, Tensor, bool, double, int64_t, std::string, std::vector<Tensor>, std::vector<int64_t>,
                 std::vector<double>, std::shared_ptr<Tuple>>
        v_;
};
inline size_t Tuple::size() const { return elements_.size(); }
} // namespace taper
