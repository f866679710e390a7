//! The table of experiments: every row is whole, every figure of the contract has its row, and the words that a user
//! reads are the words of the source file.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::runs::{output, text, told};
use crate::support::trees::{MACHINES, files, tree};
use sysdyno::testing::experiments::{self, Experiment, PredictionInput, TABLE, catalogue, constants};
use sysdyno::testing::machine;
use sysdyno::testing::results::prediction::Prediction;
use sysdyno::testing::results::quantity::{Labels, Unit};
use sysdyno::testing::results::remote::{NfsFile, Remote, RemoteDirectory};
use sysdyno::testing::setup::{Profile, Setup};

/// Headings of a methodology, in their order.
const HEADINGS: [&str; 5] = ["# Question", "# Method", "# Prediction", "# What could fool us", "# References"];

/// Metrics whose names do not begin with their experiment's: names that other programs rely on are not changed for order.
const NAMED_OTHERWISE: [(&str, &str); 2] =
    [("cpu.cycle_time", "cpu.frequency"), ("os.cache_line_transfer.time", "os.context_switch")];

/// Figures that other programs may rely on, with units and labels.
const PROMISED: &[(&str, Unit, &[&str])] = &[
    ("cpu.frequency.tsc", Unit::Hertz, &[]),
    ("cpu.frequency.core", Unit::Hertz, &[]),
    ("cpu.cycle_time", Unit::Nanoseconds, &[]),
    ("cpu.timer.overhead", Unit::Nanoseconds, &["method"]),
    ("cpu.timer.resolution", Unit::Nanoseconds, &["method"]),
    ("cpu.loop.overhead", Unit::Nanoseconds, &["code"]),
    ("cpu.procedure_call.time", Unit::Nanoseconds, &["args", "chain", "code"]),
    ("cpu.procedure_call.per_argument", Unit::Nanoseconds, &["chain", "code"]),
    ("cpu.procedure_call.seventh_argument", Unit::Nanoseconds, &["chain", "code"]),
    ("cpu.arithmetic.time", Unit::Nanoseconds, &["chain", "operation"]),
    ("cpu.sharing.share", Unit::One, &["beside", "state"]),
    ("cpu.sharing.stretch", Unit::Nanoseconds, &["beside", "state"]),
    ("os.system_call.time", Unit::Nanoseconds, &["call"]),
    ("os.process_creation.time", Unit::Nanoseconds, &["how", "resident"]),
    ("os.process_creation.per_page", Unit::Nanoseconds, &["how"]),
    ("os.container.time", Unit::Nanoseconds, &["new"]),
    ("os.thread_creation.time", Unit::Nanoseconds, &["how"]),
    ("os.context_switch.time", Unit::Nanoseconds, &["between", "placement", "through"]),
    ("os.context_switch.net", Unit::Nanoseconds, &["between", "placement", "through"]),
    ("os.context_switch.pipe_overhead", Unit::Nanoseconds, &[]),
    ("os.cache_line_transfer.time", Unit::Nanoseconds, &["placement"]),
    ("os.signal.time", Unit::Nanoseconds, &["how"]),
    ("os.channel.time", Unit::Nanoseconds, &["bytes", "through"]),
    ("os.poll.time", Unit::Nanoseconds, &["by", "descriptors"]),
    ("os.poll.per_descriptor", Unit::Nanoseconds, &["by"]),
    ("os.lock.time", Unit::Nanoseconds, &["what"]),
    ("os.scaling.time", Unit::Nanoseconds, &["what"]),
    ("os.sleep.oversleep", Unit::Nanoseconds, &["quantile", "requested", "slack"]),
    ("memory.bandwidth.rate", Unit::BytesPerSecond, &["level", "operation", "threads"]),
    ("memory.bandwidth.bus_rate", Unit::BytesPerSecond, &["level", "operation", "threads"]),
    ("memory.loaded_latency.time", Unit::Nanoseconds, &["load"]),
    ("memory.page_fault.time", Unit::Nanoseconds, &["kind"]),
    ("memory.page_fault.pages_per_fault", Unit::One, &["kind"]),
    ("memory.page_fault.first_touch", Unit::Nanoseconds, &["pages"]),
    ("memory.map.time", Unit::Nanoseconds, &["other_threads", "pages", "what"]),
    ("memory.shared_line.time", Unit::Nanoseconds, &["apart", "threads", "what"]),
    ("memory.shared_line.size", Unit::Bytes, &[]),
    ("network.round_trip.time", Unit::Nanoseconds, &["protocol", "path", "bytes", "pacing", "quantile"]),
    ("network.bandwidth.rate", Unit::BytesPerSecond, &["direction", "path", "streams"]),
    ("network.datagrams.rate", Unit::BytesPerSecond, &["bytes", "direction", "path"]),
    ("network.datagrams.delivered", Unit::One, &["bytes", "direction", "offered", "path", "to"]),
    ("network.datagrams.in_order", Unit::One, &["bytes", "direction", "path"]),
    ("network.connection.time", Unit::Nanoseconds, &["phase", "path"]),
    ("file.remote_read.block_time", Unit::Nanoseconds, &["bytes", "order", "via"]),
    ("file.remote_read.network_penalty", Unit::Nanoseconds, &["order", "via"]),
    ("memory.latency.level", Unit::Nanoseconds, &["level", "pages"]),
    ("memory.latency.level_size", Unit::Bytes, &["level"]),
    ("file.read.block_time", Unit::Nanoseconds, &["order", "cache", "bytes"]),
    ("file.read.rate", Unit::BytesPerSecond, &["order", "cache", "bytes"]),
    ("file.contention.block_time", Unit::Nanoseconds, &["order", "processes"]),
    ("file.contention.rate", Unit::BytesPerSecond, &["order", "processes"]),
    ("file.contention.per_reader", Unit::Nanoseconds, &["order"]),
    ("file.contention.knee", Unit::One, &["order"]),
    ("file.cache_size.bytes", Unit::Bytes, &["mode"]),
    ("file.metadata.time", Unit::Nanoseconds, &["how"]),
    ("file.write.time", Unit::Nanoseconds, &["how", "quantile"]),
    ("file.write.rate", Unit::BytesPerSecond, &["how", "bytes"]),
    ("gpu.launch.time", Unit::Nanoseconds, &["how"]),
    ("gpu.copy.time", Unit::Nanoseconds, &["direction", "memory", "bytes"]),
    ("gpu.copy.rate", Unit::BytesPerSecond, &["direction", "memory", "bytes"]),
];

