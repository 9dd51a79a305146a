"""Backends that are not there."""

from process_group import dist, n, r, torch
from torch.distributed.distributed_c10d import BackendConfig

for wrong, error in (
    ("foo", "Unknown backend type foo"),
    ("cpu:foo", "Unknown c10d backend type FOO"),
    (3, "Backend constructor parameter must be string-ish"),
    ("ucc", "Distributed package doesn't have UCC built in"),
):
    for call in (dist.new_group, dist.init_process_group):
        try:
            call(backend=wrong)
        except (AssertionError, ValueError, RuntimeError) as told:
            assert str(told) == error, told
        else:
            assert False, wrong
        if call is dist.new_group:
            dist.destroy_process_group()
    dist.init_process_group("gloo")
assert dist.get_backend(dist.new_group(backend="")) == "gloo"
assert dist.get_backend(dist.new_group(backend="cpu:gloo,cuda:nccl")) == "gloo"
for wrong in ("cpu:gloo,cpu:gloo", "cpu:gloo,foo"):
    try:
        BackendConfig(wrong)
    except ValueError as told:
        assert f"argument is invalid: {wrong}" in str(told)
    else:
        assert False, wrong
