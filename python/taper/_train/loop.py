"""The loop that the shipped examples share: progress on the terminal, TensorBoard logs, checkpoints, resuming in the
middle of an epoch."""

import hashlib
import math
import os
import sys
import time

import taper
from taper.utils.tensorboard import SummaryWriter

BAR = 24


class Progress:
    """One line that is written over on a terminal; elsewhere, a line at each epoch's end."""

    def __init__(self, first, total, unit, per_step):
        self.first, self.total, self.unit, self.per_step = first, total, unit, per_step
        self.start = self.shown = time.monotonic()
        self.live = sys.stdout.isatty()

    def show(self, step, epoch, epochs, done, loss, last):
        """done: the share of the epoch; last: its last step."""
        now = time.monotonic()
        if not last and (not self.live or now - self.shown < 0.1):
            return
        self.shown = now
        rate = (step - self.first) / max(now - self.start, 1e-9)
        left = int((self.total - step) / max(rate, 1e-9) + 0.5)
        bar = ("#" * round(BAR * done)).ljust(BAR, ".")
        text = (
            f"epoch {epoch}/{epochs} [{bar}] step {step}/{self.total}  {rate * self.per_step:,.0f} {self.unit}/s  "
            f"loss {loss:.4f}  {left // 60}:{left % 60:02d} left"
        )
        print(f"\r{text}\033[K" if self.live else text, end="" if self.live and not last else "\n", flush=True)


def digest(model):
    """SHA-256 over all weights, in order: equal exactly if every bit is."""
    sha = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        sha.update(name.encode())
        sha.update(tensor.detach().contiguous().view(-1).view(taper.uint8))
    return sha.hexdigest()


def curve(losses, width=72, height=12):
    """The loss over all steps, drawn with characters: each column is the mean over its share of the steps. Where it
    fell by much, the scale is logarithmic."""
    width = min(width, len(losses))
    means = [
        sum(part) / len(part)
        for part in (losses[i * len(losses) // width : (i + 1) * len(losses) // width] for i in range(width))
    ]
    low, high = min(means), max(means)
    to, back = (math.log, math.exp) if low > 0 and high > 8 * low else (float, float)
    top, span = to(high), (to(high) - to(low)) or 1.0
    rows = [round((top - to(mean)) / span * (height - 1)) for mean in means]
    lines = [
        f"{back(top - span * r / (height - 1)):8.3f} |" + "".join("*" if row == r else " " for row in rows).rstrip()
        for r in range(height)
    ]
    return "\n".join([*lines, " " * 9 + "+" + "-" * width, f"{'step':>9} 1{len(losses):>{width - 1}}"])


class Training:
    """A model with all that its training needs. loss(model, batch) gives the loss to go down, evaluate(model) named
    figures after each epoch."""

    def __init__(self, options, model, optimizer, schedule, loader, epochs, loss, evaluate, unit, per_step):
        self.options, self.model, self.optimizer, self.schedule, self.loader = (
            options,
            model,
            optimizer,
            schedule,
            loader,
        )
        self.epochs, self.loss, self.evaluate, self.unit, self.per_step = epochs, loss, evaluate, unit, per_step
        self.step, self.epoch, self.losses = 0, 0, []
        self.checkpoint = os.path.join(options.out, "checkpoint.pt")

    def save(self):
        taper.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(),
                "loader": self.loader.state_dict(),
                "rng": taper.get_rng_state(),
                "step": self.step,
                "epoch": self.epoch,
                "losses": self.losses,
            },
            self.checkpoint,
        )

    def load(self):
        if not os.path.exists(self.checkpoint):
            raise FileNotFoundError(f"there is no {self.checkpoint} to resume from")
        saved = taper.load(self.checkpoint)
        for part in ("model", "optimizer", "schedule", "loader"):
            getattr(self, part).load_state_dict(saved[part])
        self.step, self.epoch, self.losses = saved["step"], saved["epoch"], saved["losses"]
        taper.set_rng_state(saved["rng"])
        print(f"resumed at step {self.step} of {self.epochs * len(self.loader)}")

    def run(self):
        os.makedirs(self.options.out, exist_ok=True)
        if self.options.resume:
            self.load()
        total = self.epochs * len(self.loader)
        progress = Progress(self.step, total, self.unit, self.per_step)
        with SummaryWriter(os.path.join(self.options.out, "logs"), purge_step=self.step or None) as writer:
            while self.epoch < self.epochs:
                self.one_epoch(writer, progress, total)
            self.save()
        print(f"\nloss over {len(self.losses)} steps\n{curve(self.losses)}\n")
        print(
            f"weights: {self.checkpoint}\n"
            f"SHA-256 of the weights: {digest(self.model)}\n"
            f"logs: taper watch {self.options.out}, or tensorboard --logdir {self.options.out}"
        )

    def one_epoch(self, writer, progress, total):
        self.model.train()
        steps = len(self.loader)
        for batch in self.loader:
            loss = self.loss(self.model, batch)
            self.optimizer.zero_grad()
            loss.backward()
            taper.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.step += 1
            self.losses.append(loss.item())
            at = self.step - self.epoch * steps
            writer.add_scalar("train/loss", self.losses[-1], self.step)
            writer.add_scalar("train/learning rate", self.schedule.get_last_lr()[0], self.step)
            recent = self.losses[-min(at, 50) :]
            progress.show(self.step, self.epoch + 1, self.epochs, at / steps, sum(recent) / len(recent), at == steps)
            if self.step % self.options.save_every == 0 and at < steps:
                self.save()
        self.model.eval()
        with taper.no_grad():
            figures = self.evaluate(self.model)
        for name, value in figures.items():
            writer.add_scalar("test/" + name, value, self.step)
        print("  " + ", ".join(f"test {name} {value:.4f}" for name, value in figures.items()))
        self.epoch += 1
        self.save()
