"""DTensor: where the results of operators lie (as PyTorch 2.15 places them), their values and gradients against the
whole tensors, moving between all placements, and meshes of two dimensions."""

from ranks import run_ranks


def test_operators_on_parts(tmp_path):
    run_ranks(2, "dtensor/operators.py", tmp_path)


def test_meshes_of_two_dimensions(tmp_path):
    run_ranks(4, "dtensor/meshes.py", tmp_path)


def test_fully_shard_over_tensor_parallel_layers(tmp_path):
    run_ranks(4, "dtensor/two_ways.py", tmp_path, arguments=[str(tmp_path / "saved")])


def test_a_transformer_over_both_mesh_dimensions(tmp_path):
    run_ranks(4, "dtensor/transformer.py", tmp_path)
