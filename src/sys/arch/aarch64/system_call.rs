//! aarch64: system calls, one and many, and the ones that make tasks.
//!
//! Sources: Arm Architecture Reference Manual (SVC); Linux Documentation/arch/arm64.

use std::arch::asm;

use crate::sys::arch::{ChildTask, multiply_chain};

/// Makes a system call with up to three arguments; the answer is the kernel's, negative for an error number. The instruction begins a
/// line of code, like the return to it.
///
/// # Safety
///
/// What the call does with its arguments must be sound: pointers valid for what the kernel reads and writes through them.
#[inline(always)]
pub unsafe fn system_call(number: i64, arguments: [i64; 3]) -> i64 {
    let answer: i64;
    // SAFETY: SVC 0 takes the number in X8 and returns in X0; Linux keeps all other registers.
    unsafe {
        asm!(".p2align 6", "svc 0", in("x8") number, inlateout("x0") arguments[0] => answer, in("x1") arguments[1],
            in("x2") arguments[2], options(nostack));
    };
    answer
}

/// Makes a system call with four arguments; see [`system_call`].
///
/// # Safety
///
/// As for [`system_call`].
#[inline(always)]
pub unsafe fn system_call_of_four(number: i64, arguments: [i64; 4]) -> i64 {
    let answer: i64;
    // SAFETY: as above; the kernel takes the fourth argument from X3.
    unsafe {
        asm!(".p2align 6", "svc 0", in("x8") number, inlateout("x0") arguments[0] => answer, in("x1") arguments[1],
            in("x2") arguments[2], in("x3") arguments[3], options(nostack));
    };
    answer
}

/// Makes a child process with clone(2) and the given flags; see the x86_64 file.
///
/// # Safety
///
/// The pointers in `task` must stay valid until the child has ended or executed another image. With CLONE_VM the child
/// shares this memory and needs CLONE_VFORK, so that the parent waits for it.
#[inline(always)]
pub unsafe fn clone_child(flags: i64, task: &ChildTask) -> i64 {
    let answer: i64;
    // SAFETY: the child begins behind the system call with a copy of all registers but X0, writes at most the stamp, and ends
    // in execve(2) or exit_group(2): it never touches the stack.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 7f",
            "cbz x12, 2f",
            "isb",
            "mrs x9, cntvct_el0",
            "str x9, [x12]",
            "2:",
            "cbz x13, 3f",
            "mov x8, #101",
            "mov x0, x13",
            "mov x1, xzr",
            "svc 0",
            "3:",
            "cbz x14, 4f",
            "mov x8, #221",
            "ldp x0, x1, [x14]",
            "ldr x2, [x14, #16]",
            "svc 0",
            "mov x15, #127",
            "4:",
            "mov x0, x15",
            "mov x8, #94",
            "svc 0",
            "brk #1",
            "7:",
            in("x8") libc::SYS_clone,
            inlateout("x0") flags => answer,
            in("x1") 0_i64,
            in("x2") 0_i64,
            in("x3") 0_i64,
            in("x4") 0_i64,
            in("x12") task.stamp,
            in("x13") task.nap,
            in("x14") task.image,
            in("x15") i64::from(task.status),
            out("x9") _,
            options(nostack),
        );
    }
    answer
}

/// Makes a thread with clone(2) or clone3(2); see the x86_64 file.
///
/// # Safety
///
/// The arguments must ask for a thread (CLONE_VM, CLONE_THREAD) with a separate stack, on which nothing else runs. The end of the
/// stack must be aligned to 16 bytes. The stack, the words that the arguments name, and `stamp` must stay valid until the thread
/// has ended.
#[inline(always)]
pub unsafe fn clone_thread(number: i64, arguments: [i64; 5], stamp: *mut i64, spin: u64) -> i64 {
    let answer: i64;
    // SAFETY: the thread begins behind the system call with a copy of all registers but X0 and SP. It writes the stamp, calls
    // a function that needs no thread-local storage, and ends in exit(2); its link register is its own.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 7f",
            "cbz x12, 2f",
            "isb",
            "mrs x9, cntvct_el0",
            "str x9, [x12]",
            "2:",
            "cbz x13, 3f",
            "mov x0, x13",
            "bl {chain}",
            "3:",
            "mov x8, #93",
            "mov x0, xzr",
            "svc 0",
            "brk #1",
            "7:",
            chain = sym multiply_chain,
            in("x8") number,
            inlateout("x0") arguments[0] => answer,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x12") stamp,
            in("x13") spin,
            out("x9") _,
            options(nostack),
        );
    }
    answer
}

/// Length of the instruction by which [`write_one`] writes.
pub const WRITE_LENGTH: u64 = 4;

/// Writes a byte by one instruction of [`WRITE_LENGTH`] bytes.
///
/// # Safety
///
/// The address must be valid for it, or a handler of the signal for the refused access must go on after the instruction.
#[inline(always)]
pub unsafe fn write_one(address: *mut u8) {
    // SAFETY: by the contract of this function.
    unsafe { asm!("strb wzr, [{0}]", in(reg) address, options(nostack, preserves_flags)) };
}

/// The program counter in the context of a signal handler.
pub fn program_counter(context: &mut libc::ucontext_t) -> &mut u64 {
    &mut context.uc_mcontext.pc
}
