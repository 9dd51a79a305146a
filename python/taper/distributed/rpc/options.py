"""torch.distributed.rpc.options."""

from taper.distributed.rpc import constants


class TensorPipeRpcBackendOptions:
    """How calls travel. Every request has a thread of its own, so num_worker_threads is kept and not needed; tensors
    travel through host memory."""

    def __init__(
        self,
        *,
        num_worker_threads=constants.DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout=constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method=constants.DEFAULT_INIT_METHOD,
        device_maps=None,
        devices=None,
        _transports=None,
        _channels=None,
    ):
        self.num_worker_threads, self.rpc_timeout, self.init_method = num_worker_threads, rpc_timeout, init_method
        self.device_maps, self.devices = device_maps or {}, devices or []

    def set_device_map(self, to, device_map):
        """Notes which device of ours is which of theirs."""
        self.device_maps.setdefault(to, {}).update(device_map)

    def set_devices(self, devices):
        self.devices = devices


RpcBackendOptions = TensorPipeRpcBackendOptions
