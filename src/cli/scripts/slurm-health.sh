#!/bin/sh
#
# HealthCheckProgram of Slurm, and Epilog: drain this node while `sysdyno check` finds it worse than its siblings.
#
#   sysdyno script slurm-health -o /etc/slurm/sysdyno-health && chmod 755 /etc/slurm/sysdyno-health
#
# In slurm.conf:
#
#   HealthCheckProgram=/etc/slurm/sysdyno-health
#   HealthCheckInterval=3600
#   HealthCheckNodeState=IDLE
#   Epilog=/etc/slurm/sysdyno-health
#
# The Epilog checks a node in a few seconds after each job, and the next job waits for it. An Epilog alone never resumes a node,
# because a drained node has no jobs.
#
# A node is drained only if it has no reason yet, and resumed only if its reason begins with "sysdyno:". Reasons of other
# programs and of people stay. Where the check is undecided or fails, nothing changes.
# It ends before the 60 s after which Slurm kills it. It leaves the reason of the node and a line in the system log.
#
# The file /etc/sysdyno/health.conf can set these variables, in the syntax of a shell. slurmd runs as root, so only root may
# write it.
#   SYSDYNO                the program (default: sysdyno in PATH, /usr/local/bin or /usr/bin)
#   SYSDYNO_ACCEPTED       limits from `sysdyno fleet --accepted` (default: /etc/sysdyno/accepted.json)
#   SYSDYNO_CHECK_OPTIONS  options of `sysdyno check`, separated by spaces (default: --splay 20s --time 18s)
#   SYSDYNO_EPILOG_OPTIONS the same for the Epilog (default: --time 3s)
# SYSDYNO_HEALTH_CONF in the environment names another file.

set -u
umask 077
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

config=${SYSDYNO_HEALTH_CONF:-/etc/sysdyno/health.conf}
if [ -r "$config" ]; then
    # shellcheck disable=SC1090
    . "$config"
fi
accepted=${SYSDYNO_ACCEPTED:-/etc/sysdyno/accepted.json}
case ${SLURM_SCRIPT_CONTEXT:-} in
epilog*) options=${SYSDYNO_EPILOG_OPTIONS:---time 3s} ;;
*) options=${SYSDYNO_CHECK_OPTIONS:---splay 20s --time 18s} ;;
esac
node=${SLURMD_NODENAME:-$(uname -n | cut -d. -f1)}

say() { logger -t sysdyno-health -- "$node: $1" 2>/dev/null || printf '%s: %s\n' "$node" "$1" >&2; }

# A measurement and a running job disturb each other. A check of facts does not disturb the job, but cannot show that a slow node
# is fast again.
busy=no
if pgrep -x slurmstepd >/dev/null 2>&1; then
    busy=yes
    options=--facts
fi
# shellcheck disable=SC2086
found=$(timeout -k 3 50 "${SYSDYNO:-sysdyno}" check --accepted "$accepted" $options 2>&1 </dev/null)
code=$?
answer=$(printf '%s\n' "$found" | grep -m 1 '^sysdyno: ')
case $code in
0 | 1) [ -n "$answer" ] || { say "the check printed no answer"; exit 0; } ;;
3) say "${answer:-undecided}"; exit 0 ;;
*) say "the check failed with exit code $code: $(printf '%s\n' "$found" | head -n 1)"; exit 0 ;;
esac

line=$(sinfo --noheader --nodes="$node" --format='%T|%E' | head -n 1)
[ -n "$line" ] || { say "sinfo does not know this node, or slurmctld does not answer"; exit 0; }
state=${line%%|*}
reason=${line#*|}
case $state in
drain*) drained=yes ;;
*) drained=no ;;
esac
case $reason in
none) whose=none ;;
"sysdyno: "*) whose=sysdyno ;;
*) whose=other ;;
esac

if [ "$code" = 0 ]; then
    if [ "$drained $whose $busy" = "yes sysdyno no" ]; then
        # Compared results show that a node is good again, and compared facts that it has a fact again ("Memory: … is …"). An
        # undecided answer with --lenient does not.
        case "$reason|$answer" in
        *"|sysdyno: ok, "*" result"* | "sysdyno: "*": "*" is "*"|sysdyno: ok, "*" fact"*)
            scontrol update "NodeName=$node" State=RESUME && say "resumed, $answer"
            ;;
        *) say "not resumed, because nothing was compared that could show it: $answer" ;;
        esac
    fi
elif [ "$whose" = other ]; then
    say "not drained, because it has the reason '$reason': $answer"
elif [ "$drained $reason" != "yes $answer" ]; then
    scontrol update "NodeName=$node" State=DRAIN "Reason=$answer" && say "drained, $answer"
fi
exit 0
