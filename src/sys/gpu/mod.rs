//! The driver of a GPU. sysdyno is static and cannot load the driver's library, so a small dynamic program of this binary ([`LOADER`])
//! does. It lives in memory, answers requests over a socket, times the work by a clock that sysdyno has too, and ends with this process.

mod words;

use std::fmt;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair};

use super::clock::Source;
use words::{Answer, Request};

/// The program, as `build.rs` made it from `loader.rs`. Empty where it could not.
const LOADER: &[u8] = include_bytes!(env!("SYSDYNO_GPU_LOADER"));

/// How long the program may take to end after it was killed. A process that waits inside of the kernel ends later.
const FAREWELL: Duration = Duration::from_secs(2);
/// Most bytes of what the program or the loader of libraries says.
const MOST_SAID: u64 = 4096;
/// Sets that the file can be executed (`linux/memfd.h`). Kernels before 6.3 do not know it, and let every file be.
const MFD_EXEC: MFdFlags = MFdFlags::from_bits_retain(0x10);
/// Begin the names of variables that a driver reads.
const OF_DRIVERS: [&str; 2] = ["CUDA_", "NVIDIA_"];
/// Where programs look for libraries first.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// Why the driver did not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// This build has no program for it.
    NotBuilt,
    /// The program cannot be started.
    NotStarted(String),
    /// The library cannot be loaded, in the words of the loader of libraries.
    NoLibrary(String),
    /// The driver found no device.
    NoDevice,
    /// A call of the driver failed.
    Refused {
        /// The call.
        call: &'static str,
        /// Number and name of its error.
        error: String,
    },
    /// No answer came within a time.
    Silent(Duration),
    /// The program ended.
    Ended(String),
    /// What the driver did is not what was asked of it.
    Wrong(&'static str),
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotBuilt => write!(out, "this build of sysdyno cannot load the driver of a GPU"),
            Why::NotStarted(why) => write!(out, "the program that loads the driver of a GPU does not start: {why}"),
            Why::NoLibrary(why) => write!(out, "the driver of an NVIDIA GPU cannot be loaded: {why}"),
            Why::NoDevice => write!(out, "the driver finds no GPU"),
            Why::Refused { call, error } => write!(out, "the driver's call {call} failed with error {error}"),
            Why::Silent(limit) => write!(out, "the driver did not answer within {} s", limit.as_secs_f64()),
            Why::Ended(how) => write!(out, "the program that loads the driver ended: {how}"),
            Why::Wrong(what) => write!(out, "{what}"),
        }
    }
}

/// A device, as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// The version of CUDA that the driver has, such as 12040 for 12.4.
    pub version: u64,
    /// How many devices the driver shows.
    pub count: u64,
    /// Its address on PCI, such as `0000:01:00.0`.
    pub address: String,
    /// It shares its memory with the processor, or a faster link than PCI Express connects them.
    pub linked_otherwise: bool,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the device.
    ToDevice,
    /// From the device to the host.
    FromDevice,
}

/// Memory of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostMemory {
    /// The device reaches it, because the driver has pinned it.
    Pinned,
    /// Ordinary memory.
    Pageable,
}

/// What a batch is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Launches of a kernel in a row, and a wait for the last.
    Launch,
    /// The same with a wait after each.
    LaunchWait,
    /// Copies of a number of bytes, which four divides.
    Copy(Direction, HostMemory, u64),
}

/// A batch that the program has timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Ticks of the clock.
    pub ticks: i64,
    /// Whether the kernel gave the CPU to another task.
    pub preempted: bool,
}

/// Variables of the environment that decide which driver is loaded and which devices it shows.
pub fn environment() -> Vec<(String, String)> {
    let is_read = |name: &str| name == LIBRARIES || OF_DRIVERS.iter().any(|begin| name.starts_with(begin));
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_read(name))
        .collect()
}

/// A running program that has loaded the driver.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    socket: OwnedFd,
    /// Number of the last copy, which decides the content of it.
    copies: u64,
}

