/* Saving and loading: tensors, modules and optimisers as a dict of tensors in PyTorch's .pt format, which torch.load of
 * Python reads. What LibTorch's torch::save wrote is read, too. */
#pragma once
#include <taper/cpp/module.hpp>
#include <taper/cpp/optim.hpp>
#include <taper/cpp/pickle.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <unistd.h>

namespace taper {
namespace serialize {

/* Names with their values; the names of an archive inside another begin with its own and a dot. */
class OutputArchive {
  public:
    void write(const std::string &key, const Tensor &t, bool is_buffer = false) {
        (void)is_buffer;
        values_.emplace_back(key, IValue(t));
    }
    void write(const std::string &key, const IValue &v) { values_.emplace_back(key, v); }
    void write(const std::string &key, OutputArchive &nested) {
        for (auto &item : nested.values_) values_.emplace_back(key + "." + item.first, item.second);
    }
    void save_to(const std::string &path) { write_all(path.c_str(), nullptr); }
    void save_to(std::ostream &out) {
        const tp_sink sink = detail::sink_of(out);
        write_all("archive", &sink);
    }

    /* The values as they are now: what becomes of the tensors afterwards does not change them. */
    std::vector<std::pair<std::string, IValue>> copies() const {
        std::vector<std::pair<std::string, IValue>> all = values_;
        for (auto &item : all)
            if (item.second.isTensor() && item.second.toTensor().defined())
                item.second = IValue(item.second.toTensor().detach().clone());
        return all;
    }

  private:
    void write_all(const char *path, const tp_sink *sink) {
        const detail::File file = detail::new_file();
        for (const auto &[key, v] : values_)
            if (!v.isTensor() || v.toTensor().defined()) detail::put_value(file.get(), nullptr, key.c_str(), v);
        detail::check(tp_save_value(file.get(), nullptr, path, sink));
    }
    std::vector<std::pair<std::string, IValue>> values_;
};

class InputArchive {
  public:
    void load_from(const std::string &path, std::optional<Device> device = std::nullopt) {
        open(path.c_str(), {}, device);
    }
    void load_from(std::istream &in, std::optional<Device> device = std::nullopt) {
        open("a stream", std::string(std::istreambuf_iterator<char>(in), {}), device);
    }
    /* What OutputArchive::copies() gave. */
    void load_from(std::vector<std::pair<std::string, IValue>> values) {
        memory_ = std::make_shared<const std::vector<std::pair<std::string, IValue>>>(std::move(values));
    }
    /* From now on tensors must have the shapes of those that they replace, and the names that are read are noted. */
    void be_strict() { names_read_ = std::make_shared<std::set<std::string>>(); }
    bool is_strict() const { return names_read_ != nullptr; }
    /* Everything whose name begins so must have been read. */
    void expect_all_read(const std::string &prefix) const {
        const tp_saved *root = tp_file_value(file_.get());
        for (int64_t i = 0; tp_saved_kind_of(root) == TP_SAVED_DICT && i < tp_saved_count(root); i++) {
            const tp_saved *key = tp_saved_key_at(root, i);
            if (tp_saved_kind_of(key) != TP_SAVED_TEXT) continue;
            const std::string name = tp_saved_text(key);
            if (name.compare(0, prefix.size(), prefix) == 0 && !names_read_->count(name))
                detail::raise(TP_ERR_VALUE, "load: the file has '" + name + "', expected nothing of that name");
        }
    }
    bool try_read(const std::string &key, Tensor &t, bool is_buffer = false) {
        (void)is_buffer;
        Tensor read;
        if (memory_) {
            const IValue *v = find_in_memory(key);
            if (!v || !v->isTensor()) return false;
            read = v->toTensor();
        } else {
            const tp_saved *v = find(key);
            if (!v || tp_saved_kind_of(v) != TP_SAVED_TENSOR) return false;
            read = detail::take(tp_saved_tensor(v));
        }
        if (is_strict() && t.defined() && read.sizes() != t.sizes())
            detail::raise(TP_ERR_VALUE, "load: size mismatch for '" + prefix_ + key + "': the file has " +
                                            detail::text(read.sizes()) + ", expected " + detail::text(t.sizes()));
        if (device_) read = read.to(*device_);
        if (t.defined()) { /* what others hold of it changes, too */
            NoGradGuard guard;
            t.set_data(read);
        } else
            t = read;
        return true;
    }
    void read(const std::string &key, Tensor &t, bool is_buffer = false) {
        if (!try_read(key, t, is_buffer))
            detail::raise(TP_ERR_RUNTIME, "No such serialized tensor '" + prefix_ + key + "'");
    }
    bool try_read(const std::string &key, IValue &value) {
        if (memory_) {
            const IValue *held = find_in_memory(key);
            if (held) value = *held;
            return held != nullptr;
        }
        const tp_saved *v = find(key);
        if (v) value = detail::value_of(v);
        return v != nullptr;
    }
    void read(const std::string &key, IValue &value) {
        if (!try_read(key, value)) detail::raise(TP_ERR_RUNTIME, "No such serialized IValue '" + prefix_ + key + "'");
    }
    void read(const std::string &key, InputArchive &archive) {
        archive.file_ = file_;
        archive.memory_ = memory_;
        archive.names_read_ = names_read_;
        archive.device_ = device_;
        archive.prefix_ = prefix_ + key + ".";
    }
    /* The names at this level: of tensors, values and archives inside. */
    std::vector<std::string> keys() const {
        std::vector<std::string> all;
        const auto note = [&](const std::string &name) {
            if (name.compare(0, prefix_.size(), prefix_) != 0) return;
            const std::string key = name.substr(prefix_.size(), name.find('.', prefix_.size()) - prefix_.size());
            if (std::find(all.begin(), all.end(), key) == all.end()) all.push_back(key);
        };
        if (memory_)
            for (const auto &item : *memory_) note(item.first);
        else
            each_name(tp_file_value(file_.get()), "", note);
        return all;
    }
    bool try_read(const std::string &key, InputArchive &archive) {
        read(key, archive);
        return true;
    }

