# SPDX-License-Identifier: BSD-3-Clause
# setup.sh: shared by tools/quickstart, tools/check, tools/fuzz and tools/packaging/wheel. Sourced
# (bash). Sets $root, changes to that folder, and defines functions for steps, packages, build
# folders and nvcc.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root" || exit 1
# Use the distribution's meson and python3, even if the user's PATH has others before them.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH LC_ALL=C.UTF-8
. tools/lib/packages.sh

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# seconds_since NANOSECONDS: "12.3"
seconds_since() {
    local ms=$((($(date +%s%N) - $1) / 1000000))
    printf '%d.%d' $((ms / 1000)) $((ms % 1000 / 100))
}

# step TITLE COMMAND...: runs a command silently and prints one line; after a failure also the end of
# its output.
step() {
    local title=$1 began log status
    shift
    began=$(date +%s%N)
    log=$logs/step
    printf '%-58s ' "$title ..."
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    if [ $status = 0 ]; then
        printf 'ok   %7s s\n' "$(seconds_since "$began")"
    else
        printf 'FAILED %5s s\n' "$(seconds_since "$began")"
        tail -n "${step_tail:-40}" "$log" | sed 's/^/    /'
    fi
    return $status
}

# step_shown TITLE COMMAND...: runs a command and shows its output.
step_shown() {
    local title=$1 began status
    shift
    began=$(date +%s%N)
    printf '\n== %s\n' "$title"
    "$@" </dev/null
    status=$?
    if [ $status = 0 ]; then
        printf '== ok (%s s)\n' "$(seconds_since "$began")"
    else
        printf '== FAILED with status %d (%s s)\n' $status "$(seconds_since "$began")"
    fi
    return $status
}

# check_writable DIR: whether a build folder is writable, or can be created.
check_writable() {
    [ ! -e "$1" ] || [ -w "$1" ] && [ -w "$root" ] && return 0
    echo "$root/$1 cannot be written by $(id -un): it belongs to $(stat -c %U "$1" 2>/dev/null ||
        stat -c %U "$root"). Remove it, or use your own clone."
    return 1
}

# configured_here DIR: whether DIR is a build folder of this source tree.
configured_here() {
    [ -f "$1/build.ninja" ] &&
        grep -qF "\"source\": \"$root\"" "$1/meson-info/meson-info.json" 2>/dev/null
}

# configure DIR COMPILER OPTION...: runs meson setup in a new DIR, unless it was made with these
# arguments.
configure() {
    local dir=$1 compiler=$2 words
    shift 2
    check_writable "$dir" || return 1
    words="$compiler $* meson $(meson --version) $root"
    if configured_here "$dir" && [ "$(cat "$dir/.configured" 2>/dev/null)" = "$words" ]; then
        return 0
    fi
    rm -rf "$dir"
    CC=$compiler meson setup "$dir" "$@" && echo "$words" >"$dir/.configured"
}

# Finds or installs nvcc: the machine's, or one in a folder here. No GPU is needed.
toolkit=build-toolkit
need_toolkit() {
    command -v nvcc && tools/lib/cuda_toolkit.sh nvcc && return
    check_writable "$toolkit" && tools/lib/cuda_wheels.sh "$root/$toolkit" &&
        tools/lib/cuda_toolkit.sh "$root/$toolkit/nvcc"
}
# All builds share the compiled kernels, because compiling them takes longest.
use_toolkit() {
    local nvcc
    [ ! -x "$toolkit/nvcc" ] || PATH=$root/$toolkit:$PATH
    nvcc=$(type -aP nvcc | grep -vF "$root/$toolkit/cache/" | head -n 1)
    [ -n "$nvcc" ] && tools/lib/nvcc_cache.py --wrap "$toolkit/cache" "$nvcc" || return
    PATH=$root/$toolkit/cache:$PATH
}
