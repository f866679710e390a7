//! sysdyno predicts and measures the primitive costs of a Linux machine and its operating system. It reports how far each result
//! can be trusted.
//!
//! Data flows one way, and a module imports only modules of a lower rank (a test reads the sources and enforces it):
//!
//! ```text
//! rank 0  sys                    clocks, processes, assembly: the only unsafe code, no policy
//! rank 1  machine  statistics    facts about the machine · pure functions on numbers
//! rank 2  results                what is written down: series, evidence, verdicts, the log, the document
//! rank 3  setup  neighbour       the description of a run before anything is timed · what else used a core
//! rank 4  rig  report  peer      how a sample is taken · document → bytes · the other machine's side
//! rank 5  evaluate               series → figures with gates and verdicts
//! rank 6  experiments            one file per experiment; one ordered table
//! rank 7  plan  assemble  compare  what will run · log → document · runs → what changed
//! rank 7  fleet  mesh            nodes → which is odd · pairs of nodes → which link is bad
//! rank 7  catalogue              what costs are on other machines
//! rank 7  judge                  numbers of others → which agree, and what made the difference
//! rank 8  conduct                discovery, and rounds of launches, each a child process
//! rank 9  cli                    one file per verb
//!
//!   typed words ─ cli ─▶ plan ─▶ conduct ─▶ launch (child): experiment.measure(rig) ─▶ log.jsonl
//!                                                                                       │
//!   terminal · JSON ◀─ report ◀─ document ◀─ assemble: experiment.figures(evidence) ◀───┘
//! ```
//!
//! Files do not import each other in circles, but a file may use what a file above it declares. Modules are private, so the
//! compiler reports code without a caller. [`testing`] shows tests what they need.

mod assemble;
mod catalogue;
mod cli;
mod compare;
mod conduct;
mod evaluate;
mod experiments;
mod fleet;
mod judge;
mod machine;
mod mesh;
mod neighbour;
mod peer;
mod plan;
mod report;
mod results;
mod rig;
mod setup;
mod statistics;
mod sys;
pub mod testing;

pub use cli::main;
