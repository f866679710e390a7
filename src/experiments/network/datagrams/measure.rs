//! The flows of a launch.

use super::super::{Watch, on_loopback, other_cpu, partner_elsewhere, remark_placement};
use super::{
    Case, DELIVERED, IN_ORDER, LOOPBACK_MILLISECONDS, OFFERED, Offered, RATE, REMOTE_MILLISECONDS, SMALL,
    loopback_cases, remote_cases,
};
use crate::experiments::prelude::*;
use crate::peer::client::Partner;
use crate::peer::protocol::{DatagramOrder, DatagramsArrived, DatagramsSent, Direction};

pub(super) fn measure(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let access = rig.setup().access.as_ref();
    rig.has_partners();
    on_loopback(rig, RATE, measure_loopback)?;
    match partner_elsewhere(access)? {
        Some(partner) => measure_remote(rig, partner),
        None => Ok(()),
    }
}

fn measure_loopback(rig: &mut Rig<'_>) -> Result<(), Problem> {
    let other = other_cpu(rig.setup());
    for metric in [RATE, DELIVERED, IN_ORDER] {
        remark_placement(rig, metric, other);
    }
    let Some(cpu) = other else { return Ok(()) };
    let mut cases = loopback_cases();
    rig.random().shuffle(&mut cases);
    let mut partner = Partner::on_loopback(Some(cpu), &[])?;
    let watch = Watch::start();
    for case in cases {
        run(rig, &mut partner, case)?;
    }
    watch.record(rig)
}

/// Small datagrams fit into every path. Where they do not arrive, no others do.
fn measure_remote(rig: &mut Rig<'_>, mut partner: Partner) -> Result<(), Problem> {
    let mut cases = remote_cases(rig.setup());
    rig.random().shuffle(&mut cases);
    cases.sort_by_key(|case| case.bytes);
    let mut failed: Option<Problem> = None;
    let mut any = false;
    for case in cases {
        let outcome = match failed.take() {
            Some(problem) => Err(problem),
            None => run(rig, &mut partner, case),
        };
        let Err(problem) = outcome else {
            any = true;
            continue;
        };
        for metric in [RATE, DELIVERED, IN_ORDER] {
            rig.unavailable_for(metric, &case.labels(), &problem);
        }
        failed = Some(problem).filter(|_| case.bytes == SMALL);
    }
    match failed {
        Some(problem) if !any => Err(problem),
        _ => Ok(()),
    }
}

/// The flows of a case, and what both sides counted.
fn run(rig: &mut Rig<'_>, partner: &mut Partner, case: Case) -> Result<(), Problem> {
    let whole = if case.remote { REMOTE_MILLISECONDS } else { LOOPBACK_MILLISECONDS };
    let bytes = f64::from(case.bytes);
    let mut arrives = 0.0;
    for offered in OFFERED {
        let (rate, milliseconds) = match offered {
            Offered::Full => (0, whole),
            Offered::Share(_, share) => (((arrives / bytes * share) as u32).max(1), whole / 2),
        };
        let Case { direction, bytes, ipv6, .. } = case;
        let order = DatagramOrder { ipv6, direction, bytes, rate, milliseconds, port: 0 };
        let (sent, arrived) = partner.datagrams(&order)?;
        let labels = case.offered(offered);
        if offered == Offered::Full {
            arrives = rate_of(case, &sent, &arrived)?;
            rig.record("rate", case.labels(), Unit::BytesPerSecond, vec![arrives])?;
            rig.remark(
                if direction == Direction::Receive { "receive_buffer" } else { "receive_buffer_there" },
                &arrived.buffer,
            );
        }
        let sending = bytes_per_second(case, sent.late, sent.late_span);
        rig.record("offered", labels.clone(), Unit::BytesPerSecond, sending.into_iter().collect())?;
        let mut counts = vec![sent.sent, sent.refused, arrived.received, arrived.repeated, arrived.reordered];
        counts.extend(arrived.dropped);
        rig.record("count", labels, Unit::One, counts.into_iter().map(|count| count as f64).collect())?;
    }
    Ok(())
}

/// Payload per second, of a number of datagrams and the nanoseconds in which they came.
fn bytes_per_second(case: Case, datagrams: u64, span: i64) -> Option<f64> {
    (datagrams > 0 && span > 0).then(|| datagrams as f64 * f64::from(case.bytes) / span as f64 * 1e9)
}

/// Payload per second that arrives in the second half.
fn rate_of(case: Case, sent: &DatagramsSent, arrived: &DatagramsArrived) -> Result<f64, Problem> {
    bytes_per_second(case, arrived.late, arrived.late_span).ok_or_else(|| {
        let labels = case.labels();
        Problem::new(format!("{} of {} datagrams arrived, too few for a rate ({labels})", arrived.received, sent.sent))
            .hint("check that no device on the path drops UDP")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_datagrams_in_the_second_half() {
        let case = loopback_cases()[0];
        let sent = DatagramsSent { sent: 9, ..DatagramsSent::default() };
        let arrived = DatagramsArrived { received: 9, late: 4, late_span: 1_000, ..DatagramsArrived::default() };
        assert!((rate_of(case, &sent, &arrived).unwrap() - 4.0 * 64.0 * 1e6).abs() < 1e-3);
        let none = DatagramsArrived { late: 0, ..arrived };
        assert!(rate_of(case, &sent, &none).unwrap_err().what.contains("9 of 9"));
    }
}
