"""torch.distributed.tensor.parallel.style: how a layer's weight lies on the ranks, and what is exchanged around its
call.

Inside of such a layer's forward every tensor is plain: this rank's part of the weight, and of the input or the output.
"""

from taper.distributed.tensor import _collectives as collectives
from taper.distributed.tensor._dtensor import DTensor, distribute_tensor
from taper.distributed.tensor.placement_types import Replicate, Shard

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle:
    src_data_rank = 0

    def _apply(self, module, device_mesh):
        raise NotImplementedError


def _shard_parameter(module, name, mesh, placement):
    from taper.nn import Parameter

    p = module._parameters.get(name)
    if p is not None:
        module.register_parameter(name, Parameter(distribute_tensor(p.data, mesh, [placement]), p.requires_grad))


def _local(value):
    return value.to_local() if isinstance(value, DTensor) else value


def move(value, group, have, want):
    """A tensor that lies one way, the other way; gradients come back by the same road. Into calls that differ by rank
    goes what is replicated there."""
    value = _local(value)
    if have == want or have is None or want is None:
        return value
    if have.is_shard() and want.is_replicate():
        dim = have.dim % value.dim()
        return collectives.Gather.apply(value, group, dim, _whole_size(value, group, dim))
    if have.is_replicate() and want.is_shard():
        return collectives.Split.apply(value, group, want.dim % value.dim())
    if have.is_partial():
        return (
            collectives.Reduce.apply(value, group, have)
            if want.is_replicate()
            else collectives.SumToRows.apply(value, group, want.dim % value.dim())
        )
    dim = have.dim % value.dim()
    whole = collectives.Gather.apply(value, group, dim, _whole_size(value, group, dim))
    return collectives.Split.apply(whole, group, want.dim % value.dim())


def _whole_size(value, group, dim):
    import taper
    from taper import distributed as dist

    size = taper.tensor([value.shape[dim]])
    dist.all_reduce(size, group=group)
    return int(size.item())


