"""Writes the hostile checkpoints of this folder, and expected.txt: for each, words of the error that must come. Needs
nothing but Python.

Some would run a program that makes a file named CANARY in the current folder, if anything did what they say.
"""

import io
import os
import pickle
import struct
import sys
import zipfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = {}


def text(s):
    s = s.encode()
    return b"X" + struct.pack("<I", len(s)) + s


def integer(v):
    if 0 <= v < 256:
        return b"K" + bytes([v])
    return b"\x8a\x08" + v.to_bytes(8, "little", signed=True)


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def call(module, attribute, *arguments):
    return name(module, attribute) + b"(" + b"".join(arguments) + b"tR"


def storage(key="0", numel=6, kind="FloatStorage", location="cpu"):
    return b"(" + text("storage") + name("torch", kind) + text(key) + text(location) + integer(numel) + b"tQ"


def sizes(*values):
    return b"(" + b"".join(map(integer, values)) + b"t"


NO_STOP = b"0K\x01"  # a pickle that goes on
EMPTY = name("collections", "OrderedDict") + b")R"


def tensor(offset=0, shape=(2, 3), strides=(3, 1), memory=None, grad=b"\x89"):
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        memory or storage(),
        integer(offset),
        sizes(*shape),
        sizes(*strides),
        grad,
        EMPTY,
    )


def whole(body):
    return b"\x80\x02" + body + (b"" if body.endswith(NO_STOP) else b".")


def members(body, data=b"\0" * 24, extra=()):
    return [("x/data.pkl", whole(body)), ("x/byteorder", b"little"), ("x/data/0", data), ("x/version", b"3\n"), *extra]


