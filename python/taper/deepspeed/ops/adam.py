"""deepspeed.ops.adam: Adam whose step is one call, which every optimiser of Taper's has."""

from taper.optim import Adam, AdamW

__all__ = ["DeepSpeedCPUAdam", "FusedAdam"]


def FusedAdam(
    params,
    lr=1e-3,
    bias_correction=True,
    betas=(0.9, 0.999),
    eps=1e-8,
    adam_w_mode=True,
    weight_decay=0.0,
    amsgrad=False,
    set_grad_none=True,
):
    return (AdamW if adam_w_mode else Adam)(
        params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad
    )


def DeepSpeedCPUAdam(
    model_params,
    lr=1e-3,
    bias_correction=True,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    amsgrad=False,
    adamw_mode=True,
    fp32_optimizer_states=True,
):
    return FusedAdam(model_params, lr, bias_correction, betas, eps, adamw_mode, weight_decay, amsgrad)
