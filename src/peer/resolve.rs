//! From a name to addresses, without the C library: a static program cannot load what its name service is made of.
//!
//! In the usual order: a literal address, `/etc/hosts`, then the name servers of `/etc/resolv.conf`. A reply that is not
//! an answer to the question asked, or larger than a datagram of this kind may be, is dropped.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, TYPE};

use crate::results::problem::Problem;

/// Time for one name server to answer one question.
const PATIENCE: Duration = Duration::from_secs(2);
/// Name servers asked.
const SERVERS: usize = 3;
/// Domains searched for a name without a dot.
const DOMAINS: usize = 6;
/// Longest reply that is read, in bytes (RFC 6891 lets a server send as much where the request allows it).
const REPLY: usize = 4096;
/// Port of name servers.
const PORT: u16 = 53;

/// Host and port of `HOST:PORT`, `1.2.3.4:PORT` or `[::1]:PORT`.
pub fn split(text: &str) -> Result<(String, u16), Problem> {
    let wrong = || {
        Problem::new(format!("'{text}' is not a valid address of a peer"))
            .hint("give HOST:PORT, such as server:4000, 192.0.2.7:4000 or [2001:db8::7]:4000")
    };
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(wrong)?,
        None if host.contains(':') => return Err(wrong()),
        None => host,
    };
    if host.is_empty() || port == 0 {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

/// Every address of a host, in the order in which to try them.
pub fn resolve(host: &str) -> Result<Vec<IpAddr>, Problem> {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    resolve_with(host, &read("/etc/hosts"), &read("/etc/resolv.conf"), PORT)
}

fn resolve_with(host: &str, hosts: &str, configuration: &str, port: u16) -> Result<Vec<IpAddr>, Problem> {
    if let Ok(literal) = host.parse() {
        return Ok(vec![literal]);
    }
    let listed = in_hosts(host, hosts);
    if !listed.is_empty() {
        return Ok(listed);
    }
    let settings = ResolverSettings::of(configuration);
    let mut unheard = true;
    for name in settings.names(host) {
        for server in settings.servers.iter().take(SERVERS) {
            let server = SocketAddr::new(*server, port);
            let (v4, v6) = (query(server, &name, TYPE::A), query(server, &name, TYPE::AAAA));
            unheard &= v4.is_none() && v6.is_none();
            let found: Vec<IpAddr> = v4.into_iter().chain(v6).flatten().collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
    let why = if unheard { "no name server answered" } else { "no name server has it" };
    Err(Problem::new(format!("the host name {host} has no address: {why}"))
        .hint("give its address instead of its name, or add it to /etc/hosts"))
}

/// Addresses of a name in the text of `/etc/hosts`.
fn in_hosts(host: &str, text: &str) -> Vec<IpAddr> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
        })
        .collect()
}

/// What `/etc/resolv.conf` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct ResolverSettings {
    servers: Vec<IpAddr>,
    domains: Vec<String>,
}

impl ResolverSettings {
    fn of(text: &str) -> Self {
        let mut settings = ResolverSettings::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    settings.servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok()));
                }
                Some("search" | "domain") => settings.domains = words.map(str::to_owned).take(DOMAINS).collect(),
                _ => {}
            }
        }
        if settings.servers.is_empty() {
            // What resolv.conf(5) says of a file without name servers.
            settings.servers.push(IpAddr::from([127, 0, 0, 1]));
        }
        settings
    }

    /// Full names to ask for.
    fn names(&self, host: &str) -> Vec<String> {
        let host = host.trim_end_matches('.');
        let searched = self.domains.iter().map(|domain| format!("{host}.{domain}"));
        if host.contains('.') {
            std::iter::once(host.to_owned()).chain(searched).collect()
        } else {
            searched.chain(std::iter::once(host.to_owned())).collect()
        }
    }
}

