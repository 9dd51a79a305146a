"""torchvision's io, utils and datasets: files on disk to tensors and Pillow images, and clear words where a download
would be needed."""

import gzip
import hashlib
import io
import pickle
import struct
import subprocess
import sys

import pytest

import taper
from taper.torchvision import datasets, transforms, utils
from taper.torchvision import io as tio

Image = pytest.importorskip("PIL.Image")


def picture(h, w, c=3):
    return taper.tensor(
        [(k * 50 + y * 7 + x * 3) % 256 for k in range(c) for y in range(h) for x in range(w)], dtype=taper.uint8
    ).view(c, h, w)


# ---- Images in files ----
def test_images_are_written_and_read(tmp_path):
    image = picture(6, 8)
    tio.write_png(image, tmp_path / "a.png")
    assert taper.equal(tio.read_image(str(tmp_path / "a.png")), image)
    assert taper.equal(tio.decode_image(str(tmp_path / "a.png")), image)
    assert tio.read_image(str(tmp_path / "a.png"), tio.ImageReadMode.GRAY).shape == (1, 6, 8)
    assert tio.read_image(str(tmp_path / "a.png"), "RGB_ALPHA").shape == (4, 6, 8)
    tio.write_jpeg(image, str(tmp_path / "a.jpg"), quality=95)
    with Image.open(tmp_path / "a.jpg") as seen:
        assert seen.size == (8, 6)
        assert seen.mode == "RGB"
        same = taper.tensor(list(seen.tobytes()), dtype=taper.uint8).view(6, 8, 3).permute(2, 0, 1)
    assert taper.equal(tio.decode_jpeg(tio.read_file(str(tmp_path / "a.jpg"))), same)
    assert [one.shape for one in tio.decode_jpeg([tio.encode_jpeg(image)] * 2)] == [(3, 6, 8)] * 2
    with pytest.raises(RuntimeError, match="1 or 3, got: 2"):
        tio.encode_png(image[:2])
    with pytest.raises(RuntimeError, match="Unsupported image file"):
        tio.decode_image(taper.arange(10, dtype=taper.uint8))
    with pytest.raises((RuntimeError, OSError), match="could not open"):
        tio.read_image(str(tmp_path / "none.png"))


def test_a_grid_of_images():
    images = taper.arange(5 * 12, dtype=taper.float32).view(5, 1, 3, 4)
    grid = utils.make_grid(images, nrow=3, padding=1, pad_value=7)
    assert grid.shape == (3, 2 * 4 + 1, 3 * 5 + 1)
    assert grid[0, 0].tolist() == [7.0] * 16
    assert grid[2, 1, 1:5].tolist() == [0, 1, 2, 3]
    assert grid[1, 5, 6:10].tolist() == [48, 49, 50, 51]
    each = utils.make_grid(images, normalize=True, scale_each=True)
    assert float(each.max()) == 1.0
    assert float(utils.make_grid(images, normalize=True, value_range=(0, 118)).max()) == 0.5
    assert utils.make_grid(images[:1]).shape == (3, 3, 4)


def test_images_are_saved(tmp_path):
    images = taper.rand(4, 3, 5, 5)
    utils.save_image(images, tmp_path / "grid.png", nrow=2)
    want = utils.make_grid(images, nrow=2).mul(255).add(0.5).clamp(0, 255).to(taper.uint8)
    assert taper.equal(tio.read_image(tmp_path / "grid.png"), want)
    file = io.BytesIO()
    utils.save_image(images, file, format="JPEG")
    assert Image.open(io.BytesIO(file.getvalue())).size == (30, 9)
    utils.save_image(images, tmp_path / "grid.bmp")
    assert Image.open(tmp_path / "grid.bmp").size == (30, 9)


