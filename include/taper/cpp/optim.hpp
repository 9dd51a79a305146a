/* Optimisers: parameters in groups with options of their own, and schedules of the learning rate. The options and
 * classes are table_optimisers.hpp. */
#pragma once
#include <taper/cpp/module.hpp>
#include <taper/schedule.h>

#include <unordered_map>

namespace taper {
namespace detail {
inline std::vector<double> optimiser_defaults(const char *kind) {
    const tp_optimiser_kind *k = tp_optimiser_kind_named(kind);
    return std::vector<double>(k->defaults, k->defaults + k->nvalues);
}
template <class T> inline T number_or_zero(const Tensor &t) { return t.defined() ? t.item<T>() : T(0); }
} // namespace detail

namespace optim {
class OptimizerOptions {
  public:
    virtual ~OptimizerOptions() = default;
    virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
    virtual std::vector<double> values() const = 0; /* as the C library orders them */
    virtual void take(const std::vector<double> &values) = 0;
    /* Options that are still what they begin as become those of the optimiser, as LibTorch merges a group's. */
    virtual void inherit(const OptimizerOptions &defaults) = 0;
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

/* What an optimiser keeps of one parameter, as it is when Optimizer::state() is called. Its tensors are the
 * optimiser's: what is written into them counts in the next step. */
class OptimizerParamState {
  public:
    using Read = std::function<Tensor(const char *name)>; /* undefined while there is none */
    virtual ~OptimizerParamState() = default;
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
        if (group.has_options())
            group.options().inherit(*defaults_);
        else
            group.set_options(defaults_->clone());
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
    using State = std::unordered_map<void *, std::unique_ptr<OptimizerParamState>>;
    /* By parameter (unsafeGetTensorImpl()). A parameter of which nothing is kept yet is not in it. */
    const State &state() const {
        state_.clear();
        const std::vector<Tensor> all = parameters();
        for (size_t p = 0; p < all.size(); p++) {
            bool any = false;
            std::unique_ptr<OptimizerParamState> kept = read_state([&](const char *name) {
                tp_tensor *t = tp_optimiser_state(c_.get(), static_cast<int64_t>(p), name);
                any = any || t;
                return Tensor::borrow(t);
            });
            if (any) state_[all[p].get()] = std::move(kept);
        }
        return state_;
    }
    std::vector<Tensor> parameters() const {
        std::vector<Tensor> all;
        for (const OptimizerParamGroup &g : groups_) all.insert(all.end(), g.params().begin(), g.params().end());
        return all;
    }
    size_t size() const { return parameters().size(); }
    tp_optimiser *get() const { return c_.get(); }
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
    /* And what a schedule changed in the library reaches the program. */
    void take_options() {
        for (size_t g = 0; g < groups_.size(); g++) {
            for (size_t i = 0; i < sent_[g].size(); i++)
                sent_[g][i] = tp_optimiser_option(c_.get(), static_cast<int64_t>(g), kind_->values[i]);
            groups_[g].options().take(sent_[g]);
        }
    }
    void save(serialize::OutputArchive &archive) const;
    void load(serialize::InputArchive &archive);

  protected:
    virtual std::unique_ptr<OptimizerParamState> read_state(const OptimizerParamState::Read &) const { return nullptr; }

