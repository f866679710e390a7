//! Answers with lengths in them, as they are taken apart here: a length beyond the bounds of the protocol is refused before
//! memory is taken. The types of the library believe it and take what it says. The rest of an answer is theirs.

use std::io::Read;

use nfs3_types::mount::mountstat3;
use nfs3_types::nfs3::{
    LOOKUP3resfail, Nfs3Option, Nfs3Result, READ3resfail, READDIRPLUS3resfail, cookieverf3, ftype3, nfs_fh3,
    post_op_attr,
};
use nfs3_types::xdr_codec::{Error, Opaque, Result, Unpack};

/// Longest handle (RFC 1813, 2.4).
const HANDLE: usize = 64;
/// Longest name in a directory.
const NAME: usize = 1024;

/// Bytes, at most `MOST` of them.
#[derive(Debug)]
pub(super) struct Bounded<const MOST: usize>(pub Vec<u8>);

impl<const MOST: usize> Unpack for Bounded<MOST> {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let (length, head) = u32::unpack(input)?;
        let length = length as usize;
        if length > MOST {
            return Err(Error::InvalidLength(length));
        }
        let mut bytes = vec![0; length];
        input.read_exact(&mut bytes)?;
        let padding = length.next_multiple_of(4) - length;
        input.read_exact(&mut [0; 4][..padding])?;
        Ok((Bounded(bytes), head + length + padding))
    }
}

/// Takes the next part of an answer and counts its bytes.
fn part<T: Unpack>(input: &mut impl Read, count: &mut usize) -> Result<T> {
    let (found, bytes) = T::unpack(input)?;
    *count += bytes;
    Ok(found)
}

fn handle(input: &mut impl Read, count: &mut usize) -> Result<nfs_fh3> {
    part::<Bounded<HANDLE>>(input, count).map(|found| nfs_fh3 { data: Opaque::owned(found.0) })
}

/// What a mount gives: the handle of a directory, or why not. Ways to authenticate follow, and are not looked at.
#[derive(Debug)]
pub(super) struct MountReply(pub std::result::Result<nfs_fh3, mountstat3>);

impl Unpack for MountReply {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let mut count = 0;
        let status: mountstat3 = part(input, &mut count)?;
        if !matches!(status, mountstat3::MNT3_OK) {
            return Ok((MountReply(Err(status)), count));
        }
        let found = handle(input, &mut count)?;
        // Whatever number is said, the answer ends somewhere.
        for _ in 0..part::<u32>(input, &mut count)? {
            part::<u32>(input, &mut count)?;
        }
        Ok((MountReply(Ok(found)), count))
    }
}

/// What a name stands for.
#[derive(Debug)]
pub(super) struct Found(pub nfs_fh3);

/// The answer to a look-up.
pub(super) type LookedUp = Nfs3Result<Found, LOOKUP3resfail>;

impl Unpack for Found {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let mut count = 0;
        let found = handle(input, &mut count)?;
        for _ in 0..2 {
            part::<post_op_attr>(input, &mut count)?;
        }
        Ok((Found(found), count))
    }
}

/// Bytes of a file.
#[derive(Debug)]
pub(super) struct Bytes {
    /// How many the server says they are.
    pub count: u32,
    pub data: Vec<u8>,
}

/// The answer to a read.
pub(super) type Read3 = Nfs3Result<Bytes, READ3resfail>;

impl Unpack for Bytes {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let mut taken = 0;
        part::<post_op_attr>(input, &mut taken)?;
        let count = part(input, &mut taken)?;
        part::<bool>(input, &mut taken)?;
        let data = part::<Bounded<{ super::LONGEST_READ as usize }>>(input, &mut taken)?.0;
        Ok((Bytes { count, data }, taken))
    }
}

/// The largest file in a part of a directory: name, handle, size. None where there is no file.
#[derive(Debug)]
pub(super) struct Largest(pub Option<(Vec<u8>, nfs_fh3, u64)>);

/// The answer to a listing.
pub(super) type Listed = Nfs3Result<Largest, READDIRPLUS3resfail>;

