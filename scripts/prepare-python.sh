#!/usr/bin/env bash
# The Python half in .venv: every package as python/uv.lock has it, and fathometer itself as it stands in this checkout.
# With "dev" the tools of `make check` and `make test` too.
set -euo pipefail
cd "$(dirname "$0")/.."
UV_VERSION=0.13.8

python=
for candidate in python3.13 python3.12 python3.11 python3; do
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "Python 3.11 or newer is missing; install it: sudo apt-get install python3 python3-venv" >&2
  exit 1
fi

if ! [ -x .venv/bin/pip ]; then
  if ! "$python" -c 'import ensurepip' 2>/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "python3-venv is missing; installing it" >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
  fi
  "$python" -m venv .venv || { echo "cannot make .venv; install it: sudo apt-get install python3-venv" >&2; exit 1; }
fi
if [ "$(.venv/bin/uv --version 2>/dev/null | cut -d ' ' -f 2)" != "$UV_VERSION" ]; then
  .venv/bin/pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
fi

groups=(--no-dev)
# Once the tools are there, a demo does not take them away again.
if [ "${1:-}" = dev ] || [ -x .venv/bin/pytest ]; then
  groups=(--group dev)
fi
# --inexact: uv itself lives in the same environment.
UV_PROJECT_ENVIRONMENT="$PWD/.venv" .venv/bin/uv sync --quiet --locked --inexact --project python "${groups[@]}"
