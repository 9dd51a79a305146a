"""Random numbers on devices of one type: each device has a generator of its own."""

from taper import _C
from taper._gpu import DeviceFunctions
from taper._gpu.devices import index_of, need


class Random(DeviceFunctions):
    """The functions of torch.cuda.random and torch.xpu.random."""

    def _generator(self, device=None):
        return _C._default_generator_of(self._kind, index_of(self._kind, device))

    def _all(self):
        return [self._generator(i) for i in range(_C._gpu_count(self._kind))]

    def manual_seed(self, seed):
        """Seeds the current device, if there is one."""
        if _C._gpu_count(self._kind):
            self._generator().manual_seed(int(seed))

    def manual_seed_all(self, seed):
        """Seeds all devices there are."""
        for generator in self._all():
            generator.manual_seed(int(seed))

    def seed(self):
        """Seeds the current device with a random number."""
        need(self._kind, self._word)
        self._generator().seed()

    def seed_all(self):
        """Seeds all devices with one random number."""
        need(self._kind, self._word)
        first, *others = self._all()
        seed = first.seed()
        for generator in others:
            generator.manual_seed(seed)

    def initial_seed(self):
        """The seed of the current device."""
        need(self._kind, self._word)
        return self._generator().initial_seed()

    def get_rng_state(self, device=None):
        """The state of a device's generator, a tensor of bytes."""
        need(self._kind, self._word)
        return self._generator(device).get_state()

    def get_rng_state_all(self):
        return [generator.get_state() for generator in self._all()]

    def set_rng_state(self, new_state, device=None):
        """Puts a state back."""
        need(self._kind, self._word)
        self._generator(device).set_state(new_state)

    def set_rng_state_all(self, new_states):
        for generator, state in zip(self._all(), new_states):
            generator.set_state(state)
