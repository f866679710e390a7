//! Flows of datagrams, counted where they arrive. Both sides run this code.
//!
//! Each datagram begins with a token that belongs to this flow alone, and its number. A receiver takes datagrams of one address and one
//! port. It counts each number once, so a datagram that comes twice is not taken for another. The kernel says how many it dropped
//! because the receive buffer was full. What is missing besides was lost on the path.
//!
//! A peer sends to no address that has not shown the token from the port in question. So it cannot be used to flood a third machine.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use socket2::Socket;

use crate::sys::clock::monotonic_raw;
use crate::sys::socket;

use super::data::{STALLED, TOKEN, Token};
use super::protocol::{DATAGRAMS, DatagramOrder, DatagramsArrived, DatagramsSent, MOST_DATAGRAM_BYTES, MOST_DATAGRAMS};

/// Bytes of the number of a datagram, behind its token.
const NUMBER: usize = 4;
/// The number of a datagram that only shows the token.
const GREETING: u32 = u32::MAX;
/// Time between two greetings, one of which may be lost.
const BETWEEN_GREETINGS: Duration = Duration::from_millis(20);
/// Time for a greeting to come. A firewall that drops datagrams is known after it.
pub const GREETED: Duration = Duration::from_secs(2);
/// How often a receiver without datagrams looks for the end.
const LOOK: Duration = Duration::from_millis(5);
/// Datagrams between two looks at the end of all patience.
const BETWEEN_LOOKS: u64 = 1024;
/// A flow takes at most this much longer than it was ordered.
const GRACE: Duration = Duration::from_secs(2);
/// No datagram for this long after the end of a flow: no more come.
const QUIET: Duration = Duration::from_millis(40);
/// The same within a machine, where nothing is on its way.
const QUIET_WITHIN: Duration = Duration::from_millis(10);
/// A sender that is later than this (nanoseconds), and than two datagrams, does not make up for it: a burst would fill queues.
const LATE: f64 = 100_000.0;
/// A sender sleeps until this many nanoseconds before the next datagram is due, and then looks at the clock.
const AWAKE: i64 = 200_000;

const _: () = assert!(TOKEN + NUMBER == *DATAGRAMS.start() as usize);

/// A socket for one flow, with a port of the kernel's choice.
pub fn bind(at: IpAddr) -> io::Result<Socket> {
    let socket = Socket::from(UdpSocket::bind(SocketAddr::new(at, 0))?);
    socket::send_whole(socket.as_fd(), at.is_ipv6())?;
    socket.set_write_timeout(Some(STALLED))?;
    Ok(socket)
}

/// Shows the token.
pub fn greet(socket: &Socket, token: &Token) {
    // A greeting that is refused or lost is sent again.
    let _ = socket::answered(socket::write(socket.as_fd(), &[&token[..], &GREETING.to_ne_bytes()].concat()));
}

