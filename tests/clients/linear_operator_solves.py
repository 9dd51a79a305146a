"""linear_operator: lazy matrices, their products, solves, determinants and square roots, with gradients."""

import torch
from linear_operator import operators as ops
from linear_operator import settings, to_linear_operator
from show import show

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
base = torch.randn(8, 8)
dense = (base @ base.T + torch.eye(8) * 3).requires_grad_()
operator = to_linear_operator(dense).add_diagonal(torch.full((8,), 0.5))
vector = torch.randn(8, 2)
solved = operator.solve(vector)
quadratic, determinant = operator.inv_quad_logdet(vector, logdet=True)
(quadratic + determinant).backward()
kronecker = ops.KroneckerProductLinearOperator(to_linear_operator(torch.eye(2) * 2), to_linear_operator(dense.detach()))
toeplitz = ops.ToeplitzLinearOperator(torch.tensor([4.0, 1.0, 0.5, 0.25]))
low_rank = ops.LowRankRootLinearOperator(torch.randn(8, 3)).add_diagonal(torch.ones(8))
blocks = ops.BlockDiagLinearOperator(to_linear_operator(torch.stack([dense.detach(), dense.detach() + torch.eye(8)])))
with settings.max_cholesky_size(1), settings.cg_tolerance(1e-8), settings.num_trace_samples(4):
    iterated = to_linear_operator(dense.detach()).solve(vector)
left, values = torch.linalg.eigh(dense.detach())[1], torch.linalg.eigvalsh(dense.detach())
show(
    solved=solved,
    quadratic=quadratic,
    determinant=determinant,
    gradient=dense.grad,
    kronecker=kronecker @ torch.ones(16, 1),
    logdet=kronecker.logdet(),
    toeplitz=toeplitz @ torch.arange(4.0),
    low_rank=low_rank.solve(torch.ones(8, 1)),
    blocks=(blocks @ torch.ones(16, 1)),
    diagonal=blocks.diagonal(),
    iterated=iterated,
    root=(operator.root_decomposition() @ vector),
    eigenvalues=values,
    same=(left @ torch.diag(values) @ left.T - dense).abs().max() < 1e-9,
)
