#!/bin/bash
#
# Measure nodes over ssh with sysdyno, gather their results here, and name the odd nodes. Needs no shared storage.
#
#   sysdyno script ssh -o measure-nodes
#   bash measure-nodes n1 n2 n3
#   bash measure-nodes $(nodeset -e @compute)      # with the groups of ClusterShell
#
# One run makes suspects. Start it again in another hour: two runs name the odd nodes.
#
# Each node gets a copy of sysdyno in a new directory, which it removes. This leaves FLEET/HOST-TIME.json here, 120 kB for each run.
# The exit code is that of `sysdyno fleet`: 0 nothing odd, 1 an odd node, 3 missing, suspect or undecided nodes.
#
# Environment:
#   SYSDYNO            the program to copy to the nodes (default: sysdyno in PATH)
#   SYSDYNO_FLEET      directory for the results (default: sysdyno-fleet)
#   SYSDYNO_OPTIONS    options and experiments of `sysdyno run`, separated by spaces (default: --quick)
#   SYSDYNO_SCRATCH    directory of each node for temporary files (default: TMPDIR there, else /tmp)
#   SYSDYNO_AT_ONCE    nodes that measure at the same time (default: 16)
#   SYSDYNO_LIMIT      longest time of a node, such as 5m (default: 10m)
#   SYSDYNO_SSH        command that reaches a node (default: ssh -o BatchMode=yes -o ConnectTimeout=10)

set -u -o pipefail
umask 077

complain() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

(($# > 0)) || complain "no node is named" "bash measure-nodes n1 n2 n3"
for host in "$@"; do
    [[ $host =~ ^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$ ]] || complain "'$host' is not the name of a node" "bash measure-nodes n1 n2 n3"
done
program=$(command -v -- "${SYSDYNO:-sysdyno}") ||
    complain "there is no program '${SYSDYNO:-sysdyno}'" "set SYSDYNO to its path"
fleet=${SYSDYNO_FLEET:-sysdyno-fleet}
mkdir -p -- "$fleet" || complain "cannot create $fleet" "set SYSDYNO_FLEET to another directory"
at_once=${SYSDYNO_AT_ONCE:-16}
[[ $at_once =~ ^[1-9][0-9]*$ ]] || complain "SYSDYNO_AT_ONCE is '$at_once'" "set it to a number from 1 on"
read -r -a ssh <<<"${SYSDYNO_SSH:-ssh -o BatchMode=yes -o ConnectTimeout=10}"
read -r -a options <<<"${SYSDYNO_OPTIONS:---quick}"

# What a node does: the program comes on standard input. The name of the node goes back, then the result in one line.
# shellcheck disable=SC2016
remote='umask 077
parent=${1:-${TMPDIR:-/tmp}}
shift
place=$(mktemp -d "$parent/sysdyno.XXXXXXXX") || exit 1
trap "exit 130" HUP INT TERM
trap "rm -rf -- \"\$place\"" EXIT
cat >"$place/sysdyno" && chmod 700 "$place/sysdyno" || exit 1
uname -n
"$place/sysdyno" run "$@" --scratch "$place" --output "$place/run" --no-history --no-progress --json node - 2>"$place/messages"
code=$?
[ "$code" = 0 ] || tail -n 2 "$place/messages" >&2
exit "$code"'

# The words as one command for the shell of the other side, whatever is in them.
quoted() {
    local word
    for word in "$@"; do
        printf "'%s' " "${word//\'/\'\\\'\'}"
    done
}
command=$(quoted sh -c "$remote" sysdyno "${SYSDYNO_SCRATCH:-}" "${options[@]}")

work=$(mktemp -d "$fleet/.unfinished.XXXXXXXX") || complain "cannot write to $fleet" "set SYSDYNO_FLEET to another directory"
trap 'rm -rf -- "$work"' EXIT
# This end closes its connections to the nodes that still measure. Those nodes then remove their directories.
trap 'kill $(jobs -p) 2>/dev/null; exit 130' HUP INT TERM

# Measures a node. Leaves its result and the name by which the result knows the node. A node without a result keeps its name here.
measure() {
    local host=$1 name=$1 child
    timeout "${SYSDYNO_LIMIT:-10m}" "${ssh[@]}" "$host" "$command" <"$program" >"$work/$host" 2>"$work/$host.messages" &
    child=$!
    trap 'kill "$child"' TERM
    wait "$child" || sed "s/^/$host: /" "$work/$host.messages" >&2
    if [[ $(sed -n 2p "$work/$host" | head -c 1) == "{" ]]; then
        name=$(head -n 1 "$work/$host")
        sed -n 2p "$work/$host" >"$work/result.$host"
        mv -- "$work/result.$host" "$fleet/${host//[@:]/_}-$(date -u +%Y%m%dT%H%M%SZ).json"
    fi
    printf '%s\n' "$name" >"$work/$host.name"
}

running=0
for host in "$@"; do
    if ((running == at_once)); then
        wait -n
        running=$((running - 1))
    fi
    measure "$host" &
    running=$((running + 1))
done
wait
cat -- "$work"/*.name | "$program" fleet "$fleet" --expect -
