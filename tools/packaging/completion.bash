# SPDX-License-Identifier: BSD-3-Clause
# Bash completion for ringcomm-run and the other programs: the options and commands in --help.
_ringcomm() {
    local program=$1 word=$2 help
    help=$("$program" --help 2>/dev/null) || return
    case $word in
    -*)
        mapfile -t COMPREPLY < <(compgen -W "$(grep -oE -- ' --[a-z-]+=?' <<<"$help")" -- "$word")
        [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
        ;;
    *)
        [ "$COMP_CWORD" -gt 1 ] || case $program in
        *ringcomm-bench | *ringcomm-plan)
            mapfile -t COMPREPLY < <(compgen -W "$(_ringcomm_collectives)" -- "$word")
            ;;
        *ringcomm-store)
            mapfile -t COMPREPLY < <(
                compgen -W "$(sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) .*/\1/p' <<<"$help")" -- "$word")
            ;;
        esac
        ;;
    esac
}

_ringcomm_collectives() {
    ringcomm-info --algorithms --csv - 2>/dev/null | sed -nE 's/^algorithm,([a-z_]+)=.*/\1/p' | sort -u
}

# This file is installed under the name of each program.
complete -o bashdefault -o default -F _ringcomm "$(basename "${BASH_SOURCE[0]}")"
