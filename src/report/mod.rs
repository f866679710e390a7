//! From a document to bytes. No renderer knows an experiment; no experiment knows a renderer.
//!
//! ```text
//! document + published figures ─ content ─▶ page ─┬─ html      one self-contained file
//!                                                 ├─ markdown  with drawings next to it
//!                                                 └─ text      for a terminal
//! document ─┬─ json
//!           ├─ compact
//!           ├─ csv
//!           ├─ compact form ─ exports: for other programs
//!           └─ terminal: the summary after a run
//! fleet ─┬─ fleet_screen, fleet_csv
//!        └─ content ─▶ page
//! mesh ─── mesh_screen, and a part of the page of a fleet
//! ```

pub mod across_screen;
pub mod compact;
pub mod comparison_screen;
pub mod content;
pub mod csv;
pub mod drawing;
pub mod exports;
pub mod fleet_csv;
pub mod fleet_screen;
mod fleet_words;
pub mod history_screen;
pub mod html;
pub mod json;
pub mod markdown;
pub mod mesh_screen;
mod mesh_words;
pub mod page;
pub mod reference;
pub mod screen;
mod table;
pub mod terminal;
pub mod text;
pub mod verdict;
