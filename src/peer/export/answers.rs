//! What an export answers: the procedures of MOUNT and NFS version 3 (RFC 1813) that a reader needs, for one directory with one
//! file in it. Whatever would change something is refused as on a read-only file system, everything else is not there.

use nfs3_types::mount::{self, fhandle3, mountres3, mountres3_ok, mountstat3};
use nfs3_types::nfs3::{
    ACCESS3_LOOKUP, ACCESS3_READ, ACCESS3resok, FSF3_HOMOGENEOUS, FSINFO3resok, FSSTAT3resok, GETATTR3resok,
    LOOKUP3resok, NFS_PROGRAM, PATHCONF3resok, PROGRAM, READDIR3resok, READDIRPLUS3resok, VERSION, cookieverf3,
    dirlist3, dirlistplus3, entry3, entryplus3, fattr3, filename3, ftype3, nfs_fh3, nfsstat3, nfstime3, post_op_attr,
    post_op_fh3, specdata3,
};
use nfs3_types::rpc::{accept_stat_data, auth_flavor};
use nfs3_types::xdr_codec::{List, Opaque, Pack};

use super::blocks::{BLOCK, Blocks};
use super::calls::{self, Framed, LONGEST_CALL, RpcCall, Words, add};

/// Name of the file in the directory.
pub const NAME: &str = "blocks";
/// Bytes of a handle: 128 random bits, which cannot be guessed.
pub const HANDLE: usize = 16;
/// Longest read in bytes; longer ones are answered with this much.
pub const LONGEST_READ: u32 = 1 << 20;
/// Longest answer in bytes: the longest read with room for what stands before it.
pub const LONGEST_ANSWER: usize = LONGEST_READ as usize + LONGEST_CALL;
/// Longest name and path that are looked at.
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 1024;
/// Longest handle (RFC 1813, 2.4).
const LONGEST_HANDLE: usize = 64;
/// Procedures of MOUNT (RFC 1813, 5.2).
const MOUNT_NULL: u32 = 0;
const MOUNT_MOUNT: u32 = 1;
const MOUNT_DUMP: u32 = 2;
const UNMOUNT: u32 = 3;
const UNMOUNT_ALL: u32 = 4;
const MOUNT_EXPORT: u32 = 5;
/// File numbers.
const DIRECTORY_NUMBER: u64 = 1;
const FILE_NUMBER: u64 = 2;

/// What is exported, to whom it is open by name and by handle.
#[derive(Debug)]
pub struct Shelf {
    /// The file.
    pub blocks: Blocks,
    /// Path of the directory: a slash and random letters.
    pub path: String,
    /// Handle of the directory.
    pub directory: [u8; HANDLE],
    /// Handle of the file.
    pub file: [u8; HANDLE],
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    /// Answered.
    Answered,
    /// This many bytes of the file.
    Read(u64),
    /// Refused, in the words of the protocol.
    Refused,
}

/// What became of the bytes that arrived on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Every whole call was answered; the beginning of the next one is kept.
    All,
    /// Something is not a call: the connection is to be closed.
    NoCall,
    /// An answer was not sent: the connection is to be closed.
    Unsent,
}

/// Something that a handle may stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    Directory,
    File,
}

impl Shelf {
    /// Answers every whole call of what has arrived on a connection, and keeps the rest. `send` is given every answer, and says
    /// whether it was sent.
    pub fn converse(
        &self,
        arrived: &mut Vec<u8>,
        answer: &mut Vec<u8>,
        mut send: impl FnMut(CallResult, &[u8]) -> bool,
    ) -> Heard {
        let mut done = 0;
        let heard = loop {
            let length = match calls::framed(&arrived[done..]) {
                Framed::Incomplete => break Heard::All,
                Framed::Refused => break Heard::NoCall,
                Framed::Whole(length) => length,
            };
            let call = &arrived[done + 4..done + 4 + length];
            done += 4 + length;
            let Some(outcome) = self.answer(call, answer) else { break Heard::NoCall };
            if !send(outcome, answer) {
                break Heard::Unsent;
            }
        };
        arrived.drain(..done);
        heard
    }

