"""The tape as a PyTorch user sees it. TAPER_TEST_MODULE=torch runs the same tests against PyTorch."""

import gc
import importlib
import os
import threading
import traceback
import warnings
import weakref

import pytest

NAME = os.environ.get("TAPER_TEST_MODULE", "taper")
torch = importlib.import_module(NAME)
autograd = importlib.import_module(NAME + ".autograd")
graph = importlib.import_module(NAME + ".autograd.graph")


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# ---- backward and .grad ----
def test_gradients_accumulate_and_keep_their_identity():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad
    assert x.grad is x.grad
    (x * x).sum().backward()
    assert x.grad is first
    assert x.grad.tolist() == [4.0, 8.0]


def test_grad_can_be_set_and_deleted():
    x = leaf(1.0, 2.0)
    g = torch.ones(2, dtype=torch.float64)
    x.grad = g
    assert x.grad is g
    x.grad = None
    assert x.grad is None
    x.grad = g
    del x.grad
    assert x.grad is None
    with pytest.raises(RuntimeError):
        x.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(TypeError, match="expected to be a Tensor or None"):
        x.grad = 3


def test_backward_arguments():
    x = leaf(1.0, 2.0)
    y = x * 3
    y.backward(torch.ones(2, dtype=torch.float64), retain_graph=True)
    y.backward(gradient=torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert x.grad.tolist() == [6.0, 9.0]
    with pytest.raises(RuntimeError, match="second time"):
        z = (x * x).sum()
        z.backward()
        z.backward()
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(1).backward()
    with pytest.raises(TypeError):
        x.sum().backward(nonsense=1)


def test_backward_into_chosen_inputs():
    x, y = leaf(2.0), leaf(3.0)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [3.0]
    assert y.grad is None
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * y).sum().backward(inputs=[])


def test_autograd_backward_of_several():
    x = leaf(1.0, 2.0)
    autograd.backward([x.sum(), (x * x)], [None, torch.ones(2, dtype=torch.float64)])
    assert x.grad.tolist() == [3.0, 5.0]
    with pytest.raises(
        RuntimeError, match="Mismatch in shape: grad_output\\[0\\] has a shape of torch.Size\\(\\[3\\]\\)"
    ):
        autograd.backward([x * x], [torch.ones(3, dtype=torch.float64)])


def test_create_graph():
    x = leaf(2.0)
    (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
    assert g.requires_grad
    assert g.item() == 12.0
    (h,) = autograd.grad(g.sum(), x)
    assert h.item() == 12.0
    assert not h.requires_grad


def test_grad_of_unused_inputs():
    x, y = leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        autograd.grad(x.sum(), (x, y))
    assert autograd.grad(x.sum(), (x, y), allow_unused=True)[1] is None
    assert autograd.grad(x.sum(), (x, y), materialize_grads=True)[1].tolist() == [0.0]
    with pytest.raises(ValueError, match="allow_unused"):
        autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)


def test_batched_gradients():
    x = leaf(1.0, 2.0, 3.0)
    rows = autograd.grad(x * x, x, torch.eye(3, dtype=torch.float64), is_grads_batched=True)[0]
    assert rows.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


# ---- modes ----
def test_modes_nest_and_decorate():
    x = leaf(1.0)
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert not torch.is_grad_enabled()
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()

    @torch.no_grad()
    def f():
        return x * 2

    @torch.no_grad
    def g():
        return x * 2

    @torch.set_grad_enabled(False)
    def h():
        return torch.is_grad_enabled()

    assert not f().requires_grad
    assert not g().requires_grad
    assert not h()
    assert f.__name__ == "f"
    assert torch.is_grad_enabled()


def test_set_grad_enabled_acts_at_once():
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_a_mode_ends_with_an_exception():
    with pytest.raises(KeyError):
        with torch.no_grad():
            raise KeyError
    assert torch.is_grad_enabled()


def test_generators_keep_the_mode_to_themselves():
    @torch.no_grad()
    def numbers():
        try:
            got = yield torch.is_grad_enabled()
            yield got, torch.is_grad_enabled()
        except ValueError:
            yield "caught", torch.is_grad_enabled()
        return 7

    n = numbers()
    assert next(n) is False
    assert torch.is_grad_enabled()
    assert n.send(5) == (5, False)
    assert torch.is_grad_enabled()
    assert n.throw(ValueError()) == ("caught", False)
    with pytest.raises(StopIteration) as end:
        next(n)
    assert end.value.value == 7


