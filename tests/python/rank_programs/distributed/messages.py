"""Messages from rank to rank."""

from process_group import dist, n, r, torch

x = torch.zeros(4)
right, left = (r + 1) % n, (r - 1) % n
works = [dist.isend(torch.arange(4.0) + r, right), dist.irecv(x, left)]
for work in works:
    work.wait()
assert x.tolist() == [left + i for i in range(4)]
ops = [
    dist.P2POp(dist.isend, torch.full((200000,), r), right),
    dist.P2POp(dist.irecv, y := torch.zeros(200000, dtype=torch.int64), left),
]
for work in dist.batch_isend_irecv(ops):
    work.wait()
assert bool((y == left).all())
if r == 0:
    seen = set()
    for _ in range(n - 1):
        z = torch.zeros(1)
        seen.add(source := dist.recv(z))
        assert z.item() == source
    assert seen == set(range(1, n))
    a, b = torch.zeros(1), torch.zeros(1)
    second, first = dist.irecv(b, 1, tag=2), dist.irecv(a, 1, tag=1)
    second.wait(), first.wait()
    assert (a.item(), b.item()) == (1, 2)
    dist.send_object_list([1, "two"], dst=1)
else:
    dist.send(torch.tensor([float(r)]), 0)
    if r == 1:
        dist.send(torch.tensor([1.0]), 0, tag=1)
        dist.send(torch.tensor([2.0]), 0, tag=2)
        dist.recv_object_list(things := [None, None], src=0)
        assert things == [1, "two"]
