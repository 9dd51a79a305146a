"""The `taper` command's subcommands: one parser for all of them, their help and examples, shell completion and the man
page.

A subcommand is a row of COMMANDS. Its module has `arguments(parser)`, which adds its options, and a function that runs
it. Parsers are built when they are asked for, so that `taper run` starts without any.
"""

import sys
from copy import copy
from importlib import import_module

HELP = "-h", "--help"
# name: module, function, whether a script's own arguments end the options, what it does, examples
COMMANDS = {
    "run": (
        "_run",
        "main",
        True,
        "run a script that says `import torch`, unchanged",
        "taper run train.py --epochs 3\ntaper run -m package.train\ntaper run -c 'import torch; print(torch.ones(2))'",
    ),
    "torch": (
        "_torch_install",
        "main",
        False,
        "make `import torch` be Taper's in this environment",
        "taper torch install\ntaper torch status\ntaper torch wheel ~/wheels",
    ),
    "train": (
        "_train",
        "main",
        False,
        "train a shipped example: digits, shakespeare",
        "taper train digits\ntaper train digits --epochs 5 --out runs/digits\ntaper train shakespeare --resume",
    ),
    "watch": (
        "_watch",
        "main",
        False,
        "draw the curves of TensorBoard logs, in the terminal or as a page in the browser",
        "taper watch runs\ntaper watch runs --tag loss --smooth 0.9\ntaper watch runs --serve",
    ),
    "profile": (
        "_profile",
        "main",
        True,
        "run a script and tell where its time went",
        "taper profile train.py --epochs 1\ntaper profile --top 10 --shapes train.py",
    ),
    "launch": (
        "_launch",
        "main",
        False,
        "run a script as several processes that work together, with torchrun's options",
        "taper launch --nproc 4 train.py\ntaper launch --nnodes 4 --nproc 8 --max-restarts 3 train.py --epochs 10",
    ),
    "torchrun": (
        "_launch",
        "torchrun",
        False,
        "as `taper launch`, with torchrun's own defaults",
        "taper torchrun --standalone --nproc-per-node 4 train.py",
    ),
    "names": (
        "_covered",
        "main",
        False,
        "what is covered of PyTorch's names",
        "taper names\ntaper names torch.linalg\ntaper names 'torch.*_like'",
    ),
    "info": (
        "_report",
        "main",
        False,
        "the version, the processor, devices, libraries and Python",
        "taper info\ntaper info --json\nsrun -n 4 taper info",
    ),
    "doctor": (
        "_doctor",
        "main",
        False,
        "what keeps this machine from being fast, and what to do about it",
        "taper doctor\ntaper doctor --json\nmpiexec -n 4 taper doctor",
    ),
    "completion": (
        "_command",
        "completion",
        False,
        "print a script for the shell that completes commands and options",
        'eval "$(taper completion bash)"\ntaper completion zsh > ~/.zfunc/_taper\ntaper completion fish > '
        "~/.config/fish/completions/taper.fish",
    ),
}


# ---- Parsers ----
def _fill(parser, name):
    """Adds a subcommand's options to its parser."""
    if name == "completion":
        parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")
    else:
        import_module("taper." + COMMANDS[name][0]).arguments(parser)


def _formatter(argparse):
    class Formatter(argparse.RawDescriptionHelpFormatter):
        """Lines stay as they are written. Of an option's two spellings, --log-dir and --log_dir, the first is shown."""

        def _format_action_invocation(self, action):
            shown = copy(action)
            shown.option_strings = [text for text in action.option_strings if "_" not in text]
            return super()._format_action_invocation(shown)

    return Formatter


def _style(argparse, name):
    about, examples = COMMANDS[name][3:]
    lines = "\n".join("  " + line for line in examples.split("\n"))
    return {
        "description": about[0].upper() + about[1:] + ".",
        "epilog": "examples:\n" + lines,
        "formatter_class": _formatter(argparse),
    }


def parser_of(name):
    """The parser of one subcommand."""
    import argparse

    parser = argparse.ArgumentParser(prog=f"taper {name}", **_style(argparse, name))
    _fill(parser, name)
    return parser


def build_parser():
    """The parser of the whole command."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="taper",
        description="Tensors, automatic differentiation and neural networks: PyTorch's interface, by Taper.",
        epilog="examples:\n  taper run script.py\n  taper train digits\n  taper watch runs --serve\n"
        "  taper launch --nproc 4 script.py\n\n`taper COMMAND --help` tells more of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and stop")
    below = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name in COMMANDS:
        _fill(below.add_parser(name, help=COMMANDS[name][3], **_style(argparse, name)), name)
    return parser


def subcommands(parser):
    """{name: parser} below a parser that has subcommands, else {}."""
    import argparse

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _own_options(parser, arguments):
    """How many of the arguments are options of the command's own: those after them belong to the script."""
    takes = {text: action.nargs != 0 for action in parser._actions for text in action.option_strings}
    at = 0
    while at < len(arguments) and arguments[at].partition("=")[0] in takes:
        at += 1 + (takes[arguments[at].partition("=")[0]] and "=" not in arguments[at])
    return min(at, len(arguments))


