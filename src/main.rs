//! The binary: parse, act, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    let say = std::panic::take_hook();
    // A task that has a mistake in it must not leave the others waiting for it.
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        std::process::abort();
    }));
    // Only this file reads the commit: a new one compiles nothing else.
    sysdyno::main(std::env::args_os(), option_env!("SYSDYNO_COMMIT"))
}
