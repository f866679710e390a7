//! How the calls stand to the floor, to each other and to the mitigations of the kernel.

use super::{DEPTH, FLOOR, FUNCTION, RING, RING_BATCHED, VDSO, among_others, is_filtered, labels};
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::results::quantity::{Labels, Unit};
use crate::results::wording::significant;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, call: &str| findings.metric("os.system_call.time", &labels(call)).cloned();
    let Some(floor) = time(findings, FLOOR) else { return };
    let call = study.metric(
        "cpu.procedure_call.time",
        &Labels::of([("args", "0"), ("code", "registers"), ("chain", "throughput")]),
    );
    if let Some(call) = call {
        findings.say(format!(
            "Kernel entry and exit cost {}{}, as much as {} procedure calls without arguments.",
            floor.text(),
            floor.cycles_text().map_or_else(String::new, |cycles| format!(" ({cycles} cycles)")),
            significant(floor.value / call.value, Unit::One, 2),
        ));
    }
    if let Some(among) = findings.metric("os.system_call.time", &among_others()) {
        let text = format!(
            "The refused call costs {} when repeated and {} among other calls. Earlier calls decide how well the CPU \
             predicts the branches of the kernel.",
            floor.text(),
            among.text(),
        );
        findings.say(text);
    }
    if let (Some(direct), Some(function)) = (time(findings, "getppid"), time(findings, FUNCTION)) {
        let lost = function.value / direct.value - 1.0;
        findings.say(if lost > 0.05 {
            format!(
                "Called through a function, as in C libraries, getppid costs {} instead of {}, {} % more for one call \
                 and its return. Return predictions most likely do not survive the kernel. Tools that call a library \
                 print the larger result.",
                function.text(),
                direct.text(),
                significant(lost * 100.0, Unit::One, 2)
            )
        } else {
            format!(
                "Called through a function, as in C libraries, getppid costs {}, and directly {}. Return predictions \
                 survive the kernel.",
                function.text(),
                direct.text()
            )
        });
    }
    if let (Some(real), Some(vdso)) = (time(findings, "clock_gettime"), time(findings, VDSO)) {
        let times = real.value / vdso.value;
        findings.say(if times >= 1.5 {
            format!(
                "A clock read through the vDSO costs {} instead of {}, because it does not enter the kernel.",
                vdso.text(),
                real.text()
            )
        } else {
            format!(
                "A clock read through the vDSO costs {}, and a real call {}. On this machine the vDSO also enters the \
                 kernel.",
                vdso.text(),
                real.text()
            )
        });
    }
    if let (Some(single), Some(batched)) = (time(findings, RING), time(findings, RING_BATCHED)) {
        findings.say(format!(
            "A no-operation through io_uring costs {} alone, and {} as one of 32 in a system call.",
            single.text(),
            batched.text(),
        ));
    }
    if let (Some(depth), Some(getcwd)) = (study.remarks(DEPTH).first(), time(findings, "getcwd")) {
        findings.say(format!("getcwd costs {} in a working directory {depth} levels deep.", getcwd.text()));
    }
    if is_filtered(study) {
        findings.say(
            "A system-call filter is installed. The kernel caches its verdict for many calls that exist, but runs it \
             for a number without a call. The refused call is therefore not a floor here, and no service is published.",
        );
    }
    let mitigations: Vec<String> = study
        .setup
        .machine
        .kernel
        .mitigations
        .iter()
        .filter(|mitigation| mitigation.state.starts_with("Mitigation"))
        .map(|mitigation| mitigation.vulnerability.clone())
        .collect();
    let guest = if study.setup.machine.is_guest() { " This kernel runs on a hypervisor." } else { "" };
    findings.say(if mitigations.is_empty() {
        format!("The kernel reports no active mitigation.{guest}")
    } else {
        format!("The floor includes the active mitigations: {}.{guest}", mitigations.join(", "))
    });
}