def test_inference_mode():
    x = leaf(1.0)
    with torch.inference_mode():
        y = x * 2
        assert torch.is_inference_mode_enabled()
        assert y.is_inference()
        assert not y.requires_grad
        with torch.inference_mode(False):
            assert not torch.is_inference_mode_enabled()
            assert (x * 2).requires_grad
    assert not torch.is_inference_mode_enabled()
    assert not (x * 2).is_inference()
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        (y * x).sum().backward()

    @torch.inference_mode()
    def f():
        return torch.is_inference_mode_enabled()

    assert f()


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.view(3),
        lambda t: t[:],
        lambda t: t.detach(),
        lambda t: t.reshape(3, 1),
        lambda t: t.flatten(),
        lambda t: t.split(2)[0],
        lambda t: t.unbind()[0],
        lambda t: t.contiguous(),
        lambda t: t.expand(1, 3),
    ],
)
def test_views_in_inference_mode_are_as_what_they_view(view):
    b, w = torch.ones(3), leaf(1.0, 1.0, 1.0)
    out = (b * w).sum()
    with torch.inference_mode():
        v, made = view(b), view(torch.ones(3))
        assert not v.is_inference()
        assert not b.is_inference()
        assert made.is_inference()
        v.mul_(10)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
    v.add_(1)
    assert b[0] == 11
    assert (v * w[:1]).requires_grad
    with pytest.raises(RuntimeError, match="inference tensor"):
        made.add_(1)
    with torch.inference_mode():
        v = view(w)
    if v is not w:  # with the tape's own tensors, as views made without a tape
        assert v.requires_grad == v._is_view()
        assert v.grad_fn is None
        assert not v.is_inference()


# ---- history ----
def test_detach_data_and_leaves():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert not y.is_leaf
    assert y.grad_fn is not None
    assert x.grad_fn is None
    d = y.detach()
    assert d.grad_fn is None
    assert not d.requires_grad
    assert d.data_ptr() == y.data_ptr()
    version = x._version
    x.data.mul_(10)
    assert x.tolist() == [10.0, 20.0]
    assert x._version == version
    x.data = torch.zeros(3, dtype=torch.float64)
    assert x.shape == (3,)
    assert x.requires_grad
    y.detach_()
    assert y.is_leaf
    assert not y.requires_grad
    with pytest.raises(RuntimeError):
        torch.ones(2, dtype=torch.int64).requires_grad_()


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]


def test_views_know_their_base():
    x = torch.zeros(4)
    v = x[1:]
    assert v._is_view()
    assert v._base is x
    assert not x._is_view()
    assert x._base is None
    assert x.unbind()[2].requires_grad is False
    a, b = torch.aminmax(leaf(3.0, 1.0, 2.0))
    assert a.output_nr == 0
    assert b.output_nr == 1


def test_in_place_changes_of_saved_tensors_are_seen():
    x = leaf(1.0)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.add_(1)


def test_variable_is_a_tensor():
    v = autograd.Variable(torch.ones(2), requires_grad=True)
    assert isinstance(v, torch.Tensor)
    assert isinstance(torch.ones(1), autograd.Variable)
    assert v.requires_grad


# ---- hooks ----
def test_tensor_hooks_run_in_order_and_replace():
    x = leaf(1.0, 2.0)
    seen = []
    first = x.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: seen.append(g.tolist()))
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert seen == [[2.0, 2.0]]
    first.remove()
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with x.register_hook(lambda g: g * 5):
        x.grad = None
        x.sum().backward()
        assert x.grad.tolist() == [5.0, 5.0]
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        torch.ones(1).register_hook(print)


def test_hook_of_a_result():
    x = leaf(1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_an_exception_in_a_hook_arrives_as_it_is():
    class Mine(Exception):
        pass

    def hook(grad):
        raise Mine("from the hook")

    x = leaf(1.0)
    x.register_hook(hook)
    with pytest.raises(Mine, match="from the hook") as caught:
        (x * 2).sum().backward()
    assert any(frame.name == "hook" for frame in traceback.extract_tb(caught.value.__traceback__))
    x2 = leaf(1.0)
    x2.sum().backward()
    assert x2.grad.item() == 1.0


def test_hooks_may_compute_and_run_backward_themselves():
    x = leaf(2.0)
    inner = []

    def hook(grad):
        z = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
        with torch.enable_grad():
            (z * z).sum().backward()
        inner.append(z.grad)
        return grad * z.detach()

    x.register_hook(hook)
    (x * x).sum().backward()
    gc.collect()
    assert x.grad.item() == 12.0
    assert inner[0].item() == 6.0


def test_post_accumulate_hooks():
    x = leaf(1.0, 2.0)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 2).sum().backward()
    assert seen == [(True, [2.0, 2.0])]
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_node_hooks():
    x = leaf(1.0, 2.0)
    y = x * 3
    order = []
    y.grad_fn.register_prehook(lambda grads: order.append("pre") or (grads[0] * 10,))
    handle = y.grad_fn.register_hook(
        lambda inputs, outputs: order.append("post") or tuple(None if g is None else g + 1 for g in inputs)
    )
    y.sum().backward(retain_graph=True)
    assert order == ["pre", "post"]
    assert x.grad.tolist() == [31.0, 31.0]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [30.0, 30.0]


