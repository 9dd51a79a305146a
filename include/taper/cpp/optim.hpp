/* Optimisers: parameters in groups with options of their own, and schedules of the learning rate. The options and
 * classes are table_optimisers.hpp. */
#pragma once
#include <taper/cpp/module.hpp>

namespace taper {
namespace detail {
inline std::vector<double> optimiser_defaults(const char *kind) {
    const tp_optimiser_kind *k = tp_optimiser_kind_named(kind);
    return std::vector<double>(k->defaults, k->defaults + k->nvalues);
}
} // namespace detail

namespace optim {
class OptimizerOptions {
  public:
    virtual ~OptimizerOptions() = default;
    virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
    virtual std::vector<double> values() const = 0; /* as the C library orders them */
    virtual void take(const std::vector<double> &values) = 0;
    virtual double get_lr() const { return 0; }
    virtual void set_lr(const double) {}
};
template <class Derived> class OptimizerCloneableOptions : public OptimizerOptions {
  public:
    std::unique_ptr<OptimizerOptions> clone() const override {
        return std::unique_ptr<OptimizerOptions>(new Derived(static_cast<const Derived &>(*this)));
    }
};

class OptimizerParamGroup {
  public:
    OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}
    OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
        : params_(std::move(params)), options_(std::move(options)) {}
    OptimizerParamGroup(const OptimizerParamGroup &other)
        : params_(other.params_), options_(other.options_ ? other.options_->clone() : nullptr) {}
    OptimizerParamGroup(OptimizerParamGroup &&) = default;
    OptimizerParamGroup &operator=(OptimizerParamGroup &&) = default;
    bool has_options() const { return options_ != nullptr; }
    OptimizerOptions &options() { return *options_; }
    const OptimizerOptions &options() const { return *options_; }
    void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
    std::vector<Tensor> &params() { return params_; }
    const std::vector<Tensor> &params() const { return params_; }

  private:
    std::vector<Tensor> params_;
    std::unique_ptr<OptimizerOptions> options_;
};

class Optimizer {
  public:
    using LossClosure = std::function<Tensor()>;
    Optimizer(const char *kind, const std::vector<OptimizerParamGroup> &groups, const OptimizerOptions &defaults)
        : kind_(tp_optimiser_kind_named(kind)), defaults_(defaults.clone()) {
        for (const OptimizerParamGroup &g : groups) add_param_group(g);
    }
    Optimizer(const Optimizer &) = delete;
    Optimizer &operator=(const Optimizer &) = delete;
    Optimizer(Optimizer &&) = default;
    virtual ~Optimizer() = default;

    void add_param_group(const OptimizerParamGroup &given) {
        OptimizerParamGroup group(given);
        if (!group.has_options()) group.set_options(defaults_->clone());
        if (!c_) {
            const std::vector<double> values = group.options().values();
            tp_optimiser *o = tp_optimiser_new(kind_, detail::c_tensors(group.params()), values.data());
            detail::check(o != nullptr);
            c_ = std::shared_ptr<tp_optimiser>(o, tp_optimiser_free);
            sent_.push_back(values);
        } else {
            detail::check(tp_optimiser_add_group(c_.get(), detail::c_tensors(group.params())) >= 0);
            sent_.emplace_back();
        }
        groups_.push_back(std::move(group));
        send_options();
    }
    Tensor step(const LossClosure &closure = nullptr) {
        send_options();
        if (closure) return step_with(closure);
        detail::check(tp_step(c_.get()));
        return Tensor();
    }
    void zero_grad(bool set_to_none = true) {
        for (OptimizerParamGroup &g : groups_)
            for (Tensor &p : g.params()) {
                if (!p.grad().defined()) continue;
                if (set_to_none)
                    p.set_grad(Tensor());
                else {
                    p.grad().detach_();
                    p.grad().zero_();
                }
            }
    }
    std::vector<OptimizerParamGroup> &param_groups() { return groups_; }
    const std::vector<OptimizerParamGroup> &param_groups() const { return groups_; }
    OptimizerOptions &defaults() { return *defaults_; }
    const OptimizerOptions &defaults() const { return *defaults_; }
    std::vector<Tensor> parameters() const {
        std::vector<Tensor> all;
        for (const OptimizerParamGroup &g : groups_) all.insert(all.end(), g.params().begin(), g.params().end());
        return all;
    }
    size_t size() const { return parameters().size(); }
    tp_optimiser *get() const { return c_.get(); }
    void save(serialize::OutputArchive &archive) const;
    void load(serialize::InputArchive &archive);

