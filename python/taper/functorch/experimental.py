"""functorch.experimental."""

from taper._functorch.apis import chunk_vmap  # noqa: F401
from taper.func import functionalize, hessian, jacfwd, jvp, replace_all_batch_norm_modules_  # noqa: F401
