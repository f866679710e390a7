//! What the kernel counts for TCP in this network namespace, and how many ports are in use.

/// Events that turn a connection into another class (gate G28). Counted since boot; only differences mean something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Connections that found the accept queue full (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Connections that a listener dropped for any reason (`ListenDrops`).
    pub listen_drops: u64,
    /// SYN and SYN-ACK segments sent again (`TCPSynRetrans`).
    pub syn_retransmissions: u64,
    /// Retransmission time-outs (`TCPTimeouts`).
    pub timeouts: u64,
    /// Segments sent again (`RetransSegs`).
    pub retransmissions: u64,
}

impl TcpCounters {
    /// What was counted since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &TcpCounters) -> TcpCounters {
        TcpCounters {
            listen_overflows: self.listen_overflows.saturating_sub(before.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(before.listen_drops),
            syn_retransmissions: self.syn_retransmissions.saturating_sub(before.syn_retransmissions),
            timeouts: self.timeouts.saturating_sub(before.timeouts),
            retransmissions: self.retransmissions.saturating_sub(before.retransmissions),
        }
    }

    /// Names and values, in the order of the structure.
    pub fn pairs(&self) -> [(&'static str, u64); 5] {
        [
            ("ListenOverflows", self.listen_overflows),
            ("ListenDrops", self.listen_drops),
            ("TCPSynRetrans", self.syn_retransmissions),
            ("TCPTimeouts", self.timeouts),
            ("RetransSegs", self.retransmissions),
        ]
    }
}

/// Reads the counters; none where `/proc/net` does not have them.
pub fn tcp_counters() -> Option<TcpCounters> {
    let extended = std::fs::read_to_string("/proc/net/netstat").ok()?;
    let basic = std::fs::read_to_string("/proc/net/snmp").ok()?;
    Some(TcpCounters {
        listen_overflows: value(&extended, "TcpExt:", "ListenOverflows")?,
        listen_drops: value(&extended, "TcpExt:", "ListenDrops")?,
        syn_retransmissions: value(&extended, "TcpExt:", "TCPSynRetrans")?,
        timeouts: value(&extended, "TcpExt:", "TCPTimeouts")?,
        retransmissions: value(&basic, "Tcp:", "RetransSegs")?,
    })
}

/// A value from a pair of lines: names, then numbers in the same order.
fn value(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split_whitespace().next() == Some(group));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let position = names.split_whitespace().position(|word| word == name)?;
    numbers.split_whitespace().nth(position)?.parse().ok()
}

/// Connections in TIME_WAIT: each holds its pair of addresses and ports for a minute (`/proc/net/sockstat`).
pub fn time_wait() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/sockstat").ok()?;
    let line = text.lines().find(|line| line.starts_with("TCP:"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "tw");
    words.nth(1)?.parse().ok()
}

/// How many ports connections may take (`net.ipv4.ip_local_port_range`).
pub fn ephemeral_ports() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (last + 1).checked_sub(first)
}

/// Name of the congestion control that new connections use.
pub fn congestion_control() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
    Some(text.trim().to_owned())
}

/// Largest receive buffer that TCP gives itself, in bytes (third number of `net.ipv4.tcp_rmem`).
pub fn largest_receive_buffer() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").ok()?;
    text.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_and_not_by_place() {
        let text = "TcpExt: A ListenDrops B\nTcpExt: 1 22 3\nIpExt: A ListenDrops\nIpExt: 4 5\n";
        assert_eq!(value(text, "TcpExt:", "ListenDrops"), Some(22));
        assert_eq!(value(text, "IpExt:", "ListenDrops"), Some(5));
        assert_eq!(value(text, "TcpExt:", "ListenOverflows"), None);
        assert_eq!(value("TcpExt: ListenDrops\n", "TcpExt:", "ListenDrops"), None);
    }

    #[test]
    fn this_kernel_counts() {
        let before = tcp_counters().unwrap();
        assert_eq!(before.since(&before), TcpCounters::default());
        assert!(ephemeral_ports().unwrap() > 1000 && time_wait().is_some());
    }
}
