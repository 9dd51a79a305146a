"""Rank 0 is in a collective of all, rank 1 waits for a message, rank 2 is in a collective of another group."""

from faults_begin import dist, r, step, torch

group = dist.new_group([1, 2])
if r == 1:
    dist.recv(torch.zeros(5), 0)
if r == 2:
    dist.all_reduce(torch.zeros(6), group=group)
step()
