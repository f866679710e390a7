//! System-call filters (seccomp) that make calls longer by a known part.
#![allow(unsafe_code, reason = "the kernel takes a filter as a pointer")]

/// Installs a filter of `instructions` loads and a final permission on the calling thread. Loads of an argument keep the kernel
/// from remembering the answer by the number of the call.
pub fn install(instructions: usize) {
    let load = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 16 };
    let allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    let mut program = vec![load; instructions];
    program.push(allow);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the first call only gives up privileges of this thread. The second copies the program, which outlives it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}
