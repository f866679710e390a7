//! sysdyno: the machine and its operating system on the dyno.

pub mod machine;
pub mod results;
pub mod statistics;
