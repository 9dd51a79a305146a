/* Values of any kind to and from PyTorch's .pt format: pickle_save and pickle_load, with files as bytes in memory. */
#pragma once
#include <taper/cpp/value.hpp>

namespace taper {
namespace detail {
using File = std::unique_ptr<tp_file, void (*)(tp_file *)>;
inline File new_file() {
    File file(tp_new_file(), tp_close_file);
    check(file != nullptr);
    return file;
}
inline tp_sink sink_of(std::ostream &out) {
    const auto write = [](void *context, const void *data, size_t bytes) {
        auto &stream = *static_cast<std::ostream *>(context);
        stream.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
        return stream.good();
    };
    return tp_sink{write, &out};
}
/* Puts v under a name into a dict (NULL: the one that the file is), or to the end of a list. */
inline void put_value(tp_file *file, tp_saved *into, const char *key, const IValue &v) {
    if (v.isTensor())
        check(tp_put_tensor(file, into, key, v.toTensor().get()));
    else if (v.isString())
        check(tp_put_text(file, into, key, v.toStringRef().c_str()));
    else if (v.isScalar())
        check(tp_put_number(file, into, key, v.toScalar()));
    else if (v.isNone())
        check(tp_put_none(file, into, key));
    else if (v.isList() || v.isTuple()) {
        tp_saved *list = v.isTuple() ? tp_put_tuple(file, into, key) : tp_put_list(file, into, key);
        check(list != nullptr);
        for (const IValue &item : v.isTuple() ? v.toTupleRef().elements() : v.toListRef())
            put_value(file, list, nullptr, item);
    } else if (v.isGenericDict()) {
        tp_saved *dict = tp_put_dict(file, into, key);
        check(dict != nullptr);
        for (const auto &item : v.toGenericDict()) {
            if (!item.key().isString())
                raise(TP_ERR_TYPE, text("save: a key is a ", item.key().tagKind(), ", expected a String"));
            put_value(file, dict, item.key().toStringRef().c_str(), item.value());
        }
    } else
        raise(TP_ERR_TYPE, text("save: '", key ? key : "an item", "' is a ", v.tagKind(),
                                ", expected a tensor, a number, a text, None, a list, a tuple or a dict"));
}
inline IValue value_of(const tp_saved *v) {
    const tp_saved_kind kind = tp_saved_kind_of(v);
    if (kind == TP_SAVED_TENSOR) return IValue(take(tp_saved_tensor(v)));
    if (kind == TP_SAVED_NUMBER) return IValue(Scalar(tp_saved_number(v)));
    if (kind == TP_SAVED_TEXT) return IValue(std::string(tp_saved_text(v)));
    if (kind == TP_SAVED_NONE) return IValue();
    if (kind == TP_SAVED_LIST || kind == TP_SAVED_TUPLE) {
        std::vector<IValue> items;
        for (int64_t i = 0; i < tp_saved_count(v); i++) items.push_back(value_of(tp_saved_at(v, i)));
        return kind == TP_SAVED_LIST ? IValue::list(std::move(items)) : IValue(Tuple::create(std::move(items)));
    }
    if (kind == TP_SAVED_DICT) {
        std::vector<std::pair<IValue, IValue>> pairs;
        for (int64_t i = 0; i < tp_saved_count(v); i++)
            pairs.emplace_back(value_of(tp_saved_key_at(v, i)), value_of(tp_saved_at(v, i)));
        return IValue::dict(std::move(pairs));
    }
    const char *name = tp_saved_text(v);
    raise(TP_ERR_TYPE, text("load: the file has a value of a class (", name ? name : "without a name",
                            "), expected a tensor, a number, a text, None, a list, a tuple or a dict"));
    return IValue();
}
} // namespace detail

/* The bytes of a .pt, which torch.load of Python reads. */
inline std::vector<char> pickle_save(const IValue &value) {
    const detail::File file = detail::new_file();
    detail::put_value(file.get(), nullptr, "value", value);
    std::ostringstream out;
    const tp_sink sink = detail::sink_of(out);
    detail::check(tp_save_value(file.get(), tp_saved_get(tp_file_value(file.get()), "value"), "archive", &sink));
    const std::string bytes = out.str();
    return std::vector<char>(bytes.begin(), bytes.end());
}
/* What torch.save of Python wrote, from its bytes. Classes of programs are refused. */
inline IValue pickle_load(const std::vector<char> &data) {
    tp_file_options options{};
    options.size = sizeof options;
    options.memory = data.data();
    options.memory_bytes = static_cast<int64_t>(data.size());
    const detail::File file(tp_open_file("the bytes", &options), tp_close_file);
    detail::check(file != nullptr);
    return detail::value_of(tp_file_value(file.get()));
}
} // namespace taper
