"""torch.utils.flop_counter: multiplications and additions of the products that ran, by module and operator.

A profile notes which products ran and on what shapes; ranges around the modules' calls say where. A backward node
counts for the module whose call recorded it."""

from weakref import WeakKeyDictionary

import taper
from taper import _C
from taper.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

# The library's operator: PyTorch's, under which it counts.
_COUNTED = {
    "mm": "mm",
    "addmm": "addmm",
    "bmm": "bmm",
    "baddbmm": "baddbmm",
    "convolution": "convolution",
    "convolution_grad_input": "convolution_backward",
    "convolution_grad_weight": "convolution_backward",
    "attention_forward": "_scaled_dot_product_flash_attention_for_cpu",
    "attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward",
}
_UNCOUNTED = ("lstm",)  # what PyTorch does in one kernel that it has no formula for
_OPERATOR, _BACKWARD, _RANGE = 0, 1, 2
_MARK = "module call: "  # in front of a module's path


def _packet(name):
    packet = taper.ops.aten.__dict__.get(name)
    if packet is None:
        from taper._ops import OpOverloadPacket, _aten

        packet = taper.ops.aten.__dict__[name] = OpOverloadPacket("aten", name, _aten(name))
    return packet


def sdpa_flop_count(query_shape, key_shape, value_shape):
    """Multiplications and additions of attention: scores, and weighted values. Heads of keys and values may be fewer,
    each for several of the query's."""
    batch, heads, queries, width = query_shape
    key_batch, key_heads, keys, key_width = key_shape
    value_batch, value_heads, value_keys, value_width = value_shape
    if not (
        batch == key_batch == value_batch
        and key_heads == value_heads
        and heads % key_heads == 0
        and width == key_width
        and keys == value_keys
    ):
        raise AssertionError(
            f"sdpa_flop_count: query {query_shape}, key {key_shape} and value {value_shape} do not fit"
        )
    return 2 * batch * heads * queries * keys * (width + value_width)


class FlopCounterMode:
    """with FlopCounterMode() as counter: ...; counter.get_total_flops()"""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if mods is not None:
            import warnings

            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth, self.display, self.custom_mapping = depth, display, custom_mapping or {}
        self.flop_counts = {}

    # ---- Watching ----
    def __enter__(self):
        self.flop_counts = {}
        self._paths, self._open = WeakKeyDictionary(), []
        self._hooks = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]
        self._running = _C._profile_start(True, None)
        return self

    def __exit__(self, *error):
        _, recorded, _ = _C._profile_stop(self._running)
        for hook in self._hooks:
            hook.remove()
        self._count(recorded)
        if self.display:
            print(self.get_table(self.depth))

    def _begin(self, module, args):
        path = self._paths.get(module)
        if path is None:
            for name, inner in module.named_modules(prefix=type(module).__name__):
                self._paths.setdefault(inner, name)
            path = self._paths[module]
        self._open.append(_C._range_begin(_MARK + path))

    def _end(self, module, args, output):
        if self._open:
            _C._range_end(self._open.pop())

    # ---- Counting ----
    def _count(self, recorded):
        counted, places, calls = [False] * len(recorded), [()] * len(recorded), {}
        for i, (name, kind, parent, _, _, number, _, inputs, _, _, products) in enumerate(recorded):
            counted[i] = parent >= 0 and counted[parent]
            places[i] = places[parent] if parent >= 0 else ()
            if kind == _RANGE and name.startswith(_MARK):
                places[i] = (*places[i], name[len(_MARK) :])
            if kind == _BACKWARD:
                places[i] = calls.get(number, ())
            elif kind == _OPERATOR:
                if number >= 0:
                    calls[number] = places[i]
                if not counted[i]:
                    counted[i] = self._add(name.partition(".")[0], inputs, 2 * products, places[i])

    def _add(self, name, inputs, count, places):
        """Counts an operator, if it is one to count. places: the modules that it is in."""
        operator = ("addmm" if inputs[2] is not None else "mm") if name == "linear" else _COUNTED.get(name)
        if operator is None:
            return name in _UNCOUNTED
        packet = _packet(operator)
        for place in {"Global", *places}:
            counts = self.flop_counts.setdefault(place, {})
            counts[packet] = counts.get(packet, 0) + count
        return True

    # ---- Answers ----
    def get_total_flops(self):
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self):
        return {place: dict(counts) for place, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The counts as text: modules down to a depth, and the operators in each."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows = []
        for place in ["Global", *sorted(p for p in self.flop_counts if p != "Global")]:
            level = 0 if place == "Global" else place.count(".") + 1
            if level > depth or place not in self.flop_counts:
                continue
            counts = self.flop_counts[place]
            rows.append((" " * level + place, sum(counts.values())))
            rows += [(" " * level + f" - {packet}", count) for packet, count in counts.items()]
        cells = [("Module", "FLOP", "% Total")] + [
            (name, _shown(count), f"{100 * count / total:.2f}%" if total else "0.00%") for name, count in rows
        ]
        widths = [max(len(cell[i]) for cell in cells) for i in range(3)]
        lines = [
            "  ".join((cell[0].ljust(widths[0]), cell[1].rjust(widths[1]), cell[2].rjust(widths[2]))).rstrip()
            for cell in cells
        ]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _shown(count):
    for power, unit in ((4, "T"), (3, "B"), (2, "M"), (1, "K")):
        if count >= 1000**power:
            return f"{count / 1000**power:.3f}{unit}"
    return str(count)
