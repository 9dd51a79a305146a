/* Data: datasets by subclassing, transforms, samplers, loaders with threads that read ahead. */
#pragma once
#include <taper/cpp/tensor.hpp>

#include <chrono>
#include <deque>
#include <future>

namespace taper {
namespace serialize {
class OutputArchive;
class InputArchive;
} // namespace serialize
namespace data {
struct NoTarget {};
template <class Data = Tensor, class Target = Tensor> struct Example {
    using DataType = Data;
    using TargetType = Target;
    Example() = default;
    Example(Data d, Target t) : data(std::move(d)), target(std::move(t)) {}
    Data data;
    Target target;
};
template <class Data> struct Example<Data, NoTarget> {
    using DataType = Data;
    using TargetType = NoTarget;
    Example() = default;
    Example(Data d) : data(std::move(d)) {}
    operator Data &() { return data; }
    operator const Data &() const { return data; }
    Data data;
};
using TensorExample = Example<Tensor, NoTarget>;

namespace datasets {
template <class Source, class Transform> class MapDataset;
namespace detail_ {
template <class T> struct is_optional : std::false_type {};
template <class T> struct is_optional<std::optional<T>> : std::true_type {};
template <bool stateful, class Batch> using result_t = std::conditional_t<stateful, std::optional<Batch>, Batch>;
} // namespace detail_

template <class Self, class Batch = std::vector<Example<>>, class Request = ArrayRef<size_t>> class BatchDataset {
  public:
    using SelfType = Self;
    using BatchType = Batch;
    using BatchRequestType = Request;
    static constexpr bool is_stateful = detail_::is_optional<Batch>::value;
    virtual ~BatchDataset() = default;
    virtual Batch get_batch(Request request) = 0;
    virtual std::optional<size_t> size() const = 0;
    template <class T> MapDataset<Self, T> map(T transform) & {
        return MapDataset<Self, T>(static_cast<Self &>(*this), std::move(transform));
    }
    template <class T> MapDataset<Self, T> map(T transform) && {
        return MapDataset<Self, T>(std::move(static_cast<Self &>(*this)), std::move(transform));
    }
};
template <class Self, class SingleExample = Example<>>
class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
  public:
    using ExampleType = SingleExample;
    virtual ExampleType get(size_t index) = 0;
    std::vector<ExampleType> get_batch(ArrayRef<size_t> indices) override {
        std::vector<ExampleType> batch;
        batch.reserve(indices.size());
        for (const size_t i : indices) batch.push_back(get(i));
        return batch;
    }
};
/* Gives what comes next: it is asked for a number of examples. */
template <class Self, class Batch = std::vector<Example<>>> using StreamDataset = BatchDataset<Self, Batch, size_t>;
/* Keeps its own place, and gives nothing when it is at its end. Threads of a loader share it, so it locks by itself. */
template <class Self, class Batch = std::vector<Example<>>, class Request = size_t>
class StatefulDataset : public BatchDataset<Self, std::optional<Batch>, Request> {
  public:
    virtual void reset() = 0;
    virtual void save(serialize::OutputArchive &archive) const = 0;
    virtual void load(serialize::InputArchive &archive) = 0;
};
template <class Self, class Batch, class Request>
inline serialize::OutputArchive &operator<<(serialize::OutputArchive &archive,
                                            const StatefulDataset<Self, Batch, Request> &dataset) {
    dataset.save(archive);
    return archive;
}
template <class Self, class Batch, class Request>
inline serialize::InputArchive &operator>>(serialize::InputArchive &archive,
                                           StatefulDataset<Self, Batch, Request> &dataset) {
    dataset.load(archive);
    return archive;
}
template <class Source, class Transform>
class MapDataset : public BatchDataset<MapDataset<Source, Transform>,
                                       detail_::result_t<Source::is_stateful, typename Transform::OutputBatchType>,
                                       typename Source::BatchRequestType> {
  public:
    using DatasetType = Source;
    using TransformType = Transform;
    using Result = detail_::result_t<Source::is_stateful, typename Transform::OutputBatchType>;
    MapDataset(Source source, Transform transform) : source_(std::move(source)), transform_(std::move(transform)) {}
    Result get_batch(typename Source::BatchRequestType request) override {
        auto batch = source_.get_batch(std::move(request));
        if constexpr (Source::is_stateful)
            return batch ? Result(transform_.apply_batch(std::move(*batch))) : std::nullopt;
        else
            return transform_.apply_batch(std::move(batch));
    }
    void reset() { source_.reset(); }
    std::optional<size_t> size() const noexcept override { return source_.size(); }
    const Source &dataset() const { return source_; }
    const Transform &transform() const { return transform_; }

  private:
    Source source_;
    Transform transform_;
};
/* Copies share one dataset. */
template <class Source>
class SharedBatchDataset
    : public BatchDataset<SharedBatchDataset<Source>, typename Source::BatchType, typename Source::BatchRequestType> {
  public:
    SharedBatchDataset(std::shared_ptr<Source> source) : source_(std::move(source)) {}
    typename Source::BatchType get_batch(typename Source::BatchRequestType request) override {
        return source_->get_batch(std::move(request));
    }
    std::optional<size_t> size() const override { return source_->size(); }
    void reset() { source_->reset(); }
    Source &operator*() { return *source_; }
    const Source &operator*() const { return *source_; }
    Source *operator->() { return source_.get(); }
    const Source *operator->() const { return source_.get(); }

  private:
    std::shared_ptr<Source> source_;
};
template <class Source, class... A> inline SharedBatchDataset<Source> make_shared_dataset(A &&...args) {
    return std::make_shared<Source>(std::forward<A>(args)...);
}
class TensorDataset : public Dataset<TensorDataset, TensorExample> {
  public:
    explicit TensorDataset(const std::vector<Tensor> &tensors) : TensorDataset(stack(tensors)) {}
    explicit TensorDataset(Tensor t) : tensor(std::move(t)) {}
    TensorExample get(size_t index) override { return tensor[static_cast<int64_t>(index)]; }
    std::optional<size_t> size() const override { return static_cast<size_t>(tensor.size(0)); }
    Tensor tensor;
};

/* MNIST's files under their own names or the shorter ones of Taper's examples, compressed or not. */
class MNIST : public Dataset<MNIST> {
  public:
    enum class Mode { kTrain, kTest };
    explicit MNIST(const std::string &root, Mode mode = Mode::kTrain) : train_(mode == Mode::kTrain) {
        images_ =
            read(root, train_ ? "train-images" : "t10k-images", "-idx3-ubyte", 4).unsqueeze(1).to(kFloat).div_(255);
        targets_ = read(root, train_ ? "train-labels" : "t10k-labels", "-idx1-ubyte", 1).to(kLong);
    }
    Example<> get(size_t index) override {
        return {images_[static_cast<int64_t>(index)], targets_[static_cast<int64_t>(index)]};
    }
    std::optional<size_t> size() const override { return static_cast<size_t>(images_.size(0)); }
    bool is_train() const noexcept { return train_; }
    const Tensor &images() const { return images_; }
    const Tensor &targets() const { return targets_; }

