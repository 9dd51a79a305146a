"""Flags and counters of the package."""

import taper as torch
from state.base import cleanup, nothing, source


def flag(name, read, change, restore):
    def made():
        cleanup.append(restore)
        return read, change

    made.__name__ = name
    return source(made)


flag(
    "num_threads",
    lambda: torch.get_num_threads(),
    lambda: torch.set_num_threads(3 - torch.get_num_threads()),
    lambda: torch.set_num_threads(2),
)
flag(
    "deterministic",
    lambda: 2.0 if torch.are_deterministic_algorithms_enabled() else 3.0,
    lambda: torch.use_deterministic_algorithms(not torch.are_deterministic_algorithms_enabled()),
    lambda: torch.use_deterministic_algorithms(False),
)
flag(
    "default_dtype",
    lambda: 2.0 if torch.get_default_dtype() == torch.float32 else 3.0,
    lambda: torch.set_default_dtype(torch.float64 if torch.get_default_dtype() == torch.float32 else torch.float32),
    lambda: torch.set_default_dtype(torch.float32),
)
flag(
    "default_dtype_of_new_tensors",
    lambda: torch.ones(1).element_size() * torch.zeros(1).add(1),
    lambda: torch.set_default_dtype(torch.float64 if torch.get_default_dtype() == torch.float32 else torch.float32),
    lambda: torch.set_default_dtype(torch.float32),
)
flag(
    "grad_mode",
    lambda: 2.0 if torch.is_grad_enabled() else 3.0,
    lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
    lambda: torch.set_grad_enabled(True),
)
flag(
    "grad_mode_set_inside",
    lambda: (torch.set_grad_enabled(not torch.is_grad_enabled()), 2.0 if torch.is_grad_enabled() else 3.0)[1],
    nothing,
    lambda: torch.set_grad_enabled(True),
)
flag(
    "autocast",
    lambda: 2.0 if torch.is_autocast_enabled("cpu") else 3.0,
    lambda: torch.set_autocast_enabled("cpu", not torch.is_autocast_enabled("cpu")),
    lambda: torch.set_autocast_enabled("cpu", False),
)
flag(
    "autocast_dtype",
    lambda: 2.0 if torch.get_autocast_dtype("cpu") == torch.bfloat16 else 3.0,
    lambda: torch.set_autocast_dtype(
        "cpu", torch.float16 if torch.get_autocast_dtype("cpu") == torch.bfloat16 else torch.bfloat16
    ),
    lambda: torch.set_autocast_dtype("cpu", torch.bfloat16),
)
flag(
    "autocast_cache",
    lambda: 2.0 if torch.is_autocast_cache_enabled() else 3.0,
    lambda: torch.set_autocast_cache_enabled(not torch.is_autocast_cache_enabled()),
    lambda: torch.set_autocast_cache_enabled(True),
)
flag(
    "cudnn_benchmark",
    lambda: 2.0 if torch.backends.cudnn.benchmark else 3.0,
    lambda: setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark),
    lambda: setattr(torch.backends.cudnn, "benchmark", False),
)
flag(
    "allow_tf32",
    lambda: 2.0 if torch.backends.cuda.matmul.allow_tf32 else 3.0,
    lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", not torch.backends.cuda.matmul.allow_tf32),
    lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", False),
)
flag(
    "matmul_precision",
    lambda: len(torch.get_float32_matmul_precision()),
    lambda: torch.set_float32_matmul_precision(
        "high" if torch.get_float32_matmul_precision() == "highest" else "highest"
    ),
    lambda: torch.set_float32_matmul_precision("highest"),
)
flag(
    "anomaly",
    lambda: 2.0 if torch.is_anomaly_enabled() else 3.0,
    lambda: torch.autograd.set_detect_anomaly(not torch.is_anomaly_enabled()),
    lambda: torch.autograd.set_detect_anomaly(False),
)
flag(
    "warn_always",
    lambda: 2.0 if torch.is_warn_always_enabled() else 3.0,
    lambda: torch.set_warn_always(not torch.is_warn_always_enabled()),
    lambda: torch.set_warn_always(False),
)
flag("inference_mode", lambda: 2.0 if torch.is_inference_mode_enabled() else 3.0, nothing, nothing)
flag(
    "debug_of_dynamo",
    lambda: 2.0 if torch._dynamo.config.verbose else 3.0,
    lambda: setattr(torch._dynamo.config, "verbose", not torch._dynamo.config.verbose),
    lambda: setattr(torch._dynamo.config, "verbose", False),
)
