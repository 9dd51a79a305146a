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

cp "$TAPER_SOURCE_DIR/tests/long/hosts/three_hosts.py" "$scratch/program.py"
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
cp "$TAPER_SOURCE_DIR/tests/long/hosts/stranger.py" "$scratch/stranger.py"
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
cp "$TAPER_SOURCE_DIR/tests/long/hosts/two_hosts.py" "$scratch/program.py"
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
