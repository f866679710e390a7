//! The program that loads the driver of a GPU. sysdyno is static and cannot load a library, so `build.rs` makes this a separate dynamic
//! program. [`super`] starts it and sends it requests.
//!
//! The dynamic loader loads `libcuda.so.1` before `_start`. Symbols have no version, so every glibc can start it.
#![no_std]
#![no_main]

mod words;

use core::arch::{asm, global_asm};
use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::ptr::{null, null_mut};

use words::{Answer, Request};

/// A device that has nothing to do counts in a word of its memory how often the kernel ran.
const KERNEL: &[u8] = b".version 6.0\n.target sm_50\n.address_size 64\n\
.visible .entry count(.param .u64 count_param_0)\n{\n.reg .b64 %rd<3>;\n\
ld.param.u64 %rd1, [count_param_0];\ncvta.to.global.u64 %rd2, %rd1;\n\
red.global.add.u32 [%rd2], 1;\nret;\n}\n\0";

/// Attributes of a device in the driver's numbers.
const INTEGRATED: c_int = 18;
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;
const PCI_DOMAIN: c_int = 50;
/// It uses the page tables of the host, as devices do that a faster link than PCI Express connects.
const HOST_PAGE_TABLES: c_int = 100;

const PR_SET_PDEATHSIG: c_int = 1;
const SIGKILL: c_int = 9;
const CLOCK_MONOTONIC_RAW: c_int = 4;
const RUSAGE_THREAD: c_int = 1;
const PROT_READ_WRITE: c_int = 3;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;

unsafe extern "C" {
    fn read(file: c_int, into: *mut c_void, bytes: usize) -> isize;
    fn write(file: c_int, from: *const c_void, bytes: usize) -> isize;
    fn prctl(what: c_int, ...) -> c_int;
    fn clock_gettime(clock: c_int, into: *mut [c_long; 2]) -> c_int;
    fn getrusage(whose: c_int, into: *mut [c_long; 18]) -> c_int;
    fn mmap(at: *mut c_void, bytes: usize, access: c_int, flags: c_int, file: c_int, from: c_long) -> *mut c_void;
    fn _exit(status: c_int) -> !;

    fn cuInit(flags: c_uint) -> c_int;
    fn cuDriverGetVersion(version: *mut c_int) -> c_int;
    fn cuDeviceGetCount(count: *mut c_int) -> c_int;
    fn cuDeviceGet(device: *mut c_int, number: c_int) -> c_int;
    fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int) -> c_int;
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int;
    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> c_int;
    fn cuCtxSetCurrent(context: *mut c_void) -> c_int;
    fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int;
    fn cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_int;
    fn cuLaunchKernel(
        function: *mut c_void,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: *mut c_void,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_int;
    fn cuStreamSynchronize(stream: *mut c_void) -> c_int;
    fn cuMemAlloc_v2(place: *mut u64, bytes: usize) -> c_int;
    fn cuMemsetD32_v2(place: u64, value: c_uint, count: usize) -> c_int;
    fn cuMemAllocHost_v2(place: *mut *mut c_void, bytes: usize) -> c_int;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int;
    fn cuCtxSynchronize() -> c_int;
    fn cuGetErrorName(error: c_int, name: *mut *const c_char) -> c_int;
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov r9, rdx",
    "pop rsi",
    "mov rdx, rsp",
    "and rsp, -16",
    "push rax",
    "push rsp",
    "xor r8d, r8d",
    "xor ecx, ecx",
    "lea rdi, [rip + {main}]",
    "call [rip + __libc_start_main@GOTPCREL]",
    "hlt",
    main = sym serve,
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x5, x0",
    "ldr x1, [sp]",
    "add x2, sp, #8",
    "mov x6, sp",
    "adrp x0, {main}",
    "add x0, x0, :lo12:{main}",
    "mov x3, #0",
    "mov x4, #0",
    "bl __libc_start_main",
    "brk #0",
    main = sym serve,
);

/// Why the work has no result.
enum Failure {
    /// A call of the driver failed: its place in the list, and the error.
    Refused(usize, c_int),
    /// Another outcome.
    Outcome(u64),
}

const fn place_of(name: &str) -> usize {
    let mut place = 0;
    while place < words::CALLS.len() {
        let (one, other) = (words::CALLS[place].as_bytes(), name.as_bytes());
        let mut same = one.len() == other.len();
        let mut letter = 0;
        while same && letter < one.len() {
            same = one[letter] == other[letter];
            letter += 1;
        }
        if same {
            return place;
        }
        place += 1;
    }
    panic!("the list of calls lacks one")
}

/// Makes a call of the driver.
macro_rules! call {
    ($name:ident($($argument:expr),*)) => {{
        const PLACE: usize = place_of(stringify!($name));
        // SAFETY: pointers among the arguments are valid for what the driver's header says of the call.
        match unsafe { $name($($argument),*) } {
            0 => Ok(()),
            error => Err(Failure::Refused(PLACE, error)),
        }
    }};
}