  private:
    /* What the program changed in a group's options reaches the library before a step. */
    void send_options() {
        for (size_t g = 0; g < groups_.size(); g++) {
            const std::vector<double> values = groups_[g].options().values();
            std::vector<double> &sent = sent_[g];
            for (size_t i = 0; i < values.size(); i++)
                if (sent.empty() || !(values[i] == sent[i] || (values[i] != values[i] && sent[i] != sent[i])))
                    detail::check(
                        tp_optimiser_set_option(c_.get(), static_cast<int64_t>(g), kind_->values[i], values[i]));
            sent = values;
        }
    }
    Tensor step_with(const LossClosure &closure) {
        struct Call {
            const LossClosure *closure;
            Tensor first;
        } call{&closure, Tensor()};
        detail::check(tp_step_with(
            c_.get(),
            [](void *context) -> tp_tensor * {
                auto &c = *static_cast<Call *>(context);
                Tensor loss;
                detail::guarded([&] {
                    AutoGradMode guard(true);
                    loss = (*c.closure)();
                    if (!c.first.defined()) c.first = loss;
                });
                return loss.release();
            },
            &call, nullptr));
        return call.first;
    }
    const tp_optimiser_kind *kind_;
    std::unique_ptr<OptimizerOptions> defaults_;
    std::vector<OptimizerParamGroup> groups_;
    std::vector<std::vector<double>> sent_;
    std::shared_ptr<tp_optimiser> c_;
};

// ---- Schedules ----
class LRScheduler {
  public:
    explicit LRScheduler(Optimizer &optimizer) : optimizer_(optimizer) {}
    virtual ~LRScheduler() = default;
    void step() {
        const std::vector<double> lrs = get_lrs();
        for (size_t i = 0; i < lrs.size(); i++) optimizer_.param_groups()[i].options().set_lr(lrs[i]);
        step_count_++;
    }
    /* How many steps were taken. The rates themselves are the optimiser's. */
    virtual void save(serialize::OutputArchive &archive) const;
    virtual void load(serialize::InputArchive &archive);

  protected:
    virtual std::vector<double> get_lrs() = 0;
    std::vector<double> get_current_lrs() const {
        std::vector<double> lrs;
        for (const OptimizerParamGroup &g : optimizer_.param_groups()) lrs.push_back(g.options().get_lr());
        return lrs;
    }
    unsigned step_count_ = 0;
    Optimizer &optimizer_;
};
class StepLR : public LRScheduler {
  public:
    StepLR(Optimizer &optimizer, const unsigned step_size, const double gamma = 0.1)
        : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {}

  private:
    std::vector<double> get_lrs() override {
        std::vector<double> lrs = get_current_lrs();
        if (step_count_ && step_count_ % step_size_ == 0)
            for (double &lr : lrs) lr *= gamma_;
        return lrs;
    }
    const unsigned step_size_;
    const double gamma_;
};
class ReduceLROnPlateauScheduler {
  public:
    enum SchedulerMode { min, max };
    enum ThresholdMode { rel, abs };
    ReduceLROnPlateauScheduler(Optimizer &optimizer, SchedulerMode mode = min, float factor = 0.1f, int patience = 10,
                               double threshold = 1e-4, ThresholdMode threshold_mode = rel, int cooldown = 0,
                               const std::vector<float> &min_lr = {}, double eps = 1e-8, bool verbose = false)
        : optimizer_(optimizer), mode_(mode), threshold_mode_(threshold_mode), factor_(factor), threshold_(threshold),
          eps_(eps), patience_(patience), cooldown_(cooldown), min_lrs_(min_lr),
          best_(mode == min ? INFINITY : -INFINITY) {
        (void)verbose;
        if (min_lrs_.empty()) min_lrs_.assign(optimizer.param_groups().size(), 0.0f);
    }
    void step(float metric) {
        if (is_better(metric)) {
            best_ = metric;
            bad_ = 0;
        } else
            bad_++;
        if (waiting_ > 0) {
            waiting_--;
            bad_ = 0;
        }
        if (bad_ <= patience_) return;
        for (size_t i = 0; i < optimizer_.param_groups().size(); i++) {
            OptimizerOptions &o = optimizer_.param_groups()[i].options();
            const double next = std::max(o.get_lr() * factor_, static_cast<double>(min_lrs_[i]));
            if (o.get_lr() - next > eps_) o.set_lr(next);
        }
        waiting_ = cooldown_;
        bad_ = 0;
    }
    void save(serialize::OutputArchive &archive) const;
    void load(serialize::InputArchive &archive);

  private:
    bool is_better(double a) const {
        const double edge = threshold_mode_ == rel ? best_ * (mode_ == min ? 1 - threshold_ : 1 + threshold_)
                                                   : best_ + (mode_ == min ? -threshold_ : threshold_);
        return mode_ == min ? a < edge : a > edge;
    }
    Optimizer &optimizer_;
    SchedulerMode mode_;
    ThresholdMode threshold_mode_;
    double factor_, threshold_, eps_;
    int patience_, cooldown_, waiting_ = 0, bad_ = 0;
    std::vector<float> min_lrs_;
    double best_;
};
} // namespace optim
} // namespace taper
#include <taper/cpp/table_optimisers.hpp>
