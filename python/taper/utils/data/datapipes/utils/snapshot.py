"""torch.utils.data.datapipes.utils.snapshot: a pipe brought to where another one is."""

from taper.utils.data.datapipes._hook_iterator import _SnapshotState


def _simple_graph_snapshot_restoration(datapipe, n_iterations, rng=None):
    """Reads so many items again, with the same seeds; the next reading goes on after them."""
    from taper import Generator
    from taper.utils.data.graph_settings import apply_random_seed

    if datapipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError(
            "Snapshot restoration cannot be applied. You can only restore simple snapshot to the graph if your graph "
            "has not been restored."
        )
    if rng is None:
        rng = Generator()
        rng.seed()
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    reading = iter(datapipe)
    for done in range(n_iterations):
        try:
            next(reading)
        except StopIteration:
            raise RuntimeError(
                f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number of samples available "
                f"({done})."
            ) from None
    datapipe._fast_forward_iterator, datapipe._snapshot_state = reading, _SnapshotState.Restored
