"""torch.lobpcg: a few extreme eigenpairs of a symmetric positive definite pencil A x = lambda B x, by locally optimal
conjugate gradients in blocks."""

import taper


def _times(A, X):
    return X if A is None else A @ X


def _orthonormal(V, B):
    """A basis of V's columns with V^T B V = 1, without the directions that rounding made dependent."""
    V = V / V.norm(dim=0).clamp_min(taper.finfo(V.dtype).tiny)
    for _ in range(2):  # the second pass takes away what rounding left in the first
        values, vectors = taper.linalg.eigh(V.mT @ _times(B, V))
        kept = values > values[-1] * V.size(0) * taper.finfo(V.dtype).eps
        V = V @ (vectors[:, kept] * values[kept].rsqrt())
    return V


def _ritz(A, V, largest):
    """The eigenvalues of A within the span of V, best first, and their coordinates."""
    values, vectors = taper.linalg.eigh(V.mT @ _times(A, V))
    return (values.flip(0), vectors.flip(1)) if largest else (values, vectors)


def _solve(A, X, B, iK, k, niter, tol, largest):
    """The k best eigenpairs of one matrix, from the block X (m, n) on."""
    X, P = _orthonormal(X, B), None
    n = X.size(1)
    values, vectors = _ritz(A, X, largest)
    X, scale = X @ vectors, A.norm() if not A.is_sparse else taper.sparse.sum(A * A).sqrt()
    for _ in range(niter):
        R = _times(A, X) - _times(B, X) * values[:n]
        if bool((R[:, :k].norm(dim=0) <= tol * (scale + values[:k].abs()) * X[:, :k].norm(dim=0)).all()):
            break
        V = _orthonormal(taper.cat([X, _times(iK, R)] + ([] if P is None else [P]), 1), B)
        values, vectors = _ritz(A, V, largest)
        new = V @ vectors[:, :n]
        P, X = new - X @ (X.mT @ _times(B, new)), new
    return values[:k], X[:, :k]


def lobpcg(
    A,
    k=None,
    B=None,
    X=None,
    n=None,
    iK=None,
    niter=None,
    tol=None,
    largest=None,
    method=None,
    tracker=None,
    ortho_iparams=None,
    ortho_fparams=None,
    ortho_bparams=None,
):
    """(E, X): the k largest eigenvalues of A, or smallest, and their vectors. A may be sparse or, like B, have batch
    dims. Eigenvalues have gradients."""
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    k = (1 if X is None else X.size(-1)) if k is None else k
    n = (k if X is None else X.size(-1)) if n is None else n
    m, dtype = A.shape[-1], A.dtype if A.is_floating_point() else taper.get_default_dtype()
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={n})"
        )
    tol, niter = (
        taper.finfo(dtype).eps ** 0.5 if tol is None else tol,
        1000 if niter is None else niter if niter >= 0 else 2**31,
    )
    largest, batch = True if largest is None else largest, A.shape[:-2]
    with taper.no_grad():
        X = taper.randn((*batch, m, n), dtype=dtype, device=A.device) if X is None else X
        parts = [
            None
            if part is None
            else part.detach()
            if not batch
            else part.detach().expand(*batch, *part.shape[-2:]).flatten(0, -3)
            for part in (A, X, B, iK)
        ]
        each = (
            [parts]
            if not batch
            else [[None if part is None else part[at] for part in parts] for at in range(batch.numel())]
        )
        E, V = (
            taper.stack(part).unflatten(0, batch) if batch else part[0]
            for part in zip(*(_solve(*one, k, niter, tol, largest) for one in each))
        )
    if taper.is_grad_enabled() and (A.requires_grad or B is not None and B.requires_grad):
        E = (
            (V * _times(A, V)).sum(-2)
            if B is None
            else (V * _times(A, V)).sum(-2) - E * ((V * _times(B, V)).sum(-2) - 1)
        )
    return E, V
