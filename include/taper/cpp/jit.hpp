/* Programs that torch.jit.trace or torch.jit.script of Taper saved, run without Python. */
#pragma once
#include <taper/cpp/tensor.hpp>
#include <taper/cpp/value.hpp>

namespace taper {
namespace jit {
using taper::IValue;
class Module {
  public:
    Module() = default;
    explicit Module(tp_compiled *graph) : graph_(graph, tp_compiled_release) { detail::check(graph != nullptr); }
    /* One result as a tensor, several as a tuple. */
    IValue forward(const std::vector<IValue> &inputs) {
        std::vector<Tensor> given;
        for (const IValue &v : inputs) {
            if (v.isTuple())
                for (const IValue &item : v.toTuple()->elements()) given.push_back(item.toTensor());
            else if (v.isTensorList())
                given.insert(given.end(), v.toTensorVector().begin(), v.toTensorVector().end());
            else
                given.push_back(v.toTensor());
        }
        std::vector<tp_tensor *> outputs(static_cast<size_t>(tp_compiled_outputs(graph_.get())), nullptr);
        detail::check(tp_compiled_run(graph_.get(), detail::c_tensors(given), outputs.data()));
        std::vector<IValue> results;
        for (tp_tensor *t : outputs) results.emplace_back(Tensor::steal(t ? tp_own(t) : nullptr));
        return results.size() == 1 ? results[0] : IValue(std::move(results));
    }
    IValue operator()(const std::vector<IValue> &inputs) { return forward(inputs); }
    template <class... A> IValue operator()(const Tensor &first, const A &...more) {
        return forward({IValue(first), IValue(more)...});
    }
    /* A saved program is what it was when it was saved: its mode is part of it. */
    void eval() {}
    void train(bool = true) {}
    void to(Device device, bool = false) {
        NoGradGuard guard;
        for (Tensor &t : parameters()) t.set_data(t.detach().to(device));
    }
    std::vector<Tensor> parameters() const {
        std::vector<Tensor> all;
        int64_t value = 0;
        for (int64_t i = 0; tp_tensor *t = tp_compiled_tensor(graph_.get(), i, &value); i++)
            all.push_back(Tensor::borrow(t));
        return all;
    }
    void save(const std::string &path) const {
        detail::check(tp_compiled_save(graph_.get(), path.c_str(), tp_compiled_note(graph_.get())));
    }

  private:
    std::shared_ptr<tp_compiled> graph_;
};
namespace script {
using jit::Module;
}
inline Module load(const std::string &path, std::optional<Device> device = std::nullopt) {
    Module m(tp_compiled_load(path.c_str()));
    if (device) m.to(*device);
    return m;
}
inline Module freeze(Module m) { return m; }
inline Module optimize_for_inference(Module m) { return m; }
} // namespace jit
} // namespace taper
