//! Files as a measuring program needs them: read past the page cache or only from it, and asked where their bytes lie.
//!
//! What is in the cache, and how it is dropped, stands in [`super::fault`].

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::stat::{fstat, major, minor};

use super::memory::page_size;
use super::process;

/// Flags with which a file of an expected name is opened: a symbolic link in its place is an error, and a FIFO does not block.
pub const REGULAR_ONLY: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// Opens a file to read it, without waiting for the writer of a pipe.
pub fn open_at_once(place: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(place)
}

/// The bytes of a regular file, at most `most` of them. A symbolic link is an error.
pub fn read_regular(place: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_open(File::options().read(true).custom_flags(REGULAR_ONLY).open(place)?, most)
}

/// The same of a file that this user made. One of another user is an error.
pub fn read_own(place: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(REGULAR_ONLY).open(place)?;
    match file.metadata()?.uid() {
        owner if owner == process::effective_user() => read_open(file, most),
        owner => Err(io::Error::new(ErrorKind::PermissionDenied, format!("it belongs to user {owner}"))),
    }
}

/// The bytes of an open file, which has to be a regular one with at most `most` bytes. A pipe or a device could be read for ever.
pub fn read_open(file: File, most: u64) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if found.len() > most {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it is larger than {most} bytes")));
    }
    let mut bytes = Vec::with_capacity(found.len() as usize);
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What O_DIRECT asks of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Of the buffer, in bytes.
    pub memory: usize,
    /// Of offset and length, in bytes.
    pub offset: usize,
}

/// Whether a file can be read past the page cache, by statx(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direct {
    /// Yes, in blocks of this alignment.
    Aligned(Alignment),
    /// No.
    Refused,
    /// The kernel (before 6.1) or the file system does not say.
    Unsaid,
}

/// Asks the kernel how a file must be read past the cache.
pub fn direct(file: &File) -> Direct {
    // SAFETY: all zeros is a valid value of this structure of numbers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: the path is an empty C string, so the descriptor itself is asked; the kernel writes one structure.
    let answer = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, libc::STATX_DIOALIGN, &raw mut found) };
    if answer != 0 || found.stx_mask & libc::STATX_DIOALIGN == 0 {
        return Direct::Unsaid;
    }
    let alignment = Alignment { memory: found.stx_dio_mem_align as usize, offset: found.stx_dio_offset_align as usize };
    if alignment.memory == 0 || alignment.offset == 0 { Direct::Refused } else { Direct::Aligned(alignment) }
}

/// True when reads of a file bypass the page cache because memory itself is the device (STATX_ATTR_DAX).
pub fn is_memory_mapped_device(file: &File) -> bool {
    /// `STATX_ATTR_DAX`.
    const DAX: u64 = 0x0020_0000;
    // SAFETY: all zeros is a valid value of this structure of numbers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: as in `direct`.
    let answer = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, 0, &raw mut found) };
    answer == 0 && found.stx_attributes & found.stx_attributes_mask & DAX != 0
}

/// A file again, to be read: `past_cache` by O_DIRECT, which not every file system has.
pub fn reopened(file: &File, past_cache: bool) -> std::io::Result<File> {
    let flags = if past_cache { libc::O_DIRECT } else { 0 };
    File::options().read(true).custom_flags(flags).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// Into the page cache.
    Cached,
    /// Past the page cache, by O_DIRECT, which not every file system has.
    PastCache,
    /// Into the page cache and on to the device before each write returns (O_DSYNC).
    Durable,
}

/// A file again, to be written.
pub fn reopened_to_write(file: &File, how: Writing) -> io::Result<File> {
    let flags = match how {
        Writing::Cached => 0,
        Writing::PastCache => libc::O_DIRECT,
        Writing::Durable => libc::O_DSYNC,
    };
    File::options().write(true).custom_flags(flags).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Memory aligned as any direct read needs it: to pages.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    first: usize,
    length: usize,
}

impl Buffer {
    /// This many bytes, all written once.
    pub fn new(length: usize) -> Self {
        let page = page_size();
        let bytes = vec![1_u8; length + page];
        let first = bytes.as_ptr().align_offset(page);
        Buffer { bytes, first, length }
    }

    /// The bytes.
    #[inline(always)]
    pub fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.first..self.first + self.length]
    }
}

