"""Examples of operators and layers out of the tables' samples: Python source, and what it prints when it is run."""

import builtins
import contextlib
import io
import os
import re
import warnings

import taper as torch
import taper.nn.functional as F

MAKERS = "t pos unit prob big away distinct spd wellcond ints int32s bools complex".split()
LITERAL = 12  # tensors of at most so many elements are written out
LINES = 14  # of a printed result

# Operators whose samples are in C's terms: Python takes an option by another name, or its tensor of another dtype.
WRITTEN = {
    "fractional_max_pool2d": (
        "x = torch.arange(16.0).reshape(1, 4, 4)",
        "F.fractional_max_pool2d(x, 2, output_size=3)",
    ),
    "fractional_max_pool3d": (
        "x = torch.arange(27.0).reshape(1, 3, 3, 3)",
        "F.fractional_max_pool3d(x, 2, output_size=2)",
    ),
    "istft": (
        "x = torch.arange(8.0)",
        "w = torch.hann_window(4)",
        "y = torch.stft(x, n_fft=4, window=w, return_complex=True)",
        "torch.istft(y, n_fft=4, window=w)",
    ),
    "tensordot": (
        "x = torch.arange(6.0).reshape(2, 3)",
        "y = torch.arange(12.0).reshape(3, 4)",
        "torch.tensordot(x, y, dims=([1], [0]))",
    ),
    "to.device": ("x = torch.ones(2)", 'x.to("cpu")'),
    "view_as_real": ("x = torch.tensor([1.0 + 2.0j, -0.5 + 0.0j])", "torch.view_as_real(x)"),
}

# Layers that have no sample, or one that C alone takes.
WRITTEN_LAYERS = {
    "CTCLoss": (
        "layer = nn.CTCLoss()",
        "x = torch.randn(5, 2, 4).log_softmax(2)",
        "y = torch.tensor([[1, 2], [3, 1]])",
        "layer(x, y, (5, 5), (2, 2))",
    ),
    "CosineEmbeddingLoss": (
        "layer = nn.CosineEmbeddingLoss()",
        "x = torch.tensor([[1.0, 0.0], [1.0, 1.0]])",
        "y = torch.tensor([[1.0, 1.0], [0.0, 1.0]])",
        "layer(x, y, torch.tensor([1, -1]))",
    ),
    "Dropout1d": ("layer = nn.Dropout1d(0.5)", "layer(torch.ones(1, 4, 3))"),
    "Dropout2d": ("layer = nn.Dropout2d(0.5)", "layer(torch.ones(1, 3, 2, 2))"),
    "Dropout3d": ("layer = nn.Dropout3d(0.5)", "layer(torch.ones(1, 3, 1, 2, 2))"),
    "HingeEmbeddingLoss": (
        "layer = nn.HingeEmbeddingLoss()",
        "layer(torch.tensor([0.2, 0.9, 1.5]), torch.tensor([1, -1, -1]))",
    ),
    "MaxUnpool1d": (
        "x = torch.tensor([[[1.0, 4.0, 3.0, 2.0]]])",
        "y, places = nn.MaxPool1d(2, return_indices=True)(x)",
        "nn.MaxUnpool1d(2)(y, places)",
    ),
    "MaxUnpool2d": (
        "x = torch.arange(16.0).reshape(1, 1, 4, 4)",
        "y, places = nn.MaxPool2d(2, return_indices=True)(x)",
        "nn.MaxUnpool2d(2)(y, places)",
    ),
    "MaxUnpool3d": (
        "x = torch.arange(8.0).reshape(1, 1, 2, 2, 2)",
        "y, places = nn.MaxPool3d(2, return_indices=True)(x)",
        "nn.MaxUnpool3d(2)(y, places)",
    ),
    "NLLLoss2d": (
        "layer = nn.NLLLoss2d()",
        "x = torch.randn(1, 3, 2, 2).log_softmax(1)",
        "layer(x, torch.tensor([[[0, 1], [2, 0]]]))",
    ),
    "TransformerDecoder": (
        "layer = nn.TransformerDecoder(nn.TransformerDecoderLayer(d_model=8, nhead=2), num_layers=2)",
        "layer(torch.randn(3, 1, 8), torch.randn(5, 1, 8)).shape",
    ),
    "TransformerEncoder": (
        "layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(d_model=8, nhead=2), num_layers=2)",
        "layer(torch.randn(3, 1, 8)).shape",
    ),
    "TripletMarginWithDistanceLoss": (
        "layer = nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance())",
        "x, y, z = torch.zeros(1, 2), torch.ones(1, 2), torch.full((1, 2), 1.5)",
        "layer(x, y, z)",
    ),
}


