//! Questions that the sources answer differently (gate G12). A mask, a quota or a limit restricts, and contradicts nothing.

use super::fact::{Claims, Contradiction, Fact, Stated};
use super::wording::{bytes, hertz};
use super::{Cache, Machine};

/// Two statements of one frequency agree within rounding: brand strings have two decimals.
const FREQUENCY_TOLERANCE: f64 = 0.02;
/// Two statements of the counter's rate agree within the kernel's own calibration (some tens of parts per million).
const COUNTER_TOLERANCE: f64 = 500e-6;

/// Every contradiction, in the order of the description.
pub(super) fn all(machine: &Machine) -> Vec<Contradiction> {
    let cpu = &machine.cpu;
    let mut found = vec![
        different("number of CPUs", &cpu.count, ToString::to_string),
        numbers_of_cpus(machine),
        microarchitecture(machine),
        frequency("nominal frequency", &cpu.nominal_hertz, FREQUENCY_TOLERANCE),
        frequency("maximum frequency", &cpu.maximum_hertz, FREQUENCY_TOLERANCE),
        clock_above_maximum(machine),
        frequency("rate of the time-stamp counter", &cpu.counter_hertz, COUNTER_TOLERANCE),
    ];
    found.extend(machine.caches.iter().map(cache_size));
    found.push(different("page size", &machine.memory.page_bytes, |value| bytes(*value)));
    found.push(memory_size(machine));
    found.push(different("number of memory channels", &machine.memory.channels, ToString::to_string));
    found.push(turning_disk(machine));
    found.push(hidden_hypervisor(machine));
    found.into_iter().flatten().collect()
}

fn contradiction(question: &str, claims: Vec<Fact<String>>) -> Contradiction {
    Contradiction { question: question.to_owned(), claims }
}

fn different<T: PartialEq>(question: &str, claims: &Claims<T>, write: impl Fn(&T) -> String) -> Option<Contradiction> {
    claims.differ().then(|| contradiction(question, claims.texts(write)))
}

fn frequency(question: &str, claims: &Claims<f64>, tolerance: f64) -> Option<Contradiction> {
    claims.contradictory(tolerance).then(|| contradiction(question, claims.texts(|value| hertz(*value))))
}

/// The list of online CPUs of a container against the numbers that the kernel takes.
fn numbers_of_cpus(machine: &Machine) -> Option<Contradiction> {
    let claims = Claims::of([machine.limits.affinity.best().cloned(), machine.cpu.virtual_online.clone()]);
    machine.cpu.virtual_online.as_ref()?;
    different("numbers of the CPUs", &claims, ToString::to_string)
}

fn microarchitecture(machine: &Machine) -> Option<Contradiction> {
    let found = &machine.cpu.microarchitecture;
    found.contradictory().then(|| {
        let claims = [found.by_features.clone(), found.by_model.clone()];
        contradiction("microarchitecture", Claims::of(claims).texts(|class| class.name().to_owned()))
    })
}

/// A clock above the stated maximum: the maximum leaves boost out, or one of the two is the counter's rate.
fn clock_above_maximum(machine: &Machine) -> Option<Contradiction> {
    let (maximum, now) = (machine.cpu.maximum_hertz.best()?, machine.cpu.momentary_hertz.best()?);
    (now.value > maximum.value * (1.0 + FREQUENCY_TOLERANCE)).then(|| {
        let claims = Claims::of([Some(now.clone()), Some(maximum.clone())]);
        contradiction("core frequency now against its maximum", claims.texts(|value| hertz(*value)))
    })
}

fn cache_size(cache: &Cache) -> Option<Contradiction> {
    different(&format!("size of {}", cache.name()), &cache.size_bytes, |value| bytes(*value))
}

fn memory_size(machine: &Machine) -> Option<Contradiction> {
    /// A kernel keeps one to four per cent for itself, integrated graphics some more.
    const KEPT: f64 = 0.12;
    let installed: u64 = machine.memory.modules.iter().map(|module| module.size_bytes).sum();
    let managed = machine.memory.total_bytes.clone()?;
    let plugged = (installed > 0).then(|| Fact::new(installed, format!("{} type 17", super::smbios::TABLE)));
    let missing = plugged.filter(|fact| (fact.value as f64 - managed.value as f64).abs() > KEPT * fact.value as f64);
    let of_nodes: u64 = machine.memory.nodes.iter().filter_map(|node| node.total_bytes).sum();
    let on_nodes = (of_nodes > 0).then(|| Fact::new(of_nodes, "/sys/devices/system/node/node*/meminfo"));
    let elsewhere =
        on_nodes.filter(|fact| (fact.value as f64 - managed.value as f64).abs() > KEPT * managed.value as f64);
    let claims = Claims::of([Some(managed), missing, elsewhere]);
    different("size of the memory", &claims, |value| bytes(*value))
}

fn turning_disk(machine: &Machine) -> Option<Contradiction> {
    let device = machine.scratch()?.device.as_ref()?;
    (device.is_virtual && device.rotational == Some(true)).then(|| {
        let driver = device.driver.clone().unwrap_or_default();
        let claims = vec![
            Fact::new("the host decides".to_owned(), format!("driver {driver}, {}/device/uevent", device.source)),
            Fact::new("yes".to_owned(), format!("{}/queue/rotational", device.source)),
        ];
        contradiction(&format!("whether {} is a rotating disk", device.name), claims)
    })
}

/// The processor denies a hypervisor that others name.
fn hidden_hypervisor(machine: &Machine) -> Option<Contradiction> {
    let flag = machine.cpu.hypervisor.as_ref().filter(|fact| !fact.value)?;
    let named = machine.limits.hypervisor.best()?;
    let claims = vec![named.clone(), Fact::new("no".to_owned(), flag.source.clone())];
    Some(contradiction("whether this machine is a guest of a hypervisor", claims))
}
