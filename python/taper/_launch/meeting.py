"""How the launchers of a job's nodes agree: who has which node number, where rank 0 is, and that one of them has lost a rank.

One node agrees with itself. Several meet in a TCPStore that node 0's launcher keeps, one port above the ranks' own."""


class Place:
    """Where this node's ranks stand in the job."""

    def __init__(self, node, nodes, first_rank, world, host, port):
        self.node, self.nodes, self.first_rank, self.world, self.host, self.port = node, nodes, first_rank, world, host, port


class Meeting:
    def __init__(self, asked):
        self.asked = asked

    def gather(self, attempt):
        """Where this node's ranks stand."""
        asked = self.asked
        nodes = asked.max_nodes
        return Place(asked.node_rank, nodes, asked.node_rank * asked.count, nodes * asked.count, asked.master_addr, asked.master_port)

    def tell(self, reason):
        """A rank of this node has failed."""

    def failure(self, attempt):
        """Why another node has failed, or None."""

    def leave(self):
        """This node's ranks are done."""

    def close(self):
        pass
