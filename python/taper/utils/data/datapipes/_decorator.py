"""Decorators of pipes."""

from taper.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic"]


class functional_datapipe:
    """Makes a class a step with a name."""

    def __init__(self, name, enable_df_api_tracing=False):
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls):
        if not isinstance(cls, type) or not issubclass(cls, (IterDataPipe, MapDataPipe)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        (IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe).register_datapipe_as_function(
            self.name, cls, self.enable_df_api_tracing
        )
        return cls


class guaranteed_datapipes_determinism:
    """Within it, pipes that say of themselves that their order is by chance are refused."""

    on = False

    def __init__(self):
        self.before, guaranteed_datapipes_determinism.on = self.on, True

    def __enter__(self):
        return self

    def __exit__(self, *error):
        guaranteed_datapipes_determinism.on = self.before
        return False


class non_deterministic:
    """Marks a pipe whose order is by chance: the class, or a function of its arguments tells."""

    def __init__(self, arg):
        self.cls = arg if isinstance(arg, type) else None
        self.tells = (lambda *args, **kwargs: True) if self.cls else arg

    def __call__(self, *args, **kwargs):
        if self.cls is None:
            self.cls = args[0]
            return self
        if guaranteed_datapipes_determinism.on and self.tells(*args, **kwargs):
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic, but you set 'guaranteed_datapipes_determinism'."
            )
        return self.cls(*args, **kwargs)
