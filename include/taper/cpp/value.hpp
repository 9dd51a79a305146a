/* IValue: a value of any of the kinds that programs hand to functions loaded from files. */
#pragma once
#include <taper/cpp/dict.hpp>
#include <taper/cpp/print.hpp>
#include <taper/cpp/tensor.hpp>
#include <taper/script.h>
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <unordered_map>

namespace taper {
namespace jit {
class Module;
}
/* c10::List: a vector with a few names more. */
template <class T> class List : public std::vector<T> {
  public:
    using std::vector<T>::vector;
    List(std::vector<T> items) : std::vector<T>(std::move(items)) {}
    std::vector<T> vec() const { return *this; }
    T get(size_t i) const { return this->at(i); }
    T extract(size_t i) const { return this->at(i); }
    void set(size_t i, T value) { this->at(i) = std::move(value); }
};
class IValue;
class Tuple {
  public:
    explicit Tuple(std::vector<IValue> v) : elements_(std::move(v)) {}
    static std::shared_ptr<Tuple> create(std::vector<IValue> v) { return std::make_shared<Tuple>(std::move(v)); }
    const std::vector<IValue> &elements() const { return elements_; }
    size_t size() const;

  private:
    std::vector<IValue> elements_;
};
/* Numbers and tensors lie in the value itself, everything else behind a counted pointer: copies share it. (A
 * std::variant would do the same, at twice the time that a compiler needs for this header.) */
class IValue {
  public:
    enum class Tag {
        None,
        Tensor,
        Bool,
        Double,
        Int,
        String,
        TensorList,
        IntList,
        DoubleList,
        BoolList,
        Tuple,
        GenericList,
        GenericDict,
        Device,
        Object
    };
    IValue() = default;
    IValue(std::nullopt_t) {}
    IValue(Tensor t) : tag_(Tag::Tensor), tensor_(std::move(t)) {}
    IValue(bool b) : tag_(Tag::Bool) { number_.i = b; }
    IValue(double d) : tag_(Tag::Double) { number_.d = d; }
    IValue(int64_t i) : tag_(Tag::Int) { number_.i = i; }
    IValue(int i) : IValue(static_cast<int64_t>(i)) {}
    IValue(const char *s) : IValue(std::string(s)) {}
    IValue(std::string s) : IValue(Tag::String, std::move(s)) {}
    IValue(const Scalar &s) {
        if (s.isFloatingPoint())
            *this = IValue(s.toDouble());
        else if (s.isBoolean())
            *this = IValue(s.toBool());
        else
            *this = IValue(s.toLong());
    }
    IValue(std::vector<Tensor> v) : IValue(Tag::TensorList, std::move(v)) {}
    IValue(std::vector<int64_t> v) : IValue(Tag::IntList, std::move(v)) {}
    IValue(IntArrayRef v) : IValue(v.vec()) {}
    IValue(std::vector<double> v) : IValue(Tag::DoubleList, std::move(v)) {}
    IValue(std::vector<bool> v) : IValue(Tag::BoolList, std::move(v)) {}
    template <class K, class V> IValue(const Dict<K, V> &dict) {
        std::vector<std::pair<IValue, IValue>> pairs;
        for (const auto &e : dict) pairs.emplace_back(IValue(e.key()), IValue(e.value()));
        *this = IValue(Tag::GenericDict, std::move(pairs));
    }
    IValue(std::vector<IValue> v) : IValue(std::make_shared<Tuple>(std::move(v))) {}
    IValue(std::shared_ptr<Tuple> t) : tag_(Tag::Tuple), object_(std::move(t)) {}
    template <class T> IValue(const std::optional<T> &v) {
        if (v) *this = IValue(*v);
    }
    IValue(taper::Device d) : IValue(Tag::Device, d) {}
    IValue(std::vector<std::string> v) : IValue(Tag::GenericList, std::vector<IValue>(v.begin(), v.end())) {}
    template <class V>
    IValue(const std::unordered_map<std::string, V> &dict)
        : IValue(Tag::GenericDict, std::vector<std::pair<IValue, IValue>>(dict.begin(), dict.end())) {}
    /* Of the values of a script: a list of any kind, a dict in its order, an object. */
    static IValue list(std::vector<IValue> v) { return IValue(Tag::GenericList, std::move(v)); }
    static IValue dict(std::vector<std::pair<IValue, IValue>> v) { return IValue(Tag::GenericDict, std::move(v)); }
    static IValue object(std::shared_ptr<tp_ivalue> v) {
        IValue made;
        made.tag_ = Tag::Object;
        made.object_ = std::move(v);
        return made;
    }
    template <class... A>
    IValue(const std::tuple<A...> &t)
        : IValue(std::apply([](const auto &...x) { return std::vector<IValue>{IValue(x)...}; }, t)) {}
    bool isNone() const { return tag_ == Tag::None; }
    bool isTensor() const { return tag_ == Tag::Tensor; }
    bool isBool() const { return tag_ == Tag::Bool; }
    bool isInt() const { return tag_ == Tag::Int; }
    bool isDouble() const { return tag_ == Tag::Double; }
    bool isString() const { return tag_ == Tag::String; }
    bool isTuple() const { return tag_ == Tag::Tuple; }
    bool isTensorList() const { return tag_ == Tag::TensorList; }
    bool isIntList() const { return tag_ == Tag::IntList; }
    bool isDoubleList() const { return tag_ == Tag::DoubleList; }
    bool isBoolList() const { return tag_ == Tag::BoolList; }
    bool isGenericDict() const { return tag_ == Tag::GenericDict; }
    bool isDevice() const { return tag_ == Tag::Device; }
    bool isObject() const { return tag_ == Tag::Object; }
    bool isList() const {
        return isTensorList() || isIntList() || isDoubleList() || isBoolList() || tag_ == Tag::GenericList;
    }
    bool isScalar() const { return isInt() || isDouble() || isBool(); }
    const Tensor &toTensor() const {
        expect(Tag::Tensor);
        return tensor_;
    }
    bool toBool() const {
        expect(Tag::Bool);
        return number_.i != 0;
    }
    int64_t toInt() const {
        expect(Tag::Int);
        return number_.i;
    }
    double toDouble() const {
        expect(Tag::Double);
        return number_.d;
    }
    Scalar toScalar() const { return isInt() ? Scalar(toInt()) : isBool() ? Scalar(toBool()) : Scalar(toDouble()); }
    const std::string &toStringRef() const { return held<std::string>(Tag::String); }
    const std::string &string() const { return toStringRef(); }
    std::shared_ptr<Tuple> toTuple() const {
        expect(Tag::Tuple);
        return std::static_pointer_cast<Tuple>(object_);
    }
    const Tuple &toTupleRef() const { return held<Tuple>(Tag::Tuple); }
    const std::vector<Tensor> &toTensorVector() const { return held<std::vector<Tensor>>(Tag::TensorList); }
    List<Tensor> toTensorList() const { return toTensorVector(); }
    const std::vector<int64_t> &toIntVector() const { return held<std::vector<int64_t>>(Tag::IntList); }
    List<int64_t> toIntList() const { return toIntVector(); }
    const std::vector<double> &toDoubleVector() const { return held<std::vector<double>>(Tag::DoubleList); }
    List<double> toDoubleList() const { return toDoubleVector(); }
    List<bool> toBoolList() const { return held<std::vector<bool>>(Tag::BoolList); }
    /* The items of a list of any kind. */
    std::vector<IValue> toListRef() const {
        if (isTensorList()) return {toTensorVector().begin(), toTensorVector().end()};
        if (isIntList()) return {toIntVector().begin(), toIntVector().end()};
        if (isDoubleList()) return {toDoubleVector().begin(), toDoubleVector().end()};
        if (isBoolList()) {
            const auto &items = held<std::vector<bool>>(Tag::BoolList);
            return {items.begin(), items.end()};
        }
        return held<std::vector<IValue>>(Tag::GenericList);
    }
    List<IValue> toList() const { return toListRef(); }
    /* Texts, numbers and bools can be keys. */
    bool operator==(const IValue &other) const {
        if (tag_ != other.tag_) return false;
        if (isString()) return toStringRef() == other.toStringRef();
        return isDouble() ? number_.d == other.number_.d : number_.i == other.number_.i;
    }
    bool operator!=(const IValue &other) const { return !(*this == other); }
    inline Dict<IValue, IValue> toGenericDict() const;
    size_t hash() const {
        return isString() ? std::hash<std::string>()(toStringRef()) : std::hash<int64_t>()(number_.i);
    }
    inline jit::Module toModule() const;
    taper::Device toDevice() const { return held<taper::Device>(Tag::Device); }
    std::shared_ptr<tp_ivalue> toObject() const {
        expect(Tag::Object);
        return std::static_pointer_cast<tp_ivalue>(object_);
    }
    std::string tagKind() const { return name(tag_); }
    template <class T> T to() const {
        if constexpr (std::is_same_v<T, Tensor>)
            return toTensor();
        else if constexpr (std::is_arithmetic_v<T>)
            return toScalar().to<T>();
        else if constexpr (std::is_same_v<T, std::string>)
            return toStringRef();
        else if constexpr (std::is_same_v<T, std::vector<Tensor>>)
            return toTensorVector();
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
            return toIntVector();
        else if constexpr (std::is_same_v<T, std::vector<double>>)
            return toDoubleVector();
        else if constexpr (std::is_same_v<T, std::vector<bool>>)
            return toBoolList();
        else {
            static_assert(std::is_same_v<T, std::shared_ptr<Tuple>>, "IValue::to: no value of this type is held");
            return toTuple();
        }
    }

