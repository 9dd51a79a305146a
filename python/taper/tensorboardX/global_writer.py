"""tensorboardX.global_writer: one writer for the whole program, which counts the steps of each tag itself."""

import threading

from taper.tensorboardX.writer import SummaryWriter

_the_one = None


class GlobalSummaryWriter:
    """Log from anywhere without passing a writer or steps around."""

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
        coalesce_process=True,
        **kwargs,
    ):
        self.smw = SummaryWriter(
            logdir, comment, purge_step, max_queue, flush_secs, filename_suffix, write_to_disk, log_dir, **kwargs
        )
        self.lock = threading.Lock()
        self._steps = {}

    def _next(self, kind, tag):
        with self.lock:
            step = self._steps[kind, tag] = self._steps.get((kind, tag), -1) + 1
        return step

    def add_scalar(self, tag, scalar_value, walltime=None):
        """A number at the tag's next step."""
        self.smw.add_scalar(tag, scalar_value, self._next("scalar", tag), walltime)

    def add_image(self, tag, img_tensor, walltime=None, dataformats="CHW"):
        """A picture at the tag's next step."""
        self.smw.add_image(tag, img_tensor, self._next("image", tag), walltime, dataformats)

    def add_text(self, tag, text_string, walltime=None):
        """A text at the tag's next step."""
        self.smw.add_text(tag, text_string, self._next("text", tag), walltime)

    def close(self):
        """Everything so far goes to the files, which are closed."""
        self.smw.close()

    @staticmethod
    def getSummaryWriter():
        """The program's writer, made at the first call."""
        global _the_one
        if _the_one is None:
            _the_one = GlobalSummaryWriter()
        return _the_one
