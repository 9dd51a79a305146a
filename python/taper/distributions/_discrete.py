"""Families of counts and choices, and what makes those smooth (relaxed ones)."""

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions._continuous import Gamma
from taper.distributions.distribution import Family, OfLogits, one_of
from taper.distributions.exp_family import ExponentialFamily
from taper.distributions.utils import broadcast_all, clamp_probs, lazy_property
from taper.nn.functional import binary_cross_entropy_with_logits, logsigmoid, one_hot

_PROBABILITY = {"probs": constraints.unit_interval, "logits": constraints.real}
_ROW = {"probs": constraints.simplex, "logits": constraints.real_vector}


def _surprise(logits, value):
    """-log of the probability of a coin's value; for a share, the mean over both sides."""
    return binary_cross_entropy_with_logits(*broadcast_all(logits, value), reduction="none")


class Bernoulli(OfLogits, ExponentialFamily):
    """One with probability probs, zero otherwise."""

    arg_constraints = _PROBABILITY
    support = constraints.boolean
    has_enumerate_support, _mean_carrier_measure = True, 0

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(self._start_of(probs, logits), validate_args=validate_args)

    mean = property(lambda self: self.probs)
    mode = property(lambda self: (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, float("nan")))
    variance = property(lambda self: self.probs * (1 - self.probs))
    _natural_params = property(lambda self: (self.probs.logit(),))

    def _log_normalizer(self, logit):
        return logit.exp().log1p()

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        return -_surprise(self.logits, value)

    def entropy(self):
        return _surprise(self.logits, self.probs)

    def enumerate_support(self, expand=True):
        return self._values(2, expand)


class Geometric(OfLogits):
    """How many tries fail before the first success, which has probability probs."""

    arg_constraints = _PROBABILITY
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(self._start_of(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n"
                f"{self.probs.data[~(self.probs > 0)]}"
            )

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: torch.zeros_like(self.probs))
    variance = property(lambda self: self.mean / self.probs)

    def sample(self, sample_shape=Size()):
        """The tail (1 - probs)^k, inverted."""
        with torch.no_grad():
            tail = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(
                torch.finfo(self.probs.dtype).tiny, 1
            )
            return torch.floor(tail.log() / self.probs.neg().log1p())

    def log_prob(self, value):
        self._check(value)
        value, p = broadcast_all(value, self.probs)
        return value * (-p.masked_fill((p == 1) & (value == 0), 0)).log1p() + self.probs.log()

    def entropy(self):
        return _surprise(self.logits, self.probs) / self.probs


class Poisson(Family, ExponentialFamily):
    """Counts with mean rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _spread = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        super().__init__(self._start(rate=rate), validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    _natural_params = property(lambda self: (self.rate.log(),))

    def _log_normalizer(self, log_rate):
        return log_rate.exp()

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        count, rate = broadcast_all(value, self.rate)
        return torch.xlogy(count, rate) - rate - torch.lgamma(count + 1)


class OfCounts(OfLogits):
    """The frame of families over a count and a probability."""

    _spread = {"total_count": 0, **OfLogits._spread}

    def _start_counts(self, total_count, probs, logits):
        shape = self._start_of(probs, logits, False, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)
        return shape


class Binomial(OfCounts):
    """How many of total_count tries succeed with probability probs."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_PROBABILITY}
    has_enumerate_support = True
    support = constraints.dependent_property(
        lambda self: constraints.integer_interval(0, self.total_count), is_discrete=True, event_dim=0
    )

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        super().__init__(self._start_counts(total_count, probs, logits), validate_args=validate_args)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            return torch.binomial(
                *(each.expand(self._extended_shape(sample_shape)) for each in (self.total_count, self.probs))
            )

    def log_prob(self, value):
        """n log(1 + exp(logit)) as n max(logit, 0) + n log(1 + exp(-|logit|)); the maximum has half the gradient at
        zero."""
        self._check(value)
        n, logits = self.total_count, self.logits
        size = logits.abs()
        normalizer = n * ((logits + size) / 2) + n * torch.log1p(torch.exp(-size)) - torch.lgamma(n + 1)
        return value * logits - torch.lgamma(value + 1) - torch.lgamma(n - value + 1) - normalizer

    def _one_count(self, asked):
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return count

    def entropy(self):
        self._one_count("entropy")
        each = self.log_prob(self.enumerate_support(False))
        return -(each.exp() * each).sum(0)

    def enumerate_support(self, expand=True):
        return self._values(1 + self._one_count("enumerate_support"), expand)


