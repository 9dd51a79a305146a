"""Digits with a small network, logged for TensorBoard: taper run examples/python/log_digits.py, then `tensorboard
--logdir runs` or `taper watch`."""

import argparse
import gzip
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.tensorboard import SummaryWriter

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def read(name):
    """Images (n, 1, 28, 28) from 0 to 1, or labels (n)."""
    with gzip.open(os.path.join(DATA, name)) as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    return data[16:].view(-1, 1, 28, 28).float() / 255 if "images" in name else data[8:].long()


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 5, stride=2), nn.ReLU(), nn.Conv2d(width, 2 * width, 5, stride=2), nn.ReLU()
        )
        self.classifier = nn.Linear(2 * width * 16, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def train(args, lr, width):
    torch.manual_seed(0)
    images, labels, test_images, test_labels = map(
        read, ("train-images.idx.gz", "train-labels.idx.gz", "test-images.idx.gz", "test-labels.idx.gz")
    )
    model = Net(width)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    with SummaryWriter(os.path.join(args.folder, f"lr{lr}-width{width}")) as writer:
        writer.add_graph(model, images[:1])
        writer.add_images("digits", images[:16])
        writer.add_text("about", f"Adam, **lr={lr}**, width {width}")
        step, accuracy = 0, torch.zeros(())
        for epoch in range(args.epochs):
            for batch in torch.randperm(len(images)).split(64):
                loss = F.cross_entropy(model(images[batch]), labels[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 10 == 0:
                    writer.add_scalar("loss/train", loss, step)
                step += 1
            with torch.no_grad():
                output = model(test_images)
            accuracy = (output.argmax(1) == test_labels).float().mean()
            writer.add_scalar("loss/test", F.cross_entropy(output, test_labels), step)
            writer.add_scalar("accuracy/test", accuracy, step)
            for name, parameter in model.named_parameters():
                writer.add_histogram(name, parameter, epoch)
            writer.add_images("filters", model.features[0].weight.detach() * 2 + 0.5, epoch)
            writer.add_pr_curve("is a seven", test_labels == 7, output.softmax(1)[:, 7], epoch)
            print(f"lr {lr} width {width} epoch {epoch}: accuracy {accuracy:.4f}", flush=True)
        writer.add_hparams({"lr": lr, "width": width}, {"hparam/accuracy": accuracy}, run_name="hparams")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--folder", default="runs")
    args = parser.parse_args()
    for lr, width in ((0.003, 8), (0.0003, 8), (0.001, 16)):
        train(args, lr, width)
