#!/usr/bin/env bash
# The part of deploy.sh that runs on the host, in the uploaded folder: wheels/, the locks and the unit files.
#
#   release.sh probe [PYTHON]                print the Python's path, version, machine and glibc
#   release.sh install RELEASE PYTHON [options]
#   release.sh rollback [RELEASE] [options]
#
# A release is a folder with a virtual environment; `current` is a symlink to the one in force. A release gets its name
# when it is complete, and is checked before the symlink is switched. If it does not answer, the symlink is switched
# back.
set -euo pipefail
umask 022

unit=vllm-tool-proxy
here=$(cd "$(dirname "$0")" && pwd)
root=/opt/$unit units=/etc/systemd/system environment=/etc/default/$unit
port="" wait=60 units_too="" restart="" address="" words=()
keep=5
# Maximum time that a reload waits for the streams of old workers before the next reload is accepted.
drain=75

say() { printf 'deploy: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

main() {
  local command=$1
  if [ "$command" = probe ]; then
    probe "${@:2}"
    return
  fi
  [ "$(id -u)" = 0 ] || exec sudo -- bash "$0" "$@"
  options "${@:2}"
  type curl systemctl >/dev/null || fail "curl and systemd are needed on the host"
  mkdir -p "$root/releases"
  exec 9>"$root/.lock"
  flock -n 9 || fail "another deployment is under way"
  "$command" "${words[@]}"
}

options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --unit) units_too=yes ;;
      --port) port=$2; shift ;;
      --root) root=$2; shift ;;
      --units) units=$2; shift ;;
      --environment) environment=$2; shift ;;
      --wait) wait=$2; shift ;;
      *) words+=("$1") ;;
    esac
    shift
  done
}

