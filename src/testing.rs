//! What integration tests and fuzz targets reach, under the paths that it has inside the crate.
//!
//! Everything else is private to the crate, so the compiler reports what has no caller. What stands here escapes that check: a
//! name goes when the last test that uses it goes.
#![allow(missing_docs, reason = "each item is documented where it is defined")]

pub mod assemble {
    pub use crate::assemble::{document, figures, known_metrics};
}

pub mod catalogue {
    pub use crate::catalogue::built_in::built_in;
    pub use crate::catalogue::entry::Entry;
}

pub mod conduct {
    pub use crate::conduct::{Host, Recording, run_on};
    pub mod directory {
        pub use crate::conduct::directory::RunDirectory;
    }
    pub mod interrupt {
        pub use crate::conduct::interrupt::Interrupt;
    }
    pub mod launch {
        pub use crate::conduct::launch::Ended;
    }
    pub mod mesh {
        pub mod meeting {
            pub use crate::conduct::mesh::meeting::{MOST_BYTES, look};
        }
        pub mod roll_call {
            pub use crate::conduct::mesh::roll_call::introduced;
        }
    }
}

pub mod experiments {
    pub mod consistency {
        pub use crate::experiments::consistency::checks;
    }
    pub mod costs {
        pub use crate::experiments::costs::asked;
    }
    pub mod highlights {
        pub use crate::experiments::highlights::{certain, highlights};
    }
    pub use crate::experiments::{Experiment, PredictionInput, TABLE, catalogue, chapters, find};
    pub mod constants {
        pub use crate::experiments::constants::UNITS;
    }
    pub mod models {
        pub mod coefficients {
            pub use crate::experiments::models::coefficients::{Coefficients, Score, table};
        }
        pub mod fit {
            pub use crate::experiments::models::fit::{Judged, Record, fit, left_out};
        }
    }
    pub mod own_predictions {
        pub use crate::experiments::own_predictions::{OwnFile, Shown, form};
    }
    pub mod file {
        pub mod stamped_file {
            pub use crate::experiments::file::stamped_file::{BLOCK, Stamped};
        }
    }
    pub mod memory {
        pub mod buffer {
            pub use crate::experiments::memory::buffer::{check, take};
        }
        pub mod loaded_latency {
            pub use crate::experiments::memory::loaded_latency::readers;
        }
        pub mod touching {
            pub use crate::experiments::memory::touching::{Cold, count};
        }
    }
}

pub mod fleet {
    pub mod check {
        pub use crate::fleet::check::{check_facts, check_results};
    }
    pub mod reading {
        pub use crate::fleet::reading::{Names, NodeRun, Reading};
    }
}

pub mod judge {
    pub use crate::judge::mistakes;
}

pub mod machine {
    pub use crate::machine::{CacheKind, Claims, CoreClass, CoreType, CpuList, InterfaceKind, Machine, Medium, detect};
    pub mod quiet {
        pub use crate::machine::quiet::{Check, checks};
    }
}

pub mod mesh {
    pub use crate::mesh::{doubtful, judge};
}

pub mod peer {
    pub mod authentication {
        pub use crate::peer::authentication::Secret;
    }
    pub mod channel {
        pub use crate::peer::channel::{Channel, LONGEST_REPLY, LONGEST_REQUEST, Side, Silence};
    }
    pub mod client {
        pub use crate::peer::client::{Lent, Partner};
    }
    pub mod export {
        pub mod answers {
            pub use crate::peer::export::answers::{CallResult, HANDLE, Heard, LONGEST_ANSWER, LONGEST_READ, Shelf};
        }
        pub mod blocks {
            pub use crate::peer::export::blocks::{BLOCK, Blocks, is_stamped};
        }
        pub mod calls {
            pub use crate::peer::export::calls::LONGEST_CALL;
        }
    }
    pub mod handshake {
        pub use crate::peer::handshake::{Admission, answer, ask};
    }
    pub mod limits {
        pub use crate::peer::limits::SessionLimits;
    }
    pub mod nfs {
        pub use crate::peer::nfs::{FileLocation, Reader};
    }
    pub mod plausible {
        pub use crate::peer::plausible::flow;
    }
    pub mod protocol {
        pub use crate::peer::protocol::{
            DatagramOrder, Direction, FlowOrder, MAGIC, MOST_SIZES, PeerRequest, Reply, VERSION,
        };
    }
    pub mod session {
        pub use crate::peer::session::{Membership, SessionContext, serve};
    }
}

pub mod plan {
    pub use crate::plan::{plan, select_for_run};
}

pub mod report {
    pub mod compact {
        pub use crate::report::compact::render;
    }
    pub mod content {
        pub use crate::report::content::{OtherPages, brief, page, published_page};
    }
    pub mod csv {
        pub use crate::report::csv::render;
    }
    pub mod html {
        pub use crate::report::html::render;
    }
    pub mod json {
        pub use crate::report::json::render;
    }
    pub mod markdown {
        pub use crate::report::markdown::{drawings, render};
    }
    pub mod page {
        pub use crate::report::page::{Analysis, Page, Piece, Span};
    }
    pub mod reference {
        pub use crate::report::reference::ReferenceRun;
    }
    pub mod screen {
        pub use crate::report::content::run_screen::screen;
        pub use crate::report::content::verdict::verdict;
        pub use crate::report::screen::plain;
    }
    pub mod terminal {
        pub use crate::report::terminal::{folded, summary};
    }
    pub mod text {
        pub use crate::report::text::render;
    }
}

