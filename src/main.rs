//! The binary: parse, act, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    sysdyno::main(std::env::args_os())
}