# ---- nodes ----
def test_grad_fn_objects():
    x = leaf(1.0, 2.0)
    y = x + 1
    z = y * x
    assert y.grad_fn is y.grad_fn
    assert y.grad_fn.name() == "AddBackward0"
    assert type(y.grad_fn).__name__ == "AddBackward0"
    assert repr(y.grad_fn).startswith("<AddBackward0 object at 0x")
    nexts = z.grad_fn.next_functions
    assert nexts[0][0] is y.grad_fn
    assert nexts[0][1] == 0
    assert nexts[1][0].name() == "torch::autograd::AccumulateGrad"
    assert nexts[1][0].variable is x
    assert isinstance(y.grad_fn, graph.Node)
    assert not isinstance(x, graph.Node)
    y.grad_fn.metadata["note"] = 1
    gc.collect()
    assert y.grad_fn.metadata == {"note": 1}
    kept = y.grad_fn
    del y, z
    assert kept.next_functions[0][0].variable is x


def test_a_node_can_be_called():
    x = leaf(2.0, 3.0)
    y = x * x
    out = y.grad_fn(torch.ones(2, dtype=torch.float64))
    assert [g.tolist() for g in out] == [[2.0, 3.0], [2.0, 3.0]]


def test_gradient_edges():
    x = leaf(1.0)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn
    assert edge.output_nr == 0
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(torch.ones(1))


# ---- what is saved ----
def test_dir_of_a_node_names_what_it_saved():
    x = torch.ones(3, requires_grad=True)
    names = [name for name in dir((x * 2).sin().grad_fn) if "saved" in name]
    assert names == ["_raw_saved_self", "_saved_self"]


def test_saved_tensors_hooks():
    x = leaf(2.0, 3.0)
    packed, unpacked = [], []
    with graph.saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t.clone(), lambda t: unpacked.append(1) or t):
        y = x.exp() * x
    assert len(packed) == 3
    assert not unpacked
    y.sum().backward()
    assert len(unpacked) == 3
    assert torch.allclose(x.grad, (x.exp() * (1 + x)).detach())


def test_an_exception_in_a_pack_hook_arrives():
    def pack(t):
        raise KeyError("pack")

    x = leaf(2.0)
    with pytest.raises(KeyError, match="pack"):
        with graph.saved_tensors_hooks(pack, lambda t: t):
            x.exp()
    assert x.exp().requires_grad


def test_save_on_cpu_and_forbidden_hooks():
    x = leaf(2.0)
    with graph.save_on_cpu():
        y = x.exp()
    y.sum().backward()
    assert torch.allclose(x.grad, y.detach())
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                pass
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass


def test_mutation_on_saved_tensors_can_be_allowed():
    x = leaf(2.0)
    with graph.allow_mutation_on_saved_tensors():
        y = x.exp()
        z = y * 1
        y.mul_(2)
        z.sum().backward()
    assert torch.allclose(x.grad, x.exp().detach())
    with graph.allow_mutation_on_saved_tensors():
        with pytest.raises(RuntimeError, match="contexts cannot be nested"):
            graph.allow_mutation_on_saved_tensors().__enter__()
        y = (x * x).sum()
    with pytest.raises(AssertionError, match="Trying to backward outside of the"):
        y.backward()


def test_increment_version_passes_over_inference_tensors():
    with torch.inference_mode():
        x = torch.ones(2)
    plain = torch.ones(2)
    graph.increment_version([x, plain])
    assert plain._version == 1


def test_multi_grad_hook():
    x, y = leaf(1.0), leaf(2.0)
    calls = []
    handle = graph.register_multi_grad_hook((x, y), lambda grads: calls.append([g.item() for g in grads]))
    (x * y).sum().backward()
    (x * y * 2).sum().backward()
    assert calls == [[2.0, 1.0], [4.0, 2.0]]
    handle.remove()
    (x * y).sum().backward()
    assert len(calls) == 2