  private:
    static Tensor read(const std::string &root, std::string name, const char *kind, int) {
        const std::string longer = root + "/" + name + kind;
        std::string shorter = name.compare(0, 4, "t10k") == 0 ? "test" + name.substr(4) : name;
        for (const std::string &path :
             {longer, longer + ".gz", root + "/" + shorter + ".idx.gz", root + "/" + shorter + ".idx"})
            if (std::FILE *f = std::fopen(path.c_str(), "rb")) {
                std::fclose(f);
                return detail::take(tp_read_idx(path.c_str()));
            }
        detail::raise(TP_ERR_IO, "Error opening images file at " + longer);
        return Tensor();
    }
    Tensor images_, targets_;
    bool train_;
};
} // namespace datasets
using datasets::BatchDataset;
using datasets::Dataset;

namespace transforms {
template <class Input, class Output> class BatchTransform {
  public:
    using InputBatchType = Input;
    using OutputBatchType = Output;
    virtual ~BatchTransform() = default;
    virtual Output apply_batch(Input batch) = 0;
};
template <class Input, class Output> class Transform : public BatchTransform<std::vector<Input>, std::vector<Output>> {
  public:
    using InputType = Input;
    using OutputType = Output;
    virtual Output apply(Input input) = 0;
    std::vector<Output> apply_batch(std::vector<Input> batch) override {
        std::vector<Output> out;
        out.reserve(batch.size());
        for (Input &i : batch) out.push_back(apply(std::move(i)));
        return out;
    }
};
template <class Input, class Output = Input> class BatchLambda : public BatchTransform<Input, Output> {
  public:
    explicit BatchLambda(std::function<Output(Input)> f) : f_(std::move(f)) {}
    Output apply_batch(Input batch) override { return f_(std::move(batch)); }

  private:
    std::function<Output(Input)> f_;
};
template <class Input, class Output = Input> class Lambda : public Transform<Input, Output> {
  public:
    explicit Lambda(std::function<Output(Input)> f) : f_(std::move(f)) {}
    Output apply(Input input) override { return f_(std::move(input)); }

  private:
    std::function<Output(Input)> f_;
};
template <class Target = Tensor>
class TensorTransform : public Transform<Example<Tensor, Target>, Example<Tensor, Target>> {
  public:
    using E = Example<Tensor, Target>;
    virtual Tensor operator()(Tensor input) = 0;
    E apply(E input) override {
        input.data = (*this)(std::move(input.data));
        return input;
    }
};
template <class Target = Tensor> class TensorLambda : public TensorTransform<Target> {
  public:
    explicit TensorLambda(std::function<Tensor(Tensor)> f) : f_(std::move(f)) {}
    Tensor operator()(Tensor input) override { return f_(std::move(input)); }

  private:
    std::function<Tensor(Tensor)> f_;
};
template <class Target = Tensor> class Normalize : public TensorTransform<Target> {
  public:
    Normalize(ArrayRef<double> mean, ArrayRef<double> stddev)
        : mean_(tensor(mean.vec(), kFloat).unsqueeze(1).unsqueeze(2)),
          stddev_(tensor(stddev.vec(), kFloat).unsqueeze(1).unsqueeze(2)) {}
    Tensor operator()(Tensor input) override { return input.sub(mean_).div(stddev_); }

  private:
    Tensor mean_, stddev_;
};
template <class T = Example<>> class Stack;
template <> class Stack<Example<>> : public BatchTransform<std::vector<Example<>>, Example<>> {
  public:
    Example<> apply_batch(std::vector<Example<>> batch) override {
        std::vector<Tensor> data, targets;
        for (Example<> &e : batch) {
            data.push_back(std::move(e.data));
            targets.push_back(std::move(e.target));
        }
        return {stack(data), stack(targets)};
    }
};
template <> class Stack<TensorExample> : public BatchTransform<std::vector<TensorExample>, TensorExample> {
  public:
    TensorExample apply_batch(std::vector<TensorExample> batch) override {
        std::vector<Tensor> data;
        for (TensorExample &e : batch) data.push_back(std::move(e.data));
        return stack(data);
    }
};
template <class E = Example<>, class Batch = std::vector<E>> using Collation = BatchTransform<Batch, E>;
template <class E = Example<>, class Batch = std::vector<E>> using Collate = BatchLambda<Batch, E>;
} // namespace transforms

namespace samplers {
template <class Request = std::vector<size_t>> class Sampler {
  public:
    using BatchRequestType = Request;
    virtual ~Sampler() = default;
    virtual void reset(std::optional<size_t> new_size = std::nullopt) = 0;
    virtual std::optional<Request> next(size_t batch_size) = 0;
};
class SequentialSampler : public Sampler<> {
  public:
    explicit SequentialSampler(size_t size) : size_(size) {}
    void reset(std::optional<size_t> new_size = std::nullopt) override {
        size_ = new_size.value_or(size_);
        at_ = 0;
    }
    std::optional<std::vector<size_t>> next(size_t batch_size) override {
        if (at_ == size_) return std::nullopt;
        std::vector<size_t> batch;
        while (batch.size() < batch_size && at_ < size_) batch.push_back(at_++);
        return batch;
    }
    size_t index() const { return at_; }

