#!/usr/bin/env bash
# bench/overlap.sh [BUILD]: how much of its communication DistributedDataParallel hides behind the backward. Two ranks in two network namespaces whose link has a rate limit, so that
# messages take time and no processor; layers are as wide as makes both take about as long. Wants root and tc. Half and more is the aim.
set -eu
build=$(cd "${1:-$(dirname "$0")/../build}" && pwd)
python=$(sed -n 's/^_*Python3_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt" | head -1)
if [ "$(id -u)" != 0 ] || ! command -v tc > /dev/null || ! ip netns add tp-overlap-0; then
    echo "SKIPPED: network namespaces cannot be made here"
    exit 0
fi
scratch=$(mktemp -d)
cleanup() {
    ip netns del tp-overlap-0 2> /dev/null || true
    ip netns del tp-overlap-1 2> /dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT
ip netns add tp-overlap-1
ip link add eth0 netns tp-overlap-0 type veth peer name eth0 netns tp-overlap-1
for i in 0 1; do
    ip -n tp-overlap-$i addr add 10.78.0.$((i + 1))/24 dev eth0
    ip -n tp-overlap-$i link set eth0 up
    ip -n tp-overlap-$i link set lo up
    tc -n tp-overlap-$i qdisc add dev eth0 root tbf rate "${RATE:-400mbit}" burst 256kb latency 200ms
done
cat > "$scratch/overlap.py" << 'END_OF_PROGRAM'
import time, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.ReLU())])
ddp = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1)
grads = torch.zeros(sum(p.numel() for p in net.parameters()))

def seconds(work):
    """Of the slower rank."""
    dist.barrier()
    start = time.perf_counter()
    work()
    took = torch.tensor([time.perf_counter() - start])
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()

def backward(rows, together):
    ddp.require_backward_grad_sync = together
    loss = ddp(torch.randn(rows, 512)).sum()
    took = seconds(loss.backward)
    ddp.require_backward_grad_sync = True
    return took

def talk():
    return seconds(lambda: dist.all_reduce(grads))

rows, message = 256, min(talk() for _ in range(4))
for _ in range(3):  # a batch whose backward takes as long as the messages
    alone = min(backward(rows, False) for _ in range(6))
    rows = max(64, int(rows * min(max(message / alone, 0.25), 4)))
rounds = [(backward(rows, False), talk(), backward(rows, True)) for _ in range(10)]  # by turns
alone, message, both = (min(one) for one in zip(*rounds))
if dist.get_rank() == 0:
    print(f"backward alone {alone * 1e3:.0f} ms, all_reduce of its {grads.numel() * 4 / 1e6:.1f} MB alone {message * 1e3:.0f} ms, together {both * 1e3:.0f} ms: "
          f"{100 * min((alone + message - both) / min(alone, message), 1):.0f}% of the shorter one is hidden")
END_OF_PROGRAM
for rank in 0 1; do
    ip netns exec tp-overlap-$rank env PYTHONPATH="$build/python" OMP_NUM_THREADS=1 MASTER_ADDR=10.78.0.1 MASTER_PORT=29512 RANK=$rank WORLD_SIZE=2 \
        "${python:-python3}" -m taper run "$scratch/overlap.py" &
done
wait
