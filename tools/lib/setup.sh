# SPDX-License-Identifier: BSD-3-Clause
# setup.sh: what tools/quickstart, tools/check and tools/packaging/wheel share. Sourced (bash); sets
# $root, goes there, and offers steps with their time, packages, build folders and nvcc.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root" || exit 1
# The distribution's meson and python3, whatever else the user has put before them.
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

# step TITLE COMMAND...: runs it silently and prints one line; of a failure also the last output.
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

# step_shown TITLE COMMAND...: the same with the output shown as it comes.
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

# A build folder can be written, or is not there yet.
check_writable() {
    [ ! -e "$1" ] || [ -w "$1" ] && [ -w "$root" ] && return 0
    echo "$root/$1 cannot be written by $(id -un): it belongs to $(stat -c %U "$1" 2>/dev/null ||
        stat -c %U "$root"). Remove it, or use a clone of your own."
    return 1
}

# configured_here DIR: a build folder of this very source tree.
configured_here() {
    [ -f "$1/build.ninja" ] &&
        grep -qF "\"source\": \"$root\"" "$1/meson-info/meson-info.json" 2>/dev/null
}

# configure DIR COMPILER OPTION...: meson setup, from nothing unless DIR was made by these words.
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

# The compiler of kernels for GPUs, the machine's own or one in a folder here. No GPU is needed.
toolkit=build-toolkit
need_toolkit() {
    command -v nvcc && tools/lib/cuda_toolkit.sh nvcc && return
    check_writable "$toolkit" && tools/lib/cuda_wheels.sh "$root/$toolkit" &&
        tools/lib/cuda_toolkit.sh "$root/$toolkit/nvcc"
}
# All builds share what it makes of kernels: that takes longer than anything else.
use_toolkit() {
    local nvcc
    [ ! -x "$toolkit/nvcc" ] || PATH=$root/$toolkit:$PATH
    nvcc=$(type -aP nvcc | grep -vF "$root/$toolkit/cache/" | head -n 1)
    [ -n "$nvcc" ] && tools/lib/nvcc_cache.py --wrap "$toolkit/cache" "$nvcc" || return
    PATH=$root/$toolkit/cache:$PATH
}