  private:
    size_t size_, at_ = 0;
};
/* A new order at each reset, and one when it is made: LibTorch draws both, so a seed gives its order. */
class RandomSampler : public Sampler<> {
  public:
    explicit RandomSampler(int64_t size, ScalarType = kLong) : order_(randperm(size, kLong)) {}
    void reset(std::optional<size_t> new_size = std::nullopt) override {
        order_ = randperm(new_size ? static_cast<int64_t>(*new_size) : order_.numel(), kLong);
        at_ = 0;
    }
    std::optional<std::vector<size_t>> next(size_t batch_size) override {
        if (at_ == order_.numel()) return std::nullopt;
        std::vector<size_t> batch;
        const int64_t *order = order_.data_ptr<int64_t>();
        while (batch.size() < batch_size && at_ < order_.numel()) batch.push_back(static_cast<size_t>(order[at_++]));
        return batch;
    }
    size_t index() const { return static_cast<size_t>(at_); }

  private:
    Tensor order_;
    int64_t at_ = 0;
};
/* A number of examples instead of their places: for datasets that give what comes next. */
struct BatchSize {
    explicit BatchSize(size_t n) : n_(n) {}
    size_t size() const noexcept { return n_; }
    operator size_t() const noexcept { return n_; }

  private:
    size_t n_;
};
class StreamSampler : public Sampler<BatchSize> {
  public:
    explicit StreamSampler(size_t epoch_size) : size_(epoch_size) {}
    void reset(std::optional<size_t> new_size = std::nullopt) override {
        size_ = new_size.value_or(size_);
        given_ = 0;
    }
    std::optional<BatchSize> next(size_t batch_size) override {
        if (given_ >= size_) return std::nullopt;
        const size_t n = std::min(batch_size, size_ - given_);
        given_ += n;
        return BatchSize(n);
    }

