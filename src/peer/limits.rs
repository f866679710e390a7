//! What a peer grants: how many, how long, how much. And the ways in which tests make it misbehave.

use std::str::FromStr;
use std::time::Duration;

use super::protocol::Flowed;

/// Bounds on what clients may take from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Authenticated sessions at once; a further client must wait.
    pub sessions: usize,
    /// Longest session.
    pub session_time: Duration,
    /// Longest silence of a client.
    pub idle: Duration,
    /// Most bytes that a session sends and receives as payload.
    pub bytes: u64,
    /// Most bytes per second of a flow in one direction; none is as fast as it goes.
    pub rate: Option<u64>,
}

/// Connections that have not proved anything yet. A further one takes the place of the oldest.
pub const UNPROVEN: usize = 16;

/// Residences of one kind that are kept; more would only cost memory.
pub const MOST_RESIDENCES: usize = 20_000;

/// Time to prove the knowledge of the secret.
pub const PROVING: Duration = Duration::from_secs(5);

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits {
            sessions: 4,
            session_time: Duration::from_mins(15),
            idle: Duration::from_mins(1),
            bytes: 1 << 40,
            rate: None,
        }
    }
}

/// A known fault, so that a test or a lesson can show that the other side notices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pretence {
    /// Every echo is held this long, spinning.
    pub hold: Duration,
    /// Connections are never accepted; the queue for them has one place.
    pub never_accept: bool,
    /// The port that was announced is closed.
    pub closed_port: bool,
    /// Receive buffer of flows in bytes, instead of the kernel's own tuning.
    pub receive_buffer: Option<u32>,
    /// Every time that is reported is this many percent of what it was: a clock that runs too fast, too slow or backwards.
    pub clock: Option<i64>,
}

impl Pretence {
    /// A time in nanoseconds, as its clock shows it.
    pub fn shown(&self, nanoseconds: i64) -> i64 {
        self.clock.map_or(nanoseconds, |percent| nanoseconds.saturating_mul(percent) / 100)
    }

    /// What is said of a flow, with the times that its clock shows.
    pub fn told(&self, mut flowed: Flowed) -> Flowed {
        let first = flowed.windows.first().map_or(0, |window| window.1);
        for window in &mut flowed.windows {
            window.1 = first + self.shown(window.1 - first);
        }
        (flowed.span, flowed.cpu_time) = (self.shown(flowed.span), self.shown(flowed.cpu_time));
        flowed
    }
}

impl FromStr for Pretence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut pretence = Pretence::default();
        for part in text.split(',') {
            match part.split_once('=').unwrap_or((part, "")) {
                ("hold", microseconds) => {
                    let microseconds = microseconds.parse::<u64>().ok().filter(|&found| found <= 1_000_000);
                    pretence.hold = Duration::from_micros(microseconds.ok_or("hold=MICROSECONDS, at most 1000000")?);
                }
                ("never_accept", "") => pretence.never_accept = true,
                ("closed_port", "") => pretence.closed_port = true,
                ("receive_buffer", bytes) => {
                    let bytes = bytes.parse::<u32>().ok().filter(|&found| (2048..=1 << 26).contains(&found));
                    pretence.receive_buffer = Some(bytes.ok_or("receive_buffer=BYTES, from 2048 to 67108864")?);
                }
                ("clock", percent) => {
                    let percent = percent.parse::<i64>().ok().filter(|found| found.abs() <= 1_000_000);
                    pretence.clock = Some(percent.ok_or("clock=PERCENT, from -1000000 to 1000000")?);
                }
                _ => {
                    return Err("hold=MICROSECONDS, never_accept, closed_port, receive_buffer=BYTES or clock=PERCENT"
                        .to_owned());
                }
            }
        }
        Ok(pretence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretences_are_named_and_bounded() {
        let found: Pretence = "hold=50,receive_buffer=65536".parse().unwrap();
        assert_eq!(found.hold, Duration::from_micros(50));
        assert_eq!(found.receive_buffer, Some(65536));
        assert!("never_accept".parse::<Pretence>().unwrap().never_accept);
        let fast: Pretence = "clock=-10".parse().unwrap();
        assert_eq!((fast.shown(500), found.shown(500)), (-50, 500));
        for wrong in
            ["clock=", "clock=1000001", "", "hold=", "hold=99999999", "receive_buffer=1", "never_accept=1", "burn"]
        {
            assert!(wrong.parse::<Pretence>().is_err(), "{wrong}");
        }
    }
}
