//! Checks on what stands between an operation and the machine: pages, mitigations, privileges, layers below and above.

use crate::machine::Medium;
use crate::machine::tree::Access;
use crate::machine::wording::bytes;

use crate::sys::memory::HUGE_PAGES_OFF;

use super::{Effect, EffectUnit, Finding, View};

/// Pages of another size than the experiment believes.
pub(super) fn huge_pages(view: &View<'_>) -> Finding {
    const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Some(mode) = &view.machine.memory.transparent_huge_pages else {
        return Finding::Unknown(format!("{SWITCH} cannot be read"));
    };
    if let Some(allowed) = view.machine.memory.transparent_allowed.as_ref().filter(|allowed| !allowed.value) {
        let detail = format!("{HUGE_PAGES_OFF} ({}), so results for huge pages are skipped", allowed.source);
        let remedy = "start sysdyno from a shell or service that does not set PR_SET_THP_DISABLE".to_owned();
        return Finding::Problem(detail, None, Some(remedy));
    }
    let remedy = Some(format!("echo madvise | sudo tee {SWITCH}"));
    match mode.value.as_str() {
        "madvise" => Finding::Fine("transparent huge pages only where a program asks for them".to_owned()),
        "never" => Finding::Problem(
            "no transparent huge pages, so results for huge pages are skipped".to_owned(),
            None,
            remedy,
        ),
        _ => {
            let effect = Effect::percent(
                "fork, and memory that allows huge pages",
                (0.0, 40.0),
                "fewer page-table entries to copy and fewer TLB misses, depending on the free memory that the kernel \
                 finds",
            );
            Finding::Problem(format!("transparent huge pages: {}", mode.value), Some(effect), remedy)
        }
    }
}

/// Mitigations are a part of what users get: they are reported, with their price, and no command to switch them off.
pub(super) fn mitigations(view: &View<'_>) -> Finding {
    let all = &view.machine.kernel.mitigations;
    if all.is_empty() {
        return Finding::Unknown("the kernel does not report its mitigations".to_owned());
    }
    let active: Vec<&str> =
        all.iter().filter(|entry| entry.is_active()).map(|entry| entry.vulnerability.as_str()).collect();
    if active.is_empty() {
        return Finding::Fine("no mitigation is active".to_owned());
    }
    let isolation = all.iter().any(|entry| entry.state.contains("PTI"));
    let range = if isolation { (200.0, 550.0) } else { (20.0, 150.0) };
    let effect = Effect::new(
        "every entry into the kernel",
        range,
        EffectUnit::Cycles,
        if isolation {
            "two page-table switches and speculation barriers"
        } else {
            "speculation barriers and buffer clearing"
        },
    );
    Finding::Normal(format!("mitigations: {}", active.join(", ")), effect)
}

/// What more privileges would allow.
pub(super) fn privileges(view: &View<'_>) -> Finding {
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
        return Finding::Unknown("the capabilities cannot be read".to_owned());
    }
    if missing.is_empty() {
        return Finding::Fine("every check was permitted".to_owned());
    }
    let remedy = "run as root (in a container: with the capabilities listed above)".to_owned();
    Finding::Problem(format!("not permitted: {}", missing.join(", ")), None, Some(remedy))
}

/// Software events need no hardware, but permission.
pub(super) fn perf_events(view: &View<'_>) -> Finding {
    let limits = &view.machine.limits;
    let Some(paranoid) = &view.machine.kernel.perf_event_paranoid else {
        return Finding::Unknown(
            "perf_event_paranoid cannot be read, so the kernel has no performance events".to_owned(),
        );
    };
    let allowed = paranoid.value <= 2 || limits.is_capable("PERFMON") || limits.is_capable("SYS_ADMIN");
    if allowed {
        return Finding::Fine(format!(
            "perf_event_paranoid is {}, so sysdyno may count its own events",
            paranoid.value
        ));
    }
    let detail = format!(
        "perf_event_paranoid is {}, so migrations, switches and faults are counted more coarsely",
        paranoid.value
    );
    Finding::Problem(detail, None, Some("sudo sysctl kernel.perf_event_paranoid=2".to_owned()))
}