  private:
    size_t size_, given_ = 0;
};
class DistributedSampler : public Sampler<> {
  public:
    DistributedSampler(size_t size, size_t replicas = 1, size_t rank = 0, bool allow_duplicates = true)
        : size_(size), replicas_(replicas), rank_(rank), allow_duplicates_(allow_duplicates) {}
    void set_epoch(size_t epoch) { epoch_ = epoch; }
    size_t epoch() const { return epoch_; }
    std::optional<std::vector<size_t>> next(size_t batch_size) override {
        if (at_ >= mine_.size()) return std::nullopt;
        std::vector<size_t> batch;
        while (batch.size() < batch_size && at_ < mine_.size()) batch.push_back(mine_[at_++]);
        return batch;
    }
    size_t index() const { return at_; }

  protected:
    size_t local_count() const { return allow_duplicates_ ? (size_ + replicas_ - 1) / replicas_ : size_ / replicas_; }
    void deal(const std::vector<size_t> &all, bool strided) {
        mine_.clear();
        at_ = 0;
        const size_t n = local_count();
        for (size_t i = 0; i < n; i++)
            mine_.push_back(all[(strided ? rank_ + i * replicas_ : rank_ * n + i) % all.size()]);
    }
    size_t size_, replicas_, rank_, epoch_ = 0, at_ = 0;
    bool allow_duplicates_;
    std::vector<size_t> mine_;
};
class DistributedRandomSampler : public DistributedSampler {
  public:
    DistributedRandomSampler(size_t size, size_t replicas = 1, size_t rank = 0, bool allow_duplicates = true)
        : DistributedSampler(size, replicas, rank, allow_duplicates) {
        reset(size_);
    }
    void reset(std::optional<size_t> new_size = std::nullopt) override {
        size_ = new_size.value_or(size_);
        const Tensor order = randperm(static_cast<int64_t>(size_), Generator::make(epoch_), kLong);
        const int64_t *p = order.data_ptr<int64_t>();
        deal(std::vector<size_t>(p, p + order.numel()), false);
    }
};
class DistributedSequentialSampler : public DistributedSampler {
  public:
    DistributedSequentialSampler(size_t size, size_t replicas = 1, size_t rank = 0, bool allow_duplicates = true)
        : DistributedSampler(size, replicas, rank, allow_duplicates) {
        reset(size_);
    }
    void reset(std::optional<size_t> new_size = std::nullopt) override {
        size_ = new_size.value_or(size_);
        std::vector<size_t> all(size_);
        for (size_t i = 0; i < size_; i++) all[i] = i;
        deal(all, false);
    }
};
} // namespace samplers

struct DataLoaderOptions {
    DataLoaderOptions() = default;
    DataLoaderOptions(size_t batch_size) : batch_size_(batch_size) {}
    TAPER_OPTION_(DataLoaderOptions, size_t, batch_size, 1)
    TAPER_OPTION_(DataLoaderOptions, size_t, workers, 0)
    TAPER_OPTION_(DataLoaderOptions, std::optional<size_t>, max_jobs, std::nullopt)
    TAPER_OPTION_(DataLoaderOptions, std::optional<std::chrono::milliseconds>, timeout, std::nullopt)
    TAPER_OPTION_(DataLoaderOptions, bool, enforce_ordering, true)
    TAPER_OPTION_(DataLoaderOptions, bool, drop_last, false)
};

/* What a loader has made of its options. */
struct FullDataLoaderOptions {
    explicit FullDataLoaderOptions(const DataLoaderOptions &o)
        : batch_size(o.batch_size()), workers(o.workers()), max_jobs(o.max_jobs().value_or(2 * workers)),
          timeout(o.timeout()), enforce_ordering(o.enforce_ordering()), drop_last(o.drop_last()) {}
    size_t batch_size, workers, max_jobs;
    std::optional<std::chrono::milliseconds> timeout;
    bool enforce_ordering, drop_last;
};

/* What loaders have in common: the loop over batches, and the threads that make them ahead. */
template <class Source, class Batch, class Request> class DataLoaderBase {
  public:
    using BatchType = Batch;
    DataLoaderBase(std::vector<Source> datasets, DataLoaderOptions options)
        : datasets_(std::move(datasets)), options_(options) {}
    virtual ~DataLoaderBase() { join(); }
    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = BatchType;
        using difference_type = std::ptrdiff_t;
        using pointer = BatchType *;
        using reference = BatchType &;
        explicit Iterator(DataLoaderBase *loader) : loader_(loader) {
            if (loader_) ++*this;
        }
        Iterator &operator++() {
            batch_ = loader_->next();
            if (!batch_) loader_ = nullptr;
            return *this;
        }
        BatchType &operator*() { return *batch_; }
        BatchType *operator->() { return &*batch_; }
        bool operator==(const Iterator &other) const { return loader_ == other.loader_; }
        bool operator!=(const Iterator &other) const { return loader_ != other.loader_; }

      private:
        DataLoaderBase *loader_;
        std::optional<BatchType> batch_;
    };
    Iterator begin() {
        join();
        reset();
        job_ = 0;
        for (size_t i = 0; i < options_.workers; i++) start_one();
        return Iterator(this);
    }
    Iterator end() { return Iterator(nullptr); }
    void join() {
        for (auto &w : waiting_) w.wait();
        waiting_.clear();
    }
    const FullDataLoaderOptions &options() const { return options_; }

