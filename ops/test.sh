#!/bin/sh
# What stands in ops/ and examples/serve/, tried out against a real service: `make serve-test` calls it, and installs
# what it needs. Wanted: a built `cadet` (CADET, or target/debug/cadet), curl, node, promtool and Python with venv.
set -eu
cd "$(dirname "$0")/.."
env=target/serve-env
[ -x $env/bin/python ] || python3 -m venv $env
$env/bin/python -c 'import httpx' 2> /dev/null || $env/bin/python -m pip install -q 'httpx==0.28.1'
exec $env/bin/python ops/test.py
