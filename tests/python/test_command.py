"""The `taper` command: one parser, help with examples, completion, info and doctor."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import taper
from taper import _command, _doctor, _report, _scaling, _topology


def command(*arguments, **options):
    done = subprocess.run(
        [sys.executable, "-m", "taper", *map(str, arguments)], capture_output=True, text=True, timeout=120, **options
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", sorted(_command.COMMANDS))
def test_help_tells_what_it_does_and_shows_examples(name):
    status, out, err = command(name, "--help")
    assert status == 0
    assert out.startswith(f"usage: taper {name}")
    assert not err
    assert "examples:\n  " in out
    assert f"  taper {name}" in out or f"$(taper {name}" in out


def test_help_shows_one_spelling_of_an_option():
    """torchrun's options have two, and all take both."""
    help = command("launch", "--help")[1]
    assert "--log-dir" in help and "--log_dir" not in help
    assert _command.parser_of("launch").parse_args(["--log_dir", "logs", "train.py"]).log_dir == "logs"


def test_examples_are_understood():
    for name, (*_, examples) in _command.COMMANDS.items():
        for line in examples.split("\n"):
            words = line.split()
            if words[0] == "taper" and name not in ("run", "profile"):
                given = [word.strip("'") for word in words[2:]]
                _command.parser_of(name).parse_args(given[: given.index(">")] if ">" in given else given)


def test_what_is_not_understood():
    assert command("wach")[2].startswith("taper: there is no command 'wach'; did you mean 'watch'?")
    status, out, err = command("info", "--yaml")
    assert status == 2
    assert not out
    assert "unrecognized arguments: --yaml" in err
    assert command("torch")[0] == 2
    assert "ACTION" in command("torch")[2]
    assert command("profile", "--top", "3")[0] == 2


def test_options_after_the_script_are_the_scripts(tmp_path):
    (tmp_path / "show.py").write_text("import sys, torch; torch.ones(2) + 1; print(sys.argv[1:])")
    for words in (["run"], ["profile", "--top", "1"]):
        status, out, err = command(*words, tmp_path / "show.py", "--top", "5", "--help")
        assert status == 0, err
        assert "['--top', '5', '--help']" in out, err


def completed(words, typed=""):
    """What bash offers behind some words, for what was typed of the next."""
    script = f"""eval "$({sys.executable} -m taper completion bash)"
COMP_WORDS=({" ".join(words)} "{typed}") COMP_CWORD={len(words)}
_taper
printf '%s\\n' "${{COMPREPLY[@]}}" """
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes():
    assert {"run", "doctor", "--version"} <= set(completed(["taper"]))
    assert {"--serve", "--smooth"} <= set(completed(["taper", "watch"], "--"))
    assert completed(["taper", "torch"]) == ["install", "remove", "status", "wheel"]
    assert completed(["taper", "train"]) == ["digits", "shakespeare"]
    assert completed(["taper", "train"], "d") == ["digits"]
    options = completed(["taper", "launch"], "--")
    assert "--nproc-per-node" in options
    assert "--nproc_per_node" not in options
    for files in (["taper", "run"], ["taper", "watch"], ["taper", "train", "digits", "--out"]):
        assert completed(files) == []  # bash goes on with the names of files


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(shell):
    script = command("completion", shell)[1]
    assert all(name in script for name in _command.COMMANDS)
    assert ("-l serve" if shell == "fish" else "--serve") in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_at_the_first_tab(tmp_path):
    """zsh loads a file of $fpath when it is first asked; that time, too, it must answer."""
    (tmp_path / "_taper").write_text(command("completion", "zsh")[1])
    script = f"""zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'stty -echo; PS1=""; bindkey "^I" complete-word'
zpty -w z 'fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -D; print READ''Y'
zpty -r -m z text '*READY*'
zpty -w -n z $'taper doc\t'
zpty -r -m z text '*doctor*'
print answered
"""
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "answered\n", done