/// Lower-case words joined by `_`, at least two of them joined by dots.
fn is_well_formed(name: &str) -> bool {
    let word = |part: &str| {
        part.starts_with(|letter: char| letter.is_ascii_lowercase())
            && part.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    };
    name.contains('.') && name.split('.').all(word)
}

/// The leading comment of a source file, read without the program's help.
fn leading_comment(source: &str) -> String {
    let lines = source.lines().take_while(|line| line.starts_with("//!"));
    lines.map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or_default().to_owned() + "\n").collect()
}

/// Files on another machine, as a run may have them.
fn remote() -> Remote {
    Remote {
        nfs: Some(NfsFile {
            url: "nfs://192.0.2.1/export/file".to_owned(),
            server: "192.0.2.1".to_owned(),
            port: 2049,
            mount_port: None,
            path: "/export/file".to_owned(),
            bytes: 64 << 20,
            longest_read: 1 << 16,
            local_address: "192.0.2.2".to_owned(),
            interface: Some("eth0".to_owned()),
            on_link: true,
        }),
        directory: Some(RemoteDirectory {
            directory: "/mnt/x".to_owned(),
            mount_point: "/mnt".to_owned(),
            file_system: "fuse.sshfs".to_owned(),
            options: "rw,max_read=65536".to_owned(),
            what: "host:/x".to_owned(),
        }),
    }
}

/// A run on one of the machines, on its last CPU.
fn setup(name: &str) -> Setup {
    let machine = machine::detect(&tree(name), Path::new("/home"));
    let allowed: Vec<u32> = machine.usable_cpus().iter().collect();
    let cpu = *allowed.last().unwrap();
    Setup { remote: Some(remote()), ..Setup::of(machine, cpu, allowed, Profile::Default) }
}

fn predictions(experiment: &Experiment, name: &str) -> Vec<Prediction> {
    experiment.predictions(&PredictionInput { setup: &setup(name), known: &[] })
}

/// Where the part between runs alone exceeds the target, no figure can be good, whatever is measured.
#[test]
fn every_class_of_precision_can_be_met() {
    let mut classes = 0;
    for path in files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let code = code.split_whitespace().collect::<Vec<&str>>().join(" ");
        for class in code.split("Precision { target: ").skip(1) {
            let fields =
                class.split('}').next().unwrap().split(|letter: char| !letter.is_ascii_digit() && letter != '.');
            let numbers: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
            // A class of other numbers than these gets them from records.
            let [target, between, busy] = numbers[..] else { continue };
            assert!(between.max(busy) <= target, "{}: {class}", path.display());
            classes += 1;
        }
    }
    assert!(classes >= TABLE.len(), "{classes} classes in the sources");
}

