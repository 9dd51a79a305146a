"""Finding the places of a graph that do what a pattern does, and replacing them."""

import collections

from taper import nn
from taper.fx.graph import Graph
from taper.fx.graph_module import GraphModule
from taper.fx.node import Node, map_arg

Match = collections.namedtuple("Match", "anchor nodes_map")


def _graph_of(pattern):
    from taper.fx._symbolic_trace import symbolic_trace

    return (
        pattern
        if isinstance(pattern, Graph)
        else pattern.graph
        if isinstance(pattern, GraphModule)
        else symbolic_trace(pattern).graph
    )


class _Matcher:
    """Compares a pattern, from its results towards its inputs, with the graph at one node."""

    def __init__(self, pattern):
        self.pattern = pattern
        output = pattern.output_node()
        self.results = output.all_input_nodes
        self.map = {}

    def match(self, anchor):
        self.map = {}
        if not self._node(self.results[-1], anchor) or any(node not in self.map for node in self.results):
            return None
        inner = {self.map[node] for node in self.map if node.op not in ("placeholder", "output")}
        returned = {self.map[node] for node in self.results}
        for node in inner - returned:  # what the pattern hides may not be used by others
            if any(user not in inner for user in node.users):
                return None
        return dict(self.map)

    def _node(self, pattern, node):
        if pattern in self.map:
            return self.map[pattern] is node
        if pattern.op == "placeholder":
            self.map[pattern] = node
            return True
        if (
            not isinstance(node, Node)
            or pattern.op != node.op
            or pattern.target != node.target
            or node in self.map.values()
        ):
            return False
        self.map[pattern] = node
        return self._value(pattern.args, node.args) and self._value(pattern.kwargs, node.kwargs)

    def _value(self, pattern, value):
        if isinstance(pattern, Node):
            return (isinstance(value, Node) or pattern.op == "placeholder") and self._node(pattern, value)
        if isinstance(pattern, (tuple, list)):
            return (
                isinstance(value, (tuple, list))
                and len(pattern) == len(value)
                and all(map(self._value, pattern, value))
            )
        if isinstance(pattern, dict):
            return (
                isinstance(value, dict)
                and pattern.keys() == value.keys()
                and all(self._value(pattern[key], value[key]) for key in pattern)
            )
        if isinstance(pattern, slice):
            return isinstance(value, slice) and all(
                map(self._value, (pattern.start, pattern.stop, pattern.step), (value.start, value.stop, value.step))
            )
        return not isinstance(value, Node) and type(pattern) is type(value) and pattern == value


def _adopt_targets(gm, replacement):
    """Gives the module what the replacement reads or calls and it has not."""
    if not isinstance(replacement, nn.Module):
        return
    gm.delete_all_unused_submodules()
    for node in _graph_of(replacement).nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        try:
            value = gm
            for part in node.target.split("."):
                value = getattr(value, part)
        except AttributeError:
            from taper.fx.graph_module import _assign

            value = replacement
            for part in node.target.split("."):
                value = getattr(value, part)
            _assign(value, gm, node.target)


def replace_pattern(gm, pattern, replacement):
    """Replaces each place of gm that does what pattern does by what replacement does; the matches."""
    wanted, given = _graph_of(pattern), _graph_of(replacement)
    if isinstance(given.output_node().args[0], (list, dict)) or not wanted.output_node().all_input_nodes:
        raise RuntimeError("a pattern must return nodes")
    matcher, taken, matches = _Matcher(wanted), set(), []
    for node in gm.graph.nodes:
        found = matcher.match(node)
        if found is None:
            continue
        inner = [found[p] for p in found if p.op != "placeholder"]
        if taken.intersection(inner):
            continue
        taken.update(inner)
        matches.append(Match(matcher.results[0], found))
    replaced = {}
    for match in matches:
        _replace(gm.graph, wanted, given, match, replaced)
    gm.recompile()
    _adopt_targets(gm, replacement)
    return matches


def _replace(graph, wanted, given, match, replaced):
    """One place: the replacement's nodes go before the first that uses the pattern's results, and the pattern's
    leave."""
    found = match.nodes_map
    inputs = [
        replaced.get(found[p], found[p]) if isinstance(found[p], Node) else found[p]
        for p in wanted.nodes
        if p.op == "placeholder"
    ]
    holes = [p for p in given.nodes if p.op == "placeholder"]
    if len(holes) != len(inputs):
        raise AssertionError(f"the pattern takes {len(inputs)} inputs and the replacement {len(holes)}")
    values = dict(zip(holes, inputs))
    old = [found[p] for p in wanted.output_node().all_input_nodes]
    users = {user for node in old for user in node.users}
    with graph.inserting_before(next(node for node in graph.nodes if node in users)):
        for node in given.nodes:
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: values[n])
            elif node.op != "placeholder":
                values[node] = graph.node_copy(node, lambda n: values[n])
    new = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(new) != len(old):
        raise AssertionError(f"the pattern returns {len(old)} values and the replacement {len(new)}")
    for before, after in zip(old, new):
        before.replace_all_uses_with(after)
        replaced[before] = after
    for node in reversed(
        [n for n in list(graph.nodes) if n in {found[p] for p in wanted.nodes if p in found and p.op != "placeholder"}]
    ):
        graph.erase_node(node)
