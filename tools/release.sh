#!/bin/sh
# `make release`: looks whether the tree may become a release and says what is missing. With TAG=1 it then makes the
# tag, vMAJOR.MINOR.PATCH, on this machine alone; nothing is pushed.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^#define TP_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)$/\2/p' include/taper/base.h | paste -sd .)
missing=0
lacks() {
    echo "not yet: $*"
    missing=1
}
names() { # a file that says this version
    grep -q "$version" "$1" || lacks "$1 does not name $version"
}

[ -z "$(git status --porcelain)" ] || lacks "there are changes that are not committed"
grep -q "^## $version ([0-9]\{4\}-[0-9][0-9]-[0-9][0-9])$" CHANGELOG.md || lacks "CHANGELOG.md has no section '## $version (YEAR-MONTH-DAY)'"
grep -qx "version: $version" CITATION.cff || lacks "CITATION.cff has another version than $version"
names packaging/spack/packages/taper/package.py
names packaging/conda/recipe.yaml
for file in "packaging/modulefiles/taper/$version" "packaging/modulefiles/taper/$version.lua"; do
    [ -f "$file" ] || lacks "there is no $file"
done
[ -n "$(find packaging/easybuild -name "Taper-$version-*.eb")" ] || lacks "packaging/easybuild has no recipe of $version"
if git rev-parse --quiet --verify "refs/tags/v$version" > /dev/null; then
    lacks "the tag v$version is there already: raise TP_VERSION_* in include/taper/base.h"
fi
[ "$missing" = 0 ] || exit 1

if [ "${TAG:-}" = 1 ]; then
    git tag --annotate --message "Taper $version" "v$version"
    echo "tagged v$version; \`git push origin v$version\` publishes it"
else
    echo "$version may be released; after \`make test-all\` and \`make wheels\`, \`make release TAG=1\` tags it"
fi