    /// Answers a call; none when it is not a call.
    pub fn answer(&self, bytes: &[u8], answer: &mut Vec<u8>) -> Option<CallResult> {
        let call = RpcCall::of(bytes)?;
        let outcome = match (call.program, call.version) {
            (mount::PROGRAM, mount::VERSION) => self.mount(&call, answer),
            (PROGRAM, VERSION) => self.nfs(&call, answer),
            (mount::PROGRAM | PROGRAM, _) => Err(accept_stat_data::PROG_MISMATCH { low: VERSION, high: VERSION }),
            _ => Err(accept_stat_data::PROG_UNAVAIL),
        };
        let outcome = outcome.unwrap_or_else(|status| {
            calls::begin(answer, call.number, status);
            CallResult::Refused
        });
        calls::end(answer);
        Some(outcome)
    }

    fn mount(&self, call: &RpcCall<'_>, answer: &mut Vec<u8>) -> Result<CallResult, accept_stat_data> {
        let mut arguments = call.arguments;
        let succeeded = accept_stat_data::SUCCESS;
        match call.procedure {
            MOUNT_NULL | UNMOUNT | UNMOUNT_ALL => {
                calls::begin(answer, call.number, succeeded);
                Ok(CallResult::Answered)
            }
            MOUNT_MOUNT => {
                let path = arguments.opaque(LONGEST_PATH).ok_or(accept_stat_data::GARBAGE_ARGS)?;
                calls::begin(answer, call.number, succeeded);
                if path != self.path.as_bytes() {
                    add(answer, &mountstat3::MNT3ERR_NOENT);
                    return Ok(CallResult::Refused);
                }
                let fhandle = fhandle3(Opaque::owned(self.directory.to_vec()));
                let auth_flavors = vec![auth_flavor::AUTH_UNIX as u32, auth_flavor::AUTH_NULL as u32];
                add(answer, &mountres3::Ok(mountres3_ok { fhandle, auth_flavors }));
                Ok(CallResult::Answered)
            }
            // The path is half of the key: no client learns what is exported, or which clients have mounted it.
            MOUNT_DUMP | MOUNT_EXPORT => {
                calls::begin(answer, call.number, succeeded);
                add(answer, &false);
                Ok(CallResult::Answered)
            }
            _ => Err(accept_stat_data::PROC_UNAVAIL),
        }
    }

    fn nfs(&self, call: &RpcCall<'_>, answer: &mut Vec<u8>) -> Result<CallResult, accept_stat_data> {
        let procedure = NFS_PROGRAM::try_from(call.procedure).map_err(|_| accept_stat_data::PROC_UNAVAIL)?;
        calls::begin(answer, call.number, accept_stat_data::SUCCESS);
        let mut arguments = call.arguments;
        let done = match procedure {
            NFS_PROGRAM::NFSPROC3_NULL => Ok(CallResult::Answered),
            NFS_PROGRAM::NFSPROC3_GETATTR => self.attributes(&mut arguments, answer),
            NFS_PROGRAM::NFSPROC3_LOOKUP => self.look_up(&mut arguments, answer),
            NFS_PROGRAM::NFSPROC3_ACCESS => self.access(&mut arguments, answer),
            NFS_PROGRAM::NFSPROC3_READ => self.read(&mut arguments, answer),
            NFS_PROGRAM::NFSPROC3_READDIR => self.list(&mut arguments, answer, false),
            NFS_PROGRAM::NFSPROC3_READDIRPLUS => self.list(&mut arguments, answer, true),
            NFS_PROGRAM::NFSPROC3_FSINFO | NFS_PROGRAM::NFSPROC3_FSSTAT | NFS_PROGRAM::NFSPROC3_PATHCONF => {
                self.facts(procedure, &mut arguments, answer)
            }
            NFS_PROGRAM::NFSPROC3_READLINK => Err(No::Status(nfsstat3::NFS3ERR_INVAL)),
            _ => Err(No::Status(nfsstat3::NFS3ERR_ROFS)),
        };
        match done {
            Ok(outcome) => Ok(outcome),
            Err(No::Garbage) => Err(accept_stat_data::GARBAGE_ARGS),
            Err(No::Status(status)) => {
                calls::begin(answer, call.number, accept_stat_data::SUCCESS);
                add(answer, &status);
                (0..absent_words(procedure)).for_each(|_| add(answer, &false));
                Ok(CallResult::Refused)
            }
        }
    }

    /// What a handle stands for.
    fn thing(&self, arguments: &mut Words<'_>) -> Result<Thing, No> {
        let handle = arguments.opaque(LONGEST_HANDLE).ok_or(No::Garbage)?;
        if handle == self.directory {
            Ok(Thing::Directory)
        } else if handle == self.file {
            Ok(Thing::File)
        } else {
            Err(No::Status(nfsstat3::NFS3ERR_BADHANDLE))
        }
    }