def test_drawing():
    image = taper.zeros(3, 20, 20, dtype=taper.uint8)
    drawn = utils.draw_bounding_boxes(image, taper.tensor([[2, 3, 10, 12]]), colors="red")
    assert drawn[:, 3, 5].tolist() == [255, 0, 0]
    assert int((drawn[0] > 0).sum()) == 2 * 9 + 2 * 8
    assert int(image.sum()) == 0
    mask = taper.zeros(20, 20, dtype=taper.bool)
    mask[4:6, 4:6] = True
    assert utils.draw_segmentation_masks(image, mask, alpha=0.5, colors="blue")[2, 4, 4].item() == 127
    assert (
        int(
            (
                utils.draw_keypoints(image, taper.tensor([[[5, 5], [12, 12]]]), connectivity=[(0, 1)], colors="green")[
                    1
                ]
                > 0
            ).sum()
        )
        > 10
    )


# ---- Datasets ----
def idx(kind, shape, data):
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data


def make_mnist(folder, n=6, packed=True, names=("train-images-idx3-ubyte", "train-labels-idx1-ubyte")):
    folder.mkdir(parents=True, exist_ok=True)
    pixels = bytes((i * 37 + k) % 256 for i in range(n) for k in range(784))
    for name, data in zip(names, (idx(8, (n, 28, 28), pixels), idx(8, (n,), bytes(i % 10 for i in range(n))))):
        if packed:
            (folder / (name + ".gz")).write_bytes(gzip.compress(data))
        else:
            (folder / name).write_bytes(data)


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_from_its_files(tmp_path, packed):
    make_mnist(tmp_path / "MNIST" / "raw", packed=packed)
    plain = datasets.MNIST(tmp_path, download=True)
    image, label = plain[3]
    assert image.mode == "L"
    assert image.size == (28, 28)
    assert label == 3
    assert type(label) is int
    assert len(plain) == 6
    assert plain.data.shape == (6, 28, 28)
    assert plain.targets.dtype == taper.int64
    assert plain.class_to_idx["3 - three"] == 3
    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    quick, slow = (
        datasets.MNIST(tmp_path, transform=steps),
        datasets.MNIST(tmp_path, transform=lambda image: steps(image)),
    )
    assert taper.equal(quick[5][0], slow[5][0])
    assert quick[5][0].shape == (1, 28, 28)
    for (a, i), (b, j) in zip(quick.__getitems__([4, 1, 1]), slow.__getitems__([4, 1, 1])):
        assert taper.equal(a, b)
        assert i == j
    batch, labels = next(iter(taper.utils.data.DataLoader(quick, batch_size=4)))
    assert batch.shape == (4, 1, 28, 28)
    assert labels.tolist() == [0, 1, 2, 3]


def test_a_subclass_keeps_its_own_items(tmp_path):
    make_mnist(tmp_path / "Mine" / "raw")

    class Mine(datasets.MNIST):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image * 0 + index, label + 100

    batch, labels = next(
        iter(taper.utils.data.DataLoader(Mine(tmp_path, transform=transforms.ToTensor()), batch_size=3))
    )
    assert labels.tolist() == [100, 101, 102]
    assert batch[2].unique().tolist() == [2.0]


def test_mnists_relatives(tmp_path):
    make_mnist(
        tmp_path / "EMNIST" / "raw",
        names=("emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte"),
    )
    letters = datasets.EMNIST(tmp_path, split="letters")
    assert letters.classes[1] == "a"
    assert letters[2][1] == 2
    raw = tmp_path / "QMNIST" / "raw"
    make_mnist(raw, names=("qmnist-test-images-idx3-ubyte", "unused"))
    (raw / "qmnist-test-labels-idx2-int").write_bytes(idx(12, (6, 8), struct.pack(">48i", *range(48))))
    assert datasets.QMNIST(tmp_path, what="test")[2][1] == 16
    assert datasets.QMNIST(tmp_path, what="test", compat=False)[2][1].tolist() == list(range(16, 24))
    with pytest.raises(ValueError, match="Unknown value 'bytype' for argument split"):
        datasets.EMNIST(tmp_path, split="bytype")


