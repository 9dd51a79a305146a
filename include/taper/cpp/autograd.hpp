/* Gradients: grad, backward, and differentiable functions of the program's own. */
#pragma once
#include <taper/cpp/tensor.hpp>
#include <taper/cpp/value.hpp>

#include <map>
#include <unordered_map>

namespace taper {
namespace autograd {
using Variable = Tensor;
using variable_list = std::vector<Tensor>;
using tensor_list = std::vector<Tensor>;
using taper::GradMode;

inline bool any_variable_requires_grad(const variable_list &variables) {
    for (const Tensor &t : variables)
        if (t.defined() && t.requires_grad()) return true;
    return false;
}

inline void backward(const variable_list &tensors, const variable_list &grad_tensors = {},
                     std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                     const variable_list &inputs = {}) {
    tp_backward_options o;
    o.retain_graph = retain_graph.value_or(create_graph);
    o.create_graph = create_graph;
    if (!inputs.empty()) o.inputs = detail::c_tensors(inputs);
    detail::check(tp_backward_many(
        detail::c_tensors(tensors),
        grad_tensors.empty() ? nullptr : reinterpret_cast<tp_tensor *const *>(grad_tensors.data()), &o));
}
inline variable_list grad(const variable_list &outputs, const variable_list &inputs,
                          const variable_list &grad_outputs = {}, std::optional<bool> retain_graph = std::nullopt,
                          bool create_graph = false, bool allow_unused = false) {
    tp_grad_options o{};
    o.size = sizeof o;
    o.retain_graph = retain_graph.value_or(create_graph);
    o.create_graph = create_graph;
    o.allow_unused = allow_unused;
    std::vector<tp_tensor *> grads(inputs.size(), nullptr);
    detail::check(tp_gradients(
        detail::c_tensors(outputs), detail::c_tensors(inputs),
        grad_outputs.empty() ? nullptr : reinterpret_cast<tp_tensor *const *>(grad_outputs.data()), grads.data(), &o));
    variable_list result;
    for (tp_tensor *g : grads) result.push_back(Tensor::steal(g ? tp_own(g) : nullptr));
    return result;
}

/* What forward hands to backward. */
class AutogradContext {
  public:
    void save_for_backward(variable_list tensors) { to_save_ = std::move(tensors); }
    variable_list get_saved_variables() const {
        variable_list result;
        if (!call_) return to_save_;
        for (int64_t i = 0; i < tp_function_saved_count(call_); i++) {
            tp_tensor *t = tp_function_saved(call_, i);
            result.push_back(Tensor::steal(t ? tp_own(t) : nullptr));
        }
        detail::check(tp_ok());
        return result;
    }
    void mark_dirty(const variable_list &tensors) { dirty_ = tensors; }
    void mark_non_differentiable(const variable_list &tensors) { not_differentiable_ = tensors; }
    void set_materialize_grads(bool on) { materialize_ = on; }
    bool needs_input_grad(size_t edge) const { return call_ && tp_function_needs(call_, static_cast<int64_t>(edge)); }
    std::unordered_map<std::string, IValue> saved_data;

