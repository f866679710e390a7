//! One launch: this binary again, as a child process, with a request on its standard input and records on its output.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::results::log::Record;
use crate::results::problem::Problem;
use crate::rig::request::Request;
use crate::sys::process;

use super::interrupt::Interrupt;

/// Longest padding of the environment in bytes: the stack of a process begins below its environment, so its length moves
/// every stack address (Mytkowicz et al., ASPLOS 2009).
const PADDING: usize = 4096;

/// Most bytes that a launch may say: a launch that goes mad must not fill the memory.
const MOST_OUTPUT: usize = 64 << 20;

/// How a launch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With exit status 0 and all its records.
    Well,
    /// Killed, because a signal asked the run to end.
    Interrupted,
    /// In any other way.
    Failed(Problem),
}

/// Launches are this very file, even if it was replaced or removed since.
const PROGRAM: &str = "/proc/self/exe";

/// Runs one launch to its end, or kills it when its time is up or a signal asks to stop. Returns what it said either
/// way.
pub fn launch(request: &Request, time_out: Duration, interrupt: &Interrupt) -> (Ended, Vec<Record>) {
    let mut child = match start(request) {
        Ok(child) => child,
        Err(error) => {
            let problem = Problem::new(format!("cannot start a launch: {error}"))
                .hint("check the limits on processes (ulimit -u, the pids control group) and that /proc is mounted");
            return (Ended::Failed(problem), Vec::new());
        }
    };
    // Only a stop of this process while the launch runs is of interest.
    let _ = interrupt.was_stopped();
    let heard = listen(&mut child, time_out, interrupt);
    let cut_short = heard.cut_short;
    if cut_short.is_some() {
        process::kill_group(child.id());
    }
    let status = child.wait();
    // Whatever the launch started and left behind goes with it.
    process::kill_group(child.id());
    let (records, garbled) = parse(&heard.output);
    let ended = match (cut_short, status, garbled) {
        (Some(CutShort::Interrupted), ..) => Ended::Interrupted,
        (Some(CutShort::Failed(reason)), ..) => Ended::Failed(reason),
        (None, Err(error), _) => Ended::Failed(Problem::new(format!("cannot follow the launch: {error}"))),
        (None, Ok(status), _) if !status.success() => Ended::Failed(describe(status, &heard.complaint)),
        (None, Ok(_), Some(garbled)) => {
            Ended::Failed(Problem::new(format!("the launch wrote an invalid record: {garbled}")))
        }
        (None, Ok(_), None) if !records.iter().any(|record| matches!(record, Record::Evidence { .. })) => {
            Ended::Failed(Problem::new("the launch ended without evidence"))
        }
        (None, Ok(_), None) => Ended::Well,
    };
    (ended, records)
}

fn start(request: &Request) -> std::io::Result<Child> {
    let mut random = fastrand::Rng::with_seed(request.seed);
    let mut child = Command::new(PROGRAM)
        .arg("launch")
        .env_clear()
        .env("SYSDYNO_PADDING", "x".repeat(random.usize(..PADDING)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A separate group: a terminal's interrupt reaches the conductor alone, and a kill reaches all of a launch.
        .process_group(0)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        let text = serde_json::to_vec(request)?;
        // Room for all of it: a launch that is stopped before it reads must not stop the conductor.
        let _ = fcntl(&input, FcntlArg::F_SETPIPE_SZ(text.len() as i32));
        // A launch that died before reading shows in its exit status.
        let _ = input.write_all(&text);
    }
    Ok(child)
}

/// What a launch said.
struct LaunchOutput {
    output: Vec<u8>,
    complaint: Vec<u8>,
    /// Why it was not heard to the end.
    cut_short: Option<CutShort>,
}

/// Why a launch was killed.
enum CutShort {
    Interrupted,
    Failed(Problem),
}

/// How much later than asked for this process may wake up without having been stopped.
const LATE: Duration = Duration::from_secs(1);

/// How often a launch gets its time again.
const TIMES_AGAIN: u32 = 5;

/// Listens until both streams end. Sleeps in between: the conductor must not use the machine while a launch measures.
fn listen(child: &mut Child, time_out: Duration, interrupt: &Interrupt) -> LaunchOutput {
    let (mut output, mut complaint) = (child.stdout.take(), child.stderr.take());
    let mut heard = LaunchOutput { output: Vec::new(), complaint: Vec::new(), cut_short: None };
    let mut deadline = Instant::now() + time_out;
    let mut again = TIMES_AGAIN;
    while output.is_some() || complaint.is_some() {
        if interrupt.caught().is_some() {
            heard.cut_short = Some(CutShort::Interrupted);
            return heard;
        }
        let asked = Instant::now();
        let left = deadline.saturating_duration_since(asked);
        // What is there is taken even when the time is up: the launch may have ended while this process was stopped.
        let (output_ready, complaint_ready) = wait_for(output.as_ref(), complaint.as_ref(), left);
        if again > 0 && (interrupt.was_stopped() || asked.elapsed() > left + LATE) {
            // How long nothing ran is unknown, so the launch gets its time again.
            deadline = Instant::now() + time_out;
            again -= 1;
        } else if left.is_zero() && !output_ready && !complaint_ready {
            heard.cut_short = Some(CutShort::Failed(
                Problem::new("the launch exceeded its time limit and was killed")
                    .hint("run `sysdyno doctor`, because launches hang on a stopped or overloaded machine"),
            ));
            return heard;
        }
        if output_ready && !take(&mut output, &mut heard.output) {
            output = None;
        }
        if complaint_ready && !take(&mut complaint, &mut heard.complaint) {
            complaint = None;
        }
        if heard.output.len() > MOST_OUTPUT {
            heard.cut_short =
                Some(CutShort::Failed(Problem::new("the launch wrote more than its limit and was killed")));
            return heard;
        }
    }
    heard
}

/// Which of two streams have something to read or have ended; neither when time is up or a signal came.
fn wait_for(one: Option<&impl AsFd>, other: Option<&impl AsFd>, left: Duration) -> (bool, bool) {
    let mut waited: Vec<PollFd<'_>> = Vec::new();
    waited.extend(one.map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLIN)));
    waited.extend(other.map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLIN)));
    // Rounded up: a wait must not end just before the time is up.
    let milliseconds = left.as_nanos().div_ceil(1_000_000).min(60_000) as u16;
    // An error here is an interrupted wait: the caller looks for signals.
    if poll(&mut waited, PollTimeout::from(milliseconds)).is_err() {
        return (false, false);
    }
    let mut ready = waited.iter().map(|stream| stream.any().unwrap_or(true));
    let first = one.is_some() && ready.next().unwrap_or(false);
    let second = other.is_some() && ready.next().unwrap_or(false);
    (first, second)
}