def test_where_a_download_would_be_needed(tmp_path):
    for dataset in (datasets.MNIST, datasets.FashionMNIST, datasets.CIFAR10, datasets.STL10):
        with pytest.raises(RuntimeError, match="Taper downloads nothing by itself") as error:
            dataset(tmp_path, download=True)
        assert str(tmp_path) in str(error.value)
    with pytest.raises(RuntimeError, match="put http://host/file.zip into .*/file.zip"):
        datasets.utils.download_url("http://host/file.zip", str(tmp_path))
    (tmp_path / "file.zip").write_bytes(b"here")
    datasets.utils.download_url("http://host/file.zip", str(tmp_path))


CIFAR_FILE = """
import numpy, pickle, sys
data = (numpy.arange(4 * 3072) % 251).astype(numpy.uint8).reshape(4, 3072)
pickle.dump({"labels": [3, 1, 2, 0], "data": data, "fine_labels": [30, 10, 20, 0]}, open(sys.argv[1], "wb"), protocol=2)
"""


def make_cifar(folder, names, meta):
    pytest.importorskip("numpy")
    folder.mkdir()
    for name in names:
        subprocess.run([sys.executable, "-c", CIFAR_FILE, folder / name], check=True)
    (folder / meta[0]).write_bytes(pickle.dumps({meta[1]: ["a", "b", "c", "d"]}))


def test_cifar_from_its_files(tmp_path):
    make_cifar(tmp_path / "cifar-10-batches-py", ["test_batch"], ("batches.meta", "label_names"))
    test = datasets.CIFAR10(tmp_path, train=False)
    image, label = test[1]
    assert (image.mode, image.size, label, test.classes, test.targets) == (
        "RGB",
        (32, 32),
        1,
        ["a", "b", "c", "d"],
        [3, 1, 2, 0],
    )
    assert test.data.shape == (4, 32, 32, 3)
    assert test.data[0, 0, 1].tolist() == [1, 1025 % 251, 2049 % 251]
    quick = datasets.CIFAR10(tmp_path, train=False, transform=transforms.ToTensor())
    assert taper.equal(quick[1][0], transforms.ToTensor()(image))
    assert taper.equal(quick.__getitems__([1])[0][0], quick[1][0])
    make_cifar(tmp_path / "cifar-100-python", ["train"], ("meta", "fine_label_names"))
    assert datasets.CIFAR100(tmp_path)[2][1] == 20


def test_a_pickle_that_does_more_than_hold_arrays_is_refused(tmp_path):
    make_cifar(tmp_path / "cifar-10-batches-py", [], ("batches.meta", "label_names"))

    class Trap:
        def __reduce__(self):
            return print, ("caught",)

    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps({"labels": [1], "data": Trap()}))
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL builtins.print"):
        datasets.CIFAR10(tmp_path, train=False)


def test_images_in_folders(tmp_path):
    for name in ("dog/z.png", "dog/deep/a.PNG", "cat/b.png", "cat/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(
            bytes(memoryview(tio.encode_png(picture(4, 4)))) if "png" in name.lower() else b"text"
        )
    folder = datasets.ImageFolder(str(tmp_path), transform=transforms.PILToTensor())
    assert folder.classes == ["cat", "dog"]
    assert folder.targets == [0, 1, 1]
    assert [path.rpartition("/")[2] for path, _ in folder.imgs] == ["b.png", "z.png", "a.PNG"]
    assert taper.equal(folder[2][0], picture(4, 4))
    (tmp_path / "fish").mkdir()
    with pytest.raises(FileNotFoundError, match="Found no valid file for the classes fish"):
        datasets.ImageFolder(str(tmp_path))


def test_fake_images_are_torchvisions():
    fake = datasets.FakeData(3, (3, 8, 8), transform=transforms.PILToTensor())
    taper.manual_seed(1)
    before = taper.get_rng_state()
    image, label = fake[2]
    assert taper.equal(taper.get_rng_state(), before)
    assert (hashlib.sha256(bytes(image.reshape(-1).tolist())).hexdigest()[:16], label) == FAKE
    assert str(fake).startswith(
        "Dataset FakeData\n    Number of datapoints: 3\n    StandardTransform\nTransform: PILToTensor()"
    )
    with pytest.raises(IndexError):
        fake[3]


FAKE = ("edc0a631e0eaa711", 2)  # recorded from torchvision 0.29
