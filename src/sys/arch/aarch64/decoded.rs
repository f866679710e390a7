//! aarch64: the timed loops, read back from their machine code. docs/evidence.md has the table of what they contain.
//!
//! Macros repeat and leave out instructions, so the source shows only indirectly what a turn contains. Instructions have 32 bits here.

use super::super::*;
use super::pieces::{NOTHING, PIECES, Piece, branch_back};
use super::stream::VECTORS;

/// Instructions of the timed code: name, bits that tell it from others, and their value.
const KNOWN: [(&str, u32, u32); 22] = [
    ("nop", !0, 0xd503_201f),
    ("isb", !0, 0xd503_3fdf),
    ("dmb ishst", !0, 0xd503_3abf),
    ("ret", !0, 0xd65f_03c0),
    ("svc", !0, 0xd400_0001),
    ("counter", !31, 0xd53b_e040),
    ("mul", 0xffe0_fc00, 0x9b00_7c00),
    ("madd", 0xffe0_8000, 0x1b00_0000),
    ("move", 0xffe0_ffe0, 0xaa00_03e0),
    ("add", 0xffe0_fc00, 0x8b00_0000),
    ("subs", 0xffe0_fc00, 0xeb00_0000),
    ("add constant", 0xffc0_0000, 0x9100_0000),
    ("sub constant", 0xffc0_0000, 0xd100_0000),
    ("load", 0xffc0_0000, 0xf940_0000),
    ("store", 0xffc0_0000, 0xf900_0000),
    ("load vectors", 0xffc0_0000, 0xad40_0000),
    ("store vectors", 0xffc0_0000, 0xad00_0000),
    ("store vectors past", 0xffc0_0000, 0xac00_0000),
    ("branch", 0xff00_0010, 0x5400_0000),
    ("branch on bit", 0x7e00_0000, 0x3600_0000),
    ("call", 0xfc00_0000, 0x9400_0000),
    ("call of address", 0xffff_fc1f, 0xd63f_0000),
];

/// An instruction in memory.
#[derive(Clone, Copy)]
struct Instruction {
    place: *const u32,
    word: u32,
}

impl Instruction {
    fn at(place: *const u32) -> Self {
        // SAFETY: the tests read only functions of this program, from their beginning to their last instruction.
        Instruction { place, word: unsafe { place.read() } }
    }

    fn name(self) -> &'static str {
        KNOWN.iter().find(|(_, mask, value)| self.word & mask == *value).map_or("other", |(name, ..)| name)
    }

    /// The register field that begins at this bit.
    fn register(self, bit: u32) -> u32 {
        self.word >> bit & 31
    }

    /// The constant of an addition, or the offset of a load.
    fn constant(self) -> u32 {
        self.word >> 10 & 0xfff
    }

    /// Bytes from a branch to where it leads: a field that begins at this bit, and has this number of bits.
    fn distance(self, bit: u32, bits: u32) -> isize {
        (((self.word >> bit) << (32 - bits)) as i32 >> (32 - bits)) as isize * 4
    }

    fn target(self) -> *const u32 {
        let distance = if self.name() == "call" { self.distance(0, 26) } else { self.distance(5, 19) };
        self.place.wrapping_byte_offset(distance)
    }
}

/// The instructions from a place up to the first one of this kind, which is the last.
fn up_to(start: *const u32, last: impl Fn(Instruction) -> bool) -> Vec<Instruction> {
    let mut found = Vec::new();
    for index in 0.. {
        let next = Instruction::at(start.wrapping_add(index));
        found.push(next);
        if last(next) {
            break;
        }
    }
    found
}

/// The turn of the first loop of a function.
fn turn(function: *const ()) -> Vec<Instruction> {
    let all = up_to(function.cast(), |next| next.name() == "branch" && next.distance(5, 19) < 0);
    let start = all[all.len() - 1].target();
    all.into_iter().filter(|next| next.place >= start).collect()
}

/// Names of instructions in their order, each with how many of it follow each other.
fn names(all: &[Instruction]) -> String {
    let runs = all.chunk_by(|one, other| one.name() == other.name());
    runs.map(|run| format!("{} {}", run.len(), run[0].name())).collect::<Vec<_>>().join(", ")
}

