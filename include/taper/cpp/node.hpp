/* The tape's nodes as LibTorch shows them: tensor.grad_fn()->name(), next_edges(), and gradients by hand. */
#pragma once
#include <taper/cpp/tensor.hpp>

namespace taper {
namespace autograd {
class Node;
/* Where a gradient goes: a node, and which of its inputs. */
struct Edge {
    std::shared_ptr<Node> function;
    uint32_t input_nr = 0;
    Edge() = default;
    Edge(std::shared_ptr<Node> node, uint32_t nr) : function(std::move(node)), input_nr(nr) {}
    bool is_valid() const noexcept { return function != nullptr; }
    bool operator==(const Edge &other) const noexcept;
};
using edge_list = std::vector<Edge>;

class Node {
  public:
    explicit Node(tp_node *node) : node_(node) {} /* takes the reference over */
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;
    ~Node() { tp_node_release(node_); }
    tp_node *get() const noexcept { return node_; }

    /* LibTorch gives a leaf's node the name of its class. */
    std::string name() const {
        const std::string plain = tp_node_name(node_);
        return plain == "AccumulateGrad" ? "torch::autograd::AccumulateGrad" : plain;
    }
    uint64_t sequence_nr() const noexcept { return tp_node_sequence(node_); }
    uint32_t num_inputs() const noexcept { return static_cast<uint32_t>(tp_node_inputs(node_)); }
    uint32_t num_outputs() const noexcept { return static_cast<uint32_t>(tp_node_edges(node_)); }
    Edge next_edge(size_t i) const {
        int64_t nr = 0;
        tp_node *next = tp_node_next(node_, static_cast<int64_t>(i), &nr);
        detail::check(tp_ok());
        return next ? Edge(std::make_shared<Node>(next), static_cast<uint32_t>(nr)) : Edge();
    }
    edge_list next_edges() const {
        edge_list all;
        for (size_t i = 0; i < num_outputs(); i++) all.push_back(next_edge(i));
        return all;
    }
    bool should_compute_output(size_t i) const { return next_edge(i).is_valid(); }
    /* Runs the node by itself: a gradient for each input, undefined where there is none. */
    std::vector<Tensor> operator()(const std::vector<Tensor> &grads) const {
        std::vector<tp_tensor *> found(num_outputs(), nullptr);
        std::vector<Tensor> given(grads);
        given.resize(num_inputs());
        detail::check(tp_node_run(node_, reinterpret_cast<tp_tensor *const *>(given.data()), found.data()));
        std::vector<Tensor> result;
        for (tp_tensor *t : found) result.push_back(Tensor::steal(t ? tp_own(t) : nullptr));
        return result;
    }
    Tensor variable() const { /* of an AccumulateGrad: the leaf */
        tp_tensor *leaf = tp_node_variable(node_);
        return Tensor::steal(leaf ? tp_retain(leaf) : nullptr);
    }

  private:
    tp_node *node_;
};
inline bool Edge::operator==(const Edge &other) const noexcept {
    const tp_node *mine = function ? function->get() : nullptr, *its = other.function ? other.function->get() : nullptr;
    return mine == its && input_nr == other.input_nr;
}
} // namespace autograd

inline std::shared_ptr<autograd::Node> Tensor::grad_fn() const {
    tp_node *node = tp_grad_fn(impl_);
    return node ? std::make_shared<autograd::Node>(node) : nullptr;
}
} // namespace taper
