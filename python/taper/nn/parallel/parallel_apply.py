"""torch.nn.parallel.parallel_apply: one call per device, side by side in threads."""

import threading

from taper import _C
from taper._C import is_grad_enabled

__all__ = ["parallel_apply"]


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """What each module gives for its inputs; the first error of any of them is raised."""
    kwargs_tup = kwargs_tup or [{}] * len(modules)
    results, recording = [None] * len(modules), is_grad_enabled()

    def work(i):
        try:
            _C._set_grad_enabled(recording)
            given = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
            results[i] = (modules[i](*given, **kwargs_tup[i]), None)
        except BaseException as error:  # handed to the caller's thread
            results[i] = (None, error)

    if len(modules) == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for _, error in results:
        if error is not None:
            raise error
    return [result for result, _ in results]
