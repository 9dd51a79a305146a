"""tensorboardX.summary: torch.utils.tensorboard's, with cleaned tags and tensorboardX's arguments."""

from taper import _C
from taper.utils.tensorboard import summary as _summary
from taper.utils.tensorboard._convert_np import as_number, as_tensor, make_np  # noqa: F401
from taper.utils.tensorboard.summary import Summary


def _clean_tag(name):
    """A tag without characters that TensorBoard had trouble with."""
    import re

    return None if name is None else re.sub(r"[^-/\w.]", "_", name).lstrip("/")


def scalar(name, scalar, display_name="", summary_description=""):
    """A number."""
    return Summary(
        _C._summary_scalar(_clean_tag(name), as_number(scalar), False, False, display_name, summary_description)
    )


def text(tag, text):
    """A text in Markdown."""
    return _summary.text(_clean_tag(tag), text)


def histogram(name, values, bins, max_bins=None):
    """How many values lie where."""
    return _summary.histogram(_clean_tag(name), as_tensor(values), bins, max_bins)


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """A histogram that was counted elsewhere."""
    return _summary.histogram_raw(_clean_tag(name), min, max, num, sum, sum_squares, bucket_limits, bucket_counts)


def image(tag, tensor, rescale=1, dataformats="CHW"):
    """A picture, or several side by side."""
    return _summary.image(_clean_tag(tag), tensor, rescale, dataformats)


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None):
    """A picture with boxes drawn on it."""
    return _summary.image_boxes(_clean_tag(tag), tensor_image, tensor_boxes, rescale, dataformats, labels)


def video(tag, tensor, fps=4, dataformats="NTCHW"):
    """Moving pictures as an animated GIF."""
    order = [dataformats.upper().index(letter) for letter in "NTCHW"]
    return _summary.video(_clean_tag(tag), as_tensor(tensor).permute(order), fps)


def audio(tag, tensor, sample_rate=44100):
    """Sound from -1 to 1."""
    return _summary.audio(_clean_tag(tag), tensor, sample_rate)


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None):
    """Precision and recall by threshold."""
    return _summary.pr_curve(_clean_tag(tag), labels, predictions, num_thresholds, weights)


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127, weights=None):
    """The same, counted elsewhere."""
    return _summary.pr_curve_raw(_clean_tag(tag), tp, fp, tn, fn, precision, recall, num_thresholds, weights)


def mesh(tag, vertices, colors, faces, config_dict=None):
    """Points in space."""
    return _summary.mesh(_clean_tag(tag), vertices, colors, faces, config_dict)


def custom_scalars(layout):
    """Which scalars share a chart."""
    return _summary.custom_scalars(layout)


def hparams(hparam_dict=None, metric_dict=None):
    """A run's settings and the metrics that judge them."""
    return _summary.hparams(hparam_dict, metric_dict, _bools=True)
