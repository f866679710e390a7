//! From a document to bytes. No renderer knows an experiment; no experiment knows a renderer.
//!
//! ```text
//! document, comparison, history, fleet, mesh ─ content ─┬─ page ─┬─ html      one self-contained file
//!                                                       │        ├─ markdown  with drawings next to it
//!                                                       │        └─ text      for a terminal
//!                                                       └─ screen: the answer on one screen, in lines of a page's cells
//! document ─┬─ json
//!           ├─ compact
//!           ├─ csv
//!           ├─ compact form ─ exports: for other programs
//!           └─ terminal: every headline result
//! fleet ─── fleet_csv
//! ```

pub mod compact;
pub mod content;
pub mod csv;
pub mod drawing;
pub mod exports;
pub mod fleet_csv;
pub mod html;
pub mod json;
pub mod markdown;
pub mod page;
pub mod reference;
pub mod screen;
mod table;
pub mod terminal;
pub mod text;
