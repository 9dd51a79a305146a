"""The von Mises distribution."""
import math

import taper as torch
from taper import Size
from taper.distributions import constraints
from taper.distributions.distribution import Broadcast
from taper.distributions.utils import lazy_property


class VonMises(Broadcast):
    """Angles around loc, the closer the larger the concentration."""
    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _shaped = ("loc", "concentration")

    def __init__(self, loc, concentration, validate_args=None):
        super().__init__(self._start(False, loc=loc, concentration=concentration), validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        return 1 - torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)

    def log_prob(self, value):
        self._check(value)
        log_i0 = torch.log(torch.special.i0e(self.concentration)) + self.concentration
        return self.concentration * torch.cos(value - self.loc) - math.log(2 * math.pi) - log_i0

    @lazy_property
    def _proposal_r(self):
        kappa = self.concentration.to(torch.double)
        tau = 1 + (1 + 4 * kappa ** 2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho ** 2) / (2 * rho))

    def sample(self, sample_shape=Size()):
        """Best and Fisher's rejection from a wrapped Cauchy distribution (1979), in double."""
        with torch.no_grad():
            loc, kappa, r = self.loc.to(torch.double), self.concentration.to(torch.double), self._proposal_r
            angle = torch.zeros(self._extended_shape(sample_shape), dtype=torch.double, device=self.loc.device)
            done = torch.zeros(angle.shape, dtype=torch.bool, device=self.loc.device)
            while not done.all():
                u1, u2, u3 = torch.rand((3,) + tuple(angle.shape), dtype=torch.double, device=self.loc.device).unbind()
                z = torch.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                angle, done = torch.where(accept, (u3 - 0.5).sign() * f.acos(), angle), done | accept
            return ((angle + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)