/// Whether each instruction of these names overwrites the register that the one before it wrote, and reads it.
fn is_chain(all: &[Instruction], of: &[&str]) -> bool {
    let chain: Vec<u32> = all
        .iter()
        .filter(|next| of.contains(&next.name()))
        .map(|next| next.word & 31 | next.register(5) << 5)
        .collect();
    chain.iter().all(|&registers| registers == chain[0] && registers & 31 == registers >> 5)
}

fn begins_block(all: &[Instruction], bytes: usize) -> bool {
    (all[0].place as usize).is_multiple_of(bytes)
}

#[test]
fn chains_and_loops_contain_what_is_timed() {
    const END: &str = "1 subs, 1 branch";
    let mixed = "1 mul, 3 add, ".repeat(10);
    for (kernel, expected) in [
        (multiply_chain as LoopKernel, format!("20 mul, {END}")),
        (add_chain, format!("60 add, {END}")),
        (mixed_chain, format!("{mixed}{END}")),
        (core_loop(), END.to_owned()),
    ] {
        let turn = turn(kernel as *const ());
        assert_eq!(names(&turn), expected);
        assert!(
            is_chain(&turn, &["mul", "add"]) && is_chain(&turn, &["subs"]) && begins_block(&turn, 64),
            "{expected}"
        );
    }
    for (offset, kernel) in [0, 16, 32, 48].into_iter().zip(REGISTER_LOOPS) {
        let turn = turn(kernel as *const ());
        assert_eq!((names(&turn).as_str(), turn[0].place as usize % 64), (END, offset));
    }
    let memory = turn(memory_loop as *const ());
    assert_eq!(names(&memory), "1 load, 1 add constant, 1 store, 2 load, 1 subs, 1 branch");
    let walk = turn(chase::<0> as *const ());
    assert_eq!(names(&walk), format!("64 load, {END}"));
    assert!(is_chain(&walk, &["load"]) && begins_block(&walk, 64) && walk[0].constant() == 0);
}

#[test]
fn calls_move_their_arguments_and_nothing_else() {
    for (spilled, chained, kernels) in [
        (false, false, CALLS_IN_REGISTERS),
        (false, true, CHAINED_CALLS_IN_REGISTERS),
        (true, false, CALLS_THROUGH_MEMORY),
        (true, true, CHAINED_CALLS_THROUGH_MEMORY),
    ] {
        for (arguments, kernel) in kernels.into_iter().enumerate() {
            // The result of a chained call is where the next one takes its first argument.
            let moves = arguments.saturating_sub(usize::from(chained));
            let one = if moves > 0 { format!("{moves} move, 1 call, ") } else { "1 call, ".to_owned() };
            for (kernel, calls) in [(kernel.short, 32), (kernel.long, 64)] {
                let turn = turn(kernel as *const ());
                let all = if moves > 0 { one.repeat(calls) } else { format!("{calls} call, ") };
                assert_eq!(names(&turn), format!("{all}1 subs, 1 branch"), "{arguments} arguments");
                let callee = up_to(turn[moves].target(), |next| next.name() == "ret");
                assert!(turn.iter().filter(|next| next.name() == "call").all(|call| call.target() == callee[0].place));
                let mut expected = String::new();
                if spilled {
                    let both = format!("{arguments} store, {arguments} load, ");
                    let both = if arguments > 0 { both } else { String::new() };
                    expected += &format!("1 sub constant, {both}1 add constant, ");
                }
                expected += if chained { "1 mul, 1 ret" } else { "1 ret" };
                assert_eq!(names(&callee), expected, "{arguments} arguments");
                assert!(begins_block(&callee, 4096) && begins_block(&turn, 64));
            }
        }
    }
}

