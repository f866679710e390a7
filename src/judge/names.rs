//! What a number can be called: plain names, and metrics with the labels that their results have. And what was meant by another word.

use crate::experiments::own_predictions::named_figures;
use crate::experiments::{TABLE, costs};
use crate::results::compact::Compact;
use crate::results::published::Published;
use crate::results::quantity::Labels;
use crate::setup::Setup;

/// Names that resemble an unknown one are shown from this likeness on.
const LIKE: f64 = 0.75;
/// The same for a value of a label, which is one short word.
const LIKE_A_VALUE: f64 = 0.93;
/// Two words of which no letter differs.
const SAME: f64 = 0.999;
/// Names that resemble it by this less than the best one are not shown.
const BEHIND: f64 = 0.05;
/// Most names that are shown.
const MOST_SHOWN: usize = 3;

/// A plain name with its metric and labels.
type Plain = (String, String, Labels);

/// All names.
pub struct Names {
    /// Those of the usual costs, and those of published results.
    plain: Vec<Plain>,
    /// Figures of this machine and of the run, by metric and labels.
    figures: Vec<(String, Labels)>,
    /// Whether other machines can have figures that are not here.
    is_elsewhere: bool,
}

impl Names {
    /// The names of this machine, as far as it is described, and of a run.
    pub fn of(setup: Option<&Setup>, run: &Compact, is_elsewhere: bool) -> Self {
        let plain = plain();
        let of_run = run.experiments.iter().flat_map(|experiment| &experiment.metrics).flat_map(|metric| {
            metric.figures.iter().filter_map(|figure| Some((metric.name.clone(), Labels::parse(&figure.labels)?)))
        });
        let mut figures: Vec<(String, Labels)> = of_run.collect();
        figures.extend(setup.map(named_figures).unwrap_or_default());
        figures.extend(plain.iter().map(|(_, metric, labels)| (metric.clone(), labels.clone())));
        Names { plain, figures, is_elsewhere }
    }

    /// Whether it is a plain name.
    pub fn is_plain(&self, name: &str) -> bool {
        self.plain.iter().any(|(found, ..)| found.eq_ignore_ascii_case(name))
    }

    /// The metric and the labels behind a name: a metric with or without labels, a short name, or the name of a published result.
    pub fn figure(&self, name: &str) -> Result<(String, Labels), String> {
        let (metric, labels) = name.split_once(' ').unwrap_or((name, ""));
        if TABLE.iter().any(|experiment| experiment.publication(metric).is_some())
            && let Some(labels) = Labels::parse(labels)
        {
            return Ok((metric.to_owned(), labels));
        }
        let is = |found: &&Plain| found.0.eq_ignore_ascii_case(name);
        if let Some((_, metric, labels)) = self.plain.iter().find(is) {
            return Ok((metric.clone(), labels.clone()));
        }
        Err(format!("'{name}' is not a known name{}", meant(self.like(name))))
    }

    /// Refuses a label that no result of a metric has. Values with digits are sizes and counts, which machines have in any number.
    pub fn check(&self, metric: &str, labels: &Labels) -> Result<(), String> {
        let known: Vec<&Labels> =
            self.figures.iter().filter(|(found, _)| found == metric).map(|(_, found)| found).collect();
        if known.is_empty() {
            return Ok(());
        }
        for (key, value) in labels.pairs() {
            let values: Vec<&str> = known.iter().filter_map(|labels| labels.get(key)).collect();
            let is_size = value.starts_with(|letter: char| letter.is_ascii_digit());
            if values.contains(&value) || is_size && !values.is_empty() {
                continue;
            }
            let near = if values.is_empty() {
                let keys = known.iter().flat_map(|labels| labels.pairs().map(|(key, _)| key));
                keys.map(|found| (likeness(found, key), format!("{found}={value}"))).collect()
            } else {
                values.iter().map(|found| (likeness(found, value), format!("{key}={found}"))).collect()
            };
            let near = best(near, LIKE);
            if self.is_elsewhere && near.is_empty() {
                continue;
            }
            return Err(format!("{metric} has no {key}={value}{}", meant(near)));
        }
        Ok(())
    }