  private:
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
    mutable State state_;
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
    inline virtual void save(serialize::OutputArchive &archive) const;
    inline virtual void load(serialize::InputArchive &archive);

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
/* A schedule of the C library (taper/schedule.h), with its options by the names that they have there:
 *
 *     taper::optim::CosineAnnealingLR schedule(adam, {{"T_max", 50}, {"eta_min", 1e-5}});
 *
 * It sets the rates that the optimiser's groups have in C, and what the program reads of them here. */
class Schedule {
  public:
    using Options = std::vector<std::pair<const char *, double>>;
    using Rate = std::function<double(int64_t epoch)>;
    Schedule(const char *kind, Optimizer &optimizer, const Options &options,
             const std::vector<int64_t> &milestones = {}, Rate rate = nullptr, const char *mode = nullptr)
        : kind_(kind), optimizer_(optimizer), rate_(std::make_shared<Rate>(std::move(rate))) {
        tp_schedule_options o;
        for (const auto &option : options)
            if (!tp_schedule_option(&o, option.first, option.second))
                detail::raise(TP_ERR_VALUE, std::string(kind) + " has no option '" + option.first + "'");
        if (!milestones.empty())
            o.milestones = tp_ints_view(milestones.data(), static_cast<int64_t>(milestones.size()));
        if (*rate_) o.lr_lambda = [](int64_t e, void *context) { return (*static_cast<Rate *>(context))(e); };
        o.context = rate_.get();
        (std::string(kind) == "CyclicLR" ? o.mode : o.anneal_strategy) = mode;
        optimizer_.send_options();
        tp_schedule *s = tp_schedule_new(kind, optimizer.get(), &o);
        detail::check(s != nullptr);
        c_ = std::shared_ptr<tp_schedule>(s, tp_schedule_free);
        optimizer_.take_options();
    }
    void step() {
        optimizer_.send_options();
        detail::check(tp_schedule_step(c_.get()));
        optimizer_.take_options();
    }
    std::vector<double> get_last_lr() const {
        std::vector<double> all;
        for (const OptimizerParamGroup &g : optimizer_.param_groups()) all.push_back(g.options().get_lr());
        return all;
    }
    tp_schedule *get() const { return c_.get(); }
    void save(serialize::OutputArchive &archive) const;
    void load(serialize::InputArchive &archive);

  private:
    const char *kind_;
    Optimizer &optimizer_;
    std::shared_ptr<Rate> rate_;
    std::shared_ptr<tp_schedule> c_;
};
#define TAPER_SCHEDULE_(kind)                                                                                     \
    class kind : public Schedule {                                                                                \
      public:                                                                                                     \
        explicit kind(Optimizer &optimizer, const Options &options = {}) : Schedule(#kind, optimizer, options) {} \
    };
TAPER_SCHEDULE_(ConstantLR)
TAPER_SCHEDULE_(LinearLR)
TAPER_SCHEDULE_(ExponentialLR)
TAPER_SCHEDULE_(PolynomialLR)
TAPER_SCHEDULE_(CosineAnnealingLR)
TAPER_SCHEDULE_(CosineAnnealingWarmRestarts)
#undef TAPER_SCHEDULE_
class MultiStepLR : public Schedule {
  public:
    MultiStepLR(Optimizer &optimizer, const std::vector<int64_t> &milestones, const Options &options = {})
        : Schedule("MultiStepLR", optimizer, options, milestones) {}
};
/* `rate` gives the factor of an epoch. */
class LambdaLR : public Schedule {
  public:
    LambdaLR(Optimizer &optimizer, Rate rate) : Schedule("LambdaLR", optimizer, {}, {}, std::move(rate)) {}
};
class MultiplicativeLR : public Schedule {
  public:
    MultiplicativeLR(Optimizer &optimizer, Rate rate)
        : Schedule("MultiplicativeLR", optimizer, {}, {}, std::move(rate)) {}
};
class CyclicLR : public Schedule { /* mode: triangular, triangular2 or exp_range */
  public:
    CyclicLR(Optimizer &optimizer, const Options &options, const char *mode = nullptr)
        : Schedule("CyclicLR", optimizer, options, {}, nullptr, mode) {}
};
class OneCycleLR : public Schedule { /* anneal_strategy: cos or linear */
  public:
    OneCycleLR(Optimizer &optimizer, const Options &options, const char *anneal_strategy = nullptr)
        : Schedule("OneCycleLR", optimizer, options, {}, nullptr, anneal_strategy) {}
};
class SWALR : public Schedule {
  public:
    SWALR(Optimizer &optimizer, const Options &options, const char *anneal_strategy = nullptr)
        : Schedule("SWALR", optimizer, options, {}, nullptr, anneal_strategy) {}
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