#[test]
fn streams_move_each_byte_of_a_block_once() {
    const BLOCK: u32 = crate::sys::stream::BLOCK as u32;
    let whole: Vec<u32> = (0..BLOCK).step_by(32).collect();
    let half: Vec<u32> = whole.iter().copied().filter(|offset| offset % 128 < 64).collect();
    let [(vectors, _)] = VECTORS;
    let (load, store, past) = ("load vectors", "store vectors", "store vectors past");
    for (kernel, loads, store, stores) in [
        (vectors.read, &whole, store, &Vec::new()),
        (vectors.read_half, &half, store, &Vec::new()),
        (vectors.write, &Vec::new(), store, &whole),
        (vectors.write_nt, &Vec::new(), past, &whole),
        (vectors.copy, &whole, store, &whole),
        (vectors.copy_nt, &whole, past, &whole),
    ] {
        let turn = turn(kernel as *const ());
        // Two vectors of 16 bytes, at an offset that counts in vectors.
        let moved = |name: &str, base: u32| -> Vec<u32> {
            let of = turn.iter().filter(|next| next.name() == name && next.register(5) == base);
            of.map(|next| (next.word >> 15 & 0x7f) * 16).collect()
        };
        assert_eq!((&moved(load, 9), &moved(store, 10)), (loads, stores));
        let (moves, end) = turn.split_at(loads.len() + stores.len());
        assert!(moves.iter().all(|next| [load, store].contains(&next.name())) && begins_block(&turn, 64));
        assert_eq!(names(end), "2 add constant, 1 subs, 1 branch");
        assert!(end[..2].iter().all(|next| next.constant() == BLOCK));
        let barrier = Instruction::at(end[3].place.wrapping_add(1)).name() == "dmb ishst";
        assert_eq!(barrier, store == past, "the end of a pass");
    }
}

#[test]
fn each_operation_of_a_placed_loop_enters_the_kernel_once() {
    for &piece in PIECES {
        let code: Vec<Instruction> =
            piece.code().as_chunks::<4>().0.iter().map(|word| Instruction::at(word.as_ptr().cast())).collect();
        let entries = code.iter().filter(|next| ["svc", "call of address"].contains(&next.name())).count();
        let operation = [Piece::Call, Piece::Function, Piece::Wake, Piece::Wait, Piece::Ring].contains(&piece);
        assert_eq!(entries, usize::from(operation), "{piece:?}");
        let barriers = code.iter().filter(|next| ["isb", "dmb ishst", "counter"].contains(&next.name())).count();
        assert_eq!(barriers, 0, "{piece:?}");
        // A loop without its operations skips all of the piece but the step to the next one.
        if operation {
            let last = code[code.len() - 1];
            assert_eq!((code[1].target(), last.name()), (last.place, "add constant"), "{piece:?}");
        }
    }
    let from = |piece: Piece| piece.code().len() / 4;
    assert_eq!([Piece::Call, Piece::Function, Piece::Wake].map(from), [11, 8, 12]);
}

#[test]
fn a_loop_branches_back_to_its_beginning() {
    for distance in [4, 400, 40_000] {
        let code = branch_back(distance);
        let word = u32::from_le_bytes(code.try_into().unwrap());
        let branch = Instruction { place: std::ptr::null(), word };
        assert_eq!((branch.name(), word & 15, branch.distance(5, 19)), ("branch", 1, -(distance as isize)));
    }
    assert_eq!(NOTHING, 0xd503_201f_u32.to_le_bytes());
}

#[test]
fn random_branches_are_alike() {
    let start = random_branches as *const u32;
    let first = up_to(start, |next| next.name() == "madd").len() - 1;
    for block in 0..RANDOM_BRANCHES as usize {
        let at = |index: usize| Instruction::at(start.wrapping_add(first + 4 * block + index));
        assert_eq!(names(&[0, 1, 2, 3].map(at)), "1 madd, 1 branch on bit, 2 nop");
        assert_eq!(at(1).distance(5, 14), 8);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "builds without optimisation call what others have in place")]
fn an_interval_contains_its_work_alone() {
    #[inline(never)]
    extern "C" fn interval() -> i64 {
        let start = opening();
        stamp().ticks - start.ticks
    }
    let is_counter = |next: Instruction| next.name() == "counter";
    let before = up_to((interval as *const ()).cast(), is_counter);
    let start = before[before.len() - 1].place;
    let within = up_to(start.wrapping_add(1), is_counter);
    let after = within[within.len() - 1].place.wrapping_add(1);
    // The CPU number is read outside, by a call.
    assert!(within.iter().all(|next| !["call", "svc"].contains(&next.name())), "{}", names(&within));
    let ends = [before[before.len() - 2], within[0], within[within.len() - 2], Instruction::at(after)];
    assert_eq!(ends.map(Instruction::name), ["isb"; 4]);
}
