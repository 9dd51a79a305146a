"""torch.utils._foreach_utils: lists of tensors, sorted into those that one kernel can serve."""


def _get_foreach_kernels_supported_devices():
    return ["cuda", "xpu"]


def _get_fused_kernels_supported_devices():
    return ["cpu", "cuda", "xpu"]


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype): (lists of the tensors there, their places)}; the first list decides, the others go along with
    it."""
    first = tensorlistlist[0]
    groups = {}
    for i, tensor in enumerate(first):
        lists, places = groups.setdefault((tensor.device, tensor.dtype), ([[] for _ in tensorlistlist], []))
        for into, values in zip(lists, tensorlistlist):
            if values:
                into.append(values[i])
        if with_indices:
            places.append(i)
    return groups
