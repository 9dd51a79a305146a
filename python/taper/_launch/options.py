"""What a launch is asked for: torchrun's options, in both spellings and with its PET_ variables, and those of Taper's
own."""

import argparse
import os
import socket
import sys


class _FromVariable(argparse.Action):
    """An option whose default is the variable PET_NAME, as torchrun's are."""

    def __init__(self, option_strings, dest, default=None, type=None, **kwargs):
        text = os.environ.get("PET_" + dest.upper())
        if text is not None:
            default = type(text) if type else text
        super().__init__(option_strings, dest, default=default, type=type, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, values)


class _FlagFromVariable(argparse.Action):
    """The same for an option without a value."""

    def __init__(self, option_strings, dest, **kwargs):
        default = os.environ.get("PET_" + dest.upper(), "0").lower() in ("1", "true", "yes")
        super().__init__(option_strings, dest, nargs=0, default=default, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, True)


def _both(name):
    """--two-words, and --two_words as well."""
    return list(dict.fromkeys((f"--{name}", f"--{name.replace('-', '_')}")))


def get_args_parser(program="torchrun"):
    """torchrun's parser, with --cpu-bind and --live beside."""
    parser = argparse.ArgumentParser(
        program, description="Starts a script as several processes that work together, and watches them."
    )
    add_arguments(parser)
    return parser


def add_arguments(parser):
    """Adds the options to a parser."""

    def value(name, default=None, *more, **kwargs):
        parser.add_argument(*more, *_both(name), action=_FromVariable, default=default, **kwargs)

    def flag(name, *more, help):
        parser.add_argument(*more, *_both(name), action=_FlagFromVariable, help=help)

    value("nnodes", "1", help="how many nodes: N, or MIN:MAX")
    parser.add_argument(
        "--nproc",
        *_both("nproc-per-node"),
        dest="nproc_per_node",
        action=_FromVariable,
        default="1",
        help="processes per node: a number, auto, cpu or gpu",
    )
    value("rdzv-backend", "static", help="how nodes meet: static (node 0 is known) or c10d (the first ones that come)")
    value("rdzv-endpoint", "", help="HOST:PORT where they meet")
    value("rdzv-id", "none", help="the job's name")
    value("rdzv-conf", "", help="KEY=VALUE,... of the meeting: timeout, join_timeout, read_timeout, is_host")
    flag("standalone", help="one node that needs nobody: a free port is taken")
    value("max-restarts", 0, type=int, help="how often all processes are started again after a failure")
    value("monitor-interval", 0.1, type=float, help="seconds between two looks at the processes")
    value(
        "start-method",
        "spawn",
        choices=["spawn", "fork", "forkserver"],
        help="accepted; processes are always started anew",
    )
    value("event-log-handler", "null", help="accepted and not used")
    value("role", "default", help="a name for these processes")
    flag("module", "-m", help="the script is a module's name, as in python -m")
    flag("no-python", help="the script is a program of its own")
    flag("run-path", help="accepted; scripts are always run this way")
    value("log-dir", None, help="where per-rank logs go")
    parser.add_argument(
        "-r",
        "--redirects",
        action=_FromVariable,
        default="0",
        help="streams that go to logs only: 1 stdout, 2 stderr, 3 both; or RANK:N,...",
    )
    parser.add_argument(
        "-t", "--tee", action=_FromVariable, default="0", help="streams that go to logs as well; as --redirects"
    )
    value(
        "log-line-prefix-template",
        None,
        help="what stands before a line that was teed: ${role_name} ${local_rank} ${rank} ${hostname}",
    )
    value("local-ranks-filter", "", help="only these local ranks are shown: 0,1")
    value("duplicate-stdout-filters", "", help="accepted and not used")
    value("duplicate-stderr-filters", "", help="accepted and not used")
    value("node-rank", None, type=int, help="this node's number; the scheduler's where it is not given")
    value("master-addr", None, help="the host of rank 0; the first of the scheduler's list where it is not given")
    value("master-port", None, type=int, help="the port of rank 0 (29500 over several nodes, a free one on one)")
    value("local-addr", None, help="this node's address")
    value("logs-specs", None, help="accepted and not used")
    value(
        "numa-binding",
        None,
        choices=["node", "socket", "exclusive", "core-complex"],
        help="as --cpu-bind numa (node, socket) or cores",
    )
    value(
        "signals-to-handle",
        "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        help="signals that end the job; SIGUSR1 and SIGUSR2 are handed on in any case",
    )
    value("shutdown-timeout", 30.0, type=float, help="seconds from SIGTERM to SIGKILL")
    flag("virtual-local-rank", help="every process sees one GPU, as number 0")
    value(
        "cpu-bind",
        "none",
        help=(
            "processors of each process: none, cores, numa, list:0-7:8-15 or mask:0xff:0xff00; with verbose in front "
            "(verbose,cores) they are printed"
        ),
    )
    parser.add_argument(
        "--live",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="a line per rank at the bottom of the terminal",
    )
    parser.add_argument("training_script", help="the script, or with -m the module")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its own arguments")


def _devices():
    from taper import cuda

    return cuda.device_count()