# ---- The tables ----
def samples(source):
    """{operator: (family, [sample lines])} of tables/operators, with the names of its other forms."""
    found = {}
    folder = os.path.join(source, "tables", "operators")
    for file in sorted(os.listdir(folder)):
        name = None
        with open(os.path.join(folder, file), encoding="utf-8") as lines:
            for line in lines:
                start = re.match(r"op ([\w.]+)\(", line)
                if start:
                    name = start[1]
                    found[name] = file[:-3], []
                elif name and re.match(r"\s+sample\s", line):
                    found[name][1].append(line.split("sample", 1)[1].strip())
    return found


# ---- Values ----
def _rounded(tensor):
    return [_rounded(part) for part in tensor] if tensor.dim() else round(tensor.item(), 2)


def _matrices(shape, symmetric):
    n = shape[-1]
    values = torch.randn(*shape, n) * 0.25
    if symmetric:
        values = (values + values.mT) / 2
    return values + torch.diag(torch.arange(1.0, n + 1) + 0.5)


def _made(maker, numbers):
    """The tensor that a sample's maker stands for, and how Python makes one like it without writing it out."""
    if maker in ("ints", "int32s"):
        *shape, low, high = numbers
        dtype = ", dtype=torch.int32" if maker == "int32s" else ""
        text = f"torch.randint({low}, {high}, {tuple(shape)}{dtype})"
        return eval(text, {"torch": torch}), text
    shape = tuple(numbers)
    size = ", ".join(map(str, shape)) or "()"
    if maker == "bools":
        return torch.rand(shape) > 0.5, f"torch.rand({size}) > 0.5"
    if maker == "complex":
        return torch.randn(shape, dtype=torch.complex64), f"torch.randn({size}, dtype=torch.complex64)"
    if maker in ("spd", "wellcond"):
        made = _matrices(shape, maker == "spd")
        return made, None if made.numel() <= 36 else "?"
    if maker == "distinct":
        values = torch.randperm(int(torch.tensor(shape).prod()) if shape else 1).reshape(shape)
        return values * 0.5 - 1, f"torch.randperm({values.numel()}).reshape({shape}) * 0.5"
    scale = {"pos": (1.8, 0.2), "unit": (1.8, -0.9), "prob": (0.8, 0.1), "big": (1.8, 1.2)}.get(maker)
    if scale:
        return torch.rand(shape) * scale[0] + scale[1], f"torch.rand({size}) * {scale[0]} + {scale[1]}"
    return torch.randn(shape), f"torch.randn({size})"


def _literal(tensor):
    if tensor.is_complex():
        values = str(torch.view_as_real(tensor).tolist()) if tensor.dim() > 1 else None
        if values is not None:
            return None
        numbers = tensor.reshape(-1).tolist()
        text = ", ".join(f"{n.real:.1f}{n.imag:+.1f}j" for n in numbers)
        return f"torch.tensor([{text}])" if tensor.dim() else f"torch.tensor({text})"
    dtype = ", dtype=torch.int32" if tensor.dtype == torch.int32 else ""
    values = _rounded(tensor.float()) if tensor.is_floating_point() else tensor.tolist()
    return f"torch.tensor({values}{dtype})"


class Arguments:
    """A sample's argument list, taken apart: lines that make its tensors, and the call's arguments as text."""

    def __init__(self, text):
        self.text, self.at, self.lines = text, 0, []
        self.names = iter("x y z w v u a b c d e f g h".split())
        self.values = [value for value in self._list("") if value is not None]

    def _skip(self):
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1

    def _list(self, close):
        while True:
            self._skip()
            if self.at >= len(self.text) or (close and self.text[self.at] == close):
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            yield self._value()

    def _value(self):
        rest = self.text[self.at :]
        named = re.match(r"(\w+)\s*=\s*", rest)
        if named:
            self.at += named.end()
            return f"{named[1]}={self._value()}"
        maker = re.match(r"(\w+)\(([^()]*)\)", rest)
        if maker and maker[1] in MAKERS:
            self.at += maker.end()
            return self._tensor(maker[1], [int(n) for n in maker[2].split(",") if n.strip()])
        if rest[0] in "[(":
            self.at += 1
            return "[" + ", ".join(list(self._list("]" if rest[0] == "[" else ")"))) + "]"
        word = re.match(r'"[^"]*"|[^,\]\)]+', rest)
        self.at += word.end()
        plain = word[0].strip()
        if re.fullmatch(r"(u?int|float|bfloat|complex|bool)\d*(_\w+)?", plain):
            return "torch." + plain
        return {"true": "True", "false": "False", "inf": 'float("inf")', "nan": 'float("nan")'}.get(plain, plain)

    def _tensor(self, maker, numbers):
        tensor, text = _made(maker, numbers)
        literal = _literal(tensor) if text is None or tensor.numel() <= LITERAL else None
        if literal is None and text in (None, "?"):
            raise ValueError("no short text")
        name = next(self.names)
        self.lines.append(f"{name} = {literal or text}")
        return name


