"""torch.utils.data.datapipes.utils.decoder: what is in files, by how their names end."""

__all__ = ["Decoder", "basichandlers", "extension_extract_fn", "handle_extension"]


def basichandlers(extension, data):
    """Texts, numbers, JSON, pickles and PyTorch's files; None: none of them."""
    if extension in ("txt", "text", "transcript"):
        return data.decode("utf-8")
    if extension in ("cls", "cls2", "class", "count", "index", "inx", "id"):
        try:
            return int(data)
        except ValueError:
            return None
    if extension in ("json", "jsn"):
        import json

        return json.loads(data)
    if extension in ("pyd", "pickle"):
        import pickle

        return pickle.loads(data)
    if extension == "pt":
        import io
        import taper

        return taper.load(io.BytesIO(data))
    return None


def handle_extension(extensions, f):
    """f of the data of files whose names end in one of the extensions."""
    endings = [ending.split(".") for ending in extensions.lower().split()]

    def handler(key, data):
        parts = key.lower().split(".")
        return (
            f(data) if any(parts[-len(ending) :] == ending for ending in endings if len(ending) <= len(parts)) else None
        )

    return handler


def extension_extract_fn(pathname):
    import os

    return os.path.splitext(pathname)[1][1:]


class Decoder:
    """Asks handlers one after the other; the last that was added comes first."""

    def __init__(self, *handler, key_fn=extension_extract_fn):
        self.handlers, self.key_fn = list(handler), key_fn

    def add_handler(self, *handler):
        self.handlers = [*handler, *self.handlers]

    def decode(self, data):
        """{name: what the file holds} of (name, data) pairs or a dict of them."""
        from taper.utils.data.datapipes.utils.common import StreamWrapper

        result = {}
        for key, value in data.items() if isinstance(data, dict) else [data]:
            for handler in self.handlers:
                content = value.read() if hasattr(value, "read") and handler is basichandlers else value
                found = handler(self.key_fn(key), content)
                if found is not None:
                    result[key] = found
                    break
                if content is not value:
                    value.seek(0)
            else:
                result[key] = value.read() if hasattr(value, "read") else value
            if isinstance(value, StreamWrapper) or hasattr(value, "close"):
                value.close()
        return result

    def __call__(self, data):
        return self.decode(data)
