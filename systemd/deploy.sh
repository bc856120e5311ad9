#!/usr/bin/env bash
# Deploy this checkout to a host as a new release of the service, or return to an earlier one.
#
#   systemd/deploy.sh user@host [options]
#   systemd/deploy.sh user@host --rollback[=RELEASE] [options]
#
#   --port N            ask the new release at 127.0.0.1:N instead of where `check` says that it listens
#   --root DIR          folder of the releases; default: /opt/vllm-tool-proxy
#   --units DIR         folder of unit files on the host; default: /etc/systemd/system
#   --environment FILE  the host's variables; default: /etc/default/vllm-tool-proxy
#   --unit              replace the host's unit files by those of this checkout, and restart
#   --wait SECONDS      maximum time until the new release answers; default: 60
#   --python PATH       the host's Python; default: its newest of 3.11 to 3.13
#   --ssh-config FILE   for ssh -F
#
# The host needs ssh, Python, curl, systemd, and root or sudo, but no internet: all packages are fetched here, for its
# Python and machine, by the digests of requirements.lock.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
host="" rollback="" to="" their_python="" upload=""
ssh_options=() release_options=()

say() { printf 'deploy: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage() { sed -n '2,/^set -euo/s/^# \{0,1\}//p' "$0" >&2; exit 2; }

main() {
  options "$@"
  work=$(mktemp -d)
  trap finish EXIT
  # One connection for all commands, so that ssh asks for a password or token once.
  ssh_options+=(-o ControlMaster=auto -o "ControlPath=$work/ssh" -o ControlPersist=60)
  on_host true || fail "cannot reach $host with ssh"
  upload=$(on_host mktemp -d /tmp/vllm-tool-proxy.XXXXXX)
  copy "$here/systemd/release.sh"
  if [ -n "$rollback" ]; then
    as_root rollback ${to:+"$to"}
  else
    deploy
  fi
}

options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --rollback) rollback=yes ;;
      --rollback=*) rollback=yes; option --rollback "${1#*=}" ;;
      --unit) release_options+=(--unit) ;;
      --port | --root | --units | --environment | --wait | --python | --ssh-config)
        [ $# -gt 1 ] || usage
        option "$1" "$2"
        shift ;;
      -*) usage ;;
      *) [ -z "$host" ] || usage; host=$1 ;;
    esac
    shift
  done
  [ -n "$host" ] || usage
}

option() {
  # A shell on the host parses these words again.
  [[ $2 =~ ^[A-Za-z0-9_./@+:-]+$ ]] || fail "$1 $2: only letters, digits and _./@+:- can be used"
  case $1 in
    --rollback) to=$2 ;;
    --python) their_python=$2 ;;
    --ssh-config) ssh_options+=(-F "$2") ;;
    *) release_options+=("$1" "$2") ;;
  esac
}

# shellcheck disable=SC2029  # expanded here on purpose
on_host() { ssh "${ssh_options[@]}" "$host" "$*"; }
copy() { scp -q -r "${ssh_options[@]}" "$@" "$host:$upload/"; }

as_root() {
  local terminal=()
  # sudo may ask for a password.
  if [ -t 0 ] && [ -t 1 ]; then terminal=(-t); fi
  # shellcheck disable=SC2029
  ssh "${terminal[@]}" "${ssh_options[@]}" "$host" bash "$upload/release.sh" "$@" "${release_options[@]}"
}

finish() {
  if [ -n "$upload" ]; then on_host rm -rf "$upload" || true; fi
  ssh "${ssh_options[@]}" -O exit "$host" 2>/dev/null || true
  rm -rf "$work"
}

deploy() {
  local version abi path machine glibc release
  probe
  version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$here/proxy/__init__.py")
  release=$version-$(date -u +%Y%m%dT%H%M%SZ)
  say "$release to $host, Python $abi on $machine with glibc $glibc"
  wheelhouse
  copy "$work/wheels" "$here/requirements.lock" "$here/systemd/pip.lock" "$here"/systemd/vllm-tool-proxy.{service,socket}
  as_root install "$release" "$path"
}

# Sets `path`, `abi`, `machine`, `glibc`: of the host's Python.
probe() {
  local told
  told=$(on_host bash "$upload/release.sh" probe ${their_python:+"$their_python"}) ||
    fail "$host has no Python 3.11, 3.12 or 3.13 that the service can see (it cannot see home folders)"
  read -r path abi machine glibc <<<"$told"
  case $machine in
    x86_64 | aarch64) ;;
    *) fail "$host is $machine; only x86_64 and aarch64 are supported" ;;
  esac
  [[ $glibc =~ ^2\.[0-9]+$ ]] || fail "$host has no supported glibc (found: $glibc)"
}

# Put everything that the host needs into $work/wheels, as wheels.
wheelhouse() {
  local minor platforms=() fetch
  # Older tags are compatible: glibc 2.34 loads wheels for 2.17.
  for ((minor = ${glibc#2.}; minor >= 17; minor--)); do platforms+=(--platform "manylinux_2_${minor}_$machine"); done
  platforms+=(--platform "manylinux2014_$machine" --platform "linux_$machine")
  fetch=("$python" -m pip --disable-pip-version-check download -qq --only-binary :all: --require-hashes --no-deps
    --implementation cp --python-version "$abi" "${platforms[@]}" --dest "$work/wheels")
  "${fetch[@]}" -r "$here/requirements.lock" || fail "not all packages could be fetched for Python $abi on $machine"
  "${fetch[@]}" -r "$here/systemd/pip.lock" || fail "pip could not be fetched"
  # Build from a copy, so that the wheel has no files of earlier builds and the checkout stays clean.
  mkdir "$work/source"
  cp -r "$here"/{proxy,setup.cfg,pyproject.toml,README.md,LICENSE} "$work/source"
  find "$work/source" -name __pycache__ -prune -exec rm -rf {} +
  "$python" -m pip --disable-pip-version-check wheel -qq --no-deps --wheel-dir "$work/wheels" "$work/source" ||
    fail "the wheel of this checkout could not be built"
}

main "$@"
