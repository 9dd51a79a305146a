/* Process groups under c10d's names: one process per rank, which exchange tensors. On taper/dist.h. */
#pragma once
#include <taper/cpp/tensor.hpp>
#include <taper/dist.h>

#include <chrono>

namespace taper {
namespace c10d {
/* c10d::ReduceOp::SUM, and a variable that holds one. */
struct ReduceOp {
    enum RedOpType : uint8_t {
        SUM = TP_REDUCE_SUM,
        AVG = TP_REDUCE_AVG,
        PRODUCT = TP_REDUCE_PRODUCT,
        MIN = TP_REDUCE_MIN,
        MAX = TP_REDUCE_MAX,
        BAND = TP_REDUCE_BAND,
        BOR = TP_REDUCE_BOR,
        BXOR = TP_REDUCE_BXOR
    };
    ReduceOp() = default;
    ReduceOp(RedOpType op) : op_(op) {}
    operator RedOpType() const { return op_; }
    RedOpType op_ = SUM;
};
constexpr std::chrono::milliseconds kUnsetTimeout(-1);
constexpr std::chrono::milliseconds kNoTimeout(0);

struct AllreduceOptions {
    ReduceOp reduceOp = ReduceOp::SUM;
    std::chrono::milliseconds timeout = kUnsetTimeout;
};
struct BroadcastOptions {
    int64_t rootRank = 0;
    int64_t rootTensor = 0;
    std::chrono::milliseconds timeout = kUnsetTimeout;
    bool asyncOp = true;
};
struct ReduceOptions {
    ReduceOp reduceOp = ReduceOp::SUM;
    int64_t rootRank = 0;
    int64_t rootTensor = 0;
    std::chrono::milliseconds timeout = kUnsetTimeout;
};
struct AllgatherOptions {
    std::chrono::milliseconds timeout = kUnsetTimeout;
    bool asyncOp = true;
};
struct GatherOptions {
    int64_t rootRank = 0;
    std::chrono::milliseconds timeout = kUnsetTimeout;
};
struct ScatterOptions {
    int64_t rootRank = 0;
    std::chrono::milliseconds timeout = kUnsetTimeout;
};
struct BarrierOptions {
    std::chrono::milliseconds timeout = kUnsetTimeout;
};

/* A collective under way. It holds the tensors that take part. */
class Work {
  public:
    Work(tp_work *work, std::vector<Tensor> tensors) : work_(work), tensors_(std::move(tensors)) {
        detail::check(work != nullptr);
    }
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;
    ~Work() { tp_work_release(work_); }
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) {
        const bool waits = timeout == kNoTimeout || timeout == kUnsetTimeout;
        detail::check(tp_work_wait(work_, waits ? -1 : static_cast<double>(timeout.count()) / 1000));
        return true;
    }
    bool isCompleted() { return tp_work_done(work_); }
    bool isSuccess() const { return tp_work_succeeded(work_); }
    int sourceRank() const { return tp_work_source(work_); }
    std::vector<Tensor> result() { return tensors_; }

  private:
    tp_work *work_;
    std::vector<Tensor> tensors_;
};

class ProcessGroup {
  public:
    using Work = c10d::Work;
    using Pending = std::shared_ptr<c10d::Work>;
    /* group NULL: all ranks of the job */
    explicit ProcessGroup(tp_group *group = nullptr) : group_(group) {}
    virtual ~ProcessGroup() = default;
    int getRank() const { return tp_group_rank(group_); }
    int getSize() const { return tp_group_size(group_); }
    virtual const std::string getBackendName() const { return tp_dist_engine() ? tp_dist_engine() : ""; }