impl Unpack for Largest {
    fn unpack(input: &mut impl Read) -> Result<(Self, usize)> {
        let mut count = 0;
        part::<post_op_attr>(input, &mut count)?;
        part::<cookieverf3>(input, &mut count)?;
        let mut largest: Option<(Vec<u8>, nfs_fh3, u64)> = None;
        while part::<bool>(input, &mut count)? {
            part::<u64>(input, &mut count)?;
            let name = part::<Bounded<NAME>>(input, &mut count)?.0;
            part::<u64>(input, &mut count)?;
            let facts = part::<post_op_attr>(input, &mut count)?;
            let handle = if part::<bool>(input, &mut count)? { Some(handle(input, &mut count)?) } else { None };
            if let (Nfs3Option::Some(facts), Some(handle)) = (facts, handle)
                && facts.type_ == ftype3::NF3REG
                && largest.as_ref().is_none_or(|(_, _, bytes)| facts.size >= *bytes)
            {
                largest = Some((name, handle, facts.size));
            }
        }
        part::<bool>(input, &mut count)?;
        Ok((Largest(largest), count))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use nfs3_types::mount::{fhandle3, mountres3, mountres3_ok};
    use nfs3_types::nfs3::{READ3resok, READDIRPLUS3resok, dirlistplus3, entryplus3, fattr3, filename3};
    use nfs3_types::xdr_codec::{List, Pack};

    use super::*;

    fn packed(value: &impl Pack) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.pack(&mut bytes).unwrap();
        bytes
    }

    /// An answer and how much of the bytes it took.
    fn unpacked<T: Unpack>(bytes: &[u8]) -> Result<T> {
        let (found, count) = T::unpack(&mut Cursor::new(bytes))?;
        assert_eq!(count, bytes.len(), "nothing is left and nothing is missing");
        Ok(found)
    }

    /// The word at a place.
    fn with_word(mut bytes: Vec<u8>, place: usize, word: u32) -> Vec<u8> {
        bytes[place..place + 4].copy_from_slice(&word.to_be_bytes());
        bytes
    }

    #[test]
    fn answers_are_taken_apart_as_the_library_packs_them() {
        let mounted = mountres3::Ok(mountres3_ok {
            fhandle: fhandle3(Opaque::owned(vec![7; 33])),
            auth_flavors: vec![0, 1, 390_003],
        });
        let bytes = packed(&mounted);
        let MountReply(Ok(found)) = unpacked(&bytes).unwrap() else { panic!("mounted") };
        assert_eq!(found.data.as_ref(), [7; 33]);
        for length in [65, 0x7fff_fff0, u32::MAX] {
            assert!(unpacked::<MountReply>(&with_word(bytes.clone(), 4, length)).is_err(), "a handle of {length}");
        }
        assert!(unpacked::<MountReply>(&with_word(bytes.clone(), 4 + 4 + 36, u32::MAX)).is_err(), "ways without end");
        assert!(matches!(unpacked(&13_u32.to_be_bytes()).unwrap(), MountReply(Err(mountstat3::MNT3ERR_ACCES))));
    }

    #[test]
    fn a_read_has_as_many_bytes_as_may_be_asked_for() {
        let read =
            READ3resok { file_attributes: Nfs3Option::None, count: 5, eof: true, data: Opaque::borrowed(b"hello") };
        let bytes = packed(&read);
        let found: Bytes = unpacked(&bytes).unwrap();
        assert_eq!((found.count, found.data.as_slice()), (5, &b"hello"[..]));
        for length in [super::super::LONGEST_READ + 1, 0x7fff_fff0] {
            assert!(unpacked::<Bytes>(&with_word(bytes.clone(), 12, length)).is_err(), "{length}");
        }
    }

    /// Attributes of nothing in particular.
    fn facts() -> fattr3 {
        unpacked(&[1_u32.to_be_bytes().to_vec(), vec![0; 80]].concat()).unwrap()
    }

    #[test]
    fn a_listing_gives_its_largest_file() {
        let entry = |name: &'static [u8], size, type_| entryplus3 {
            fileid: 1,
            name: filename3(Opaque::borrowed(name)),
            cookie: 2,
            name_attributes: Nfs3Option::Some(fattr3 { type_, size, ..facts() }),
            name_handle: Nfs3Option::Some(nfs_fh3 { data: Opaque::borrowed(name) }),
        };
        let entries =
            [entry(b"small", 5, ftype3::NF3REG), entry(b"large", 9, ftype3::NF3REG), entry(b"d", 99, ftype3::NF3DIR)];
        let listing = READDIRPLUS3resok {
            dir_attributes: Nfs3Option::None,
            cookieverf: cookieverf3([0; 8]),
            reply: dirlistplus3 { entries: List(entries.into_iter().collect()), eof: true },
        };
        let bytes = packed(&listing);
        let Largest(Some((name, handle, size))) = unpacked(&bytes).unwrap() else { panic!("a file") };
        assert_eq!((name.as_slice(), handle.data.as_ref(), size), (&b"large"[..], &b"large"[..], 9));
        // The length of the first name stands behind attributes, verifier, a mark and a number.
        assert!(unpacked::<Largest>(&with_word(bytes, 4 + 8 + 4 + 8, 0x7fff_fff0)).is_err());
    }
}
