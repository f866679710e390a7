//! x86_64: the time-stamp counter, chains of known latency, loops, procedure calls.
//!
//! Sources: Intel SDM volume 2 (RDTSC, RDTSCP, LFENCE, CPUID), AMD APM volume 3; latencies from Agner Fog's tables and
//! uops.info.

pub mod arithmetic;
pub mod branches;
pub mod pieces;
pub mod stream;
pub mod system_call;

use std::arch::{asm, naked_asm};

use super::{ClockReader, Reading, Stamp, reader};

/// Name of the counter in logs.
pub const COUNTER: &str = "tsc";

/// Integer arguments that the calling convention passes in registers (System V AMD64 ABI, section 3.2.3).
pub const REGISTER_ARGUMENTS: usize = 6;

/// Reads the counter and the CPU number, ordered: earlier instructions have executed, later ones have not begun.
#[inline(always)]
pub fn stamp() -> Stamp {
    let (low, high, aux): (u32, u32, u32);
    // SAFETY: RDTSCP writes EAX, EDX, ECX only; it waits until all earlier instructions have executed and earlier loads
    // are visible. LFENCE lets no later instruction begin before it completes. No memory is touched. The asm block has no
    // `nomem`, so the compiler moves no memory access across it.
    unsafe { asm!("rdtscp", "lfence", out("eax") low, out("edx") high, out("ecx") aux, options(nostack)) };
    // Linux keeps (node << 12) | cpu in TSC_AUX (arch/x86/include/asm/segment.h, VDSO_CPUNODE_BITS).
    Stamp { ticks: join(low, high), cpu: aux & 0xfff }
}

/// A stamp that begins an interval: one instruction reads both numbers.
pub use self::stamp as opening;

#[inline(always)]
fn join(low: u32, high: u32) -> i64 {
    (u64::from(high) << 32 | u64::from(low)) as i64
}

/// True when the process may read the counter: a process can forbid it to itself and its children (prctl PR_SET_TSC),
/// and every reading would then kill it.
pub fn counter_permitted() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: PR_GET_TSC stores one int through the pointer, which is valid for it; the other arguments are unused.
    let answer = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode, 0, 0, 0) };
    // A kernel without the call has no way to forbid it either.
    answer != 0 || mode == libc::PR_TSC_ENABLE
}

/// Code of the smallest program: exit_group(42).
pub const EXIT_CODE: &[u8] = &[0xbf, 42, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05];

/// Number of this architecture in an ELF header (EM_X86_64).
pub const ELF_MACHINE: u16 = 62;

/// Removes the line that holds `place` from every cache level. Later loads wait for that only after [`fence`].
#[inline(always)]
pub fn flush_line<T>(place: &T) {
    // SAFETY: CLFLUSH of an address that is valid to read changes no data.
    unsafe { asm!("clflush [{place}]", place = in(reg) std::ptr::from_ref(place), options(nostack)) };
}

/// Lets later loads wait for earlier flushes.
#[inline(always)]
pub fn fence() {
    // SAFETY: MFENCE only orders.
    unsafe { asm!("mfence", options(nostack)) };
}

/// Lets no later instruction begin before all earlier ones have completed.
#[inline(always)]
pub fn serialise() {
    // SAFETY: LFENCE only orders.
    unsafe { asm!("lfence", options(nostack)) };
}

/// The chain of the serialisation self-test: 100 dependent multiplies, 300 cycles, no memory.
#[inline(always)]
pub fn self_test_chain() {
    // SAFETY: works on two registers that the compiler hands over and takes back.
    unsafe {
        asm!(".rept 100", "imul {value:e}, {factor:e}", ".endr", value = inout(reg) 3 => _, factor = in(reg) 5, options(nostack));
    };
}

