//! The kernel: its version and the settings that change what an operation costs (gate G17).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CPUS;
use super::cpu_list::CpuList;
use super::fact::{Claims, Fact};
use super::row::{FactRow, Mark, facts};
use super::software;
use super::tree::{Tree, value_of};

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";

/// The kernel and its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// Release, such as `6.18.44`.
    pub release: Option<Fact<String>>,
    /// The whole version text: compiler, preemption model, build date.
    pub version: Option<Fact<String>>,
    /// What answers system calls in the place of a Linux kernel, whose version it only claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Fact<String>>,
    /// Distribution whose files this process sees, such as `Debian GNU/Linux 12 (bookworm)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Fact<String>>,
    /// C library of its programs, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_library: Option<Fact<String>>,
    /// Scheduler of usual tasks, such as `EEVDF`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Fact<String>>,
    /// Command line.
    pub command_line: Option<Fact<String>>,
    /// Timer interrupts per second while a CPU is busy (`CONFIG_HZ`): 100, 250, 300 or 1000 on all but odd kernels.
    pub tick_hertz: Option<Fact<u32>>,
    /// Preemption model.
    pub preemption: Claims<String>,
    /// Clock source behind `clock_gettime`.
    pub clock_source: Option<Fact<String>>,
    /// Clock sources that could be chosen.
    pub clock_sources_available: Vec<String>,
    /// What is done against each processor vulnerability, by its name.
    pub mitigations: Vec<Mitigation>,
    /// Address-space randomisation: 0 none, 1 without the heap, 2 full.
    pub address_randomisation: Option<Fact<u32>>,
    /// What `perf_event_open` is refused to unprivileged users: from -1 (nothing) to 4 (everything).
    pub perf_event_paranoid: Option<Fact<i32>>,
    /// `io_uring`: 0 allowed, 1 for a group, 2 disabled.
    pub io_uring_disabled: Option<Fact<u32>>,
    /// Linux security modules.
    pub security_modules: Option<Fact<String>>,
    /// Driver of the processor's idle states.
    pub idle_driver: Option<Fact<String>>,
    /// Idle states of CPU 0, lightest first.
    pub idle_states: Vec<IdleState>,
    /// Driver of the processor's frequency.
    pub frequency_driver: Option<Fact<String>>,
    /// Frequency governors in use, each once, joined with `, `.
    pub governor: Option<Fact<String>>,
    /// Preference between energy and performance that the hardware's own governor is given.
    pub energy_preference: Option<Fact<String>>,
    /// True when frequencies above the nominal one are allowed.
    pub turbo: Option<Fact<bool>>,
    /// CPUs that the scheduler leaves alone.
    pub isolated: Option<Fact<CpuList>>,
    /// CPUs without a timer interrupt while they run one task.
    pub tickless: Option<Fact<CpuList>>,
}

/// What the kernel does against one vulnerability (`/sys/devices/system/cpu/vulnerabilities`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mitigation {
    /// Name of the vulnerability, as the file is called.
    pub vulnerability: String,
    /// `Not affected`, `Vulnerable…` or `Mitigation: …`.
    pub state: String,
}

impl Kernel {
    /// What answers system calls, with its version: the whole of it, or without the part behind the first dash.
    pub(super) fn name(&self, short: bool) -> Option<String> {
        let release = self.release.as_ref().map(|fact| fact.value.as_str());
        let release =
            release.map(|release| if short { release.split('-').next().unwrap_or_default() } else { release });
        match (&self.emulator, release) {
            (Some(emulator), Some(release)) => Some(format!("{} (claims Linux {release})", emulator.value)),
            (Some(emulator), None) => Some(emulator.value.clone()),
            (None, release) => release.map(|release| format!("Linux {release}")),
        }
    }
}

impl Mitigation {
    /// True when something is done, and so something is paid.
    pub fn is_active(&self) -> bool {
        self.state.starts_with("Mitigation")
    }

    fn row(&self) -> Option<FactRow> {
        let source = format!("{CPUS}/vulnerabilities/{}", self.vulnerability);
        let row = FactRow::new(&self.vulnerability, &self.state, source);
        let marks = (self.vulnerability == "spectre_v2").then_some(Mark::Screen);
        (self.state != "Not affected").then(|| FactRow { marks: marks.into_iter().collect(), ..row })
    }
}

