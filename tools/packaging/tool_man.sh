#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tool_man.sh HELP2MAN PROGRAM OUTPUT WORDS OTHER...: makes the manual page of a program from its --help and --version.
# Headings of options lose their leading blank, which help2man would take for text. Commands get a "$", by which
# help2man recognizes them.
set -eu
help2man=$1 program=$2 output=$3 words=$4
shift 4
dir=$(mktemp -d "$output.XXXXXX")
trap 'rm -rf "$dir"' EXIT
run=$dir/$(basename "$program")
cat >"$run" <<END
#!/bin/sh
'$program' "\$@" | sed -E -e 's/^ ([A-Z][^ ].*:)\$/\1/' -e '/^Examples:/,/^\$/s/^  /  \$ /'
END
chmod +x "$run"
{
    echo '[see also]'
    printf '.BR %s (1),\n' "$@"
    echo '.BR ringcomm (7)'
} >"$dir/see_also"
"$help2man" --no-info --source=libringcomm --name="$words" --include="$dir/see_also" --output="$output" "$run"