/// A chain of dependent instructions. The loop counter is decremented by a register because newer cores execute `dec` and additions
/// of small constants in the renamer, in no time.
macro_rules! chain {
    ($(#[$about:meta])* $name:ident, $($line:literal),+) => {
        $(#[$about])*
        // SAFETY: a naked function that follows the C calling convention: it reads RDI, overwrites RAX, RCX, RDX and RSI
        // (all scratch registers), touches no memory and returns with the stack as it found it.
        #[unsafe(naked)]
        pub extern "C" fn $name(iterations: u64) {
            naked_asm!(
                "mov eax, 3",
                "mov ecx, 5",
                "mov esi, 1",
                "test rdi, rdi",
                "jz 3f",
                ".p2align 6",
                "2:",
                $($line,)+
                "sub rdi, rsi",
                "jnz 2b",
                "3:",
                "ret",
            )
        }
    };
}

chain!(
    /// 20 dependent multiplies per iteration: 60 cycles where a 32-bit IMUL takes 3 (Intel since Nehalem, AMD since Zen).
    multiply_chain,
    ".rept 20",
    "imul eax, ecx",
    ".endr"
);
chain!(
    /// 60 dependent register additions per iteration: 60 cycles on every core; both operands are registers, because
    /// additions of constants may take no time (Intel since Golden Cove).
    add_chain,
    ".rept 60",
    "add rax, rcx",
    ".endr"
);
chain!(
    /// 10 multiplies and 30 additions in one dependent chain: 60 cycles.
    mixed_chain,
    ".rept 10",
    "imul eax, ecx",
    "add rax, rcx",
    "add rax, rcx",
    "add rax, rcx",
    ".endr"
);

/// Follows a chain of addresses from `place`: 64 dependent loads per turn, the simplest way of addressing, because others
/// cost a cycle more on several cores. Returns where the walk stopped. `MULTIPLIES` injects multiplications by one of the
/// loaded address, for tests.
///
/// # Safety
///
/// `place` and every address that is reached from it must be valid to read an address from.
// SAFETY: a naked function that follows the C calling convention: it reads RDI and RSI, overwrites RAX, RCX, RDX and RSI
// (scratch registers), reads only what the caller promised, and returns with the stack as it found it.
#[unsafe(naked)]
pub unsafe extern "C" fn chase<const MULTIPLIES: usize>(place: *const usize, turns: u64) -> *const usize {
    naked_asm!(
        "mov rax, rdi",
        "mov ecx, 1",
        "mov edx, 1",
        "test rsi, rsi",
        "jz 3f",
        ".p2align 6",
        "2:",
        ".rept 64",
        "mov rax, qword ptr [rax]",
        ".rept {multiplies}",
        "imul rax, rcx",
        ".endr",
        ".endr",
        "sub rsi, rdx",
        "jnz 2b",
        "3:",
        "ret",
        multiplies = const MULTIPLIES,
    )
}

/// The loop that shows a neighbour on the core. On most designs the threads of a core share one taken branch in a cycle. An AMD Zen
/// 5 has a decoder for each thread instead, and one thread alone has both. With any other thread awake on the core, long
/// instructions are decoded at half of the speed. This was measured on two CPUs of a guest that were on one core. With every kind
/// of work on the other CPU, decoding took 1.6 to 2.0 times as long, and branches 1.02 to 1.17 times.
pub fn core_loop() -> super::LoopKernel {
    let cpuid = raw_cpuid::CpuId::new();
    let is_amd = cpuid.get_vendor_info().is_some_and(|vendor| vendor.as_str() == "AuthenticAMD");
    let family = cpuid.get_feature_info().map_or(0, |features| features.family_id());
    if is_amd && family == ZEN_5 { decode_loop } else { register_loop::<0, 0> }
}

/// CPUID family of AMD Zen 5.
const ZEN_5: u8 = 26;

/// Sixteen instructions of six bytes in two cycles: as many as both decoders of a core deliver. Each iteration counts as two, so
/// that a counted iteration takes a cycle.
// SAFETY: a naked function that follows the C calling convention: it reads and overwrites RDI, touches no memory and returns with the
// stack as it found it.
#[unsafe(naked)]
extern "C" fn decode_loop(iterations: u64) {
    naked_asm!(
        "add rdi, 1",
        "and rdi, -2",
        "jz 3f",
        ".p2align 6",
        "2:",
        ".rept 15",
        // A no-operation of six bytes.
        ".byte 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00",
        ".endr",
        "sub rdi, 2",
        "jnz 2b",
        "3:",
        "ret",
    )
}

/// The shortest loop: one register subtraction and one taken branch, starting `OFFSET` bytes into a 64-byte block. It has `ADDS`
/// more dependent additions on a separate chain.
// SAFETY: a naked function that follows the C calling convention: it reads RDI, overwrites RAX, RCX and RSI (scratch
// registers), touches no memory and returns with the stack as it found it.
#[unsafe(naked)]
pub extern "C" fn register_loop<const OFFSET: usize, const ADDS: usize>(iterations: u64) {
    naked_asm!(
        "mov eax, 3",
        "mov ecx, 5",
        "mov esi, 1",
        "test rdi, rdi",
        "jz 3f",
        ".p2align 6",
        ".skip {offset}, 0x90",
        "2:",
        ".rept {adds}",
        "add rax, rcx",
        ".endr",
        "sub rdi, rsi",
        "jnz 2b",
        "3:",
        "ret",
        offset = const OFFSET,
        adds = const ADDS,
    )
}

/// A loop whose counter and limit live in memory: increment, load, compare, as gcc emits `for (i = 0; i < n; i++)` without
/// optimisation.
// SAFETY: a naked function that follows the C calling convention: it reads RDI, overwrites RAX, uses 24 bytes below the
// stack pointer it was given and returns with the stack as it found it.
#[unsafe(naked)]
pub extern "C" fn memory_loop(iterations: u64) {
    naked_asm!(
        "sub rsp, 24",
        "mov qword ptr [rsp + 8], 0",
        "mov qword ptr [rsp], rdi",
        "test rdi, rdi",
        "jz 3f",
        ".p2align 6",
        "2:",
        "add qword ptr [rsp + 8], 1",
        "mov rax, qword ptr [rsp + 8]",
        "cmp rax, qword ptr [rsp]",
        "jl 2b",
        "3:",
        "add rsp, 24",
        "ret",
    )
}

/// `UNROLL` calls per iteration of a callee with `ARGS` integer arguments.
///
/// The caller moves each argument into its register; the seventh is pushed. With `SPILLED` the callee stores every
/// argument to its frame and loads it back, as unoptimised code does. With `CHAIN` each call takes its arguments from the
/// result of the one before and the callee multiplies the first argument by 1 (3 cycles), so that the calls form a chain;
/// without it the callee is a bare return and calls are independent. `MULTIPLIES` and `NOPS` inject known work into the
/// callee, for tests.
// SAFETY: a naked function that follows the C calling convention: RBX and R13 are saved and restored, everything else
// that it overwrites is scratch; every push has its pop; the callee uses at most 64 bytes of the red zone below the stack
// pointer, which signal handlers respect (System V AMD64 ABI, section 3.2.2).
#[unsafe(naked)]
pub extern "C" fn calls<
    const ARGS: usize,
    const SPILLED: usize,
    const CHAIN: usize,
    const UNROLL: usize,
    const MULTIPLIES: usize,
    const NOPS: usize,
>(
    iterations: u64,
) {
    naked_asm!(
        "push rbx",
        "push r13",
        "mov r13, rdi",
        "mov ebx, 7",
        "mov eax, 7",
        "mov esi, 1",
        "test r13, r13",
        "jz 5f",
        "jmp 2f",
        // The callee, at the start of a page, so that predictors and caches of code see the same addresses in every build.
        ".p2align 12",
        "4:",
        ".if {spilled}",
        ".if {args} > 0", "mov qword ptr [rsp - 8], rdi", ".endif",
        ".if {args} > 1", "mov qword ptr [rsp - 16], rsi", ".endif",
        ".if {args} > 2", "mov qword ptr [rsp - 24], rdx", ".endif",
        ".if {args} > 3", "mov qword ptr [rsp - 32], rcx", ".endif",
        ".if {args} > 4", "mov qword ptr [rsp - 40], r8", ".endif",
        ".if {args} > 5", "mov qword ptr [rsp - 48], r9", ".endif",
        ".if {args} > 6", "mov r10, qword ptr [rsp + 8]", "mov qword ptr [rsp - 56], r10", ".endif",
        ".if {args} > 0", "mov rdi, qword ptr [rsp - 8]", ".endif",
        ".if {args} > 1", "mov rsi, qword ptr [rsp - 16]", ".endif",
        ".if {args} > 2", "mov rdx, qword ptr [rsp - 24]", ".endif",
        ".if {args} > 3", "mov rcx, qword ptr [rsp - 32]", ".endif",
        ".if {args} > 4", "mov r8, qword ptr [rsp - 40]", ".endif",
        ".if {args} > 5", "mov r9, qword ptr [rsp - 48]", ".endif",
        ".if {args} > 6", "mov r10, qword ptr [rsp - 56]", ".endif",
        ".else",
        // A callee that keeps its arguments in registers still has to fetch the seventh.
        ".if {args} > 6", "mov r10, qword ptr [rsp + 8]", ".endif",
        ".endif",
        ".if {chain}",
        ".if {args} > 0", "imul rax, rdi, 1", ".else", "imul rax, rax, 1", ".endif",
        ".endif",
        ".rept {multiplies}", "imul rax, rax, 1", ".endr",
        ".rept {nops}", "nop", ".endr",
        "ret",
        // The caller.
        ".p2align 6",
        "2:",
        ".rept {unroll}",
        ".if {chain}",
        ".if {args} > 0", "mov rdi, rax", ".endif",
        ".if {args} > 1", "mov rsi, rax", ".endif",
        ".if {args} > 2", "mov rdx, rax", ".endif",
        ".if {args} > 3", "mov rcx, rax", ".endif",
        ".if {args} > 4", "mov r8, rax", ".endif",
        ".if {args} > 5", "mov r9, rax", ".endif",
        ".if {args} > 6", "push rax", ".endif",
        ".else",
        ".if {args} > 0", "mov rdi, rbx", ".endif",
        ".if {args} > 1", "mov rsi, rbx", ".endif",
        ".if {args} > 2", "mov rdx, rbx", ".endif",
        ".if {args} > 3", "mov rcx, rbx", ".endif",
        ".if {args} > 4", "mov r8, rbx", ".endif",
        ".if {args} > 5", "mov r9, rbx", ".endif",
        ".if {args} > 6", "push rbx", ".endif",
        ".endif",
        // A no-operation of two bytes: from call to call it is then 16 bytes instead of 14, at which 64 calls have another pace.
        ".if {args} == 3", ".byte 0x66, 0x90", ".endif",
        "call 4b",
        ".if {args} > 6", "add rsp, 8", ".endif",
        ".endr",
        "mov r11d, 1",
        "sub r13, r11",
        "jnz 2b",
        "5:",
        "pop r13",
        "pop rbx",
        "ret",
        args = const ARGS,
        spilled = const SPILLED,
        chain = const CHAIN,
        unroll = const UNROLL,
        multiplies = const MULTIPLIES,
        nops = const NOPS,
    )
}

struct Rdtsc;
impl Reading for Rdtsc {
    #[inline(always)]
    fn read() -> i64 {
        let (low, high): (u32, u32);
        // SAFETY: RDTSC writes EAX and EDX only; it is ordered with nothing.
        unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nostack)) };
        join(low, high)
    }
}

