"""RemoteModule: a module that lives on another worker and is called from here."""

from taper import nn
from taper.distributed import rpc

_ABSENT = """register_buffer register_parameter add_module apply cuda ipu xpu cpu type float double half bfloat16 to
    register_backward_hook register_forward_pre_hook
    register_forward_hook state_dict load_state_dict parameters named_parameters buffers named_buffers children
    named_children modules named_modules requires_grad_ zero_grad
    share_memory extra_repr""".split()


def _create(module_cls, args, kwargs, device):
    module = module_cls(*args, **kwargs)
    if not isinstance(module, nn.Module):
        raise ValueError(
            "Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it returns an "
            f"instance of {type(module)}."
        )
    return module.to(device)


def _forward(rref, args, kwargs):
    return rref.local_value()(*args, **kwargs)


def _parameters(rref, recurse):
    return [rpc.RRef(p) for p in rref.local_value().parameters(recurse)]


def _train(rref, mode):
    rref.local_value().train(mode)


class RemoteModule(nn.Module):
    """RemoteModule("worker1/cpu", nn.Linear, args=(20, 30)): forward, forward_async and references to the
    parameters."""

    def __init__(self, remote_device, module_cls, args=None, kwargs=None, *, _module_interface_cls=None):
        super().__init__()
        to, _, device = str(remote_device).partition("/")
        self.on, self.device = int(to[5:]) if to.startswith("rank:") else to, device or "cpu"
        self.is_device_map_set, self.is_scriptable = False, False
        self.module_rref = rpc.remote(self.on, _create, args=(module_cls, tuple(args or ()), kwargs or {}, self.device))

    def forward(self, *args, **kwargs):
        return rpc.rpc_sync(self.module_rref.owner(), _forward, args=(self.module_rref, args, kwargs))

    def forward_async(self, *args, **kwargs):
        """The future of forward."""
        return rpc.rpc_async(self.module_rref.owner(), _forward, args=(self.module_rref, args, kwargs))

    def remote_parameters(self, recurse=True):
        """References to the parameters, for DistributedOptimizer."""
        return rpc.rpc_sync(self.module_rref.owner(), _parameters, args=(self.module_rref, recurse))

    def get_module_rref(self):
        return self.module_rref

    def train(self, mode=True):
        rpc.rpc_sync(self.module_rref.owner(), _train, args=(self.module_rref, mode))
        return self

    def eval(self):
        return self.train(False)

    def __repr__(self):
        return f"RemoteModule({self.module_rref!r})"


def _absent(name):
    def refuse(self, *args, **kwargs):
        more = {"parameters": ". Please use ``remote_parameters`` instead."}.get(name, "")
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule{more}")

    refuse.__name__ = name
    return refuse


for _name in _ABSENT:
    setattr(RemoteModule, _name, _absent(_name))
