//! The catalogue: what costs are on other machines. Its files are in `catalogue/`, one for each machine. They hold facts of the kind of
//! machine and its costs, and nothing that identifies it.

pub mod built_in;
pub mod entry;
pub mod expectations;
pub mod kind;
pub mod page;
pub mod published;
#[cfg(test)]
mod tests;