  private:
    template <class> friend class Function;
    variable_list to_save_, dirty_, not_differentiable_, inputs_, outputs_;
    std::vector<bool> is_tensor_; /* of forward's arguments */
    bool materialize_ = true;
    tp_function_call *call_ = nullptr;
};

/* struct Double : Function<Double> { static Tensor forward(AutogradContext *, Tensor); static tensor_list
 * backward(AutogradContext *, tensor_list); }; and then Double::apply(x). */
template <class T> class Function {
  public:
    template <class... A> static auto apply(A &&...arguments) {
        auto *ctx = new AutogradContext;
        std::unique_ptr<AutogradContext> owned(ctx);
        (note(*ctx, arguments), ...);
        constexpr bool one = std::is_same_v<decltype(T::forward(ctx, std::forward<A>(arguments)...)), Tensor>;
        /* forward runs before the call is recorded: how many results there are is known only then. */
        {
            NoGradGuard guard;
            if constexpr (one)
                ctx->outputs_ = {T::forward(ctx, std::forward<A>(arguments)...)};
            else
                ctx->outputs_ = T::forward(ctx, std::forward<A>(arguments)...);
        }
        tp_function f{};
        f.size = sizeof f;
        f.name = "CppFunction";
        f.forward = &Function::run;
        f.backward = &Function::back;
        f.release = [](void *context) { delete static_cast<AutogradContext *>(context); };
        const int64_t n = static_cast<int64_t>(ctx->outputs_.size());
        std::vector<tp_tensor *> outputs(ctx->outputs_.size(), nullptr);
        const variable_list inputs = ctx->inputs_; /* the context may be gone when tp_apply returns */
        owned.release();
        detail::check(tp_apply(&f, ctx, detail::c_tensors(inputs), outputs.data(), n));
        variable_list results;
        for (tp_tensor *t : outputs) results.push_back(Tensor::steal(t ? tp_own(t) : nullptr));
        if constexpr (one)
            return results.at(0);
        else
            return results;
    }

  private:
    template <class A> static void note(AutogradContext &ctx, const A &argument) {
        if constexpr (std::is_convertible_v<const A &, Tensor>) {
            const Tensor t = argument;
            ctx.is_tensor_.push_back(t.defined());
            if (t.defined()) ctx.inputs_.push_back(t);
        } else if constexpr (std::is_same_v<A, std::vector<Tensor>>) {
            for (const Tensor &t : argument) {
                ctx.is_tensor_.push_back(true);
                ctx.inputs_.push_back(t);
            }
        } else
            ctx.is_tensor_.push_back(false);
    }
    static bool run(tp_function_call *call, void *context, tp_tensors, tp_tensor **outputs, int64_t noutputs) {
        auto &ctx = *static_cast<AutogradContext *>(context);
        for (const Tensor &t : ctx.dirty_)
            for (size_t i = 0; i < ctx.inputs_.size(); i++)
                if (ctx.inputs_[i].is_same(t)) tp_function_mark_dirty(call, static_cast<int64_t>(i));
        for (const Tensor &t : ctx.not_differentiable_)
            for (int64_t i = 0; i < noutputs; i++)
                if (ctx.outputs_[static_cast<size_t>(i)].is_same(t)) tp_function_mark_nondiff(call, i);
        tp_function_materialize(call, ctx.materialize_);
        const bool saved = ctx.to_save_.empty() || tp_function_save(call, detail::c_tensors(ctx.to_save_));
        for (int64_t i = 0; i < noutputs; i++) outputs[i] = ctx.outputs_[static_cast<size_t>(i)].release();
        ctx.outputs_.clear();
        ctx.to_save_.clear();
        ctx.dirty_.clear();
        ctx.not_differentiable_.clear();
        ctx.inputs_.clear();
        return saved;
    }
    static bool back(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                     tp_tensor **grad_inputs, int64_t ninputs) {
        return detail::guarded([&] {
            auto &ctx = *static_cast<AutogradContext *>(context);
            ctx.call_ = call;
            variable_list given;
            for (int64_t i = 0; i < noutputs; i++) given.push_back(Tensor::borrow(grads[i]));
            variable_list made = T::backward(&ctx, given);
            int64_t at = 0;
            for (size_t i = 0; i < ctx.is_tensor_.size() && i < made.size() && at < ninputs; i++)
                if (ctx.is_tensor_[i]) grad_inputs[at++] = made[i].release();
        });
    }
};

struct AnomalyMode {
    static bool is_enabled() { return tp_anomaly_enabled(); }
    static void set_enabled(bool on, bool check_nan = true) {
        tp_set_anomaly(on);
        tp_set_anomaly_checks_nan(check_nan);
    }
};
class DetectAnomalyGuard {
  public:
    DetectAnomalyGuard(bool check_nan = true) : before_(tp_anomaly_enabled()) {
        AnomalyMode::set_enabled(true, check_nan);
    }
    ~DetectAnomalyGuard() { tp_set_anomaly(before_); }

  private:
    bool before_;
};
} // namespace autograd
} // namespace taper
