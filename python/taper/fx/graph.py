"""A Graph: nodes in the order of execution, the names they have, and the Python code that does what they say."""

import builtins
import collections
import enum
import keyword
import math
import re
import types
import typing
from typing import NamedTuple

import taper
from taper.fx import _naming
from taper.fx.node import Node, _candidate_name, map_arg

# Names that generated code may use without an import, and their values.
_BUILTINS = {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": taper, "device": taper.device}
_INFIX = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
}
_IN_PLACE = {
    "iadd": "+=",
    "iand": "&=",
    "ifloordiv": "//=",
    "ilshift": "<<=",
    "imod": "%=",
    "imul": "*=",
    "imatmul": "@=",
    "ior": "|=",
    "ipow": "**=",
    "irshift": ">>=",
    "isub": "-=",
    "itruediv": "/=",
    "ixor": "^=",
}


class _Namespace:
    """Unique legal names, one for each object."""

    def __init__(self):
        self._names, self._used, self._counts = {}, set(), {}

    def create_name(self, candidate, obj):
        if obj is not None and id(obj) in self._names:
            return self._names[id(obj)][0]
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = "_" + candidate
        numbered = re.fullmatch(r"(.*)_(\d+)", candidate)
        base, number = (numbered[1], int(numbered[2])) if numbered else (candidate, None)
        if number is None:
            number = self._counts.get(base, 0)
        while candidate in self._used or self._illegal(candidate, obj):
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = number
        if obj is not None:
            self._names[id(obj)] = (candidate, obj)
        return candidate

    def _illegal(self, name, obj):
        return (
            keyword.iskeyword(name)
            or name in builtins.__dict__
            and builtins.__dict__[name] is not obj
            or name in _BUILTINS
            and _BUILTINS[name] is not obj
        )

    def associate_name_with_obj(self, name, obj):
        self._names[id(obj)] = (name, obj)


PythonCode = collections.namedtuple("PythonCode", "src globals")