def test_increment_version():
    x = torch.ones(3)
    version = x._version
    graph.increment_version(x)
    assert x._version == version + 1


# ---- anomaly mode ----
def test_anomaly_mode_tells_where_the_forward_call_was():
    def the_forward_call(x):
        return x.sqrt()

    x = torch.tensor([-1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with autograd.detect_anomaly():
            y = the_forward_call(x)
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
                y.sum().backward()
    texts = [str(w.message) for w in told]
    assert any("Traceback of forward call that caused the error" in t and "the_forward_call" in t for t in texts)
    assert not torch.is_anomaly_enabled()


# ---- threads, life ----
def test_two_threads_at_once():
    failures = []

    def work(seed):
        try:
            for i in range(50):
                x = torch.full((300, 40), float(seed), requires_grad=True)
                x.register_hook(lambda g: g * 2)
                with torch.no_grad():
                    x * 1
                (x * x).sum().backward()
                assert x.grad[0, 0].item() == 4.0 * seed
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_modes_belong_to_a_thread():
    seen = []
    with torch.no_grad():
        t = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_graphs_and_hooks_are_freed():
    marker = Marker()
    alive = weakref.ref(marker)
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g, m=marker: None)
    del marker
    y.sum().backward()
    del y
    gc.collect()
    assert alive() is None


class Marker:
    pass


def cycle_through_a_hook(of_a_result):
    marker = Marker()
    x = leaf(1.0)
    t = x * 2 if of_a_result else x
    t.register_hook(lambda g: (t, marker) and None)
    t.sum().backward()
    return weakref.ref(marker)


def test_a_cycle_through_a_hook_is_collected():
    alive = cycle_through_a_hook(False)
    gc.collect()
    assert alive() is None


@pytest.mark.skipif(NAME == "torch", reason="PyTorch keeps this one")
def test_a_cycle_through_a_hook_of_a_result_is_collected():
    alive = cycle_through_a_hook(True)
    gc.collect()
    assert alive() is None


def test_parts_of_one_tensor_give_one_gradient():
    """Gradients of slices and selections are added into one tensor, whatever else looks at it."""
    torch.manual_seed(0)
    x = torch.randn(6, 8, 5, requires_grad=True)
    seen = []

    def loss(x, hooked=False):
        h = x * 2
        a, b, c = h.transpose(0, 1).split([2, 3, 3])
        if hooked:
            b.register_hook(lambda g: seen.append(g.clone()) or g * 3)
        parts = (
            [h[:, t].sin() for t in range(8)]
            + [h[i] ** 2 for i in range(6)]
            + [h[1:5:2, ::3].exp(), h[0, 2:2], a.cos(), b.cos(), c.cos(), h]
        )
        return sum(p.sum() for p in parts), b

    def plainly(x):
        h = x * 2
        return (h.sin() + h**2 + h.cos() + h).sum() + h[1:5:2, ::3].exp().sum()

    (got,) = torch.autograd.grad(loss(x)[0], x)
    (want,) = torch.autograd.grad(plainly(x), x)
    assert torch.allclose(got, want, atol=1e-5)
    for n in range(2):  # a hook in the middle; a graph that is used twice
        value, _ = loss(x, hooked=True)
        (again,) = torch.autograd.grad(value, x, retain_graph=True)
        (twice,) = torch.autograd.grad(value, x)
        factor = torch.zeros(6, 8, 5)
        factor[:, 2:5] = 2
        assert torch.allclose(again, want - 2 * factor * (2 * x).sin(), atol=1e-5)
        assert torch.equal(again, twice)
    assert len(seen) == 4
    assert torch.allclose(seen[0], -(2 * x).transpose(0, 1)[2:5].sin(), atol=1e-6)
    second = torch.autograd.grad(torch.autograd.grad(loss(x)[0], x, create_graph=True)[0].sum(), x)[0]
    assert torch.allclose(
        second, torch.autograd.grad(torch.autograd.grad(plainly(x), x, create_graph=True)[0].sum(), x)[0], atol=1e-4
    )
    x.grad = None
    loss(x)[0].backward()
    assert torch.allclose(x.grad, want, atol=1e-5)


def test_parts_of_other_dtypes_and_leaves():
    for dtype in (torch.float64, torch.bfloat16, torch.complex64):
        x = torch.ones(4, 3, dtype=dtype, requires_grad=True)
        sum((x[i] * (i + 1)).sum().abs() for i in range(4)).backward()
        assert torch.equal(x.grad.real.float(), torch.arange(1.0, 5.0).unsqueeze(1).expand(4, 3))
    x = torch.ones(3, requires_grad=True)
    y = x[0] + x[1]
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0, 0.0]


