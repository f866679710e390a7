#!/bin/bash
#
# Measure the network between all nodes of a Slurm job with sysdyno.
#
#   sysdyno script slurm-mesh | sbatch -N 40
#   SYSDYNO_NETWORK=ib0 sysdyno script slurm-mesh | sbatch -w 'n[1-40]'
#
# All pairs of nodes exchange messages, about 3 s for each node. This fills the network: other jobs notice it.
#
# Leaves FLEET/mesh and the log of the job. Each node removes its copy of sysdyno.
# The exit code is that of `sysdyno mesh`: 0 nothing odd, 1 an odd node or link, 2 wrong, 3 incomplete.
#
# Environment:
#   SYSDYNO               the program to copy to the nodes (default: sysdyno in PATH)
#   SYSDYNO_FLEET         directory that all nodes share (default: sysdyno-fleet in the directory of sbatch)
#   SYSDYNO_NETWORK       interface or address range of the network to measure, such as ib0 or 10.1.0.0/16
#                         (default: the network by which the nodes reach the first one)
#   SYSDYNO_MESH_OPTIONS  options of `sysdyno mesh`, separated by spaces (default: --all)
#   SYSDYNO_SCRATCH       directory of each node for the copy of sysdyno (default: TMPDIR, else /tmp)
#
# Options on the command line of sbatch replace these.
#SBATCH --job-name=sysdyno-mesh
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --ntasks-per-node=1
#SBATCH --time=60
#SBATCH --signal=TERM@60
#SBATCH --no-kill
#SBATCH --no-requeue
#SBATCH --output=sysdyno-mesh-%j.out

set -u
umask 077

complain() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

[[ -n ${SLURM_JOB_ID:-} ]] || complain "this is not a Slurm job" "sysdyno script slurm-mesh | sbatch -N 4"
program=$(command -v -- "${SYSDYNO:-sysdyno}") ||
    complain "$(uname -n) has no program '${SYSDYNO:-sysdyno}'" "set SYSDYNO to its path before you call sbatch"
fleet=${SYSDYNO_FLEET:-sysdyno-fleet}
[[ $fleet == /* ]] || fleet=$PWD/$fleet
mkdir -p -- "$fleet" || complain "cannot create $fleet" "set SYSDYNO_FLEET to a directory that all nodes share"
read -r -a options <<<"${SYSDYNO_MESH_OPTIONS:---all}"
[[ -z ${SYSDYNO_NETWORK:-} ]] || options+=(--network "$SYSDYNO_NETWORK")

# A random name: another user of the node cannot prepare it.
copy=${SYSDYNO_SCRATCH:-${TMPDIR:-/tmp}}/sysdyno-$SLURM_JOB_ID-$RANDOM$RANDOM
sbcast --preserve -- "$program" "$copy" ||
    complain "cannot copy sysdyno to $copy on each node" "set SYSDYNO_SCRATCH to a directory that each node has"

# The shell outlives SIGTERM, with which Slurm ends a step: sysdyno then writes what it has, and the copy is removed.
# shellcheck disable=SC2016
task='trap : TERM; "$0" "$@"; code=$?; rm -f -- "$0"; exit "$code"'
srun --cpu-bind=none --mem-bind=none --input=none --no-kill --kill-on-bad-exit=0 --wait=120 \
    sh -c "$task" "$copy" mesh "$fleet/mesh" "${options[@]}"
