//! Names of nodes as lists that people and schedulers write: `n[1-4,7]`.

use std::collections::BTreeMap;

use crate::machine::engine::is_node_name;

/// Most names that a single list stands for. A corrupt range must not become thousands of millions of names.
const MOST_NAMES: usize = 1 << 20;

/// Names as one list. Names that differ in the last number only share brackets.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut plain: Vec<&str> = Vec::new();
    // Prefix and suffix of the number, and its width where it has leading zeros.
    let mut numbered: BTreeMap<(&str, &str, usize), Vec<u64>> = BTreeMap::new();
    for name in names {
        match split(name) {
            Some((before, digits, after)) => {
                let width = if digits.starts_with('0') { digits.len() } else { 0 };
                numbered.entry((before, after, width)).or_default().push(digits.parse().unwrap_or_default());
            }
            None => plain.push(name),
        }
    }
    // A number as long as those with zeros has none left to lead it: n099 and n100 are of one kind.
    let padded: Vec<_> = numbered.keys().filter(|(.., width)| *width > 0).copied().collect();
    for key in padded {
        let Some(numbers) = numbered.remove(&(key.0, key.1, 0)) else { continue };
        let (alike, other) = numbers.into_iter().partition(|number| number.to_string().len() == key.2);
        numbered.insert((key.0, key.1, 0), other);
        numbered.entry(key).or_default().extend::<Vec<u64>>(alike);
    }
    numbered.retain(|_, numbers| !numbers.is_empty());
    let mut parts: Vec<String> = plain.into_iter().map(str::to_owned).collect();
    parts.sort();
    parts.dedup();
    for ((before, after, width), mut numbers) in numbered {
        numbers.sort_unstable();
        numbers.dedup();
        let ranges: Vec<String> = ranges(&numbers).into_iter().map(|range| written(range, width)).collect();
        let alone = numbers.len() == 1;
        let inside = ranges.join(",");
        parts.push(if alone { format!("{before}{inside}{after}") } else { format!("{before}[{inside}]{after}") });
    }
    parts.join(",")
}

/// The last number of a name, with what is before and after it.
fn split(name: &str) -> Option<(&str, &str, &str)> {
    let end = name.rfind(|letter: char| letter.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |last| last + 1);
    // Longer numbers are no counters.
    (end - start <= 18).then(|| (&name[..start], &name[start..end], &name[end..]))
}

fn ranges(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

fn written((first, last): (u64, u64), width: usize) -> String {
    if first == last { format!("{first:0width$}") } else { format!("{first:0width$}-{last:0width$}") }
}

/// The names of a list; why not, if it is none.
pub fn unfold(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in parts(list)? {
        unfold_part(part, &mut names)?;
        if names.len() > MOST_NAMES {
            return Err(format!("it has more than {MOST_NAMES} names"));
        }
    }
    match names.iter().find(|name| !is_node_name(name)) {
        Some(wrong) => Err(format!("'{wrong}' is not a node name: use letters, digits, dots, dashes and underscores")),
        None => Ok(names),
    }
}

/// The parts between commas and white space that are outside brackets.
fn parts(list: &str) -> Result<Vec<&str>, String> {
    let (mut inside, mut start, mut parts) = (false, 0, Vec::new());
    for (place, letter) in list.char_indices() {
        match letter {
            '[' if inside => return Err(format!("'{list}' has brackets inside brackets")),
            '[' => inside = true,
            ']' if !inside => return Err(format!("'{list}' closes a bracket that is not open")),
            ']' => inside = false,
            _ if !inside && (letter == ',' || letter.is_whitespace()) => {
                parts.push(&list[start..place]);
                start = place + letter.len_utf8();
            }
            _ => {}
        }
    }
    if inside {
        return Err(format!("'{list}' has a bracket that is not closed"));
    }
    parts.push(&list[start..]);
    Ok(parts.into_iter().filter(|part| !part.is_empty()).collect())
}

fn unfold_part(part: &str, names: &mut Vec<String>) -> Result<(), String> {
    let Some((before, rest)) = part.split_once('[') else {
        names.push(part.to_owned());
        return Ok(());
    };
    let (inside, after) = rest.split_once(']').ok_or_else(|| format!("'{part}' has a bracket that is not closed"))?;
    if after.contains('[') {
        return Err(format!("'{part}' has two brackets, and one is read"));
    }
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.len() <= 18 && text.bytes().all(|digit| digit.is_ascii_digit());
            digits.then(|| text.parse::<u64>().ok()).flatten().ok_or_else(|| format!("'{range}' is not a range"))
        };
        let (from, to) = (number(first)?, number(last)?);
        if from > to || (to - from) as usize >= MOST_NAMES || names.len() > MOST_NAMES {
            return Err(format!("'{range}' is not a range of at most {MOST_NAMES} names"));
        }
        let width = if first.starts_with('0') { first.len() } else { 0 };
        names.extend((from..=to).map(|number| format!("{before}{number:0width$}{after}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_folded() {
        assert_eq!(fold(["n1", "n2", "n3", "n4", "n7"]), "n[1-4,7]");
        assert_eq!(fold(["n09", "n10", "n11"]), "n[09-11]");
        assert_eq!(fold(["n231", "n018", "n5", "n099", "n100"]), "n5,n[018,099-100,231]");
        assert_eq!(fold(["n001", "n002", "login", "n003"]), "login,n[001-003]");
        assert_eq!(fold(["r1-n1.x", "r1-n2.x", "r2-n1.x"]), "r1-n[1-2].x,r2-n1.x");
        assert_eq!(fold([]), "");
    }

    #[test]
    fn lists_are_unfolded() {
        assert_eq!(unfold("n[1-3,7] login\nm08").unwrap(), ["n1", "n2", "n3", "n7", "login", "m08"]);
        assert_eq!(unfold("n[08-10].x").unwrap(), ["n08.x", "n09.x", "n10.x"]);
        for wrong in ["n[1-3", "n1]", "n[3-1]", "n[0-99999999999]", "n[a]", "n[[1]]", "a;b", "-x", "../x", "n[1][2]"] {
            assert!(unfold(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_folded_unfolds_to_the_same(numbers in prop::collection::btree_set(0_u32..200, 0..40), width in 0_usize..4) {
            let mut names: Vec<String> = numbers.iter().map(|number| format!("c{number:0width$}x")).collect();
            let mut found = unfold(&fold(names.iter().map(String::as_str))).unwrap();
            names.sort();
            found.sort();
            prop_assert_eq!(names, found);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[n0-9,\\[\\] .-]{0,40}") {
            if let Ok(names) = unfold(&text) {
                prop_assert!(names.iter().all(|name| is_node_name(name)));
            }
        }
    }
}
