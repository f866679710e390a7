//! What takes memory back before it is short: what is cached then shrinks although memory is free.
//!
//! Programs that write to `memory.reclaim` of a control group leave a count in `/proc/vmstat` and no name.

use super::fact::Fact;
use super::tree::Tree;
use super::wording::bytes;

const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const MODULES: &str = "/sys/module";

/// Everything that the kernel shows, in words with their sources.
pub(super) fn read(tree: &Tree) -> Vec<Fact<String>> {
    let mut found: Vec<Fact<String>> =
        tree.numbered(DAMON, "").into_iter().flat_map(|number| schemes(tree, &format!("{DAMON}/{number}"))).collect();
    found.extend(module(tree));
    if found.is_empty() {
        found.extend(thread(tree));
    }
    found.extend(asked_for(tree));
    found
}

/// The schemes of a monitoring thread that page memory out. Only root can read them.
fn schemes(tree: &Tree, monitor: &str) -> Vec<Fact<String>> {
    if tree.trimmed(&format!("{monitor}/state")).as_deref() != Some("on") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let contexts = format!("{monitor}/contexts");
    for context in tree.numbered(&contexts, "") {
        let context = format!("{contexts}/{context}");
        let interval = number(tree, &format!("{context}/monitoring_attrs/intervals/aggr_us"));
        let schemes = format!("{context}/schemes");
        for scheme in tree.numbered(&schemes, "") {
            let scheme = format!("{schemes}/{scheme}");
            if tree.trimmed(&format!("{scheme}/action")).as_deref() != Some("pageout") {
                continue;
            }
            let age = number(tree, &format!("{scheme}/access_pattern/age/min"));
            let idle = interval.zip(age).map(|(interval, age)| interval.saturating_mul(age) as f64 / 1e6);
            let most = number(tree, &format!("{scheme}/quotas/bytes"));
            let span = number(tree, &format!("{scheme}/quotas/reset_interval_ms"));
            found.push(Fact::new(paged_out(idle, most, span), scheme));
        }
    }
    found
}

/// The same for the whole machine, as a module of the kernel.
fn module(tree: &Tree) -> Option<Fact<String>> {
    let place = format!("{MODULES}/damon_reclaim/parameters");
    let enabled = tree.trimmed(&format!("{place}/enabled"))?;
    let of = |name: &str| number(tree, &format!("{place}/{name}"));
    let idle = of("min_age").map(|microseconds| microseconds as f64 / 1e6);
    let text = paged_out(idle, of("quota_sz"), of("quota_reset_interval_ms"));
    (enabled == "Y").then(|| Fact::new(text, place.as_str()))
}

fn paged_out(idle_seconds: Option<f64>, most_bytes: Option<u64>, span_milliseconds: Option<u64>) -> String {
    let mut text = match idle_seconds {
        Some(seconds) => format!("DAMON pages out data that was not used for {seconds} s"),
        None => "DAMON pages out rarely used data".to_owned(),
    };
    // A quota of none does not limit anything.
    if let Some((most, span)) = most_bytes.filter(|&most| most > 0).zip(span_milliseconds) {
        text += &format!(", at most {} in {} s", bytes(most), span as f64 / 1e3);
    }
    text
}

/// A monitoring thread, for users who may not read what it does.
fn thread(tree: &Tree) -> Option<Fact<String>> {
    const NAME: &str = "kdamond";
    if tree.text(&format!("{DAMON}/0/state")).is_some() {
        // It could be read, and nothing that it does takes memory back.
        return None;
    }
    tree.numbered("/proc", "").into_iter().find_map(|process| {
        let name = tree.fact(&format!("/proc/{process}/comm"))?;
        let text = |name: String| format!("DAMON runs ({name}), and only root can read whether it pages memory out");
        name.value.starts_with(NAME).then(|| name.map(text))
    })
}

/// Reclaim that programs asked for since boot.
fn asked_for(tree: &Tree) -> Option<Fact<String>> {
    const COUNTS: &str = "/proc/vmstat";
    let text = tree.text(COUNTS)?;
    let pages: u64 = text.lines().find_map(|line| line.strip_prefix("pgsteal_proactive "))?.trim().parse().ok()?;
    let words = format!("programs requested reclaim (memory.reclaim): {pages} pages since boot");
    (pages > 0).then(|| Fact::new(words, format!("{COUNTS} pgsteal_proactive")))
}

fn number(tree: &Tree, path: &str) -> Option<u64> {
    tree.parsed(path).map(|fact| fact.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let keep = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = keep.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        read(&Tree::at(keep.path())).into_iter().map(|fact| fact.value).collect()
    }

    #[test]
    fn a_scheme_that_pages_out_is_named_while_its_thread_runs() {
        let scheme = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0";
        let intervals = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/monitoring_attrs/intervals/aggr_us";
        let of = |state: &str, action: &str| {
            found(&[
                ("/sys/kernel/mm/damon/admin/kdamonds/0/state", state),
                (&format!("{scheme}/action"), action),
                (&format!("{scheme}/access_pattern/age/min"), "12\n"),
                (&format!("{scheme}/quotas/bytes"), "2147483648\n"),
                (&format!("{scheme}/quotas/reset_interval_ms"), "1000\n"),
                (intervals, "5000000\n"),
                ("/proc/77/comm", "kdamond.0\n"),
            ])
        };
        assert_eq!(of("on\n", "pageout\n"), ["DAMON pages out data that was not used for 60 s, at most 2 GiB in 1 s"]);
        assert_eq!(of("off\n", "pageout\n"), [""; 0]);
        assert_eq!(of("on\n", "stat\n"), [""; 0]);
    }

    #[test]
    fn the_module_a_hidden_thread_and_requests_are_named() {
        let module = "/sys/module/damon_reclaim/parameters";
        let on = found(&[(&format!("{module}/enabled"), "Y\n"), (&format!("{module}/min_age"), "120000000\n")]);
        assert_eq!(on, ["DAMON pages out data that was not used for 120 s"]);
        assert_eq!(found(&[(&format!("{module}/enabled"), "N\n")]), [""; 0]);
        let hidden = found(&[("/proc/1/comm", "init\n"), ("/proc/77/comm", "kdamond.0\n")]);
        assert_eq!(hidden, ["DAMON runs (kdamond.0), and only root can read whether it pages memory out"]);
        let asked = found(&[("/proc/vmstat", "pgfree 1\npgsteal_proactive 12\n")]);
        assert_eq!(asked, ["programs requested reclaim (memory.reclaim): 12 pages since boot"]);
        assert_eq!(found(&[("/proc/vmstat", "pgsteal_proactive 0\n")]), [""; 0]);
    }
}
