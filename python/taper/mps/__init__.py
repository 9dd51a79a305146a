"""torch.mps: Apple's GPUs. This build has none: is_available() says so, what asks for a GPU raises an error."""

from taper._absent import device_count, empty_cache, is_available, manual_seed, refusals, refusing_class  # noqa: F401

globals().update(
    refusals(
        "mps",
        "MPS",
        """
    synchronize get_rng_state set_rng_state seed current_allocated_memory driver_allocated_memory recommended_max_memory
    compile_shader
    set_per_process_memory_fraction current_stream default_stream""",
    )
)

Event = refusing_class("Event", "MPS", "A point in the work of a GPU.")
