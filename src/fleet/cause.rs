//! What a pattern of axes looks like. A pattern names a common cause and proves none.

use crate::results::fleet::{Axis, AxisState, NodeAxis};

/// A pattern: axes that are worse, of which some must be, and axes that must be as usual.
struct Pattern {
    all: &'static [Axis],
    any: &'static [Axis],
    usual: &'static [Axis],
    looks_like: &'static str,
}

const KERNEL: &[Axis] = &[Axis::Switching, Axis::PageFaults, Axis::Processes];

/// The first that fits is named.
const PATTERNS: [Pattern; 13] = [
    Pattern {
        all: &[Axis::Clock],
        any: &[],
        usual: &[],
        looks_like: "a lower core clock: turbo, power limit or temperature",
    },
    Pattern {
        all: &[Axis::Core, Axis::SystemCalls],
        any: &[],
        usual: &[Axis::Clock],
        looks_like: "another task on the other hardware thread of the core",
    },
    Pattern {
        all: &[Axis::DramRateAll],
        any: &[],
        usual: &[Axis::DramLatency, Axis::CacheRate],
        looks_like: "one memory channel lost",
    },
    Pattern {
        all: &[Axis::DramLatency],
        any: &[Axis::DramRateOne, Axis::DramRateAll],
        usual: &[],
        looks_like: "slower memory: speed of the modules, interleaving or a remote node",
    },
    Pattern { all: &[Axis::DramLatency], any: &[], usual: &[], looks_like: "a higher latency of main memory" },
    Pattern {
        all: &[Axis::SystemCalls],
        any: KERNEL,
        usual: &[Axis::Core],
        looks_like: "another kernel or other mitigations",
    },
    Pattern {
        all: &[Axis::SystemCalls],
        any: &[],
        usual: KERNEL,
        looks_like: "a system-call filter, audit or tracing",
    },
    Pattern { all: &[Axis::LinkRate], any: &[], usual: &[], looks_like: "the link: duplex, speed, cable or port" },
    Pattern { all: &[Axis::LinkLatency], any: &[], usual: &[], looks_like: "the path: interrupt settings or a detour" },
    Pattern { all: &[Axis::Disk], any: &[], usual: &[], looks_like: "a slow disk" },
    Pattern { all: &[Axis::Readers], any: &[], usual: &[], looks_like: "a slow disk" },
    Pattern { all: &[Axis::PageFaults], any: &[], usual: &[], looks_like: "page faults: huge pages or memory reclaim" },
    Pattern { all: &[Axis::DramRateOne], any: &[], usual: &[], looks_like: "slower memory" },
];

/// Words of labels whose absence has a known cause.
const ABSENT: [(&str, &str); 2] =
    [("pages=huge", "transparent huge pages off"), ("path=remote", "no path to the peer")];

/// What the odd axes and absent results of a node look like. `differs` says which axes count.
pub fn cause(axes: &[NodeAxis], absent: &[String], differs: impl Fn(&NodeAxis) -> bool) -> Option<String> {
    let is = |wanted: &Axis, sign: f64| {
        let found = |axis: &&NodeAxis| axis.axis == *wanted && differs(axis);
        axes.iter().find(found).is_some_and(|axis| axis.effect.unwrap_or(0.0) * sign > 0.0)
    };
    let worse = |axis: &Axis| is(axis, -1.0);
    // A difference that a single run shows, or an axis that no run decides, is not as usual.
    let may_be_worse = |wanted: &Axis| {
        axes.iter().filter(|axis| axis.axis == *wanted).any(|axis| match axis.state {
            AxisState::Usual => false,
            AxisState::Odd | AxisState::Suspect => axis.effect.unwrap_or(0.0) < 0.0,
            AxisState::Undecided => true,
        })
    };
    let fits = |pattern: &&Pattern| {
        pattern.all.iter().all(worse)
            && (pattern.any.is_empty() || pattern.any.iter().any(worse))
            && !pattern.usual.iter().any(may_be_worse)
    };
    let of_axes = PATTERNS.iter().find(fits).map(|pattern| pattern.looks_like);
    let of_absent =
        ABSENT.iter().find(|(word, _)| absent.iter().any(|label| label.ends_with(word))).map(|(_, cause)| *cause);
    // Better on an axis is odd too: protections may be off.
    let better = || {
        let fast = [Axis::SystemCalls, Axis::Switching].iter().all(|axis| is(axis, 1.0));
        fast.then_some("mitigations that are off")
    };
    of_absent.or(of_axes).or_else(better).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(axis: Axis, state: AxisState, effect: Option<f64>) -> NodeAxis {
        NodeAxis { axis, state, effect, z: None, runs: 2, reason: None }
    }

    /// The cause of a lower rate of all threads, with another axis.
    fn with(other: NodeAxis) -> Option<String> {
        let axes = [axis(Axis::DramRateAll, AxisState::Odd, Some(-0.12)), other];
        cause(&axes, &[], |axis| axis.state == AxisState::Odd)
    }

    #[test]
    fn a_channel_is_lost_only_where_caches_are_as_usual() {
        let lost = Some("one memory channel lost".to_owned());
        for known in [AxisState::Usual, AxisState::Odd] {
            assert_eq!(with(axis(Axis::CacheRate, known, Some(0.03))), lost, "{known:?}");
        }
        for open in [AxisState::Odd, AxisState::Suspect] {
            assert_eq!(with(axis(Axis::CacheRate, open, Some(-0.1))), None, "{open:?}");
        }
        assert_eq!(with(axis(Axis::CacheRate, AxisState::Undecided, None)), None);
        assert_eq!(with(axis(Axis::DramLatency, AxisState::Suspect, Some(-0.1))), None);
    }
}
