"""Exponential families: the entropy follows from the normaliser and its gradient."""

from taper import autograd
from taper.distributions.distribution import Distribution


class ExponentialFamily(Distribution):
    """Densities h(x) exp(<parameters, statistics(x)> - _log_normalizer(parameters))."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        """By Bregman's divergence: the normaliser less the parameters times its gradient."""
        parameters = [parameter.detach().requires_grad_() for parameter in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        gradients = autograd.grad(normalizer.sum(), parameters, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(parameters, gradients):
            result = result - (parameter * gradient).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
