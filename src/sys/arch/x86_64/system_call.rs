//! x86_64: system calls, one and many, and the ones that make tasks.
//!
//! Sources: Intel SDM volume 2 (SYSCALL); System V AMD64 ABI, A.2.1.

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
    // SAFETY: SYSCALL overwrites RCX and R11 and returns in RAX (System V AMD64 ABI, A.2.1); memory may be read and written,
    // so the block has neither `nomem` nor `readonly`.
    unsafe {
        asm!(".p2align 6", "syscall", inlateout("rax") number => answer, in("rdi") arguments[0], in("rsi") arguments[1],
            in("rdx") arguments[2], lateout("rcx") _, lateout("r11") _, options(nostack));
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
    // SAFETY: as above; the kernel takes the fourth argument from R10.
    unsafe {
        asm!(".p2align 6", "syscall", inlateout("rax") number => answer, in("rdi") arguments[0], in("rsi") arguments[1],
            in("rdx") arguments[2], in("r10") arguments[3], lateout("rcx") _, lateout("r11") _, options(nostack));
    };
    answer
}

/// Makes a child process with clone(2) and the given flags. The child does what `task` says with nothing but registers and
/// system calls, and leaves with `task.status`; it never returns here. The parent gets the child's number, or a negative
/// error number.
///
/// # Safety
///
/// The pointers in `task` must stay valid until the child has ended or executed another image. With CLONE_VM the child
/// shares this memory and needs CLONE_VFORK, so that the parent waits for it.
#[inline(always)]
pub unsafe fn clone_child(flags: i64, task: &ChildTask) -> i64 {
    let answer: i64;
    // SAFETY: the child begins behind the system call with a copy of all registers (System V AMD64 ABI, A.2.1: only RAX, RCX
    // and R11 change), writes at most the stamp, and ends in execve(2) or exit_group(2): it never touches the stack.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 7f",
            "test r12, r12",
            "jz 2f",
            "rdtscp",
            "shl rdx, 32",
            "or rax, rdx",
            "mov qword ptr [r12], rax",
            "2:",
            "test r13, r13",
            "jz 3f",
            "mov eax, 35",
            "mov rdi, r13",
            "xor esi, esi",
            "syscall",
            "3:",
            "test r14, r14",
            "jz 4f",
            "mov eax, 59",
            "mov rdi, qword ptr [r14]",
            "mov rsi, qword ptr [r14 + 8]",
            "mov rdx, qword ptr [r14 + 16]",
            "syscall",
            "mov r15d, 127",
            "4:",
            "mov edi, r15d",
            "mov eax, 231",
            "syscall",
            "ud2",
            "7:",
            inlateout("rax") libc::SYS_clone => answer,
            in("rdi") flags,
            in("rsi") 0,
            in("rdx") 0,
            in("r10") 0,
            in("r8") 0,
            in("r12") task.stamp,
            in("r13") task.nap,
            in("r14") task.image,
            in("r15") i64::from(task.status),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// Makes a thread of this process with the system call `number`, which is clone(2) or clone3(2), and its arguments. The
/// thread stores a reading of the counter at `stamp` unless that is null, runs `spin` iterations of [`multiply_chain`], and
/// ends; it never returns here. The caller gets the thread's number, or a negative error number.
///
/// # Safety
///
/// The arguments must ask for a thread (CLONE_VM, CLONE_THREAD) with a separate stack, on which nothing else runs. The end of the
/// stack must be aligned to 16 bytes. The stack, the words that the arguments name, and `stamp` must stay valid until the thread
/// has ended.
#[inline(always)]
pub unsafe fn clone_thread(number: i64, arguments: [i64; 5], stamp: *mut i64, spin: u64) -> i64 {
    let answer: i64;
    // SAFETY: the thread begins behind the system call with a copy of all registers but RAX, RCX, R11 and RSP. It writes the
    // stamp and its own stack, calls a function that needs no thread-local storage, and ends in exit(2).
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 7f",
            "test r12, r12",
            "jz 2f",
            "rdtscp",
            "shl rdx, 32",
            "or rax, rdx",
            "mov qword ptr [r12], rax",
            "2:",
            "test r13, r13",
            "jz 3f",
            "mov rdi, r13",
            "call {chain}",
            "3:",
            "mov eax, 60",
            "xor edi, edi",
            "syscall",
            "ud2",
            "7:",
            chain = sym multiply_chain,
            inlateout("rax") number => answer,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r12") stamp,
            in("r13") spin,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// Length of the instruction by which [`write_one`] writes.
pub const WRITE_LENGTH: i64 = 3;

/// Writes a byte by one instruction of [`WRITE_LENGTH`] bytes.
///
/// # Safety
///
/// The address must be valid for it, or a handler of the signal for the refused access must go on after the instruction.
#[inline(always)]
pub unsafe fn write_one(address: *mut u8) {
    // SAFETY: by the contract of this function.
    unsafe { asm!("mov byte ptr [rdi], 1", in("rdi") address, options(nostack, preserves_flags)) };
}

/// The program counter in the context of a signal handler.
pub fn program_counter(context: &mut libc::ucontext_t) -> &mut i64 {
    &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
}
