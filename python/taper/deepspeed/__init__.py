"""deepspeed's way in, over torch.distributed: initialize() gives an engine with ZeRO stages 0 to 3, 16-bit training,
gradient accumulation and clipping."""

from taper.deepspeed.engine import DeepSpeedEngine  # noqa: F401

__version__ = version = "0.14.0+taper"


def init_distributed(
    dist_backend=None,
    auto_mpi_discovery=True,
    distributed_port=29500,
    verbose=True,
    timeout=None,
    init_method=None,
    dist_init_required=None,
    config=None,
    rank=-1,
    world_size=-1,
):
    """Joins the world of the launcher's variables; a process by itself is a world of one."""
    from taper.distributed._alone import join_world

    join_world()


def initialize(
    args=None,
    model=None,
    optimizer=None,
    model_parameters=None,
    training_data=None,
    lr_scheduler=None,
    distributed_port=29500,
    mpu=None,
    dist_init_required=None,
    collate_fn=None,
    config=None,
    mesh_param=None,
    config_params=None,
):
    """The engine, its optimiser, a loader over training_data and the schedule."""
    if model is None:
        raise AssertionError("deepspeed.initialize requires a model")
    config = (
        config
        if config is not None
        else config_params
        if config_params is not None
        else getattr(args, "deepspeed_config", None)
    )
    if config is None:
        raise AssertionError("DeepSpeed requires --deepspeed_config to specify configuration file")
    init_distributed()
    engine = DeepSpeedEngine(model, config, optimizer, model_parameters, lr_scheduler, training_data, collate_fn)
    return engine, engine.optimizer, engine.training_dataloader, engine.lr_scheduler


def add_config_arguments(parser):
    """--deepspeed and --deepspeed_config."""
    group = parser.add_argument_group("DeepSpeed", "DeepSpeed configurations")
    group.add_argument(
        "--deepspeed",
        default=False,
        action="store_true",
        help="Enable DeepSpeed (helper flag for user code, no impact on DeepSpeed backend)",
    )
    group.add_argument("--deepspeed_config", default=None, type=str, help="DeepSpeed json configuration file.")
    return parser


def __getattr__(name):
    from importlib import import_module

    if name in ("zero", "runtime", "ops", "accelerator", "checkpointing", "utils"):
        return import_module("taper.deepspeed." + name)
    if name == "comm":
        return import_module("taper.deepspeed.comm")
    raise AttributeError(f"module 'deepspeed' has no attribute '{name}'")