#[test]
fn identifiers_are_unique_and_well_formed() {
    let ids: BTreeSet<&str> = TABLE.iter().map(|experiment| experiment.id).collect();
    assert_eq!(ids.len(), TABLE.len());
    for experiment in TABLE {
        assert!(is_well_formed(experiment.id) && experiment.id.matches('.').count() == 1, "{}", experiment.id);
        assert_eq!(experiments::find(experiment.id).unwrap().title, experiment.title);
        assert!(!ids.contains(experiment.chapter()), "{}: a chapter may not be an experiment", experiment.id);
    }
    // Chapters stand together: the report would tell one of them in two parts otherwise.
    let chapters = experiments::chapters();
    assert_eq!(chapters.iter().collect::<BTreeSet<_>>().len(), chapters.len(), "{chapters:?}");
}

#[test]
fn every_row_is_whole() {
    for experiment in TABLE {
        let id = experiment.id;
        assert!(!experiment.title.is_empty() && !experiment.measures.is_empty(), "{id}");
        assert!(!experiment.measures.ends_with('.') && experiment.measures.len() < 90, "{id}: half a line");
        assert!(experiment.method_version >= 1, "{id}");
        assert!(!experiment.publishes.is_empty(), "{id}");
        for publication in experiment.publishes {
            assert!(!publication.meaning.is_empty(), "{id}: {}", publication.metric);
        }
        for name in MACHINES {
            let setup = setup(name);
            let seconds = (experiment.seconds)(&setup);
            assert!(seconds > 0.0 && experiment.time_out > 10.0 * seconds, "{id} on {name}");
            let allowed = setup.machine.launch_memory_bytes().max(16 << 20);
            for turn in 0..40 {
                let bytes = (experiment.memory)(&setup, turn);
                assert!(bytes > 0 && bytes <= allowed, "{id} on {name}: {bytes} bytes of {allowed}");
            }
        }
        for need in experiment.needs {
            assert!(!need.id.is_empty() && !need.what.is_empty(), "{id}");
        }
    }
}

#[test]
fn every_methodology_has_its_headings_in_order() {
    for experiment in TABLE {
        let text = experiment.methodology();
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        assert_eq!(found, HEADINGS, "{}", experiment.id);
        for section in text.split("\n# ") {
            let words = section.split_whitespace().count();
            assert!(words >= 10, "{}: a section of {words} words: {section}", experiment.id);
        }
    }
}

#[test]
fn explain_prints_the_words_of_the_source_file() {
    for experiment in TABLE {
        let output = output(&["explain", experiment.id]);
        assert!(output.status.success(), "{}", told(&output));
        let (printed, comment) = (text(&output.stdout), leading_comment(experiment.source));
        assert!(comment.starts_with(HEADINGS[0]) && printed.contains(&comment), "{}:\n{printed}", experiment.id);
        for publication in experiment.publishes {
            assert!(printed.contains(publication.metric), "{}: {}", experiment.id, publication.metric);
        }
    }
}

/// Parts of an experiment that is too long for one file, in the order in which they act.
const PARTS: [&str; 5] = ["mod.rs", "predict.rs", "measure.rs", "judge.rs", "explain.rs"];

/// An experiment is one file, or a folder with the five parts, each of which has the function of that name.
#[test]
fn every_experiment_has_its_file_or_the_same_parts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/experiments");
    let mut rows = 0;
    for path in files(&root) {
        let text = fs::read_to_string(&path).unwrap();
        // What several experiments of a chapter use stands beside them.
        if path.parent().unwrap() == root || !text.contains("pub const EXPERIMENT: Experiment") {
            continue;
        }
        let row = TABLE.iter().find(|experiment| text.starts_with(experiment.source));
        let row = row.unwrap_or_else(|| panic!("{} has no row in experiments::TABLE", path.display()));
        let is_folder = path.file_name().unwrap() == "mod.rs";
        let place = if is_folder { path.parent().unwrap() } else { path.as_path() };
        assert_eq!(row.chapter(), place.parent().unwrap().file_name().unwrap(), "{}", path.display());
        if is_folder {
            for part in PARTS {
                assert!(place.join(part).is_file(), "{} has no {part}", place.display());
            }
            for (field, part) in
                [("predict", "predict"), ("measure", "measure"), ("figures", "judge"), ("explain", "explain")]
            {
                let from = format!("    {field}: {part}::{field},\n");
                assert!(text.contains(&from), "{}: {field} is not that of {part}.rs", path.display());
            }
        }
        rows += 1;
    }
    assert_eq!(rows, TABLE.len(), "every row has a place of its own");
}

#[test]
fn metrics_are_named_after_their_experiment_and_published_once() {
    let mut seen = BTreeSet::new();
    for experiment in TABLE {
        for publication in experiment.publishes {
            let metric = publication.metric;
            assert!(is_well_formed(metric), "{metric}");
            assert!(seen.insert(metric), "{metric} is published twice");
            let excepted = NAMED_OTHERWISE.contains(&(metric, experiment.id));
            assert!(excepted || metric.starts_with(&format!("{}.", experiment.id)), "{metric} of {}", experiment.id);
        }
    }
}

