"""Messages between a loader and its workers, over a socket pair. Small messages travel whole, and all do when memory
cannot be shared. The tensors and array buffers of large ones lie in shared memory, whose descriptors travel with the
message: they belong to the kernel on the way, so nothing is left behind when a process is killed, and they are closed
on arrival, so that kept batches cost no descriptors. A worker uses shared memory again once the loader's process has
let go of it: fresh pages cost more than filling them."""

import io
import os
import pickle
import socket
import struct
import threading

from taper import _C
from taper.storage import _on_storage
from taper._C import Tensor, UntypedStorage
from taper.utils.data._utils.collate import INLINE_BYTES
from taper.utils.data._utils.worker import pool

_MOST_DESCRIPTORS = 64  # per message; further shared tensors are copied into one segment
_HEADER = struct.Struct("<QQI")  # bytes of the pickles, bytes of data that follow them, descriptors
_arriving = threading.local()  # the regions of the message that this thread is unpickling


def _is_dense(tensor):
    """Does each element have its own place, with no gaps between them?"""
    place = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1:
            if stride != place:
                return False
            place *= size
    return True


def _tensor(region, offset, dtype, shape, strides, requires_grad):
    """Unpickles a tensor: it looks at where its data arrived."""
    made = _on_storage(dtype, _arriving.regions[region], offset // dtype.itemsize, shape, strides)
    return made.requires_grad_() if requires_grad else made


class _Parcel:
    """A message's data. Region 0 holds what is packed together; each further one is a shared storage of its own."""

    def __init__(self):
        self.packed, self.size = [], 0  # (offset, tensor or buffer), and the bytes they take
        self.buffers, self.storages = [], []  # (offset, bytes) of each buffer; region 1, 2, ...

    def _place(self, what, n):
        at, self.size = self.size, self.size + -(-n // 64) * 64
        self.packed.append((at, what))
        return at

    def put_buffer(self, buffer):
        """Of an array's buffer: does it stay in the pickle?"""
        try:
            view = buffer.raw()
        except BufferError:  # it has gaps
            return True
        self.buffers.append((self._place(view, view.nbytes), view.nbytes))
        return False

    def put_tensor(self, tensor):
        """What _tensor() makes it of."""
        data = tensor.detach()
        storage, n = data.untyped_storage(), data.numel() * data.itemsize
        if storage._shared_fd() >= 0 and 2 * n > len(storage) and len(self.storages) < _MOST_DESCRIPTORS:
            self.storages.append(storage)
            place = len(self.storages), data.storage_offset() * data.itemsize
        else:
            if not _is_dense(data):
                data = data.contiguous()
            place = 0, self._place(data, n)
        return *place, data.dtype, tuple(data.shape), data.stride(), tensor.requires_grad

    def packed_into(self, storage):
        for at, what in self.packed:
            if isinstance(what, Tensor):
                _on_storage(what.dtype, storage, at // what.itemsize, tuple(what.shape), what.stride()).copy_(what)
            else:
                _bytes_of(storage, at, what.nbytes)[:] = what
        return storage


class _Packer(pickle.Pickler):
    """Pickles a message without its data, which goes into the parcel."""

    def __init__(self, file, parcel):
        super().__init__(
            file, 5, buffer_callback=parcel.put_buffer
        )  # not a method of self: a pickler keeps all that it has pickled
        self.parcel = parcel

    def reducer_override(self, obj):
        if type(obj) is not Tensor or obj.numel() == 0 or obj.device.type != "cpu" or not obj.is_leaf:
            return NotImplemented
        return _tensor, self.parcel.put_tensor(obj)


def _memory(n):
    """Where a message's data is packed: shared memory if it is large and there is any left."""
    return n > INLINE_BYTES and pool.get(n) or UntypedStorage(n)


def _bytes_of(storage, at, n):
    """Some of a storage's bytes as a memoryview."""
    return memoryview(_on_storage(_C.uint8, storage, at, (n,), (1,)))


class Channel:
    """One end of a socket pair. send() and receive() block; EOFError: the other end is gone."""

    def __init__(self, sock):
        self.socket = sock

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        try:
            self.socket.shutdown(
                socket.SHUT_RDWR
            )  # other processes may hold copies of this end: the other one is to see it now
        except OSError:
            pass
        self.socket.close()

    def send(self, message):
        file, inner, parcel = io.BytesIO(), io.BytesIO(), _Parcel()
        _Packer(inner, parcel).dump(message)
        memory = parcel.packed_into(_memory(parcel.size)) if parcel.size else None
        shared, data = parcel.storages, b""
        if memory is not None and memory.is_shared():
            shared = [memory, *shared]
        elif memory is not None:
            data = _bytes_of(memory, 0, parcel.size)
        pickle.dump((memory is not None, [len(storage) for storage in shared], parcel.buffers), file)
        file.write(inner.getbuffer())
        header = _HEADER.pack(file.tell(), len(data), len(shared))
        for storage in shared:
            storage._shared_count(1)  # until the other side has let go of it
        try:
            if shared:
                socket.send_fds(self.socket, [header], [storage._shared_fd() for storage in shared])
            else:
                self.socket.sendall(header)
            self.socket.sendall(file.getbuffer())
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError from None

    def receive(self):
        header, descriptors = self._header()
        try:
            length, inline, count = _HEADER.unpack(header)
            if count != len(descriptors):
                raise OSError(
                    f"{count} descriptors of shared memory were sent, {len(descriptors)} arrived: too many files are "
                    "open in this process"
                )
            file = io.BytesIO(self._read(length))
            packed, sizes, buffers = pickle.load(file)
            data, regions = self._read(inline), []
            if inline or not packed:
                regions.append(_C.frombuffer(data, dtype=_C.uint8).untyped_storage() if inline else None)
            for n in sizes:
                regions.append(UntypedStorage._borrow_shared(descriptors[0], n))
                descriptors.pop(0)  # it is the storage's now
        finally:
            for fd in descriptors:
                os.close(fd)
        _arriving.regions = regions
        try:
            return pickle.load(file, buffers=[_bytes_of(regions[0], at, n) for at, n in buffers])
        finally:
            _arriving.regions = None

    def _header(self):
        header, descriptors = bytearray(), []
        while len(header) < _HEADER.size:
            try:
                part, more, _, _ = socket.recv_fds(self.socket, _HEADER.size - len(header), _MOST_DESCRIPTORS + 1)
            except ConnectionResetError:
                part, more = b"", []
            descriptors += more
            if not part:
                raise EOFError
            header += part
        return header, descriptors

    def _read(self, n):
        data = bytearray(n)
        view = memoryview(data)
        while view:
            try:
                got = self.socket.recv_into(view)
            except ConnectionResetError:
                got = 0
            if not got:
                raise EOFError
            view = view[got:]
        return data