  protected:
    virtual void reset() = 0;
    virtual std::optional<Request> request() = 0;
    std::vector<Source> datasets_;
    FullDataLoaderOptions options_;

  private:
    static std::optional<Batch> load(Source &source, const Request &request) { return source.get_batch(request); }
    std::optional<Batch> next() {
        if (!options_.workers) {
            const std::optional<Request> wanted = request();
            return wanted ? load(datasets_[0], *wanted) : std::nullopt;
        }
        while (!waiting_.empty()) {
            std::future<std::optional<Batch>> oldest = std::move(waiting_.front());
            waiting_.pop_front();
            std::optional<Batch> batch = oldest.get();
            if (!batch) continue; /* a dataset that keeps its place is at its end: what others began is still to come */
            start_one();
            return batch;
        }
        return std::nullopt;
    }
    /* Threads have a dataset each, or share the one there is; batches come in order. */
    void start_one() {
        std::optional<Request> wanted = request();
        if (!wanted) return;
        Source &mine = datasets_[job_++ % datasets_.size()];
        waiting_.push_back(
            std::async(std::launch::async, [&mine, wanted = std::move(*wanted)] { return load(mine, wanted); }));
    }
    std::deque<std::future<std::optional<Batch>>> waiting_;
    size_t job_ = 0;
};
/* Each thread has a copy of the dataset, and a sampler says which examples come next. */
template <class Source, class Sampler>
class StatelessDataLoader
    : public DataLoaderBase<Source, typename Source::BatchType, typename Sampler::BatchRequestType> {
  public:
    using Request = typename Sampler::BatchRequestType;
    using Base = DataLoaderBase<Source, typename Source::BatchType, Request>;
    StatelessDataLoader(Source dataset, Sampler sampler, DataLoaderOptions options)
        : Base(std::vector<Source>(std::max<size_t>(options.workers(), 1), dataset), options),
          sampler_(std::move(sampler)) {}

  private:
    void reset() override { sampler_.reset(); }
    std::optional<Request> request() override {
        std::optional<Request> wanted = sampler_.next(this->options_.batch_size);
        if (wanted && this->options_.drop_last && wanted->size() < this->options_.batch_size) return std::nullopt;
        return wanted;
    }
    Sampler sampler_;
};
/* The dataset keeps its own place, and threads share it. */
template <class Source>
class StatefulDataLoader : public DataLoaderBase<Source, typename Source::BatchType::value_type, size_t> {
  public:
    StatefulDataLoader(Source dataset, DataLoaderOptions options)
        : DataLoaderBase<Source, typename Source::BatchType::value_type, size_t>({std::move(dataset)}, options) {}