class _Globals:
    """The objects that one piece of generated code refers to, and their names in it."""

    def __init__(self):
        self.values, self.namespace, self.wrapped = {}, _Namespace(), {}
        for name, value in _BUILTINS.items():
            self.values[self.namespace.create_name(name, value)] = value

    def add(self, hint, value):
        if (
            getattr(value, "__module__", None) == "builtins"
            and isinstance(value, type)
            or getattr(builtins, hint, None) is value
        ):
            return hint
        if re.match(r"torch(\.|$)", hint) and not isinstance(value, types.GenericAlias) and _found(hint) is value:
            return hint
        name = self.namespace.create_name(hint.replace(".", "_"), value)
        self.values[name] = value
        return name

    def type_name(self, kind):
        if kind is None or kind is type(None):
            return "NoneType" if kind is not None else "None"
        if kind == ():
            return "()"
        if isinstance(kind, str):
            return kind
        origin = typing.get_origin(kind)
        if origin is not None:
            hint = (
                f"typing_{kind._name}"
                if getattr(kind, "_name", None) and kind.__module__ == "typing" and kind._name != "Optional"
                else None
            )
            if origin is typing.Union:
                name, value = "typing_Union", typing.Union
            elif hint:
                name, value = hint, getattr(typing, kind._name)
            else:
                name, value = _naming.type_text(origin), origin
            parts = [self.type_name(part) if part is not Ellipsis else "..." for part in typing.get_args(kind)]
            return f"{self.add(name, value)}[{','.join(parts)}]"
        return self.add(_naming.type_text(kind), kind)

    def argument(self, arg):
        """The source of an argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            named = self.add(_naming.type_text(type(arg)), type(arg))
            return f"{named}({', '.join(self.argument(item) for item in arg)})"
        if isinstance(arg, tuple):
            return "(" + ", ".join(map(self.argument, arg)) + ("," if len(arg) == 1 else "") + ")"
        if isinstance(arg, list):
            return "[" + ", ".join(map(self.argument, arg)) + "]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{self.argument(key)}: {self.argument(value)}" for key, value in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({self.argument(arg.start)}, {self.argument(arg.stop)}, {self.argument(arg.step)})"
        if isinstance(arg, enum.Enum):
            return f"{self.add(_naming.type_text(type(arg)), type(arg))}.{arg.name}"
        if isinstance(arg, type) or callable(arg) and hasattr(arg, "__name__"):
            return self.type_name(arg) if isinstance(arg, type) else self.add(_naming.qualified(arg), arg)
        return repr(arg)

    def arguments(self, args, kwargs):
        return ", ".join(
            [*map(self.argument, args), *(f"{key} = {self.argument(value)}" for key, value in kwargs.items())]
        )


def _found(dotted):
    """What a dotted name below torch stands for."""
    value = taper
    for part in dotted.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def _attribute_source(root, target):
    """self.layers.0.weight as code can say it."""
    source = root
    for part in target.split("."):
        source = f"{source}.{part}" if part.isidentifier() else f'getattr({source}, "{part}")'
    return source


class CodeGen:
    """Turns nodes into the source of a function."""

    def __init__(self):
        self._body_transformer = None

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None):
        return f"return {self._globals.argument(output_args)}"

    def process_inputs(self, *args):
        return args

    def process_outputs(self, outputs):
        return outputs

    def additional_globals(self):
        return []

    def _gen_python_code(self, nodes, root_module):
        nodes, self._globals, self._func_name = list(nodes), _Globals(), "forward"
        for name, value in self.additional_globals():
            self._globals.add(name, value)
        self._free_vars, self._returns, body = [], "", []
        last = _last_uses(nodes)
        for node in nodes:
            line = self._statement(node, root_module)
            if line is not None:
                body.append(line + _deletions(node, last) + "\n")
            elif node.op == "placeholder" and node.name != node.target.lstrip("*"):
                body.append(f"{node.name} = {node.target.lstrip('*')}\n")
        if self._body_transformer:
            body = self._body_transformer(body)
        text = "".join(body) or "pass\n"
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in self._globals.wrapped)
        prologue = self.gen_fn_def(self._free_vars, self._returns)
        source = f"\n{wraps}\n\n{prologue}\n" + "\n".join("    " + line for line in text.split("\n"))
        return PythonCode(source, self._globals.values)

    def _statement(self, node, root):
        """The node's line without the end of it; None for a placeholder."""
        names, annotation = self._globals, f" : {self._globals.type_name(node.type)}" if node.type is not None else ""
        if node.op == "placeholder":
            default = f" = {names.argument(node.args[0])}" if node.args else ""
            self._free_vars.append(f"{node.target}{annotation}{default}")
            return None
        if node.op == "output":
            if node.type is not None:
                self._returns = f" -> {names.type_name(node.type)}"
            return self.generate_output(node.args[0])
        head = f"{node.name}{annotation} = "
        if node.op == "get_attr":
            return head + _attribute_source(root, node.target)
        if node.op == "call_module":
            return f"{head}{_attribute_source(root, node.target)}({names.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            return f"{head}{names.argument(node.args[0])}.{node.target}({names.arguments(node.args[1:], node.kwargs)})"
        return self._function_call(node, head)

    def _function_call(self, node, head):
        names, name = self._globals, getattr(node.target, "__name__", "")
        if getattr(node.target, "__module__", None) == "_operator" and not node.kwargs:
            args = [names.argument(arg) for arg in node.args]
            if name in _INFIX and len(args) == _INFIX[name].count("{}"):
                return head + _INFIX[name].format(*args)
            if name == "setitem":
                return f"{args[0]}[{args[1]}] = {args[2]};  {head}{args[0]}"
            if name in _IN_PLACE:
                return f"{args[0]} {_IN_PLACE[name]} {args[1]};  {head}{args[0]}"
        qualified = _naming.qualified(node.target)
        called = names.add(qualified, node.target)
        if (
            node.target is getattr
            and len(node.args) == 2
            and isinstance(node.args[1], str)
            and node.args[1].isidentifier()
        ):
            return f"{head}{_attribute_source(names.argument(node.args[0]), node.args[1])}"
        if node.meta.get("is_wrapped", False):
            names.wrapped.setdefault(called)
        return f"{head}{called}({names.arguments(node.args, node.kwargs)})"


def _last_uses(nodes):
    """For each node, the nodes whose values nobody needs after it."""
    seen, last = set(), {}
    for node in reversed(nodes):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                last.setdefault(node, []).append(used)
    return last


def _deletions(node, last):
    """Lets go of values as soon as they are not needed, so that their memory is free."""
    if node.op == "output":
        return ""
    gone = list(last.get(node, ()))
    if not node.users:
        gone.append(node)
    return f";  {' = '.join(map(repr, gone))} = None" if gone else ""


class _PyTreeInfo(NamedTuple):
    """Names of a function's arguments, and how these and its results are taken apart."""

    orig_args: list
    in_spec: object
    out_spec: object