def test_info_as_json():
    status, out, _ = command("info", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["taper"] == _report.version()
    assert found["devices"][0] == "cpu"
    assert {"name", "version", "file"} <= set(found["libraries"][0])
    assert set(found["accelerators"]) == {"cuda", "xpu"}


def test_info_tells_cores_caches_and_nodes(tmp_path):
    files = {f"cpu/cpu{p}/topology/thread_siblings_list": f"{p % 4},{p % 4 + 4}" for p in range(8)}
    for p in range(8):
        for index, (level, kind, size, shared) in enumerate(
            [
                (1, "Data", "48K", f"{p % 4},{p % 4 + 4}"),
                (1, "Instruction", "32K", str(p)),
                (3, "Unified", "32M", "0-7"),
            ]
        ):
            cache = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}
            files.update({f"cpu/cpu{p}/cache/index{index}/{name}": str(text) for name, text in cache.items()})
    files |= {"node/online": "0-1", "node/node0/cpulist": "0-1,4-5", "node/node1/cpulist": "2-3,6-7"}
    files["node/node0/meminfo"] = "Node 0 MemTotal:  1048576 kB"
    for name, text in files.items():
        path = tmp_path / "sys/devices/system" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    told = dict(_topology.rows(_topology.topology([0, 1, 2, 4, 5], str(tmp_path))))
    assert told["cores"] == "3, 1 to 2 hardware threads each (processors 0-2,4-5)"
    assert told["caches"] == "level 1: 3 of 48 KiB, level 3: 1 of 32 MiB"
    assert told["NUMA node 0"] == "processors 0-1,4-5, 1 GiB"
    assert told["NUMA node 1"] == "processors 2"
    assert dict(_topology.rows(_topology.topology([0, 1], str(tmp_path / "nothing")))) == {
        "cores": "2 (processors 0-1)"
    }


def test_scaling_is_measured_at_each_number_of_threads():
    assert _scaling.counts_up_to(1) == [1]
    assert _scaling.counts_up_to(6) == [1, 2, 4, 6]
    seen = []
    before = taper.get_num_threads()
    rows = {"a row": lambda t: lambda: seen.append(t.get_num_threads())}
    found = _scaling.measure([1, 2, 3], rounds=1, seconds=0, rows=rows)
    assert list(found["a row"]) == ["1", "2", "3"]
    assert set(seen) == {1, 2, 3}
    assert taper.get_num_threads() == before
    assert "a row" in _scaling.table({"a row": {"1": 20.0, "2": 10.0}})
    assert "2.0" in _scaling.table({"a row": {"1": 20.0, "2": 10.0}})


def test_the_man_page_has_every_command():
    page = _command.man_page("1.2.3")
    assert all(f".SS taper {name}" in page for name in _command.COMMANDS)
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", "-"], input=page, capture_output=True, text=True)
        assert not done.stderr, done.stderr


# ---- The doctor, on machines made of files ----
FACTS = {
    "library": "/lib/libtaper.so",
    "processor": "a processor (AVX2)",
    "threads": 4,
    "rank": None,
    "libraries": [
        {"name": "BLAS", "version": "OpenBLAS 0.3.21", "file": "/lib/libblas.so.3"},
        {"name": "oneDNN", "version": "2.6.3", "file": "/lib/libdnnl.so.2"},
    ],
    "accelerators": {
        "cuda": {"devices": [], "missing": "libcuda.so.1 was not found"},
        "xpu": {"devices": [], "missing": "no OpenCL"},
    },
}


def machine(tmp_path, files=(), environment=None, processors=range(4), **facts):
    for name, text in dict(files).items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return _doctor.Machine(str(tmp_path), environment or {}, {**FACTS, **facts}, processors)


def slow(check, *arguments, **options):
    return [
        f"{text} -> {remedy}" for level, _, text, remedy in check(machine(*arguments, **options)) if level == "slow"
    ]


def blas_named(version):
    return [{"name": "BLAS", "version": version, "file": "/lib/libblas.so.3"}]


def test_the_doctor_knows_a_blas_by_what_it_says(tmp_path):
    assert not slow(_doctor.blas, tmp_path)
    assert "-DTAPER_BLAS=OpenBLAS" in slow(_doctor.blas, tmp_path, libraries=blas_named("libblas.so.3"))[0]
    one = blas_named("OpenBLAS 0.3.21 for one thread: products take turns")
    assert "OpenMP" in slow(_doctor.blas, tmp_path, libraries=one)[0]


def test_the_doctor_multiplies_for_a_test(tmp_path, monkeypatch):
    [(level, *_)] = _doctor.products(machine(tmp_path))
    assert level == "ok"
    right = taper.Tensor.__matmul__
    monkeypatch.setattr(
        taper.Tensor, "__matmul__", lambda a, b: right(a, b) + (a.dtype == taper.float64 and a.shape[0] > 64)
    )
    [(level, _, text, remedy)] = _doctor.products(machine(tmp_path))
    assert level == "wrong"
    assert "torch.float64 are wrong" in text
    assert "OPENBLAS_CORETYPE" in remedy


