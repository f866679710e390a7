//! x86_64: the pieces that [placed loops](crate::sys::placed) are composed of.
//!
//! Registers: RBX the [`Control`](crate::sys::placed::Control), R12 the operation that is next, R13 and R14 the state of the work, R15 its
//! data, RBP the wrong answers. Everything else is scratch. A piece refers to nothing outside itself.

pieces! {
    Entry:
        "push rbx" "push rbp" "push r12" "push r13" "push r14" "push r15" "sub rsp, 8"
        "mov rbx, rdi" "mov r15, [rbx + 24]" "mov r13, [rbx + 40]" "mov r14, [rbx + 48]" "xor ebp, ebp";
    Top:
        "lea r12, [rbx + 64]";
    Call:
        "cmp qword ptr [rbx + 8], 0" "jne 9f"
        "mov rax, [r12]" "mov rdi, [r12 + 8]" "mov rsi, [r12 + 16]" "mov rdx, [r12 + 24]" "mov r10, [r12 + 32]"
        "mov r8, [r12 + 40]" "mov r9, [r12 + 48]"
        "syscall"
        "xor rax, [r12 + 56]" "or rbp, rax"
        "9:" "add r12, 72";
    Function:
        "cmp qword ptr [rbx + 8], 0" "jne 9f"
        "mov rdi, [r12 + 8]"
        "call qword ptr [r12]"
        "xor rax, [r12 + 56]" "or rbp, rax"
        "9:" "add r12, 72";
    Wake:
        "cmp qword ptr [rbx + 8], 0" "jne 9f"
        "mov rax, [r12 + 64]" "mov qword ptr [rax], 1"
        "mov rax, [r12]" "mov rdi, [r12 + 8]" "mov rsi, [r12 + 16]" "mov rdx, [r12 + 24]" "mov r10, [r12 + 32]"
        "syscall"
        "sar rax, 63" "or rbp, rax"
        "9:" "add r12, 72";
    Wait:
        "cmp qword ptr [rbx + 8], 0" "jne 9f"
        "1:" "mov rax, [r12 + 64]" "cmp qword ptr [rax], 0" "jne 2f"
        "mov rax, [r12]" "mov rdi, [r12 + 8]" "mov rsi, [r12 + 16]" "mov rdx, [r12 + 24]" "mov r10, [r12 + 32]"
        "syscall"
        "test rax, rax" "jns 1b" "cmp rax, -11" "je 1b" "cmp rax, -4" "je 1b"
        "or rbp, rax" "jmp 9f"
        "2:" "mov qword ptr [rax], 0"
        "9:" "add r12, 72";
    Ring:
        "cmp qword ptr [rbx + 8], 0" "jne 9f"
        "mov r8, [r12 + 64]" "mov rdx, [r8]" "mov esi, [rdx]" "mov edi, [r12 + 16]" "pxor xmm0, xmm0"
        "1:" "mov eax, esi" "and eax, [r8 + 8]" "shl rax, 6" "add rax, [r8 + 16]"
        "movups [rax], xmm0" "movups [rax + 16], xmm0" "movups [rax + 32], xmm0" "movups [rax + 48], xmm0"
        "inc esi" "dec edi" "jnz 1b" "mov [rdx], esi"
        "mov rax, [r12]" "mov rdi, [r12 + 8]" "mov rsi, [r12 + 16]" "mov rdx, [r12 + 24]" "mov r10, [r12 + 32]"
        "mov r8, [r12 + 40]" "mov r9, [r12 + 48]"
        "syscall"
        "xor rax, [r12 + 56]" "or rbp, rax"
        "mov r8, [r12 + 64]" "mov rdx, [r8 + 24]" "mov esi, [rdx]" "mov rax, [r8 + 32]" "mov edi, [rax]"
        "mov eax, edi" "sub eax, esi" "xor rax, [r12 + 16]" "or rbp, rax"
        "2:" "cmp esi, edi" "je 3f" "mov eax, esi" "and eax, [r8 + 40]" "shl rax, 4" "add rax, [r8 + 48]"
        "movsxd rax, dword ptr [rax + 8]" "or rbp, rax" "inc esi" "jmp 2b"
        "3:" "mov [rdx], esi"
        "9:" "add r12, 72";
    Stop:
        "mov rax, [rbx + 32]" "mov rax, [rax]" "or rax, rbp" "jz 6f" "jmp qword ptr [rbx + 16]" "6:";
    Count:
        "dec qword ptr [rbx]";
    Exit:
        "mov [rbx + 40], r13" "mov [rbx + 48], r14" "mov [rbx + 56], rbp"
        "add rsp, 8" "pop r15" "pop r14" "pop r13" "pop r12" "pop rbp" "pop rbx" "ret";
    // Work, from here to the end. Each piece begins with a number of the data and adds its result, so that pieces overlap. The lowest
    // five bits of a number decide branches and turns.
    Mix:
        "mov eax, [r15 + r13 * 4]" "mov rcx, rax" "shr rcx, 7" "xor rax, rcx" "lea rcx, [rax + rax * 4]" "imul rdx, rcx, 0x2545f491"
        "shr rdx, 32" "add r14, rdx";
    RareBranch:
        "inc r13d" "and r13d, 1023" "mov eax, [r15 + r13 * 4]" "add r14, rax" "test eax, 1" "jz 2f" "ror rax, 5" "xor r14, rax" "2:";
    EitherOr:
        "inc r13d" "and r13d, 1023" "mov eax, [r15 + r13 * 4]" "test eax, 2" "jnz 3f" "lea rcx, [rax + rax * 2]" "sub rcx, 7"
        "jmp 4f" "3:" "mov rcx, rax" "not rcx" "4:" "add r14, rcx";
    Leaf:
        "mov edi, [r15 + r13 * 4]" "call 5f" "add r14, rax" "jmp 6f" "5:" "mov rax, rdi" "shl rax, 3" "sub rax, rdi" "inc rax" "ret" "6:";
    FourTurns:
        "mov ecx, 4" "mov eax, [r15 + r13 * 4]" "1:" "lea rax, [rax + rax * 2 + 1]" "dec ecx" "jnz 1b" "add r14, rax";
    StoreAndLoad:
        "mov eax, [r15 + r13 * 4]" "mov [r15 + 4096], rax" "mov rcx, [r15 + 4104]" "add rcx, rax" "mov [r15 + 4104], rcx";
    TwoLevels:
        "mov edi, [r15 + r13 * 4]" "call 1f" "add r14, rax" "jmp 3f" "1:" "push rdi" "inc rdi" "call 2f" "pop rdi" "add rax, rdi" "ret"
        "2:" "lea rax, [rdi + rdi * 8]" "ror rax, 11" "ret" "3:";
    SomeTurns:
        "inc r13d" "and r13d, 1023" "mov ecx, [r15 + r13 * 4]" "mov eax, ecx" "and ecx, 28" "shr ecx, 2" "inc ecx"
        "1:" "imul rax, rax, 16777619" "dec ecx" "jnz 1b" "add r14, rax";
    ThreeLoads:
        "mov eax, [r15 + r13 * 4]" "shr eax, 8" "and eax, 1023" "mov eax, [r15 + rax * 4]" "shr eax, 8" "and eax, 1023"
        "mov eax, [r15 + rax * 4]" "add r14, rax";
    Hash:
        "lea rdi, [r15 + r13 * 4]" "mov eax, 0x811c9dc5" "mov ecx, 8"
        "1:" "movzx edx, byte ptr [rdi]" "xor eax, edx" "imul eax, eax, 16777619" "inc rdi" "dec ecx" "jnz 1b" "add r14, rax";
    Search:
        "mov eax, [r15 + r13 * 4]" "mov ecx, 1"
        "1:" "xor edx, edx" "cmp [r15 + rcx * 4], eax" "setb dl" "lea ecx, [rdx + rcx * 2]" "cmp ecx, 32" "jb 1b" "add r14, rcx";
}

/// A branch back to the beginning of a loop, `distance` bytes before it, unless the count before it came to zero.
pub fn branch_back(distance: usize) -> Vec<u8> {
    // JNZ with a displacement of 32 bits, which counts from the end of its six bytes.
    let displacement = -(distance as i32) - 6;
    [[0x0f, 0x85].as_slice(), &displacement.to_le_bytes()].concat()
}

/// Code that does nothing, for the bytes between pieces.
pub const NOTHING: &[u8] = &[0x90];

/// Lets the processor see new code: nothing to do on this architecture.
pub fn see_new_code(_code: &[u8]) {}
