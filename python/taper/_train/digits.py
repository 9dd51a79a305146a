"""`taper train digits`: a small convolutional network on handwritten digits."""

import gzip
import os

import taper
from taper import nn
from taper._train.loop import Training
from taper.nn import functional as F
from taper.utils.data import DataLoader, TensorDataset

SHADES = " .:-=+*#%@"


def read_idx(folder, name):
    """An idx file (MNIST's format) as a uint8 tensor: four bytes with the number of dimensions last, their sizes, the
    data."""
    path = os.path.join(folder, name + ".idx.gz")
    with gzip.open(path) as file:
        data = file.read()
    ndim = data[3] if len(data) > 3 else 0
    shape = [int.from_bytes(data[4 + 4 * d : 8 + 4 * d], "big") for d in range(ndim)]
    values = taper.frombuffer(bytearray(data), dtype=taper.uint8)[4 + 4 * ndim :]
    if not ndim or values.numel() != taper.Size(shape).numel():
        raise ValueError(f"{path} is no complete idx file")
    return values.view(shape)


def load(folder, kind, most=None):
    images, labels = read_idx(folder, kind + "-images")[:most], read_idx(folder, kind + "-labels")[:most]
    return TensorDataset(images.unsqueeze(1).float().div(255), labels.long())


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * 7 * 7, 10),
    )


def show(images, answers, labels):
    """Digits as characters, six beside each other, with what the network says."""
    small = F.avg_pool2d(images[:, :, 2:26, 4:24], (3, 2)).squeeze(1).mul(9.99).int().tolist()  # (N, 8, 10)
    for first in range(0, len(small), 6):
        row = range(first, min(first + 6, len(small)))
        for line in range(8):
            print("  ".join("".join(SHADES[shade] for shade in small[i][line]) for i in row).rstrip())
        print(
            "  ".join(f"    {answers[i]}{'' if answers[i] == labels[i] else ' wrong'}".ljust(10) for i in row).rstrip()
            + "\n"
        )


def main(options):
    train_set, test_set = load(options.data, "train", options.most), load(options.data, "test")
    epochs, batch = options.epochs or 3, options.batch_size or 50
    loader = DataLoader(train_set, batch_size=batch, shuffle=True)
    model = network()
    optimizer = taper.optim.AdamW(model.parameters(), lr=options.lr or 4e-3)
    schedule = taper.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=options.lr or 4e-3, total_steps=epochs * len(loader) + 1
    )

    def loss(model, batch):
        images, labels = batch
        return F.cross_entropy(model(images), labels)

    def evaluate(model):
        right = total = 0.0
        for images, labels in DataLoader(test_set, batch_size=500):
            said = model(images)
            total += F.cross_entropy(said, labels, reduction="sum").item()
            right += (said.argmax(1) == labels).sum().item()
        return {"loss": total / len(test_set), "accuracy": right / len(test_set)}

    print(
        f"{len(train_set)} digits, {sum(p.numel() for p in model.parameters())} weights, {taper.get_num_threads()} "
        "threads"
    )
    Training(options, model, optimizer, schedule, loader, epochs, loss, evaluate, "images", batch).run()
    images, labels = test_set[:12]
    with taper.no_grad():
        print("\nTwelve digits of the test set:\n")
        show(images, model.eval()(images).argmax(1).tolist(), labels.tolist())
