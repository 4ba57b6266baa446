#!/usr/bin/env bash
# The steps of action.yml, each by its name: install, adapter, run. Whatever the action was given comes in variables WITH_*,
# since what stands in a script's text could be read as its code. Paths are relative to the folder it is called in.
set -euo pipefail

readonly HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly VULKAN_PACKAGE="mesa-vulkan-drivers"

say() { printf 'attncheck action: %s\n' "$*" >&2; }
die() {
  say "$1"
  exit 2
}

# words INPUT TEXT: the array `taken` of its words, quotes taken as a shell takes them, and nothing expanded.
words() {
  local lines
  lines=$(python -c 'import shlex, sys; print("\n".join(shlex.split(sys.argv[1], comments=True)))' "$2" 2>/dev/null) ||
    die "the input '$1' has a quote without its twin: $2"
  taken=()
  [[ -z $lines ]] || mapfile -t taken <<<"$lines"
}

# output NAME VALUE: for later steps, and for who uses the action.
output() { printf '%s=%s\n' "$1" "$2" >>"${GITHUB_OUTPUT:-/dev/null}"; }

install() {
  local what=${WITH_VERSION:-}
  if [[ -z $what ]]; then
    what="$(dirname "$HERE")" # the action's own checkout
  elif [[ $what =~ ^[0-9]+(\.[0-9]+)+[a-z0-9.]*$ ]]; then
    what="attncheck==$what"
  fi
  say "installing $what"
  python -m pip install --quiet --disable-pip-version-check "$what"
  python -m attncheck --version
}

# A GPU, or Vulkan in software, is what attncheck's own kernels and WebGPU run on; other backends do without.
adapter() {
  local found
  if found=$(python "$HERE/vulkan_adapter.py" 2>/dev/null); then
    say "there is an adapter: $found"
    return
  fi
  if ! command -v apt-get >/dev/null; then
    say "there is no adapter, and no apt-get to install $VULKAN_PACKAGE with: kernels in WGSL cannot run here"
    return
  fi
  local sudo=()
  [[ $(id -u) == 0 ]] || sudo=(sudo)
  say "there is no adapter: installing $VULKAN_PACKAGE"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" apt-get install -qq -y --no-install-recommends "$VULKAN_PACKAGE" >&2
  say "there is an adapter: $(python "$HERE/vulkan_adapter.py")"
}

run() {
  local folder=${WITH_REPORT_FOLDER:-attncheck-report} code=0 name
  local taken=() scenarios=() backends=() more=()
  words scenarios "${WITH_SCENARIOS:-}" && scenarios=("${taken[@]}")
  words args "${WITH_ARGS:-}" && more=("${taken[@]}")
  words backends "${WITH_BACKENDS:-}"
  for name in "${taken[@]}"; do backends+=(--backend "$name"); done
  mkdir -p "$folder"
  output report-folder "$folder"
  # The exit code is the run's own, and it is told before the step ends with it.
  python -m attncheck run "${scenarios[@]}" "${backends[@]}" ${WITH_REFERENCE:+--reference "$WITH_REFERENCE"} \
    --report "html=$folder/report.html" --report "junit=$folder/junit.xml" --report "json=$folder/report.json" \
    --journal "$folder/journal.ndjson" "${more[@]}" || code=$?
  output exit-code "$code"
  return "$code"
}

case ${1:-} in
install | adapter | run) "$1" ;;
*) die "unknown step '${1:-}'; there are install, adapter and run" ;;
esac