# ---- Operators with several results ----
def test_group_norms_statistics_have_gradients_and_batch_norms_have_none():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    assert autograd.gradcheck(lambda x: torch.native_group_norm(x, None, None, 2, 6, 3, 2, 0.5), (x,))
    y, mean, invstd = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 0.5)
    assert y.requires_grad
    assert not mean.requires_grad
    assert not invstd.requires_grad
    half = torch.randn(4, 5, 6, dtype=torch.bfloat16)
    for dtype in (torch.bfloat16, torch.float32):
        weight = torch.ones(5, dtype=dtype)
        _, mean, _ = torch.native_batch_norm(half, weight, weight, None, None, True, 0.1, 0.5)
        assert mean.dtype == dtype


def test_an_index_without_elements_may_have_any_dtype():
    assert torch.gather(torch.randn(5), 0, torch.empty(2, 0, dtype=torch.uint8)).shape == (2, 0)
    assert torch.nn.functional.batch_norm(torch.empty(0), torch.empty(0), torch.empty(0), training=True).shape == (0,)


def test_operators_of_aten_that_only_graphs_name():
    torch.manual_seed(0)
    x = torch.randn(1, 2, 5, 6)
    values, places = torch.nn.functional.max_pool2d(x, 3, 2, return_indices=True)
    grad = torch.ops.aten.max_pool2d_with_indices_backward(torch.ones_like(values), x, 3, 2, (0,), (1,), False, places)
    leaf = x.clone().requires_grad_()
    torch.nn.functional.max_pool2d(leaf, 3, 2).sum().backward()
    assert torch.equal(grad, leaf.grad)
    q, k, v = (torch.randn(1, 2, n, 8) for n in (3, 6, 6))
    out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, is_causal=True)
    assert torch.allclose(out, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert torch.allclose(sums[..., 0], (q[:, :, 0] * k[:, :, 0]).sum(-1) / 8**0.5, atol=1e-6)


# ---- Edges and what nodes keep ----
def test_edges_stand_for_tensors():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    edge = graph.get_gradient_edge(y)
    by_edge, by_tensor = autograd.grad(z.sum(), (edge, y), retain_graph=True)
    assert torch.equal(by_edge, by_tensor)
    assert torch.equal(
        autograd.grad(graph.get_gradient_edge(z), x, torch.ones(2), retain_graph=True)[0], 8 * x.detach()
    )
    autograd.backward(graph.get_gradient_edge(z.sum()), inputs=(graph.get_gradient_edge(x),))
    assert x.grad.tolist() == [8.0, 16.0]
    assert not y.retains_grad
    unused = graph.get_gradient_edge(leaf(1.0) * 2)
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        autograd.grad((x * 2).sum(), (x, unused), allow_unused=True, materialize_grads=True)


def test_nodes_show_what_they_saved():
    x = leaf(1.0, 2.0)
    y = x * x
    assert y.grad_fn._saved_self is x
    assert y.grad_fn._saved_other is x
    e = x.exp()
    assert torch.equal(e.grad_fn._saved_result, e)
    assert e.grad_fn._saved_result.grad_fn is e.grad_fn
    with pytest.raises(AttributeError):
        y.grad_fn._saved_nothing
    assert [
        tuple(m.shape) for m in torch.var_mean(torch.rand(3, 4, requires_grad=True), dim=0)[0].grad_fn._input_metadata
    ] == [(4,), (4,)]
    y.grad_fn._raw_saved_self.register_hooks(lambda t: 2 * t, lambda t: t)
    assert y.grad_fn._saved_self.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="already been set"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 6.0]
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        y.grad_fn._saved_self


def test_errors_name_the_call_that_made_a_tensor():
    x = leaf(1.0, 2.0)
    y = x + 1
    z = y * y
    y += 1
    with pytest.raises(
        RuntimeError,
        match=r"\[torch.DoubleTensor \[2\]\], which is output 0 of Add, is at version 1; expected version 0 instead",
    ):
        z.sum().backward()
    part = (x * 1).unbind()[0]
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and is being modified inplace"):
        part += 1
    with pytest.raises(RuntimeError, match="Set allow_unused=True"):
        autograd.grad(x.sum(), leaf(1.0))


