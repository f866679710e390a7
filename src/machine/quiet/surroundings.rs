//! Checks on what stands between an operation and the machine: pages, mitigations, privileges, layers below and above.

use super::EffectUnit::{Cycles, Microseconds, Percent};
use super::{Check, View};
use crate::machine::Medium;
use crate::machine::tree::Access;
use crate::machine::wording::bytes;
use crate::sys::memory::HUGE_PAGES_OFF;

/// Pages of another size than the experiment believes.
pub(super) fn huge_pages(view: &View<'_>) -> Check {
    const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Some(mode) = &view.machine.memory.transparent_huge_pages else {
        return Check::unknown(format!("{SWITCH} cannot be read"));
    };
    if let Some(allowed) = view.machine.memory.transparent_allowed.as_ref().filter(|allowed| !allowed.value) {
        let detail = format!("{HUGE_PAGES_OFF} ({}), so results for huge pages are skipped", allowed.source);
        return Check::problem(detail)
            .fix("start sysdyno from a shell or service that does not set PR_SET_THP_DISABLE");
    }
    let found = match mode.value.as_str() {
        "madvise" => return Check::fine("transparent huge pages only where a program asks for them"),
        "never" => Check::problem("no transparent huge pages, so results for huge pages are skipped"),
        mode => {
            let reason = "fewer page-table entries to copy and fewer TLB misses, depending on the free memory that the \
                          kernel finds";
            let spoils = "fork, and memory that allows huge pages";
            Check::problem(format!("transparent huge pages: {mode}")).spoils(spoils, (0.0, 40.0), Percent, reason)
        }
    };
    found.fix(format!("echo madvise | sudo tee {SWITCH}"))
}

/// Mitigations are a part of what users get: they are reported, with their price, and no command to switch them off.
pub(super) fn mitigations(view: &View<'_>) -> Check {
    let all = &view.machine.kernel.mitigations;
    if all.is_empty() {
        return Check::unknown("the kernel does not report its mitigations");
    }
    let active: Vec<&str> =
        all.iter().filter(|entry| entry.is_active()).map(|entry| entry.vulnerability.as_str()).collect();
    if active.is_empty() {
        return Check::fine("no mitigation is active");
    }
    let (range, reason) = if all.iter().any(|entry| entry.state.contains("PTI")) {
        ((200.0, 550.0), "two page-table switches and speculation barriers")
    } else {
        ((20.0, 150.0), "speculation barriers and buffer clearing")
    };
    Check::fine(format!("mitigations: {}", active.join(", "))).spoils(
        "every entry into the kernel",
        range,
        Cycles,
        reason,
    )
}

/// What more privileges would allow.
pub(super) fn privileges(view: &View<'_>) -> Check {
    const FILES: &[(&str, &str)] = &[
        ("/sys/firmware/dmi/tables/DMI", "memory modules and peak bandwidth"),
        ("/sys/kernel/debug/sched/preempt", "the preemption model in force"),
        ("/dev/kmsg", "the counter's rate from the boot messages"),
    ];
    const CAPABILITIES: &[(&str, &str)] = &[
        ("SYS_ADMIN", "emptying the whole page cache"),
        ("SYS_NICE", "real-time priority"),
        ("NET_RAW", "ICMP round trips"),
    ];
    let limits = &view.machine.limits;
    let mut missing: Vec<String> = FILES
        .iter()
        .filter(|(path, _)| view.tree.access(path) == Access::Denied)
        .map(|(path, what)| format!("{what} ({path})"))
        .collect();
    if limits.capabilities.is_some() {
        let lacking = CAPABILITIES.iter().filter(|(name, _)| !limits.is_capable(name));
        missing.extend(lacking.map(|(name, what)| format!("{what} (CAP_{name})")));
    } else if missing.is_empty() {
        return Check::unknown("the capabilities cannot be read");
    }
    if missing.is_empty() {
        return Check::fine("every check was permitted");
    }
    Check::problem(format!("not permitted: {}", missing.join(", ")))
        .fix("run as root (in a container: with the capabilities listed above)")
}

/// Software events need no hardware, but permission.
pub(super) fn perf_events(view: &View<'_>) -> Check {
    let limits = &view.machine.limits;
    let Some(paranoid) = &view.machine.kernel.perf_event_paranoid else {
        return Check::unknown("perf_event_paranoid cannot be read, so the kernel has no performance events");
    };
    let is = format!("perf_event_paranoid is {}", paranoid.value);
    if paranoid.value <= 2 || limits.is_capable("PERFMON") || limits.is_capable("SYS_ADMIN") {
        return Check::fine(format!("{is}, so sysdyno may count its own events"));
    }
    Check::problem(format!("{is}, so migrations, switches and faults are counted more coarsely"))
        .fix("sudo sysctl kernel.perf_event_paranoid=2")
}