  private:
    void open(const char *name, std::string memory, std::optional<Device> device) {
        auto bytes = std::make_shared<std::string>(std::move(memory));
        tp_file_options o{};
        o.size = sizeof o;
        o.any_global = true;
        if (!bytes->empty()) {
            o.memory = bytes->data();
            o.memory_bytes = static_cast<int64_t>(bytes->size());
        }
        tp_file *f = tp_open_file(name, &o);
        detail::check(f != nullptr);
        file_ = std::shared_ptr<tp_file>(f, [bytes](tp_file *file) { tp_close_file(file); });
        device_ = device;
    }
    /* A name as a whole, or part by part through dicts and through the attributes of objects, as LibTorch nests them.
     */
    const tp_saved *find(const std::string &key) const {
        const tp_saved *root = tp_file_value(file_.get());
        std::string path = prefix_ + key;
        if (names_read_) names_read_->insert(path);
        if (tp_saved_kind_of(root) == TP_SAVED_DICT && tp_saved_has(root, path.c_str()))
            return tp_saved_get(root, path.c_str());
        for (const tp_saved *at = root;;) {
            if (tp_saved_kind_of(at) == TP_SAVED_OBJECT) at = tp_saved_part_of(at, TP_PART_STATE);
            if (tp_saved_kind_of(at) != TP_SAVED_DICT) return nullptr;
            const size_t dot = path.find('.');
            const std::string part = path.substr(0, dot);
            if (!tp_saved_has(at, part.c_str())) return nullptr;
            at = tp_saved_get(at, part.c_str());
            if (dot == std::string::npos) return at;
            path = path.substr(dot + 1);
        }
    }
    /* The names of all values, those inside of dicts and objects with their way. */
    static void each_name(const tp_saved *at, const std::string &way,
                          const std::function<void(const std::string &)> &f) {
        if (tp_saved_kind_of(at) == TP_SAVED_OBJECT) at = tp_saved_part_of(at, TP_PART_STATE);
        for (int64_t i = 0; tp_saved_kind_of(at) == TP_SAVED_DICT && i < tp_saved_count(at); i++) {
            const tp_saved *key = tp_saved_key_at(at, i);
            if (tp_saved_kind_of(key) != TP_SAVED_TEXT) continue;
            f(way + tp_saved_text(key));
            each_name(tp_saved_at(at, i), way + tp_saved_text(key) + ".", f);
        }
    }
    const IValue *find_in_memory(const std::string &key) const {
        for (const auto &item : *memory_)
            if (item.first == prefix_ + key) return &item.second;
        return nullptr;
    }
    std::shared_ptr<tp_file> file_;
    std::shared_ptr<const std::vector<std::pair<std::string, IValue>>> memory_; /* instead of a file */
    std::shared_ptr<std::set<std::string>> names_read_;                         /* NULL: not strict */
    std::string prefix_;
    std::optional<Device> device_;
};
} // namespace serialize

inline void nn::Module::save(serialize::OutputArchive &archive) const {
    for (const auto &p : parameters_) archive.write(p.key(), p.value());
    for (const auto &b : buffers_) archive.write(b.key(), b.value(), true);
    for (const auto &child : children_) {
        if (!child.value()->is_serializable()) continue;
        serialize::OutputArchive nested;
        child.value()->save(nested);
        archive.write(child.key(), nested);
    }
}
inline void nn::Module::load(serialize::InputArchive &archive) {
    for (auto &p : parameters_)
        if (p.value().defined()) archive.read(p.key(), p.value());
    for (auto &b : buffers_)
        if (b.value().defined()) archive.read(b.key(), b.value(), true);
    for (const auto &child : children_) {
        if (!child.value()->is_serializable()) continue;
        serialize::InputArchive nested;
        archive.read(child.key(), nested);
        child.value()->load(nested);
    }
}

inline void optim::Optimizer::save(serialize::OutputArchive &archive) const {
    archive.write("kind", IValue(kind_->name));
    for (size_t g = 0; g < groups_.size(); g++) {
        const std::vector<double> values = groups_[g].options().values();
        for (size_t i = 0; i < values.size(); i++)
            archive.write("param_groups." + std::to_string(g) + "." + kind_->values[i], IValue(values[i]));
    }
    for (size_t p = 0; p < size(); p++)
        for (int64_t s = 0; s < kind_->nstates; s++)
            if (tp_tensor *t = tp_optimiser_state(c_.get(), static_cast<int64_t>(p), kind_->states[s]))
                archive.write("state." + std::to_string(p) + "." + kind_->states[s], Tensor::borrow(t));
}
namespace detail {
inline void expect_kind(serialize::InputArchive &archive, const char *kind) {
    IValue found;
    if (archive.try_read("kind", found) && found.isString() && found.toStringRef() != kind)
        raise(TP_ERR_VALUE, "load: the saved state is that of " + found.toStringRef() + ", expected that of " + kind);
}
} // namespace detail
inline void optim::Optimizer::load(serialize::InputArchive &archive) {
    detail::expect_kind(archive, kind_->name);
    for (size_t g = 0; g < groups_.size(); g++) {
        std::vector<double> values = groups_[g].options().values();
        for (size_t i = 0; i < values.size(); i++) {
            const std::string key = "param_groups." + std::to_string(g) + "." + kind_->values[i];
            IValue v;
            if (archive.is_strict()) archive.read(key, v);
            if (archive.is_strict() || archive.try_read(key, v)) values[i] = v.toScalar().toDouble();
        }
        groups_[g].options().take(values);
    }
    send_options();
    for (size_t p = 0; p < size(); p++)
        for (int64_t s = 0; s < kind_->nstates; s++) {
            Tensor t;
            if (archive.try_read("state." + std::to_string(p) + "." + kind_->states[s], t))
                detail::check(tp_optimiser_set_state(c_.get(), static_cast<int64_t>(p), kind_->states[s], t.get()));
        }
}

inline void optim::LRScheduler::save(serialize::OutputArchive &archive) const {
    archive.write("last_epoch", IValue(static_cast<int64_t>(step_count_)));
}
inline void optim::LRScheduler::load(serialize::InputArchive &archive) {
    IValue v;
    archive.read("last_epoch", v);
    step_count_ = static_cast<unsigned>(v.toInt());
}
inline void optim::Schedule::save(serialize::OutputArchive &archive) const {
    int64_t n = 0;
    const double *numbers = tp_schedule_state(c_.get(), &n);
    archive.write("kind", IValue(kind_));
    for (int64_t i = 0; i < n; i++) archive.write("numbers." + std::to_string(i), IValue(numbers[i]));
}
inline void optim::Schedule::load(serialize::InputArchive &archive) {
    int64_t n = 0;
    double *numbers = tp_schedule_state(c_.get(), &n);
    std::vector<double> read(static_cast<size_t>(n));
    detail::expect_kind(archive, kind_);
    for (size_t i = 0; i < read.size(); i++) {
        IValue v;
        archive.read("numbers." + std::to_string(i), v);
        read[i] = v.toScalar().toDouble();
    }
    std::copy(read.begin(), read.end(), numbers);
}
inline void optim::ReduceLROnPlateauScheduler::save(serialize::OutputArchive &archive) const {
    archive.write("best", IValue(best_));
    archive.write("num_bad_epochs", IValue(bad_));
    archive.write("cooldown_counter", IValue(waiting_));
}
inline void optim::ReduceLROnPlateauScheduler::load(serialize::InputArchive &archive) {
    IValue best, bad, waiting;
    archive.read("best", best);
    archive.read("num_bad_epochs", bad);
    archive.read("cooldown_counter", waiting);
    best_ = best.toScalar().toDouble();
    bad_ = static_cast<int>(bad.toInt());
    waiting_ = static_cast<int>(waiting.toInt());
}
template <class S>
using when_schedule_ =
    std::enable_if_t<std::is_base_of_v<optim::LRScheduler, S> || std::is_base_of_v<optim::Schedule, S> ||
                     std::is_same_v<optim::ReduceLROnPlateauScheduler, S>>;
template <class S, class = when_schedule_<S>>
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &a, const S &schedule) {
    schedule.save(a);
    return a;
}
template <class S, class = when_schedule_<S>>
inline serialize::InputArchive &operator>>(serialize::InputArchive &a, S &schedule) {
    schedule.load(a);
    return a;
}

