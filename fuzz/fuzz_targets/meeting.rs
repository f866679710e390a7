//! Feeds `fuzzed::meeting`, which `tests/fuzz.rs` feeds as well.
#![no_main]

#[path = "../../tests/fuzzed/mod.rs"]
mod fuzzed;

#[global_allocator]
static ALLOCATOR: fuzzed::allocation::Counted = fuzzed::allocation::Counted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::meeting(bytes));
