"""Files of datasets. Taper downloads nothing by itself: what would, says which file belongs where."""

import hashlib
import os


def no_download(what, where=None):
    """The error for a download."""
    place = f" into {where}" if where else ""
    return RuntimeError(f"Taper downloads nothing by itself: please put {what}{place} and run again")


def missing(name, files, folder, download):
    """The error for a dataset whose files are not there."""
    listed = "\n".join(f"  {os.path.join(folder, file)}" for file in files)
    why = "Taper downloads nothing by itself. " if download else "Dataset not found. "
    return RuntimeError(
        f"{why}{name} needs these files (where a name ends in .gz, the unpacked file serves too):\n{listed}"
    )


def download_url(url, root, filename=None, md5=None, max_redirect_hops=3):
    """Nothing to do where the file is there already."""
    filename = filename or os.path.basename(url)
    path = os.path.join(os.path.expanduser(root), filename)
    if not check_integrity(path, md5):
        raise no_download(url, path)


def download_and_extract_archive(url, download_root, extract_root=None, filename=None, md5=None, remove_finished=False):
    """Unpacks an archive that is there already."""
    filename = filename or os.path.basename(url)
    root = os.path.expanduser(download_root)
    download_url(url, root, filename, md5)
    extract_archive(os.path.join(root, filename), extract_root or root, remove_finished)


def download_file_from_google_drive(file_id, root, filename=None, md5=None):
    raise no_download(f"Google Drive's file {file_id}", os.path.join(root, filename or str(file_id)))


def extract_archive(from_path, to_path=None, remove_finished=False):
    """Unpacks a .zip, .tar(.gz, .bz2, .xz), .gz or .bz2."""
    from_path = os.fspath(from_path)
    to_path = to_path or os.path.dirname(from_path)
    if from_path.endswith(".zip"):
        import zipfile

        with zipfile.ZipFile(from_path) as archive:
            archive.extractall(to_path)
    elif from_path.endswith((".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz")):
        import tarfile

        with tarfile.open(from_path) as archive:
            archive.extractall(to_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    elif from_path.endswith((".gz", ".bz2", ".xz")):
        import shutil

        to_path = os.path.join(to_path, os.path.splitext(os.path.basename(from_path))[0])
        with open_packed(from_path) as packed, open(to_path, "wb") as plain:
            shutil.copyfileobj(packed, plain)
    else:
        raise RuntimeError(f"Unknown compression or archive type: '{os.path.basename(from_path)}'")
    if remove_finished:
        os.remove(from_path)
    return to_path


def read_claimed(file, n):
    """At most n bytes, in memory that grows as they come: a header may claim any number."""
    data = bytearray()
    while len(data) < n and (piece := file.read(min(n - len(data), 1 << 20))):
        data += piece
    return data


def open_packed(path):
    """Opens a file for reading, unpacking by its name."""
    if path.endswith(".gz"):
        import gzip

        return gzip.open(path, "rb")
    if path.endswith(".bz2"):
        import bz2

        return bz2.open(path, "rb")
    if path.endswith(".xz"):
        import lzma

        return lzma.open(path, "rb")
    return open(path, "rb")


def calculate_md5(fpath, chunk_size=1024 * 1024):
    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while chunk := file.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(fpath, md5, **kwargs):
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath, md5=None):
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def list_dir(root, prefix=False):
    root = os.path.expanduser(root)
    names = [p for p in os.listdir(root) if os.path.isdir(os.path.join(root, p))]
    return [os.path.join(root, d) for d in names] if prefix else names


def list_files(root, suffix, prefix=False):
    root = os.path.expanduser(root)
    names = [p for p in os.listdir(root) if os.path.isfile(os.path.join(root, p)) and p.endswith(suffix)]
    return [os.path.join(root, d) for d in names] if prefix else names


def verify_str_arg(value, arg=None, valid_values=None, custom_msg=None):
    """The value, if it is one of those."""
    if not isinstance(value, str):
        raise ValueError(f"Expected type str{f' for argument {arg}' if arg else ''}, but got type {type(value)}.")
    if valid_values is not None and value not in valid_values:
        raise ValueError(
            custom_msg
            or f"Unknown value '{value}' for argument {arg}. Valid values are {{{', '.join(map(repr, valid_values))}}}."
        )
    return value