/// Greets until `answered`, or until time is up; whether there was an answer.
pub fn greet_until(socket: &Socket, token: &Token, mut answered: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + GREETED;
    while Instant::now() < deadline {
        greet(socket, token);
        let next = Instant::now() + BETWEEN_GREETINGS;
        while Instant::now() < next {
            if answered() {
                return true;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    false
}

/// Waits for the token from the address and port that the socket is connected to.
pub fn greeted(socket: &Socket, token: &Token) -> io::Result<bool> {
    let deadline = Instant::now() + GREETED;
    socket.set_read_timeout(Some(LOOK))?;
    let mut shown = [0; TOKEN + NUMBER + 1];
    while Instant::now() < deadline {
        let read = socket::answered(socket::read(socket.as_fd(), &mut shown));
        if read.is_ok_and(|length| length == TOKEN + NUMBER) && shown[..TOKEN] == *token {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Most datagrams of a flow, by its own bounds and by the bytes that a session grants.
fn most(order: &DatagramOrder, bytes: u64) -> u32 {
    let fits = bytes.min(MOST_DATAGRAM_BYTES) / u64::from(order.bytes);
    fits.min(u64::from(MOST_DATAGRAMS)) as u32
}

/// The order with no more bytes per second than a side grants.
pub fn limited(order: &DatagramOrder, rate: Option<u64>) -> DatagramOrder {
    let most = rate.map(|rate| (rate / u64::from(order.bytes)).clamp(1, u64::from(u32::MAX)) as u32);
    let asked = Some(order.rate).filter(|&asked| asked > 0);
    DatagramOrder { rate: asked.into_iter().chain(most).min().unwrap_or(0), ..*order }
}

/// When each datagram is due, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Pace {
    next: f64,
    between: f64,
}

impl Pace {
    /// Waits until the next datagram is due; the time then.
    fn wait(&mut self) -> i64 {
        let mut now = monotonic_raw();
        if now as f64 > self.next + LATE.max(2.0 * self.between) {
            self.next = now as f64;
        }
        while (now as f64) < self.next {
            let left = self.next as i64 - now - AWAKE;
            if left > 0 {
                std::thread::sleep(Duration::from_nanos(left as u64));
            } else {
                std::hint::spin_loop();
            }
            now = monotonic_raw();
        }
        self.next += self.between;
        now
    }
}

/// Sends datagrams until the time is up, at most as many bytes as are granted.
pub fn send(socket: &Socket, token: &Token, order: &DatagramOrder, granted: u64) -> io::Result<DatagramsSent> {
    let mut datagram: Vec<u8> = (0..order.bytes).map(|index| index as u8).collect();
    datagram[..TOKEN].copy_from_slice(token);
    let began = monotonic_raw();
    let span = i64::from(order.milliseconds) * 1_000_000;
    let between = if order.rate > 0 { 1e9 / f64::from(order.rate) } else { 0.0 };
    let mut pace = Pace { next: began as f64, between };
    let mut seen = DatagramsSent::default();
    let mut half = None;
    let most = u64::from(most(order, granted));
    let mut now = began;
    while now - began < span && seen.sent < most {
        datagram[TOKEN..TOKEN + NUMBER].copy_from_slice(&(seen.sent as u32).to_ne_bytes());
        match socket::answered(socket::write(socket.as_fd(), &datagram)) {
            Ok(_) => seen.sent += 1,
            Err(error) => refuse(&error, order.bytes).map(|refused| seen.refused += u64::from(refused))?,
        }
        now = if between > 0.0 { pace.wait() } else { monotonic_raw() };
        if half.is_none() && now - began >= span / 2 {
            half = Some((seen.sent, now));
        }
    }
    seen.span = now - began;
    if let Some((sent, at)) = half {
        (seen.late, seen.late_span) = (seen.sent - sent, now - at);
    }
    Ok(seen)
}

/// Whether a datagram that could not be sent was refused by a queue of this machine, or because of an earlier one; an error where no other
/// datagram would fare better.
fn refuse(error: &io::Error, bytes: u16) -> io::Result<bool> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EINTR) => Ok(false),
        Some(Errno::ENOBUFS | Errno::EAGAIN | Errno::ECONNREFUSED) => Ok(true),
        Some(Errno::EMSGSIZE) => Err(io::Error::other(format!(
            "datagrams of {bytes} bytes do not fit into the MTU of the path, and are not fragmented"
        ))),
        _ => Err(io::Error::other(format!("cannot send datagrams: {error}"))),
    }
}

/// Receives datagrams until `ended` says that the sender has ended and no more come.
pub fn receive(
    socket: &Socket,
    token: &Token,
    order: &DatagramOrder,
    mut ended: impl FnMut(&Arrivals) -> io::Result<bool>,
) -> io::Result<DatagramsArrived> {
    let within = socket.peer_addr()?.as_socket().is_some_and(|peer| peer.ip().is_loopback());
    let quiet = if within { QUIET_WITHIN } else { QUIET };
    let deadline = Instant::now() + Duration::from_millis(u64::from(order.milliseconds)) + GREETED + GRACE;
    socket.set_read_timeout(Some(LOOK))?;
    let before = socket::dropped_at_receiver(socket.as_fd());
    let mut arrivals = Arrivals::new(*token, order);
    let mut buffer = vec![0; usize::from(order.bytes) + 1];
    let mut over: Option<Instant> = None;
    for turn in 1_u64.. {
        let mut looks = turn.is_multiple_of(BETWEEN_LOOKS);
        match socket::answered(socket::read(socket.as_fd(), &mut buffer)) {
            Ok(length) => {
                if arrivals.take(&buffer[..length], monotonic_raw()) {
                    over = over.map(|_| Instant::now());
                }
            }
            Err(error) if socket::timed_out(&error) => {
                if over.is_some_and(|since| since.elapsed() >= quiet) {
                    break;
                }
                if over.is_none() && ended(&arrivals)? {
                    over = Some(Instant::now());
                }
                looks = true;
            }
            // What a greeting met on its way comes back as an error.
            Err(error) if [io::ErrorKind::Interrupted, io::ErrorKind::ConnectionRefused].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
        if looks && Instant::now() > deadline {
            break;
        }
    }
    let dropped = socket::dropped_at_receiver(socket.as_fd()).zip(before).map(|(now, before)| now - before);
    let buffer = socket.recv_buffer_size()? as u64;
    Ok(DatagramsArrived { dropped, buffer, ..arrivals.counted })
}

/// Counts datagrams by their numbers.
#[derive(Debug)]
pub struct Arrivals {
    token: Token,
    length: usize,
    /// Nanoseconds after which the rate counts.
    half: i64,
    /// A bit for each number.
    seen: Vec<u64>,
    first: Option<i64>,
    middle: Option<(u64, i64)>,
    counted: DatagramsArrived,
}

impl Arrivals {
    fn new(token: Token, order: &DatagramOrder) -> Self {
        Arrivals {
            token,
            length: usize::from(order.bytes),
            half: i64::from(order.milliseconds) * 500_000,
            seen: vec![0; most(order, u64::MAX).div_ceil(64) as usize],
            first: None,
            middle: None,
            counted: DatagramsArrived::default(),
        }
    }

    /// Whether no datagram has come yet.
    pub fn is_empty(&self) -> bool {
        self.counted.received == 0
    }

    /// Takes what was read at a time; whether it belongs to this flow.
    fn take(&mut self, datagram: &[u8], now: i64) -> bool {
        let number = datagram.get(TOKEN..TOKEN + NUMBER).and_then(|number| number.try_into().ok());
        let number = number.map_or(GREETING, u32::from_ne_bytes);
        let is_own = datagram.len() >= TOKEN + NUMBER && datagram[..TOKEN] == self.token;
        if is_own && number == GREETING {
            return false;
        }
        let place = self.seen.get_mut(number as usize / 64).filter(|_| is_own && datagram.len() == self.length);
        let Some(place) = place else {
            self.counted.foreign += 1;
            return false;
        };
        let bit = 1 << (number % 64);
        if *place & bit != 0 {
            self.counted.repeated += 1;
            return true;
        }
        *place |= bit;
        self.counted.received += 1;
        if self.counted.highest.is_some_and(|highest| number < highest) {
            self.counted.reordered += 1;
        } else {
            self.counted.highest = Some(number);
        }
        let first = *self.first.get_or_insert(now);
        self.counted.span = now - first;
        match self.middle {
            Some((before, middle)) => {
                (self.counted.late, self.counted.late_span) = (self.counted.received - before, now - middle);
            }
            None if now - first >= self.half => self.middle = Some((self.counted.received, now)),
            None => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::protocol::Direction;
    use super::*;

    const TOKENS: [Token; 2] = [[7; TOKEN], [8; TOKEN]];

    fn order(rate: u32, milliseconds: u32) -> DatagramOrder {
        DatagramOrder { ipv6: false, direction: Direction::Send, bytes: 64, rate, milliseconds, port: 9 }
    }

    fn datagram(token: Token, number: u32, bytes: usize) -> Vec<u8> {
        let mut datagram = [&token[..], &number.to_ne_bytes()].concat();
        datagram.resize(bytes, 1);
        datagram
    }

    /// What a receiver counts of numbers that come one nanosecond after another.
    fn count(numbers: &[u32]) -> DatagramsArrived {
        let mut arrivals = Arrivals::new(TOKENS[0], &order(0, 1));
        for (&number, now) in numbers.iter().zip(0..) {
            assert!(arrivals.take(&datagram(TOKENS[0], number, 64), now * 1_000_000));
        }
        arrivals.counted
    }

    #[test]
    fn each_number_counts_once_and_late_ones_are_reordered() {
        let found = count(&[0, 1, 2, 5, 3, 3, 6, 0]);
        assert_eq!((found.received, found.repeated, found.reordered, found.highest), (6, 2, 1, Some(6)));
        let swapped = count(&[1, 0, 3, 2, 5, 4]);
        assert_eq!((swapped.received, swapped.repeated, swapped.reordered), (6, 0, 3));
        let gaps = count(&[3, 90, 1_000_000, MOST_DATAGRAMS - 1]);
        assert_eq!((gaps.received, gaps.reordered, gaps.highest), (4, 0, Some(MOST_DATAGRAMS - 1)));
        assert_eq!(count(&[]), DatagramsArrived::default());
    }

    #[test]
    fn the_second_half_counts_for_the_rate() {
        // The first comes at 0 ms, the half of 1 ms is over at 1 ms, and three come in the 3 ms after that.
        let found = count(&[0, 1, 2, 3, 4]);
        assert_eq!((found.span, found.late, found.late_span), (4_000_000, 3, 3_000_000));
    }

    #[test]
    fn what_belongs_to_no_number_of_the_flow_is_foreign() {
        let mut arrivals = Arrivals::new(TOKENS[0], &order(0, 1));
        for wrong in [
            datagram(TOKENS[1], 0, 64),
            datagram(TOKENS[0], 0, 63),
            datagram(TOKENS[0], 0, 65),
            datagram(TOKENS[0], MOST_DATAGRAMS, 64),
            datagram(TOKENS[1], GREETING, 20),
            TOKENS[0].to_vec(),
            Vec::new(),
        ] {
            assert!(!arrivals.take(&wrong, 0));
        }
        assert!(!arrivals.take(&datagram(TOKENS[0], GREETING, 20), 0), "a greeting does not belong to the flow");
        assert_eq!(arrivals.counted, DatagramsArrived { foreign: 7, ..DatagramsArrived::default() });
        assert!(arrivals.is_empty());
    }

    /// Two sockets that are connected to each other.
    fn sockets() -> [Socket; 2] {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let [one, other] = [bind(here).unwrap(), bind(here).unwrap()];
        one.connect(&other.local_addr().unwrap()).unwrap();
        other.connect(&one.local_addr().unwrap()).unwrap();
        [one, other]
    }

    #[test]
    fn a_flow_counts_everything_that_was_sent() {
        let [sender, receiver] = sockets();
        let order = order(20_000, 50);
        greet(&sender, &TOKENS[0]);
        assert!(greeted(&receiver, &TOKENS[0]).unwrap());
        let sending = std::thread::spawn(move || send(&sender, &TOKENS[0], &order, u64::MAX).unwrap());
        let arrived = receive(&receiver, &TOKENS[0], &order, |_| Ok(sending.is_finished())).unwrap();
        let sent = sending.join().unwrap();
        assert_eq!((sent.refused, arrived.foreign, arrived.repeated, arrived.reordered), (0, 0, 0, 0));
        assert!(sent.sent > 100 && sent.sent <= 1_001, "no more than were ordered: {sent:?}");
        assert!(arrived.dropped.is_none_or(|dropped| arrived.received + dropped == sent.sent), "{sent:?} {arrived:?}");
        assert!(sent.late > 0 && sent.late < sent.sent && arrived.late > 0, "{sent:?} {arrived:?}");
    }

    #[test]
    fn a_side_sends_no_more_than_it_grants() {
        let [sender, _receiver] = sockets();
        let sent = send(&sender, &TOKENS[0], &order(0, 200), 640).unwrap();
        assert_eq!(sent.sent, 10);
        let of = |rate: u32, granted: Option<u64>| limited(&order(rate, 1), granted).rate;
        assert_eq!(
            [of(0, None), of(5, None), of(0, Some(6_400)), of(5, Some(6_400)), of(500, Some(6_400))],
            [0, 5, 100, 5, 100]
        );
        assert_eq!(of(0, Some(1)), 1, "0 would be without a bound");
    }

    #[test]
    fn another_token_is_no_greeting() {
        let [sender, receiver] = sockets();
        greet(&sender, &TOKENS[1]);
        assert!(!greeted(&receiver, &TOKENS[0]).unwrap());
    }

    #[test]
    fn a_datagram_that_does_not_fit_is_an_error() {
        assert!(refuse(&Errno::EMSGSIZE.into(), 1_472).unwrap_err().to_string().contains("MTU"));
        assert!(refuse(&Errno::ENOBUFS.into(), 64).unwrap() && refuse(&Errno::ENETDOWN.into(), 64).is_err());
    }
}