/// Addresses of one type; none when no answer came.
fn query(server: SocketAddr, name: &str, of_type: TYPE) -> Option<Vec<IpAddr>> {
    let number = fastrand::u16(..);
    let mut packet = Packet::new_query(number);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(Question::new(Name::new(name).ok()?, of_type.into(), CLASS::IN.into(), false));
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    // A connected socket takes replies of this server alone.
    socket.connect(server).ok()?;
    socket.send(&packet.build_bytes_vec().ok()?).ok()?;
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = [0; REPLY];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        socket.set_read_timeout(Some(left)).ok()?;
        let length = socket.recv(&mut bytes).ok()?;
        if let Some(found) = answers(&bytes[..length], number, name) {
            return Some(found);
        }
    }
}

/// Addresses in a reply, if it is one to this question.
fn answers(bytes: &[u8], number: u16, name: &str) -> Option<Vec<IpAddr>> {
    let packet = Packet::parse(bytes).ok()?;
    let asked = packet.questions.first()?.qname.to_string();
    if packet.id() != number || !packet.has_flags(PacketFlag::RESPONSE) || !asked.eq_ignore_ascii_case(name) {
        return None;
    }
    let address = |data: &RData<'_>| match data {
        RData::A(found) => Some(IpAddr::from(found.address.to_be_bytes())),
        RData::AAAA(found) => Some(IpAddr::from(found.address.to_be_bytes())),
        _ => None,
    };
    Some(packet.answers.iter().filter_map(|record| address(&record.rdata)).collect())
}

#[cfg(test)]
mod tests {
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::A;

    use super::*;

    #[test]
    fn literals_and_listed_names_need_no_server() {
        let hosts =
            "127.0.0.1 localhost\n192.0.2.7 gauge gauge.example # the other one\n2001:db8::7 gauge\nnonsense x\n";
        let found = |host: &str| resolve_with(host, hosts, "nameserver 127.0.0.1\n", 1).unwrap();
        assert_eq!(found("192.0.2.1"), [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!(found("2001:db8::1"), ["2001:db8::1".parse::<IpAddr>().unwrap()]);
        assert_eq!(found("GAUGE").len(), 2);
        assert_eq!(found("gauge.example"), [IpAddr::from([192, 0, 2, 7])]);
    }

    #[test]
    fn host_and_port_are_told_apart() {
        assert_eq!(split("server:4000").unwrap(), ("server".to_owned(), 4000));
        assert_eq!(split("[::1]:80").unwrap(), ("::1".to_owned(), 80));
        for wrong in ["server", "server:", ":80", "::1:80", "[::1:80", "server:0", "server:99999", ""] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn domains_are_searched_for_short_names_first() {
        let settings = ResolverSettings::of("# a\nnameserver 192.0.2.1\nnameserver x\nsearch lab.example example\n");
        assert_eq!(settings.servers.len(), 1);
        assert_eq!(settings.names("gauge"), ["gauge.lab.example", "gauge.example", "gauge"]);
        assert_eq!(settings.names("a.b.")[0], "a.b");
    }

    #[test]
    fn a_name_server_is_asked_and_strangers_answers_are_dropped() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let serving = std::thread::spawn(move || {
            let mut bytes = [0; 512];
            // One question for each address family.
            for _ in 0..2 {
                let (length, from) = server.recv_from(&mut bytes).unwrap();
                let query = Packet::parse(&bytes[..length]).unwrap();
                let mut wrong = Packet::new_reply(query.id().wrapping_add(1));
                wrong.questions.push(query.questions[0].clone());
                server.send_to(&wrong.build_bytes_vec().unwrap(), from).unwrap();
                server.send_to(b"\xff\xff", from).unwrap();
                let mut right = Packet::new_reply(query.id());
                right.questions.push(query.questions[0].clone());
                let name = query.questions[0].qname.clone();
                right.answers.push(ResourceRecord::new(name, CLASS::IN, 5, RData::A(A { address: 0xc000_0207 })));
                server.send_to(&right.build_bytes_vec().unwrap(), from).unwrap();
            }
        });
        let found = resolve_with("gauge.example", "", "nameserver 127.0.0.1\n", port).unwrap();
        assert!(found.contains(&IpAddr::from([192, 0, 2, 7])));
        serving.join().unwrap();
    }
}
