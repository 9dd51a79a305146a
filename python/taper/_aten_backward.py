"""torch.ops.aten.NAME_backward: gradients of layers under the names that PyTorch's own code calls, by the tape."""

import taper


def _gradients(make, wanted, grad_output):
    """The gradients of what `make` makes of fresh leaves, None for those that are not wanted."""
    with taper.enable_grad():
        leaves = [t.detach().requires_grad_() if needed else t for t, needed in wanted if t is not None]
        found = taper.autograd.grad(make(*leaves), [leaf for leaf in leaves if leaf.requires_grad], grad_output)
    found = iter(found)
    return tuple(next(found) if needed else None for _, needed in wanted)


def convolution_backward(
    grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
):
    """(of the input, of the weight, of the bias), as the mask asks."""
    if groups <= 0:
        raise RuntimeError(f"expected groups to be greater than 0, but got groups={groups}")
    if len(output_mask) != 3:
        raise RuntimeError(f"convolution_backward() expected a mask of 3 values, got {len(output_mask)}")

    def make(input, weight):
        return taper.ops.aten.convolution(
            input, weight, None, stride, padding, dilation, transposed, output_padding, groups
        )

    first, second = (
        _gradients(make, [(input, output_mask[0]), (weight, output_mask[1])], grad_output)
        if any(output_mask[:2])
        else (None, None)
    )
    bias = grad_output.sum([0, *range(2, grad_output.dim())]) if output_mask[2] else None
    return first, second, bias


def _adaptive(name, dims):
    def backward(grad_output, input):
        if grad_output.dim() != input.dim() or input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"{name}(): Expected dimensions {dims + 1} or {dims + 2} for `grad_output` and `input`, but got "
                f"{grad_output.dim()} and {input.dim()}"
            )
        pool = getattr(taper.nn.functional, f"adaptive_avg_pool{dims}d")
        return _gradients(lambda x: pool(x, tuple(grad_output.shape[-dims:])), [(input, True)], grad_output)[0]

    backward.__name__ = name
    return backward


_adaptive_avg_pool2d_backward, _adaptive_avg_pool3d_backward = (
    _adaptive("_adaptive_avg_pool2d_backward", 2),
    _adaptive("_adaptive_avg_pool3d_backward", 3),
)


def _scattered(grad_output, input, indices, dims):
    """Each gradient to the place that its maximum came from."""
    flat = input.new_zeros(input.shape).flatten(-dims)
    return flat.scatter_add(-1, indices.flatten(-dims), grad_output.flatten(-dims)).view(input.shape)


def adaptive_max_pool2d_backward(grad_output, input, indices):
    if grad_output.shape != indices.shape:
        raise RuntimeError(
            f"adaptive_max_pool2d_backward(): expected sizes {list(indices.shape)} for `grad_output`, but got "
            f"{list(grad_output.shape)}"
        )
    return _scattered(grad_output, input, indices, 2)


def adaptive_max_pool3d_backward(grad_output, input, indices):
    if len({grad_output.dim(), input.dim(), indices.dim()}) > 1:
        raise RuntimeError(
            f"adaptive_max_pool3d_backward(): expected dimensions {input.dim()} for `grad_output` and `indices`, but "
            f"got {grad_output.dim()} and {indices.dim()}"
        )
    return _scattered(grad_output, input, indices, 3)


def max_pool2d_with_indices_backward(grad_output, input, kernel_size, stride, padding, dilation, ceil_mode, indices):
    for at, (size, other) in enumerate(zip(grad_output.shape, indices.shape)):
        if size != other:
            raise RuntimeError(
                f"Expected a tensor of dimension {indices.dim()} and tensor.size[{at}] == {other} but got: dimension "
                f"{grad_output.dim()} and tensor.size[{at}] = {size}"
            )
    return _scattered(grad_output, input, indices, 2)


def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    weight = grad_output.new_zeros(num_weights, grad_output.shape[-1])

    def make(weight):
        return taper.nn.functional.embedding(
            indices, weight, padding_idx if padding_idx >= 0 else None, scale_grad_by_freq=scale_grad_by_freq
        )

    return _gradients(make, [(weight, True)], grad_output)[0]