/// An idle state of a CPU (`cpu0/cpuidle/stateN`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// Time to leave it in microseconds, as the driver states it.
    pub exit_microseconds: Option<u32>,
    /// True when it may not be entered.
    pub disabled: bool,
}

facts! {
    kernel: Kernel, tree: &Tree;
    emulator = emulator(tree) => FactRow::of("system calls answered by", &kernel.emulator, Clone::clone)
        .map(|row| row.with_note(Some("no Linux kernel, so its version only states which calls it imitates")));
    release = release(tree), "release" Report;
    version = tree.fact("/proc/version"), "version";
    distribution = software::distribution(tree), "distribution" Report;
    c_library = software::c_library(tree), "C library";
    scheduler = software::scheduler(tree, kernel.release.as_ref()).filter(|_| kernel.emulator.is_none()), "scheduler";
    command_line = tree.fact("/proc/cmdline"), "command line";
    tick_hertz = tick_hertz(tree, kernel.release.as_ref()) => tick_row(kernel);
    preemption = preemption(tree, kernel.version.as_ref()), "preemption";
    clock_sources_available = words(tree, &format!("{CLOCK}/available_clocksource"));
    clock_source = tree.fact(&format!("{CLOCK}/current_clocksource")) => clock_row(kernel);
    frequency_driver = tree.fact(&format!("{CPUS}/cpu0/cpufreq/scaling_driver")), "frequency driver";
    governor = of_all_policies(tree, "scaling_governor"), "frequency governor";
    energy_preference = of_all_policies(tree, "energy_performance_preference"), "energy preference";
    turbo = turbo(tree), "turbo", |on| if *on { "on" } else { "off" }.to_owned();
    idle_driver = tree.fact(&format!("{CPUS}/cpuidle/current_driver")), "idle driver";
    idle_states = idle_states(tree) => idle_row(kernel);
    isolated = cpus(tree, "isolated"), "isolated CPUs";
    tickless = cpus(tree, "nohz_full"), "CPUs without ticks";
    address_randomisation = tree.parsed("/proc/sys/kernel/randomize_va_space"), "address randomisation";
    perf_event_paranoid = tree.parsed("/proc/sys/kernel/perf_event_paranoid"), "perf_event_paranoid";
    io_uring_disabled = tree.parsed("/proc/sys/kernel/io_uring_disabled"), "io_uring_disabled";
    security_modules = tree.fact("/sys/kernel/security/lsm"), "security modules";
    mitigations = mitigations(tree) => kernel.mitigations.iter().filter_map(Mitigation::row);
}

fn release(tree: &Tree) -> Option<Fact<String>> {
    let of_version = |text: String| Some(text.strip_prefix("Linux version ")?.split(' ').next()?.to_owned());
    tree.fact("/proc/sys/kernel/osrelease").or_else(|| tree.fact("/proc/version")?.filter_map(of_version))
}

