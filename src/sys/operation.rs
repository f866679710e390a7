//! What a [placed loop](super::placed) executes: a system call or a function, with its memory and its answer.

use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use super::arch::Piece;

/// How a loop executes an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Function,
    /// Stores 1 in the word, then makes the call, which wakes the waiting task.
    Wake,
    /// Makes the call until the word differs from 0, then stores 0 in it.
    Wait,
    /// Queues submissions in a ring, makes the call, and takes their completions.
    Ring,
}

impl Kind {
    pub(super) fn piece(self) -> Piece {
        match self {
            Kind::Call => Piece::Call,
            Kind::Function => Piece::Function,
            Kind::Wake => Piece::Wake,
            Kind::Wait => Piece::Wait,
            Kind::Ring => Piece::Ring,
        }
    }
}

/// An operation in memory, in the layout that the pieces of assembly read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Number of the call, or address of the function.
    number: i64,
    arguments: [i64; 6],
    expected: i64,
    /// A word that a task waits for, or the queues of a ring.
    word: *const AtomicI64,
}

/// An operation that a loop can make any number of times: a system call or a function, with its memory and the answer it must give.
#[derive(Debug, Clone)]
pub struct Operation<'a> {
    pub(super) kind: Kind,
    pub(super) row: Row,
    memory: Arc<[AtomicI64]>,
    /// Owner of the data that the operation refers to, if the operation does not borrow it.
    _held: Option<Arc<dyn Any + Send + Sync>>,
    borrowed: PhantomData<BorrowedFd<'a>>,
}

impl Operation<'_> {
    /// A system call.
    ///
    /// # Safety
    ///
    /// The call must be sound with these arguments any number of times for as long as the lifetime lasts.
    pub(super) unsafe fn call(number: i64, arguments: [i64; 6], expected: i64) -> Self {
        let row = Row { number, arguments, expected, word: std::ptr::null() };
        Operation { kind: Kind::Call, row, memory: Arc::new([]), _held: None, borrowed: PhantomData }
    }

    /// The same with these words as memory, to which one of the arguments points.
    ///
    /// # Safety
    ///
    /// As for [`call`](Self::call). The kernel must stay within the memory.
    pub(super) unsafe fn with_words(mut self, argument: usize, words: &[i64]) -> Self {
        self.memory = words.iter().map(|word| AtomicI64::new(*word)).collect();
        self.row.arguments[argument] = self.memory.as_ptr() as i64;
        self
    }

    /// The same with another argument that points to a word of the memory.
    ///
    /// # Safety
    ///
    /// As for [`with_words`](Self::with_words).
    pub(super) unsafe fn pointing(mut self, argument: usize, word: usize) -> Self {
        self.row.arguments[argument] = (&raw const self.memory[word]) as i64;
        self
    }

    /// A call of futex(2) that wakes those who wait for a word to become 1.
    ///
    /// # Safety
    ///
    /// As for [`call`](Self::call). The word must be valid for as long as the lifetime lasts.
    pub(super) unsafe fn waking(mut self, word: *const AtomicI64) -> Self {
        (self.kind, self.row.word) = (Kind::Wake, word);
        self
    }

    /// A call of futex(2) that waits for a word to become 1.
    ///
    /// # Safety
    ///
    /// As for [`waking`](Self::waking).
    pub(super) unsafe fn waiting(mut self, word: *const AtomicI64) -> Self {
        (self.kind, self.row.word) = (Kind::Wait, word);
        self
    }

    /// A call of io_uring_enter(2) on a ring with these queues. The second argument of the call is the number of no-operations.
    ///
    /// # Safety
    ///
    /// As for [`call`](Self::call). The queues must be valid for as long as the lifetime lasts, and no other thread may use them.
    pub(super) unsafe fn on_ring(mut self, queues: *const AtomicI64) -> Self {
        (self.kind, self.row.word) = (Kind::Ring, queues);
        self
    }

    /// A function with an argument.
    ///
    /// # Safety
    ///
    /// The function must be sound with the argument any number of times for as long as the lifetime lasts. It must not unwind.
    pub(super) unsafe fn function(
        function: extern "C" fn(*mut c_void) -> i64,
        argument: *mut c_void,
        expected: i64,
    ) -> Self {
        let row = Row {
            number: function as usize as i64,
            arguments: [argument as i64, 0, 0, 0, 0, 0],
            expected,
            word: std::ptr::null(),
        };
        Operation { kind: Kind::Function, row, memory: Arc::new([]), _held: None, borrowed: PhantomData }
    }

    /// The same operation, which holds what it borrows.
    ///
    /// # Safety
    ///
    /// `what` must keep all that the operation borrows.
    pub(super) unsafe fn holding(self, what: Arc<dyn Any + Send + Sync>) -> Operation<'static> {
        let Operation { kind, row, memory, .. } = self;
        Operation { kind, row, memory, _held: Some(what), borrowed: PhantomData }
    }

    /// The same operation with another answer.
    #[must_use]
    pub fn answering(mut self, expected: i64) -> Self {
        self.row.expected = expected;
        self
    }

    /// The answer that it must give.
    pub fn expected(&self) -> i64 {
        self.row.expected
    }

    /// Its memory as bytes.
    pub fn memory(&self) -> Vec<u8> {
        let words = self.memory.iter().map(|word| word.load(std::sync::atomic::Ordering::Relaxed));
        words.flat_map(i64::to_ne_bytes).collect()
    }

    /// Makes a system call once, and returns the answer.
    pub fn once(&self) -> i64 {
        debug_assert!(self.kind == Kind::Call);
        let [first, second, third, fourth, ..] = self.row.arguments;
        // SAFETY: the call is sound with its arguments, by the contract of `call`.
        unsafe { super::arch::system_call_of_four(self.row.number, [first, second, third, fourth]) }
    }
}