struct Rdtscp;
impl Reading for Rdtscp {
    #[inline(always)]
    fn read() -> i64 {
        let (low, high): (u32, u32);
        // SAFETY: RDTSCP writes EAX, EDX and ECX only; it waits for earlier instructions, later ones may begin before it.
        unsafe { asm!("rdtscp", out("eax") low, out("edx") high, out("ecx") _, options(nostack)) };
        join(low, high)
    }
}

struct LfenceRdtsc;
impl Reading for LfenceRdtsc {
    #[inline(always)]
    fn read() -> i64 {
        let (low, high): (u32, u32);
        // SAFETY: LFENCE completes only after all earlier instructions have; RDTSC writes EAX and EDX.
        unsafe { asm!("lfence", "rdtsc", out("eax") low, out("edx") high, options(nostack)) };
        join(low, high)
    }
}

/// Opens with LFENCE; RDTSC; LFENCE and closes with RDTSCP; LFENCE: nothing leaks in or out on either side.
struct Fenced;
impl Reading for Fenced {
    #[inline(always)]
    fn read() -> i64 {
        let (low, high): (u32, u32);
        // SAFETY: LFENCE on both sides of RDTSC, which writes EAX and EDX: all earlier instructions have completed, no
        // later one has begun.
        unsafe { asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack)) };
        join(low, high)
    }

    #[inline(always)]
    fn read_end() -> i64 {
        stamp().ticks
    }
}

