//! NUMA: on which node memory lies, and asking for one.

use super::arena::Arena;

/// `MPOL_BIND`: pages come from the given nodes, or the allocation fails (set_mempolicy(2)).
const BIND: libc::c_int = 2;
/// `MPOL_F_NODE | MPOL_F_ADDR`: get_mempolicy(2) answers with the node of an address.
const NODE_OF_ADDRESS: libc::c_ulong = 1 | 2;
/// Bits of a node mask: more nodes than any kernel is built for (CONFIG_NODES_SHIFT of 10).
const MASK_BITS: usize = 1024;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// Asks that an arena that is not yet written get its pages from a node (mbind(2)).
pub fn bind(arena: &Arena, node: u32) -> std::io::Result<()> {
    let mut mask = [0 as libc::c_ulong; MASK_BITS / WORD_BITS];
    let word = mask.get_mut(node as usize / WORD_BITS).ok_or(std::io::ErrorKind::InvalidInput)?;
    *word = 1 << (node as usize % WORD_BITS);
    // SAFETY: the range is the arena's own mapping; the mask is valid for as many bits as are stated (the kernel counts one
    // more than it reads).
    let answer = unsafe {
        libc::syscall(libc::SYS_mbind, arena.address(), arena.bytes(), BIND, mask.as_ptr(), MASK_BITS + 1, 0)
    };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The node that holds the page of an arena at an offset (get_mempolicy(2)).
pub fn node_of(arena: &Arena, offset: usize) -> std::io::Result<u32> {
    let mut node: libc::c_int = -1;
    let address = arena.address() + offset.min(arena.bytes() - 1);
    let none = std::ptr::null::<libc::c_ulong>();
    // SAFETY: the pointer is valid for the one int that the kernel writes; no mask is asked for; the address is only looked up.
    let answer = unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut node, none, 0, address, NODE_OF_ADDRESS) };
    if answer == 0 { Ok(node as u32) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Pages;
    use super::*;

    #[test]
    fn pages_come_from_the_node_that_was_asked_for() {
        let mut free = Arena::map(1 << 20, Pages::Small).unwrap();
        free.populate();
        let Ok(node) = node_of(&free, 0) else { return };
        let mut bound = Arena::map(1 << 20, Pages::Small).unwrap();
        bind(&bound, node).unwrap();
        bound.populate();
        assert_eq!(node_of(&bound, (1 << 20) - 1).unwrap(), node);
        assert!(bind(&bound, 1023).is_err() && bind(&bound, 5000).is_err());
    }
}
