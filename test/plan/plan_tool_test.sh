#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The output and exit status of ringcomm-plan. $1: the program, $2: the pictures of algorithms/README.md.
set -u
plan=$1 pictures=$2
failed=0

# expect STATUS TEXT ARGUMENTS...: TEXT must be in what the program prints.
expect() {
    status=$1 text=$2
    shift 2
    output=$("$plan" "$@" 2>&1)
    got=$?
    case $output in
    *"$text"*) found=yes ;;
    *) found=no ;;
    esac
    if [ "$got" != "$status" ] || [ $found = no ]; then
        echo "ringcomm-plan $*: exit $got (want $status), looked for: $text"
        echo "$output" | head -20
        failed=1
    fi
}

# lines COUNT ARGUMENTS...: so many lines that are no header.
lines() {
    want=$1
    shift
    got=$("$plan" "$@" | grep -vc '^#')
    if [ "$got" != "$want" ]; then
        echo "ringcomm-plan $*: $got rows, want $want"
        failed=1
    fi
}

# count PATTERN ARGUMENTS...: the rows with it.
count() {
    pattern=$1
    shift
    "$plan" "$@" | grep -v '^#' | grep -c "$pattern"
}

expect 0 "recursive_doubling" all_reduce --list
expect 0 "two_shot             no" all_reduce --list --hosts 2,2
expect 0 "one_shot             yes   yes " all_reduce --list -n 2
expect 0 "ring                 yes   no " all_reduce --list -n 2
expect 0 "chain                -     yes " scan --list
expect 0 "ring                 -     - " all_gather --list

# What is listed as able to run is verified, nothing else is.
for collective in all_reduce broadcast barrier scan exscan; do
    for hosts in 1 6 3,1,2; do
        lines "$(count '^[a-z_0-9]* *yes' $collective --list --hosts $hosts)" \
            $collective --hosts $hosts --verify
    done
done

expect 0 "# all_reduce ring: 3 ranks on 1 host, 3 chunks, at least 2 slots" all_reduce -n 3 -a ring
expect 0 "recv_reduce_send chunk 1: from 2 + in.1 -> out.1, to 1" all_reduce -n 3 -a ring
lines 15 all_reduce -n 3 -a ring
lines 5 all_reduce -n 3 -a ring --rank 1
expect 0 "copy chunk 0: in.0 -> out.0" all_reduce -n 1 -a one_shot
lines 0 barrier -n 1 -a flat

expect 0 "all_reduce ring ok" all_reduce -n 7 --verify
expect 0 "every contribution is" all_reduce -n 7 -a two_shot --verify
expect 0 "no rank leaves before all have entered" barrier -n 9 --verify
expect 0 "contributions of the ranks before it, each once, in rank order" exscan -n 9 --verify
lines 1 exscan -n 3 -a chain --rank 0
lines 2 exscan -n 3 -a direct --rank 1
expect 0 "recv chunk 0: from 1 -> out.0" exscan -n 3 -a chain --rank 2
expect 0 "send chunks 3..4: out.3 -> to 1" all_gather -n 5 -a bruck --rank 3
expect 0 "3 messages in a row, equal to the formula; rank 0 sends 4 chunks" \
    reduce_scatter -n 5 -a circulant --verify
expect 0 "root 2, 1 chunk" broadcast --hosts i:0,1,0,1 --root 2 --verify

expect 0 "subgraph cluster_3" all_reduce -n 4 -a two_shot --dot
expect 0 "s0_0 -> s1_1 [color" all_reduce -n 3 -a ring --dot
expect 0 "</svg>" broadcast -n 4 -a binomial --svg
expect 0 "rank 5, host 1" broadcast --hosts 4,4 -a binomial --svg
expect 0 ">+4..7</text>" all_reduce -n 8 -a halving_doubling --svg
expect 0 ">4&gt;1,3&gt;1</text>" all_to_all -n 5 -a bruck --svg
expect 2 "a picture of more than 64 ranks" all_reduce -n 65 -a ring --svg
# The pictures of algorithms/README.md.
while read -r picture arguments; do
    # shellcheck disable=SC2086 # a list of words
    "$plan" $arguments --svg | cmp - "$pictures/$picture.svg" ||
        { echo "FAIL: run ringcomm-plan $arguments --svg >algorithms/pictures/$picture.svg"; failed=1; }
