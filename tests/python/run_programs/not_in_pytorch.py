"""What PyTorch has not either is an ordinary error."""

import torch

for statement in (
    "import torch.no_such_module",
    "from torch import no_such_name",
    "from torch.ao.quantization import no_such_name",
    "import torch.ao.no_such",
    "torch.no_such_name",
    "import horovod.tensorflow",
):
    try:
        exec(statement)
    except Exception as e:
        print(type(e).__name__)
