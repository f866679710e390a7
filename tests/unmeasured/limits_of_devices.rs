//! What the machine sets on the way of a measurement: a stored run on another file system, a throttled device, a shaped interface.

use std::path::Path;
use std::sync::OnceLock;

use sysdyno::testing::assemble;
use sysdyno::testing::report::{content, text};
use sysdyno::testing::results::document::{Document, Metric};
use sysdyno::testing::results::log::{self, Log};

/// A run of every chapter.
fn record() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/guest-golden-cove-2cpu/log.jsonl");
        log::read(&place).unwrap()
    })
}

/// A stored run whose machine was another one, as its log would have it.
fn on(change: impl Fn(&mut serde_json::Value)) -> Document {
    let mut machine = serde_json::to_value(&record().machine).unwrap();
    change(&mut machine);
    let log = Log { machine: serde_json::from_value(machine).unwrap(), ..record().clone() };
    assemble::document(&log)
}

fn with_limit(work: &str, per_second: u64) -> Document {
    on(|machine| {
        let limit = serde_json::json!([{ "work": work, "per_second": per_second, "source": "io.max" }]);
        machine["storage"][0]["device"]["limits"] = limit;
    })
}

fn metric<'a>(document: &'a Document, name: &str, pairs: &[&str]) -> &'a Metric {
    let fits =
        |metric: &&Metric| metric.name == name && pairs.iter().all(|pair| metric.labels.to_string().contains(pair));
    document.metrics().find(fits).unwrap()
}

/// Evidence of the gates of a result that failed.
fn failed(metric: &Metric) -> String {
    metric
        .verdict
        .gates
        .iter()
        .filter(|gate| !gate.pass)
        .map(|gate| gate.evidence.clone())
        .collect::<Vec<_>>()
        .join("; ")
}

/// The whole report, without line breaks.
fn report(document: &Document) -> String {
    text::render(&content::page(document), None).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_caveat_of_the_file_system_reaches_the_reader() {
    let bent = on(|machine| {
        machine["storage"][0]["mount"]["file_system"]["value"] = "btrfs".into();
        machine["storage"][0]["mount"]["options"] = "rw,compress-force=zstd:3".into();
    });
    let text = report(&bent);
    let told = "The test files are on btrfs: the file system may compress what it stores.";
    let sections = bent.experiments.iter().filter(|section| section.id.starts_with("file."));
    let telling = sections.filter(|section| format!("{:?}", section.analysis).contains(told)).count();
    assert!(telling >= 2, "{telling} sections");
    assert!(text.contains("may compress what it stores"));
    assert!(!report(&on(|_| ())).contains("may compress what it stores"));
}

#[test]
fn a_limit_of_the_device_is_named_where_it_binds_and_where_a_burst_hid_it() {
    let labels = ["order=random", "cache=direct", "bytes=67108864"];
    let free = on(|_| ());
    let time = metric(&free, "file.read.block_time", &labels).value;
    let reads = 1e9 / time;
    for (limit, words) in [(0.1, "hid the limit"), (1.05, "sets this rate"), (5.0, "")] {
        let document = with_limit("reads", (reads * limit) as u64);
        let found = failed(metric(&document, "file.read.block_time", &labels));
        assert_eq!(found.contains("io.max"), !words.is_empty(), "{limit}: {found}");
        assert!(found.contains(words), "{limit}: {found}");
        assert!(report(&document).contains("The device has a limit of"));
    }
    let bytes = metric(&free, "file.read.rate", &["order=sequential", "cache=direct", "bytes=67108864"]).value;
    let document = with_limit("read_bytes", bytes as u64);
    let found = failed(metric(&document, "file.read.rate", &["order=sequential", "cache=direct", "bytes=67108864"]));
    assert!(found.contains("sets this rate"), "{found}");
    let written = with_limit("writes", 1);
    assert!(!failed(metric(&written, "file.read.block_time", &labels)).contains("io.max"), "reads write nothing");
}

#[test]
fn a_shaper_on_the_path_is_named() {
    let shaped = |bits: Option<u64>| {
        on(|machine| {
            for interface in machine["network"].as_array_mut().unwrap() {
                interface["shaper"] = serde_json::json!({ "kind": "tbf", "bits_per_second": bits });
            }
        })
    };
    let rate = |document: &Document| {
        let found = document.metrics().find(|metric| metric.name == "network.bandwidth.rate").unwrap();
        (found.value, failed(found))
    };
    let (free, _) = rate(&on(|_| ()));
    assert!(rate(&shaped(Some((free * 8.0) as u64))).1.contains("tbf on lo"));
    assert!(rate(&shaped(Some((free * 0.8) as u64))).1.contains("hid the limit"));
    assert_eq!(rate(&shaped(None)).1, rate(&on(|_| ())).1);
    let text = report(&shaped(None));
    assert!(text.contains("A shaper holds packets of this machine back"));
}

#[test]
fn a_rate_near_the_peak_of_the_channels_is_a_doubt_and_no_refusal() {
    let with_peak = |peak: f64| {
        on(|machine| {
            machine["memory"]["peak_bytes_per_second"] = serde_json::json!({ "value": peak as u64, "source": "names" });
        })
    };
    let dram = ["level=DRAM", "operation=read", "threads=1"];
    let own = metric(&on(|_| ()), "memory.bandwidth.rate", &dram).value;
    assert!(!failed(metric(&with_peak(1.1 * own), "memory.bandwidth.rate", &dram)).contains("names"));
    // As if two of twelve channels were not counted.
    let near = with_peak(own / 1.2);
    assert!(failed(metric(&near, "memory.bandwidth.rate", &dram)).contains("names"));
    let far = with_peak(own / 2.5);
    let is_dram = |metric: &&Metric| dram.iter().all(|pair| metric.labels.to_string().contains(pair));
    let rates = far.metrics().filter(|metric| metric.name == "memory.bandwidth.rate");
    assert_eq!(rates.filter(is_dram).filter(|metric| metric.labels.get("pages").is_none()).count(), 0);
}