# ---- gradcheck ----
def test_gradcheck_finds_what_is_wrong():
    def wrong(x):
        y = x.clone()
        y.register_hook(lambda g: g + 1e-2)
        return y

    x, c = (
        torch.ones(2, dtype=torch.float64, requires_grad=True),
        torch.ones(2, dtype=torch.complex128, requires_grad=True),
    )
    for fast in (True, False):
        with pytest.raises(autograd.GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
            autograd.gradcheck(wrong, (x,), fast_mode=fast)
        assert autograd.gradcheck(lambda c: c.sin() * c, (c,), fast_mode=fast)
        assert autograd.gradcheck(lambda x: (), (x,), fast_mode=fast)
        with pytest.raises(AssertionError, match="return outputs with the same shape when inputs are perturbed"):
            autograd.gradcheck(lambda x: torch.cat([x, x]) if bool((x >= 1).all()) else x, (x,), fast_mode=fast)
    with pytest.raises(autograd.GradcheckError, match="While considering the imaginary part of complex outputs only"):
        autograd.gradcheck(wrong, (c,))
    with pytest.raises(autograd.GradcheckError, match="backward not multiplied by grad_output"):
        autograd.gradcheck(wrong, (x,), atol=1e-1)
    with pytest.raises(autograd.GradcheckError, match="Numerical gradient for function expected to be zero"):
        autograd.gradcheck(lambda x: x.detach() * 2, (x,))
    assert autograd.gradcheck(torch.trunc, (x * 1.5,))


def test_strict_mode_says_what_does_not_depend_on_what():
    functional = importlib.import_module(NAME + ".autograd.functional")
    x, v = torch.rand(4), torch.rand(4)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not require gradients"):
        functional.vjp(lambda a: torch.ones(4), x, v, strict=True)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function is independent of input 0"):
        functional.jacobian(lambda a: torch.ones(4, requires_grad=True) * 2, x, strict=True)
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function is independent of input 0"):
        functional.jvp(lambda a: a.clone(), x.requires_grad_(), v, create_graph=True, strict=True)
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function with respect to input 0 is"):
        functional.hvp(lambda a: (3 * a).sum(), x, v, strict=True)
    with pytest.raises(RuntimeError, match="not supported together"):
        functional.hessian(lambda a: a.sum(), x, strict=True, vectorize=True)


def test_views_made_without_a_tape_require_grad_as_their_base():
    x = leaf(1.0, 2.0)
    with torch.no_grad():
        v, w = x.view(2, 1), (x * 2).view(2, 1)
        assert v.requires_grad
        assert v[0].requires_grad
        assert v.grad_fn is None
        assert v.is_leaf
        assert "requires_grad=True" in repr(v)
        assert not w.requires_grad
        assert not v.detach().requires_grad
        assert not (v * 1).requires_grad
        assert not x.view(torch.int32).requires_grad
        assert v.numpy().tolist() == [[1.0], [2.0]]
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        v.numpy()
    v.retain_grad()
    (x * v.view(2)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]
    assert v.grad is None
    x.requires_grad_(False)
    assert not v.requires_grad
    late = torch.ones(2)
    seen = late[:1]
    late.requires_grad_()
    assert seen.requires_grad


def test_backward_sees_that_views_of_saved_tensors_require_grad():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx, grad):
            a, b = (t.t() for t in ctx.saved_tensors)
            return (grad @ b if a.requires_grad else None), (a @ grad if b.requires_grad else None)

    a, b, fixed = (torch.ones(2, 2, requires_grad=on) for on in (True, True, False))
    Product.apply(a, b).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    Product.apply(a, fixed).sum().backward()
    assert a.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert fixed.grad is None


def test_refusals_in_pytorchs_words():
    inplace = torch.randn(2, 3)
    view = inplace[:]
    inplace.requires_grad = True
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"
    ):
        view.add_(5)
    with torch.no_grad():
        seen = (inplace * 1)[0]
    result = inplace * 1
    with torch.no_grad():
        seen = result[0]
    with pytest.raises(
        RuntimeError, match=r"moving both the view and the inplace either both inside the no_grad block"
    ):
        seen.add_(1)
    with pytest.raises(RuntimeError, match=r"use var_no_grad = var.detach\(\)"):
        result.requires_grad = False
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
        torch.ones(2, dtype=torch.int64).requires_grad_()
    with pytest.raises(RuntimeError, match="Please ensure that the gradient and the tensor are the same size"):
        inplace.grad = torch.ones(5)
    with torch.inference_mode():
        made = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        made._version
    with pytest.raises(RuntimeError, match=r"or use `torch.no_grad\(\)` instead of `torch.inference_mode\(\)`"):
        made * torch.ones(2, requires_grad=True)