  private:
    void reset() override { this->datasets_[0].reset(); }
    std::optional<size_t> request() override { return this->options_.batch_size; }
};
template <class Source, class Sampler>
inline std::unique_ptr<StatelessDataLoader<Source, Sampler>> make_data_loader(Source dataset, Sampler sampler,
                                                                              DataLoaderOptions options) {
    return std::make_unique<StatelessDataLoader<Source, Sampler>>(std::move(dataset), std::move(sampler), options);
}
template <class Sampler = samplers::RandomSampler, class Source, class = std::enable_if_t<!Source::is_stateful>>
inline std::unique_ptr<StatelessDataLoader<Source, Sampler>> make_data_loader(Source dataset,
                                                                              DataLoaderOptions options = {}) {
    const std::optional<size_t> size = dataset.size();
    if (!size) detail::raise(TP_ERR_RUNTIME, "Expected the dataset to be sized in order to construct the Sampler");
    Sampler sampler(*size);
    return make_data_loader(std::move(dataset), std::move(sampler), options);
}
template <class Source, class = std::enable_if_t<Source::is_stateful>, class = void>
inline std::unique_ptr<StatefulDataLoader<Source>> make_data_loader(Source dataset, DataLoaderOptions options = {}) {
    return std::make_unique<StatefulDataLoader<Source>>(std::move(dataset), options);
}
} // namespace data
} // namespace taper