# Find the newest supported Python outside of home folders, which the service cannot see.
probe() {
  local name names=("$@")
  [ $# -gt 0 ] || names=({/usr/local,/usr}/bin/python3.1{3,2,1} {/usr/local,/usr}/bin/python3 python3)
  for name in "${names[@]}"; do
    "$name" -c '
import os, platform, sys, venv
real = os.path.realpath(sys.executable)
if not (3, 11) <= sys.version_info[:2] <= (3, 13) or real.startswith(("/home/", "/root/", "/run/user/", "/tmp/")):
    sys.exit(1)
print(sys.executable, "%d.%d" % sys.version_info[:2], platform.machine(), platform.libc_ver()[1] or "none")
' 2>/dev/null && return 0
  done
  return 1
}

install() {
  local name=$1 python=$2 new=$root/releases/$1 made=$root/releases/.$1
  [ ! -e "$new" ] || fail "release $name already exists"
  rm -rf "$root"/releases/.[!.]*
  make_venv "$made" "$python" || { rm -rf "$made"; fail "the release could not be created; nothing was changed"; }
  new_units
  check "$made" || { rm -rf "$made"; fail "the release failed its check; nothing was changed"; }
  # Scripts contain the path of their Python.
  grep -rlIF "$made" "$made/venv/bin" "$made/venv/pyvenv.cfg" | xargs -r sed -i "s|$made|$new|g"
  mv -T "$made" "$new"
  install_units
  bring "$name"
  prune
}

rollback() {
  local to=${1:-} now
  now=$(in_force)
  [ -n "$now" ] || fail "no release is installed"
  [ -n "$to" ] || to=$(releases | grep -B1 -xF "$now" | head -1)
  [ "$to" != "$now" ] || fail "there is no release before $now"
  [ -d "$root/releases/$to/venv" ] || fail "release $to does not exist; installed: $(releases | tr '\n' ' ')"
  check "$root/releases/$to" || fail "$to failed its check; nothing was changed"
  bring "$to"
}

# Print the names of the releases, oldest first by the time in their names.
releases() {
  find "$root/releases" -mindepth 1 -maxdepth 1 -type d ! -name '.*' ! -name '*.failed' -printf '%f\n' |
    awk -F- '{print $NF, $0}' | sort | cut -d' ' -f2
}

in_force() { [ ! -L "$root/current" ] || basename "$(readlink "$root/current")"; }

make_venv() {
  local made=$1 python=$2 pip
  pip=$(echo "$here"/wheels/pip-*.whl)
  mkdir "$made" || return
  # Without pip, which runs from its wheel, so that Debian's python3-venv is not needed.
  "$python" -m venv --without-pip "$made/venv" || return
  set -- "$made/venv/bin/python" "$pip/pip" --disable-pip-version-check install -qq --root-user-action ignore --no-index
  "$@" --find-links "$here/wheels" --require-hashes -r "$here/requirements.lock" || return
  "$@" --no-deps "$here"/wheels/vllm_tool_proxy-*.whl
}

# Write the unit files of this release for this root. Set `new_units` to "yes" if they should be installed.
new_units() {
  local file
  sed -i "s|/opt/$unit|$root|g; s|/etc/default/$unit|$environment|g" "$here/$unit.service"
  [ -e "$units/$unit.service" ] || units_too=first
  [ -z "$units_too" ] || return 0
  for file in "$unit".{service,socket}; do
    cmp -s "$here/$file" "$units/$file" ||
      say "note: $units/$file differs from this release's; --unit would install it and restart"
  done
}

install_units() {
  [ -n "$units_too" ] || return 0
  mkdir -p "$units"
  cp "$here/$unit".{service,socket} "$units/"
  systemctl daemon-reload
  systemctl enable "$unit.service"
  restart="the unit file is a new one"
}

# Check a release's code with the host's options and rules, as a user that owns nothing. Sets `address`.
check() {
  local release=$1 told
  # In a subshell and not on a command line, because variables may hold keys.
  told=$(
    while IFS= read -r line; do
      name=${line%%=*}
      if [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then export "$name=$(unquoted "${line#*=}")"; fi
    done < <(unit_environment; cat "$environment" 2>/dev/null)
    cd "$release" && export PWD && exec runuser -u nobody -- venv/bin/python -m proxy check
  ) || return
  told=$(head -1 <<<"$told")
  say "$told"
  address=$(sed -n 's/.*, listening on \([^,]*\),.*/\1/p' <<<"$told")
  [ -z "$port" ] || address=127.0.0.1:$port
  [ -n "$address" ] || address=127.0.0.1:8003
}

# Print the variables of Environment= in the unit and its drop-ins, one per line.
unit_environment() {
  local file=$units/$unit.service line
  [ -z "$units_too" ] || file=$here/$unit.service
  cat "$file" "$units/$unit.service.d"/*.conf 2>/dev/null | sed -n 's/^Environment=//p' |
    while IFS= read -r line; do unquoted "$line"; done
}

unquoted() { case $1 in '"'*'"' | "'"*"'") printf '%s\n' "${1:1:-1}" ;; *) printf '%s\n' "$1" ;; esac; }

# Switch to a release. If it does not answer, switch back to the previous one.
bring() {
  local name=$1 old
  old=$(in_force)
  if take "$name" "$old" "$wait"; then
    say "$name is in force at $address"
    return
  fi
  if [ -z "$old" ]; then
    systemctl stop "$unit.service" || true
    fail "$name does not answer, and there is no earlier release; see journalctl -u $unit"
  fi
  say "$name does not answer: switching back to $old"
  restart=""
  take "$old" "$name" $((wait + drain)) || fail "$old does not answer either; see journalctl -u $unit"
  rm -rf "$root"/releases/*.failed
  mv -T "$root/releases/$name" "$root/releases/$name.failed"
  fail "$old is in force again; the failed release is in $root/releases/$name.failed; see journalctl -u $unit"
}

take() {
  local name=$1 old=$2 patience=$3 since
  # A rename is atomic, so there is always a release in force.
  ln -sfn "releases/$name" "$root/.current" && mv -T "$root/.current" "$root/current" || return
  since=$(date +%s)
  activate "$name" "$old" || return
  answers "$name" "$since" "$patience"
}

# A reload starts workers with the new code and libraries without refusing requests. The master keeps its Python and
# gunicorn, so a new version of either needs a restart.
activate() {
  local name=$1 old=$2
  if ! systemctl is-active --quiet "$unit.service"; then
    restart="the service does not run"
  elif [ -z "$old" ] || [ "$(loaded "$name")" != "$(loaded "$old")" ]; then
    restart="Python or gunicorn are others, now $(loaded "$name")"
  fi
  if [ -n "$restart" ]; then
    say "restart, because $restart"
    systemctl restart "$unit.service"
  else
    systemctl reload "$unit.service"
  fi
}

loaded() {
  "$root/releases/$1/venv/bin/python" -c '
import importlib.metadata, sys
print("Python %d.%d with gunicorn" % sys.version_info[:2], importlib.metadata.version("gunicorn"))'
}

# Ask until five answers in a row are from this release and from workers that started after the switch.
answers() {
  local name=$1 since=$2 deadline=$(($(date +%s) + $3)) told="" uptime count=0
  while [ "$count" -lt 5 ]; do
    if [ "$(date +%s)" -ge "$deadline" ]; then
      say "no answer from $name at $address within $3 s; the last one was: ${told:0:300}"
      return 1
    fi
    told=$(curl -gsS --fail-with-body --max-time 5 "http://$address/health" 2>&1) || { count=0; sleep 0.5; continue; }
    uptime=$(sed -n 's/.*"uptime": *\([0-9]*\).*/\1/p' <<<"$told")
    if [[ $told =~ \"version\":\ *\"${name%-*}\" && -n $uptime && $uptime -le $(($(date +%s) - since + 1)) ]]; then
      count=$((count + 1))
    else
      count=0
      sleep 0.5
    fi
  done
}

# Keep the last ones and the one in force.
prune() {
  local name now
  now=$(in_force)
  for name in $(releases | head -n -"$keep"); do
    [ "$name" = "$now" ] || rm -rf "${root:?}/releases/$name"
  done
}

main "$@"
