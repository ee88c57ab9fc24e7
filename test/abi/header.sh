#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# header.sh HEADER LANGUAGE STANDARD COMPILER...: the public header compiles on its own with strict warnings, and
# twice in one file. Every _INIT macro is usable. Skipped without a COMPILER.
set -eu
header=$1 language=$2 standard=$3
shift 3
[ $# -gt 0 ] || { echo "no compiler for $language"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/alone" <<END
#include "$header"
#include "$header"
END
"$@" -x "$language" "-std=$standard" -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$dir/alone"

# As users compile it, not as a system header.
{
    echo "#include \"$header\""
    echo 'int use(void);'
    echo 'int use(void) { int n = 0;'
    sed -n 's/^#define RCM_\([A-Z_]*\)_INIT .*/\1/p' "$header" | while read -r name; do
        struct=$(echo "$name" | tr A-Z a-z)
        echo "{ struct rcm_$struct x = RCM_${name}_INIT; n += (int)x.size; }"
    done
    echo 'return n; }'
} >"$dir/macros"
grep -q RCM_CALL_INIT "$dir/macros"
"$@" -x "$language" "-std=$standard" -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$dir/macros"
