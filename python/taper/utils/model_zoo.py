"""torch.utils.model_zoo: torch.hub's weights under an older name."""

from taper.hub import load_state_dict_from_url as load_url  # noqa: F401


def __getattr__(name):
    from taper import hub

    if name in ("tqdm", "_download_url_to_file"):
        return hub.tqdm if name == "tqdm" else hub.download_url_to_file
    raise AttributeError(f"module 'torch.utils.model_zoo' has no attribute '{name}'")