def test_the_doctor_looks_at_threads_and_masks(tmp_path):
    assert not slow(_doctor.threads, tmp_path)
    assert "OMP_NUM_THREADS=4" in slow(_doctor.threads, tmp_path, threads=8)[0]
    assert "leaves cores idle" in slow(_doctor.threads, tmp_path, environment={"OMP_NUM_THREADS": "1"}, threads=1)[0]
    pairs = {f"/sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list": f"{i % 2},{i % 2 + 2}" for i in range(4)}
    assert not slow(_doctor.threads, tmp_path, pairs, threads=2)  # two cores of two hyperthreads each
    online = {"/sys/devices/system/cpu/online": "0-15"}
    assert (
        "may use 1 of 16 processors (number 3): all its threads share one"
        in slow(_doctor.affinity, tmp_path, online, processors=[3])[0]
    )
    assert not slow(_doctor.affinity, tmp_path, online, processors=range(8))
    assert "OMP_PLACES" in slow(_doctor.affinity, tmp_path, environment={"OMP_PLACES": "{0},{9}"})[0]
    # A rank of four processors among others of the same job: the machine is full, and no more.
    assert not slow(_doctor.load, tmp_path, {**online, "/proc/loadavg": "16.2 9 3 1/99 7"}, processors=range(4))
    busy = slow(_doctor.load, tmp_path, {**online, "/proc/loadavg": "31.5 9 3 1/99 7"}, processors=range(4))
    assert "31.5 processes for 16 processors" in busy[0]


def test_the_doctor_reads_settings(tmp_path):
    def told(**environment):
        return {
            name: f"{text} -> {remedy}"
            for _, name, text, remedy in _doctor.variables(machine(tmp_path, (), environment))
        }

    for value in ("abc", "0", "-3", "8abc", "4.5"):
        assert (
            f"'{value}' cannot be read -> expected a whole number of threads"
            in told(OMP_NUM_THREADS=value)["OMP_NUM_THREADS"]
        )
    assert not told(OMP_NUM_THREADS="8,2", OMP_PROC_BIND="spread,close", OMP_PLACES="cores(4)", TAPER_STALL="2.5")
    assert not told(OMP_NUM_THREADS="", TAPER_ISA="avx2", TAPER_STORE_BYTES="1e9", TAPER_SHARED=str(tmp_path))
    assert "expected base or avx2" in told(TAPER_ISA="sse")["TAPER_ISA"]
    assert "interfaces of this machine" in told(TAPER_SOCKET_IFNAME="lo,none7")["TAPER_SOCKET_IFNAME"]
    assert not told(TAPER_SOCKET_IFNAME="lo")
    assert set(told(TAPER_STALL="30s", TAPER_STORE_BYTES="4G", TAPER_XPU_TILES="two", OMP_PROC_BIND="yes")) == {
        "TAPER_STALL",
        "TAPER_STORE_BYTES",
        "TAPER_XPU_TILES",
        "OMP_PROC_BIND",
    }
    assert "did you mean TAPER_ONEDNN?" in told(TAPER_ONEDN="0")["TAPER_ONEDN"]
    assert not told(TAPER_HOME="/home", OTHER="abc")
    many = slow(_doctor.threads, tmp_path, environment={"OMP_NUM_THREADS": "64"}, threads=64)
    assert "64 on 4 processors (4 cores): threads wait" in many[0]


def test_what_cannot_be_read_is_said_once_by_name(tmp_path):
    """By the first process of a job, not by the processes that it starts."""
    (tmp_path / "script.py").write_text(
        "import subprocess, sys, taper\nprint(taper.get_num_threads())\n"
        "if sys.argv[1:]: subprocess.run([sys.executable, __file__], check=True)\n"
    )
    bad = {**os.environ, "TAPER_STALL": "soon", "TAPER_ISA": "base"}
    words = "UserWarning: TAPER_STALL='soon' cannot be read: expected a number of seconds above 0"
    for words_of in (["run", tmp_path / "script.py", "again"], ["launch", "--nproc", 2, tmp_path / "script.py"]):
        status, _, err = command(*words_of, env=bad)
        assert status == 0, err
        assert err.count(words) == 1, err
        assert "TAPER_ISA" not in err
    rank = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert not command("--version", env={**bad, **rank})[2]
    status, out, _ = command("doctor", env={**os.environ, "OMP_NUM_THREADS": "abc"})
    assert status == 1
    assert "OMP_NUM_THREADS: 'abc' cannot be read" in out
    assert "1 has no effect" in out