#[test]
fn what_an_experiment_uses_was_published_before_it() {
    let mut published = BTreeSet::new();
    for experiment in TABLE {
        for used in experiment.uses {
            assert!(published.contains(used), "{} uses {used}, which no earlier row publishes", experiment.id);
        }
        published.extend(experiment.publishes.iter().map(|publication| publication.metric));
    }
}

#[test]
fn every_figure_of_the_contract_is_published_in_its_unit() {
    for &(metric, unit, _) in PROMISED {
        let found = TABLE.iter().find_map(|experiment| experiment.publication(metric));
        assert_eq!(found.unwrap_or_else(|| panic!("{metric} is published by nobody")).unit, unit, "{metric}");
    }
}

#[test]
fn something_of_every_experiment_stands_in_the_summary() {
    for experiment in TABLE {
        let predicted = predictions(experiment, "desktop-hybrid");
        let shown = predicted.iter().any(|prediction| {
            experiment.publication(&prediction.metric).is_some_and(|found| (found.headline)(&prediction.labels))
        });
        assert!(shown, "{}", experiment.id);
    }
}

#[test]
fn predictions_are_sums_with_ranges_and_reasons_on_every_machine() {
    for name in MACHINES {
        for experiment in TABLE {
            let predictions = predictions(experiment, name);
            assert!(!predictions.is_empty(), "{} on {name}", experiment.id);
            let mut seen: BTreeSet<(String, Labels)> = BTreeSet::new();
            for prediction in predictions {
                let about = format!("{} {} on {name}", prediction.metric, prediction.labels);
                let publication = experiment.publication(&prediction.metric).unwrap_or_else(|| panic!("{about}"));
                assert_eq!(prediction.unit, publication.unit, "{about}");
                assert!(prediction.low <= prediction.value && prediction.value <= prediction.high, "{about}");
                assert!(prediction.value > 0.0 && prediction.high.is_finite() && prediction.low >= 0.0, "{about}");
                let parts = prediction.base_hardware + prediction.software_overhead;
                assert!((parts - prediction.value).abs() <= 1e-9 * prediction.value, "{about}");
                assert!(!prediction.terms.is_empty(), "{about}");
                assert!(prediction.terms.iter().all(|term| term.basis.text().contains(' ')), "{about}: a basis");
                assert!(seen.insert((prediction.metric, prediction.labels)), "{about}: predicted twice");
            }
        }
    }
}

#[test]
fn predictions_carry_the_labels_of_the_contract() {
    for experiment in TABLE {
        for prediction in predictions(experiment, "two-socket") {
            if let Some((_, _, labels)) = PROMISED.iter().find(|(metric, ..)| *metric == prediction.metric) {
                let found: Vec<&str> = prediction.labels.pairs().map(|(label, _)| label).collect();
                let promised = labels.iter().all(|label| found.contains(label));
                assert!(promised, "{}: {found:?} lacks one of {labels:?}", prediction.metric);
            }
        }
    }
}

#[test]
fn constants_are_ordered_positive_and_have_sources() {
    let mut names = BTreeSet::new();
    for constant in catalogue::all_constants() {
        assert!(names.insert(constant.name), "{} stands twice", constant.name);
        assert!(constant.low <= constant.value && constant.value <= constant.high, "{}", constant.name);
        assert!(constant.low >= 0.0 && constant.value > 0.0 && constant.high.is_finite(), "{}", constant.name);
        assert!(constants::UNITS.contains(&constant.unit), "{}", constant.name);
        assert!(constant.source.split_whitespace().count() >= 3, "{}: who says so?", constant.name);
    }
    assert!(names.len() > 10);
}

#[test]
fn every_constant_is_used() {
    let sources: String = crate::support::sources::all()
        .into_iter()
        .filter(|source| source.path.starts_with("experiments/"))
        .map(|source| source.code)
        .collect();
    for constant in catalogue::all_constants() {
        let uses = sources.match_indices(constant.name).count();
        assert!(uses >= 2, "{} is defined and used nowhere", constant.name);
    }
}

/// The row and the constructor that the guide shows are those of the sources.
#[test]
fn the_guide_shows_a_row_of_the_sources() {
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let guide = read("CONTRIBUTING.md");
    let section = guide.split("\n## ").find(|section| section.starts_with("Add an operation in one row")).unwrap();
    let blocks: Vec<&str> =
        section.split("```").skip(1).step_by(2).map(|block| block.trim_start_matches("rust\n")).collect();
    let sources = read("src/experiments/os/system_call/calls.rs") + &read("src/sys/system_call.rs");
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(sources.contains(block), "{block}");
    }
}
