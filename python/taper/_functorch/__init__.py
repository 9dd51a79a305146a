"""torch._functorch: torch.vmap's steps, and settings of PyTorch's compiler for forward and backward, kept as set."""


def __getattr__(name):
    if name == "config":
        from taper._dynamo import Settings

        globals()["config"] = Settings(
            "taper._functorch.config",
            donated_buffer=True,
            activation_memory_budget=1.0,
            functionalize_rng_ops=False,
            fake_tensor_allow_meta=True,
            debug_partitioner=False,
            recompute_views=False,
            enable_autograd_cache=True,
            treat_parameters_as_free_to_save=True,
            max_dist_from_bw=1000,
            aggressive_recomputation=False,
        )
        return globals()["config"]
    raise AttributeError(f"module 'torch._functorch' has no attribute '{name}'")