    /// Names that are like another word: plain names, metrics, and values of labels.
    fn like(&self, name: &str) -> Vec<String> {
        let plain = self.plain.iter().map(|(found, ..)| (likeness(found, name), found.clone()));
        let mut found: Vec<(f64, String)> = plain.filter(|(like, _)| *like > LIKE).collect();
        let (first, labels) = name.split_once(' ').unwrap_or((name, ""));
        let in_one_word = name.replace([' ', '-'], "_");
        for metric in TABLE.iter().flat_map(|experiment| experiment.publishes).map(|publication| publication.metric) {
            let of_a_part = metric.split('.').map(|part| likeness(part, &in_one_word)).fold(0.0, f64::max);
            // What resembles a part of a metric is mostly a plain name.
            if of_a_part > SAME {
                found.push((of_a_part, metric.to_owned()));
            }
            if first.contains('.') && likeness(metric, first) > LIKE_A_VALUE {
                found.push((likeness(metric, first), format!("{metric} {labels}").trim().to_owned()));
            }
        }
        for (metric, labels) in &self.figures {
            let pairs = labels.pairs().map(|(key, value)| (likeness(value, &in_one_word), key, value));
            let pairs = pairs.filter(|(like, ..)| *like > LIKE_A_VALUE);
            found.extend(pairs.map(|(like, key, value)| (like, format!("{metric} {key}={value}"))));
        }
        best(found, LIKE)
    }
}

/// How alike two words are, 1 where they are the same.
fn likeness(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(&one.to_lowercase(), &other.to_lowercase())
}

/// Those that are most alike, each once.
fn best(mut found: Vec<(f64, String)>, least: f64) -> Vec<String> {
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let most = found.first().map_or(0.0, |(like, _)| *like);
    let mut names: Vec<String> = Vec::new();
    for (like, name) in found {
        if like > least && like >= most - BEHIND && !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(MOST_SHOWN);
    names
}

/// The end of a sentence on something unknown.
fn meant(names: Vec<String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("'{name}'")).collect();
    if names.is_empty() { String::new() } else { format!(". Did you mean {}?", names.join(" or ")) }
}

/// Every plain name with its metric and labels.
fn plain() -> Vec<Plain> {
    let of_costs = costs::asked().map(|asked| {
        let labels = asked.figure.pairs().fold(Labels::none(), |labels, (key, value)| labels.with(key, value));
        (asked.name.to_owned(), asked.figure.metric().to_owned(), labels)
    });
    let groups = Published::embedded().groups;
    let of_groups = groups.into_iter().filter_map(|group| Some((group.id, group.title, group.metric?, group.labels)));
    let both = of_groups
        .flat_map(|(id, title, metric, labels)| [id, title].map(|name| (name, metric.clone(), labels.clone())));
    of_costs.chain(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(is_elsewhere: bool) -> Names {
        let run = include_bytes!("../../records/guest-golden-cove-2cpu-searches/node.json");
        Names::of(None, &Compact::parse(run).unwrap(), is_elsewhere)
    }

    #[test]
    fn a_word_that_is_no_name_is_answered_with_names_that_can_be_written() {
        let names = names(false);
        for (word, expected) in [
            ("getppid", "'os.system_call.time call=getppid'"),
            ("pipe", "through=pipe'"),
            ("context switch", "'os.context_switch.time'"),
            ("sytem call", "'system call'"),
            ("fork+wait", "'fork + wait'"),
            ("os.system_cal.time call=getcwd", "'os.system_call.time call=getcwd'"),
        ] {
            let said = names.figure(word).unwrap_err();
            assert!(said.contains("Did you mean '") && said.contains(expected), "{said}");
            for meant in said.split('\'').skip(3).step_by(2) {
                assert!(names.figure(meant).is_ok(), "{meant}");
            }
        }
        assert!(!names.figure("getppid").unwrap_err().contains("getcwd"));
        assert!(!names.figure("qwertz").unwrap_err().contains("Did you mean"));
        for asked in costs::asked() {
            let (metric, labels) = names.figure(asked.name).unwrap();
            names.check(&metric, &labels).unwrap();
        }
    }

    #[test]
    fn labels_that_no_result_has_are_refused() {
        let check = |names: &Names, text: &str| {
            let (metric, labels) = names.figure(text).unwrap();
            names.check(&metric, &labels)
        };
        let here = names(false);
        for (text, expected) in [
            ("os.system_call.time call=getpidd", "has no call=getpidd. Did you mean 'call=getpid'"),
            ("os.system_call.time cal=getpid", "has no cal=getpid. Did you mean 'call=getpid'?"),
            ("os.context_switch.time between=qwertz", "has no between=qwertz"),
        ] {
            let said = check(&here, text).unwrap_err();
            assert!(said.contains(expected), "{said}");
        }
        for text in
            ["os.system_call.time call=getpid", "cpu.procedure_call.time args=99", "memory.latency.level level=L2"]
        {
            assert_eq!(check(&here, text), Ok(()));
        }
        let elsewhere = names(true);
        assert!(check(&elsewhere, "os.system_call.time call=getpidd").is_err());
        assert_eq!(check(&elsewhere, "os.context_switch.time placement=qwertz"), Ok(()));
    }
}