/// Files that never reach a disk.
pub(super) fn scratch(view: &View<'_>) -> Finding {
    let Some(mount) = view.machine.scratch().and_then(|storage| storage.mount.as_ref()) else {
        return Finding::Unknown("the mount table cannot be read".to_owned());
    };
    let remedy = Some("sysdyno run --scratch DIR, with a directory on a local disk".to_owned());
    if let Some(why) = &mount.no_files {
        let detail = format!("no files can be made in {} ({why}), so file results are skipped", mount.directory);
        return Finding::Problem(detail, None, remedy);
    }
    if let Some(most) = view.machine.limits.file_bytes().filter(|most| *most < mount.polite_bytes()) {
        let detail = format!("no file may have more than {}, which bounds all scratch files", bytes(most));
        return Finding::Problem(detail, None, Some("raise the limit of file size: ulimit -f".to_owned()));
    }
    let place = format!("{} is on {}", mount.directory, mount.file_system.value);
    let what = match mount.medium {
        Medium::Disk => return Finding::Fine(place),
        Medium::Memory => "in main memory, so file results would be memory results",
        Medium::Overlay => "on layers, so sysdyno measures the container's storage, and cold reads cannot be proven",
        Medium::Network => "on another machine, so file results would be network results",
        Medium::UserSpace => "served by a program, so file results would be results of that program",
    };
    Finding::Problem(format!("{place}, {what}"), None, remedy)
}

/// A hypervisor takes the CPU away, invents facts and adds a level of page tables.
pub(super) fn hypervisor(view: &View<'_>) -> Finding {
    let machine = view.machine;
    let Some(name) = machine.limits.hypervisor.best() else {
        return if machine.cpu.hypervisor.is_some() || !machine.cpu.logical.is_empty() {
            Finding::Fine("no hypervisor is visible".to_owned())
        } else {
            Finding::Unknown("the processor is unknown".to_owned())
        };
    };
    let effect = Effect::percent(
        "page faults, wake-ups, input and output (computation hardly changes)",
        (0.0, 100.0),
        "two-level address translation makes a TLB miss take up to twice as long, and interrupts and devices leave the \
         guest",
    );
    let remedy = "use a bare-metal instance, because a guest cannot change this".to_owned();
    Finding::Problem(
        format!("this machine is a guest of a hypervisor: {} ({})", name.value, name.source),
        Some(effect),
        Some(remedy),
    )
}

/// A container adds layers to files and filters to system calls.
pub(super) fn container(view: &View<'_>) -> Finding {
    if let Some(emulator) = &view.machine.kernel.emulator {
        let reason = "each system call and each page fault changes to the process that imitates the kernel, and back";
        let spoils = "system calls, page faults, files, network";
        let effect = Effect::new(spoils, (0.2, 20.0), EffectUnit::Microseconds, reason);
        let detail = format!("{} ({}) answers system calls, and no Linux kernel does", emulator.value, emulator.source);
        let remedy = "use a container runtime without a sandbox, or run on the host".to_owned();
        return Finding::Problem(detail, Some(effect), Some(remedy));
    }
    let Some(name) = view.machine.limits.container.best() else {
        return if view.tree.exists("/proc/self/cgroup") {
            Finding::Fine("no sign of a container".to_owned())
        } else {
            Finding::Unknown("/proc/self/cgroup cannot be read".to_owned())
        };
    };
    let detail = format!("signs of a container: {} ({}). /proc and /sys may show the host", name.value, name.source);
    Finding::Problem(detail, None, Some("run the binary on the host (it is static and has no dependencies)".to_owned()))
}

/// A filter program runs before each system call.
pub(super) fn seccomp(view: &View<'_>) -> Finding {
    match view.machine.limits.seccomp.as_ref().map(|fact| fact.value) {
        None => Finding::Unknown("/proc/self/status does not report the filter".to_owned()),
        Some(0) => Finding::Fine("no system-call filter".to_owned()),
        Some(_) => {
            let reason = "the filter runs before each call, and calls that its bitmap allows cost the least";
            let effect = Effect::new("every system call", (10.0, 150.0), EffectUnit::Cycles, reason);
            let remedy = "docker run --security-opt seccomp=unconfined, or run on the host".to_owned();
            Finding::Problem("a seccomp filter program checks every system call".to_owned(), Some(effect), Some(remedy))
        }
    }
}

/// A tracer stops the process at its will.
pub(super) fn tracing(view: &View<'_>) -> Finding {
    if let Some(tracer) = &view.machine.limits.tracer {
        let reason = "two context switches, to the tracer and back, for each stop";
        let effect =
            Effect::new("system calls, signals, process creation", (2.0, 50.0), EffectUnit::Microseconds, reason);
        let remedy = "run without strace or a debugger".to_owned();
        return Finding::Problem(format!("process {} traces sysdyno", tracer.value), Some(effect), Some(remedy));
    }
    if view.tree.exists("/proc/self/status") {
        Finding::Fine("no process traces sysdyno".to_owned())
    } else {
        Finding::Unknown("/proc/self/status cannot be read".to_owned())
    }
}
