"""torch.profiler and torch.autograd.profiler: events, averages, the table, traces, schedules."""

import gzip
import json
import os

import pytest

import taper as torch
from taper.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)

F = torch.nn.functional


def a_step(x, w, b):
    with record_function("model"):
        loss = torch.cat([F.linear(x, w, b).relu()] * 2).sum()
    loss.backward()


@pytest.fixture(scope="module")
def profiled():
    x, w, b = torch.randn(32, 64), torch.randn(16, 64, requires_grad=True), torch.randn(16, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True) as prof:
        a_step(x, w, b)
    return prof


def named(prof, name):
    found = [event for event in prof.events() if event.name == name]
    assert found, f"no {name} in {[event.name for event in prof.events()]}"
    return found[0]


def test_events_nest_and_link(profiled):
    linear, model = named(profiled, "aten::linear"), named(profiled, "model")
    assert linear.cpu_parent is model
    assert linear in model.cpu_children
    assert model.is_user_annotation
    assert not linear.is_user_annotation
    assert model.cpu_time_total >= linear.cpu_time_total > 0
    assert (
        abs(model.self_cpu_time_total - (model.cpu_time_total - sum(c.cpu_time_total for c in model.cpu_children)))
        < 1e-6
    )
    node = named(profiled, "AddmmBackward0")
    assert node.cpu_parent.name == "autograd::engine::evaluate_function: AddmmBackward0"
    assert node.sequence_nr == linear.sequence_nr >= 0
    assert node.fwd_thread == 1
    assert named(profiled, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad")


def test_shapes_memory_and_flops(profiled):
    linear = named(profiled, "aten::linear")
    assert linear.input_shapes == [[32, 64], [16, 64], [16]]
    assert linear.input_dtypes == ["float"] * 3
    assert linear.flops == 2 * 32 * 64 * 16
    assert linear.cpu_memory_usage == 32 * 16 * 4
    cat = named(profiled, "aten::cat")
    assert cat.input_shapes[0] == []
    assert cat.structured_input_shapes[0] == [[32, 16], [32, 16]]
    with profile(with_flops=True) as prof:
        F.conv2d(torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3), stride=2, padding=1)
        torch.ones(2, 3, 4) @ torch.ones(2, 4, 5)
    assert named(prof, "aten::conv2d").flops == 2 * 2 * 4 * 3 * 3 * 3 * 4 * 4
    assert sum(event.flops for event in prof.events() if "conv" not in event.name) == 2 * 2 * 3 * 4 * 5


def test_the_table_is_pytorchs(profiled):
    text = profiled.key_averages().table(sort_by="cpu_time_total", row_limit=3)
    lines = text.splitlines()
    assert lines[0] == lines[2] == lines[6]
    assert set(lines[0]) == {"-", " "}
    assert lines[1].split("  ") and lines[1].strip().startswith(
        "Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg       CPU Mem  Self CPU Mem    # of Calls"
    )
    assert len({len(line) for line in lines[:7]}) == 1
    slowest = sorted(profiled.key_averages(), key=lambda row: row.cpu_time_total, reverse=True)
    for line, row in zip(lines[3:6], slowest):
        assert row.key.startswith(line.strip().split("  ")[0].removesuffix("..."))
    assert lines[7].startswith("Self CPU time total: ")
    assert text.endswith("\n")
    assert "2.00 KB" in text
    assert "Total FLOPs" in text
    by_shape = profiled.key_averages(group_by_input_shape=True)
    assert "[[32, 64], [16, 64], [16]]" in by_shape.table()
    assert "Input Shapes" in by_shape.table()
    assert "Input Shapes" not in text
    with pytest.raises(AttributeError):
        profiled.key_averages().table(sort_by="colour")


def test_averages_add_up(profiled):
    rows = {row.key: row for row in profiled.key_averages()}
    assert rows["aten::sum"].count == sum(event.name == "aten::sum" for event in profiled.events()) >= 2
    assert rows["aten::sum"].cpu_time == rows["aten::sum"].cpu_time_total / rows["aten::sum"].count
    total = profiled.events().total_average()
    assert total.count == len(profiled.events())
    assert total.key == "Total"
    top = sum(event.cpu_time_total for event in profiled.events() if event.cpu_parent is None)
    assert abs(profiled.events().self_cpu_time_total - top) < 1e-3


