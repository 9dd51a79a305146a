"""tensorboardX's SummaryWriter: torch.utils.tensorboard's with other arguments, cleaned tags, and scalars that can be
exported."""

import os
import time

from taper.tensorboardX import summary as _summary
from taper.utils.tensorboard import writer as _writer
from taper.utils.tensorboard._convert_np import as_number


class FileWriter(_writer.FileWriter):
    """One event file in a folder."""

    def __init__(self, logdir, max_queue=10, flush_secs=120, filename_suffix=""):
        super().__init__(logdir, max_queue, flush_secs, filename_suffix)


class _NoFile:
    """Takes everything and writes nothing: write_to_disk=False."""

    def __init__(self, folder):
        self._folder = folder

    def get_logdir(self):
        return self._folder

    def _ignore(self, *args, **kwargs):
        pass

    add_event = add_summary = add_graph = add_onnx_graph = flush = close = reopen = _ignore


class SummaryWriter(_writer.SummaryWriter):
    """Logs what a training does into event files in a folder: runs/DATE_HOST unless one is given."""

    def __init__(
        self,
        logdir=None,
        comment="",
        purge_step=None,
        max_queue=10,
        flush_secs=120,
        filename_suffix="",
        write_to_disk=True,
        log_dir=None,
        comet_config=None,
        **kwargs,
    ):
        self._write_to_disk = write_to_disk
        self._defaults = {}
        self.scalar_dict = {}
        super().__init__(
            logdir or log_dir, comment, purge_step if write_to_disk else None, max_queue, flush_secs, filename_suffix
        )
        self.logdir = self.log_dir

    def _new_writer(self, folder):
        return (
            FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
            if self._write_to_disk
            else _NoFile(folder)
        )

    def _add(self, summary, global_step, walltime=None):
        step = self._defaults.get("global_step") if global_step is None else global_step
        super()._add(summary, step, self._defaults.get("walltime") if walltime is None else walltime)

    def use_metadata(self, *, global_step=None, walltime=None):
        """with writer.use_metadata(global_step=3): what is added there without a step is of this one."""
        from contextlib import contextmanager

        @contextmanager
        def within():
            before, self._defaults = self._defaults, {"global_step": global_step, "walltime": walltime}
            try:
                yield self
            finally:
                self._defaults = before

        return within()

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, display_name="", summary_description=""):
        """A number: a point of a curve."""
        self._add(_summary.scalar(tag, scalar_value, display_name, summary_description), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers, which are drawn in one picture: each in a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self._get_file_writer().get_logdir(), main_tag, tag)
            self._sub_writer(folder).add_summary(_summary.scalar(main_tag, value), global_step, walltime)
            step = None if global_step is None else int(global_step)
            self.scalar_dict.setdefault(folder, []).append([walltime, step, as_number(value)])

    def export_scalars_to_json(self, path):
        """The numbers of add_scalars so far as a JSON file: {folder: [[time, step, value], ...]}."""
        import json

        beside = f"{os.fspath(path)}.tmp.{os.getpid()}"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(self.scalar_dict, file)
        os.replace(beside, path)
        self.scalar_dict = {}

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """How many of the values lie where."""
        self._add(_summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture: bytes from 0 to 255, or floats from 0 to 1."""
        self._add(_summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self, tag, img_tensor, box_tensor, global_step=None, walltime=None, dataformats="CHW", labels=None, **kwargs
    ):
        """A picture with boxes (left, top, right, bottom) drawn on it."""
        super().add_image_with_boxes(
            _summary._clean_tag(tag),
            img_tensor,
            box_tensor,
            global_step,
            walltime,
            kwargs.get("rescale", 1),
            dataformats,
            labels,
        )

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None, dataformats="NTCHW"):
        """Moving pictures, shown as an animated GIF."""
        self._add(_summary.video(tag, vid_tensor, fps or 4, dataformats), global_step, walltime)

    def add_hparams(self, hparam_dict, metric_dict, name=None, global_step=None):
        """A run's settings and the metrics that judge them, in a folder of their own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        self._write_hparams(_summary.hparams(hparam_dict, metric_dict), metric_dict, name, global_step)

    def add_onnx_graph(self, onnx_model_file):
        """Not there: Taper does not read ONNX files."""
        super().add_onnx_graph(onnx_model_file)

    def add_openvino_graph(self, xmlname):
        """Not there: Taper does not read OpenVINO's files."""
        from taper._hook import NotCovered

        raise NotCovered("tensorboardX.SummaryWriter.add_openvino_graph")
