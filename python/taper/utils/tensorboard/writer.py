"""SummaryWriter and FileWriter: what a training logs, into event files of the C library."""

import os
import time

from taper import _C
from taper.utils.tensorboard import summary as _summary

_SUMMARY, _GRAPH, _WHOLE = 5, 4, 0  # tp_event_part


def _default_folder(comment):
    import socket

    return os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname() + comment)


def _now(walltime):
    return time.time() if walltime is None else walltime


def _bytes(message):
    return message if isinstance(message, bytes) else message.SerializeToString()


class FileWriter:
    """One event file in a folder, which is made if it is not there."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self._arguments = os.fspath(log_dir), 1 if flush_secs <= 0 else max_queue, flush_secs, filename_suffix
        self.event_writer = _C._EventWriter(*self._arguments)

    def get_logdir(self):
        """The folder."""
        return self._arguments[0]

    def _write(self, part, message, step, walltime):
        self.event_writer.write(part, _bytes(message), None if step is None else int(step), walltime)

    def add_event(self, event, step=None, walltime=None):
        """An event, whole: a protocol buffer or its bytes. step and walltime replace the event's own."""
        if not isinstance(event, bytes):
            own = {"wall_time": _now(walltime), **({} if step is None else {"step": int(step)})}
            for name, value in own.items():
                setattr(event, name, value)
        self._write(_WHOLE, event, None, None)

    def add_summary(self, summary, global_step=None, walltime=None):
        """A summary of taper.utils.tensorboard.summary, or a protocol buffer."""
        self._write(_SUMMARY, summary, global_step, walltime)

    def add_graph(self, graph_profile, walltime=None):
        """A graph (tensorflow.GraphDef), alone or with the times of its steps."""
        self._write(_GRAPH, graph_profile[0] if isinstance(graph_profile, tuple) else graph_profile, None, walltime)

    def add_onnx_graph(self, graph, walltime=None):
        """A graph that was made from an ONNX file."""
        self._write(_GRAPH, graph, None, walltime)

    def flush(self):
        """Everything so far goes to the file."""
        self.event_writer.flush()

    def close(self):
        """The same, and the file is closed."""
        self.event_writer.close()

    def reopen(self):
        """A new file in the same folder, after close."""
        self.event_writer = _C._EventWriter(*self._arguments)


class SummaryWriter:
    """Logs what a training does into event files in a folder: runs/DATE_HOST unless one is given."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = os.fspath(log_dir) if log_dir else _default_folder(comment)
        self.purge_step, self.max_queue, self.flush_secs, self.filename_suffix = (
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
        )
        self.all_writers = self.file_writer = None
        self._get_file_writer()

    def _new_writer(self, folder):
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self):
        """The writer of the run's own file, opened again after close."""
        return self._open() if None in (self.file_writer, self.all_writers) else self.file_writer

    def _open(self):
        own = self.file_writer = self._new_writer(self.log_dir)
        self.all_writers = {own.get_logdir(): own}
        purge, self.purge_step = self.purge_step, None
        if purge is not None:
            own.event_writer.purge(int(purge))
        return own

    def _add(self, summary, global_step, walltime=None):
        own = self._get_file_writer()
        own.add_summary(summary, global_step, walltime)

    def get_logdir(self):
        """The folder of the event files."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """A number: a point of a curve."""
        self._add(_summary.scalar(tag, scalar_value, None, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers, which are drawn in one picture: each in a folder of its own."""
        when = _now(walltime)
        for tag, value in tag_scalar_dict.items():
            self._sub_writer(self._scalars_folder(main_tag, tag)).add_summary(
                _summary.scalar(main_tag, value), global_step, when
            )

    def _scalars_folder(self, main_tag, tag):
        return os.path.join(self._get_file_writer().get_logdir(), main_tag.replace("/", "_") + "_" + tag)

    def _sub_writer(self, folder):
        writers = self.all_writers
        if folder not in writers:
            writers[folder] = self._new_writer(folder)
        return writers[folder]

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """A tensor as it is."""
        self._add(_summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """How many of the values lie where. bins: TensorBoard's own, one of NumPy's rules ("auto", "fd", ...), a number
        or edges."""
        self._add(_summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None, walltime=None
    ):
        """A histogram that was counted elsewhere: bucket_limits are the upper edges of bucket_counts."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        self._add(
            _summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts),
            global_step,
            walltime,
        )

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture: bytes from 0 to 255, or floats from 0 to 1."""
        self._add(_summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Several pictures in one, side by side."""
        if isinstance(img_tensor, list):  # a list of tensors in the format's C, H and W
            img_tensor = _C._functions["stack"]([_summary.as_tensor(img) for img in img_tensor])
        self._add(_summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1, dataformats="CHW", labels=None
    ):
        """A picture with boxes (left, top, right, bottom) drawn on it."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        self._add(
            _summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels), global_step, walltime
        )

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """One of matplotlib's figures, or a list of them."""
        from taper.utils.tensorboard._utils import figure_to_image

        self.add_image(
            tag,
            figure_to_image(figure, close),
            global_step,
            walltime,
            dataformats="NCHW" if isinstance(figure, list) else "CHW",
        )

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Moving pictures (N, T, C, H, W), shown as an animated GIF."""
        self._add(_summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Sound from -1 to 1."""
        self._add(_summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text in Markdown."""
        self._add(_summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Precision and recall of predictions from 0 to 1, by threshold."""
        self._add(_summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag,
        true_positive_counts,
        false_positive_counts,
        true_negative_counts,
        false_negative_counts,
        precision,
        recall,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        """The same, counted elsewhere."""
        self._add(
            _summary.pr_curve_raw(
                tag,
                true_positive_counts,
                false_positive_counts,
                true_negative_counts,
                false_negative_counts,
                precision,
                recall,
                num_thresholds,
                weights,
            ),
            global_step,
            walltime,
        )

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """Points in space (B, N, 3), with colours and triangles."""
        self._add(_summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_custom_scalars(self, layout):
        """Which scalars share a chart: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(_summary.custom_scalars(layout), None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """The scalars of these tags in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """A chart of three tags: a value and what is below and above it."""
        assert len(tags) == 3
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """A run's settings and the metrics that judge them, in a folder of their own."""
        if {type(hparam_dict), type(metric_dict)} != {dict}:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        self._write_hparams(
            _summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete), metric_dict, run_name, global_step
        )

    def _write_hparams(self, summaries, metric_dict, run_name, global_step):
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with type(self)(log_dir=folder) as writer:
            for part in summaries:
                writer._add(part, global_step)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Points for TensorBoard's projector: one per row of mat, with labels and small pictures."""
        from taper.utils.tensorboard._embedding import write_embedding

        write_embedding(
            self._get_file_writer().get_logdir(), mat, metadata, label_img, global_step, tag, metadata_header
        )

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """A model's modules and operators, and the tensors between them, as one call with the input goes through
        them."""
        from taper.utils.tensorboard._graph import graph

        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    def add_onnx_graph(self, prototxt):
        """Not there: Taper does not read ONNX files."""
        from taper._hook import NotCovered

        raise NotCovered("torch.utils.tensorboard.SummaryWriter.add_onnx_graph")

    def flush(self):
        """Everything so far goes to the files."""
        self._each("flush")

    def close(self):
        """The same, and the files are closed. What is added later opens a new one."""
        self._each("close")
        self.all_writers = self.file_writer = None

    def _each(self, action):
        for writer in (self.all_writers or {}).values():
            getattr(writer, action)()

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.close()