inline serialize::OutputArchive &operator<<(serialize::OutputArchive &a, const Tensor &t) {
    a.write("0", t);
    return a;
}
inline serialize::InputArchive &operator>>(serialize::InputArchive &a, Tensor &t) {
    a.read("0", t);
    return a;
}
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &a, const optim::Optimizer &o) {
    o.save(a);
    return a;
}
inline serialize::InputArchive &operator>>(serialize::InputArchive &a, optim::Optimizer &o) {
    o.load(a);
    return a;
}
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &a, const std::vector<Tensor> &list) {
    for (size_t i = 0; i < list.size(); i++) a.write(std::to_string(i), list[i]);
    return a;
}
inline serialize::InputArchive &operator>>(serialize::InputArchive &a, std::vector<Tensor> &list) {
    list.clear();
    for (Tensor t; a.try_read(std::to_string(list.size()), t); t = Tensor()) list.push_back(t);
    return a;
}
template <class M, class = std::enable_if_t<std::is_base_of_v<nn::Module, M>>>
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &a, const std::shared_ptr<M> &m) {
    m->save(a);
    return a;
}
template <class M, class = std::enable_if_t<std::is_base_of_v<nn::Module, M>>>
inline serialize::InputArchive &operator>>(serialize::InputArchive &a, const std::shared_ptr<M> &m) {
    m->load(a);
    return a;
}
template <class M>
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &a, const nn::ModuleHolder<M> &m) {
    return a << m.ptr();
}
template <class M>
inline serialize::InputArchive &operator>>(serialize::InputArchive &a, const nn::ModuleHolder<M> &m) {
    return a >> m.ptr();
}

