"""deepspeed.runtime.lr_schedules: the schedules that a configuration can name."""

import math

__all__ = ["LRRangeTest", "OneCycle", "WarmupCosineLR", "WarmupDecayLR", "WarmupLR"]


class _Schedule:
    """Sets the groups' learning rates in each step, from a function of the number of steps."""

    def __init__(self, optimizer, last_batch_iteration=-1):
        self.optimizer, self.last_batch_iteration = optimizer, last_batch_iteration
        if last_batch_iteration == -1:
            self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def _rates(self, n):
        raise NotImplementedError

    def get_lr(self):
        return self._rates(max(self.last_batch_iteration, 0))

    def get_last_lr(self):
        return self._last_lr

    def step(self, last_batch_iteration=None):
        self.last_batch_iteration = (
            self.last_batch_iteration + 1 if last_batch_iteration is None else last_batch_iteration
        )
        self._last_lr = self._rates(self.last_batch_iteration)
        for group, rate in zip(self.optimizer.param_groups, self._last_lr):
            group["lr"] = rate

    def state_dict(self):
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, sd):
        self.last_batch_iteration = sd["last_batch_iteration"]

    def _each(self, value):
        return list(value) if isinstance(value, (list, tuple)) else [value] * len(self.optimizer.param_groups)


class WarmupLR(_Schedule):
    """From warmup_min_lr to warmup_max_lr, by the logarithm or in a line, and then as it is."""

    def __init__(
        self,
        optimizer,
        warmup_min_lr=0.0,
        warmup_max_lr=0.001,
        warmup_num_steps=1000,
        warmup_type="log",
        last_batch_iteration=-1,
    ):
        super().__init__(optimizer, last_batch_iteration)
        self.low, self.high, self.type = self._each(warmup_min_lr), self._each(warmup_max_lr), warmup_type
        self.warmup_num_steps = max(2, warmup_num_steps)

    def _gamma(self, n):
        if n >= self.warmup_num_steps:
            return self._after(n)
        return math.log(n + 1) / math.log(self.warmup_num_steps) if self.type == "log" else n / self.warmup_num_steps

    def _after(self, n):
        return 1.0

    def _rates(self, n):
        gamma = self._gamma(n)
        return [low + (high - low) * gamma for low, high in zip(self.low, self.high)]


class WarmupDecayLR(WarmupLR):
    """WarmupLR, then in a line to zero at total_num_steps."""

    def __init__(
        self,
        optimizer,
        total_num_steps,
        warmup_min_lr=0.0,
        warmup_max_lr=0.001,
        warmup_num_steps=1000,
        warmup_type="log",
        last_batch_iteration=-1,
    ):
        super().__init__(optimizer, warmup_min_lr, warmup_max_lr, warmup_num_steps, warmup_type, last_batch_iteration)
        self.total_num_steps = total_num_steps

    def _after(self, n):
        return max(0.0, (self.total_num_steps - n) / max(1.0, self.total_num_steps - self.warmup_num_steps))


class WarmupCosineLR(_Schedule):
    """Shares of the starting rate: up from warmup_min_ratio, then down a cosine to cos_min_ratio."""

    def __init__(
        self,
        optimizer,
        total_num_steps,
        warmup_min_ratio=0.0,
        warmup_num_steps=1000,
        cos_min_ratio=0.0001,
        warmup_type="log",
        last_batch_iteration=-1,
    ):
        super().__init__(optimizer, last_batch_iteration)
        self.total, self.low, self.warm, self.floor, self.type = (
            total_num_steps,
            warmup_min_ratio,
            max(2, warmup_num_steps),
            cos_min_ratio,
            warmup_type,
        )
        self.base = [group["lr"] for group in optimizer.param_groups]

    def _rates(self, n):
        if n < self.warm:
            gamma = math.log(n + 1) / math.log(self.warm) if self.type == "log" else n / self.warm
            ratio = self.low + (1.0 - self.low) * gamma
        else:
            done = min((n - self.warm + 1) / max(1, self.total - self.warm), 1.0)
            ratio = max(0.0, self.floor + (1.0 - self.floor) * (1 + math.cos(math.pi * done)) / 2)
        return [rate * ratio for rate in self.base]


class OneCycle(_Schedule):
    """Up from cycle_min_lr to cycle_max_lr and down again, then decaying."""

    def __init__(
        self,
        optimizer,
        cycle_min_lr,
        cycle_max_lr,
        decay_lr_rate=0.0,
        cycle_first_step_size=2000,
        cycle_second_step_size=None,
        cycle_first_stair_count=0,
        cycle_second_stair_count=None,
        decay_step_size=0,
        cycle_momentum=True,
        cycle_min_mom=0.8,
        cycle_max_mom=0.9,
        decay_mom_rate=0.0,
        last_batch_iteration=-1,
    ):
        super().__init__(optimizer, last_batch_iteration)
        self.low, self.high, self.decay, self.decay_step = (
            self._each(cycle_min_lr),
            self._each(cycle_max_lr),
            decay_lr_rate,
            decay_step_size,
        )
        self.first, self.second = cycle_first_step_size, cycle_second_step_size or cycle_first_step_size

    def _rates(self, n):
        total = self.first + self.second
        if n <= total:
            share = n / self.first if n <= self.first else (total - n) / self.second
            return [low + (high - low) * share for low, high in zip(self.low, self.high)]
        steps = (n - total) / self.decay_step if self.decay_step else 0
        return [low / (1 + self.decay * steps) for low in self.low]


class LRRangeTest(_Schedule):
    """Ever larger rates, to find one."""

    def __init__(
        self,
        optimizer,
        lr_range_test_min_lr=1e-3,
        lr_range_test_step_size=2000,
        lr_range_test_step_rate=1.0,
        lr_range_test_staircase=False,
        last_batch_iteration=-1,
    ):
        super().__init__(optimizer, last_batch_iteration)
        self.low, self.size, self.rate, self.stairs = (
            self._each(lr_range_test_min_lr),
            lr_range_test_step_size,
            lr_range_test_step_rate,
            lr_range_test_staircase,
        )

    def _rates(self, n):
        interval = (n + 1) / self.size
        return [low * (1 + self.rate * (math.floor(interval) if self.stairs else interval)) for low in self.low]
