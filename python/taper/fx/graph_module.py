"""A module whose forward is the code of a graph. The class is made anew for each, so that its forward is its own."""

import copy
import linecache

import taper
from taper import nn
from taper.fx.graph import Graph

_count = 0


def _compiled(source, namespace):
    """forward, from its source, which tracebacks can show."""
    global _count
    key = f"<eval_with_key>.{_count}"
    _count += 1
    linecache.cache[key] = (len(source), None, source.splitlines(True), key)
    scope = {**namespace, "__name__": key, "__builtins__": __builtins__}
    exec(compile(source, key, "exec"), scope)
    return scope["forward"]


def _owner(root, path, create=False):
    """The module that holds the last part of a dotted name."""
    *prefix, last = path.split(".")
    for part in prefix:
        child = getattr(root, part, None)
        if child is None and create:
            child = nn.Module()
            setattr(root, part, child)
        root = child
    return root, last


def _copy_attribute(source, target, path):
    """One submodule, parameter, buffer or attribute, under the same dotted name."""
    *prefix, last = path.split(".")
    for part in prefix:
        child = getattr(source, part)
        if not hasattr(target, part) or getattr(target, part) is child:
            if getattr(target, part, None) is child:
                return
            target.add_module(part, nn.Module())
        source, target = child, getattr(target, part)
    value = getattr(source, last)
    if isinstance(value, taper.Tensor) and not isinstance(value, nn.Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


def _assign(value, target, path):
    owner, last = _owner(target, path, create=True)
    if isinstance(value, taper.Tensor) and not isinstance(value, nn.Parameter):
        owner.register_buffer(last, value)
    else:
        setattr(owner, last, value)


class GraphModule(nn.Module):
    """The graph, its code and its forward, with the root's parameters, buffers and submodules that it uses."""

    def __new__(cls, *args, **kwargs):
        for base in cls.__mro__:
            if base.__qualname__.split(".")[-1] != "GraphModuleImpl":
                break
        return super().__new__(type("GraphModuleImpl", (base,), {"__module__": base.__module__}))

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        self.__class__.__name__ = class_name
        used = [node for node in graph.nodes if node.op in ("get_attr", "call_module")]
        targets = [node.target for node in used]
        if isinstance(root, nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            for target in targets:
                _copy_attribute(root, self, target)
        elif isinstance(root, dict):
            for node in used:
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted(targets, key=lambda target: target.count(".")):
                _assign(root[target], self, target)
        else:
            raise RuntimeError("Unsupported type " + str(root) + " passed for root!")
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras
        self.meta = {}

    @property
    def graph(self):
        return self._graph

    @graph.setter
    def graph(self, g):
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    def recompile(self):
        """Makes code and forward anew; to be called after the graph was changed."""
        info = getattr(self._graph._codegen, "pytree_info", None)
        if info is not None:
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        python_code = self._graph.python_code("self")
        self._code = python_code.src
        kind = type(self)
        kind.forward = _compiled(python_code.src, python_code.globals)
        return python_code

    @property
    def code(self):
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    # ---- Submodules
    # ------------------------------------------------------------------------------------------------------------------
    def add_submodule(self, target, m):
        """Adds a module under a dotted name, with empty modules on the way; whether that could be done."""
        *prefix, last = target.split(".")
        module = self
        for part in prefix:
            child = getattr(module, part, None)
            if child is None:
                child = nn.Module()
                setattr(module, part, child)
            if not isinstance(child, nn.Module):
                return False
            module = child
        module.add_module(last, m)
        return True

    def delete_submodule(self, target):
        """Removes a submodule by its dotted name; whether it was there."""
        *prefix, last = target.split(".")
        module = self
        for part in prefix:
            module = getattr(module, part, None)
            if not isinstance(module, nn.Module):
                return False
        if not isinstance(getattr(module, last, None), nn.Module):
            return False
        delattr(module, last)
        return True

    def delete_all_unused_submodules(self):
        """Removes the submodules that no node of the graph calls or reads."""
        used = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
                if node.op == "call_module":
                    try:
                        used.update(
                            f"{node.target}.{name}"
                            for name, _ in self.get_submodule(node.target).named_modules()
                            if name
                        )
                    except AttributeError:
                        continue
        for name in [name for name, _ in self.named_modules()]:
            if name and name not in used:
                self.delete_submodule(name)

    # ---- Copies and files
    # ------------------------------------------------------------------------------------------------------------
    def __deepcopy__(self, memo):
        state = {key: value for key, value in self.__dict__.items() if key not in ("_graph", "_code")}
        plain = nn.Module()
        plain.__dict__.update(copy.deepcopy(state, memo))
        copied = GraphModule(plain, copy.deepcopy(self._graph, memo))
        for key, value in plain.__dict__.items():
            if key not in ("_parameters", "_buffers", "_modules"):
                copied.__dict__[key] = value
        for name in self._parameters.keys() | self._buffers.keys() | self._modules.keys():
            if not hasattr(copied, name):
                _copy_attribute(plain, copied, name)
        return copied

    def __copy__(self):
        copied = GraphModule(self, self.graph)
        copied.meta = self.meta
        return copied

    def __reduce__(self):
        state = {key: value for key, value in self.__dict__.items() if key not in ("_graph", "_tracer_extras")}
        info = getattr(self._graph._codegen, "pytree_info", None)
        if info is not None:
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        python_code = self._graph.python_code("self")
        imports = {
            name: value
            for name, value in python_code.globals.items()
            if name not in ("torch", "inf", "nan", "NoneType", "device")
        }
        return _from_code, (state, python_code.src, imports)

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False, **others):
        """The module's code as a class, and those of the graph modules in it."""
        text = f"class {type(self).__name__}(torch.nn.Module):\n"
        for line in self._code.strip("\n").rstrip().split("\n"):
            text += f"    {line}".rstrip() + "\n"
            if line.startswith("def "):
                text += "        # No stacktrace found for following nodes\n"
        for name, child in self.named_children():
            if hasattr(child, "print_readable"):
                inner = child.print_readable(print_output=False)
                text += "\n" + "\n".join("    " + line if line else line for line in inner.split("\n"))
        if print_output:
            print(text)
        return text

    def __str__(self):
        return "\n".join(
            [super().__repr__(), self._code, "# To see more debug info, please use `graph_module.print_readable()`"]
        )

    def __repr__(self):
        return self.__str__()


def _from_code(state, source, imports):
    """A graph module from its code: the code is run on stand-ins again."""
    from taper.fx._symbolic_trace import Tracer

    class Keeping(Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    root = nn.Module()
    root.__dict__.update(state)
    from taper.fx.graph import _BUILTINS

    forward = _compiled(source, {**_BUILTINS, **imports})
    kind = type("CodeOnlyModule", (nn.Module,), {"forward": forward})
    root.__class__ = kind
    tracer = Keeping()
    graph = tracer.trace(root)
    graph._tracer_cls = state.get("_tracer_cls")
    made = GraphModule(root, graph)
    for key, value in state.items():
        if key not in ("_parameters", "_buffers", "_modules", "_code"):
            made.__dict__.setdefault(key, value)
    made.training = state.get("training", True)
    return made
