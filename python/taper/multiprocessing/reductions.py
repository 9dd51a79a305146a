"""How tensors go from process to process: their memory becomes shared, and a message says where another process finds
it.

By "file_descriptor" (the default) shared memory has no name. A message names the sender's process and descriptor, and
the receiver opens it through /proc. The memory goes with the last process that has it. By "file_system" it is a file in
/dev/shm, or in TMPDIR when that is full, and no descriptor stays open; the process that made it removes it. Either way
the sender keeps what it has sent until a count beside the memory says that all messages have been taken."""

import os
import threading
import time
from multiprocessing.reduction import ForkingPickler

from taper import _C, storage as _storage
from taper._C import Tensor, UntypedStorage
from taper.storage import TypedStorage, _on_storage

_PATIENCE = 5.0  # seconds that a process which ends waits for what it has sent to be taken


def get_all_sharing_strategies():
    return {"file_descriptor", "file_system"}


def get_sharing_strategy():
    return "file_descriptor" if _storage._share is UntypedStorage._share else "file_system"


def set_sharing_strategy(new_strategy):
    """How memory is shared from now on: "file_descriptor" or "file_system"."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {sorted(get_all_sharing_strategies())}"
        )
    _storage._share = UntypedStorage._share if new_strategy == "file_descriptor" else _share_file


# ---- What was sent and not taken yet ----
class _Sent:
    """Storages that messages under way speak of."""

    def __init__(self):
        self.lock, self.storages, self.waits_at_exit = threading.Lock(), [], False

    def add(self, storage):
        from multiprocessing import parent_process, util

        self.sweep()
        storage._shared_count(1)
        with self.lock:
            self.storages.append(storage)
            if not self.waits_at_exit and parent_process() is not None:
                util.Finalize(None, self.wait, exitpriority=-100)  # after the queues have sent what they hold
            self.waits_at_exit = True

    def sweep(self):
        """Lets go of what has arrived; is anything left?"""
        with self.lock:
            self.storages = [storage for storage in self.storages if storage._shared_count(0) > 0]
            return bool(self.storages)

    def wait(self):
        until, parent = time.monotonic() + _PATIENCE, os.getppid()
        while self.sweep() and time.monotonic() < until and os.getppid() == parent:
            time.sleep(0.002)


_sent = _Sent()
os.register_at_fork(after_in_child=_sent.__init__)  # what a parent has sent is the parent's to keep


# ---- Files ----
_files = set()  # names of this process's


def _folders():
    from tempfile import gettempdir

    return [os.environ["TAPER_SHARED"]] if os.environ.get("TAPER_SHARED") else ["/dev/shm", gettempdir()]


def _share_file(storage):
    """A storage's shared copy in a file; in TMPDIR when there is no room in /dev/shm."""
    if not _files:
        _remove_old_files()
        from multiprocessing import util

        util.Finalize(None, _remove_files, exitpriority=-200)
    folders = _folders()
    for folder in folders:
        path = os.path.join(folder, f"taper-{os.getpid()}-{os.urandom(6).hex()}")
        try:
            made = storage._share(path)
            break
        except RuntimeError:
            if folder == folders[-1]:
                raise
    _files.intersection_update([file for file in _files if os.path.exists(file)])
    _files.add(path)
    return made


def _remove_files():
    for path in _files:
        if os.path.exists(path):
            os.unlink(path)


def _remove_old_files():
    """Removes what processes left that were killed."""
    for folder in _folders():
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            word, _, rest = name.partition("-")
            pid = rest.partition("-")[0]
            if word == "taper" and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                try:
                    os.unlink(os.path.join(folder, name))
                except OSError:  # another user's
                    pass


os.register_at_fork(after_in_child=_files.clear)


# ---- Storages ----
def rebuild_storage_fd(pid, fd, size, inode):
    try:
        there = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        there = -1
    if there < 0 or os.fstat(there).st_ino != inode:
        if there >= 0:
            os.close(there)
        raise RuntimeError(
            f"the memory of a tensor that process {pid} has sent is gone: the process must live until the tensor is "
            "received"
        )
    return _taken(there, size, True)


def rebuild_storage_filename(path, size):
    try:
        there = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise RuntimeError(
            f"the memory of a tensor that was sent is gone ({error}): its sender must live until the tensor is received"
        ) from None
    return _taken(there, size, False, path)


def _taken(fd, size, keep, *path):
    try:
        storage = UntypedStorage._from_shared(fd, size, keep, *path)
    except BaseException:
        os.close(fd)
        raise
    storage._shared_count(-1)
    return storage


def reduce_storage(storage):
    storage = _storage._share(storage)
    _sent.add(storage)
    path = storage._shared_path()
    if path is not None:
        return rebuild_storage_filename, (path, len(storage))
    fd = storage._shared_fd()
    return rebuild_storage_fd, (os.getpid(), fd, len(storage), os.fstat(fd).st_ino)


def rebuild_typed_storage(storage, dtype):
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def reduce_typed_storage(storage):
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


# ---- Tensors ----
def rebuild_tensor(cls, storage, metadata):
    dtype, offset, shape, strides, requires_grad = metadata
    tensor = _on_storage(dtype, storage, offset, shape, strides)
    if cls is not None:
        return Tensor._make_subclass(cls, tensor, requires_grad)
    tensor.requires_grad = requires_grad
    return tensor


def reduce_tensor(tensor):
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    storage = tensor._share()
    metadata = tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.requires_grad
    return rebuild_tensor, (None if type(tensor) is Tensor else type(tensor), storage, metadata)


def init_reductions():
    """Tells Python's multiprocessing how tensors are sent."""
    from taper.nn.parameter import Parameter

    ForkingPickler.register(UntypedStorage, reduce_storage)
    for kind in (TypedStorage, *_storage._named.values()):
        ForkingPickler.register(kind, reduce_typed_storage)
    for kind in (Tensor, Parameter):
        ForkingPickler.register(kind, reduce_tensor)
