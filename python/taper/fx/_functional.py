"""The form in which PyTorch records calls of nn.functional and torch.functional: each names its later arguments, and
spells out their defaults."""

import re

from taper import _C

# A function's arguments; those after the bar are recorded by name. A star: tensors, which may also come as one list.
_TABLE = """
    adaptive_avg_pool2d(input, output_size)
    adaptive_avg_pool3d(input, output_size)
    adaptive_max_pool1d(input, output_size | return_indices=False)
    adaptive_max_pool1d_with_indices(input, output_size | return_indices=False)
    adaptive_max_pool2d(input, output_size | return_indices=False)
    adaptive_max_pool2d_with_indices(input, output_size | return_indices=False)
    adaptive_max_pool3d(input, output_size | return_indices=False)
    adaptive_max_pool3d_with_indices(input, output_size | return_indices=False)
    affine_grid(theta, size | align_corners=None)
    alpha_dropout(input | p=0.5, training=False, inplace=False)
    batch_norm(input, running_mean, running_var | weight=None, bias=None, training=False, momentum=0.1, eps=1e-05)
    binary_cross_entropy(input, target | weight=None, size_average=None, reduce=None, reduction='mean')
    binary_cross_entropy_with_logits(input, target | weight=None, size_average=None, reduce=None, reduction='mean',
        pos_weight=None)
    celu(input | alpha=1.0, inplace=False)
    cosine_embedding_loss(input1, input2, target | margin=0, size_average=None, reduce=None, reduction='mean')
    cross_entropy(input, target | weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean',
        label_smoothing=0.0)
    ctc_loss(log_probs, targets, input_lengths, target_lengths | blank=0, reduction='mean', zero_infinity=False)
    dropout(input | p=0.5, training=True, inplace=False)
    dropout1d(input | p=0.5, training=True, inplace=False)
    dropout2d(input | p=0.5, training=True, inplace=False)
    dropout3d(input | p=0.5, training=True, inplace=False)
    elu(input | alpha=1.0, inplace=False)
    embedding(input, weight | padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False)
    embedding_bag(input, weight | offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode='mean',
        sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None)
    feature_alpha_dropout(input | p=0.5, training=False, inplace=False)
    fold(input, output_size, kernel_size | dilation=1, padding=0, stride=1)
    fractional_max_pool2d(input, kernel_size | output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None)
    fractional_max_pool2d_with_indices(input, kernel_size | output_size=None, output_ratio=None,
        return_indices=False, _random_samples=None)
    fractional_max_pool3d(input, kernel_size | output_size=None, output_ratio=None, return_indices=False,
        _random_samples=None)
    fractional_max_pool3d_with_indices(input, kernel_size | output_size=None, output_ratio=None,
        return_indices=False, _random_samples=None)
    gaussian_nll_loss(input, target, var | full=False, eps=1e-06, reduction='mean')
    glu(input | dim=-1)
    grid_sample(input, grid | mode='bilinear', padding_mode='zeros', align_corners=None)
    group_norm(input, num_groups | weight=None, bias=None, eps=1e-05)
    gumbel_softmax(logits | tau=1, hard=False, eps=1e-10, dim=-1)
    hardsigmoid(input | inplace=False)
    hardswish(input | inplace=False)
    hardtanh(input | min_val=-1.0, max_val=1.0, inplace=False)
    hinge_embedding_loss(input, target | margin=1.0, size_average=None, reduce=None, reduction='mean')
    huber_loss(input, target | reduction='mean', delta=1.0, weight=None)
    instance_norm(input | running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
        momentum=0.1, eps=1e-05)
    interpolate(input | size=None, scale_factor=None, mode='nearest', align_corners=None,
        recompute_scale_factor=None, antialias=False)
    kl_div(input, target | size_average=None, reduce=None, reduction='mean', log_target=False)
    l1_loss(input, target | size_average=None, reduce=None, reduction='mean')
    layer_norm(input, normalized_shape | weight=None, bias=None, eps=1e-05)
    leaky_relu(input | negative_slope=0.01, inplace=False)
    local_response_norm(input, size | alpha=0.0001, beta=0.75, k=1.0)
    log_softmax(input | dim=None, _stacklevel=3, dtype=None)
    lp_pool1d(input, norm_type, kernel_size | stride=None, ceil_mode=False)
    lp_pool2d(input, norm_type, kernel_size | stride=None, ceil_mode=False)
    lp_pool3d(input, norm_type, kernel_size | stride=None, ceil_mode=False)
    margin_ranking_loss(input1, input2, target | margin=0, size_average=None, reduce=None, reduction='mean')
    max_pool1d(input, kernel_size | stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
    max_pool1d_with_indices(input, kernel_size | stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False)
    max_pool2d(input, kernel_size | stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
    max_pool2d_with_indices(input, kernel_size | stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False)
    max_pool3d(input, kernel_size | stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False)
    max_pool3d_with_indices(input, kernel_size | stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False)
    max_unpool1d(input, indices, kernel_size | stride=None, padding=0, output_size=None)
    max_unpool2d(input, indices, kernel_size | stride=None, padding=0, output_size=None)
    max_unpool3d(input, indices, kernel_size | stride=None, padding=0, output_size=None)
    mish(input | inplace=False)
    mse_loss(input, target | size_average=None, reduce=None, reduction='mean', weight=None)
    multi_margin_loss(input, target | p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean')
    multilabel_margin_loss(input, target | size_average=None, reduce=None, reduction='mean')
    multilabel_soft_margin_loss(input, target | weight=None, size_average=None, reduce=None, reduction='mean')
    nll_loss(input, target | weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean')
    normalize(input | p=2.0, dim=1, eps=1e-12, out=None)
    pad(input, pad | mode='constant', value=None)
    poisson_nll_loss(input, target | log_input=True, full=False, size_average=None, eps=1e-08, reduce=None,
        reduction='mean')
    relu(input | inplace=False)
    relu6(input | inplace=False)
    rms_norm(input, normalized_shape | weight=None, eps=None)
    rrelu(input | lower=0.125, upper=1/3, training=False, inplace=False)
    selu(input | inplace=False)
    silu(input | inplace=False)
    smooth_l1_loss(input, target | size_average=None, reduce=None, reduction='mean', beta=1.0)
    soft_margin_loss(input, target | size_average=None, reduce=None, reduction='mean')
    softmax(input | dim=None, _stacklevel=3, dtype=None)
    softmin(input | dim=None, _stacklevel=3, dtype=None)
    softsign(input)
    tanhshrink(input)
    threshold(input, threshold, value | inplace=False)
    triplet_margin_loss(anchor, positive, negative | margin=1.0, p=2, eps=1e-06, swap=False, size_average=None,
        reduce=None, reduction='mean')
    triplet_margin_with_distance_loss(anchor, positive, negative | distance_function=None, margin=1.0, swap=False,
        reduction='mean')
    unfold(input, kernel_size | dilation=1, padding=0, stride=1)

    einsum(equation, *operands)
    cdist(x1, x2 | p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary')
    norm(input | p='fro', dim=None, keepdim=False, out=None, dtype=None)
    split(tensor, split_size_or_sections | dim=0)
    stft(input, n_fft | hop_length=None, win_length=None, window=None, center=True, pad_mode='reflect',
        normalized=False, onesided=None, return_complex=None, align_to_window=None)
    tensordot(a, b | dims=2, out=None)
"""
_DEFAULTS = {"1/3": 1.0 / 3, "None": None, "True": True, "False": False}
forms = {}  # name: (names of the positional ones, names and defaults of the others)


