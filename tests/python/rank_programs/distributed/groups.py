"""Groups of some ranks."""

from process_group import dist, n, r, torch

evens = dist.new_group(range(0, n, 2))
if r % 2 == 0:
    t = torch.tensor([float(r)])
    dist.all_reduce(t, group=evens)
    assert t.item() == sum(range(0, n, 2))
    assert dist.get_rank(evens) == r // 2
    assert dist.get_world_size(evens) == (n + 1) // 2
    assert dist.get_global_rank(evens, 1) == 2
    assert dist.get_group_rank(evens, 2) == 1
    b = torch.tensor([r])
    dist.broadcast(b, src=2, group=evens)
    assert b.item() == 2
else:
    assert evens == dist.GroupMember.NON_GROUP_MEMBER
    assert dist.get_rank(evens) == -1
mine, both = dist.new_subgroups(2)
t = torch.tensor([float(r)])
dist.all_reduce(t, group=mine)
assert t.item() == r // 2 * 4 + 1
assert len(both) == 2
works = [dist.all_reduce(torch.ones(10) * i, async_op=True) for i in range(20)]
assert works[3].get_future().then(lambda f: f.value()[0][0].item()).wait() == 3 * n
for i, work in enumerate(works):
    assert work.wait()
    assert work.is_completed()
    assert work.is_success()
    assert work.result()[0][0] == i * n
dist.destroy_process_group(mine)
dist.barrier()
dist.destroy_process_group()
assert not dist.is_initialized()