/// Files that never reach a disk.
pub(super) fn scratch(view: &View<'_>) -> Check {
    let Some(mount) = view.machine.scratch().and_then(|storage| storage.mount.as_ref()) else {
        return Check::unknown("the mount table cannot be read");
    };
    let remedy = "sysdyno run --scratch DIR, with a directory on a local disk";
    if let Some(why) = &mount.no_files {
        let detail = format!("no files can be made in {} ({why}), so file results are skipped", mount.directory);
        return Check::problem(detail).fix(remedy);
    }
    if let Some(most) = view.machine.limits.file_bytes().filter(|most| *most < mount.polite_bytes()) {
        let detail = format!("no file may have more than {}, which bounds all scratch files", bytes(most));
        return Check::problem(detail).fix("raise the limit of file size: ulimit -f");
    }
    let place = format!("{} is on {}", mount.directory, mount.file_system.value);
    let what = match mount.medium {
        Medium::Disk => return Check::fine(place),
        Medium::Memory => "in main memory, so file results would be memory results",
        Medium::Overlay => "on layers, so sysdyno measures the container's storage, and cold reads cannot be proven",
        Medium::Network => "on another machine, so file results would be network results",
        Medium::UserSpace => "served by a program, so file results would be results of that program",
    };
    Check::problem(format!("{place}, {what}")).fix(remedy)
}

/// A hypervisor takes the CPU away, invents facts and adds a level of page tables.
pub(super) fn hypervisor(view: &View<'_>) -> Check {
    let machine = view.machine;
    let Some(name) = machine.limits.hypervisor.best() else {
        return if machine.cpu.hypervisor.is_some() || !machine.cpu.logical.is_empty() {
            Check::fine("no hypervisor is visible")
        } else {
            Check::unknown("the processor is unknown")
        };
    };
    let spoils = "page faults, wake-ups, input and output (computation hardly changes)";
    let reason = "two-level address translation makes a TLB miss take up to twice as long, and interrupts and devices \
                  leave the guest";
    Check::problem(format!("this machine is a guest of a hypervisor: {} ({})", name.value, name.source))
        .spoils(spoils, (0.0, 100.0), Percent, reason)
        .fix("use a bare-metal instance, because a guest cannot change this")
}

/// A container adds layers to files and filters to system calls.
pub(super) fn container(view: &View<'_>) -> Check {
    if let Some(emulator) = &view.machine.kernel.emulator {
        let reason = "each system call and each page fault changes to the process that imitates the kernel, and back";
        let spoils = "system calls, page faults, files, network";
        let detail = format!("{} ({}) answers system calls, and no Linux kernel does", emulator.value, emulator.source);
        return Check::problem(detail)
            .spoils(spoils, (0.2, 20.0), Microseconds, reason)
            .fix("use a container runtime without a sandbox, or run on the host");
    }
    let Some(name) = view.machine.limits.container.best() else {
        return if view.tree.exists("/proc/self/cgroup") {
            Check::fine("no sign of a container")
        } else {
            Check::unknown("/proc/self/cgroup cannot be read")
        };
    };
    Check::problem(format!("signs of a container: {} ({}). /proc and /sys may show the host", name.value, name.source))
        .fix("run the binary on the host (it is static and has no dependencies)")
}

/// A filter program runs before each system call.
pub(super) fn seccomp(view: &View<'_>) -> Check {
    match view.machine.limits.seccomp.as_ref().map(|fact| fact.value) {
        None => Check::unknown("/proc/self/status does not report the filter"),
        Some(0) => Check::fine("no system-call filter"),
        Some(_) => {
            let reason = "the filter runs before each call, and calls that its bitmap allows cost the least";
            Check::problem("a seccomp filter program checks every system call")
                .spoils("every system call", (10.0, 150.0), Cycles, reason)
                .fix("docker run --security-opt seccomp=unconfined, or run on the host")
        }
    }
}

/// A tracer stops the process at its will.
pub(super) fn tracing(view: &View<'_>) -> Check {
    match &view.machine.limits.tracer {
        Some(tracer) => {
            let reason = "two context switches, to the tracer and back, for each stop";
            Check::problem(format!("process {} traces sysdyno", tracer.value))
                .spoils("system calls, signals, process creation", (2.0, 50.0), Microseconds, reason)
                .fix("run without strace or a debugger")
        }
        None if view.tree.exists("/proc/self/status") => Check::fine("no process traces sysdyno"),
        None => Check::unknown("/proc/self/status cannot be read"),
    }
}
