#!/bin/sh
# Installs commands that tests of the running service need from Debian, if they are missing: tools.sh COMMAND...
set -eu
missing=
for command in "$@"; do
    case $command in
    promtool) package=prometheus ;;
    node) package=nodejs ;;
    *) package=$command ;;
    esac
    command -v "$command" > /dev/null || missing="$missing $package"
done
# Debian keeps a part of Python's venv in a package of its own.
python3 -c 'import ensurepip' 2> /dev/null || missing="$missing python3 python3-venv"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "these tests need:$missing. Install them, for example with: sudo apt-get install$missing" >&2
    exit 1
fi
apt-get -qq update
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing > /dev/null
