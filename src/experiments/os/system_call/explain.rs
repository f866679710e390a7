//! How the calls stand to the floor, to each other and to the mitigations of the kernel.

use super::{DEPTH, FLOOR, FUNCTION, RING, RING_BATCHED, VDSO, among_others, is_filtered, labels};
use crate::evaluate::findings::Findings;
use crate::evaluate::study::Study;
use crate::results::quantity::Labels;
use crate::results::wording::number;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, call: &str| findings.metric("os.system_call.time", &labels(call)).cloned();
    let Some(floor) = time(findings, FLOOR) else { return };
    let call = study.metric(
        "cpu.procedure_call.time",
        &Labels::of([("args", "0"), ("code", "registers"), ("chain", "throughput")]),
    );
    if let Some(call) = call {
        findings.say(format!(
            "Entering the kernel and leaving it again costs {}{}, {} procedure calls without arguments.",
            floor.text(),
            floor.cycles_text().map_or_else(String::new, |cycles| format!(" ({cycles} cycles)")),
            number(floor.value / call.value),
        ));
    }
    if let Some(among) = findings.metric("os.system_call.time", &among_others()) {
        let text = format!(
            "Made again and again the refused call costs {}, among other calls {}: what ran before decides how well the branches of the kernel are predicted.",
            floor.text(),
            among.text(),
        );
        findings.say(text);
    }
    if let (Some(direct), Some(function)) = (time(findings, "getppid"), time(findings, FUNCTION)) {
        let lost = function.value / direct.value - 1.0;
        findings.say(if lost > 0.05 {
            format!("Called through a function, as C libraries do it, getppid costs {} instead of {}: {} % more for one call and one return, a sign that what predicts returns does not survive the kernel. Tools that call a library print the larger figure.", function.text(), direct.text(), number(lost * 100.0))
        } else {
            format!("Called through a function, as C libraries do it, getppid costs {}, made directly {}: returns stay predicted across the kernel.", function.text(), direct.text())
        });
    }
    if let (Some(real), Some(vdso)) = (time(findings, "clock_gettime"), time(findings, VDSO)) {
        let times = real.value / vdso.value;
        findings.say(if times >= 1.5 {
            format!("Reading the clock through the vDSO saves the way into the kernel: {} instead of {}.", vdso.text(), real.text())
        } else {
            format!("Reading the clock through the vDSO costs {}, a real call {}: on this machine the vDSO enters the kernel too.", vdso.text(), real.text())
        });
    }
    if let (Some(single), Some(batched)) = (time(findings, RING), time(findings, RING_BATCHED)) {
        findings.say(format!(
            "A no-operation through io_uring costs {} alone and {} among 32 of one system call.",
            single.text(),
            batched.text(),
        ));
    }
    if let (Some(depth), Some(getcwd)) = (study.remarks(DEPTH).first(), time(findings, "getcwd")) {
        findings.say(format!("getcwd costs {} in a working directory {depth} levels deep.", getcwd.text()));
    }
    if is_filtered(study) {
        findings.say("A system-call filter is installed. The kernel runs it for a number that no call has, and remembers its answer for many calls that exist: the refused number cannot serve as a floor here, and no service is given.");
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
    let guest = if study.setup.machine.is_guest() { " Below this kernel is a hypervisor." } else { "" };
    findings.say(if mitigations.is_empty() {
        format!("No mitigation is active that the kernel would report.{guest}")
    } else {
        format!("Part of the floor are the active mitigations: {}.{guest}", mitigations.join(", "))
    });
}
