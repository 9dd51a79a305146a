"""Files for TensorBoard's projector: points, their labels, their pictures in one sprite, and the list of what there
is."""

import os

from taper import _C
from taper.utils.tensorboard._convert_np import as_tensor

_CONFIG = "projector_config.pbtxt"


def _encode(text):
    """A tag as the name of a folder."""
    for character in "%/\\":
        text = text.replace(character, f"%{ord(character):02x}")
    return text


def _cell(value):
    return str(value).replace("\n", " ")  # a row is a line


def _write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write("\t".join(map(str, row)) + "\n")


def _write_metadata(path, metadata, header):
    rows = [row if header else [row] for row in metadata]
    assert not header or all(len(row) == len(header) for row in rows), (
        "len of header must be equal to the number of columns in metadata"
    )
    _write_rows(path, ([_cell(value) for value in row] for row in ([header] if header else []) + rows))


def _write_sprite(path, pictures):
    """The pictures (N, C, H, W) in a square, row by row."""
    count, channels, height, width = pictures.shape
    side = int(count**0.5 + 0.999999)
    if pictures.dtype != _C.uint8:
        pictures = (pictures.float() * 255).clamp(0, 255).to(_C.uint8)
    square = _C._functions["zeros"]((side * side, 3 if channels == 1 else channels, height, width), dtype=_C.uint8)
    square[:count] = pictures
    sprite = square.view(side, side, -1, height, width).permute(2, 0, 3, 1, 4).reshape(-1, side * height, side * width)
    with open(path, "wb") as file:
        file.write(_C._encode_png(sprite).numpy().tobytes())


def _config_entry(tag, step, folder, has_metadata, pictures):
    lines = ["embeddings {", f'  tensor_name: "{tag}:{step}"']
    if has_metadata:
        lines.append(f'  metadata_path: "{folder}/metadata.tsv"')
    if pictures is not None:
        height, width = pictures.shape[2:]
        lines += [
            "  sprite {",
            f'    image_path: "{folder}/sprite.png"',
            f"    single_image_dim: {width}",
            f"    single_image_dim: {height}",
            "  }",
        ]
    return "\n".join([*lines, f'  tensor_path: "{folder}/tensors.tsv"', "}", ""])


def write_embedding(log_dir, mat, metadata, label_img, global_step, tag, metadata_header):
    """Everything of one embedding; its entry joins those of earlier ones."""
    mat, step = as_tensor(mat), str(int(global_step or 0)).zfill(5)
    assert mat.dim() == 2, "mat should be 2D, where mat.size(0) is the number of data points"
    pictures = None if label_img is None else as_tensor(label_img)
    assert metadata is None or len(metadata) == len(mat), "#labels should equal with #data points"
    assert pictures is None or len(pictures) == len(mat), "#images should equal with #data points"
    folder = f"{step}/{_encode(tag)}"
    path = os.path.join(log_dir, folder)
    os.makedirs(path, exist_ok=True)
    if metadata is not None:
        _write_metadata(os.path.join(path, "metadata.tsv"), metadata, metadata_header)
    if pictures is not None:
        _write_sprite(os.path.join(path, "sprite.png"), pictures)
    _write_rows(os.path.join(path, "tensors.tsv"), mat.tolist())
    entry, config = _config_entry(tag, step, folder, metadata is not None, pictures), os.path.join(log_dir, _CONFIG)
    before = ""
    if os.path.exists(config):
        with open(config, encoding="utf-8") as file:
            before = file.read()
    if entry not in before:
        with open(config, "w", encoding="utf-8") as file:
            file.write(before + entry)
