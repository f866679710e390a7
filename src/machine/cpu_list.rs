//! Lists of CPU numbers as the kernel writes them: `0-3,8`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One more than the highest CPU number that is believed. The kernel's own limit (NR_CPUS) is 8192; a corrupt range such
/// as `0-4294967295` must not become four thousand million entries.
const CPU_NUMBER_LIMIT: u32 = 1 << 16;

/// CPU (or NUMA node) numbers, ascending and distinct; written `0-3,8` as in the kernel's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// The list of these numbers.
    pub fn of(numbers: impl IntoIterator<Item = u32>) -> CpuList {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        CpuList(numbers)
    }

    /// Reads the kernel's list format, the strided form `0-31:4/8` included; `None` when it is none. The empty text is
    /// the empty list (a NUMA node without CPUs).
    pub fn parse(text: &str) -> Option<CpuList> {
        let mut numbers = Vec::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (range, (used, group)) = match part.split_once(':') {
                Some((range, stride)) => {
                    let (used, group) = stride.split_once('/')?;
                    (range, (used.parse::<u32>().ok()?, group.parse::<u32>().ok()?))
                }
                None => (part, (1, 1)),
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
            if first > last || last >= CPU_NUMBER_LIMIT || group == 0 || used > group {
                return None;
            }
            numbers.extend((first..=last).filter(|number| (number - first) % group < used));
        }
        Some(CpuList::of(numbers))
    }

    /// Reads the kernel's mask format: hexadecimal words of 32 bits, the highest CPUs first (`3,00000000` is 32 and 33).
    pub fn parse_mask(text: &str) -> Option<CpuList> {
        const WORD_BITS: u32 = 32;
        const DIGIT_BITS: u32 = 4;
        const MOST_DIGITS: usize = (CPU_NUMBER_LIMIT / DIGIT_BITS) as usize;
        let words: Vec<&str> = text.trim().split(',').collect();
        if words.len() > (CPU_NUMBER_LIMIT / WORD_BITS) as usize {
            return None;
        }
        let mut numbers = Vec::new();
        for (position, word) in (0..).zip(words.iter().rev()) {
            let digits = word.trim();
            let digits = digits.strip_prefix("0x").unwrap_or(digits);
            // A mask of one long word stands alone.
            let most = if words.len() == 1 { MOST_DIGITS } else { (WORD_BITS / DIGIT_BITS) as usize };
            if digits.is_empty() || digits.trim_start_matches('0').len() > most {
                return None;
            }
            for (place, digit) in (0..).zip(digits.chars().rev()) {
                let bits = digit.to_digit(16)?;
                let set = (0..DIGIT_BITS).filter(|bit| bits >> bit & 1 == 1);
                numbers.extend(set.map(|bit| position * WORD_BITS + place * DIGIT_BITS + bit));
            }
        }
        Some(CpuList::of(numbers))
    }

    /// How many numbers are in the list.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when no number is in the list.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest number.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// True when this number is in the list.
    pub fn contains(&self, number: u32) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The numbers that are in this list and not in the other.
    #[must_use]
    pub fn without(&self, other: &CpuList) -> CpuList {
        CpuList(self.iter().filter(|number| !other.contains(*number)).collect())
    }

    /// The numbers that are in both lists.
    #[must_use]
    pub fn intersection(&self, other: &CpuList) -> CpuList {
        CpuList(self.iter().filter(|number| other.contains(*number)).collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut position = 0;
        while position < self.0.len() {
            let start = position;
            while position + 1 < self.0.len() && self.0[position + 1] == self.0[position] + 1 {
                position += 1;
            }
            write!(out, "{separator}{}", self.0[start])?;
            if position > start {
                write!(out, "-{}", self.0[position])?;
            }
            separator = ",";
            position += 1;
        }
        Ok(())
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> String {
        list.to_string()
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;

    fn try_from(text: String) -> Result<CpuList, String> {
        CpuList::parse(&text).ok_or_else(|| format!("not a CPU list: {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernels_formats_are_read() {
        for (text, numbers) in [
            ("0-3,8\n", vec![0, 1, 2, 3, 8]),
            ("", vec![]),
            ("5", vec![5]),
            ("8,0-1", vec![0, 1, 8]),
            ("0-15:2/8", vec![0, 1, 8, 9]),
        ] {
            assert_eq!(CpuList::parse(text), Some(CpuList::of(numbers)), "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["x", "3-1", "1-", "0-4294967295", "99999999999", "0-3:1", "0-3:1/0", "0-3:3/2"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_kernels_masks_are_read() {
        for (text, numbers) in [
            ("3\n", Some(vec![0, 1])),
            ("00000000,00000030", Some(vec![4, 5])),
            ("3,80000000", Some(vec![31, 32, 33])),
            ("0x10", Some(vec![4])),
            ("ff00000000", Some((32..40).collect())),
            (&"f".repeat(50), Some((0..200).collect())),
            ("1,000000001", Some(vec![0, 32])),
            ("0", Some(vec![])),
            ("", None),
            ("x", None),
            ("1,100000000", None),
        ] {
            assert_eq!(CpuList::parse_mask(text), numbers.map(CpuList::of), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_list_reads_back_what_it_writes(numbers in proptest::collection::vec(0u32..CPU_NUMBER_LIMIT, 0..40)) {
            let list = CpuList::of(numbers);
            prop_assert_eq!(CpuList::parse(&list.to_string()), Some(list));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = (CpuList::parse(&text), CpuList::parse_mask(&text));
        }
    }
}
