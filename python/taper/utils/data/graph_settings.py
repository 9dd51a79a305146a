"""torch.utils.data.graph_settings: finds the steps of a pipe that shuffle or take shares, and tells them how."""

from taper.utils.data.graph import traverse_dps

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph):
    """The pipes of a graph, each once."""
    found = {}

    def collect(part):
        for key, (pipe, sources) in part.items():
            found.setdefault(key, pipe)
            collect(sources)

    collect(graph)
    return list(found.values())


def _steps(datapipe):
    return get_all_graph_pipes(traverse_dps(datapipe))


def apply_sharding(datapipe, num_of_instances, instance_id, sharding_group=None):
    """Each step that takes shares takes this one; on a way through the pipes there may be one such step."""
    from taper.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe

    group = SHARDING_PRIORITIES.DEFAULT if sharding_group is None else sharding_group

    def apply(part, before):
        for pipe, sources in part.values():
            applied = before
            if callable(getattr(type(pipe), "apply_sharding", None)):
                if before is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause data loss. "
                        f"Sharding already applied to {before} while trying to apply to {pipe}"
                    )
                if isinstance(pipe, _ShardingIterDataPipe):
                    pipe.apply_sharding(num_of_instances, instance_id, sharding_group=group)
                else:
                    pipe.apply_sharding(num_of_instances, instance_id)
                applied = pipe
            apply(sources, applied)

    apply(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe, shuffle=None):
    """Turns shuffling on or off in all steps that shuffle; adds such a step where there is none."""
    if shuffle is None:
        return datapipe
    shufflers = [step for step in _steps(datapipe) if hasattr(type(step), "set_shuffle")]
    if shuffle and not shufflers:
        import warnings

        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. "
            "Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for step in shufflers:
        step.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe, rng):
    """Gives each step by chance a seed drawn from rng."""
    from taper import empty, int64

    for step in _steps(datapipe):
        if hasattr(type(step), "set_seed"):
            step.set_seed(int(empty((), dtype=int64).random_(generator=rng).item()))
    return datapipe


apply_shuffle_seed = apply_random_seed