template <class T, class S> inline void save(const T &value, S &&to) {
    serialize::OutputArchive archive;
    archive << value;
    archive.save_to(std::forward<S>(to));
}
template <class T, class S, class... A> inline void load(T &value, S &&from, A &&...device) {
    serialize::InputArchive archive;
    archive.load_from(std::forward<S>(from), std::forward<A>(device)...);
    archive >> value;
}

// ---- A training in one file ----
/* How many epochs and steps are done, the place of the default random numbers, and parts by name: networks, optimisers,
 * schedules.
 *
 *     taper::Training state;
 *     state.add("model", net).add("optimizer", adam).add("schedule", schedule);
 *     if (std::ifstream("last.pt")) state.load("last.pt");
 *     while (state.epoch < 10) {
 *         ...
 *         state.epoch++;
 *         state.save("last.pt"); // a crash leaves this file or the one before
 *     }
 *
 * What is added is a handle of a module, or must outlive the training. A file that lacks a part, has more than the part
 * or other shapes, or holds another kind of optimiser or schedule is an error, and then everything stays as it was. */
class Training {
  public:
    int64_t epoch = 0, step = 0;
    template <class M> Training &add(const std::string &name, const nn::ModuleHolder<M> &net) {
        return add_part(
            name, [net](auto &archive) { net->save(archive); }, [net](auto &archive) { net->load(archive); });
    }
    template <class M, class = std::enable_if_t<std::is_base_of_v<nn::Module, M>>>
    Training &add(const std::string &name, const std::shared_ptr<M> &net) {
        return add_part(
            name, [net](auto &archive) { net->save(archive); }, [net](auto &archive) { net->load(archive); });
    }
    template <class T, class = decltype(&T::save)> Training &add(const std::string &name, T &part) {
        return add_part(
            name, [&part](auto &archive) { part.save(archive); }, [&part](auto &archive) { part.load(archive); });
    }
    void save(const std::string &path) const { everything().save_to(path); }
    void load(const std::string &path) {
        serialize::InputArchive all, before;
        all.load_from(path);
        all.be_strict();
        before.load_from(everything().copies());
#ifndef TAPER_NO_EXCEPTIONS
        try {
            take(all);
        } catch (...) {
            take(before);
            throw;
        }
#else
        take(all);
        if (!tp_ok()) {
            const std::string message = tp_error();
            const tp_code code = tp_error_code();
            tp_error_clear();
            take(before);
            tp_error_leave(code, message.c_str());
        }
#endif
    }

