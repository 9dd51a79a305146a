"""Images and histograms of event files, for the page of `taper watch --serve`. Scalars are read by the library
(taper/events.h).

An event file is a row of records: a length, its checksum, bytes of a protocol buffer, their checksum. Only what the
page shows is taken apart. Of an image its place in the file is kept, and the bytes are read when the page asks.
"""

import os
import struct

KEPT_IMAGES, KEPT_HISTOGRAMS = 40, 60
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5


def _varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def fields(data, start=0, end=None):
    """(number, kind, value) of a message: numbers as they are, bytes as their place (begin, end) in data."""
    at, end = start, len(data) if end is None else end
    while at < end:
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind == DOUBLE:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == FLOAT:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        elif kind == BYTES:
            length, at = _varint(data, at)
            value = at, at + length
            at += length
            if at > end:
                raise ValueError("bytes beyond the message")
        else:
            raise ValueError("a kind of field that is not used here")
        yield number, kind, value


def _doubles(data, place):
    return list(struct.unpack_from(f"<{(place[1] - place[0]) // 8}d", data, place[0]))


def _histogram(data, place):
    """Edges and counts: [(upper edge, count)], and the least value."""
    low, limits, counts = 0.0, [], []
    for number, kind, value in fields(data, *place):
        if number == 1 and kind == DOUBLE:
            low = value
        elif number in (6, 7):
            (limits if number == 6 else counts).extend(_doubles(data, value) if kind == BYTES else [value])
    return {"min": low, "limits": limits, "counts": counts}


class Media:
    """The images and histograms of one event file, read on as it grows."""

    def __init__(self, path):
        self.path, self.at = path, 0
        self.images, self.histograms = {}, {}  # tag -> [(step, ...)]

    def look(self):
        """Reads the records that have come."""
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            while size - self.at >= 16:
                file.seek(self.at)
                length = struct.unpack("<Q", file.read(12)[:8])[0]
                if length > size - self.at - 16:
                    return
                try:
                    self._event(file.read(length), self.at + 12)
                except (ValueError, IndexError, struct.error):
                    pass  # a damaged record; the library's reader counts it
                self.at += length + 16

    def _event(self, data, offset):
        step, values = 0, []
        for number, kind, value in fields(data):
            if number == 2 and kind == VARINT:
                step = value
            elif number == 5 and kind == BYTES:
                values += [place for n, k, place in fields(data, *value) if n == 1 and k == BYTES]
        for place in values:
            self._value(data, place, step, offset)

    def _value(self, data, place, step, offset):
        tag, image, histogram = None, None, None
        for number, kind, value in fields(data, *place):
            if kind != BYTES:
                continue
            if number == 1:
                tag = data[value[0] : value[1]].decode("utf-8", "replace")
            elif number == 4:
                image = next((v for n, k, v in fields(data, *value) if n == 4 and k == BYTES), None)
            elif number == 5:
                histogram = _histogram(data, value)
        if image:
            self._keep(self.images, tag, (step, offset + image[0], image[1] - image[0]), KEPT_IMAGES)
        if histogram:
            self._keep(self.histograms, tag, (step, histogram), KEPT_HISTOGRAMS)

    def _keep(self, where, tag, entry, most):
        entries = where.setdefault(tag, [])
        entries.append(entry)
        if len(entries) > most:  # every second one of the older half goes, so that the beginning stays in sight
            del entries[1 : most // 2 : 2]

    def image(self, place):
        """The bytes of an image."""
        with open(self.path, "rb") as file:
            file.seek(place[1])
            return file.read(place[2])
