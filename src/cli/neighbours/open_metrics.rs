//! The last interval as OpenMetrics (openmetrics.io, version 1.0), which the textfile collector of Prometheus also reads.

use super::account::{Core, CpuAccount};

/// The end of every exposition.
pub(super) const END: &str = "# EOF\n";

/// A family with one value of each CPU, as far as it is known: name, unit, what it says, value.
type Gauge = (&'static str, &'static str, &'static str, fn(&Core) -> Option<f64>);

const GAUGES: [Gauge; 5] = [
    (
        "sysdyno_neighbour_ratio",
        "ratio",
        "Share of the looks of the last interval with a neighbour on the core of the CPU.",
        |core| core.last.count.share_of_decided(),
    ),
    (
        "sysdyno_steal_ratio",
        "ratio",
        "Share of the last interval that the hypervisor stole from the CPU, by the kernel's account.",
        |core| core.last.steal,
    ),
    (
        "sysdyno_run_queue_delay_seconds",
        "seconds",
        "Mean time in the last interval that a thread waited for the CPU before a look.",
        |core| core.last.delay.map(|nanoseconds| nanoseconds * 1e-9),
    ),
    (
        "sysdyno_core_frequency_hertz",
        "hertz",
        "Median frequency of the core during the looks of the last interval.",
        |core| core.last.hertz,
    ),
    ("sysdyno_own_ratio", "ratio", "Share of the last interval that the looks used of the CPU.", |core| core.last.own),
];

/// All families. One of which nothing is known is left out.
pub(super) fn text(account: &CpuAccount) -> String {
    let mut text = String::new();
    for (name, unit, help, value) in GAUGES {
        let known = || account.cores.iter().filter_map(|core| Some((core.cpu, value(core)?)));
        if known().next().is_some() {
            text += &format!("# TYPE {name} gauge\n# UNIT {name} {unit}\n# HELP {name} {help}\n");
        }
        for (cpu, value) in known() {
            text += &format!("{name}{{cpu=\"{cpu}\"}} {value}\n");
        }
    }
    text += "# TYPE sysdyno_looks counter\n# HELP sysdyno_looks Looks at the core since the start, by their outcome.\n";
    for core in &account.cores {
        let total = core.presence.total();
        for (saw, count) in [("alone", total.alone), ("neighbour", total.shared), ("unknown", total.open())] {
            text += &format!("sysdyno_looks_total{{cpu=\"{}\",saw=\"{saw}\"}} {count}\n", core.cpu);
        }
    }
    text + END
}

#[cfg(test)]
mod tests {
    use super::super::account::tests::scripted;
    use super::*;

    #[test]
    fn what_is_known_stands_there_and_nothing_else() {
        let text = text(&scripted());
        for line in [
            "# UNIT sysdyno_neighbour_ratio ratio",
            "sysdyno_neighbour_ratio{cpu=\"0\"} 0.3333333333333333",
            "sysdyno_run_queue_delay_seconds{cpu=\"0\"} 0.000003",
            "sysdyno_core_frequency_hertz{cpu=\"0\"} 3005000000",
            "sysdyno_looks_total{cpu=\"0\",saw=\"neighbour\"} 120",
            "sysdyno_looks_total{cpu=\"3\",saw=\"unknown\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("ratio{cpu=\"3\"}") && text.ends_with(END), "{text}");
    }
}
