"""torch.utils.data.graph_settings: finds the steps of a pipe that shuffle or take shares, and tells them how."""
__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def _steps(pipe, found):
    """A pipe and those that it reads from, in its attributes and in lists there."""
    from taper.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
    if isinstance(pipe, (IterDataPipe, MapDataPipe)) and all(pipe is not other for other in found):
        found.append(pipe)
        for value in vars(pipe).values():
            for each in value if isinstance(value, (list, tuple)) else [value]:
                _steps(each, found)
    return found


def apply_sharding(datapipe, num_of_instances, instance_id, sharding_group=None):
    """Each step that takes shares takes this one."""
    for step in _steps(datapipe, []):
        if hasattr(type(step), "is_shardable") and step.is_shardable():
            step.apply_sharding(num_of_instances, instance_id)
    return datapipe


def apply_shuffle_settings(datapipe, shuffle=None):
    """Turns shuffling on or off in all steps that shuffle; adds such a step where there is none."""
    if shuffle is None:
        return datapipe
    shufflers = [step for step in _steps(datapipe, []) if hasattr(type(step), "set_shuffle")]
    if shuffle and not shufflers:
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for step in shufflers:
        step.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe, rng):
    """Gives each step by chance a seed drawn from rng."""
    from taper import empty, int64
    for step in _steps(datapipe, []):
        if hasattr(type(step), "set_seed"):
            step.set_seed(int(empty((), dtype=int64).random_(generator=rng).item()))
    return datapipe


apply_shuffle_seed = apply_random_seed


def get_all_graph_pipes(graph):
    return list(graph)
