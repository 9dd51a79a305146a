"""SciPy works on tensors as on arrays."""

import numpy as np
import taper
from scipy import cluster, fft, special, stats

rng = np.random.default_rng(0)
values = rng.normal(size=(40, 3))
x = taper.from_numpy(values.copy())

w = cluster.vq.whiten(x)
assert isinstance(w, taper.Tensor)
np.testing.assert_allclose(w.numpy(), cluster.vq.whiten(values))

f = fft.rfft(x, axis=0)
assert isinstance(f, taper.Tensor)
np.testing.assert_allclose(f.numpy(), fft.rfft(values, axis=0))

z = stats.zscore(x)
assert isinstance(z, taper.Tensor)
np.testing.assert_allclose(z.numpy(), stats.zscore(values))

s = special.logsumexp(x, axis=1)
assert isinstance(s, taper.Tensor)
np.testing.assert_allclose(s.numpy(), special.logsumexp(values, axis=1))
