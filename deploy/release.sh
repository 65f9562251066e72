#!/bin/sh
# Makes the tag of a release, if everything is as a release needs it: release.sh 1.0.0. Pushing the tag publishes the
# packages, the image and the site (.github/workflows/release.yml). It changes nothing before the last question.
set -eu
cd "$(dirname "$0")/.."
version=${1:?usage: deploy/release.sh VERSION}
bin=.venv/bin
failed=0

check() {  # check WHAT COMMAND...: runs the command and says how it went
    what=$1
    shift
    if output=$("$@" 2>&1); then
        echo "ok      $what"
    else
        echo "FAILED  $what"
        printf '%s\n' "$output" | tail -5 | sed 's/^/        /'
        failed=1
    fi
}

is_clean() { test -z "$(git status --porcelain)"; }
is_branch() {  # fixes of the minor version before are made on a branch of its own
    branch=$(git rev-parse --abbrev-ref HEAD)
    test "$branch" = main || test "$branch" = "release/${version%.*}"
}
is_new() { ! git rev-parse --quiet --verify "refs/tags/v$version" > /dev/null; }
is_version() { test "$("$bin/python" -c 'import proxyd; print(proxyd.__version__)')" = "$version"; }
is_in_changes() { grep -q "^## $version - $(date +%Y)-" docs/CHANGELOG.md; }
is_in_files() {
    for file in deploy/Dockerfile deploy/browser/Dockerfile; do
        grep -q "version=\"$version\"" "$file" || return 1
    done
    grep -q "appVersion: \"*$version" deploy/helm/proxyd/Chart.yaml
}
is_recorded() {  # by `python -m tests.upgrades.record FILE`: later versions are tested with it
    newest=$(ls migrations/versions | sed -n 's/^\([0-9][0-9]*\)_.*/\1/p' | tail -1)
    grep -q "\"alembic_version\" VALUES('$newest')" "tests/upgrades/${version%.*}.sql"
}
is_same_wheel() {
    for folder in one two; do make --silent wheel DIST="$work/$folder"; done
    cmp "$work"/one/*.whl "$work"/two/*.whl
}
is_current() {  # is_current TARGET FILE: what a target writes is what is committed
    make --silent "$1" && git diff --quiet -- "$2"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check "nothing is uncommitted" is_clean
check "this is main, or release/${version%.*}" is_branch
check "there is no tag v$version" is_new
check "proxyd is of version $version" is_version
check "images and chart are of version $version" is_in_files
check "docs/CHANGELOG.md has a dated part for it" is_in_changes
check "tests/upgrades has data that it wrote" is_recorded
test "$failed" = 0 || { echo "not released"; exit 1; }  # before what takes long
check "no locked package has a known fault" make --silent audit
check "docs/licences.md is current" is_current licences docs/licences.md
check "the wheel is the same when it is built again" is_same_wheel
check "the site is built without a warning" make --silent docs
check "all tests pass (an hour or two)" make --silent test-all
test "$failed" = 0 || { echo "not released"; exit 1; }

printf 'tag %s as v%s? [y/N] ' "$(git rev-parse --short HEAD)" "$version"
read -r answer
test "$answer" = y || { echo "not released"; exit 1; }
git tag --annotate "v$version" --message "proxyd $version"
echo "git push origin v$version publishes it"