  private:
    serialize::OutputArchive everything() const {
        serialize::OutputArchive all;
        for (const Part &part : parts_) {
            serialize::OutputArchive nested;
            part.save(nested);
            all.write(part.name, nested);
        }
        all.write("epoch", IValue(epoch));
        all.write("step", IValue(step));
        all.write("rng_state", detail::take(tp_generator_get_state(tp_default_generator())));
        return all;
    }
    void take(serialize::InputArchive &all) {
        IValue epochs, steps;
        Tensor random;
        all.read("epoch", epochs);
        all.read("step", steps);
        all.read("rng_state", random);
        for (const Part &part : parts_) {
            serialize::InputArchive nested;
            all.read(part.name, nested);
            part.load(nested);
            if (all.is_strict()) all.expect_all_read(part.name + ".");
        }
        detail::check(tp_generator_set_state(tp_default_generator(), random.get()));
        epoch = epochs.toInt();
        step = steps.toInt();
    }
    struct Part {
        std::string name;
        std::function<void(serialize::OutputArchive &)> save;
        std::function<void(serialize::InputArchive &)> load;
    };
    template <class S, class L> Training &add_part(const std::string &name, S save, L load) {
        parts_.push_back({name, std::move(save), std::move(load)});
        return *this;
    }
    std::vector<Part> parts_;
};
} // namespace taper
