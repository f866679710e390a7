//! What the caller of a pair measures: round trips of 64 bytes, then a flow there and a flow back, with the session of the other
//! member.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::peer::authentication::Secret;
use crate::peer::client::Partner;
use crate::peer::plausible;
use crate::peer::protocol::{Direction, FlowOrder, Flowed, PairOrder, PairResult};
use crate::results::problem::Problem;
use crate::statistics::summary::quantile;
use crate::sys::clock::monotonic_raw;
use crate::sys::socket;

/// Bytes of a message of a round trip.
const BYTES: u32 = 64;
/// Duration of the round trips, and of a flow.
const ROUND_TRIPS: Duration = Duration::from_millis(300);
const FLOW: Duration = Duration::from_secs(1);
/// Bytes of a write, and length of a window of the receiver.
const MESSAGE: u32 = 128 << 10;
const WINDOW: Duration = Duration::from_millis(50);
/// Share of a flow that is its start, and round trips of it. More than the second share is never left out.
const START: f64 = 0.4;
const START_ROUND_TRIPS: f64 = 20.0;
const MOST_START: f64 = 0.67;
/// What a pair measures takes this long.
pub const PLANNED: Duration = Duration::from_millis(2300);
/// The same, with time to connect and more for each flow.
pub const LIMIT: Duration = Duration::from_millis(2300 + 5000 + 2 * 2000);
/// Most round trips: more would only cost memory.
const MOST_ROUND_TRIPS: usize = 100_000;
/// Measures a pair from an own address.
pub fn measure(order: PairOrder, own: IpAddr, secret: &Secret) -> Result<PairResult, Problem> {
    let mut partner = Partner::elsewhere(order.to, secret)?;
    // Otherwise a result would belong to another network than the one that it stands for.
    if let Some(local) = partner.local_address().filter(|local| *local != own) {
        return Err(Problem::new(format!("the connection leaves from {local}, not from {own}")));
    }
    let [fast_round_trip, round_trip, slow_round_trip] = round_trips(&mut partner)?;
    let mut rate = |direction| {
        let order = FlowOrder {
            ipv6: partner.is_ipv6(),
            direction,
            streams: order.streams,
            message: MESSAGE,
            milliseconds: FLOW.as_millis() as u32,
            window: WINDOW.as_millis() as u32,
        };
        let (own, theirs, lasted) = partner.flow(&order)?;
        plausible::flow(&order, &theirs, lasted)?;
        let receiver = if direction == Direction::Send { &theirs } else { &own };
        steady_rate(receiver, round_trip as f64)
    };
    let (there, back) = (rate(Direction::Send)?, rate(Direction::Receive)?);
    Ok(PairResult { there, back, round_trip, fast_round_trip, slow_round_trip })
}

/// 10th percentile, median and 99th percentile of the round trips of a small message, in nanoseconds.
fn round_trips(partner: &mut Partner) -> Result<[u64; 3], Problem> {
    let lines = partner.echo(partner.is_ipv6(), &[BYTES], false)?;
    let (_, line) = lines.tcp.first().ok_or_else(|| Problem::new("the other member echoes nothing"))?;
    let times = exchange(line).map_err(|error| Problem::new(format!("the round trips failed: {error}")))?;
    drop(lines);
    partner.end_echo()?;
    let of = |probability| quantile(&times, probability).map(|time| time.max(1.0) as u64);
    let found = (of(0.1), of(0.5), of(0.99));
    let (Some(fast), Some(median), Some(slow)) = found else { return Err(Problem::new("no round trip ended")) };
    Ok([fast, median, slow])
}

fn exchange(line: &Socket) -> io::Result<Vec<f64>> {
    let message = [7_u8; BYTES as usize];
    let mut answer = [0_u8; BYTES as usize];
    let mut times = Vec::new();
    let until = Instant::now() + ROUND_TRIPS;
    while Instant::now() < until && times.len() < MOST_ROUND_TRIPS {
        let began = monotonic_raw();
        socket::write_all(line.as_fd(), &message)?;
        socket::read_all(line.as_fd(), &mut answer)?;
        times.push((monotonic_raw() - began) as f64);
    }
    Ok(times)
}

/// Bytes per second at the receiver, without the start of the flow and without its last window, which its end may have cut.
fn steady_rate(receiver: &Flowed, round_trip: f64) -> Result<u64, Problem> {
    let nothing = || Problem::new("no data arrived");
    let windows = &receiver.windows;
    let (first, last) = windows.first().zip(windows.last()).ok_or_else(nothing)?;
    let whole = (last.1 - first.1) as f64;
    let start = (whole * START).max(START_ROUND_TRIPS * round_trip).min(whole * MOST_START);
    let from = windows.iter().position(|window| (window.1 - first.1) as f64 >= start).unwrap_or(0);
    let to = windows.len().saturating_sub(2).max(from);
    let (bytes, span) = (windows[to].0.saturating_sub(windows[from].0), windows[to].1 - windows[from].1);
    if bytes == 0 || span <= 0 {
        return Err(nothing());
    }
    Ok((bytes as f64 / span as f64 * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_last_window_do_not_count() {
        let mut windows: Vec<(u64, i64)> = Vec::new();
        let mut bytes = 0;
        for number in 0..20 {
            bytes += if number < 6 { 1_000 } else { 50_000 };
            windows.push((bytes, number * 50_000_000));
        }
        windows.push((bytes, 1_000_000_000));
        let flowed = Flowed { windows, ..Flowed::default() };
        assert_eq!(steady_rate(&flowed, 1e5).unwrap(), 1_000_000);
        assert_eq!(steady_rate(&flowed, 1e9).unwrap(), 1_000_000, "something is left of the slowest path");
        assert!(steady_rate(&Flowed::default(), 1e5).is_err());
        let still = Flowed { windows: vec![(5, 0), (5, 50_000_000), (5, 100_000_000)], ..Flowed::default() };
        assert!(steady_rate(&still, 1e5).is_err());
    }
}
