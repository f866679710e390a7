//! What users type for an experiment or a chapter: its identifier, the unique half of one, or a word of the field.

use super::{Experiment, TABLE, chapters};

/// Words of the field, and the chapter that each selects.
const CHAPTERS: &[(&str, &str)] = &[
    ("disk", "file"),
    ("io", "file"),
    ("storage", "file"),
    ("mem", "memory"),
    ("numa", "memory"),
    ("ram", "memory"),
    ("net", "network"),
    ("socket", "network"),
    ("tcp", "network"),
    ("udp", "network"),
    ("kernel", "os"),
];

/// The experiment with an identifier, or those of a chapter.
fn named(name: &str) -> Vec<&'static Experiment> {
    TABLE.iter().copied().filter(|experiment| experiment.id == name || experiment.chapter() == name).collect()
}

/// Whether a word is the identifier of an experiment, or a chapter.
pub fn is_exact(word: &str) -> bool {
    !named(word).is_empty()
}

/// The experiments that a word selects. None where nothing or more than one has that name.
pub fn selected(word: &str) -> Option<Vec<&'static Experiment>> {
    let word = word.to_lowercase().replace(['-', ' '], "_");
    let found = named(&word);
    if !found.is_empty() {
        return Some(found);
    }
    let halves: Vec<_> = TABLE.iter().copied().filter(|experiment| half(experiment.id) == word).collect();
    if halves.len() == 1 {
        return Some(halves);
    }
    if let Some(found) = TABLE.iter().find(|experiment| experiment.words.contains(&word.as_str())) {
        return Some(vec![*found]);
    }
    CHAPTERS.iter().find(|(other, _)| *other == word).map(|(_, chapter)| named(chapter))
}

/// Up to three names that resemble a word, the most similar first.
pub fn like(word: &str) -> Vec<&'static str> {
    let words =
        TABLE.iter().flat_map(|experiment| experiment.words).copied().chain(CHAPTERS.iter().map(|(word, _)| *word));
    let names = TABLE.iter().map(|experiment| experiment.id).chain(chapters());
    let near = |name: &str| strsim::jaro_winkler(name, word);
    let of_names = names.map(|name| (near(name).max(near(half(name))), name));
    // Words are short, and resemble anything a little: one letter may be wrong, or two may have changed places.
    let of_words = words.filter(|other| strsim::osa_distance(other, word) <= 1).map(|other| (1.0, other));
    let mut found: Vec<(f64, &str)> = of_names.filter(|(likeness, _)| *likeness > 0.7).chain(of_words).collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.into_iter().map(|(_, name)| name).take(3).collect()
}

/// The second half of an identifier, which may be all that a user knows.
fn half(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, half)| half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_field_select_experiments() {
        for (typed, expected) in [
            ("context-switch", "os.context_switch"),
            ("context_switch", "os.context_switch"),
            ("syscall", "os.system_call"),
            ("System-Call", "os.system_call"),
            ("fork", "os.process_creation"),
            ("tlb", "memory.latency"),
            ("timer", "cpu.timer"),
        ] {
            let found: Vec<&str> = selected(typed).unwrap().iter().map(|experiment| experiment.id).collect();
            assert_eq!(found, [expected], "{typed}");
        }
        assert!(selected("disk").unwrap().iter().all(|experiment| experiment.chapter() == "file"));
        // Two experiments have this second half: a user must choose.
        assert!(selected("bandwidth").is_none() && selected("xyzzy").is_none() && selected("").is_none());
    }

    #[test]
    fn a_mistyped_word_resembles_the_word() {
        for (typed, expected) in [("tbl", "tlb"), ("sycall", "syscall"), ("os.sytem_call", "os.system_call")] {
            assert!(like(typed).contains(&expected), "{typed}: {:?}", like(typed));
        }
    }

    #[test]
    fn each_word_is_needed_and_selects_one_thing() {
        let of_experiments = TABLE.iter().flat_map(|experiment| experiment.words).copied();
        let mut words: Vec<&str> = of_experiments.chain(CHAPTERS.iter().map(|(word, _)| *word)).collect();
        for word in &words {
            assert!(!is_exact(word) && TABLE.iter().all(|found| half(found.id) != *word), "{word} is a name");
            assert!(selected(word).is_some_and(|found| !found.is_empty()), "{word} selects nothing");
        }
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all, "a word selects one thing");
    }
}
