//! How the calls stand to the floor, to each other and to the mitigations of the kernel.

use super::{DEPTH, FLOOR, FUNCTION, RING, RING_BATCHED, VDSO, in_work, is_filtered, mitigations, repeated};
use crate::experiments::prelude::*;
use crate::results::ratio::{Order, scaled};
use crate::results::wording::share;

/// A call through a function that takes this share longer has lost its return predictions.
const LOST: f64 = 0.05;
/// A clock read that enters the kernel takes at most this many times less than a real call.
const ENTERS: f64 = 1.5;

pub(super) fn explain(study: &Study<'_>, findings: &mut Findings) {
    let Some(floor) = time(findings, FLOOR) else { return };
    tell_floor(study, findings, &floor);
    tell_surroundings(findings, &floor);
    tell_function(findings);
    tell_vdso(findings);
    tell_ring(findings);
    tell_directory(study, findings);
    if is_filtered(study) {
        findings.say(
            "A system-call filter is installed. The kernel caches its verdict for many calls that exist, but runs it \
             for a number without a call. The refused call is therefore not a floor here, and no service is published.",
        );
    }
    tell_mitigations(study, findings);
}

fn time(findings: &Findings, call: &str) -> Option<Metric> {
    findings.metric("os.system_call.time", &in_work(call)).cloned()
}

/// Kernel entry and exit, in procedure calls.
fn tell_floor(study: &Study<'_>, findings: &mut Findings, floor: &Metric) {
    let labels = Labels::of([("args", "0"), ("code", "registers"), ("chain", "throughput")]);
    let Some(call) = study.metric("cpu.procedure_call.time", &labels) else { return };
    let calls = Ratio::of(floor, call, 1.0)
        .map_or_else(String::new, |ratio| format!(", as much as {} procedure calls without arguments", ratio.text()));
    findings.say(format!(
        "Kernel entry and exit cost {}{}{calls}.",
        floor.shown(),
        floor.cycles_shown().map_or_else(String::new, |cycles| format!(" ({cycles} cycles)")),
    ));
}

/// The refused call in ordinary work and after itself.
fn tell_surroundings(findings: &mut Findings, floor: &Metric) {
    let time = |labels: &Labels| findings.metric("os.system_call.time", labels).cloned();
    let Some(again) = time(&repeated(FLOOR)) else { return };
    let why = match Order::of(floor, &again) {
        Order::Alike | Order::Open => "",
        Order::Larger(_) | Order::Smaller(_) => {
            " The code around a call decides how well the CPU predicts the branches of the kernel."
        }
    };
    let text = format!(
        "The call that the kernel refuses (ENOSYS) costs {} in ordinary work and {} when repeated.{why}",
        floor.shown(),
        again.shown()
    );
    findings.say(text);
}

/// What the return from a library function adds, where the kernel removes return predictions.
fn tell_function(findings: &mut Findings) {
    let (Some(direct), Some(function)) = (time(findings, "getppid"), time(findings, FUNCTION)) else { return };
    let (shown, bare) = (function.shown(), direct.shown());
    let lost = Ratio::of(&function, &direct, 1.0).filter(|ratio| ratio.value > 1.0 + LOST);
    let kept = Ratio::of(&scaled(&direct, 1.0 + LOST), &function, 1.0).is_some();
    findings.say(if let Some(lost) = lost {
        format!(
            "Called through a function, as in C libraries, getppid costs {shown} instead of {bare}, {} more for one \
             call and its return. Return predictions most likely do not survive the kernel. Tools that call a library \
             print the larger result.",
            share(lost.value - 1.0)
        )
    } else {
        format!(
            "Called through a function, as in C libraries, getppid costs {shown}, and directly {bare}.{}",
            if kept { " Return predictions survive the kernel." } else { "" }
        )
    });
}

/// Whether a clock read without a system call still enters the kernel.
fn tell_vdso(findings: &mut Findings) {
    let (Some(real), Some(vdso)) = (time(findings, "clock_gettime"), time(findings, VDSO)) else { return };
    findings.say(if Ratio::of(&real, &vdso, ENTERS).is_some() {
        format!(
            "A clock read through the vDSO costs {} instead of {}, because it does not enter the kernel.",
            vdso.shown(),
            real.shown()
        )
    } else {
        let enters = Ratio::of(&scaled(&vdso, ENTERS), &real, 1.0).is_some();
        format!(
            "A clock read through the vDSO costs {}, and a real call {}.{}",
            vdso.shown(),
            real.shown(),
            if enters { " On this machine the vDSO also enters the kernel." } else { "" }
        )
    });
}

fn tell_ring(findings: &mut Findings) {
    let (Some(single), Some(batched)) = (time(findings, RING), time(findings, RING_BATCHED)) else { return };
    findings.say(format!(
        "A no-operation through io_uring costs {} alone, and {} as one of 32 in a system call.",
        single.shown(),
        batched.shown(),
    ));
}

/// The working directory whose path a call returns.
fn tell_directory(study: &Study<'_>, findings: &mut Findings) {
    if let (Some(depth), Some(getcwd)) = (study.remarks(DEPTH).first(), time(findings, "getcwd")) {
        findings.say(format!("getcwd costs {} in a working directory {depth} levels deep.", getcwd.shown()));
    }
}

/// What the kernel does at each entry against attacks on the processor.
fn tell_mitigations(study: &Study<'_>, findings: &mut Findings) {
    let machine = &study.setup.machine;
    let mitigations = mitigations(machine);
    let guest = if machine.is_guest() { " This kernel runs on a hypervisor." } else { "" };
    findings.say(if mitigations.is_empty() {
        format!("The kernel reports no active mitigation.{guest}")
    } else {
        format!("The floor includes the active mitigations: {}.{guest}", mitigations.join(", "))
    });
}
