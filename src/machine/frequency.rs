//! What is claimed about the clocks: four different quantities, never merged.

use super::cpuid::Cpuid;
use super::cpuinfo::{CPUINFO, CpuinfoBlocks};
use super::fact::{Claims, Fact};
use super::topology::LogicalCpu;
use super::tree::Tree;
use crate::sys::file::open_at_once;

/// Reads what is claimed about the clocks of a processor with this name and these CPUs, in hertz: the core at its nominal frequency, the
/// fastest core at its highest frequency, a core now, the counter. `has_bogomips` says that bogomips are twice the counter's rate.
pub(super) fn read(
    tree: &Tree,
    cpuid: &Cpuid,
    blocks: &CpuinfoBlocks,
    name: Option<&Fact<String>>,
    cpus: &[LogicalCpu],
    has_bogomips: bool,
) -> [Claims<f64>; 4] {
    let brand = name.cloned().and_then(|fact| fact.filter_map(|name| brand_hertz(&name)));
    let momentary = megahertz(blocks, "cpu MHz", 1.0);
    let counter = counter_claims(tree, cpuid, blocks, has_bogomips);
    let nominal = Claims::of([
        cpus.iter().find_map(|entry| entry.base_hertz.clone()),
        cpuid.base_hertz.clone(),
        brand,
        counter_as_nominal(tree, blocks, momentary.as_ref(), &counter).filter(|_| has_bogomips),
    ]);
    let maximum = Claims::of([fastest(tree, cpus), cpuid.maximum_hertz.clone()]);
    [nominal, maximum, Claims::of([momentary]), counter]
}

/// The counter's rate of an x86 processor without a frequency driver, which is its nominal frequency. There the kernel prints the rate
/// at which it calibrated the counter as `cpu MHz`, unless it can read the clock of the moment (`aperfmperf`).
fn counter_as_nominal(
    tree: &Tree,
    blocks: &CpuinfoBlocks,
    momentary: Option<&Fact<f64>>,
    counter: &Claims<f64>,
) -> Option<Fact<f64>> {
    let flags = blocks.text("flags")?.value;
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    if tree.exists("/sys/devices/system/cpu/cpu0/cpufreq") {
        return None;
    }
    let calibrated = momentary.filter(|_| !has("aperfmperf"));
    let found = calibrated.or_else(|| counter.best().filter(|_| has("constant_tsc")))?;
    let source = format!("{} (the counter's rate, because no frequency driver is loaded)", found.source);
    Some(Fact::new(found.value, source))
}

fn fastest(tree: &Tree, cpus: &[LogicalCpu]) -> Option<Fact<f64>> {
    let fastest = cpus.iter().filter(|entry| entry.maximum_hertz.is_some()).max_by(|left, right| {
        let hertz = |entry: &LogicalCpu| entry.maximum_hertz.unwrap_or(0.0);
        hertz(left).total_cmp(&hertz(right))
    })?;
    maximum_of(tree.trimmed("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver").as_deref(), fastest)
}

/// The maximum of one CPU as its frequency driver states it.
pub(super) fn maximum_of(driver: Option<&str>, cpu: &LogicalCpu) -> Option<Fact<f64>> {
    // acpi-cpufreq lists the states of the firmware's table, whose highest one is the base frequency.
    let caution = if driver == Some("acpi-cpufreq") { " (acpi-cpufreq, without boost)" } else { "" };
    let source = format!("/sys/devices/system/cpu/cpu{}/cpufreq/cpuinfo_max_freq{caution}", cpu.cpu);
    cpu.maximum_hertz.map(|hertz| Fact::new(hertz, source))
}

fn counter_claims(tree: &Tree, cpuid: &Cpuid, blocks: &CpuinfoBlocks, has_bogomips: bool) -> Claims<f64> {
    let module = "/sys/devices/system/cpu/cpu0/tsc_freq_khz";
    let boot_log = boot_log(tree);
    let logged = |pick: fn(&str) -> Option<f64>| {
        let (text, source) = boot_log.as_ref()?;
        text.lines().filter_map(pick).next_back().map(|hertz| Fact::new(hertz, source.clone()))
    };
    Claims::of([
        cpuid.tsc_hertz.clone(),
        cpuid.hypervisor_tsc_hertz.clone(),
        logged(logged_counter_hertz),
        tree.parsed::<u32>(module).map(|fact| fact.map(|kilohertz| f64::from(kilohertz) * 1e3)),
        // The kernel derives its delay loop from the counter: bogomips is twice the counter's MHz on x86 and on Arm.
        megahertz(blocks, "bogomips", 0.5).or_else(|| megahertz(blocks, "BogoMIPS", 0.5)).filter(|_| has_bogomips),
    ])
}

