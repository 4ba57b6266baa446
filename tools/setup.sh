#!/usr/bin/env bash
# Sets up everything that `make run` and `make test` need, and says what it does:
#   1. .venv, made with the first Python >= 3.11 found (or $PYTHON), with the locked packages, checked against their hashes
#   2. attncheck itself, editable
#   3. a Vulkan adapter; only where none is found: Mesa's software one, from the distribution's packages
# With --swiftshader also, for the slow tests:
#   4. SwiftShader, a second software Vulkan, which ONNX Runtime's WebGPU provider and Dawn take where they refuse Mesa's
# With --browser also, for the slow tests:
#   5. Chromium, in which the HTML report is tested
# With --shells also, for the slow tests:
#   6. zsh and fish, in which completion is tested as in bash
# With --docs also, for `make site` and the test of it:
#   7. what builds the docs as a site, into .venv
# Each step leaves a stamp behind when it is complete. A step with a fitting stamp is skipped; an interrupted one is redone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Settings of the caller that would make Python or pip look or install elsewhere. Index and proxy settings stay.
unset VIRTUAL_ENV PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_ROOT PIP_USER PIP_REQUIRE_HASHES PIP_CONSTRAINT

readonly OLDEST="3.11"
readonly VENV=".venv"
readonly LOCK="requirements-dev.lock"
readonly DOCS_LOCK="requirements-docs.lock"
readonly VULKAN_PACKAGE="mesa-vulkan-drivers"
readonly SWIFTSHADER_PACKAGE="chromium-common"
readonly BROWSER_PACKAGE="chromium"
readonly BROWSER="/usr/bin/chromium"
readonly SWIFTSHADER_ICD="/usr/lib/chromium/vk_swiftshader_icd.json"

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
  say "$1"
  shift
  (($# == 0)) || printf '       %s\n' "$@" >&2
  exit 1
}

# --- system packages -------------------------------------------------------------------------------------------------

may_install() {
  command -v apt-get >/dev/null && { [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null; }
}

as_root() {
  if [[ $(id -u) == 0 ]]; then env "$@"; else sudo -n env "$@"; fi
}

apt_install() {
  if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
    as_root apt-get update -qq
  fi
  # A list that is out of date names packages that the mirror has replaced: one second try with a new one.
  apt_install_once "$1" || { as_root apt-get update -qq && apt_install_once "$1"; }
}

apt_install_once() {
  as_root DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$1" </dev/null >&2
}

# require_package PACKAGE WHY: install it where this may be done without asking, else say what to do and stop.
require_package() {
  local package=$1 why=$2
  if may_install; then
    say "$why: installing the package $package with apt-get"
    apt_install "$package" || die "apt-get could not install $package (its messages stand above)." \
      "Install it by hand, then run the same command again."
  elif command -v apt-get >/dev/null; then
    die "$why. Without root, or a sudo that asks no password, the package cannot be installed from here." \
      "Install it, then run the same command again:" "" "    sudo apt-get install $package"
  else
    die "$why, and there is no apt-get here to install the package with." \
      "Install what your system calls '$package', then run the same command again."
  fi
}

# --- Python ----------------------------------------------------------------------------------------------------------

# Prints the path of the interpreter behind $1 when it runs and is new enough (seen through any virtual environment).
interpreter() {
  "$1" -I -c "
import sys
sys.exit(1) if sys.version_info < tuple(map(int, '$OLDEST'.split('.'))) else print(sys._base_executable)" 2>/dev/null
}

find_python() {
  local name names=(python3 python3.13 python3.12 python3.11 python3.14 python)
  [[ -z ${PYTHON:-} ]] || names=("$PYTHON")
  for name in "${names[@]}"; do
    interpreter "$name" && return
  done
  if [[ -n ${PYTHON:-} ]]; then
    die "PYTHON is set to '$PYTHON', which is not a working Python $OLDEST or newer." \
      "Unset it, or set it to one that is, then run the same command again."
  fi
  die "no Python $OLDEST or newer was found (looked for python3, python3.11 to python3.14, python)." \
    "Debian 12, Ubuntu 24.04 and newer have one: sudo apt-get install python3 python3-venv" \
    "Elsewhere install one, and if it is not on the PATH name it: make run PYTHON=/path/to/python3"
}

require_venv_module() {
  "$1" -I -c 'import ensurepip, venv' 2>/dev/null && return
  # Debian and Ubuntu split this part of Python's standard library off.
  local version
  version=$("$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  [[ $1 == /usr/bin/* ]] || die "$1 has no 'ensurepip' module, so it cannot make a virtual environment." \
    "Install a complete Python $OLDEST or newer, and name it: make run PYTHON=/path/to/python3"
  require_package "python$version-venv" "Python's venv module is missing"
}

make_environment() {
  require_venv_module "$python"
  say "making $VENV with $python"
  rm -rf "$VENV"
  "$python" -I -m venv "$VENV"
  say "installing the packages of $LOCK into $VENV"
  pip install --require-hashes --only-binary :all: --requirement "$LOCK" ||
    die "pip could not install the locked packages (its messages stand above)." \
      "They need Python $OLDEST to 3.14 and a package index; this was $("$python" -V). Another one: make run PYTHON=/path/to/python3"
}

pip() {
  "$VENV/bin/python" -I -m pip --quiet --disable-pip-version-check "$@" >&2
}

install_docs() {
  say "installing the packages of $DOCS_LOCK into $VENV"
  pip install --require-hashes --only-binary :all: --requirement "$DOCS_LOCK" ||
    die "pip could not install what builds the site (its messages stand above)."
}

ensure_docs() { step docs "$(cksum <"$DOCS_LOCK")" install_docs; }

install_attncheck() {
  say "installing attncheck itself, editable, into $VENV"
  pip install --no-deps --no-build-isolation --no-index --editable .
}

# --- Vulkan ----------------------------------------------------------------------------------------------------------

probe_adapter() {
  "$VENV/bin/python" -I tools/vulkan_adapter.py
}

ensure_adapter() {
  local found
  if ! found=$(probe_adapter 2>/dev/null); then
    [[ $(uname -s) == Linux ]] || die "no GPU adapter was found: $(probe_adapter 2>&1)"
    require_package "$VULKAN_PACKAGE" "no Vulkan adapter was found for the kernels to run on"
    found=$(probe_adapter) || die "$VULKAN_PACKAGE is installed, and still no Vulkan adapter was found (messages above)." \
      "'.venv/bin/attncheck doctor' tells more."
  fi
  say "kernels can run on: $found"
}

# Nothing is registered with the system: a worker is told of it by VK_DRIVER_FILES, all others see their own drivers only.
ensure_swiftshader() {
  [[ -f $SWIFTSHADER_ICD ]] && return
  require_package "$SWIFTSHADER_PACKAGE" "SwiftShader, which the slow tests run on, was not found ($SWIFTSHADER_ICD)"
  [[ -f $SWIFTSHADER_ICD ]] || die "$SWIFTSHADER_PACKAGE is installed, and still there is no $SWIFTSHADER_ICD." \
    "The slow tests need the package of Debian 12 or newer, which brings libvk_swiftshader.so and that file."
}

# Playwright drives the distribution's browser: no other is downloaded.
ensure_browser() {
  [[ -x $BROWSER ]] && return
  require_package "$BROWSER_PACKAGE" "Chromium, which the HTML report is tested in, was not found ($BROWSER)"
  [[ -x $BROWSER ]] || die "$BROWSER_PACKAGE is installed, and still there is no $BROWSER." \
    "The slow tests need the package of Debian, which puts it there."
}

ensure_shells() {
  local shell
  for shell in zsh fish; do
    command -v "$shell" >/dev/null || require_package "$shell" "$shell, which completion is tested in, was not found"
  done
}

# --- the steps -------------------------------------------------------------------------------------------------------

# step NAME KEY FUNCTION: run FUNCTION unless it was completed with the same KEY.
step() {
  local stamp="$VENV/.attncheck-$1"
  if [[ -f $stamp && $(<"$stamp") == "$2" ]]; then return; fi
  "$3"
  printf '%s' "$2" >"$stamp"
}

more=()
for argument in "$@"; do
  case $argument in
  --swiftshader) more+=(ensure_swiftshader) ;;
  --browser) more+=(ensure_browser) ;;
  --shells) more+=(ensure_shells) ;;
  --docs) more+=(ensure_docs) ;;
  *) die "unknown argument '$argument'; there are --swiftshader, --browser, --shells and --docs: what the slow tests need." ;;
  esac
done

# Two set-ups at once would take each other's files away: the second waits, then finds nothing to do.
if command -v flock >/dev/null; then
  exec 9<"$LOCK"
  flock 9
fi

python=$(find_python)
# The checkout's path counts: scripts in .venv name it, so a moved checkout needs a new one.
step packages "$python $PWD $(cksum <"$LOCK")" make_environment
step attncheck "$(cksum <pyproject.toml)" install_attncheck
step adapter "found" ensure_adapter
for ensure in ${more[@]+"${more[@]}"}; do "$ensure"; done