/// Reads from the page cache alone (RWF_NOWAIT): none where the device would have to be waited for.
pub fn read_if_cached(file: &File, into: &mut [u8], offset: u64) -> std::io::Result<Option<usize>> {
    let place = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: one place, which lies in a slice that is borrowed for the call; the kernel writes no more than its length.
    let count =
        unsafe { libc::preadv2(file.as_raw_fd(), &raw const place, 1, offset as libc::off_t, libc::RWF_NOWAIT) };
    if let Ok(count) = usize::try_from(count) {
        return Ok(Some(count));
    }
    let error = std::io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EAGAIN) { Ok(None) } else { Err(error) }
}

/// In which order a file will be read: what the kernel's read-ahead goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// In the order of the file, by the kernel's own rules.
    Normal,
    /// Anywhere: nothing is read ahead.
    Random,
}

/// Tells the kernel in which order a file will be read. Belongs to the open file, not to the file.
pub fn advise(file: &File, advice: Advice) -> std::io::Result<()> {
    let advice = match advice {
        Advice::Normal => PosixFadviseAdvice::POSIX_FADV_NORMAL,
        Advice::Random => PosixFadviseAdvice::POSIX_FADV_RANDOM,
    };
    Ok(posix_fadvise(file, 0, 0, advice)?)
}

/// The magic number of the file system that holds a file (statfs(2)).
pub fn file_system_magic(file: &File) -> std::io::Result<u64> {
    Ok(nix::sys::statfs::fstatfs(file)?.filesystem_type().0 as u64)
}

/// A piece of a file that lies in one place on its device (FIEMAP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file, in bytes.
    pub logical: u64,
    /// Where it begins on the device, in bytes.
    pub physical: u64,
    /// Bytes.
    pub length: u64,
    /// Flags of `linux/fiemap.h`.
    pub flags: u32,
}

/// The place of the bytes is not known.
pub const EXTENT_UNKNOWN: u32 = 0x2;
/// No place was chosen yet.
pub const EXTENT_DELAYED: u32 = 0x4;
/// The bytes are compressed or encrypted.
pub const EXTENT_ENCODED: u32 = 0x8;
/// The bytes lie among those that describe the file.
pub const EXTENT_INLINE: u32 = 0x200;
/// The place is allocated and was never written: reads give zeros without asking the device.
pub const EXTENT_UNWRITTEN: u32 = 0x800;
/// Other files have the same bytes in the same place.
pub const EXTENT_SHARED: u32 = 0x2000;
/// It is the last of the file.
const EXTENT_LAST: u32 = 0x1;

/// Extents asked for in one call.
const EXTENTS: usize = 128;
/// Calls for one file at most: no file of this program has half a million extents.
const EXTENT_CALLS: usize = 4096;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more_reserved: [u32; 3],
}

/// `struct fiemap` with room for extents.
#[repr(C)]
struct RawMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS],
}

/// Where the bytes of a file lie; an error where the file system does not report it.
pub fn extents(file: &File) -> std::io::Result<Vec<Extent>> {
    /// `FS_IOC_FIEMAP`: the size in it is that of the structure without extents.
    const FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
    /// `FIEMAP_FLAG_SYNC`: writes back what is not on the device yet.
    const SYNC: u32 = 1;
    let mut found = Vec::new();
    let mut start = 0;
    for _ in 0..EXTENT_CALLS {
        let mut map = RawMap {
            start,
            length: u64::MAX - start,
            flags: SYNC,
            mapped: 0,
            room: EXTENTS as u32,
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS],
        };
        // SAFETY: the kernel reads the structure and writes at most `room` extents behind its head, for which there is room.
        if unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut map) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let mapped = &map.extents[..(map.mapped as usize).min(EXTENTS)];
        found.extend(mapped.iter().map(|raw| Extent {
            logical: raw.logical,
            physical: raw.physical,
            length: raw.length,
            flags: raw.flags,
        }));
        match mapped.last() {
            Some(last) if last.flags & EXTENT_LAST == 0 => start = last.logical + last.length,
            _ => return Ok(found),
        }
    }
    Err(std::io::Error::other("the file has more extents than can be looked at"))
}

/// Where the first hole of a file begins: its length, where it has none.
pub fn first_hole(file: &File) -> std::io::Result<u64> {
    // SAFETY: moves the position of an open file, which nothing here reads by.
    let place = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_HOLE) };
    u64::try_from(place).map_err(|_| std::io::Error::last_os_error())
}

/// What the block device below a file has done since boot (`/sys/dev/block/M:m/stat`), for whomever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Reads completed.
    pub reads: u64,
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Requests under way.
    pub in_flight: u64,
}