/// A device with work.
struct Work {
    function: *mut c_void,
    /// The word that counts launches, and what it must be.
    counter: u64,
    launched: u32,
    /// Memory of the device, and of the host: pinned, pageable.
    device: u64,
    host: [*mut u32; 2],
    most_bytes: u64,
}

/// What a batch took.
struct Taken {
    ticks: u64,
    preempted: u64,
}

fn describe(answer: &mut Answer) -> Result<(), Failure> {
    let (mut version, mut count, mut device) = (0, 0, 0);
    call!(cuDriverGetVersion(&mut version))?;
    call!(cuDeviceGetCount(&mut count))?;
    if count < 1 {
        return Err(Failure::Outcome(words::NO_DEVICE));
    }
    call!(cuDeviceGet(&mut device, 0))?;
    let of = |attribute| {
        let mut value = 0;
        call!(cuDeviceGetAttribute(&mut value, attribute, device)).map(|()| value as u64)
    };
    let name = &raw mut answer[words::NAME];
    call!(cuDeviceGetName(name.cast(), ((answer.len() - words::NAME) * 8) as c_int, device))?;
    // Older drivers do not know the last attribute.
    let linked_otherwise = of(INTEGRATED)? != 0 || of(HOST_PAGE_TABLES).is_ok_and(|value| value != 0);
    let found =
        [version as u64, count as u64, of(PCI_DOMAIN)?, of(PCI_BUS)?, of(PCI_DEVICE)?, u64::from(linked_otherwise)];
    answer[1..1 + found.len()].copy_from_slice(&found);
    Ok(())
}

impl Work {
    fn prepare(most_bytes: u64) -> Result<Work, Failure> {
        let (mut device, mut context, mut module) = (0, null_mut(), null_mut());
        let mut work = Work { function: null_mut(), counter: 0, launched: 0, device: 0, host: [null_mut(); 2], most_bytes };
        call!(cuInit(0))?;
        call!(cuDeviceGet(&mut device, 0))?;
        call!(cuDevicePrimaryCtxRetain(&mut context, device))?;
        call!(cuCtxSetCurrent(context))?;
        if most_bytes > 0 {
            let bytes = most_bytes as usize;
            let mut pinned = null_mut();
            call!(cuMemAlloc_v2(&mut work.device, bytes))?;
            call!(cuMemAllocHost_v2(&mut pinned, bytes))?;
            // SAFETY: a new mapping at any address.
            let pageable = unsafe { mmap(null_mut(), bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0) };
            if pageable as isize == -1 {
                return Err(Failure::Outcome(words::NO_MEMORY));
            }
            work.host = [pinned.cast(), pageable.cast()];
            return Ok(work);
        }
        call!(cuModuleLoadData(&mut module, KERNEL.as_ptr().cast()))?;
        call!(cuModuleGetFunction(&mut work.function, module, c"count".as_ptr()))?;
        call!(cuMemAlloc_v2(&mut work.counter, 4))?;
        call!(cuMemsetD32_v2(work.counter, 0, 1))?;
        call!(cuCtxSynchronize())?;
        Ok(work)
    }

    fn launch(&mut self, count: u64, waits: bool, clock: u64) -> Result<Taken, Failure> {
        let mut parameters = [(&raw mut self.counter).cast::<c_void>()];
        let taken = timed(clock, || {
            for _ in 0..count {
                call!(cuLaunchKernel(
                    self.function, 1, 1, 1, 1, 1, 1, 0, null_mut(), parameters.as_mut_ptr(), null_mut()
                ))?;
                if waits {
                    call!(cuStreamSynchronize(null_mut()))?;
                }
            }
            if waits { Ok(()) } else { call!(cuStreamSynchronize(null_mut())) }
        })?;
        self.launched = self.launched.wrapping_add(count as u32);
        let mut counted = 0_u32;
        call!(cuMemcpyDtoH_v2((&raw mut counted).cast(), self.counter, 4))?;
        if counted == self.launched { Ok(taken) } else { Err(Failure::Outcome(words::WRONG)) }
    }

    fn copy(&mut self, [clock, count, direction, memory, bytes, content]: [u64; 6]) -> Result<Taken, Failure> {
        if bytes == 0 || bytes > self.most_bytes || bytes % 4 != 0 {
            return Err(Failure::Outcome(words::NO_MEMORY));
        }
        let host = self.host[usize::from(memory != words::PINNED)];
        // SAFETY: the memory is this long, and nothing else refers to it.
        let content_of = || unsafe { core::slice::from_raw_parts_mut(host, bytes as usize / 4) };
        let (device, content, bytes) = (self.device, content as u32, bytes as usize);
        fill(content_of(), content);
        let to_device = || call!(cuMemcpyHtoD_v2(device, host.cast(), bytes));
        let from_device = || call!(cuMemcpyDtoH_v2(host.cast(), device, bytes));
        let taken = if direction == words::TO_DEVICE {
            let taken = timed(clock, || (0..count).try_for_each(|_| to_device()))?;
            call!(cuCtxSynchronize())?;
            fill(content_of(), !content);
            from_device()?;
            taken
        } else {
            to_device()?;
            call!(cuCtxSynchronize())?;
            fill(content_of(), !content);
            timed(clock, || (0..count).try_for_each(|_| from_device()))?
        };
        if is_filled(content_of(), content) { Ok(taken) } else { Err(Failure::Outcome(words::WRONG)) }
    }
}