    fn directory(&self, arguments: &mut Words<'_>) -> Result<(), No> {
        match self.thing(arguments)? {
            Thing::Directory => Ok(()),
            Thing::File => Err(No::Status(nfsstat3::NFS3ERR_NOTDIR)),
        }
    }

    fn of(&self, thing: Thing) -> fattr3 {
        let is_file = thing == Thing::File;
        let size = if is_file { self.blocks.bytes() } else { BLOCK as u64 };
        let never = || nfstime3 { seconds: 0, nseconds: 0 };
        fattr3 {
            type_: if is_file { ftype3::NF3REG } else { ftype3::NF3DIR },
            mode: if is_file { 0o444 } else { 0o555 },
            nlink: if is_file { 1 } else { 2 },
            uid: 0,
            gid: 0,
            size,
            used: size,
            rdev: specdata3 { specdata1: 0, specdata2: 0 },
            fsid: self.blocks.identity(),
            fileid: if is_file { FILE_NUMBER } else { DIRECTORY_NUMBER },
            atime: never(),
            mtime: never(),
            ctime: never(),
        }
    }

    fn handle(&self, thing: Thing) -> nfs_fh3 {
        let handle = if thing == Thing::File { self.file } else { self.directory };
        nfs_fh3 { data: Opaque::owned(handle.to_vec()) }
    }

    fn attributes(&self, arguments: &mut Words<'_>, answer: &mut Vec<u8>) -> Result<CallResult, No> {
        let obj_attributes = self.of(self.thing(arguments)?);
        Ok(succeed(answer, &GETATTR3resok { obj_attributes }))
    }

    /// There is one name, and the directory's own. Whatever else a name says, such as the way up, is not there.
    fn look_up(&self, arguments: &mut Words<'_>, answer: &mut Vec<u8>) -> Result<CallResult, No> {
        self.directory(arguments)?;
        let name = arguments.opaque(LONGEST_NAME).ok_or(No::Garbage)?;
        let thing = match name {
            b"." => Thing::Directory,
            name if name == NAME.as_bytes() => Thing::File,
            _ => return Err(No::Status(nfsstat3::NFS3ERR_NOENT)),
        };
        Ok(succeed(
            answer,
            &LOOKUP3resok {
                object: self.handle(thing),
                obj_attributes: post_op_attr::Some(self.of(thing)),
                dir_attributes: post_op_attr::Some(self.of(Thing::Directory)),
            },
        ))
    }

    fn access(&self, arguments: &mut Words<'_>, answer: &mut Vec<u8>) -> Result<CallResult, No> {
        let thing = self.thing(arguments)?;
        let asked = arguments.word().ok_or(No::Garbage)?;
        let granted = if thing == Thing::File { ACCESS3_READ } else { ACCESS3_READ | ACCESS3_LOOKUP };
        Ok(succeed(
            answer,
            &ACCESS3resok { obj_attributes: post_op_attr::Some(self.of(thing)), access: asked & granted },
        ))
    }

    /// The bytes go from the file into the answer: nothing is copied in between, and an answer is never longer than the longest.
    fn read(&self, arguments: &mut Words<'_>, answer: &mut Vec<u8>) -> Result<CallResult, No> {
        if self.thing(arguments)? == Thing::Directory {
            return Err(No::Status(nfsstat3::NFS3ERR_ISDIR));
        }
        let offset = arguments.double().ok_or(No::Garbage)?;
        let count = arguments.word().ok_or(No::Garbage)?.min(LONGEST_READ);
        let left = self.blocks.bytes().saturating_sub(offset);
        let count = u64::from(count).min(left) as usize;
        add(answer, &nfsstat3::NFS3_OK);
        add(answer, &post_op_attr::Some(self.of(Thing::File)));
        add(answer, &(count as u32));
        add(answer, &(count as u64 == left));
        add(answer, &(count as u32));
        let start = answer.len();
        answer.resize(start + count.next_multiple_of(4), 0);
        match self.blocks.read(&mut answer[start..start + count], offset) {
            Ok(read) if read == count => Ok(CallResult::Read(count as u64)),
            _ => Err(No::Status(nfsstat3::NFS3ERR_IO)),
        }
    }