@pytest.mark.parametrize("write", [lambda x: x.add_(1), lambda x: x[0].mul_(2), lambda x: x.fill_(3)])
def test_a_view_that_was_made_a_leaf_is_not_written(write):
    x = torch.tensor([1.0, 2, 3, 4]).view(2, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        write(x)
    assert x.is_leaf
    with torch.no_grad():
        x[0] = 5
    (x * x).sum().backward()
    assert x.grad.tolist() == [[10, 10], [6, 8]]


def test_a_decorated_class_is_built_without_a_tape():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @torch.no_grad()
        class Built:
            def __init__(self):
                self.on = torch.is_grad_enabled()

            def ask(self):
                return torch.is_grad_enabled()

    assert not Built().on
    assert Built().ask()


def test_what_a_function_may_mark():
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx, x, mark):
            out = x.clone()
            ctx.mark_dirty(out) if mark == "dirty" else ctx.mark_non_differentiable(2)
            return out

    with pytest.raises(RuntimeError, match="received a tensor that was not an input"):
        Wrong.apply(leaf(1.0) * 1, "dirty")
    with pytest.raises(RuntimeError, match="mark_non_differentiable only accepts variable arguments"):
        Wrong.apply(leaf(1.0), "none")


# ---- Checkpoints ----
def test_checkpoints_in_gradients_in_checkpoints():
    checkpoint = importlib.import_module(NAME + ".utils.checkpoint")

    def kept(function):
        return lambda x: checkpoint.checkpoint(function, x, use_reentrant=False)

    def gradient(function):
        return lambda x: autograd.grad(function(x).sum(), x, create_graph=True)[0]

    def curve(x):
        return x.sin().exp().sin()

    x = leaf(0.3, 0.7)
    wanted = autograd.grad(gradient(curve)(x).sum(), x)[0]
    for early in (True, False):
        with checkpoint.set_checkpoint_early_stop(early):
            for function in (
                kept(gradient(curve)),
                gradient(kept(curve)),
                kept(gradient(kept(curve))),
                kept(kept(gradient(curve))),
            ):
                assert torch.allclose(autograd.grad(function(x).sum(), x)[0], wanted)


def test_checkpoints_stop_early_as_they_were_told_when_they_ran():
    checkpoint = importlib.import_module(NAME + ".utils.checkpoint")
    calls = []

    def function(x):
        y = x.sin().sin()
        calls.append(1)
        return y

    for early, wanted in ((True, 1), (False, 2)):
        calls.clear()
        with checkpoint.set_checkpoint_early_stop(early):
            out = checkpoint.checkpoint(function, leaf(1.0), use_reentrant=False)
        out.sum().backward()
        assert len(calls) == wanted
    with pytest.raises(RuntimeError, match="torch.utils.checkpoint is incompatible with .grad()"):
        x = leaf(1.0)
        autograd.grad(checkpoint.checkpoint(torch.exp, x, use_reentrant=True).sum(), x)
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        checkpoint.create_selective_checkpoint_contexts([2])


def test_a_lookup_without_gradients_may_be_sparse():
    table, places = torch.rand(4, 3), torch.tensor([1, 3])
    assert torch.equal(torch.nn.functional.embedding(places, table, sparse=True), table[places])
    bags = torch.nn.functional.embedding_bag(places, table, torch.tensor([0]), mode="sum", sparse=True)
    assert torch.allclose(bags[0], table[places].sum(0))