done <<END
all_reduce_two_shot all_reduce -n 4 -a two_shot
all_reduce_ring all_reduce -n 4 -a ring
broadcast_binomial broadcast -n 8 -a binomial
all_reduce_halving_doubling all_reduce -n 4 -a halving_doubling
all_gather_bruck all_gather -n 5 -a bruck
all_to_all_pairwise all_to_all -n 4 -a pairwise
scan_recursive_doubling scan -n 4 -a recursive_doubling
all_reduce_two_level all_reduce --hosts 3,3 -a two_level
END

expect 0 "# chosen: one_shot" all_reduce -n 8 --explain 8
expect 0 "# chosen: two_shot" all_reduce -n 8 --explain 64M
expect 0 "# chosen: ring" all_reduce --hosts 1,1,1,1 --explain 64M
expect 0 "# refused: all_reduce algorithm one_shot cannot run 8 ranks" all_reduce --hosts 4,4 --explain 8
expect 0 "times as fast as" all_reduce -n 8 --explain 64K
expect 0 "of one machine; ranks share CPUs" all_reduce --hosts 1,1 --ranks-per-cpu 2 --one-machine \
    --explain 64K
tuning=$(mktemp)
echo 'shm_hop = 1000  # two_shot has two in a row, one_shot one
eager = never
all_reduce = ring' >"$tuning"
export RINGCOMM_TUNING="$tuning"
expect 0 "# chosen: one_shot" all_reduce -n 8 --explain 64K
echo 'shm_hop = fast' >"$tuning"
expect 1 "'shm_hop = fast' is not like shm_hop=12" all_reduce -n 8 --explain 64K
unset RINGCOMM_TUNING
rm "$tuning"
expect 0 "# chosen: two_level" all_reduce --hosts 4,4 --explain 64M
expect 0 "two_level ok" all_gather --hosts 3,1,2 -a two_level --verify
expect 0 "two_level ok" all_to_all --hosts 70,2,3 -a two_level --verify
expect 0 "8 chunks of at most 131072 bytes (float32), 2 slices of at most 65536 bytes" \
    all_reduce -n 8 --explain 1M
expect 0 "# chosen: flat" barrier -n 4 --explain 0
expect 0 "a single rank sends nothing" all_reduce -n 1 --explain 1K

expect 1 'all_reduce has no algorithm "rong". Choose one of' all_reduce -n 4 -a rong
expect 1 "cannot run 4 ranks on 2 hosts" all_reduce --hosts 2,2 -a one_shot
expect 2 "is not one of all_reduce, broadcast, barrier" all_sum -n 4
expect 2 "COLLECTIVE is missing" -n 4
expect 2 "number of ranks is missing" all_reduce -a ring
expect 2 "algorithm is missing" all_reduce -n 4
expect 2 "not a number from 1 to 4096" all_reduce -n 0 -a ring
expect 2 "neither ranks per host" all_reduce --hosts 1,,2 -a ring
expect 2 "neither ranks per host" all_reduce --hosts i:0,2 -a ring
expect 2 "neither ranks per host" all_reduce --hosts 4, -a ring
expect 2 "has 5 ranks, but --ranks is 4" all_reduce --hosts 2,3 -n 4 -a ring
expect 2 "the ranks are 0 to 3" broadcast -n 4 -a chain --root 4
expect 2 "the ranks are 0 to 3" broadcast -n 4 -a chain --rank 4
expect 2 "--root: barrier has no root" barrier -n 4 -a flat --root 1
expect 2 "not a size" all_reduce -n 4 --explain many
expect 0 "Examples:" --help
expect 0 "ringcomm-plan 0." --version

exit $failed