def archive(parts, method=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as z:
        for member, data in parts:
            info = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            z.writestr(info, data)
    return buffer.getvalue()


def write(file, words, data):
    EXPECTED[file] = words
    with open(os.path.join(HERE, file), "wb") as f:
        f.write(data)


def hostile(file, words, body, **options):
    write(file + ".pt", words, archive(members(body, **options)))


def patched(data, old, new):
    assert data.count(old) >= 1
    return data.replace(old, new)


def programs():
    """Pickles that would run something."""
    hostile("os_system", "os.system was not an allowed global", call("os", "system", text("touch CANARY")))
    hostile("posix_system", "posix.system was not an allowed global", call("posix", "system", text("touch CANARY")))
    hostile("eval", "builtins.eval was not an allowed global", call("builtins", "eval", text("open('CANARY', 'w')")))
    hostile(
        "exec_old_name",
        "builtins.exec was not an allowed global",
        call("__builtin__", "exec", text("open('CANARY', 'w')")),
    )
    hostile(
        "getattr_chain",
        "builtins.getattr was not an allowed global",
        call("builtins", "getattr", name("torch", "Tensor"), text("__init__")),
    )
    hostile(
        "dotted_name",
        "torch.serialization.os.system was not",
        call("torch.serialization", "os.system", text("touch CANARY")),
    )
    hostile(
        "stack_global",
        "os.system was not an allowed global",
        text("os") + text("system") + b"\x93(" + text("touch CANARY") + b"tR",
    )
    hostile(
        "stack_global_by_memo",
        "os.system was not an allowed global",
        text("os") + b"q\x00" + text("system") + b"q\x010h\x00h\x01\x93(" + text("touch CANARY") + b"tR",
    )
    hostile(
        "subprocess",
        "subprocess.Popen was not an allowed global",
        call("subprocess", "Popen", b"]" + text("touch") + b"a" + text("CANARY") + b"a"),
    )
    hostile("import_module", "importlib.import_module was not", call("importlib", "import_module", text("os")))
    hostile(
        "nested_pickle",
        "pickle.loads was not an allowed global",
        call("pickle", "loads", call("_codecs", "encode", text("cos\nsystem\n."), text("latin1"))),
    )
    hostile("numpy_load", "numpy.load was not an allowed global", call("numpy", "load", text("x.npy")))
    hostile("torch_load", "torch.load was not an allowed global", call("torch", "load", text("x.pt")))
    hostile("torch_hub", "torch.hub.load was not an allowed global", call("torch.hub", "load", text("x")))
    hostile(
        "module_class",
        "torch.nn.modules.linear.Linear was not",
        name("torch.nn.modules.linear", "Linear") + b")\x81}" + text("in_features") + b"K\x02sb",
    )
    hostile("inst", "opcode 0x69", b"(" + text("touch CANARY") + b"ios\nsystem\n")
    hostile("obj", "opcode 0x6f", b"(" + text("x") + b"o")
    hostile("extension_code", "opcode 0x82", b"\x82\x01")
    hostile("buffers", "opcode 0x97", b"\x97")
    hostile("text_protocol", "opcode 0x49", b"I1\n")


def tricks():
    """Calls of what is known, with what it is not for."""
    hostile("reduce_on_dtype", "calls a dtype", name("torch", "float32") + b")R")
    hostile("reduce_on_text", "calls a text", text("os.system") + b")R")
    hostile("reduce_on_result", "calls a dict", EMPTY + b")R")
    hostile("reduce_on_tensor_class", "calls torch.Tensor", call("torch", "Tensor", integer(3)))
    hostile("reduce_on_storage_class", "calls torch.FloatStorage", call("torch", "FloatStorage", integer(1 << 40)))
    hostile("newobj_on_tensor", "calls torch.Tensor", name("torch", "Tensor") + b")\x81")
    hostile(
        "newobj_on_parameter", "calls torch.nn.parameter.Parameter", name("torch.nn.parameter", "Parameter") + b")\x81"
    )
    hostile("build_into_dict", "sets the state of a dict", b"}}" + text("a") + b"K\x01sb")
    hostile("build_into_list", "sets the state of a list", b"]}b")
    hostile("build_into_tensor", "sets the state of a tensor", tensor() + b"}" + text("__class__") + b"K\x01sb")
    hostile("build_class_of_ordered_dict", "sets the state of a dict", EMPTY + text("x") + b"b")
    hostile("build_twice", "twice", EMPTY + b"}b}b")
    hostile("build_global", "sets the state of a global", name("torch", "Tensor") + b"}b")
    hostile("append_to_tuple", "appends to a tuple", b")K\x01a")
    hostile("append_to_tensor", "appends to a tensor", tensor() + b"K\x01a")
    hostile("append_to_text", "appends to a text", text("x") + b"K\x01a")
    hostile("put_into_list", "Can only SETITEM for dict", b"]K\x01K\x02s")
    hostile("list_as_key", "a list for a key", b"}]K\x01s")
    hostile("dict_as_key", "a dict for a key", b"}}K\x01s")
    hostile("heavy_key", "too many values for a key", b"}K\x01" + b"2\x86" * 64 + b"K\x02s")
    hostile("heavy_key_in_a_set", "too many values for a key", b"\x8f(K\x01" + b"2\x86" * 64 + b"\x90")
    hostile(
        "heavy_key_of_a_call", "too many values for a key", call("builtins", "set", b"]K\x01" + b"2\x86" * 64 + b"a")
    )
    hostile("heavy_key_of_nothing", "too many values for a key", b"})" + b"2\x86" * 40 + b"Ns")
    hostile(
        "many_heavy_keys",
        "keys that hold too many values",
        b"K\x01" + b"2\x86" * 13 + b"q\x000}(" + b"h\x00N" * 4000 + b"u",
    )
    hostile(
        "copies",
        "more memory than its bytes",
        name("builtins", "set") + b"q\x000](" + b"K\x01" * 4000 + b"e\x85q\x010(" + b"h\x00h\x01R" * 2000 + b"t",
    )
    hostile("ordered_dict_of_text", "do not fit", call("collections", "OrderedDict", text("ab")))
    hostile("ordered_dict_of_singles", "do not fit", call("collections", "OrderedDict", b"]]K\x01aa"))
    hostile("set_of_lists", "do not fit", call("builtins", "set", b"]]a"))
    hostile("set_of_a_number", "do not fit", call("builtins", "set", integer(3)))
    hostile("bytearray_of_a_size", "do not fit", call("builtins", "bytearray", integer(1 << 40)))
    hostile("bytearray_utf7", "do not fit", call("builtins", "bytearray", text("x"), text("utf-7")))
    hostile("encode_rot13", "do not fit", call("_codecs", "encode", text("x"), text("rot13")))
    hostile("encode_beyond_latin1", "do not fit", call("_codecs", "encode", text("\u20ac"), text("latin1")))
    hostile("complex_of_texts", "do not fit", call("builtins", "complex", text("1"), text("2")))
    hostile("size_of_texts", "do not fit", call("torch", "Size", b"(" + text("a") + b"t"))
    hostile("device_of_a_number", "do not fit", call("torch", "device", integer(1)))
    hostile("layout_of_a_list", "do not fit", call("torch.serialization", "_get_layout", b"]"))
    hostile(
        "rebuild_without_storage",
        "do not fit",
        call("torch._utils", "_rebuild_tensor_v2", integer(0), integer(0), sizes(2), sizes(1), b"\x89", EMPTY),
    )
    hostile(
        "rebuild_by_other",
        "do not fit",
        call("torch._tensor", "_rebuild_from_type_v2", name("torch", "Size"), name("torch", "Tensor"), b"(t", b"}"),
    )
    hostile(
        "rebuild_as_storage",
        "do not fit",
        call(
            "torch._tensor",
            "_rebuild_from_type_v2",
            name("torch._utils", "_rebuild_tensor_v2"),
            name("torch", "FloatStorage"),
            b"(t",
            b"}",
        ),
    )
    hostile("parameter_of_text", "do not fit", call("torch._utils", "_rebuild_parameter", text("x"), b"\x88", EMPTY))
    hostile("sparse", "_rebuild_sparse_tensor", call("torch._utils", "_rebuild_sparse_tensor", b")"))


def lies():
    """Storages and tensors that say what is not so."""
    hostile("beyond_storage", "beyond its storage", tensor(shape=(2, 4), strides=(4, 1)))
    hostile("offset_beyond", "beyond its storage", tensor(offset=5))
    hostile("offset_huge", "beyond its storage", tensor(offset=(1 << 62)))
    hostile("offset_negative", "offset is negative", tensor(offset=-1))
    hostile("stride_negative", "strides are negative", tensor(strides=(-3, 1), offset=3))
    hostile("stride_huge", "strides are too large", tensor(strides=(1 << 62, 1), shape=(3, 3)))
    hostile("stride_overflow", "strides are too large", tensor(strides=((1 << 63) - 1, (1 << 63) - 1), shape=(2, 2)))
    hostile("shape_negative", "", tensor(shape=(-2, 3)))
    hostile("shape_overflow", "", tensor(shape=(1 << 33, 1 << 33), strides=(0, 0)))
    hostile("shape_and_stride_lengths", "do not fit", tensor(shape=(2, 3), strides=(1,)))
    hostile("dims", "dimensions", tensor(shape=(1,) * 40, strides=(1,) * 40))
    hostile(
        "shape_of_floats",
        "do not fit",
        call(
            "torch._utils", "_rebuild_tensor_v2", storage(), integer(0), b"(G@\0\0\0\0\0\0\0t", sizes(1), b"\x89", EMPTY
        ),
    )
    hostile("storage_claims_more", "should have 4000 bytes, its member has 24", tensor(memory=storage(numel=1000)))
    hostile(
        "storage_claims_less",
        "should have 4 bytes, its member has 24",
        tensor(memory=storage(numel=1), shape=(1,), strides=(1,)),
    )
    hostile("storage_negative", "impossible size", tensor(memory=storage(numel=-6)))
    hostile("storage_huge", "impossible size", tensor(memory=storage(numel=(1 << 62))))
    hostile("storage_missing", "there is no member", tensor(memory=storage(key="1")))
    hostile("storage_up_and_away", "there is no member", tensor(memory=storage(key="../../../../etc/passwd")))
    hostile("storage_key_absolute", "there is no member", tensor(memory=storage(key="/etc/passwd")))
    hostile(
        "storage_two_types",
        "two types or sizes",
        b"]" + tensor() + b"a" + tensor(memory=storage(kind="DoubleStorage", numel=3)) + b"a",
    )
    hostile(
        "storage_not_a_type",
        "a type that is none",
        b"(" + text("storage") + name("torch", "Tensor") + text("0") + text("cpu") + integer(6) + b"tQ",
    )
    hostile(
        "id_of_module",
        "Only persistent_load of storage is allowed",
        b"(" + text("module") + name("torch", "Tensor") + text("0") + text("cpu") + integer(6) + b"tQ",
    )
    hostile("id_of_text", "is not one", text("storage") + b"Q")
    hostile(
        "part_beyond",
        "beyond the whole",
        b"("
        + text("storage")
        + name("torch", "FloatStorage")
        + text("0")
        + text("cpu")
        + integer(6)
        + b"("
        + text("1")
        + integer(4)
        + integer(3)
        + b"ttQ",
    )
    hostile(
        "part_negative",
        "beyond the whole",
        b"("
        + text("storage")
        + name("torch", "FloatStorage")
        + text("0")
        + text("cpu")
        + integer(6)
        + b"("
        + text("1")
        + integer(-4)
        + integer(3)
        + b"ttQ",
    )


def broken():
    """Pickles that ask for too much, end too early or make no sense."""
    hostile("memo_huge", "larger than the pickle", b"Nr\xff\xff\xff\xff")
    hostile("memo_unknown", "stands for nothing", b"h\x05")
    hostile("memo_unknown_long", "stands for nothing", b"j\xff\xff\xff\xff")
    hostile("text_huge", "ends too early", b"X\xff\xff\xff\xffabc")
    hostile("text_huger", "ends too early", b"\x8d" + b"\xff" * 8 + b"abc")
    hostile("bytes_huger", "ends too early", b"\x8e" + b"\xff" * 7 + b"\x7fabc")
    hostile("long_huge", "ends too early", b"\x8b\xff\xff\xff\x7f")
    hostile("text_not_utf8", "not UTF-8", b"X\x02\0\0\0\xff\xfe")
    hostile("marks", "nested too deeply", b"(" * 70000)
    hostile("no_stop", "ends too early", b"NN" + NO_STOP)
    hostile("stack_empty", "the stack is empty", b"0")
    hostile("mark_missing", "there is no mark", b"Nt")
    hostile("stop_in_list", "stops inside of a list", b"]((")
    hostile("pop_below_mark", "the stack is empty", b"N(K\x01ss")
    hostile("odd_pairs", "a key without a value", b"}(K\x01u")
    hostile("name_of_numbers", "not a text", b"K\x01K\x02\x93")
    hostile("name_with_zero", "not a text", b"cos\0x\nsystem\n")
    hostile("name_without_end", "does not end", b"cos")
    hostile("protocol_nine", "newer than 5", b"\x80\x09N")
    hostile("unknown_opcode", "opcode 0xff", b"\xff")
    hostile("args_not_a_tuple", "not a tuple", name("collections", "OrderedDict") + b"]R")
    hostile("cut_in_a_list", "stops inside of a list", b"(")


def archives():
    """Zip archives that lie."""
    good = archive(members(tensor()))
    write("zip_truncated.pt", "", good[: len(good) // 2])
    write("zip_no_directory.pt", "", good[: good.rindex(b"PK\x05\x06")])
    write(
        "zip_two_pickles.pt",
        "two members are named",
        archive(members(tensor(), extra=[("x/data.pkl", whole(call("os", "system", text("touch CANARY"))))])),
    )
    write("zip_no_pickle.pt", "", archive([("x/data.pk", b"")]))
    write("zip_script.pt", "TorchScript", archive(members(tensor(), extra=[("x/constants.pkl", whole(b")"))])))
    write("zip_crc.pt", "checksum", patched(good, struct.pack("<I", zlib.crc32(b"\0" * 24)), b"\1\2\3\4"))
    write("zip_pickle_crc.pt", "checksum", patched(good, b"cpu", b"cpv"))
    write(
        "zip_byteorder.pt",
        "byte order",
        archive([(n, b"middle" if n == "x/byteorder" else d) for n, d in members(tensor())]),
    )
    write(
        "zip_encrypted.pt",
        "encrypted",
        patched(good, b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"),
    )
    entry = good.index(b"PK\x01\x02")
    write("zip_method.pt", "", good[:entry] + patched(good[entry:], b"\x00\x00\x00\x00!\x00", b"\x0c\x00\x00\x00!\x00"))
    third = [i for i in range(len(good)) if good.startswith(b"PK\x01\x02", i)][2]
    first = struct.unpack("<I", good[entry + 42 : entry + 46])[0]
    write("zip_overlap.pt", "", good[: third + 42] + struct.pack("<I", first) + good[third + 46 :])
    write("zip_offset_beyond.pt", "", good[: third + 42] + b"\xff\xff\xff\x7f" + good[third + 46 :])
    write("zip_size_beyond.pt", "", good[: third + 20] + b"\xff\xff\xff\x7f" * 2 + good[third + 28 :])
    at = good.rindex(b"PK\x05\x06")
    write("zip_directory_beyond.pt", "does not fit", good[: at + 16] + b"\xff\xff\xff\x7f" + good[at + 20 :])
    write("zip_many_entries.pt", "", good[: at + 8] + b"\xff\xff\xff\xff" + good[at + 12 :])
    zeros = bytes(1 << 28)
    bomb = archive(
        members(tensor(memory=storage(numel=1 << 26), shape=(1 << 26,), strides=(1,)), data=zeros), zipfile.ZIP_DEFLATED
    )
    write("zip_bomb.pt", "too much for their", bomb)
    write(
        "zip_size_impossible.pt",
        "",
        patched(archive(members(tensor()), zipfile.ZIP_DEFLATED), struct.pack("<I", 24), struct.pack("<I", 1 << 30)),
    )


def old_files():
    """The format before zip archives."""

    def old(body, keys=("0",), data=struct.pack("<q", 6) + b"\0" * 24, version=1001):
        return (
            b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, version, {"little_endian": True}))
            + whole(body)
            + pickle.dumps(list(keys), 2)
            + data
        )

    write("old_system.pt", "os.system was not an allowed global", old(call("os", "system", text("touch CANARY"))))
    write(
        "old_marks_alone.pt",
        "stops inside of a list",
        pickle.dumps(0x1950A86A20F9469CFC6C, 2) + b"\x80\x02" + b"(" * 31 + b"1" * 11 + b".",
    )
    write("old_version.pt", "protocol is not 1001", old(tensor(), version=7))
    write("old_short.pt", "beyond its end", old(tensor(), data=struct.pack("<q", 6) + b"\0" * 20))
    write("old_size.pt", "another size", old(tensor(), data=struct.pack("<q", 600) + b"\0" * 24))
    write("old_unlisted.pt", "not listed", old(tensor(), keys=()))
    write(
        "old_unknown_key.pt",
        "nothing looks at",
        old(tensor(), keys=("0", "1"), data=struct.pack("<q", 6) + b"\0" * 24 + struct.pack("<q", 0)),
    )
    write("old_beyond.pt", "beyond its storage", old(tensor(offset=1)))
    write("old_cut.pt", "", old(tensor())[:60])
    write("old_keys.pt", "list of storages", old(tensor()).replace(pickle.dumps(["0"], 2), pickle.dumps(0, 2)))


def safetensors():
    def made(header, data=b"\0" * 24):
        header = header.encode() if isinstance(header, str) else header
        return struct.pack("<Q", len(header)) + header + data

    entry = '"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'
    files = {
        "beyond": ("beyond its end", made('{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,240]}}')),
        "backwards": ("beyond its end", made('{"a":{"dtype":"F32","shape":[0],"data_offsets":[24,0]}}')),
        "size": ("more or fewer bytes", made('{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,24]}}')),
        "overflow": ("", made('{"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,24]}}')),
        "twice": ("one name", made("{" + entry + "," + entry + "}")),
        "overlap": ("share bytes", made("{" + entry + ',"b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}')),
        "gap": ("gap", made('{"a":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}')),
        "rest": ("longer than its tensors", made("{" + entry + "}", b"\0" * 28)),
        "negative": ("0 or more", made('{"a":{"dtype":"F32","shape":[-2,3],"data_offsets":[0,24]}}')),
        "huge_number": (
            "too large",
            made('{"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,24]}}'),
        ),
        "dims": ("too long", made('{"a":{"dtype":"F32","shape":[' + ",".join("1" * 99) + '],"data_offsets":[0,24]}}')),
        "dtype": ("is not in Taper", made('{"a":{"dtype":"F8_E5M2","shape":[24],"data_offsets":[0,24]}}')),
        "key": ("unknown key", made('{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24],"x":1}}')),
        "missing": ("key is missing", made('{"a":{"dtype":"F32","shape":[2,3]}}')),
        "open_text": ("does not end", made('{"a')),
        "escape": ("unknown escape", made('{"\\x":{}}')),
        "surrogate": ("surrogate", made('{"\\ud800":{}}')),
        "utf8": ("not UTF-8", made(b'{"\xff":{}}')),
        "behind": ("goes on behind", made("{" + entry + "}x")),
        "comma": ("comma", made("{" + entry + entry + "}")),
        "metadata": ("expected a text", made('{"__metadata__":{"a":1},' + entry + "}")),
        "header": ("", struct.pack("<Q", 1 << 62) + b"{}" + b"\0" * 24),
    }
    for file, (words, data) in files.items():
        write(f"safe_{file}.safetensors", words, data)


if __name__ == "__main__":
    for file in os.listdir(HERE):
        if file.endswith((".pt", ".safetensors")):
            os.remove(os.path.join(HERE, file))
    for family in programs, tricks, lies, broken, archives, old_files, safetensors:
        family()
    with open(os.path.join(HERE, "expected.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{file}\t{words}\n" for file, words in sorted(EXPECTED.items()))
    print(len(EXPECTED), "files", file=sys.stderr)