impl Driver {
    /// Starts the program with these variables. The driver writes no cache of kernels, and launches do not wait.
    pub fn load(variables: &[(String, String)]) -> Result<Driver, Why> {
        if LOADER.is_empty() {
            return Err(Why::NotBuilt);
        }
        let refused = |error: &dyn fmt::Display| Why::NotStarted(error.to_string());
        let program = program().map_err(|error| refused(&error))?;
        let (socket, other) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
            .map_err(|error| refused(&error.desc()))?;
        let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
            .arg0("sysdyno-gpu")
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env("CUDA_CACHE_DISABLE", "1")
            .env("CUDA_LAUNCH_BLOCKING", "0")
            .stdin(Stdio::from(other))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| refused(&error))?;
        Ok(Driver { child, socket, copies: 0 })
    }

    /// Describes the first device.
    pub fn describe(&mut self, within: Duration) -> Result<Device, Why> {
        let answer = self.ask([words::DESCRIBE, 0, 0, 0, 0, 0, 0, 0], within)?;
        let [_, version, count, domain, bus, device, linked_otherwise, ..] = answer;
        let name = name_in(&answer);
        let is_plausible = (1000..1_000_000).contains(&version)
            && (1..=4096).contains(&count)
            && u32::try_from(domain).is_ok()
            && bus <= 0xff
            && device <= 0x1f
            && linked_otherwise <= 1
            && !name.is_empty();
        if !is_plausible {
            return Err(Why::Wrong("the driver describes a device that cannot be"));
        }
        let address = format!("{domain:04x}:{bus:02x}:{device:02x}.0");
        Ok(Device { name, version, count, address, linked_otherwise: linked_otherwise == 1 })
    }

    /// Makes a context, and what launches need. For copies of at most some bytes it makes memory instead.
    pub fn prepare(&mut self, most_bytes: u64, within: Duration) -> Result<(), Why> {
        self.ask([words::PREPARE, most_bytes, 0, 0, 0, 0, 0, 0], within).map(drop)
    }

    /// Times a number of operations by a clock.
    pub fn time(&mut self, task: Task, count: u64, clock: Source, within: Duration) -> Result<Batch, Why> {
        let clock = if clock == Source::Counter { words::COUNTER } else { words::COUNTER + 1 };
        let request = match task {
            Task::Launch => [words::LAUNCH, clock, count, 0, 0, 0, 0, 0],
            Task::LaunchWait => [words::LAUNCH_WAIT, clock, count, 0, 0, 0, 0, 0],
            Task::Copy(direction, memory, bytes) => {
                self.copies += 1;
                let direction = if direction == Direction::ToDevice { words::TO_DEVICE } else { words::TO_DEVICE + 1 };
                let memory = if memory == HostMemory::Pinned { words::PINNED } else { words::PINNED + 1 };
                [words::COPY, clock, count, direction, memory, bytes, self.copies, 0]
            }
        };
        let [_, ticks, preempted, ..] = self.ask(request, within)?;
        match i64::try_from(ticks) {
            Ok(ticks) if ticks > 0 => Ok(Batch { ticks, preempted: preempted > 0 }),
            _ => Err(Why::Wrong("the clock of the program that loads the driver did not advance")),
        }
    }

    /// An answer to a request, if it says that all went well.
    fn ask(&mut self, request: Request, within: Duration) -> Result<Answer, Why> {
        let bytes = request.map(u64::to_ne_bytes).concat();
        let sent = sendmsg::<()>(self.socket.as_raw_fd(), &[IoSlice::new(&bytes)], &[], MsgFlags::MSG_NOSIGNAL, None);
        if sent.is_err() {
            return Err(self.how_it_ended());
        }
        let answer = self.answer(within)?;
        match answer[0] {
            words::DONE => Ok(answer),
            words::REFUSED => {
                let call = usize::try_from(answer[1]).ok().and_then(|place| words::CALLS.get(place));
                let name = name_in(&answer);
                let error = answer[2] as i32;
                let error = if name.is_empty() { error.to_string() } else { format!("{error} ({name})") };
                Err(call.map_or(NO_SENSE, |call| Why::Refused { call, error }))
            }
            words::WRONG => Err(Why::Wrong("the driver reported success, and the memory has another content")),
            words::NO_DEVICE => Err(Why::NoDevice),
            words::NO_MEMORY => Err(Why::Wrong("there is too little memory for the copies")),
            _ => Err(NO_SENSE),
        }
    }

    /// The next answer, within a time.
    fn answer(&mut self, within: Duration) -> Result<Answer, Why> {
        let deadline = Instant::now() + within;
        let mut bytes = [0_u8; size_of::<Answer>()];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let milliseconds = left.as_nanos().div_ceil(1_000_000).min(60_000) as u16;
            let mut waited = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waited, PollTimeout::from(milliseconds)) {
                Ok(0) | Err(Errno::EINTR) if left.is_zero() => return Err(Why::Silent(within)),
                Ok(0) | Err(Errno::EINTR) => continue,
                _ => {}
            }
            let mut into = [IoSliceMut::new(&mut bytes)];
            let received = recvmsg::<()>(self.socket.as_raw_fd(), &mut into, None, MsgFlags::MSG_DONTWAIT);
            return match received.map(|message| message.bytes) {
                Err(Errno::EINTR | Errno::EAGAIN) => continue,
                Ok(length) if length == bytes.len() => {
                    let word = |place: usize| {
                        let bytes = bytes[8 * place..8 * place + 8].try_into().unwrap_or_default();
                        u64::from_ne_bytes(bytes)
                    };
                    Ok(std::array::from_fn(word))
                }
                _ => Err(self.how_it_ended()),
            };
        }
    }

    /// Why the program gives no answer any more.
    fn how_it_ended(&mut self) -> Why {
        let Some(status) = self.end() else { return Why::Ended("it cannot be killed".to_owned()) };
        let mut said = Vec::new();
        if let Some(mut stream) = self.child.stderr.take() {
            // It has ended, so all that it said is there. Its children, which no driver has, could hold the stream open.
            let _ = fcntl(stream.as_fd(), FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK));
            let _ = stream.by_ref().take(MOST_SAID).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().next().unwrap_or_default().trim();
        let reason = line.rsplit_once("error while loading shared libraries: ").map_or(line, |(_, reason)| reason);
        match (status.signal(), status.code()) {
            (None, Some(NOT_LOADED)) => Why::NoLibrary(reason.to_owned()),
            (Some(signal), _) => Why::Ended(format!("signal {signal} killed it. {reason}").trim_end().to_owned()),
            (_, code) => Why::Ended(format!("status {}. {reason}", code.unwrap_or(-1)).trim_end().to_owned()),
        }
    }

    /// Ends the program, and reaps it if that succeeds in time.
    fn end(&mut self) -> Option<ExitStatus> {
        // It ends by itself as soon as nothing more can be asked. A loader of libraries that failed has ended.
        let began = Instant::now();
        while began.elapsed() < FAREWELL {
            match self.child.try_wait() {
                Ok(None) if began.elapsed() < SELF_END => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) => {
                    let _ = self.child.kill();
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended already: that is the outcome asked for.
        let _ = self.child.kill();
        self.end();
    }
}

/// How long a program whose socket is closed may take to end by itself.
const SELF_END: Duration = Duration::from_millis(500);
/// Exit status of the loader of libraries where it fails.
const NOT_LOADED: i32 = 127;
const NO_SENSE: Why = Why::Wrong("the program that loads the driver gave an answer without sense");

/// The program as a file in memory that cannot be changed any more.
fn program() -> std::io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let made = match memfd_create(c"sysdyno-gpu", flags | MFD_EXEC) {
        Err(Errno::EINVAL) => memfd_create(c"sysdyno-gpu", flags),
        made => made,
    };
    let mut file = File::from(made?);
    file.write_all(LOADER)?;
    let seals = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    fcntl(file.as_fd(), FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// The name in an answer, without what cannot be printed.
fn name_in(answer: &Answer) -> String {
    let bytes: Vec<u8> = answer[words::NAME..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).chars().filter(|letter| !letter.is_control()).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_names_no_version_of_the_c_library() {
        if LOADER.is_empty() {
            return;
        }
        assert!(LOADER.len() < 96 << 10, "{} bytes", LOADER.len());
        let has = |text: &[u8]| LOADER.windows(text.len()).any(|window| window == text);
        assert!(has(b"libcuda.so.1\0") && has(b"libc.so.6\0") && !has(b"GLIBC_"));
    }

    #[test]
    fn a_name_ends_where_it_ends() {
        let mut answer: Answer = [0; 16];
        answer[words::NAME] = u64::from_ne_bytes(*b"Tesla\n X");
        assert_eq!(name_in(&answer), "Tesla X");
        answer[words::NAME..].fill(u64::from_ne_bytes([b'x'; 8]));
        assert_eq!(name_in(&answer).len(), 64);
        answer[words::NAME] = 0;
        assert_eq!(name_in(&answer), "");
    }
}
