#!/bin/sh
# Makes .venv, where the Python tests run: what tests/python/requirements.txt asks for, from PyPI, and the package of a build.
#   tools/venv.sh BUILD           BUILD/python holds the package
#   tools/venv.sh --docs BUILD    BUILD/docs-venv instead, with what the documentation site is built with
# Quick when nothing has changed. PYTHON names another interpreter than python3 (3.10 or newer).
set -eu
cd "$(dirname "$0")/.."
wanted=tests/python/requirements.txt
docs=
if [ "$1" = --docs ]; then
    docs=yes
    wanted=docs/requirements.txt
    shift
fi
build=$(cd "$1" && pwd)
venv=${docs:+$build/docs-venv}
venv=${venv:-$PWD/.venv}
python=$venv/bin/python

fail() {
    echo "tools/venv.sh: $1" >&2
    exit 1
}

"$python" -c '' 2> /dev/null || "${PYTHON:-python3}" -m venv --clear "$venv" ||
    fail "no virtual environment could be made; on Debian and Ubuntu this takes the package python3-venv"
if ! cmp -s "$wanted" "$venv/requirements.txt"; then
    echo "Installing into ${venv#"$PWD"/}: $(sed -n 's/==.*//p' "$wanted" | tr '\n' ' ')"
    "$python" -m pip install --quiet --disable-pip-version-check -r "$wanted" ||
        fail "pip could not install $wanted (its reason is above). The Python tests need these packages from https://pypi.org or
from an index that you name with PIP_INDEX_URL; the library, its C tests and 'make demo' do not."
    cp "$wanted" "$venv/requirements.txt"
fi

test -z "$docs" || exit 0
# The package stays in the build's folder, so an edit needs no installing.
echo "$build/python" > "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/taper.pth"
cat > "$venv/bin/taper" << END
#!/bin/sh
exec "$python" -m taper "\$@"
END
chmod +x "$venv/bin/taper"
