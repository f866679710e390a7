//! What is written down.

pub mod quantity;
