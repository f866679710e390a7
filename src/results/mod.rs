//! What is written down: quantities, predictions, series, evidence, verdicts, the log, and the document made from it.
//!
//! Plain data with serialisation and no policy. Everything else in the crate either produces these values (conducting a
//! run), computes more of them (evaluating a log) or renders them (reports).

pub mod accepted;
pub mod across;
pub mod between;
pub mod bounds;
pub mod compact;
pub mod comparison;
pub mod composite_check;
pub mod document;
pub mod drawing_note;
pub mod evidence;
pub mod expectation;
pub mod expected;
pub mod fleet;
pub mod gate_numbers;
pub mod host_state;
pub mod judgement;
pub mod log;
pub mod machines;
pub mod mesh;
pub mod node_names;
pub mod own_prediction;
pub mod own_score;
pub mod peer;
pub mod practice;
pub mod prediction;
pub mod problem;
pub mod published;
pub mod quantity;
pub mod ratio;
pub mod remote;
pub mod run;
pub mod schema;
pub mod score;
pub mod series;
pub mod spread;
pub mod timeline;
pub mod verdict;
pub mod wording;