pub mod results {
    pub mod accepted {
        pub use crate::results::accepted::Accepted;
    }
    pub mod compact {
        pub use crate::results::compact::{Compact, FORMAT};
    }
    pub mod document {
        pub use crate::results::document::{
            Block, CheckOutcome, Comparison, CompositeCheck, Document, FigureModes, Grade, Highlight, HighlightKind,
            Metric, ModesOf, Outcome, Section, SharedCore,
        };
    }
    pub mod evidence {
        pub use crate::results::evidence::{Evidence, Remark};
    }
    pub mod expectation {
        pub use crate::results::expectation::{Expectation, Ground};
    }
    pub mod log {
        pub use crate::results::log::{Clock, FORMAT, Header, Launch, Log, LogWriter, Record, Step, checksum, read};
    }
    pub mod mesh {
        pub use crate::results::mesh::Mesh;
    }
    pub mod own_prediction {
        pub use crate::results::own_prediction::OwnPredictions;
    }
    pub mod prediction {
        pub use crate::results::prediction::{Basis, Prediction};
    }
    pub mod published {
        pub use crate::results::published::Published;
    }
    pub mod quantity {
        pub use crate::results::quantity::{Labels, Unit};
    }
    pub mod remote {
        pub use crate::results::remote::{NfsFile, Remote, RemoteDirectory};
    }
    pub mod schema {
        pub use crate::results::schema::{
            of_accepted, of_compact, of_comparison, of_fleet, of_history, of_judgement, of_log_line, of_mesh, of_result,
        };
    }
    pub mod score {
        pub use crate::results::score::Standing;
    }
    pub mod series {
        pub use crate::results::series::{Class, Classes, Series};
    }
    pub mod problem {
        pub use crate::results::problem::Problem;
    }
    pub mod verdict {
        pub use crate::results::verdict::{AgainstPrediction, Gate, Trust};
    }
    pub mod wording {
        pub use crate::results::wording::{capital, factor, measured, percent, quantity, rough};
    }
}

pub mod rig {
    pub use crate::rig::Rig;
    pub mod clock {
        pub use crate::rig::clock::{calibrate, counter_usable};
    }
    pub mod instruments {
        pub use crate::rig::instruments::{Instruments, Live};
    }
    pub mod request {
        pub use crate::rig::request::Request;
    }
    pub mod sampler {
        pub use crate::rig::sampler::{
            Expected, Sampled, Sampler, Settings, Sizing, Switches, Timed, Witness, Workload,
        };
    }
    pub mod team {
        pub use crate::rig::member::Pass;
        pub use crate::rig::team::Team;
    }
}

pub mod setup {
    pub use crate::setup::{Profile, Setup};
}

pub mod statistics {
    pub mod knee {
        pub use crate::statistics::knee::{Staircase, staircase};
    }
    pub mod summary {
        pub use crate::statistics::summary::{median, quantile, trimmed_mean};
    }
}

pub mod sys {
    pub mod affinity {
        pub use crate::sys::affinity::{allowed, restrict};
    }
    pub mod arch {
        pub use crate::sys::arch::{
            ARITHMETIC_PER_TURN, Arithmetic, CALLS_IN_REGISTERS, CALLS_PER_ITERATION, CALLS_THROUGH_MEMORY,
            CALLS_WITH_NOPS, CHAIN_CYCLES, CHAINED_CALLS_WITH_MULTIPLIES, COUNTER_READERS, CallKernel, ChainAt,
            LoopKernel, REGISTER_LOOPS, REGISTER_LOOPS_WITH_ADDITIONS, SELF_TEST_CYCLES, Stamp, add_chain, arithmetic,
            mixed_chain, multiply_chain, stamp,
        };
    }
    pub mod arena {
        pub use crate::sys::arena::Arena;
    }
    pub mod chain {
        pub use crate::sys::chain::{Chain, Fault, LOADS_PER_TURN};
    }
    pub mod child {
        pub use crate::sys::child::{Image, STATUS, Task, fork, spawn};
    }
    pub mod clock {
        pub use crate::sys::clock::{Source, monotonic_raw};
    }
    pub mod counters {
        pub use crate::sys::counters::{ThreadCounters, thread_run_delay};
    }
    pub mod fault {
        pub use crate::sys::fault::{Untouched, nameless_file};
    }
    pub mod file {
        pub use crate::sys::file::{Advice, Buffer, advise};
    }
    pub mod gpu {
        pub use crate::sys::gpu::{Direction, Driver, HostMemory, Task, Why};
    }
    pub mod memory {
        pub use crate::sys::memory::{Pages, Resident, page_size};
    }
    pub mod naming {
        pub use crate::sys::naming::Maker;
    }
    pub mod placed {
        pub use crate::sys::placed::{Around, PlacedLoop};
    }
    pub mod process {
        pub use crate::sys::process::host_name;
    }
    pub mod relay {
        pub use crate::sys::relay::{Burden, Circle, Relay};
    }
    pub mod signal {
        pub use crate::sys::signal::{Handled, Handler, count, delivered};
    }
    pub mod spinner {
        pub use crate::sys::spinner::{Duty, Spinner};
    }
    pub mod stream {
        pub use crate::sys::stream::{Operation, Stream, Vectors};
    }
    pub mod system_call {
        pub use crate::sys::system_call::{parent_number, refused};
    }
    pub mod thread {
        pub use crate::sys::thread::{Attributes, Bare, Body, CloneCall, create};
    }
    pub mod token {
        pub use crate::sys::token::{Event, Futex, Passage, Pipe};
    }
}
