"""Messages from rank to rank."""

from process_group import dist, n, r, torch
from nccl_begin import by_nccl

x, y = torch.zeros(4), torch.zeros(200000, dtype=torch.int64)
right, left = (r + 1) % n, (r - 1) % n
# Each sends to the right first: nobody holds up anybody.
works = [dist.isend(torch.arange(4.0) + r, right), dist.irecv(x, left)]
assert all(work.wait() for work in works)
assert x.tolist() == [left + i for i in range(4)]
both = [dist.P2POp(dist.isend, torch.full((200000,), r), right), dist.P2POp(dist.irecv, y, left)]
for work in dist.batch_isend_irecv(both):
    work.wait()
assert bool((y == left).all())
for k in range(3):  # strided, in order
    strided = torch.zeros(3, 2).t()
    dist.send(torch.full((2, 3), 10.0 * k + r).t().contiguous().t(), right) if r % 2 == 0 else dist.recv(strided, left)
    dist.send(torch.full((2, 3), 10.0 * k + r), right) if r % 2 else dist.recv(strided, left)
    assert strided.tolist() == [[10.0 * k + left] * 3] * 2
try:
    dist.recv(x)
    raise AssertionError("from anybody, on a GPU")
except ValueError as error:
    assert "from one rank" in str(error)
assert by_nccl() > 4
