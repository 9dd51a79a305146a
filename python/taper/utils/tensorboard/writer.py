"""SummaryWriter and FileWriter: what a training logs, into event files of the C library."""
import os
import time

from taper import _C
from taper.utils.tensorboard import summary as _summary

_SUMMARY, _GRAPH, _WHOLE = 5, 4, 0  # tp_event_part


def _default_folder(comment):
    import socket
    return os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname() + comment)


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
            event.wall_time = time.time() if walltime is None else walltime
            if step is not None:
                event.step = int(step)
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
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer = self.all_writers = None
        self._get_file_writer()

    def _new_writer(self, folder):
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self):
        """The writer of the run's own file, opened again after close."""
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = self._new_writer(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.event_writer.purge(int(self.purge_step))
                self.purge_step = None
        return self.file_writer

    def _add(self, summary, global_step, walltime=None):
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def get_logdir(self):
        """The folder of the event files."""
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """A number: a point of a curve."""
        self._add(_summary.scalar(tag, scalar_value, None, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers, which are drawn in one picture: each in a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            self._sub_writer(self._scalars_folder(main_tag, tag)).add_summary(_summary.scalar(main_tag, value), global_step, walltime)

    def _scalars_folder(self, main_tag, tag):
        return os.path.join(self._get_file_writer().get_logdir(), main_tag.replace("/", "_") + "_" + tag)

    def _sub_writer(self, folder):
        self._get_file_writer()
        if folder not in self.all_writers:
            self.all_writers[folder] = self._new_writer(folder)
        return self.all_writers[folder]

    def flush(self):
        """Everything so far goes to the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """The same, and the files are closed. What is added later opens a new one."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.close()
