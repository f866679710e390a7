//! From a document to bytes. No renderer knows an experiment; no experiment knows a renderer.

pub mod json;
pub mod terminal;