class _LayerStyle(ParallelStyle):
    """What column- and row-wise layers share: settings, and a forward that is exchanged."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        self.input_layouts, self.output_layouts, self.use_local_output = input_layouts, output_layouts, use_local_output

    def _result(self, y, mesh, layout):
        return y if self.use_local_output else DTensor.from_local(y, mesh, [layout])


class ColwiseParallel(_LayerStyle):
    """A Linear or Embedding of which each rank has some of the outputs."""

    def _apply(self, module, device_mesh):
        from taper import nn
        from taper.nn import functional as F

        group, have = device_mesh.get_group(), self.input_layouts or Replicate()
        want = self.output_layouts or Shard(-1)
        if isinstance(module, nn.Linear):
            _shard_parameter(module, "weight", device_mesh, Shard(0))
            _shard_parameter(module, "bias", device_mesh, Shard(0))

            def forward(x):
                return finish(F.linear(enter(x), _local(module.weight), _local(module.bias)))
        elif isinstance(module, nn.Embedding):
            _shard_parameter(module, "weight", device_mesh, Shard(1))

            def forward(x):
                return finish(
                    F.embedding(
                        _local(x),
                        _local(module.weight),
                        module.padding_idx,
                        module.max_norm,
                        module.norm_type,
                        module.scale_grad_by_freq,
                        module.sparse,
                    )
                )
        else:
            raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")

        def enter(x):
            x = _local(x)
            if have.is_shard():
                dim = have.dim % x.dim()
                return collectives.RowsToCalls.apply(x, group, dim, _whole_size(x, group, dim))
            return collectives.Spread.apply(x, group)

        def finish(y):
            return self._result(move(y, group, Shard(-1), want), device_mesh, want)

        module.forward = forward
        return module


class RowwiseParallel(_LayerStyle):
    """A Linear or Embedding of which each rank has some of the inputs; results are summed."""

    def _apply(self, module, device_mesh):
        from taper import nn
        from taper.nn import functional as F
        from taper.distributed.tensor.placement_types import Partial

        group, want = device_mesh.get_group(), self.output_layouts or Replicate()
        if isinstance(module, nn.Linear):
            have = self.input_layouts or Shard(-1)
            _shard_parameter(module, "weight", device_mesh, Shard(1))
            _shard_parameter(module, "bias", device_mesh, Replicate())

            def forward(x):
                y = move(F.linear(move(x, group, have, Shard(-1)), _local(module.weight)), group, Partial(), want)
                return self._result(
                    y if module.bias is None else y + _bias(module.bias, group, want), device_mesh, want
                )
        elif isinstance(module, nn.Embedding):
            rows = module.num_embeddings
            _shard_parameter(module, "weight", device_mesh, Shard(0))

            def forward(x):
                weight = _local(module.weight)
                start, count = Shard(0).part(rows, device_mesh.size(), device_mesh.get_local_rank())
                x = _local(x)
                here = (x >= start) & (x < start + count)
                y = F.embedding((x - start).clamp(0, max(count - 1, 0)), weight) * here.unsqueeze(-1)
                return self._result(move(y, group, Partial(), want), device_mesh, want)
        else:
            raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")
        module.forward = forward
        return module


def _bias(bias, group, want):
    """A bias that every rank has: where ranks work on different rows, its gradients are summands."""
    local = _local(bias)
    return collectives.Spread.apply(local, group) if want.is_shard() else local


class SequenceParallel(ParallelStyle):
    """A normalisation or dropout over a sequence of which each rank has some of the positions: parameters are copies
    whose gradients are summed."""

    def __init__(self, *, sequence_dim=1, use_local_output=True):
        self.sequence_dim, self.use_local_output = sequence_dim, use_local_output

    def _apply(self, module, device_mesh):
        group = device_mesh.get_group()
        for name in list(module._parameters):
            _shard_parameter(module, name, device_mesh, Replicate())
        kept = {}

        def before(module, inputs):
            kept.update(module._parameters)  # of this call: fully_shard has others between calls
            for name, p in kept.items():
                if p is not None:
                    module._parameters[name] = collectives.Spread.apply(_local(p), group)
            return tuple(_local(value) for value in inputs)

        def after(module, inputs, output):
            module._parameters.update(kept)
            return (
                output if self.use_local_output else DTensor.from_local(output, device_mesh, [Shard(self.sequence_dim)])
            )

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


def _each(layouts, values):
    layouts = layouts if isinstance(layouts, (list, tuple)) else (layouts,)
    return [*layouts, *[None] * (len(values) - len(layouts))]


class PrepareModuleInput(ParallelStyle):
    """What comes into a module, lying as its layers want it."""

    def __init__(
        self,
        *,
        input_layouts=None,
        desired_input_layouts=None,
        input_kwarg_layouts=None,
        desired_input_kwarg_layouts=None,
        use_local_output=False,
    ):
        self.have, self.want = input_layouts, desired_input_layouts
        self.have_kwargs, self.want_kwargs = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}

    def _apply(self, module, device_mesh):
        group = device_mesh.get_group()

        def before(module, args, kwargs):
            args = tuple(
                move(value, group, have, want)
                for value, have, want in zip(args, _each(self.have, args), _each(self.want, args))
            )
            return args, {
                key: move(value, group, self.have_kwargs.get(key), self.want_kwargs.get(key))
                for key, value in kwargs.items()
            }

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """What a module gives, lying as what follows wants it."""

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output=True):
        self.have, self.want = output_layouts, desired_output_layouts

    def _apply(self, module, device_mesh):
        group = device_mesh.get_group()

        def after(module, inputs, output):
            if not isinstance(output, tuple):
                return move(output, group, _each(self.have, [0])[0], _each(self.want, [0])[0])
            return tuple(
                move(value, group, have, want)
                for value, have, want in zip(output, _each(self.have, output), _each(self.want, output))
            )

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Both."""

    def __init__(
        self,
        *,
        input_layouts=None,
        desired_input_layouts=None,
        input_kwarg_layouts=None,
        desired_input_kwarg_layouts=None,
        use_local_input=False,
        output_layouts,
        desired_output_layouts,
        use_local_output=True,
    ):
        self.input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
        )
        self.output = PrepareModuleOutput(output_layouts=output_layouts, desired_output_layouts=desired_output_layouts)

    def _apply(self, module, device_mesh):
        return self.output._apply(self.input._apply(module, device_mesh), device_mesh)
