#!/usr/bin/env bash
# Several hosts on one machine: network namespaces that only a bridge joins, each with a name of its own, with slow links (netem, or where the kernel has none a rate limit). Ranks meet
# across them by env:// and by a file, exchange data over the library's own engine and over libgloo; a rank that dies on one host is named on the others. Ranks listen at the address that
# the job uses alone, and a stranger on one of the hosts gets nothing from what they listen at. Two hosts with two ranks each train by DistributedDataParallel, and one that stops is named
# with its host.
set -eu
[ -d "$TAPER_BUILD_DIR/python/taper" ] || { echo "SKIPPED: this build has no Python package"; exit 77; }
if [ "$(id -u)" != 0 ] || ! command -v ip > /dev/null || ! ip netns add taper-probe 2> /dev/null; then
    echo "SKIPPED: network namespaces cannot be made here"
    exit 77
fi
ip netns del taper-probe
scratch=$(mktemp -d)
hosts="tpa tpb tpc"
python=$(sed -n 's/^_*Python3_EXECUTABLE:[A-Z]*=//p' "$TAPER_BUILD_DIR/CMakeCache.txt" | head -1)
cleanup() {
    for host in $hosts; do ip netns del $host 2> /dev/null || true; done
    ip link del tpbridge 2> /dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT
fail() { echo "FAILED: $1"; exit 1; }
cleanup
mkdir -p "$scratch"
ip link add tpbridge type bridge && ip link set tpbridge up
i=1 slow=yes
for host in $hosts; do
    ip netns add $host
    ip link add v$host type veth peer name eth0 netns $host
    ip link set v$host master tpbridge up
    ip -n $host addr add 10.77.0.$i/24 dev eth0
    ip -n $host link set eth0 up
    ip -n $host link set lo up
    tc -n $host qdisc add dev eth0 root netem delay 5ms rate 200mbit 2> /dev/null || { slow=rate; tc -n $host qdisc add dev eth0 root tbf rate 100mbit burst 64kb latency 50ms 2> /dev/null; } || slow=no
    i=$((i + 1))
done

cat > "$scratch/program.py" << 'END'
import os, signal, sys, time, torch, torch.distributed as dist
if sys.argv[1] == "file":
    dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(os.environ["RANK"]), world_size=3)
else:
    dist.init_process_group("gloo")
t = torch.full((200000,), float(dist.get_rank()))
dist.all_reduce(t)
assert bool((t == 3).all())
everybody = [None] * 3
dist.all_gather_object(everybody, dist.get_rank())
assert everybody == [0, 1, 2]
if sys.argv[1] == "stranger":
    folder = os.path.dirname(sys.argv[2])
    open(f"{folder}/here{dist.get_rank()}", "w").close()
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.05)
if sys.argv[1] == "death" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
print("well")
END
on() { # host, rank, world size, the log, what, further variables
    local host=$1 rank=$2 world=$3 log=$4 what=$5
    shift 5
    ip netns exec $host unshare --uts sh -c 'hostname "$0" && exec "$@"' $host env PYTHONPATH="$TAPER_BUILD_DIR/python" OMP_NUM_THREADS=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29511 \
        RANK=$rank WORLD_SIZE=$world "$@" timeout 60 "${python:-python3}" -m taper run "$scratch/program.py" "$what" "$scratch/meet" > "$log" 2>&1
}
run() { # what, further variables; the logs are rank*.txt
    local what=$1 rank=0 pids=
    shift
    for host in $hosts; do
        on $host $rank 3 "$scratch/rank$rank.txt" "$what" "$@" &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    wait $pids 2> /dev/null || true
}
run env
[ "$(cat "$scratch"/rank?.txt | grep -c '^well')" = 3 ] || fail "env://: $(cat "$scratch"/rank?.txt)"
run file
[ "$(cat "$scratch"/rank?.txt | grep -c '^well')" = 3 ] || fail "file://: $(cat "$scratch"/rank?.txt)"
if [ -e "$TAPER_BUILD_DIR/libtaper-gloo.so" ]; then
    run env TAPER_GLOO=1
    [ "$(cat "$scratch"/rank?.txt | grep -c '^well')" = 3 ] || fail "libgloo: $(cat "$scratch"/rank?.txt)"
fi
cat > "$scratch/stranger.py" << 'END'
import os, socket, struct, sys
from datetime import timedelta
import torch.distributed as dist
ports = [int(port) for port in sys.argv[1].split()]
assert 29511 in ports, ports
for port in ports:
    for purpose in (1, 2, 3, 4):
        for more in (b"", b"\0" * 32, struct.pack("=IIIIQ", 0x54505354, 2, 0, 7, 0) + b"taper/0"):
            with socket.create_connection(("10.77.0.1", port), timeout=15) as s:
                got = b""
                try:
                    s.sendall(b"TAPER-01" + struct.pack("=II", purpose, 1 if more[:1] == b"\0" else 0) + os.urandom(32) + more)
                    s.shutdown(socket.SHUT_WR)
                    while data := s.recv(4096):
                        got += data
                except OSError:
                    pass
                assert len(got) in (0, 80), (port, purpose, got)  # the challenge, and no more
