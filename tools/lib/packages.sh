# SPDX-License-Identifier: BSD-3-Clause
# packages.sh: the Debian packages that this repository needs. Sourced by setup.sh.
#
# Each row: a package, and a command that succeeds if the package's content is installed by any means,
# so that other distributions and manual installations work too.

# To build the library, its tools, examples and tests.
build_packages='
gcc                 command -v gcc
libc6-dev           test -e /usr/include/stdio.h
meson               command -v meson
ninja-build         command -v ninja
pkg-config          command -v pkg-config
libssl-dev          pkg-config --exists libcrypto
libhwloc-dev        pkg-config --atleast-version=2.0 hwloc
zlib1g-dev          pkg-config --exists zlib
librdmacm-dev       test -e /usr/include/infiniband/verbs.h && test -e /usr/include/rdma/rdma_cma.h
libcmocka-dev       pkg-config --exists cmocka
python3             command -v python3
'

# Additional packages for tools/check: a compiler cache, the second compiler and its sanitizers,
# clang-format, other launchers, networks of several hosts, manual pages, the build of another
# project.
check_packages='
ccache              command -v ccache
g++                 command -v g++
clang               command -v clang++
libclang-rt-14-dev  clang_links address && clang_links thread
clang-format        command -v clang-format
lld                 command -v ld.lld
openmpi-bin         command -v mpirun.openmpi
mpich               command -v mpirun.mpich
libmpich-dev        test -e /usr/include/x86_64-linux-gnu/mpich/mpi.h || mpicc.mpich -E -include mpi.h -x c /dev/null
libgloo-dev         test -e /usr/include/gloo/context.h
iproute2            command -v ip && command -v tc
help2man            command -v help2man
man-db              command -v man
cmake               command -v cmake
python3-dev         ls /usr/include/python3*/Python.h
python3-pip         command -v nvcc || python3 -m pip --version
'

# For tools/packaging/wheel: headers, nvcc's host compiler, binutils.
wheel_packages='
g++                 command -v g++
binutils            command -v objcopy
pkg-config          command -v pkg-config
libssl-dev          pkg-config --exists libcrypto
librdmacm-dev       test -e /usr/include/infiniband/verbs.h && test -e /usr/include/rdma/rdma_cma.h
python3-dev         ls /usr/include/python3*/Python.h
python3-venv        python3 -c "import ensurepip, venv"
python3-pip         python3 -m pip --version
'

# Whether clang can link a program with a sanitizer (its runtime is a separate package).
clang_links() {
    echo 'int main(void) { return 0; }' |
        clang -x c "-fsanitize=$1" - -o /dev/null
}

# missing_packages ROWS: prints the packages whose command fails, in one line.
missing_packages() {
    local name probe
    while read -r name probe; do
        [ -z "$name" ] || eval "$probe" >/dev/null 2>&1 </dev/null || printf '%s ' "$name"
    done <<<"$1"
}

# need_packages ROWS: as root installs missing packages, else prints their names and fails.
need_packages() {
    local missing
    missing=$(missing_packages "$1")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "These packages (Debian names) are missing: $missing"
        echo "Install them, for instance with:  sudo apt-get install $missing"
        return 1
    fi
    echo "installing: $missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list of words
    apt-get update && apt-get install -y --no-install-recommends $missing || return 1
    missing=$(missing_packages "$1")
    [ -z "$missing" ] || { echo "still missing after the installation: $missing"; return 1; }
}
