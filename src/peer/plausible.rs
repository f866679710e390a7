//! What a peer reports of times and counts, against what this side saw of the same work.
//!
//! A peer that knows the secret is trusted with the work, not with its clock: a guest can have a clock that runs ten times too
//! fast, or backwards. Whatever happened at the peer for this side happened within a span that this side timed itself. A
//! report that does not fit into that span is refused, and no figure is made of it.

use std::time::Duration;

use crate::results::problem::Problem;

use super::limits::MOST_RESIDENCES;
use super::protocol::{
    DatagramOrder, DatagramsArrived, DatagramsSent, Direction, Echoed, FlowOrder, Flowed, MOST_SERVICES,
};

/// Two clocks that are right differ by less than this share; a report may be longer than the own span by as much.
const CLOCKS_DIFFER: f64 = 0.01;
/// A time may be longer than the own span by this much in any case, and an account of the kernel by its grain.
const SLACK: Duration = Duration::from_millis(1);
const GRAIN: Duration = Duration::from_millis(20);
/// The least share of an ordered flow that its windows span. An honest peer may wake up late for the first of them.
const SHORTEST: f64 = 0.95;
/// A side that counts datagrams of the second half has seen half of the time. With hardly a loss, the arrivals span what the sending does,
/// except where a receiver began to read late.
const SECOND_HALF: f64 = 0.5 * SHORTEST;
const HARDLY_LOST: f64 = 0.01;
const BEGAN_LATE: f64 = 0.75;
/// Most counters of the kernel that a peer reports, and the longest name of one.
const MOST_COUNTERS: usize = 64;
const LONGEST_NAME: usize = 40;

fn refused(why: &str) -> Problem {
    Problem::new(format!("the peer reports an impossible value: {why}"))
        .hint("compare the clocks of both machines over a minute, and run the same version of sysdyno on both")
}

/// The longest that something can have taken within an own span, in nanoseconds.
fn longest(lasted: Duration) -> f64 {
    lasted.as_nanos() as f64 * (1.0 + CLOCKS_DIFFER) + SLACK.as_nanos() as f64
}

/// The same of this many threads, as a kernel accounts for it.
fn accounted(lasted: Duration, threads: f64) -> f64 {
    (longest(lasted) + GRAIN.as_nanos() as f64) * threads
}

fn within(what: &str, nanoseconds: f64, most: f64) -> Result<(), Problem> {
    if (0.0..=most).contains(&nanoseconds) {
        return Ok(());
    }
    Err(refused(&format!("{what} of {} ms, while at most {:.1} ms passed here", nanoseconds / 1e6, most / 1e6)))
}

/// A time in nanoseconds that the other side says it took, within a span that this side timed.
pub fn time(what: &str, nanoseconds: i64, lasted: Duration) -> Result<(), Problem> {
    within(what, nanoseconds as f64, longest(lasted))
}

/// A median of this many times that followed one another: half of them were at least as long.
pub fn median(what: &str, nanoseconds: u64, count: u64, lasted: Duration) -> Result<(), Problem> {
    let as_long = (count / 2).max(1) as f64;
    within(what, nanoseconds as f64, longest(lasted) / as_long)
}

/// What echo services report, within the span in which they were open.
pub fn echoes(
    services: &[Echoed],
    cpu_time: i64,
    run_delay: Option<i64>,
    session: Duration,
    open: Duration,
) -> Result<(), Problem> {
    if services.len() > MOST_SERVICES {
        return Err(refused(&format!("{} echo services, and at most {MOST_SERVICES} were opened", services.len())));
    }
    for service in services {
        if !["tcp", "udp", "unix"].contains(&service.protocol.as_str()) {
            return Err(refused("an echo service of an unknown protocol"));
        }
        if let Some(residence) = service.residence {
            let counted = service.exchanges.min(MOST_RESIDENCES as u64);
            median("a residence", residence, counted, open)?;
        }
        if let Some(residence) = service.longest_residence {
            within("a residence", residence as f64, longest(open))?;
        }
    }
    // Each service is a thread, and the session is one more.
    let threads = (MOST_SERVICES + 1) as f64;
    within("a CPU time", cpu_time as f64, accounted(session, threads))?;
    within("a wait for a CPU", run_delay.unwrap_or(0) as f64, accounted(session, threads))
}

/// Names of counters are words of the kernel; they become labels.
pub fn counters(counters: &[(String, u64)]) -> Result<(), Problem> {
    let is_word = |name: &str| {
        (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|letter| letter.is_ascii_alphanumeric())
    };
    if counters.len() > MOST_COUNTERS || !counters.iter().all(|(name, _)| is_word(name)) {
        return Err(refused("counters that no kernel has"));
    }
    Ok(())
}