  private:
    template <class T> IValue(Tag tag, T value) : tag_(tag), object_(std::make_shared<T>(std::move(value))) {}
    static const char *name(Tag tag) {
        static const char *const names[] = {"None",   "Tensor",      "Bool",        "Double",     "Int",
                                            "String", "TensorList",  "IntList",     "DoubleList", "BoolList",
                                            "Tuple",  "GenericList", "GenericDict", "Device",     "Object"};
        return names[static_cast<int>(tag)];
    }
    void expect(Tag tag) const {
        if (tag_ != tag) detail::raise(TP_ERR_TYPE, std::string("Expected ") + name(tag) + " but got " + name(tag_));
    }
    template <class T> const T &held(Tag tag) const {
        expect(tag);
        return *static_cast<const T *>(object_.get());
    }
    Tag tag_ = Tag::None;
    union {
        int64_t i = 0;
        double d;
    } number_;
    Tensor tensor_;
    std::shared_ptr<void> object_;
};
inline size_t Tuple::size() const { return elements_.size(); }
} // namespace taper

template <> struct std::hash<taper::IValue> {
    size_t operator()(const taper::IValue &v) const { return v.hash(); }
};

namespace taper {
inline Dict<IValue, IValue> IValue::toGenericDict() const {
    Dict<IValue, IValue> dict;
    for (const auto &pair : held<std::vector<std::pair<IValue, IValue>>>(Tag::GenericDict))
        dict.insert_or_assign(pair.first, pair.second);
    return dict;
}

namespace detail {
template <class Items, class F> inline void print_items(std::ostream &out, const Items &items, F &&each) {
    const char *between = "";
    for (const auto &item : items) {
        out << between;
        each(item);
        between = ", ";
    }
}
} // namespace detail
/* As LibTorch prints it: 2., [1, 2], (1, a), {a: 1}. */
inline std::ostream &operator<<(std::ostream &out, const IValue &v) {
    const auto one = [&out](const IValue &item) { out << item; };
    if (v.isTensor()) return out << v.toTensor();
    if (v.isBool()) return out << (v.toBool() ? "True" : "False");
    if (v.isInt()) return out << v.toInt();
    if (v.isString()) return out << v.toStringRef();
    if (v.isDevice()) return out << v.toDevice();
    if (v.isDouble()) {
        const double d = v.toDouble();
        if (std::isfinite(d) && d == std::floor(d) && std::fabs(d) < 1e10) return out << static_cast<int64_t>(d) << '.';
        std::ostringstream digits; /* its own precision */
        digits << std::setprecision(std::numeric_limits<double>::max_digits10 - 1) << d;
        return out << digits.str();
    }
    if (v.isNone()) return out << "None";
    if (v.isObject()) {
        const char *name = tp_ivalue_class(v.toObject().get());
        return out << '<' << (name ? name : "") << " object at " << static_cast<const void *>(v.toObject().get())
                   << '>';
    }
    out << (v.isTuple() ? '(' : v.isGenericDict() ? '{' : '[');
    if (v.isTuple()) {
        detail::print_items(out, v.toTupleRef().elements(), one);
        if (v.toTupleRef().size() == 1) out << ',';
    } else if (v.isGenericDict())
        detail::print_items(out, v.toGenericDict(), [&out](const auto &e) { out << e.key() << ": " << e.value(); });
    else
        detail::print_items(out, v.toListRef(), one);
    return out << (v.isTuple() ? ')' : v.isGenericDict() ? '}' : ']');
}
} // namespace taper