class NegativeBinomial(OfCounts):
    """How many tries succeed, with probability probs, before total_count have failed."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        super().__init__(self._start_counts(total_count, probs, logits), validate_args=validate_args)

    mean = property(lambda self: self.total_count * torch.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / torch.sigmoid(-self.logits))

    @lazy_property
    def _gamma(self):
        return Gamma(self.total_count, torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape=Size()):
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value):
        self._check(value)
        n = self.total_count
        ways = -torch.lgamma(n + value) + torch.lgamma(1.0 + value) + torch.lgamma(n)
        return n * logsigmoid(-self.logits) + value * logsigmoid(self.logits) - ways.masked_fill(n + value == 0.0, 0.0)


class Categorical(OfLogits):
    """One of several places, each with its probability; probs and logits need not be normalised."""

    arg_constraints = _ROW
    has_enumerate_support = True
    support = constraints.dependent_property(
        lambda self: constraints.integer_interval(0, self._num_events - 1), is_discrete=True, event_dim=0
    )
    _spread = {"probs": 1, "logits": 1}
    _kept = ("_given", "_num_events")
    _binary = False

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._given = one_of(probs, logits)
        row = logits if probs is None else probs
        if not row.shape:
            raise ValueError(f"`{self._given}` parameter must be at least one-dimensional.")
        *batch, self._num_events = row.shape
        setattr(
            self,
            self._given,
            row - row.logsumexp(dim=-1, keepdim=True) if probs is None else row / row.sum(-1, keepdim=True),
        )
        super().__init__(Size(batch), validate_args=validate_args)

    mean = variance = property(lambda self: self._filled(float("nan"), self.probs))
    mode = property(lambda self: self.probs.argmax(dim=-1))

    def sample(self, sample_shape=Size()):
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        return torch.multinomial(rows, sample_shape.numel(), True).T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._check(value)
        value, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        logits = torch.clamp(self.logits, min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        return self._values(self._num_events, expand, torch.long)


class OverCategorical(Family):
    """The frame of distributions whose events are as wide as a categorical one's probabilities."""

    arg_constraints = _ROW
    _spread = {"_categorical": 0}

    def _start(self, probs, logits, validate_args):
        choice = self._categorical = Categorical(probs, logits)
        Family.__init__(self, choice.batch_shape, choice.param_shape[-1:], validate_args=validate_args)

    _new = property(lambda self: self._categorical._new)
    _param = property(lambda self: self._categorical._param)
    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)


class OneHotCategorical(OverCategorical):
    """A one at a place drawn with its probability, zeros elsewhere."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._start(probs, logits, validate_args)

    def _one_hot(self, places):
        return one_hot(places, self._categorical._num_events).to(self.probs)

    mean = property(lambda self: self.probs)
    mode = property(lambda self: self._one_hot(self.probs.argmax(-1)))
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape=Size()):
        return self._one_hot(self._categorical.sample(Size(sample_shape)))

    def log_prob(self, value):
        self._check(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return Categorical.entropy(self._categorical)

    def enumerate_support(self, expand=True):
        return self._one_hot(self._categorical.enumerate_support(expand)).to(self._param)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same with the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape=Size()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OverCategorical):
    """How often each place came in total_count draws."""

    support = constraints.dependent_property(
        lambda self: constraints.multinomial(self.total_count), is_discrete=True, event_dim=1
    )
    _spread = {"_categorical": 0, "_binomial": 1}
    _kept = ("total_count",)

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._start(probs, logits, validate_args)
        self._binomial = Binomial(total_count, self.probs)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=Size()):
        places = self._categorical.sample(Size((self.total_count,)) + Size(sample_shape)).movedim(0, -1)
        return (
            places.new_zeros(self._extended_shape(sample_shape))
            .scatter_add_(-1, places, torch.ones_like(places))
            .to(self.probs.dtype)
        )

    def entropy(self):
        n = self.probs.new_tensor(self.total_count)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        weights = torch.exp(self._binomial.log_prob(counts)) * torch.lgamma(counts + 1)
        return n * self._categorical.entropy() - torch.lgamma(n + 1) + weights.sum([0, -1])

    def log_prob(self, value):
        """Places that cannot come add nothing where they did not."""
        self._check(value)
        counts, logits = broadcast_all(value, self.logits)
        weights = logits.masked_fill((counts == 0) & logits.isneginf(), 0) * counts
        return torch.lgamma(counts.sum(-1) + 1) - torch.lgamma(counts + 1).sum(-1) + weights.sum(-1)


class LogitRelaxedBernoulli(OfLogits):
    """The logits of the relaxed ones: logistic noise around the logit, over the temperature."""

    arg_constraints = _PROBABILITY
    support = constraints.real
    _kept = ("_given", "temperature")

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(self._start_of(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape=Size()):
        p = clamp_probs(self.probs.expand(self._extended_shape(sample_shape)))
        u = clamp_probs(torch.rand(p.shape, dtype=p.dtype, device=p.device))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value):
        self._check(value)
        value, middle = broadcast_all(value, self.logits)
        off = middle - value * self.temperature
        return self.temperature.log() + off - 2 * off.exp().log1p()


class ExpRelaxedCategorical(OverCategorical):
    """The logarithms of the relaxed rows."""

    support = constraints.real_vector
    has_rsample = True
    _kept = ("temperature",)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._start(probs, logits, validate_args)

    def rsample(self, sample_shape=Size()):
        u = clamp_probs(
            torch.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device)
        )
        noisy = (self.logits - u.log().neg().log()) / self.temperature
        return noisy - noisy.logsumexp(-1, True)

    def log_prob(self, value):
        self._check(value)
        k = self._categorical._num_events
        value, row = broadcast_all(value, self.logits)
        off = row - value * self.temperature
        normalizer = torch.full_like(self.temperature, float(k)).lgamma() + self.temperature.log().mul(k - 1)
        return (off - off.logsumexp(-1, True)).sum(-1) + normalizer