/// What the other side saw of a flow, within the span from its order to its report.
pub fn flow(order: &FlowOrder, theirs: &Flowed, lasted: Duration) -> Result<(), Problem> {
    let most = longest(lasted);
    if order.direction == Direction::Receive && !theirs.windows.is_empty() {
        return Err(refused("bytes that arrived there, although nothing was sent there"));
    }
    if order.direction != Direction::Receive && theirs.windows.len() < 2 {
        return Err(refused("no windows of arrived data there"));
    }
    let ordered = theirs.windows.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
    if !ordered || theirs.windows.last().is_some_and(|window| window.0 > theirs.received) {
        return Err(refused("windows of a flow that are out of order"));
    }
    if let (Some(first), Some(last)) = (theirs.windows.first(), theirs.windows.last()) {
        // Clocks of strangers begin anywhere: the difference need not fit where both ends do.
        let span = (i128::from(last.1) - i128::from(first.1)) as f64;
        within("a flow", span, most)?;
        let least = f64::from(order.milliseconds - order.window) * 1e6 * SHORTEST;
        if span < least {
            return Err(refused(&format!(
                "windows of a flow over {:.1} ms, although it lasted {} ms here, so its rate would be too high",
                span / 1e6,
                order.milliseconds
            )));
        }
    }
    within("a flow", theirs.span as f64, most)?;
    let threads = 2.0 * f64::from(order.streams) + 1.0;
    within("a CPU time", theirs.cpu_time as f64, accounted(lasted, threads))?;
    if theirs.senders.len() > usize::from(order.streams) {
        return Err(refused("more senders than streams"));
    }
    theirs.senders.iter().try_for_each(|sender| {
        let microseconds = [u64::from(sender.round_trip), sender.busy, sender.receiver_limited, sender.buffer_limited];
        microseconds
            .into_iter()
            .try_for_each(|time| within("a time of a sender", time as f64 * 1e3, accounted(lasted, 1.0)))
    })
}

