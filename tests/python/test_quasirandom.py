"""torch.quasirandom and torch.lobpcg: PyTorch's recorded points; eigenpairs that are eigenpairs."""

import pytest

import taper as torch
from taper.quasirandom import SobolEngine


def test_points_of_sobols_sequence():
    engine = SobolEngine(3)
    assert engine.draw(4).tolist() == [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert engine.draw(1).tolist() == SobolEngine(3).fast_forward(4).draw().tolist() == [[0.375, 0.375, 0.625]]
    assert engine.num_generated == 5
    assert engine.reset().num_generated == 0
    assert SobolEngine(1111).sobolstate.sum().item() == 17932991659939  # as PyTorch's
    assert SobolEngine(2).draw(2, dtype=torch.float64).dtype == torch.float64


def test_scrambled_points_follow_the_seed():
    engine = SobolEngine(2, scramble=True, seed=5)
    points = engine.draw(4)
    assert torch.allclose(
        points, torch.tensor([[0.4803, 0.1173], [0.9498, 0.7430], [0.6404, 0.3272], [0.1646, 0.9529]]), atol=1e-4
    )
    assert torch.equal(engine.reset().draw(4), points)
    assert repr(engine) == "SobolEngine(dimension=2, scramble=True, seed=5)"
    torch.manual_seed(3)
    assert torch.allclose(
        SobolEngine(2, scramble=True).draw(2), torch.tensor([[0.0685, 0.2245], [0.6215, 0.7231]]), atol=1e-4
    )


def test_what_sobol_refuses():
    with pytest.raises(ValueError, match=r"\[1, 21201\]"):
        SobolEngine(0)
    engine = SobolEngine(2)
    engine.draw(1)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(1)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse", "pencil"])
def test_lobpcg(largest, kind):
    torch.manual_seed(0)
    A = torch.randn(30, 30, dtype=torch.float64)
    A = A @ A.T + torch.eye(30, dtype=torch.float64)
    B = torch.diag(torch.linspace(1, 2, 30, dtype=torch.float64)) if kind == "pencil" else None
    E, X = torch.lobpcg(A.to_sparse() if kind == "sparse" else A, k=3, B=B, largest=largest, niter=300, tol=1e-11)
    BX = X if B is None else B @ X
    assert torch.allclose(A @ X, BX * E, atol=1e-5)
    assert torch.allclose(X.T @ BX, torch.eye(3, dtype=torch.float64), atol=1e-8)
    half = torch.ones(30, dtype=torch.float64) if B is None else B.diagonal().rsqrt()
    all_of_them = torch.linalg.eigvalsh(half[:, None] * A * half)
    assert torch.allclose(E, all_of_them.flip(0)[:3] if largest else all_of_them[:3])


def test_lobpcg_batches_gradients_and_refusals():
    A = torch.diag(torch.arange(1.0, 13.0)).expand(2, 12, 12).clone().requires_grad_()
    E, X = torch.lobpcg(A, k=1)
    assert E.shape == (2, 1)
    assert X.shape == (2, 12, 1)
    assert torch.allclose(E, torch.tensor(12.0))
    E.sum().backward()
    assert torch.allclose(A.grad[:, -1, -1], torch.tensor(1.0), atol=1e-3)
    with pytest.raises(ValueError, match="3 x the number of requested eigenpairs"):
        torch.lobpcg(torch.eye(8), k=3)