    fn list(&self, arguments: &mut Words<'_>, answer: &mut Vec<u8>, with_handles: bool) -> Result<CallResult, No> {
        self.directory(arguments)?;
        let cookie = arguments.double().ok_or(No::Garbage)?;
        let dir_attributes = post_op_attr::Some(self.of(Thing::Directory));
        let cookieverf = cookieverf3([0; 8]);
        let name = || filename3(Opaque::borrowed(NAME.as_bytes()));
        if with_handles {
            let entry = entryplus3 {
                fileid: FILE_NUMBER,
                name: name(),
                cookie: 1,
                name_attributes: post_op_attr::Some(self.of(Thing::File)),
                name_handle: post_op_fh3::Some(self.handle(Thing::File)),
            };
            let entries = List(if cookie == 0 { vec![entry] } else { Vec::new() });
            let reply = dirlistplus3 { entries, eof: true };
            return Ok(succeed(answer, &READDIRPLUS3resok { dir_attributes, cookieverf, reply }));
        }
        let entry = entry3 { fileid: FILE_NUMBER, name: name(), cookie: 1 };
        let entries = List(if cookie == 0 { vec![entry] } else { Vec::new() });
        Ok(succeed(answer, &READDIR3resok { dir_attributes, cookieverf, reply: dirlist3 { entries, eof: true } }))
    }

    fn facts(&self, procedure: NFS_PROGRAM, arguments: &mut Words<'_>, answer: &mut Vec<u8>) -> Result<CallResult, No> {
        let obj_attributes = post_op_attr::Some(self.of(self.thing(arguments)?));
        let bytes = self.blocks.bytes();
        match procedure {
            NFS_PROGRAM::NFSPROC3_FSSTAT => Ok(succeed(
                answer,
                &FSSTAT3resok {
                    obj_attributes,
                    tbytes: bytes,
                    fbytes: 0,
                    abytes: 0,
                    tfiles: 2,
                    ffiles: 0,
                    afiles: 0,
                    invarsec: u32::MAX,
                },
            )),
            NFS_PROGRAM::NFSPROC3_PATHCONF => Ok(succeed(
                answer,
                &PATHCONF3resok {
                    obj_attributes,
                    linkmax: 1,
                    name_max: LONGEST_NAME as u32,
                    no_trunc: true,
                    chown_restricted: true,
                    case_insensitive: false,
                    case_preserving: true,
                },
            )),
            _ => Ok(succeed(
                answer,
                &FSINFO3resok {
                    obj_attributes,
                    rtmax: LONGEST_READ,
                    rtpref: LONGEST_READ,
                    rtmult: BLOCK as u32,
                    // Nothing is written, but clients refuse a server that says so here.
                    wtmax: LONGEST_READ,
                    wtpref: LONGEST_READ,
                    wtmult: BLOCK as u32,
                    dtpref: BLOCK as u32,
                    maxfilesize: bytes,
                    time_delta: nfstime3 { seconds: 0, nseconds: 1 },
                    properties: FSF3_HOMOGENEOUS,
                },
            )),
        }
    }
}

/// Why a call is not done.
enum No {
    /// Its arguments are none.
    Garbage,
    /// The protocol has a word for it.
    Status(nfsstat3),
}

fn succeed(answer: &mut Vec<u8>, value: &impl Pack) -> CallResult {
    add(answer, &nfsstat3::NFS3_OK);
    add(answer, value);
    CallResult::Answered
}

/// Attributes that a refusal could carry and ours does not: a word for each says so (RFC 1813, 3.3).
fn absent_words(procedure: NFS_PROGRAM) -> usize {
    match procedure {
        NFS_PROGRAM::NFSPROC3_NULL | NFS_PROGRAM::NFSPROC3_GETATTR => 0,
        NFS_PROGRAM::NFSPROC3_LOOKUP
        | NFS_PROGRAM::NFSPROC3_ACCESS
        | NFS_PROGRAM::NFSPROC3_READLINK
        | NFS_PROGRAM::NFSPROC3_READ
        | NFS_PROGRAM::NFSPROC3_READDIR
        | NFS_PROGRAM::NFSPROC3_READDIRPLUS
        | NFS_PROGRAM::NFSPROC3_FSSTAT
        | NFS_PROGRAM::NFSPROC3_FSINFO
        | NFS_PROGRAM::NFSPROC3_PATHCONF => 1,
        NFS_PROGRAM::NFSPROC3_LINK => 3,
        NFS_PROGRAM::NFSPROC3_RENAME => 4,
        _ => 2,
    }
}