fn words(tree: &Tree, path: &str) -> Vec<String> {
    tree.trimmed(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn cpus(tree: &Tree, file: &str) -> Option<Fact<CpuList>> {
    let path = format!("{CPUS}/{file}");
    tree.cpu_list(&path).filter(|list| !list.is_empty()).map(|list| Fact::new(list, path))
}

fn tick_row(kernel: &Kernel) -> Option<FactRow> {
    kernel.release.as_ref()?;
    FactRow::of("timer interrupts", &kernel.tick_hertz, |hertz| format!("{hertz} Hz")).or_else(|| {
        let reason = "the kernel's configuration is not readable";
        Some(FactRow::new("timer interrupts", "100 to 1000 Hz", "").with_note(Some(reason)))
    })
}

fn clock_row(kernel: &Kernel) -> Option<FactRow> {
    let others = kernel.clock_sources_available.join(" ");
    let note = (!others.is_empty()).then(|| format!("available: {others}"));
    let row = FactRow::of("clock source", &kernel.clock_source, Clone::clone);
    row.map(|row| row.with_note(note).marked([Mark::Screen]))
}

fn idle_row(kernel: &Kernel) -> Option<FactRow> {
    let state = |state: &IdleState| {
        let exit = state.exit_microseconds.map(|time| format!(" ({time} µs)")).unwrap_or_default();
        format!("{}{exit}{}", state.name, if state.disabled { " off" } else { "" })
    };
    let states: Vec<String> = kernel.idle_states.iter().map(state).collect();
    let row = || FactRow::new("idle states", states.join(", "), format!("{CPUS}/cpu0/cpuidle"));
    (!states.is_empty()).then(row).map(|row| row.marked([Mark::Screen]))
}

/// gVisor, by the version text that all its releases claim, or by its own name in it. Where that text cannot be read, by a processor
/// without a name whose bogomips are its megahertz.
pub(super) fn emulator(tree: &Tree) -> Option<Fact<String>> {
    const VERSION: &str = "/proc/version";
    const CLAIMED: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
    let gvisor = |source: String| Fact::new("gVisor".to_owned(), source);
    if let Some(text) = tree.text(VERSION) {
        let is_gvisor = text.contains(CLAIMED) || text.to_ascii_lowercase().contains("gvisor");
        return is_gvisor.then(|| gvisor(VERSION.to_owned()));
    }
    let text = tree.text(super::cpuinfo::CPUINFO)?;
    let value = |key: &str| value_of(&text, key);
    let is_gvisor = value("model name") == Some("unknown") && value("bogomips")? == value("cpu MHz")?;
    is_gvisor.then(|| gvisor(format!("{} bogomips", super::cpuinfo::CPUINFO)))
}

fn tick_hertz(tree: &Tree, release: Option<&Fact<String>>) -> Option<Fact<u32>> {
    let release = &release?.value;
    [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/usr/lib/modules/{release}/config"),
    ]
    .into_iter()
    .find_map(|path| {
        let hertz = value_of(&tree.text(&path)?, "CONFIG_HZ")?.parse().ok()?;
        Some(Fact::new(hertz, format!("{path} CONFIG_HZ")))
    })
}

/// The model in force where debugfs shows it, then what the kernel was built with.
fn preemption(tree: &Tree, version: Option<&Fact<String>>) -> Claims<String> {
    const CHOICE: &str = "/sys/kernel/debug/sched/preempt";
    let chosen = tree.trimmed(CHOICE).and_then(|text| {
        let (_, rest) = text.split_once('(')?;
        Some(Fact::new(rest.split_once(')')?.0.to_owned(), CHOICE))
    });
    let built = version.and_then(|fact| {
        let word = fact.value.split_whitespace().find(|word| word.starts_with("PREEMPT"));
        Some(Fact::new(word?.to_owned(), fact.source.clone()))
    });
    Claims::of([chosen, built])
}

fn mitigations(tree: &Tree) -> Vec<Mitigation> {
    let directory = format!("{CPUS}/vulnerabilities");
    let read = |vulnerability: String| {
        let state = tree.trimmed(&format!("{directory}/{vulnerability}"))?;
        Some(Mitigation { vulnerability, state })
    };
    tree.names(&directory).into_iter().filter_map(read).collect()
}

fn idle_states(tree: &Tree) -> Vec<IdleState> {
    let directory = format!("{CPUS}/cpu0/cpuidle");
    let read = |number: u32| {
        let path = |file: &str| format!("{directory}/state{number}/{file}");
        Some(IdleState {
            name: tree.trimmed(&path("name"))?,
            exit_microseconds: tree.parsed(&path("latency")).map(|fact| fact.value),
            disabled: tree.parsed::<u32>(&path("disable")).is_some_and(|fact| fact.value != 0),
        })
    };
    tree.numbered(&directory, "state").into_iter().filter_map(read).collect()
}

/// One setting of all CPUs: the distinct values.
fn of_all_policies(tree: &Tree, file: &str) -> Option<Fact<String>> {
    let mut values: Vec<String> = tree
        .numbered(CPUS, "cpu")
        .into_iter()
        .filter_map(|cpu| tree.trimmed(&format!("{CPUS}/cpu{cpu}/cpufreq/{file}")))
        .collect();
    values.sort();
    values.dedup();
    (!values.is_empty()).then(|| Fact::new(values.join(", "), format!("{CPUS}/cpu*/cpufreq/{file}")))
}

fn turbo(tree: &Tree) -> Option<Fact<bool>> {
    let switch = |path: String, on: u32| tree.parsed::<u32>(&path).map(|fact| fact.map(|value| value == on));
    switch(format!("{CPUS}/intel_pstate/no_turbo"), 0).or_else(|| switch(format!("{CPUS}/cpufreq/boost"), 1))
}
