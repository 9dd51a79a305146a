"""torch.optim.Muon, from the table."""

from taper.optim._table import TableOptimizer, optimiser


class _Matrices(TableOptimizer):
    """Its parameters are matrices."""

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}")


Muon = optimiser("Muon", __name__, _Matrices)