# ---- Calls ----
def spelled(name):
    """How Python names an operator: "torch.softmax", "method" where only tensors have it, None where only C has it."""
    aten = "." in name and _namespaces.get(name) == "aten"  # an overload that public functions have not
    return None if aten else next(_spellings(name), None)


_namespaces = {row[0]: row[7] for row in torch._C._operators()}
_losses = {row[0] for row in torch._C._operators() if " reduction=" in row[1]}


def _spellings(name):
    plain = name.partition(".")[0]
    if name in _losses and hasattr(F, plain):  # scripts call these by F, whose default is the mean; torch's own is none
        yield f"F.{plain}"
    for prefix in ("linalg", "fft", "special"):
        module = getattr(torch, prefix)
        if plain.startswith(prefix + "_") and hasattr(module, plain[len(prefix) + 1 :]):
            yield f"torch.{prefix}.{plain[len(prefix) + 1 :]}"
    if plain.startswith("signal_windows_"):
        yield "torch.signal.windows." + plain[len("signal_windows_") :]
    if hasattr(torch, plain) and callable(getattr(torch, plain)):
        yield f"torch.{plain}"
    if hasattr(F, plain):
        yield f"F.{plain}"
    if hasattr(torch.Tensor, plain):
        yield "method"


def call(where, name, arguments):
    """The call as Python source, None where it cannot be written so."""
    plain = name.partition(".")[0]
    if where == "method":
        if not arguments.values:
            return None
        owner, rest = arguments.values[0], arguments.values[1:]
        if "=" in owner:
            owner = owner.partition("=")[2]
        attribute = not callable(getattr(torch.Tensor, plain))
        return f"{owner}.{plain}" if attribute and not rest else f"{owner}.{plain}({', '.join(rest)})"
    return f"{where}({', '.join(arguments.values)})"


def _value(lines, expression, seed=0):
    """What the expression gives behind the lines, without their warnings."""
    space = {"torch": torch, "F": F, "nn": torch.nn}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        for line in lines:
            exec(line, space)
        return eval(expression, space)


def run(lines, expression):
    """What the lines and then the expression print, as in Python's shell; None where they fail."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        value = _value(lines, expression)
        if value is not None:
            builtins.print(repr(value))
    return out.getvalue().rstrip()


def _printed(text):
    lines = text.split("\n")
    return "\n".join(lines if len(lines) <= LINES else [*lines[: LINES - 1], "..."])


def shell(lines, expression, result, seeded):
    """An example as it looks in Python's shell."""
    out = [">>> _ = torch.manual_seed(0)"] if seeded else []
    return "\n".join([*out, *[f">>> {line}" for line in lines], f">>> {expression}", _printed(result)])


def of_operator(name, lines):
    """The first sample that gives an example under one of the operator's names, as shell text; None where none does."""
    if name in WRITTEN:
        return _written(*WRITTEN[name])
    for line in lines:
        text, _, limits = line.partition(";")
        if "complex" in limits and "float" not in limits:
            text = re.sub(r"\bt\(", "complex(", text)
        for where in _spellings(name):
            try:
                torch.manual_seed(0)
                arguments = Arguments(text.strip())
                expression = call(where, name, arguments)
                if expression is None:
                    continue
                result = run(arguments.lines, expression)
                drawn = any("torch.rand" in made for made in arguments.lines)
                drawn = drawn or _draws(arguments.lines, expression, result)
            except Exception:  # an argument that this name spells otherwise: the next name, or the next sample, may do
                continue
            return shell(arguments.lines, expression, result, drawn)
    return None


def _written(*lines):
    """An example of these lines, of which the last is looked at."""
    *made, expression = lines
    result = run(made, expression)
    return shell(made, expression, result, _draws(made, expression, result))


def _draws(lines, expression, result):
    """Does the call itself draw random numbers?"""
    return repr(_value(lines, expression, seed=1)) != result


def of_layer(text, number):
    """A layer's example: its constructor from the sample's text, the call, and the shape that comes out."""
    constructor, _, inputs = text.split(";")[0].partition(":")
    given = Arguments(constructor.strip())
    arguments = Arguments(inputs.strip())
    lines = [*given.lines, f"layer = nn.{number}({', '.join(given.values)})", *arguments.lines]
    expression = f"layer({', '.join(arguments.values)})"
    result = run(lines, expression)
    if result.count("\n") > 6 or not result.startswith("tensor"):
        value = _value(lines, expression)
        if isinstance(value, torch.Tensor):
            expression += ".shape"
            result = repr(value.shape)
    return shell(lines, expression, result, True)


def of_first(name, samples):
    """A layer's example, from the first sample that Python takes as it stands; None where there is none."""
    if name in WRITTEN_LAYERS:
        return _written(*WRITTEN_LAYERS[name])
    for text in samples:
        try:
            return of_layer(text, name)
        except Exception:  # a sample in C's terms alone
            continue
    return None
