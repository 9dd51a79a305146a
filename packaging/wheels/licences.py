"""Adds to a wheel the licences of what travels inside, and says for which Python and processor it is:
licences.py WHEEL SYSROOT BLAS [TAG], with a TAG like cp312-cp312-linux_aarch64.

SYSROOT holds Debian's copyright files of libgomp, libpng, libjpeg and zlib, BLAS the unpacked scipy-openblas32."""

import pathlib
import re
import subprocess
import sys
import tempfile

wheel, sysroot, blas = map(pathlib.Path, sys.argv[1:4])
tag = sys.argv[4:]
texts = {
    f"{name}.txt": sysroot / "usr/share/doc" / name / "copyright"
    for name in ("libpng16-16", "libjpeg62-turbo", "zlib1g")
}
texts["OpenBLAS.txt"] = next(blas.glob("*.dist-info/licenses/LICENSE.txt"))
# libgomp's page is a link to the compiler's, which Debian keeps with another package; the runtime's terms are short.
texts["libgomp.txt"] = pathlib.Path(__file__).with_name("libgomp.txt")
with tempfile.TemporaryDirectory() as scratch:
    run = [sys.executable, "-m", "wheel"]
    subprocess.run([*run, "unpack", "--dest", scratch, wheel], check=True, stdout=subprocess.DEVNULL)
    (unpacked,) = pathlib.Path(scratch).iterdir()
    (info,) = unpacked.glob("*.dist-info")
    folder = info / "licenses"
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text.read_bytes())
    if tag:
        about = info / "WHEEL"
        about.write_text(re.sub(r"^Tag: .*$", f"Tag: {tag[0]}", about.read_text(), flags=re.M))
    wheel.unlink()
    subprocess.run([*run, "pack", "--dest-dir", wheel.parent, unpacked], check=True, stdout=subprocess.DEVNULL)
