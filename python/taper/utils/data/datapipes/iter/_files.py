"""Steps that list, open, read and decode files."""

from taper.utils.data.datapipes._decorator import functional_datapipe
from taper.utils.data.datapipes.datapipe import IterDataPipe
from taper.utils.data.datapipes.utils import common
from taper.utils.data.datapipes.utils.decoder import Decoder, basichandlers, extension_extract_fn


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe):
    """The names of the files in folders."""

    def __init__(self, root=".", masks="", *, recursive=False, abspath=False, non_deterministic=False, length=-1):
        self.datapipe = [root] if isinstance(root, str) else root
        self.masks, self.recursive, self.abspath, self.non_deterministic, self.length = (
            masks,
            recursive,
            abspath,
            non_deterministic,
            length,
        )

    def __iter__(self):
        for path in self.datapipe:
            yield from common.get_file_pathnames_from_root(
                path, self.masks, self.recursive, self.abspath, self.non_deterministic
            )

    def __len__(self):
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe):
    """(name, open file) of names."""

    def __init__(self, datapipe, mode="r", encoding=None, length=-1):
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self):
        yield from common.get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)

    def __len__(self):
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """(name, what is in it) of (name, open file), all of it or in pieces of `chunk` bytes."""

    def __init__(self, datapipe, chunk=None):
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self):
        for name, stream in self.datapipe:
            while piece := stream.read(self.chunk) if self.chunk is not None else stream.read():
                yield name, piece
            common.StreamWrapper.close_streams(stream)


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe):
    """(name, what the file holds), by handlers for the endings of names."""

    def __init__(self, datapipe, *handlers, key_fn=extension_extract_fn):
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers,)), key_fn=key_fn)

    def add_handler(self, *handler):
        self.decoder.add_handler(*handler)

    def __iter__(self):
        for data in self.datapipe:
            common.validate_pathname_binary_tuple(data)
            yield data[0], self.decoder(data)[data[0]]

    def __len__(self):
        return len(self.datapipe)