try:
    dist.TCPStore("10.77.0.1", 29511, is_master=False, timeout=timedelta(seconds=10), wait_for_workers=False)
except RuntimeError as error:
    assert "asks for the job's secret" in str(error), error
    print("refused")
END
listening() { # host: "ADDRESS:PORT" in hexadecimal, of what listens there
    ip netns exec $1 cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "0A" { print $2 }'
}
run stranger TAPER_JOB_SECRET=of-three-hosts-and-no-other &
job=$!
for _ in $(seq 400); do
    [ "$(find "$scratch" -maxdepth 1 -name 'here*' | wc -l)" = 3 ] && break
    sleep 0.1
done
i=1
for host in $hosts; do
    others=$(listening $host | grep -v "^0${i}004D0A:" || true)
    [ -z "$others" ] || fail "$host listens at other addresses than 10.77.0.$i: $others"
    i=$((i + 1))
done
ports=$(listening tpa | sed 's/.*://' | while read -r port; do printf '%d ' "0x$port"; done)
ip netns exec tpc env PYTHONPATH="$TAPER_BUILD_DIR/python" timeout 60 "${python:-python3}" -m taper run "$scratch/stranger.py" "$ports" > "$scratch/stranger.txt" 2>&1 || true
touch "$scratch/go"
wait $job
grep -q '^refused' "$scratch/stranger.txt" || fail "a stranger: $(cat "$scratch/stranger.txt" "$scratch"/rank?.txt)"
[ "$(cat "$scratch"/rank?.txt | grep -c '^well')" = 3 ] || fail "after a stranger: $(cat "$scratch"/rank?.txt)"
run death
for rank in 0 2; do
    grep -q "rank 1 (host .* died" "$scratch/rank$rank.txt" || fail "rank $rank does not know of the death: $(cat "$scratch/rank$rank.txt")"
done

# ---- Two hosts, two ranks each ----
cat > "$scratch/program.py" << 'END'
import os, signal, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1))
alone = [p.detach().clone() for p in net.parameters()]
ddp = torch.nn.parallel.DistributedDataParallel(net)
optimizer, data, rank = torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(8, 64), dist.get_rank()
started = time.monotonic()
for _ in range(3):
    optimizer.zero_grad()
    ddp(data[2 * rank:2 * rank + 2]).square().mean().backward()
    optimizer.step()
print("seconds", time.monotonic() - started)
trained = [p.detach().clone() for p in net.parameters()]
with torch.no_grad():
    for p, before in zip(net.parameters(), alone):
        p.copy_(before)
for _ in range(3):  # the whole batch, by this rank alone
    net.zero_grad()
    net(data).square().mean().backward()
    optimizer.step()
assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(trained, net.parameters()))
print("trained", flush=True)
if rank == 3:
    os.kill(os.getpid(), signal.SIGSTOP)
dist.all_reduce(torch.ones(1))
END
pids=
for rank in 0 1 2 3; do
    [ $rank -lt 2 ] && host=tpa || host=tpb
    on $host $rank 4 "$scratch/two$rank.txt" two TAPER_STALL=2 &
    pids="$pids $!"
done
for _ in $(seq 300); do
    [ "$(cat "$scratch"/two?.txt | grep -c 'taper: rank [012] (host tp[ab], pid [0-9]*) has waited')" -ge 3 ] && break
    sleep 0.1
done
sleep 0.5
for rank in 0 1 2; do
    [ $rank -lt 2 ] && host=tpa || host=tpb
    grep -q '^trained' "$scratch/two$rank.txt" || fail "DDP over two hosts: $(cat "$scratch"/two?.txt)"
    grep -q "^taper: rank $rank (host $host, " "$scratch/two$rank.txt" && grep -q '^  rank 3 (host tpb, pid ' "$scratch/two$rank.txt" \
        || fail "rank $rank's report of the stall does not name the host: $(cat "$scratch/two$rank.txt")"
done
for host in tpa tpb; do ip netns pids $host | xargs -r kill -KILL 2> /dev/null || true; done
wait $pids 2> /dev/null || true
case $slow in
    no) echo "SKIPPED in part: the kernel has neither netem nor tbf, the links were not slow" ;;
    rate) echo "SKIPPED in part: the kernel has no netem: the links had 100 Mbit/s, but no delay" ;;
esac
echo "several hosts: env, file, a stranger, death, DDP and a stall are well; three steps of DDP took $(sed -n 's/^seconds //p' "$scratch/two0.txt") s"
