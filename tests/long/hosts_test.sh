#!/usr/bin/env bash
# Several hosts on one machine: network namespaces that only a bridge joins, slow where the kernel has netem. Ranks meet across them by env:// and by a file, exchange data over the
# library's own engine and over libgloo, and a rank that dies on one host is named on the others.
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
    tc -n $host qdisc add dev eth0 root netem delay 5ms rate 200mbit 2> /dev/null || slow=no
    i=$((i + 1))
done

cat > "$scratch/program.py" << 'END'
import os, signal, sys, torch, torch.distributed as dist
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
if sys.argv[1] == "death" and dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
print("well")
END
run() { # what, further variables; the logs are rank*.txt
    local what=$1 rank=0 pids=
    shift
    for host in $hosts; do
        ip netns exec $host env PYTHONPATH="$TAPER_BUILD_DIR/python" OMP_NUM_THREADS=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29511 RANK=$rank WORLD_SIZE=3 "$@" \
            timeout 60 "${python:-python3}" -m taper run "$scratch/program.py" "$what" "$scratch/meet" > "$scratch/rank$rank.txt" 2>&1 &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    wait $pids || true
}
run env
[ "$(cat "$scratch"/rank?.txt | grep -c '^well')" = 3 ] || fail "env://: $(cat "$scratch"/rank?.txt)"
run file
[ "$(cat "$scratch"/rank?.txt | grep -c '^well')" = 3 ] || fail "file://: $(cat "$scratch"/rank?.txt)"
if [ -e "$TAPER_BUILD_DIR/libtaper-gloo.so" ]; then
    run env TAPER_GLOO=1
    [ "$(cat "$scratch"/rank?.txt | grep -c '^well')" = 3 ] || fail "libgloo: $(cat "$scratch"/rank?.txt)"
fi
run death
for rank in 0 2; do
    grep -q "rank 1 (host .* died" "$scratch/rank$rank.txt" || fail "rank $rank does not know of the death: $(cat "$scratch/rank$rank.txt")"
done
[ $slow = yes ] || echo "SKIPPED in part: the kernel has no netem, the links were not slow"
echo "three hosts: env, file and death are well"
