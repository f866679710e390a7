//! What the members of a mesh and rank 0 say to each other, over channels that both sides authenticate.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::results::mesh::MeshLink;

/// Longest reason, in letters.
const LONGEST_REASON: usize = 200;

/// The beginning of a reason: it fits into a message, and into one that passes it on. Who says it cuts it.
pub fn brief(reason: &str) -> String {
    reason.chars().take(LONGEST_REASON).collect()
}

/// Who a member is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joining {
    /// Version of sysdyno.
    pub version: String,
    pub rank: u32,
    pub size: u32,
    /// Name of its node.
    pub node: String,
    pub rack: Option<String>,
    /// The network that it is measured on.
    pub link: MeshLink,
    /// Port of its server there.
    pub port: u16,
    /// Other networks of the node.
    pub others: Vec<MeshLink>,
}

/// What a pair measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairResult {
    /// From the caller to the other, and back, in bytes per second.
    pub there: u64,
    pub back: u64,
    /// Median, 10th and 99th percentile of the round trips, in nanoseconds.
    pub round_trip: u64,
    pub fast_round_trip: u64,
    pub slow_round_trip: u64,
}

/// What a caller is to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairOrder {
    /// The other member's server.
    pub to: SocketAddr,
    /// Connections of a flow.
    pub streams: u8,
}

/// What a member says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum MemberWord {
    /// It comes.
    Join {
        /// Who it is.
        who: Box<Joining>,
    },
    /// Its clock.
    Clock {
        /// Nanoseconds since 1970.
        nanoseconds: i64,
    },
    /// It is ready for a round.
    Present {
        /// The round.
        round: u32,
    },
    /// It has measured its pair of a round.
    Measured {
        /// The round.
        round: u32,
        /// What it measured, or why it could not.
        outcome: Result<PairResult, String>,
    },
}

/// What rank 0 says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum LeadWord {
    /// What does your clock say?
    Clock {},
    /// You are in.
    Welcome {},
    /// You are not, and nothing changes that.
    Refused {
        /// Why.
        reason: String,
    },
    /// I am still there.
    Still {},
    /// A round begins: are you there?
    Ready {
        /// The round.
        round: u32,
    },
    /// Measure a pair, as its caller.
    Measure {
        /// The round.
        round: u32,
        /// With whom and how.
        order: PairOrder,
    },
    /// It is over.
    End {},
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::channel::LONGEST_REQUEST;

    #[test]
    fn a_long_reason_fits_into_a_message() {
        let outcome = Err(brief(&"\u{1b}".repeat(100_000)));
        let text = serde_json::to_string(&MemberWord::Measured { round: u32::MAX, outcome }).unwrap();
        assert!(text.len() < LONGEST_REQUEST, "{}", text.len());
        assert_eq!(brief("short"), "short");
    }

    #[test]
    fn messages_survive_the_wire_and_strangers_do_not() {
        let order = PairOrder { to: "10.0.0.1:4000".parse().unwrap(), streams: 1 };
        let text = serde_json::to_string(&LeadWord::Measure { round: 3, order }).unwrap();
        assert_eq!(serde_json::from_str::<LeadWord>(&text).unwrap(), LeadWord::Measure { round: 3, order });
        let failed = MemberWord::Measured { round: 3, outcome: Err("refused".to_owned()) };
        let text = serde_json::to_string(&failed).unwrap();
        assert_eq!(serde_json::from_str::<MemberWord>(&text).unwrap(), failed);
        for strange in [
            "{}",
            "{\"say\":\"run\",\"command\":\"reboot\"}",
            "{\"say\":\"present\",\"round\":1,\"more\":2}",
            "{\"say\":\"present\",\"round\":-1}",
            "{\"say\":\"measured\",\"round\":1,\"outcome\":{\"Ok\":{\"there\":-1}}}",
            "{\"say\":\"join\",\"who\":{}}",
        ] {
            assert!(serde_json::from_str::<MemberWord>(strange).is_err(), "{strange}");
            assert!(serde_json::from_str::<LeadWord>(strange).is_err(), "{strange}");
        }
    }
}
