"""How the launchers of a job's nodes agree: who has which node number, how many ranks each has, and that one of them
has lost a rank.

One node agrees with itself. Several meet in a TCPStore: with --rdzv-backend static that of the launcher whose
--node-rank is 0, with c10d that of the first launcher on the host that --rdzv-endpoint names; node numbers are then
given in the order of arrival. The ranks use the same store (each attempt under a prefix of its own)."""

import json
import socket
import time

_LOOK = 1.0  # seconds between two questions whether another node has failed
_LAST = 30.0  # seconds that more than the least number of nodes are waited for
_JOIN = 600.0  # seconds for all to come


class Place:
    """Where this node's ranks stand in the job."""

    def __init__(self, node, nodes, first_rank, world, host, port, shared):
        self.node, self.nodes, self.first_rank, self.world, self.host, self.port = (
            node,
            nodes,
            first_rank,
            world,
            host,
            port,
        )
        self.shared = shared  # the launchers' store is the ranks' as well


def _is_here(host):
    """Is this host ours? An address that can be bound is. The host's full name is not asked for: name servers may take
    their time."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname()):
        return True
    try:
        return any(_can_bind(info[4][0]) for info in socket.getaddrinfo(host, None))
    except OSError:
        return False


def _can_bind(address):
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as place:
            place.bind((address, 0))
        return True
    except OSError:
        return False


class Meeting:
    def __init__(self, asked):
        self.asked, self.store, self.serves, self.attempt, self.nodes, self.next_look = asked, None, False, 0, 1, 0.0
        conf = dict(part.split("=", 1) for part in asked.rdzv_conf.split(",") if "=" in part)
        self.join = float(conf.get("join_timeout", conf.get("timeout", _JOIN)))
        self.last = float(conf.get("last_call_timeout", _LAST))
        self.hosts = {"true": True, "1": True, "false": False, "0": False}.get(conf.get("is_host", "").lower())

    # ---- The store ----
    def _open(self):
        from datetime import timedelta
        from taper.distributed import TCPStore

        asked, limit = self.asked, timedelta(seconds=self.join)
        static = asked.rdzv_backend == "static"
        may_serve = (
            self.hosts if self.hosts is not None else asked.node_rank == 0 if static else _is_here(asked.master_addr)
        )
        if may_serve:
            try:
                self.store, self.serves = (
                    TCPStore(
                        asked.master_addr, asked.master_port, is_master=True, timeout=limit, wait_for_workers=False
                    ),
                    True,
                )
                return
            except RuntimeError:
                if static:
                    raise
        self.store = TCPStore(
            asked.master_addr, asked.master_port, is_master=False, timeout=limit, wait_for_workers=False
        )

    def _key(self, name, attempt=None):
        job = self.asked.rdzv_id if self.asked.rdzv_backend != "static" else "job"
        return f"launch/{job}/{self.attempt if attempt is None else attempt}/{name}"

    # ---- Meeting ----
    def gather(self, attempt):
        """Where this node's ranks stand, once enough nodes have come."""
        asked, self.attempt = self.asked, attempt
        if asked.max_nodes == 1:
            return Place(0, 1, 0, asked.count, asked.master_addr, asked.master_port, False)
        if self.store is None:
            self._open()
        node = asked.node_rank if asked.rdzv_backend == "static" else self.store.add(self._key("came"), 1) - 1
        self.store.set(self._key(f"node{node}"), str(asked.count))
        if asked.rdzv_backend == "static":
            self.store.add(self._key("came"), 1)
        if node == 0:
            self._close_the_door()
        counts = json.loads(self.store.get(self._key("counts")))
        if node >= len(counts):
            raise SystemExit(f"taper launch: the job has its {len(counts)} nodes already: this one came too late")
        self.nodes = len(counts)
        return Place(node, len(counts), sum(counts[:node]), sum(counts), asked.master_addr, asked.master_port, True)

    def _close_the_door(self):
        """The first node waits for the others and says who is in."""
        asked, start, enough = self.asked, time.monotonic(), None
        while True:
            came, now = self.store.add(self._key("came"), 0), time.monotonic()
            enough = now if enough is None and came >= asked.min_nodes else enough
            if came >= asked.max_nodes or enough is not None and now - enough >= self.last:
                break
            if now - start > self.join:
                raise SystemExit(f"taper launch: {came} of {asked.min_nodes} nodes came within {self.join:g} s")
            time.sleep(0.05)
        counts = [int(self.store.get(self._key(f"node{node}"))) for node in range(min(came, asked.max_nodes))]
        self.store.set(self._key("counts"), json.dumps(counts))

    # ---- While ranks run ----
    def tell(self, reason):
        """A rank of this node has failed."""
        if self.store is not None:
            self._try(lambda: self.store.compare_set(self._key("failed"), "", reason))

    def failure(self):
        """Why another node has failed, or None."""
        now = time.monotonic()
        if self.store is None or now < self.next_look:
            return None
        self.next_look = now + _LOOK
        return self._try(
            lambda: self.store.get(self._key("failed")).decode() if self.store.check([self._key("failed")]) else None,
            "the launcher of node 0 is gone",
        )

    @staticmethod
    def _try(ask, otherwise=None):
        try:
            return ask()
        except RuntimeError:  # whoever served the store has ended
            return otherwise

    def close(self):
        """This node is done; the one that serves the store waits until all are, that they may hear of failures."""
        if self.store is None:
            return
        left = self._try(lambda: self.store.add("launch/left", 1), 0)
        until = time.monotonic() + 15
        while self.serves and left < self.nodes and time.monotonic() < until:
            time.sleep(0.05)
            left = self.store.add("launch/left", 0)
