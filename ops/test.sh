#!/bin/sh
# What stands in ops/ and examples/serve/, tried out against a real service: `make serve-test` calls it.
# Wanted: a built `cadet` (CADET, or target/debug/cadet). What is missing beside it is installed with apt-get by root.
set -eu
cd "$(dirname "$0")/.."

missing=
need() { # program, Debian's package
  command -v "$1" > /dev/null || missing="$missing $2"
}
need python3 python3
python3 -c 'import ensurepip, venv' 2> /dev/null || missing="$missing python3-venv"
need curl curl
need node nodejs
need promtool prometheus
if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "ops/test.sh needs$missing: install them, with Debian's apt-get install$missing" >&2
    exit 1
  fi
  echo "installing$missing"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing > /dev/null
fi

env=target/serve-env
[ -x $env/bin/python ] || python3 -m venv $env
$env/bin/python -c 'import httpx' 2> /dev/null || $env/bin/python -m pip install -q 'httpx==0.28.1'
exec $env/bin/python ops/test.py