def test_a_trace_is_json_that_chrome_reads(profiled, tmp_path):
    profiled.add_metadata_json("note", "[1, 2]")
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    profiled.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert json.load(file)["traceEvents"]
    assert trace["note"] == [1, 2]
    assert trace["schemaVersion"] == 1
    events = trace["traceEvents"]
    linear = next(e for e in events if e["name"] == "aten::linear")
    assert linear["ph"] == "X"
    assert linear["cat"] == "cpu_op"
    assert linear["dur"] > 0
    assert linear["pid"] == os.getpid()
    assert linear["args"]["Input Dims"] == [[32, 64], [16, 64], [16]]
    assert next(e for e in events if e["name"] == "model")["cat"] == "user_annotation"
    starts, ends = [[e["id"] for e in events if e["ph"] == phase] for phase in "sf"]
    assert starts
    assert sorted(starts) == sorted(ends)
    assert all({"ph", "name", "pid", "tid", "ts"} <= e.keys() for e in events)


def test_schedules(tmp_path):
    steps = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=1)
    N, W, R, S = ProfilerAction
    assert [steps(i) for i in range(7)] == [N, N, W, R, S, N, N]
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=0, warmup=1, active=0)
    seen = []
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: seen.append((p.step_num, [e.name for e in p.events()])),
    ) as prof:
        for _ in range(10):
            torch.ones(3) + 1
            prof.step()
    cycle = ["ProfilerStep*", "aten::ones", "aten::add"] * 2
    assert seen == [(4, cycle), (8, cycle)]
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path), "me")) as prof:
        torch.ones(3) + 1
    names = os.listdir(tmp_path)
    assert len(names) == 1
    assert names[0].startswith("me.")
    assert names[0].endswith(".pt.trace.json")


def test_stacks(tmp_path):
    def inner():
        return torch.randn(200, 200) @ torch.randn(200, 200)

    with profile(with_stack=True) as prof:
        inner()
    stack = named(prof, "aten::matmul").stack
    assert stack[0].endswith(": inner")
    assert stack[1].endswith(": test_stacks")
    prof.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    assert ";" in (tmp_path / "stacks").read_text()
    assert "Source Location" in prof.key_averages(group_by_stack_n=2).table()


def test_the_older_profiler():
    with torch.autograd.profiler.profile() as prof:
        torch.ones(3) + 1
    assert [event.name for event in prof.function_events] == ["aten::ones", "aten::add"]
    assert "aten::add" in str(prof)
    assert prof.self_cpu_time_total > 0
    unfinished = torch.autograd.profiler.profile()
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        unfinished.key_averages()
    with torch.autograd.profiler.profile(enabled=False) as off:
        assert off is None
    with pytest.raises(AssertionError, match="Profiler must be initialized before getting key averages"):
        profile().key_averages()
    with profile():
        with pytest.raises(RuntimeError, match="Profiler is already enabled on this thread"):
            profile().__enter__()


def test_ranges_cost_nothing_and_decorate():
    @record_function("double")
    def double(x):
        return x * 2

    assert double(torch.ones(2)).tolist() == [2, 2]
    with profile() as prof:
        double(torch.ones(2))
        left = record_function("left open")
        left.__enter__()
    with profile() as later:
        with record_function("outer"):
            left.__exit__(None, None, None)  # of a profile that is over: nothing ends
            torch.ones(2).neg()
    assert named(prof, "aten::mul").cpu_parent.name == "double"
    assert named(later, "aten::neg").cpu_parent.name == "outer"


def test_casts_are_seen():
    with profile() as prof, torch.autocast("cpu"):
        torch.ones(2, 2) @ torch.ones(2, 2)
    matmul = named(prof, "aten::matmul")
    assert [child.name for child in matmul.cpu_children][:2] == ["aten::_to_copy"] * 2


def test_in_place_and_overloads_have_pytorchs_names():
    with profile() as prof:
        x = torch.ones(2, 2)
        x.add_(1).max(dim=0)
    assert [event.name for event in prof.events()][:3] == ["aten::ones", "aten::add_", "aten::max"]


def test_loaders_and_optimisers_are_ranges():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([p], lr=0.1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 2)), batch_size=2)
    with profile() as prof:
        for (x,) in loader:
            optimizer.zero_grad()
            (p.sum() * x.sum()).backward()
            optimizer.step()
    assert {event.name for event in prof.events() if event.is_user_annotation} == {
        "Optimizer.step#SGD.step",
        "Optimizer.zero_grad#SGD.zero_grad",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    }
