"""torch.utils.model_zoo: torch.hub's weights under an older name."""
from taper.hub import load_state_dict_from_url as load_url  # noqa: F401