def test_threads_are_the_processors_where_the_number_cannot_be_read():
    counts = set()
    for value in ("abc", "0", "8abc", "-1", ""):
        env = {**os.environ, "OMP_NUM_THREADS": value}
        counts.add(
            subprocess.check_output([sys.executable, "-c", "import taper; print(taper.get_num_threads())"], env=env)
        )
    assert len(counts) == 1
    env = {**os.environ, "OMP_NUM_THREADS": " 3,2"}
    found = subprocess.check_output([sys.executable, "-c", "import taper; print(taper.get_num_threads())"], env=env)
    assert found == b"3\n"


def test_the_doctor_looks_at_cgroups_clock_and_memory(tmp_path):
    limited = {"/proc/self/cgroup": "0::/job/step\n", "/sys/fs/cgroup/job/cpu.max": "150000 100000"}
    assert "OMP_NUM_THREADS=1" in slow(_doctor.cgroup, tmp_path, limited)[0]
    (tmp_path / "sys/fs/cgroup/job/cpu.max").write_text("max 100000")
    assert not slow(_doctor.cgroup, tmp_path)
    governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    assert "performance" in slow(_doctor.governor, tmp_path, {governor: "ondemand"})[0]
    huge = "/sys/kernel/mm/transparent_hugepage/enabled"
    assert "madvise" in slow(_doctor.memory, tmp_path, {huge: "always madvise [never]"})[0]
    assert (
        "swaps"
        in slow(
            _doctor.memory, tmp_path, {huge: "[madvise]", "/proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 9 kB"}
        )[0]
    )


def test_the_doctor_looks_at_file_systems(tmp_path):
    mounts = {"/proc/mounts": "disk / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n"}
    told = slow(_doctor.files, tmp_path, mounts, {"HOME": "/home/someone"})
    assert any("TAPER_CACHE=/tmp" in line for line in told)
    told = slow(_doctor.files, tmp_path, mounts, {"HOME": "/home/someone", "TAPER_CACHE": "/local/cache"})
    assert not any("kernel" in line for line in told)
    in_a_file = {"HOME": "/", "TAPER_CACHE": "/a file/cache"}
    told = slow(_doctor.files, tmp_path, {**mounts, "/a file": "no folder"}, in_a_file)
    assert any("/a file/cache cannot be written" in line and "TAPER_CACHE=/tmp" in line for line in told)


def test_the_doctor_looks_at_gpus(tmp_path):
    assert not slow(_doctor.gpus, tmp_path)
    told = slow(_doctor.gpus, tmp_path, {"/dev/nvidia0": ""})
    assert "libcuda.so.1 was not found" in told[0]
    assert "module load" in told[0]
    library = {"name": "cuDNN", "serves": "convolutions", "instead": "own kernels", "version": None, "file": None}
    cuda = {"devices": [{"index": 0}], "backend": "CUDA", "libraries": [library]}
    told = slow(_doctor.gpus, tmp_path, accelerators={"cuda": cuda, "xpu": FACTS["accelerators"]["xpu"]})
    assert "pip install nvidia-cudnn-cu12" in told[0]


def test_the_doctor_sees_an_mpi_that_does_not_match(tmp_path, monkeypatch):
    monkeypatch.setattr(_doctor.Machine, "mpi4py", lambda self: None)
    here = str(tmp_path / "lib" / "libtaper.so")
    files = {"/lib/libtaper-mpi-openmpi.so": ""}
    hydra, open_mpi = {"PMI_RANK": "0"}, {"OMPI_COMM_WORLD_RANK": "0"}
    assert "TAPER_MPICC" in slow(_doctor.mpi, tmp_path, files, hydra, library=here)[0]
    assert not slow(_doctor.mpi, tmp_path, files, open_mpi, library=here)
    assert "unset TAPER_MPI" in slow(_doctor.mpi, tmp_path, files, {**open_mpi, "TAPER_MPI": "mpich"}, library=here)[0]
    monkeypatch.setattr(_doctor.Machine, "mpi4py", lambda self: "mpich")
    assert "mpi4py" in slow(_doctor.mpi, tmp_path, files, open_mpi, library=here)[0]


def test_the_doctors_status_and_json():
    status, out, _ = command("doctor", "--json")
    found = json.loads(out)
    assert {finding["subject"] for finding in found} >= {"BLAS", "threads", "load", "memory"}
    assert status == any(finding["level"] == "slow" for finding in found)
    assert all(finding["remedy"] for finding in found if finding["level"] == "slow")
    status, out, _ = command("doctor", env={**os.environ, "TAPER_ISA": "base"})
    assert status == 1
    assert "unset TAPER_ISA" in out
