//! Which machine a run was made on: whether it is that of another run, and what readers call it.
//!
//! Machines that were installed from one image can share identifier and name, and one machine can get another processor. So
//! the same machine has the same identity and the same fingerprint. Where files were hidden from a run, its fingerprint is
//! made of fewer facts and does not prove another machine. Then the facts decide that both runs have.

use super::compact::Compact;

/// The facts of a fingerprint, by the beginnings of their names.
const HARDWARE: [&str; 7] = [
    "Processor: architecture",
    "Processor: identity",
    "Processor: model",
    "Processor: CPUs",
    "Processor: topology",
    "Memory: total",
    "Caches: ",
];
/// Without this fact nothing is known of a processor that clones could not share.
const IDENTITY: &str = "Processor: identity";

/// Whether two runs were made on one machine with one processor, as far as they say it.
pub fn is_same(one: &Compact, other: &Compact) -> bool {
    identity(one) == identity(other)
        && (one.node.fingerprint == other.node.fingerprint
            || one.node.machine.is_some() && differ_in_hidden(one, other))
}

/// Name of the node, and hash of its identifier: the same for clones, and for a machine that got other hardware.
pub fn identity(run: &Compact) -> (&str, Option<&str>) {
    (name(run), run.node.machine.as_deref())
}

/// Whether two fingerprints differ because facts were hidden from a run, as far as the facts show that both runs have.
fn differ_in_hidden(one: &Compact, other: &Compact) -> bool {
    let is_hardware = |fact: &str| HARDWARE.iter().any(|begin| fact.starts_with(begin));
    let agrees = |(fact, value): (&String, &String)| {
        !is_hardware(fact) || other.facts.get(fact).is_none_or(|found| found == value)
    };
    let are_known = [one, other].iter().all(|run| run.facts.contains_key(IDENTITY));
    (one.node.hidden || other.node.hidden) && are_known && one.facts.iter().all(agrees)
}

/// The name of the node, or the identifier of the run where the log does not name it.
fn name(run: &Compact) -> &str {
    run.node.name.as_deref().unwrap_or(&run.run.id)
}

/// The hardware in a few words: design of the core and number of CPUs.
pub fn hardware(run: &Compact) -> String {
    let fact = |name: &str| run.facts.get(name).map(|value| value.split(" (").next().unwrap_or(value));
    let design = fact("Processor: microarchitecture").or_else(|| fact("Processor: model"));
    let cpus = match fact("Processor: CPUs") {
        None => String::new(),
        Some("1") => ", 1 CPU".to_owned(),
        Some(cpus) => format!(", {cpus} CPUs"),
    };
    format!("{}{cpus}", design.unwrap_or("unknown processor"))
}

/// Name, hardware, and the hashes that distinguish it from machines of the same name and hardware.
pub fn title(run: &Compact) -> String {
    let identity = run.node.machine.as_ref().map_or_else(String::new, |machine| format!("{machine}, "));
    format!("{}, {} ({identity}model {})", name(run), hardware(run), run.node.fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &[u8] = include_bytes!("../../records/guest-zen4-2cpu-quiet-hour/node.json");

    fn run(change: impl Fn(&mut Compact)) -> Compact {
        let mut run = Compact::parse(RECORD).unwrap();
        change(&mut run);
        run
    }

    #[test]
    fn a_clone_on_another_processor_is_another_machine() {
        let (one, clone) = (run(|_| {}), run(|run| run.node.fingerprint = "another".to_owned()));
        assert!(is_same(&one, &one) && identity(&one) == identity(&clone));
        assert!(!is_same(&one, &clone), "all facts are known and agree, but the fingerprints differ");
        let unnamed = run(|run| run.node.machine = None);
        assert!(!is_same(&one, &unnamed) && is_same(&unnamed, &unnamed));
        assert_eq!(hardware(&one), "AMD Zen 4, 2 CPUs");
        assert_eq!(title(&one), "vm, AMD Zen 4, 2 CPUs (30ee9efcec1edbff, model 49cabe693a9d4c36)");
    }

    #[test]
    fn hidden_facts_make_no_other_machine() {
        let without = |hidden: &'static str, change: fn(&mut Compact)| {
            run(|run| {
                run.facts.retain(|fact, _| !fact.starts_with(hidden));
                run.node.fingerprint = "of fewer facts".to_owned();
                run.node.hidden = true;
                change(run);
            })
        };
        let whole = run(|_| {});
        assert!(is_same(&whole, &without("Caches: ", |_| {})) && is_same(&without("Caches: ", |_| {}), &whole));
        assert!(!is_same(&whole, &without("Processor: ", |_| {})), "the processor could be any");
        let other = |run: &mut Compact| drop(run.facts.insert(IDENTITY.to_owned(), "family 26".to_owned()));
        assert!(!is_same(&whole, &without("Caches: ", other)), "a fact of both differs");
        let all_read = |run: &mut Compact| run.node.hidden = false;
        assert!(!is_same(&whole, &without("Caches: ", all_read)), "nothing was hidden");
    }
}
