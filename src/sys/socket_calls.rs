//! System calls of sockets that no other machine or task sees, for [placed loops](super::placed).

use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::arch::{align_code, system_call, system_call_of_four};
use super::operation::Operation;
use super::system_call::close;

/// Bytes of an IPv4 address as the kernel writes it.
const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_in>();

/// The loopback address without a port: the kernel chooses one that is free.
static ANY_PORT: libc::sockaddr_in = libc::sockaddr_in {
    sin_family: libc::AF_INET as libc::sa_family_t,
    sin_port: 0,
    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
    sin_zero: [0; 8],
};

/// socket(2) of a kind: its descriptor, or a negative error number.
#[inline(always)]
fn open(family: i32, kind: i32) -> i64 {
    // SAFETY: no memory.
    unsafe { system_call(libc::SYS_socket, [i64::from(family), i64::from(kind | libc::SOCK_CLOEXEC), 0]) }
}

/// socket(2) of TCP and close(2).
#[inline(never)]
extern "C" fn open_and_close(_: *mut c_void) -> i64 {
    align_code();
    close(open(libc::AF_INET, libc::SOCK_STREAM))
}

/// socket(2) of UDP, bind(2) to a free port, and close(2).
#[inline(never)]
extern "C" fn open_bind_and_close(_: *mut c_void) -> i64 {
    align_code();
    let socket = open(libc::AF_INET, libc::SOCK_DGRAM);
    let address = &raw const ANY_PORT;
    // SAFETY: the kernel reads the address, which is static. A descriptor below zero is refused.
    let bound = unsafe { system_call(libc::SYS_bind, [socket, address as i64, ADDRESS_BYTES as i64]) };
    bound | close(socket)
}

/// socketpair(2) of two UNIX stream sockets, and close(2) of both.
#[inline(never)]
extern "C" fn open_and_close_pair(_: *mut c_void) -> i64 {
    align_code();
    let (family, kind) = (i64::from(libc::AF_UNIX), i64::from(libc::SOCK_STREAM | libc::SOCK_CLOEXEC));
    let mut pair = [-1_i32; 2];
    // SAFETY: the kernel writes two descriptors into the pair.
    let made = unsafe { system_call_of_four(libc::SYS_socketpair, [family, kind, 0, pair.as_mut_ptr() as i64]) };
    made | close(i64::from(pair[0])) | close(i64::from(pair[1]))
}

impl<'a> Operation<'a> {
    /// A function without an argument, which answers 0.
    fn of_nothing(function: extern "C" fn(*mut c_void) -> i64) -> Self {
        // SAFETY: the functions of this file do not use their argument.
        unsafe { Operation::function(function, std::ptr::null_mut(), 0) }
    }

    /// socket(2) of TCP and close(2). The answer is 0.
    pub fn open_socket_and_close() -> Self {
        Operation::of_nothing(open_and_close)
    }

    /// socket(2) of UDP, bind(2) to a free port of the loopback address, and close(2). The answer is 0.
    pub fn bind_socket_and_close() -> Self {
        Operation::of_nothing(open_bind_and_close)
    }

    /// socketpair(2) of UNIX stream sockets, and close(2) of both. The answer is 0.
    pub fn open_pair_and_close() -> Self {
        Operation::of_nothing(open_and_close_pair)
    }

    /// getsockname(2) of an IPv4 socket.
    pub fn own_address(of: BorrowedFd<'a>) -> Self {
        Operation::address(libc::SYS_getsockname, of)
    }

    /// getpeername(2) of a connected IPv4 socket.
    pub fn peer_address(of: BorrowedFd<'a>) -> Self {
        Operation::address(libc::SYS_getpeername, of)
    }

    fn address(number: i64, of: BorrowedFd<'a>) -> Self {
        const LENGTH: usize = ADDRESS_BYTES / size_of::<i64>();
        let mut words = [0; LENGTH + 1];
        words[LENGTH] = i64::from(ADDRESS_BYTES as libc::socklen_t);
        let arguments = [i64::from(of.as_raw_fd()), 0, 0, 0, 0, 0];
        // SAFETY: the kernel writes an address of that length into the memory, and its length behind it. The descriptor is open for the
        // lifetime.
        unsafe { Operation::call(number, arguments, 0).with_words(1, &words).pointing(2, LENGTH) }
    }

    /// setsockopt(2) that sets an option of a socket (SO_REUSEADDR).
    pub fn set_option(of: BorrowedFd<'a>) -> Self {
        let bytes = size_of::<libc::c_int>() as i64;
        let arguments =
            [i64::from(of.as_raw_fd()), i64::from(libc::SOL_SOCKET), i64::from(libc::SO_REUSEADDR), 0, bytes, 0];
        // SAFETY: the kernel reads a number from the memory. The descriptor is open for the lifetime.
        unsafe { Operation::call(libc::SYS_setsockopt, arguments, 0).with_words(3, &[1]) }
    }

    /// listen(2) on a socket that listens.
    pub fn listen_again(on: BorrowedFd<'a>) -> Self {
        const BACKLOG: i64 = 128;
        // SAFETY: no memory. The descriptor is open for the lifetime.
        unsafe { Operation::call(libc::SYS_listen, [i64::from(on.as_raw_fd()), BACKLOG, 0, 0, 0, 0], 0) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn sockets_that_are_made_leave_no_descriptor_open() {
        let open = || std::fs::File::open("/dev/null").unwrap().as_raw_fd();
        let before = open();
        let made =
            [Operation::open_socket_and_close(), Operation::bind_socket_and_close(), Operation::open_pair_and_close()];
        for operation in made {
            assert!((0..50).all(|_| Operation::work(std::slice::from_ref(&operation))));
        }
        assert!(open() < before + 25);
    }

    #[test]
    fn the_kernel_writes_the_addresses() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(other.local_addr().unwrap()).unwrap();
        let address = |operation: Operation<'_>| {
            // The second call has the length that the first one wrote.
            assert!(Operation::work(&[operation.clone(), operation.clone()]));
            let bytes = operation.memory();
            let port = u16::from_be_bytes([bytes[2], bytes[3]]);
            SocketAddr::from(([bytes[4], bytes[5], bytes[6], bytes[7]], port))
        };
        assert_eq!(address(Operation::own_address(socket.as_fd())), socket.local_addr().unwrap());
        assert_eq!(address(Operation::peer_address(socket.as_fd())), other.local_addr().unwrap());
        assert!(!Operation::work(&[Operation::peer_address(other.as_fd())]), "it is not connected");
    }
}