/// Number of the block device that a file's file system names, as `major:minor`.
pub fn device_number(file: &File) -> std::io::Result<String> {
    let found = fstat(file)?;
    Ok(format!("{}:{}", major(found.st_dev), minor(found.st_dev)))
}

/// Reads the counters of a block device; none where there is none of that number.
pub fn device_counters(number: &str) -> Option<DeviceCounters> {
    /// Sectors in these files have this size whatever the device's is.
    const SECTOR: u64 = 512;
    let text = std::fs::read_to_string(format!("/sys/dev/block/{number}/stat")).ok()?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let field = |place: usize| fields.get(place).copied();
    Some(DeviceCounters { reads: field(0)?, read_bytes: field(2)? * SECTOR, writes: field(4)?, in_flight: field(8)? })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::sys::fault;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    #[test]
    fn a_cached_file_is_read_without_waiting_and_a_dropped_one_is_not() {
        let directory = directory();
        let mut file = File::create_new(directory.path().join("file")).unwrap();
        file.write_all(&vec![7_u8; 64 * page_size()]).unwrap();
        file.sync_all().unwrap();
        let file = reopened(&file, false).unwrap();
        let mut buffer = Buffer::new(page_size());
        assert_eq!(read_if_cached(&file, buffer.get(), 0).unwrap(), Some(page_size()));
        assert_eq!(buffer.get()[0], 7);
        advise(&file, Advice::Random).unwrap();
        // A read that does not wait may still start one: where this task loses the CPU in between, the page has come.
        let not_there = (0..5).any(|_| {
            fault::forget_cached(&file).unwrap();
            assert_eq!(fault::cached_pages(&file, 64 * page_size()).unwrap(), 0);
            read_if_cached(&file, buffer.get(), 0).unwrap().is_none()
        });
        assert!(not_there);
        assert_eq!(first_hole(&file).unwrap(), 64 * page_size() as u64);
    }

    #[test]
    fn extents_cover_what_was_written_and_nothing_else() {
        let directory = directory();
        let file = File::create_new(directory.path().join("file")).unwrap();
        file.write_all_at(&vec![1_u8; 1 << 20], 0).unwrap();
        file.write_all_at(&[1_u8; 4096], 2 << 20).unwrap();
        file.sync_all().unwrap();
        let found = extents(&file).unwrap();
        assert_eq!(found.iter().map(|extent| extent.length).sum::<u64>(), (1 << 20) + 4096);
        assert!(found.iter().all(|extent| extent.flags & (EXTENT_UNWRITTEN | EXTENT_DELAYED) == 0), "{found:?}");
        assert_eq!(first_hole(&file).unwrap(), 1 << 20);
    }

    #[test]
    fn direct_reads_follow_the_stated_alignment() {
        let directory = directory();
        let file = File::create_new(directory.path().join("file")).unwrap();
        file.write_all_at(&vec![9_u8; 1 << 16], 0).unwrap();
        file.sync_all().unwrap();
        let mut buffer = Buffer::new(8192);
        match direct(&file) {
            Direct::Aligned(alignment) => {
                let past = reopened(&file, true).unwrap();
                assert_eq!(past.read_at(buffer.get(), 4096).unwrap(), 8192);
                assert_eq!(buffer.get()[8191], 9);
                assert!(alignment.offset.is_power_of_two() && alignment.memory <= page_size());
            }
            other => assert_eq!(other, Direct::Unsaid, "the tests need a file system with O_DIRECT"),
        }
        assert!(!is_memory_mapped_device(&file));
    }

    #[test]
    fn the_device_of_a_file_counts_what_is_read_from_it() {
        let directory = directory();
        let file = File::create_new(directory.path().join("file")).unwrap();
        file.write_all_at(&vec![9_u8; 1 << 20], 0).unwrap();
        file.sync_all().unwrap();
        let Some(before) = device_counters(&device_number(&file).unwrap()) else { return };
        let past = reopened(&file, true).unwrap();
        let mut buffer = Buffer::new(1 << 20);
        assert_eq!(past.read_at(buffer.get(), 0).unwrap(), 1 << 20);
        // The device accounts a read when it is completed, which may be a moment after its data is there.
        let counted = || {
            let after = device_counters(&device_number(&file).unwrap()).unwrap();
            after.read_bytes >= before.read_bytes + (1 << 20) && after.reads > before.reads
        };
        let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !counted() {
            assert!(std::time::Instant::now() < end, "the read was not counted within 5 s");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