def _value(text):
    if text in _DEFAULTS:
        return _DEFAULTS[text]
    if text[0] == "'":
        return text[1:-1]
    return float(text) if "." in text or "e" in text else int(text)


def _read():
    for name, arguments in re.findall(r"(\w+)\(([^()]*)\)", _TABLE):
        first, _, rest = " ".join(arguments.split()).partition(" | ")
        pairs = [pair.split("=") for pair in rest.split(", ")] if rest else []
        forms[name] = (first.split(", "), {key: _value(text) for key, text in pairs})


_read()


def normal_form(function, args, kwargs):
    """The arguments as PyTorch records them; as they came where the function has no such form or the call does not fit
    it."""
    from taper.fx import _naming

    if isinstance(function, type):
        return args, kwargs
    form = forms.get(getattr(function, "__name__", None))
    if form is None or not _naming.qualified(function).startswith(("torch.nn.functional.", "torch.functional.")):
        return args, kwargs
    names, defaults = form
    if names[-1].startswith("*"):
        fixed = len(names) - 1
        listed = len(args) == fixed + 1 and isinstance(args[-1], (list, tuple))
        return (*args[:fixed], *args[-1]) if listed else args, kwargs
    order = [*names, *defaults]
    given = dict(zip(order, args))
    if len(args) > len(order) or any(key in given or key not in order for key in kwargs):
        return args, kwargs
    given.update(kwargs)
    if any(name not in given for name in names):
        return args, kwargs
    return tuple(given[name] for name in names), {name: given.get(name, default) for name, default in defaults.items()}


# Operators of tensors are recorded as the methods that do them.
_METHODS = {
    "__add__": "add",
    "__radd__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__div__": "div",
    "__matmul__": "matmul",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__pow__": "pow",
    "__mod__": "remainder",
    "__iadd__": "__iadd__",
    "__ipow__": "pow_",
}


def is_method(function):
    name = getattr(function, "__name__", None)
    return (
        isinstance(name, str) and not isinstance(function, _C.Function) and getattr(_C.Tensor, name, None) is function
    )


def method_name(function):
    return _METHODS.get(function.__name__, function.__name__)
