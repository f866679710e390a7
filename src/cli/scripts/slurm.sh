#!/bin/bash
#
# Measure each node of a Slurm job with sysdyno, then name the odd nodes.
#
#   sysdyno script slurm | sbatch -N 40            # any 40 nodes
#   sysdyno script slurm | sbatch -w 'n[1-40]'     # these nodes
#
# One run makes suspects. Submit the job again in another hour, from the same directory: two runs name the odd nodes.
# A job of one node only measures. Then `sysdyno fleet DIRECTORY` names the odd nodes.
#
# Leaves FLEET/nodes/NODE/TIME/node.json, 120 kB for each run, and the log of the job. Each node removes its copy of sysdyno.
# The exit code is that of `sysdyno fleet`: 0 nothing odd, 1 an odd node, 3 missing, suspect or undecided nodes.
#
# Environment:
#   SYSDYNO            the program to copy to the nodes (default: sysdyno in PATH)
#   SYSDYNO_FLEET      directory that all nodes share (default: sysdyno-fleet in the directory of sbatch)
#   SYSDYNO_OPTIONS    options and experiments of `sysdyno run`, separated by spaces (default: --quick)
#   SYSDYNO_KEEP       files that stay of a run: node, report, log or all (default: node)
#   SYSDYNO_SCRATCH    directory of each node for temporary files (default: TMPDIR, else /tmp)
#   SYSDYNO_AT_ONCE    nodes that measure at the same time (default: all)
#
# Options on the command line of sbatch replace these. Nodes are whole, because other jobs would disturb the results.
#SBATCH --job-name=sysdyno
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --ntasks-per-node=1
#SBATCH --time=15
#SBATCH --signal=TERM@60
#SBATCH --no-kill
#SBATCH --no-requeue
#SBATCH --output=sysdyno-%j.out

set -u
umask 077

complain() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

[[ -n ${SLURM_JOB_ID:-} ]] || complain "this is not a Slurm job" "sysdyno script slurm | sbatch -N 4"
program=$(command -v -- "${SYSDYNO:-sysdyno}") ||
    complain "$(uname -n) has no program '${SYSDYNO:-sysdyno}'" "set SYSDYNO to its path before you call sbatch"
fleet=${SYSDYNO_FLEET:-sysdyno-fleet}
[[ $fleet == /* ]] || fleet=$PWD/$fleet
mkdir -p -- "$fleet" || complain "cannot create $fleet" "set SYSDYNO_FLEET to a directory that all nodes share"
scratch=${SYSDYNO_SCRATCH:-${TMPDIR:-/tmp}}
read -r -a options <<<"${SYSDYNO_OPTIONS:---quick}"
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
at_once=${SYSDYNO_AT_ONCE:-${#nodes[@]}}
[[ $at_once =~ ^[1-9][0-9]*$ ]] || complain "SYSDYNO_AT_ONCE is '$at_once'" "set it to a number from 1 on"

# A random name: another user of the node cannot prepare it.
copy=$scratch/sysdyno-$SLURM_JOB_ID-$RANDOM$RANDOM
sbcast --preserve -- "$program" "$copy" ||
    complain "cannot copy sysdyno to $copy on each node" "set SYSDYNO_SCRATCH to a directory that each node has"

# The shell outlives SIGTERM, with which Slurm ends a step: sysdyno then writes what it has, and the copy is removed.
# shellcheck disable=SC2016
task='trap : TERM; "$0" "$@"; code=$?; rm -f -- "$0"; exit "$code"'

# Measures nodes, each with all its CPUs. A node that fails or hangs does not stop the others.
measure() {
    srun --cpu-bind=none --mem-bind=none --input=none --no-kill --kill-on-bad-exit=0 --wait=120 "$@" \
        sh -c "$task" "$copy" run "${options[@]}" --into "$fleet" --keep "${SYSDYNO_KEEP:-node}" --scratch "$scratch" --no-history
}

code=0
if ((at_once >= ${#nodes[@]})); then
    measure || code=$?
else
    running=0
    # In random order: a slow hour then meets other racks in each run.
    for node in $(printf '%s\n' "${nodes[@]}" | shuf); do
        if ((running == at_once)); then
            wait -n || code=$?
            running=$((running - 1))
            # A signal ended that run: no further node begins.
            ((code != 130)) || break
        fi
        measure --nodes=1 --ntasks=1 --nodelist="$node" &
        running=$((running + 1))
    done
    wait
fi

((${#nodes[@]} > 1)) || exit "$code"
printf '%s\n' "${nodes[@]}" | "$program" fleet "$fleet" --expect -