/// The boot messages, where they can be read: a log file, or the kernel's own buffer.
fn boot_log(tree: &Tree) -> Option<(String, String)> {
    const FILES: [&str; 2] = ["/var/log/dmesg", "/dev/kmsg"];
    FILES
        .iter()
        .filter_map(|path| tree.text(path).map(|text| (text, (*path).to_owned())))
        .chain(tree.is_live().then(|| (kernel_messages(), "/dev/kmsg".to_owned())))
        .find(|(text, _)| !text.is_empty())
}

/// The messages that are in the kernel's buffer; empty when they may not be read. One read gives one message, and the
/// read after the last one would wait for the next message, hence the non-blocking open.
fn kernel_messages() -> String {
    use std::io::Read;

    /// The messages about clocks come within the first few hundred; the bound ends the loop on a chatty machine.
    const MOST_MESSAGES: usize = 4000;
    /// `CONSOLE_EXT_LOG_MAX` of the kernel; a shorter buffer makes the read fail.
    const LONGEST_MESSAGE: usize = 8192;

    let Ok(mut file) = open_at_once(std::path::Path::new("/dev/kmsg")) else { return String::new() };
    let mut text = String::new();
    let mut message = vec![0; LONGEST_MESSAGE];
    for _ in 0..MOST_MESSAGES {
        match file.read(&mut message) {
            Ok(length) if length > 0 => text.push_str(&String::from_utf8_lossy(&message[..length])),
            // The oldest messages were overwritten between two reads: the position moves to the next one.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            _ => break,
        }
    }
    text
}

/// The counter's rate in a message such as `tsc: Refined TSC clocksource calibration: 2592.000 MHz`,
/// `tsc: Detected 2600.000 MHz TSC` or `arch_timer: cp15 timer(s) running at 25.00MHz (phys).`
fn logged_counter_hertz(message: &str) -> Option<f64> {
    let rest = ["tsc: Refined TSC clocksource calibration: ", "tsc: Detected ", "timer(s) running at "]
        .iter()
        .find_map(|prefix| message.split_once(prefix))?
        .1;
    let (number, _) = rest.split_once("MHz")?;
    positive_hertz(number.trim(), 1e6)
}

/// A frequency in `/proc/cpuinfo` that is written in MHz.
fn megahertz(blocks: &CpuinfoBlocks, field: &str, factor: f64) -> Option<Fact<f64>> {
    let claim = blocks.text(field)?.filter_map(|text| positive_hertz(&text, 1e6 * factor))?;
    let source = if (factor - 1.0).abs() < f64::EPSILON {
        format!("{CPUINFO} {field}")
    } else {
        format!("{CPUINFO} {field} × {factor}")
    };
    Some(Fact::new(claim.value, source))
}

/// The frequency at the end of a name such as `Intel(R) Core(TM) i7-6700HQ CPU @ 2.60GHz`.
pub(super) fn brand_hertz(name: &str) -> Option<f64> {
    for (suffix, unit) in [("GHz", 1e9), ("MHz", 1e6)] {
        if let Some((before, _)) = name.rsplit_once(suffix) {
            let number = before.trim_end().rsplit([' ', '@']).next()?;
            return positive_hertz(number, unit);
        }
    }
    None
}

/// Whole hertz of a positive finite number; zero stands for "not known" in every one of these files. No clock exceeds
/// 100 GHz, so a larger number is a corrupt file.
fn positive_hertz(number: &str, unit: f64) -> Option<f64> {
    let hertz = (number.parse::<f64>().ok()? * unit).round();
    (hertz > 0.0 && hertz < 1e11).then_some(hertz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brand_string_may_end_in_a_frequency() {
        assert_eq!(brand_hertz("Intel(R) Core(TM) i7-6700HQ CPU @ 2.60GHz"), Some(2.6e9));
        assert_eq!(brand_hertz("Pentium III 800 MHz"), Some(8e8));
        assert_eq!(brand_hertz("AMD EPYC 7763 64-Core Processor"), None);
        assert_eq!(brand_hertz("GHz"), None);
    }

    #[test]
    fn boot_messages_tell_the_counters_rate() {
        for (message, hertz) in [
            ("6,1,0,-;tsc: Detected 2600.000 MHz processor", Some(2.6e9)),
            ("[ 1.2] tsc: Refined TSC clocksource calibration: 2591.998 MHz", Some(2_591_998_000.0)),
            ("arch_timer: cp15 timer(s) running at 25.00MHz (phys).", Some(25e6)),
            ("tsc: Detected NaN MHz", None),
            ("tsc: Fast TSC calibration using PIT", None),
        ] {
            assert_eq!(logged_counter_hertz(message), hertz, "{message}");
        }
    }
}
