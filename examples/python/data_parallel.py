"""A network on handwritten digits, trained by as many processes as are started; it saves when the scheduler wants the
nodes back, and goes on from there.

    taper launch --nproc 4 data_parallel.py --checkpoint last      also: srun, mpiexec, torchrun

It reads the digits beside the examples; with --data FOLDER all of MNIST, from FOLDER/MNIST/raw.
"""

import argparse
import gzip
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms

preempted = getattr(torch, "preempted", lambda: False)  # Taper: did SIGTERM or SIGUSR1 come?
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def digits(folder):
    """Pairs of pixels from 0 to 1 and a label."""
    if os.path.isdir(os.path.join(folder, "MNIST")):
        return datasets.MNIST(folder, train=True, transform=transforms.ToTensor())

    def read(name, header):
        with gzip.open(os.path.join(folder, name)) as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=header)

    return TensorDataset(
        read("train-images.idx.gz", 16).view(-1, 1, 28, 28).float() / 255, read("train-labels.idx.gz", 8).long()
    )


class Training:
    """All that a checkpoint holds."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.epoch, self.batch = model, optimizer, 0, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.epoch, self.batch = state["epoch"], state["batch"]


def someone_was_told():
    """All ranks leave together, whichever of them the signal reached first."""
    flag = torch.tensor([int(preempted())])
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag.item())


def train(args, state, loader, sampler):
    """Until all epochs are done, or the nodes are wanted back: whether it got to the end."""
    while state.epoch < args.epochs:
        sampler.set_epoch(state.epoch)
        for batch, (images, labels) in enumerate(loader):
            if batch < state.batch:  # done before the last checkpoint
                continue
            state.optimizer.zero_grad()
            loss = F.cross_entropy(state.model(images), labels)
            loss.backward()
            state.optimizer.step()
            state.batch += 1
            if state.batch % args.log_interval == 0:
                mean = loss.detach().clone()
                dist.all_reduce(mean)
                if dist.get_rank() == 0:
                    print(
                        f"epoch {state.epoch} batch {state.batch} loss {mean.item() / dist.get_world_size():.4f}",
                        flush=True,
                    )
                if someone_was_told():
                    return False
        state.epoch, state.batch = state.epoch + 1, 0
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128, help="of all processes together")
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--checkpoint", default="checkpoint")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    preempted()  # from the first question on, the signals are noted; before it they end the process
    torch.manual_seed(0)
    data = digits(args.data)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, args.batch_size // dist.get_world_size(), sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)))
    state = Training(model, torch.optim.Adam(model.parameters(), lr=1e-3))
    if os.path.exists(os.path.join(args.checkpoint, ".metadata")):
        dcp.load({"training": state}, checkpoint_id=args.checkpoint)
        if dist.get_rank() == 0:
            print(f"goes on at epoch {state.epoch} batch {state.batch}", flush=True)
    done = train(args, state, loader, sampler)
    dcp.save({"training": state}, checkpoint_id=args.checkpoint)
    if dist.get_rank() == 0:
        print("done" if done else f"saved at epoch {state.epoch} batch {state.batch}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
