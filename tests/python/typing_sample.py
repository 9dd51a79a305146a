"""A program that type checkers read: what is right must pass, what is marked must be refused (mypy --strict reports
marks that are not needed)."""

from typing import Optional, Tuple

import taper as torch
import taper.nn.functional as F


def normalize(x: torch.Tensor, dim: int = -1, eps: float = 1e-5) -> torch.Tensor:
    mean = x.mean(dim, keepdim=True)
    return (x - mean) / (x.var(dim, keepdim=True) + eps).sqrt()


def best(scores: torch.Tensor, k: int = 3) -> Tuple[torch.Tensor, torch.Tensor]:
    top = torch.topk(scores, k)
    values: torch.Tensor = top.values
    return values, top.indices


def train(steps: int, device: Optional[torch.device] = None) -> float:
    w = torch.zeros(3, 2, requires_grad=True, device=device)
    x = torch.randn((8, 3), dtype=torch.float32)
    target = torch.randint(0, 2, (8,))
    loss = torch.zeros(())
    for _ in range(steps):
        loss = F.cross_entropy(x @ w, target)
        loss.backward()
        with torch.no_grad():
            grad = w.grad
            if grad is not None:
                w -= 0.1 * grad
                grad.zero_()
    return float(loss)


@torch.no_grad()
def shapes(x: torch.Tensor) -> int:
    rows: int = x.shape[0]
    columns: int = x.size(1)
    whole: torch.Size = x.size()
    y = x.view(-1).reshape(rows, columns).permute(1, 0).contiguous()
    return rows * columns + whole.numel() + y.dim() + len(x)


x = torch.arange(12, dtype=torch.float64).view(3, 4)
parts: Tuple[torch.Tensor, ...] = x.split(2)
largest = x.max(dim=1).indices.tolist()
eigenvalues = torch.linalg.eigh(x @ x.T).eigenvalues
spectrum: torch.Tensor = torch.fft.rfft(x)
mask: torch.Tensor = (x > 2) & (x != 5)
print(normalize(x), best(x.flatten()), shapes(x), parts, largest, eigenvalues, spectrum, mask, train(2))

x.mean(dim="rows")  # type: ignore[arg-type]
torch.zeros(2, dtype="float32")  # type: ignore[call-overload]
word: str = x.sum()  # type: ignore[assignment]
x.reshape("2")  # type: ignore[arg-type]
torch.relu(3)  # type: ignore[arg-type]
x.no_such_method()  # type: ignore[attr-defined]
