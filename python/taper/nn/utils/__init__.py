"""torch.nn.utils: helpers around modules."""
from taper.nn.utils import rnn  # noqa: F401
from taper.nn.utils.clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm  # noqa: F401
from taper.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters  # noqa: F401