/// What the other side says of datagrams, within the span from their order to its report. A rate comes from the second half of the
/// time, so that half may be neither too long nor too short.
pub fn datagrams(
    order: &DatagramOrder,
    sent: &DatagramsSent,
    arrived: &DatagramsArrived,
    lasted: Duration,
) -> Result<(), Problem> {
    let most = longest(lasted);
    for span in [sent.span, sent.late_span, arrived.span, arrived.late_span] {
        within("a flow of datagrams", span as f64, most)?;
    }
    if arrived.received > sent.sent || arrived.highest.is_some_and(|highest| u64::from(highest) >= sent.sent) {
        return Err(refused("more datagrams arrived than were sent"));
    }
    if sent.late > sent.sent || arrived.late > arrived.received || arrived.reordered > arrived.received {
        return Err(refused("more datagrams in a part of the time than in all of it"));
    }
    let ordered = f64::from(order.milliseconds) * 1e6;
    let (theirs, late) =
        if order.direction == Direction::Receive { (sent.span, sent.late) } else { (arrived.span, arrived.late) };
    let reached = (arrived.received + arrived.dropped.unwrap_or(0)) as f64;
    let all = order.direction == Direction::Send && reached >= (1.0 - HARDLY_LOST) * sent.sent as f64;
    let least = if all { BEGAN_LATE * sent.span as f64 } else { SECOND_HALF * ordered };
    if late > 0 && (theirs as f64) < least {
        return Err(refused(&format!(
            "datagrams over {:.1} ms, although they were sent for {} ms, so their rate would be too high",
            theirs as f64 / 1e6,
            order.milliseconds
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Sender;
    use super::*;

    const LASTED: Duration = Duration::from_millis(2_700);

    fn order(direction: Direction) -> FlowOrder {
        FlowOrder { ipv6: false, direction, streams: 1, message: 1024, milliseconds: 2_500, window: 100 }
    }

    /// An honest report: 25 windows of 100 ms and as many bytes.
    fn honest() -> Flowed {
        let windows = (1..=25).map(|number| (number * 100_000_u64, -7_000_000_000 + number as i64 * 100_000_000));
        Flowed {
            sent: 0,
            received: 2_500_000,
            windows: windows.collect(),
            cpu_time: 1_000_000_000,
            span: 1_250_000_000,
            senders: Vec::new(),
        }
    }

    #[test]
    fn an_honest_flow_passes() {
        flow(&order(Direction::Send), &honest(), LASTED).unwrap();
        let theirs = Flowed { windows: Vec::new(), ..honest() };
        flow(&order(Direction::Receive), &theirs, LASTED).unwrap();
    }

    #[test]
    fn a_flow_that_does_not_fit_into_the_own_span_is_refused() {
        let scaled = |factor: f64| {
            let mut theirs = honest();
            theirs.windows.iter_mut().for_each(|window| window.1 = (window.1 as f64 * factor) as i64);
            flow(&order(Direction::Send), &theirs, LASTED)
        };
        assert!(scaled(1.0).is_ok() && scaled(1.02).is_ok());
        assert!(scaled(0.1).unwrap_err().what.contains("its rate would be too high"));
        assert!(scaled(0.9).is_err() && scaled(2.0).is_err());
        assert!(scaled(-1.0).unwrap_err().what.contains("out of order"));
        let edges = [(0, i64::MIN), (1, i64::MAX)];
        assert!(flow(&order(Direction::Send), &Flowed { windows: edges.to_vec(), ..honest() }, LASTED).is_err());
    }

    #[test]
    fn reports_that_contradict_themselves_are_refused() {
        let refuse = |theirs: Flowed| assert!(flow(&order(Direction::Send), &theirs, LASTED).is_err(), "{theirs:?}");
        refuse(Flowed { received: 2_499_999, ..honest() });
        refuse(Flowed { windows: Vec::new(), ..honest() });
        refuse(Flowed { span: -1, ..honest() });
        refuse(Flowed { span: i64::MAX, ..honest() });
        refuse(Flowed { cpu_time: -1, ..honest() });
        refuse(Flowed { cpu_time: 10_000_000_000, ..honest() });
        refuse(Flowed { senders: vec![Sender::default(); 2], ..honest() });
        refuse(Flowed { senders: vec![Sender { busy: u64::MAX, ..Sender::default() }], ..honest() });
        let both = flow(&order(Direction::Receive), &honest(), LASTED);
        assert!(both.unwrap_err().what.contains("nothing was sent there"), "a rate of its own making");
    }

    #[test]
    fn datagrams_that_do_not_fit_into_the_own_span_are_refused() {
        let order =
            DatagramOrder { ipv6: false, direction: Direction::Send, bytes: 64, rate: 0, milliseconds: 2_500, port: 9 };
        let span = 2_500_000_000;
        let sent = DatagramsSent { sent: 1_000, refused: 0, span, late: 500, late_span: span / 2 };
        let honest = DatagramsArrived {
            received: 999,
            reordered: 4,
            highest: Some(999),
            span,
            late: 500,
            late_span: span / 2,
            ..DatagramsArrived::default()
        };
        let judge = |arrived: DatagramsArrived| datagrams(&order, &sent, &arrived, LASTED);
        judge(honest).unwrap();
        // A path that lost the first third.
        judge(DatagramsArrived { received: 667, span: span / 3 * 2, ..honest }).unwrap();
        for wrong in [
            DatagramsArrived { span: span / 10, late_span: span / 20, ..honest },
            DatagramsArrived { span: span / 10 * 6, late_span: span / 10 * 3, ..honest },
            DatagramsArrived { received: 667, span: span / 10 * 4, late_span: span / 5, ..honest },
            DatagramsArrived { span: 10 * span, ..honest },
            DatagramsArrived { late_span: -1, ..honest },
            DatagramsArrived { received: 1_001, ..honest },
            DatagramsArrived { highest: Some(1_000), ..honest },
            DatagramsArrived { late: 1_000, ..honest },
            DatagramsArrived { reordered: 1_000, ..honest },
        ] {
            assert!(judge(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn times_are_neither_negative_nor_longer_than_the_own_span() {
        let second = Duration::from_secs(1);
        assert!(time("a residence", 0, second).is_ok() && time("a residence", 999_000_000, second).is_ok());
        for wrong in [-1, i64::MIN, 2_000_000_000, i64::MAX] {
            assert!(time("a residence", wrong, second).is_err(), "{wrong}");
        }
        // A thousand calls of 1 ms each fill a second: the median of them cannot be 10 ms.
        assert!(median("a residence", 1_000_000, 1_000, second).is_ok());
        assert!(median("a residence", 10_000_000, 1_000, second).is_err());
        assert!(median("a residence", 1 << 63, 0, second).is_err());
    }

    #[test]
    fn echo_services_and_counters_are_those_that_can_be() {
        let service = |protocol: &str, residence| Echoed {
            protocol: protocol.to_owned(),
            bytes: 1,
            exchanges: 100,
            residence: Some(residence),
            longest_residence: Some(residence),
        };
        let second = Duration::from_secs(1);
        let told = |services: &[Echoed], cpu_time, delay| echoes(services, cpu_time, Some(delay), second, second);
        assert!(told(&[service("tcp", 5_000)], 1_000, 0).is_ok());
        assert!(told(&[service("tcp", 1 << 63)], 1_000, 0).is_err());
        assert!(told(&[service("\u{1b}[2J", 5_000)], 1_000, 0).is_err());
        assert!(told(&[], -1, 0).is_err() && told(&[], 0, -1).is_err() && told(&[], i64::MAX, 0).is_err());
        assert!(counters(&[("ListenDrops".to_owned(), 3)]).is_ok());
        assert!(counters(&[("a\u{1b}b".to_owned(), 3)]).is_err() && counters(&[(String::new(), 3)]).is_err());
    }
}