    Pending allreduce(std::vector<Tensor> &tensors, const AllreduceOptions &o = {}) {
        const Tensor &t = one(tensors, "allreduce");
        return pending(tp_dist_all_reduce(group_, t.get(), op(o.reduceOp)), tensors);
    }
    Pending broadcast(std::vector<Tensor> &tensors, const BroadcastOptions &o = {}) {
        const Tensor &t = one(tensors, "broadcast");
        return pending(tp_dist_broadcast(group_, t.get(), static_cast<int>(o.rootRank)), tensors);
    }
    Pending reduce(std::vector<Tensor> &tensors, const ReduceOptions &o = {}) {
        const Tensor &t = one(tensors, "reduce");
        return pending(tp_dist_reduce(group_, t.get(), op(o.reduceOp), static_cast<int>(o.rootRank)), tensors);
    }
    Pending allgather(std::vector<std::vector<Tensor>> &out, std::vector<Tensor> &in, const AllgatherOptions & = {}) {
        const Tensor &t = one(in, "allgather");
        std::vector<Tensor> &into = lists(out, "allgather");
        return pending(tp_dist_all_gather(group_, detail::c_tensors(into), t.get()), both(into, in));
    }
    Pending gather(std::vector<std::vector<Tensor>> &out, std::vector<Tensor> &in, const GatherOptions &o = {}) {
        const Tensor &t = one(in, "gather");
        std::vector<Tensor> into = out.empty() ? std::vector<Tensor>() : out[0];
        tp_work *work = tp_dist_gather(group_, detail::c_tensors(into), t.get(), static_cast<int>(o.rootRank));
        return pending(work, both(into, in));
    }
    Pending scatter(std::vector<Tensor> &out, std::vector<std::vector<Tensor>> &in, const ScatterOptions &o = {}) {
        const Tensor &t = one(out, "scatter");
        std::vector<Tensor> from = in.empty() ? std::vector<Tensor>() : in[0];
        tp_work *work = tp_dist_scatter(group_, t.get(), detail::c_tensors(from), static_cast<int>(o.rootRank));
        return pending(work, both(out, from));
    }
    Pending barrier(const BarrierOptions & = {}) { return pending(tp_dist_barrier(group_), {}); }
    Pending send(std::vector<Tensor> &tensors, int to, int tag) {
        return pending(tp_dist_send(group_, one(tensors, "send").get(), to, tag), tensors);
    }
    Pending recv(std::vector<Tensor> &tensors, int from, int tag) {
        return pending(tp_dist_recv(group_, one(tensors, "recv").get(), from, tag), tensors);
    }
    Pending recvAnysource(std::vector<Tensor> &tensors, int tag) { return recv(tensors, -1, tag); }

  protected:
    tp_group *group_;

  private:
    static tp_reduce_op op(ReduceOp o) { return static_cast<tp_reduce_op>(o.op_); }
    static Pending pending(tp_work *work, std::vector<Tensor> tensors) {
        return std::make_shared<c10d::Work>(work, std::move(tensors));
    }
    static std::vector<Tensor> both(const std::vector<Tensor> &a, const std::vector<Tensor> &b) {
        std::vector<Tensor> all(a);
        all.insert(all.end(), b.begin(), b.end());
        return all;
    }
    static const Tensor &one(const std::vector<Tensor> &tensors, const char *name) {
        if (tensors.size() != 1)
            detail::raise(TP_ERR_VALUE, detail::text(name, ": expected one tensor per process, got ", tensors.size()));
        return tensors[0];
    }
    static std::vector<Tensor> &lists(std::vector<std::vector<Tensor>> &out, const char *name) {
        if (out.size() != 1)
            detail::raise(TP_ERR_VALUE, detail::text(name, ": expected one list of outputs, got ", out.size()));
        return out[0];
    }
};

/* All ranks that mpirun started, or some of them. The job ends with the program's last group. */
class ProcessGroupMPI : public ProcessGroup {
  public:
    static std::shared_ptr<ProcessGroupMPI> createProcessGroupMPI(const std::vector<int> &ranks = {}) {
        auto job = joined();
        tp_group *group = nullptr;
        if (!ranks.empty()) {
            const std::vector<int64_t> list(ranks.begin(), ranks.end());
            group = tp_group_new(tp_ints_view(list.data(), static_cast<int64_t>(list.size())), 0, nullptr);
            detail::check(group != nullptr);
            if (tp_group_rank(group) < 0) return nullptr; /* this process is not among them */
        }
        return std::shared_ptr<ProcessGroupMPI>(new ProcessGroupMPI(group, job));
    }
    void abort() { tp_dist_tell_failure("aborted by the program"); }

  private:
    struct Job {
        Job() {
            tp_dist_init_options o;
            o.backend = "mpi";
            if (!tp_dist_world()) detail::check(tp_dist_init(o));
        }
        ~Job() { tp_dist_end(); }
    };
    ProcessGroupMPI(tp_group *group, std::shared_ptr<Job> job) : ProcessGroup(group), job_(std::move(job)) {}
    static std::shared_ptr<Job> joined() {
        static std::weak_ptr<Job> open;
        auto job = open.lock();
        if (!job) open = job = std::make_shared<Job>();
        return job;
    }
    std::shared_ptr<Job> job_;
};
} // namespace c10d
} // namespace taper