/// Takes what is there; false when the stream has ended.
fn take(stream: &mut Option<impl Read>, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0_u8; 1 << 14];
    match stream.as_mut().map(|stream| stream.read(&mut buffer)) {
        Some(Ok(count)) if count > 0 => {
            into.extend_from_slice(&buffer[..count]);
            true
        }
        Some(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => true,
        _ => false,
    }
}

/// The records in what a launch said, and what could not be read of it.
fn parse(output: &[u8]) -> (Vec<Record>, Option<String>) {
    let mut records = Vec::new();
    for line in output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(record) => records.push(record),
            Err(error) => return (records, Some(error.to_string())),
        }
    }
    (records, None)
}

/// An exit status in words, with what the launch complained of.
fn describe(status: ExitStatus, complaint: &[u8]) -> Problem {
    let complaint = String::from_utf8_lossy(complaint);
    let mut lines = complaint.lines();
    let said = lines.next().map(|line| line.trim_start_matches("error: ").to_owned()).filter(|line| !line.is_empty());
    let hint = lines.find_map(|line| line.strip_prefix("hint: ")).map(str::to_owned);
    let what = match (status.signal(), said) {
        (Some(signal), said) => {
            let name =
                nix::sys::signal::Signal::try_from(signal).map_or_else(|_| signal.to_string(), |name| name.to_string());
            format!("the launch was killed by {name}{}", said.map_or_else(String::new, |said| format!(": {said}")))
        }
        (None, Some(said)) => said,
        (None, None) => format!("the launch ended with exit status {}", status.code().unwrap_or(-1)),
    };
    Problem { what, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_records_end_the_reading_and_keep_what_came_before() {
        let good = br#"{"record":"round_end","round":3}"#;
        let mut output = good.to_vec();
        output.extend_from_slice(b"\n{\"record\":\"ser");
        let (records, garbled) = parse(&output);
        assert_eq!(records.len(), 1);
        assert!(garbled.is_some());
    }

    fn shell(words: &str) -> Child {
        let mut shell = Command::new("sh");
        shell.args(["-c", words]).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_launch_that_ended_while_the_conductor_was_stopped_is_heard_to_its_end() {
        let interrupt = Interrupt::watch().unwrap();
        let mut child = shell("echo heard");
        // As after a stop: the time is long up when the conductor looks.
        std::thread::sleep(Duration::from_millis(200));
        let heard = listen(&mut child, Duration::ZERO, &interrupt);
        assert!(heard.cut_short.is_none() && heard.output == b"heard\n");
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_launch_that_hangs_is_given_up_when_its_time_is_up() {
        let interrupt = Interrupt::watch().unwrap();
        let mut child = shell("exec sleep 60");
        let began = Instant::now();
        let heard = listen(&mut child, Duration::from_millis(50), &interrupt);
        process::kill_group(child.id());
        child.wait().unwrap();
        assert!(matches!(heard.cut_short, Some(CutShort::Failed(_))));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn an_exit_status_becomes_a_sentence() {
        let killed = describe(ExitStatus::from_raw(9), b"");
        assert_eq!(killed.what, "the launch was killed by SIGKILL");
        let refused = describe(ExitStatus::from_raw(1 << 8), b"error: no such clock\nhint: choose another\n");
        assert_eq!(refused.what, "no such clock");
        assert_eq!(refused.hint.as_deref(), Some("choose another"));
    }
}