def _processes(text):
    """--nproc-per-node as a number."""
    cores = len(os.sched_getaffinity(0))
    if text in ("auto", "gpu"):
        devices = _devices()
        if devices or text == "auto":
            return devices or cores
        raise SystemExit("taper launch: --nproc-per-node gpu: there is no GPU here")
    if text == "cpu":
        return cores
    if not text.isdigit() or int(text) < 1:
        raise SystemExit(
            f"taper launch: --nproc-per-node: expected a number above zero, auto, cpu or gpu, got '{text}'"
        )
    return int(text)


def _first_host(text):
    """The first host of a Slurm list such as nid[001-004,7],other."""
    head, bracket, rest = text.partition("[")
    if not bracket or "," in head:
        return text.split(",")[0]
    return head + rest.split("]")[0].split(",")[0].split("-")[0]


def _pbs_hosts():
    try:
        with open(os.environ["PBS_NODEFILE"], encoding="utf-8") as file:
            return list(dict.fromkeys(line.strip() for line in file if line.strip()))
    except (KeyError, OSError):
        return []


def _node_rank():
    """This node's number in the job, by the variables of Slurm, PALS, OpenMPI (one launcher per node) and PBS's list of
    hosts."""
    for name in ("GROUP_RANK", "SLURM_NODEID", "PMIX_RANK", "PALS_RANKID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    host = socket.gethostname().split(".")[0]
    return next((i for i, name in enumerate(_pbs_hosts()) if name.split(".")[0] == host), 0)


def _master_host():
    if os.environ.get("SLURM_JOB_NODELIST"):
        return _first_host(os.environ["SLURM_JOB_NODELIST"])
    return next(iter(_pbs_hosts()), None)


def new_secret():
    """The variable by which ranks share a secret (src/dist/job/secret.h); nothing where the user has given one."""
    given = os.environ.get("TAPER_JOB_SECRET") or os.environ.get("TAPER_JOB_SECRET_FILE")
    return {} if given else {"TAPER_JOB_SECRET": os.urandom(32).hex()}


def free_port():
    """A port that nobody listens on now; below those that outgoing connections take (32768 and up), so that none is
    there a moment later."""
    first = int.from_bytes(os.urandom(2), "big")
    for port in (16384 + (first + 4099 * i) % 16384 for i in range(100)):
        with socket.socket() as place:
            try:
                place.bind(("", port))
                return port
            except OSError:
                continue
    raise SystemExit("taper launch: no free port was found: --master-port names one")


def _place(asked):
    """Where the ranks meet, into master_addr and master_port; and own_port: whether the port is ours to choose."""
    host, _, port = asked.rdzv_endpoint.rpartition(":") if ":" in asked.rdzv_endpoint else (asked.rdzv_endpoint, "", "")
    if asked.standalone or asked.max_nodes == 1:
        known = None if asked.standalone else asked.master_port or (int(port) if port.isdigit() and int(port) else None)
        asked.own_port = known is None
        asked.master_addr = "127.0.0.1" if asked.standalone else asked.master_addr or "127.0.0.1"
        asked.master_port = known
        return
    asked.own_port = False
    asked.master_addr = asked.master_addr or host or _master_host()
    if not asked.master_addr:
        raise SystemExit(
            "taper launch: several nodes need --master-addr (or --rdzv-endpoint HOST:PORT): no scheduler's list of "
            "hosts was found"
        )
    asked.master_port = asked.master_port or (int(port) if port.isdigit() and int(port) else 29500)


def _nodes(text):
    low, _, high = text.partition(":")
    if not low.isdigit() or high and not high.isdigit() or not 1 <= int(low) <= int(high or low):
        raise SystemExit(f"taper launch: --nnodes: expected N or MIN:MAX, got '{text}'")
    return int(low), int(high or low)


def _streams(text, count):
    """'3' or '0:1,1:3' as the streams of each local rank."""
    try:
        if ":" not in text:
            return [int(text)] * count
        given = dict(tuple(map(int, part.split(":"))) for part in text.split(","))
        return [given.get(rank, 0) for rank in range(count)]
    except ValueError:
        raise SystemExit(f"taper launch: expected a stream (0 to 3) or RANK:STREAM,..., got '{text}'") from None


def settle(arguments, program, torchrun):
    """Everything a launch needs to know, checked."""
    return settle_parsed(get_args_parser(program).parse_args(arguments), torchrun)


def settle_parsed(asked, torchrun):
    """The same from options that are parsed."""
    asked.min_nodes, asked.max_nodes = _nodes(asked.nnodes)
    asked.count = _processes(asked.nproc_per_node)
    if asked.node_rank is None:
        asked.node_rank = _node_rank() if asked.max_nodes > 1 else 0
    _place(asked)
    if asked.rdzv_id == "none":
        asked.rdzv_id = os.environ.get("SLURM_JOB_ID") or os.environ.get("PBS_JOBID") or f"taper-{os.getpid()}"
    asked.redirects, asked.tee = _streams(asked.redirects, asked.count), _streams(asked.tee, asked.count)
    asked.shown = [int(rank) for rank in asked.local_ranks_filter.split(",") if rank.strip()] or list(
        range(asked.count)
    )
    if asked.live is None:
        asked.live = not torchrun and sys.stderr.isatty() and sys.stdout.isatty()
    if asked.numa_binding and asked.cpu_bind == "none":
        asked.cpu_bind = "numa" if asked.numa_binding in ("node", "socket") else "cores"
    return asked
