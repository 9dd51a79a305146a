"""torch.utils.collect_env: what a bug report should say about the machine; also python -m torch.utils.collect_env."""


def get_pretty_env_info():
    """The text."""
    import contextlib
    import io
    import platform
    import sys

    import taper
    from taper._report import info

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        info()
    head = [
        f"PyTorch version: {taper.__version__}",
        "Is debug build: False",
        "CUDA used to build PyTorch: None",
        "ROCM used to build PyTorch: N/A",
        "",
        f"OS: {platform.platform()}",
        f"Libc version: {'-'.join(platform.libc_ver()) or 'N/A'}",
        "",
        f"Python version: {sys.version} ({platform.architecture()[0]} runtime)",
        f"Is CUDA available: {taper.cuda.is_available()}",
        "",
    ]
    return "\n".join(head) + "\n" + text.getvalue()


def main():
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
