//! A look at how far apart two CPUs are: the time that a cache line takes between them.

use super::instruments::Instruments;
use crate::sys::spinner::Spinner;

/// Round trips before the timed ones: the partner has just been woken.
const WARMING_TRIPS: u64 = 10;

/// Round trips that are timed: 6 to 30 µs.
const TRIPS: u64 = 100;

/// Nanoseconds of a line's way to the CPU of a partner that answers; zero where it does not.
pub fn look(instruments: &mut impl Instruments, partner: &Spinner) -> f64 {
    if partner.start().is_err() {
        return 0.0;
    }
    let warmed = partner.round_trips(WARMING_TRIPS);
    let start = instruments.stamp();
    let answered = warmed.and_then(|()| partner.round_trips(TRIPS));
    let end = instruments.stamp();
    partner.stop();
    let ticks = (end.ticks - start.ticks) as f64 - instruments.bias();
    if answered.is_ok() { (ticks / instruments.hertz() * 1e9 / (2 * TRIPS) as f64).max(0.0) } else { 0.0 }
}