class _PyTreeCodeGen(CodeGen):
    """Source of a function whose arguments are lists, tuples or dicts: placeholders stand for their leaves."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args):
        from taper.utils import _pytree as pytree

        return pytree.tree_leaves(args)

    def process_outputs(self, outputs):
        from taper.utils import _pytree as pytree

        return pytree.tree_unflatten(list(outputs), self.pytree_info.out_spec)

    def additional_globals(self):
        from taper.fx import _pytree as fx_pytree
        from taper.utils import _pytree as pytree

        return [("fx_pytree", fx_pytree), ("pytree", pytree)]

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        names = self.pytree_info.orig_args
        head = super().gen_fn_def(list(names), maybe_return_annotation)
        if not free_vars:
            return head
        taken = f"fx_pytree.tree_flatten_spec([{', '.join(names)}], self._in_spec)"
        return f"{head}\n    {', '.join(free_vars)}, = {taken}"

    def generate_output(self, output_args, *, descs=None):
        return f"return pytree.tree_unflatten({self._globals.argument(output_args)}, self._out_spec)"


class _node_list:
    """The nodes of a graph, in order; nodes may be erased while it is walked."""

    def __init__(self, graph, direction="_next"):
        self.graph, self.direction = graph, direction

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root, node = self.graph._root, getattr(self.graph._root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self):
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    def __init__(self, graph, insert):
        self.graph, self.before, graph._insert = graph, graph._insert, insert

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.graph._insert = self.before


class Graph:
    """Placeholders, calls, attributes and one output; symbolic_trace makes one, or its methods build one by hand."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._insert, self._len, self._graph_namespace = self._root.prepend, 0, _Namespace()
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def nodes(self):
        return _node_list(self)

    def find_nodes(self, *, op, target=None, sort=True):
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self):
        return next(node for node in reversed(self.nodes) if node.op == "output")

    # ---- Making nodes
    # --------------------------------------------------------------------------------------------------------
    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        name = self._graph_namespace.create_name(name if name is not None else _candidate_name(target), None)
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name, type_expr=None, default_value=_Namespace):
        return self.create_node(
            "placeholder", name, () if default_value is _Namespace else (default_value,), {}, type_expr=type_expr
        )

    def get_attr(self, qualified_name, type_expr=None):
        return self.create_node("get_attr", qualified_name, (), {}, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result, type_expr=None):
        return self.create_node("output", "output", (result,), {}, type_expr=type_expr)

    def inserting_before(self, n=None):
        """New nodes go before n, or before all: for good, or within `with`."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n=None):
        """New nodes go after n, in the order in which they are made."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def node_copy(self, node, arg_transform=lambda node: node):
        """A copy of a node of any graph, its arguments mapped by arg_transform."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g, val_map, return_output_node=False):
        """Appends g's nodes; val_map gets the copy of each. The copy of what g returns."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None):
        memo = {} if memo is None else memo
        copied = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = copied
        made = {}
        result = copied.graph_copy(self, made, return_output_node=True)
        for node, copy in made.items():
            memo[id(node)] = copy
        if result is not None:
            value, old = result
            output = copied.output(value, old.type)
            output.meta = dict(old.meta)
            memo[id(old)] = output
        copied._codegen = self._codegen
        return copied

    # ---- Changing
    # --------------------------------------------------------------------------------------------------------
    def erase_node(self, to_erase):
        """Takes a node that nothing uses out of the graph."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._leave()
        to_erase._erased = True
        self._len -= 1
        to_erase._set((), {})

    def eliminate_dead_code(self, is_impure_node=None):
        """Erases what nothing uses and what does nothing else; whether anything went."""
        self.lint()
        impure, before = is_impure_node or Node.is_impure, self._len
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._len != before

    def process_inputs(self, *args):
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen):
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        from taper._hook import NotCovered

        raise NotCovered("torch.fx.Graph.on_generate_code")

    # ---- Reading
    # --------------------------------------------------------------------------------------------------------
    def lint(self):
        """Raises where the graph is not one: names twice, values used before they are there, targets that are not in
        the module."""
        seen, names = set(), set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an "
                        "argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` "
                        "on node_copy() to remap values\n" + str(self)
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that "
                        "Nodes in the graph are topologically ordered\n"
                        f"{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._check_target(node)

    def _check_target(self, node):
        value = self.owning_module
        for part in node.target.split("."):
            if not hasattr(value, part):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of "
                    f"{'.'.join(node.target.split('.')[:-1]) or 'the module'}"
                )
            value = getattr(value, part)
        if node.op == "call_module" and not isinstance(value, taper.nn.Module):
            raise RuntimeError(
                f"Node {node} target {node.target} {node.target.split('.')[-1]} of {type(value)} does not reference "
                "an nn.Module"
            )

    def python_code(self, root_module, *, verbose=False, include_stride=False, include_device=False, colored=False):
        return self._codegen._gen_python_code(self.nodes, root_module)

    def __str__(self):
        return "graph():" + "".join(f"\n    {node.format_node()}" for node in self.nodes)

    def print_tabular(self):
        """Prints a row for each node."""
        rows = [
            [str(cell) for cell in (node.op, node.name, node.target, node.args, node.kwargs)] for node in self.nodes
        ]
        headers = ["opcode", "name", "target", "args", "kwargs"]
        widths = [
            max(len(head) + 2, *(len(row[i]) for row in rows)) if rows else len(head) for i, head in enumerate(headers)
        ]
        for row in (headers, ["-" * width for width in widths], *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def _register_custom_builtin(name, import_str, obj):
    _BUILTINS[name] = obj
