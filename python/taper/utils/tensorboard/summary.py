"""What TensorBoard shows, as bytes of its protocol buffers. The C library makes them; here is what Python's objects
need on the way."""

from taper import _C
from taper.utils.tensorboard._convert_np import as_number, as_tensor, make_np  # noqa: F401


class Summary(bytes):
    """A tensorflow.Summary in its serialised form. Its fields are read by the package tensorboard, where that is
    installed."""

    def SerializeToString(self):
        return bytes(self)

    @property
    def _message(self):
        from tensorboard.compat.proto.summary_pb2 import Summary as Message

        return Message.FromString(bytes(self))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._message, name)

    def __eq__(self, other):
        return bytes(self) == other if isinstance(other, (bytes, bytearray)) else self._message == other

    __hash__ = bytes.__hash__


def _calc_scale_factor(tensor):
    """What pictures are multiplied by: bytes are kept, other values lie between 0 and 1."""
    return 1 if str(getattr(tensor, "dtype", tensor)).endswith("uint8") else 255


def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    """A number."""
    return Summary(_C._summary_scalar(name, as_number(tensor), new_style, double_precision))


def tensor_proto(tag, tensor):
    """A tensor as it is."""
    return Summary(_C._summary_tensor(tag, as_tensor(tensor)))


def text(tag, text):
    """A text in Markdown."""
    return Summary(_C._summary_text(tag + "/text_summary", text))


def _bins(bins):
    return bins if isinstance(bins, (str, int)) else as_tensor(bins).double()


def histogram(name, values, bins, max_bins=None):
    """How many values lie where."""
    if isinstance(values, (list, tuple)):
        raise NotImplementedError(f"Got {type(values)}, but numpy array or torch tensor are expected.")
    return Summary(_C._summary_histogram(name, as_tensor(values), _bins(bins), max_bins or 0))


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """A histogram that was counted elsewhere: bucket_limits are the upper edges of bucket_counts."""
    limits, counts = (as_tensor(x).double().contiguous() for x in (bucket_limits, bucket_counts))
    return Summary(_C._summary_histogram_raw(name, *map(as_number, (min, max, num, sum, sum_squares)), limits, counts))


def image(tag, tensor, rescale=1, dataformats="NCHW"):
    """A picture, or several side by side."""
    return Summary(_C._summary_image(tag, as_tensor(tensor), dataformats, None, rescale))


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None):
    """A picture with boxes drawn on it, and a label at each."""
    picture = as_tensor(tensor_image)
    if labels is not None:
        from taper.utils.tensorboard._labels import with_labels

        picture, dataformats = with_labels(picture, dataformats, as_tensor(tensor_boxes), labels), "HWC"
    return Summary(_C._summary_image(tag, picture, dataformats, as_tensor(tensor_boxes), rescale))


def video(tag, tensor, fps=4):
    """Moving pictures (N, T, C, H, W) as an animated GIF."""
    return Summary(_C._summary_video(tag, as_tensor(tensor), fps))


def audio(tag, tensor, sample_rate=44100):
    """Sound from -1 to 1."""
    return Summary(_C._summary_audio(tag, as_tensor(tensor), sample_rate))


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None):
    """Precision and recall by threshold."""
    return Summary(
        _C._summary_pr_curve(
            tag,
            as_tensor(labels),
            as_tensor(predictions),
            min(num_thresholds, 127),
            None if weights is None else as_tensor(weights),
        )
    )


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127, weights=None):
    """The same, counted elsewhere."""
    rows = [as_tensor(row).float().reshape(-1) for row in (tp, fp, tn, fn, precision, recall)]
    return Summary(_C._summary_pr_curve_raw(tag, _C._functions["stack"](rows)))


def mesh(tag, vertices, colors, faces, config_dict, display_name=None, description=None):
    """Points in space, with colours and triangles."""
    import json

    parts = [None if part is None else as_tensor(part) for part in (vertices, colors, faces)]
    return Summary(_C._summary_mesh(tag, *parts, json.dumps(config_dict, sort_keys=True) if config_dict else "{}"))


def custom_scalars(layout):
    """Which scalars share a chart: {category: {title: ["Multiline" or "Margin", tags]}}."""
    charts = []
    for category, titles in layout.items():
        for title, (kind, tags) in titles.items():
            if kind == "Margin":
                assert len(tags) == 3, f"a margin chart has three tags (value, lower, upper); '{title}' has {len(tags)}"
            charts.append((category, title, kind == "Margin", list(tags)))
    return Summary(_C._summary_custom_scalars(charts))


def _setting(value, bools):
    """A hyperparameter's value as a text, a number or (where they are told apart) a bool."""
    if isinstance(value, str) or bools and isinstance(value, bool):
        return value
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, _C.Tensor) or hasattr(value, "__array_interface__"):
        return as_number(value)
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def _check_domain(hparams, domain):
    if not isinstance(domain, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for name, values in domain.items():
        if (
            name not in hparams
            or not isinstance(values, list)
            or not all(isinstance(value, type(hparams[name])) for value in values)
        ):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
            )


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None, _bools=False):
    """A run's settings and the metrics that judge them: three summaries, which are logged one after the other."""
    hparam_dict, metric_dict, domain = hparam_dict or {}, metric_dict or {}, hparam_domain_discrete or {}
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        raise TypeError("parameter: hparam_dict and metric_dict should be dictionaries, nothing logged.")
    _check_domain(hparam_dict, domain)
    listed = [
        (name, _setting(value, _bools), [_setting(choice, _bools) for choice in domain.get(name, [])])
        for name, value in hparam_dict.items()
        if value is not None
    ]
    return tuple(Summary(_C._summary_hparams(part, listed, list(metric_dict))) for part in range(3))
