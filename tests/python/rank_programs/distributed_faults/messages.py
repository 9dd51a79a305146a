"""A message of another size, and one of another dtype, than the receiver expects."""

from faults_begin import dist, r, torch

if r == 0:
    dist.send(torch.ones(3), 1)
    dist.send(torch.ones(3, dtype=torch.int32), 1)
else:
    for _ in range(2):
        try:
            dist.recv(torch.zeros(4, dtype=torch.float32), 0)
        except RuntimeError as error:
            print(error)
dist.barrier()