def dispatch(name, arguments):
    """Runs a subcommand with its arguments; the exit status."""
    module, function, script, *_ = COMMANDS[name]
    run = getattr(import_module("taper." + module), function)
    if name == "run" and arguments and arguments[0] not in HELP:
        return run(arguments)
    parser = parser_of(name)
    if not script:
        return run(parser.parse_args(arguments))
    at = _own_options(parser, arguments)
    options = parser.parse_args(arguments[:at])
    options.script = arguments[at:]
    if not options.script:
        parser.error("expected a script, -m MODULE, -c COMMAND or -")
    return run(options)


def unknown(name):
    """Tells of a command that does not exist; the exit status."""
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, 1)
    also = f"; did you mean '{near[0]}'?" if near else ""
    print(f"taper: there is no command '{name}'{also}\n`taper --help` lists the commands", file=sys.stderr)
    return 2


# ---- Completion ----
def _tree():
    """{command: (options with their help, words)}: what may follow each command."""
    import argparse

    found = {}
    for name, parser in subcommands(build_parser()).items():
        options, words = [], []
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                words += list(action.choices)
            elif action.option_strings:
                longest = [text for text in action.option_strings if text.startswith("--") and "_" not in text]
                options += [(text, action.help or "") for text in longest or action.option_strings]
            elif action.choices:
                words += [str(choice) for choice in action.choices]
        found[name] = options, words
    return found


def _bash(tree):
    """Options where a dash was typed, the command's own words in the first place behind it, files everywhere else."""
    cases = "".join(
        f'        {name}) words="{" ".join(words)}" options="{" ".join(text for text, _ in options)}" ;;\n'
        for name, (options, words) in tree.items()
    )
    return f"""# Completion of taper for bash: eval "$(taper completion bash)"
_taper() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words options
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(tree)} --help --version" -- "$current"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}    esac
    case $current in
        -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
        *) [ "$COMP_CWORD" -ne 2 ] || COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    esac
}}
complete -o default -o bashdefault -F _taper taper
"""


def _zsh_quoted(text):
    """For an argument of _describe or _arguments, where brackets and colons are syntax."""
    return "".join("\\" + c if c in "[]:\\" else c for c in text.replace("%%", "%")).replace("'", "'\\''")


def _fish_quoted(text):
    return text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")


def _zsh(tree):
    """The file's text is the function's body at the first TAB, which zsh loads it for: so it ends with a call."""
    names = "\n".join(f"        '{name}:{_zsh_quoted(COMMANDS[name][3])}'" for name in tree)
    cases = ""
    for name, (options, words) in tree.items():
        lines = [f"'{text}[{_zsh_quoted(about)}]'" for text, about in options]
        lines += ([f"'1:word:({' '.join(words)})'"] if words else []) + ["'*:file:_files'"]
        cases += f"        {name}) _arguments " + " \\\n            ".join(lines) + " ;;\n"
    return f"""#compdef taper
# Completion of taper for zsh: put it as _taper into a folder of $fpath, or eval "$(taper completion zsh)".
_taper() {{
    local -a commands
    commands=(
{names}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}    esac
}}
if [[ "$funcstack[1]" = _taper ]]; then _taper "$@"; else compdef _taper taper; fi
"""


def _fish(tree):
    lines = ["# Completion of taper for fish."]
    for name in tree:
        lines.append(f"complete -c taper -n __fish_use_subcommand -f -a {name} -d '{_fish_quoted(COMMANDS[name][3])}'")
    for name, (options, words) in tree.items():
        seen = f"'__fish_seen_subcommand_from {name}'"
        if words:
            lines.append(f"complete -c taper -n {seen} -f -a '{' '.join(words)}'")
        for text, about in options:
            flag = f"-l {text[2:]}" if text.startswith("--") else f"-s {text[1:]}"
            lines.append(f"complete -c taper -n {seen} {flag} -d '{_fish_quoted(about)}'")
    return "\n".join(lines) + "\n"


def completion(options):
    """`taper completion SHELL`; the exit status."""
    sys.stdout.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](_tree()))
    return 0


# ---- The man page ----
def _roff(text):
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


def man_page(version):
    """taper(1), from the parsers."""
    parser = build_parser()
    lines = [
        f'.TH taper 1 "" "Taper {version}" "Taper"',
        ".SH NAME",
        "taper \\- PyTorch's interface, by Taper",
        ".SH SYNOPSIS",
        ".B taper",
        "COMMAND [options]",
        ".SH DESCRIPTION",
        _roff(parser.description),
        ".SH COMMANDS",
    ]
    for name, sub in subcommands(parser).items():
        lines += [f".SS taper {name}", ".nf", _roff(sub.format_help().rstrip()), ".fi"]
    lines += [".SH EXIT STATUS", "That of the script, 0 where all went well, 2 for arguments that are not understood."]
    return "\n".join(lines) + "\n"
