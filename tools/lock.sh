#!/usr/bin/env bash
# Writes the lock files anew from pyproject.toml: every package with its hashes, for every platform and every Python
# from 3.11. No index address is written, so that each machine uses the index that it is configured for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! uv --version >/dev/null 2>&1; then
  echo "lock: this needs uv on the PATH: pip install uv" >&2
  exit 1
fi

compile() {
  uv pip compile --quiet --no-config --upgrade \
    --universal --python-version 3.11 --fork-strategy fewest \
    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
    "$@"
}

# The others are held to the developers' lock, never a second opinion: all are installed into one environment.
compile pyproject.toml --group dev --output-file requirements-dev.lock
compile --group docs --constraint requirements-dev.lock --output-file requirements-docs.lock
compile pyproject.toml --constraint requirements-dev.lock --output-file requirements.lock