/// This tool's own pair: RDTSCP; LFENCE at both ends.
struct Own;
impl Reading for Own {
    #[inline(always)]
    fn read() -> i64 {
        stamp().ticks
    }
}

/// Paoloni's form (Intel 324264-001): opens with CPUID; RDTSC, closes with RDTSCP; CPUID, so that both CPUIDs stand
/// outside the interval. CPUID serialises everything and always exits to a hypervisor.
struct CpuidRdtsc;
impl Reading for CpuidRdtsc {
    #[inline(always)]
    fn read() -> i64 {
        let (low, high): (u32, u32);
        // SAFETY: CPUID leaf 0 overwrites EAX, EBX, ECX and EDX; RBX is reserved by the compiler, so it is saved in a
        // register of the compiler's choice. RDTSC writes EAX and EDX.
        unsafe {
            asm!("mov {kept}, rbx", "xor eax, eax", "cpuid", "rdtsc", "mov rbx, {kept}",
                kept = out(reg) _, out("eax") low, out("edx") high, out("ecx") _, options(nostack));
        };
        join(low, high)
    }

    #[inline(always)]
    fn read_end() -> i64 {
        let (low, high): (u32, u32);
        // SAFETY: as above, with RDTSCP first; its result is kept in registers that CPUID does not touch.
        unsafe {
            asm!("rdtscp", "mov {low:e}, eax", "mov {high:e}, edx", "mov {kept}, rbx", "xor eax, eax", "cpuid", "mov rbx, {kept}",
                kept = out(reg) _, low = out(reg) low, high = out(reg) high,
                out("eax") _, out("edx") _, out("ecx") _, options(nostack));
        };
        join(low, high)
    }
}

/// The idioms of reading the time-stamp counter, weakest order first.
pub const COUNTER_READERS: [ClockReader; 6] = [
    reader!("rdtsc", Rdtsc, ticks true, order false, "RDTSC alone"),
    reader!("rdtscp", Rdtscp, ticks true, order false, "RDTSCP alone"),
    reader!("lfence_rdtsc", LfenceRdtsc, ticks true, order false, "LFENCE; RDTSC"),
    reader!("rdtscp_lfence", Own, ticks true, order true, "RDTSCP; LFENCE at both ends: the pair that times everything in this tool"),
    reader!("fenced", Fenced, ticks true, order true, "LFENCE; RDTSC; LFENCE … RDTSCP; LFENCE"),
    reader!("cpuid_rdtsc", CpuidRdtsc, ticks true, order true, "CPUID; RDTSC … RDTSCP; CPUID"),
];