def test_a_view_can_be_taken_of_another_tensor():
    base = torch.arange(12.0).reshape(3, 4).clone()
    view = base.t()[1:3, ::2]
    other = base.clone()
    again = view._view_func(other)
    assert torch.equal(again, view)
    assert again.stride() == view.stride()
    assert again.storage_offset() == view.storage_offset()
    whole = view._rev_view_func_unsafe(view.detach())
    assert torch.equal(whole, base)
    assert whole.stride() == base.stride()


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.eq_(2),
        lambda y: y.gt_(torch.ones(3)),
        lambda y: y.logical_not_(),
    ],
)
def test_a_write_without_a_derivative_ends_the_history(write):
    x = torch.ones(3, requires_grad=True)
    y = write(x * 2)
    (y.sum() + x.sum()).backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    base = x * 2
    write(base[:])
    assert torch.autograd.grad(base.sum(), x)[0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda y: y // 2,
        lambda y: y.floor_divide_(2),
        lambda y: torch.heaviside(torch.ones(3), y),
        lambda y: y.heaviside_(torch.ones(3)),
        lambda y: torch.igamma(y, torch.ones(3)),
        lambda y: torch.igammac(y, torch.ones(3)),
        lambda y: torch.special.zeta(y + 2, torch.ones(3)),
        lambda y: torch.unique(y),
        lambda y: torch.histogram(y, 2).hist,
    ],
)
def test_a_derivative_that_is_missing_is_an_error_and_no_zero(call):
    x = torch.ones(3, requires_grad=True)
    y = call(x * 2)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="not implemented"):
        (y.sum() + x.sum()).backward()


def test_the_other_argument_of_igamma_has_a_derivative():
    y = leaf(0.5, 2.0)
    torch.igamma(torch.ones(2, dtype=torch.float64), y).sum().backward()
    assert torch.allclose(y.grad, torch.exp(-y.detach()))


# ---- Complex numbers and pairs of real ones ----
def test_a_write_to_the_real_part_changes_the_complex_base():
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    base = z * 2
    real, pairs = base.real, torch.view_as_real(base)
    real.mul_(3)
    pairs[0, 1] = 7.0
    base.imag.add_(5)
    (base.real**2 + base.imag).sum().backward()
    assert torch.view_as_real(base.detach()).tolist() == [[6.0, 12.0], [18.0, 3.0]]
    assert torch.view_as_real(z.grad).tolist() == [[72.0, 0.0], [216.0, 2.0]]


def test_a_write_to_a_complex_view_changes_the_real_base():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    base = x * 2
    numbers = torch.view_as_complex(base.view(2, 2))
    numbers[1] *= 2j
    numbers.add_(1)
    assert base.tolist() == [3.0, 4.0, -15.0, 12.0]
    assert torch.view_as_real(numbers).tolist() == [[3.0, 4.0], [-15.0, 12.0]]
    (base * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 16.0, -12.0]


def test_writes_to_parts_of_complex_tensors_match_differences():
    def write(z, r):
        base = z * (1 + 1j)
        part = torch.view_as_real(base[1:])[:, 0]
        part *= r
        base.imag[0] = r[0]
        return base * base

    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    r = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert autograd.gradcheck(write, (z, r)) and autograd.gradgradcheck(write, (z, r))


def test_other_bits_of_the_same_memory_have_no_history():
    x = leaf(1.0, 2.0) * 1
    for dtype in torch.float64, torch.float32, torch.int64:
        seen = x.view(dtype)
        assert not seen.requires_grad and seen.data_ptr() == x.data_ptr()
    seen.add_(1)
    assert x._version == 1
    x.sum().backward()


def test_an_operator_that_is_written_in_place_keeps_what_its_derivative_reads():
    x = leaf(0.5, 2.0)
    y = x * 1
    y.polygamma_(1)
    y.sum().backward()
    assert torch.allclose(x.grad, torch.polygamma(2, x.detach()))


def test_a_second_derivative_through_several_zeros_of_a_product_is_refused():
    src = torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    to = torch.zeros(1, dtype=torch.float64)
    made = to.scatter_reduce(0, torch.zeros(3, dtype=torch.int64), src, "prod", include_self=False)
    (first,) = autograd.grad(made.sum(), src, create_graph=True)
    with pytest.raises(RuntimeError, match="Double backward is unsupported"):
        autograd.grad(first.sum(), src)


# ---- Views that a Function gave ----
class Same(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class Flat(Same):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)


@pytest.mark.parametrize("function", [Same, Flat])
def test_a_write_below_a_view_of_a_function_is_refused_where_the_view_is_used(function):
    """Its backward knows nothing of the write: the gradient would be wrong."""
    x = leaf(1.0, 2.0) * 2
    view = function.apply(x)
    x.mul_(5)
    with pytest.raises(RuntimeError, match="is a view and its base or another view of its base has been modified"):
        view.sum().backward()
    x = leaf(1.0, 2.0)
    function.apply(x * 2).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("contiguous, following", [(True, 0.4901), (False, 0.0223)])
def test_gradgradcheck_draws_as_pytorchs(contiguous, following):
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    assert torch.autograd.gradgradcheck(torch.sin, x, gen_non_contig_grad_outputs=not contiguous)
    assert abs(torch.rand(1).item() - following) < 1e-4