/// Content that differs from word to word and from number to number.
fn word(place: usize, content: u32) -> u32 {
    (place as u32).wrapping_mul(0x9e37_79b9) ^ content
}

fn fill(memory: &mut [u32], content: u32) {
    for (place, at) in memory.iter_mut().enumerate() {
        *at = word(place, content);
    }
}

fn is_filled(memory: &[u32], content: u32) -> bool {
    memory.iter().enumerate().fold(0, |differs, (place, at)| differs | (*at ^ word(place, content))) == 0
}

/// Times work by a clock that sysdyno reads, too, in the same way.
fn timed(clock: u64, work: impl FnOnce() -> Result<(), Failure>) -> Result<Taken, Failure> {
    let preempted = preemptions();
    let start = now(clock);
    work()?;
    let ticks = now(clock) - start;
    Ok(Taken { ticks, preempted: preemptions() - preempted })
}

fn now(clock: u64) -> u64 {
    if clock == words::COUNTER {
        return counter();
    }
    let mut time = [0; 2];
    // SAFETY: the memory holds a timespec.
    unsafe { clock_gettime(CLOCK_MONOTONIC_RAW, &mut time) };
    (time[0] * 1_000_000_000 + time[1]) as u64
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: as `stamp` of `sys::arch`.
    unsafe { asm!("rdtscp", "lfence", out("eax") low, out("edx") high, out("ecx") _, options(nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: as `stamp` of `sys::arch`.
    unsafe { asm!("isb", "mrs {ticks}, cntvct_el0", "isb", ticks = out(reg) ticks, options(nostack)) };
    ticks
}

/// How often the kernel has taken the CPU from this thread.
fn preemptions() -> u64 {
    let mut usage = [0; 18];
    // SAFETY: the memory holds a rusage, whose last number this is.
    unsafe { getrusage(RUSAGE_THREAD, &mut usage) };
    usage[17] as u64
}

/// The answer to a request.
fn answer(request: &Request, work: &mut Option<Work>) -> Answer {
    let mut answer: Answer = [0; 16];
    let arguments = [request[1], request[2], request[3], request[4], request[5], request[6]];
    let taken = match (request[0], work) {
        (words::DESCRIBE, _) => call!(cuInit(0)).and_then(|()| describe(&mut answer)).map(|()| None),
        (words::PREPARE, work) => Work::prepare(request[1]).map(|made| {
            *work = Some(made);
            None
        }),
        (words::LAUNCH, Some(work)) if !work.function.is_null() => work.launch(request[2], false, request[1]).map(Some),
        (words::LAUNCH_WAIT, Some(work)) if !work.function.is_null() => {
            work.launch(request[2], true, request[1]).map(Some)
        }
        (words::COPY, Some(work)) => work.copy(arguments).map(Some),
        _ => Err(Failure::Outcome(words::NO_MEMORY)),
    };
    match taken {
        Ok(None) => {}
        Ok(Some(taken)) => (answer[1], answer[2]) = (taken.ticks, taken.preempted),
        Err(Failure::Outcome(outcome)) => answer = [outcome, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        Err(Failure::Refused(place, error)) => {
            answer = [words::REFUSED, place as u64, error as u64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            name_error(error, &mut answer);
        }
    }
    answer
}

/// The name of an error into an answer, cut at its end.
fn name_error(error: c_int, answer: &mut Answer) {
    let mut name = null();
    // SAFETY: the driver writes the address of a static string, or nothing.
    if unsafe { cuGetErrorName(error, &mut name) } != 0 || name.is_null() {
        return;
    }
    let room = (answer.len() - words::NAME) * 8 - 1;
    let into = (&raw mut answer[words::NAME]).cast::<c_char>();
    for place in 0..room {
        // SAFETY: the name ends with zero, behind which nothing is read, and the answer has room.
        unsafe {
            match name.add(place).read() {
                0 => break,
                letter => into.add(place).write(letter),
            }
        }
    }
}

/// Answers requests from file 0 there, until it ends.
extern "C" fn serve(_: c_int, _: *const c_void, _: *const c_void) -> c_int {
    // SAFETY: numbers only.
    unsafe { prctl(PR_SET_PDEATHSIG, SIGKILL as c_long, 0, 0, 0) };
    let mut work = None;
    loop {
        let mut request: Request = [0; 8];
        let length = size_of_val(&request);
        // SAFETY: the memory is this long. A socket for whole messages gives one at a time.
        if unsafe { read(0, (&raw mut request).cast(), length) } != length as isize {
            break;
        }
        let answer = answer(&request, &mut work);
        let length = size_of_val(&answer);
        // SAFETY: the memory is this long.
        if unsafe { write(0, (&raw const answer).cast(), length) } != length as isize {
            break;
        }
    }
    // The kernel takes the memory and the contexts back. Handlers of the driver could hang.
    // SAFETY: ends this process.
    unsafe { _exit(0) }
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends this process.
    unsafe { _exit(101) }
}
