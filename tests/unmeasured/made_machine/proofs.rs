//! Which tests prove each metric, as docs/truths.md has it.

use std::fs;
use std::path::{Path, PathBuf};

use sysdyno::testing::experiments;

use super::recorded;

/// Tests that compare the published value on a real machine with a truth that they make.
const ON_REAL_MACHINES: &[(&str, &[&str])] = &[
    ("cpu.sharing.share", &["a_spinner_on_the_sibling_is_a_neighbour"]),
    ("os.system_call.time", &["five_per_cent_of_a_system_call_are_found_and_nothing_else"]),
    ("os.channel.time", &["operations_cost_what_plain_loops_of_them_take"]),
    ("os.poll.time", &["operations_cost_what_plain_loops_of_them_take"]),
    ("os.poll.per_descriptor", &["operations_cost_what_plain_loops_of_them_take"]),
    ("os.lock.time", &["operations_cost_what_plain_loops_of_them_take"]),
    ("os.scaling.time", &["tasks_that_share_nothing_pay_what_a_plain_loop_pays"]),
    ("os.sleep.oversleep", &["sleeps_end_as_much_later_as_the_timer_slack_is_longer"]),
    ("file.metadata.time", &["operations_cost_what_plain_loops_of_them_take"]),
    ("memory.map.time", &["operations_cost_what_plain_loops_of_them_take"]),
    ("memory.shared_line.time", &["additions_to_separate_lines_cost_what_a_plain_loop_of_them_takes"]),
    ("memory.loaded_latency.time", &["an_idle_load_takes_the_same_in_both_experiments"]),
    ("network.round_trip.time", &["a_delay_is_in_every_round_trip_and_in_the_handshake_once"]),
    ("network.round_trip.net", &["the_peers_residence_is_in_the_gross_figure_and_not_in_the_net_one"]),
    ("network.connection.time", &["a_delay_is_in_every_round_trip_and_in_the_handshake_once"]),
    (
        "network.bandwidth.rate",
        &["a_rate_is_found_to_half_a_percent", "a_link_of_half_the_rate_has_half_the_throughput"],
    ),
    ("network.datagrams.rate", &["a_narrow_link_loses_what_it_cannot_carry_and_nothing_at_half_its_rate"]),
    (
        "network.datagrams.delivered",
        &[
            "losses_repetitions_and_swaps_are_those_that_the_path_made",
            "a_narrow_link_loses_what_it_cannot_carry_and_nothing_at_half_its_rate",
        ],
    ),
    ("network.datagrams.in_order", &["losses_repetitions_and_swaps_are_those_that_the_path_made"]),
    ("file.read.block_time", &["the_experiment_on_reads_finds_the_time_of_the_device"]),
    ("file.read.depth_rate", &["the_experiment_on_reads_finds_the_time_of_the_device"]),
    ("file.write.time", &["a_write_waits_for_its_sync_and_no_other_write_does"]),
    ("file.write.rate", &["a_write_waits_for_its_sync_and_no_other_write_does"]),
    (
        "file.contention.block_time",
        &[
            "readers_of_a_device_that_serves_one_at_a_time_stand_in_line",
            "readers_of_a_device_that_serves_four_at_a_time_stand_in_four_lines",
        ],
    ),
    (
        "file.contention.per_reader",
        &[
            "readers_of_a_device_that_serves_one_at_a_time_stand_in_line",
            "readers_of_a_device_that_serves_four_at_a_time_stand_in_four_lines",
        ],
    ),
    ("file.contention.knee", &["readers_of_a_device_that_serves_four_at_a_time_stand_in_four_lines"]),
    ("file.contention.fairness", &["readers_of_a_device_that_serves_one_at_a_time_stand_in_line"]),
    (
        "file.cache_size.bytes",
        &["groups_of_known_size_have_caches_of_that_size", "a_machine_no_larger_than_its_group_is_filled_to_the_limit"],
    ),
    ("gpu.launch.time", &["launches_take_the_time_of_the_driver"]),
    ("gpu.copy.time", &["copies_take_the_time_and_have_the_rate_of_the_driver"]),
    ("gpu.copy.rate", &["copies_take_the_time_and_have_the_rate_of_the_driver"]),
    (
        "file.remote_read.block_time",
        &[
            "a_read_waits_for_exactly_one_round_trip_over_nfs_and_from_a_peer",
            "a_long_read_takes_its_bytes_at_the_rate_of_the_path",
        ],
    ),
    ("file.remote_read.network_penalty", &["a_read_waits_for_exactly_one_round_trip_over_nfs_and_from_a_peer"]),
];

/// Tests that compare what is timed with a truth that they make.
const OF_OPERATIONS: &[(&str, &[&str])] = &[
    (
        "cpu.frequency.core",
        &["chains_of_multiplies_and_additions_stand_in_whole_ratios", "twice_the_work_takes_twice_the_time"],
    ),
    ("cpu.timer.bias", &["the_tools_own_pair_sees_the_whole_chain_and_nothing_outside"]),
    (
        "cpu.loop.overhead",
        &[
            "a_loop_costs_as_many_cycles_as_it_has_dependent_additions",
            "the_live_rig_finds_the_cost_of_known_work_in_cycles",
        ],
    ),
    ("cpu.procedure_call.time", &["multiplies_injected_into_a_chained_call_lengthen_it_by_their_latency"]),
    ("cpu.arithmetic.time", &["arithmetic_takes_the_cycles_that_other_chains_of_it_take"]),
    ("os.system_call.time", &["two_calls_cost_twice_as_much_as_one", "a_longer_filter_makes_calls_dearer"]),
    ("os.process_creation.time", &["a_child_that_sleeps_is_in_the_wait_and_not_in_the_return"]),
    ("os.process_creation.per_page", &["twice_the_pages_cost_twice_as_much_above_the_base"]),
    ("os.thread_creation.time", &["a_thread_that_computes_is_longer_by_just_that"]),
    ("os.signal.time", &["a_handler_that_computes_is_longer_by_just_that", "twice_the_signals_cost_twice_as_much"]),
    ("os.context_switch.time", &["work_added_to_a_hop_comes_out_of_it"]),
    (
        "memory.latency.level",
        &[
            "multiplies_in_the_chain_raise_every_level_by_just_their_latency",
            "sharp_levels_of_random_machines_are_found",
        ],
    ),
    (
        "memory.latency.level_size",
        &["sharp_levels_of_random_machines_are_found", "soft_knees_of_random_machines_are_found"],
    ),
    (
        "memory.bandwidth.rate",
        &["half_of_the_lines_are_half_of_the_bytes", "a_team_is_as_fast_as_its_members_are_long"],
    ),
    ("memory.page_fault.time", &["a_throttled_disk_gives_its_delay_and_the_number_of_its_reads"]),
    ("memory.page_fault.pages_per_fault", &["the_kernel_counts_the_faults_that_are_made"]),
    ("file.read.block_time", &["cold_and_direct_reads_take_the_time_of_the_device_and_are_as_many_as_asked_for"]),
];

/// The document: a row for each metric.
fn page() -> String {
    let of = |table: &[(&str, &[&str])], metric: &str| -> String {
        let tests = table.iter().filter(|(name, _)| *name == metric).flat_map(|(_, tests)| *tests);
        let tests: Vec<String> = tests.map(|test| format!("`{test}`")).collect();
        if tests.is_empty() { "–".to_owned() } else { tests.join(", ") }
    };
    let mut text = "# Which tests prove each metric\n\n\
        The made machine has known costs. The value that a report has from its log is the true one to one part in a million.\n\
        This holds for each label of each metric (`every_published_value_is_the_true_one`), and needs no clock.\n\
        A real machine decides whether the operation is the one that its name says. A test on it makes the truth, such as the rate of\n\
        a link. Some tests compare the published value with that truth, others the time of the operation itself.\n\n\
        | metric | made machine | published value on a real machine | time of the operation |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for metric in experiments::TABLE.iter().flat_map(|experiment| experiment.publishes).map(|found| found.metric) {
        text += &format!("| `{metric}` | yes | {} | {} |\n", of(ON_REAL_MACHINES, metric), of(OF_OPERATIONS, metric));
    }
    text
}

/// The text of all tests below a directory.
fn sources(directory: &Path) -> String {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(extension) if extension == "rs" => fs::read_to_string(path).unwrap(),
        _ => String::new(),
    };
    entries.map(of).collect()
}

#[test]
fn the_page_of_truths_is_what_the_tests_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = root.join("docs/truths.md");
    if std::env::var_os("SYSDYNO_WRITE_METHODOLOGY").is_some() {
        fs::write(&place, page()).unwrap();
    }
    assert_eq!(fs::read_to_string(place).unwrap(), page(), "SYSDYNO_WRITE_METHODOLOGY=1 cargo test --test unmeasured");
    let sources = sources(&root.join("tests"));
    let known: Vec<&str> =
        experiments::TABLE.iter().flat_map(|found| found.publishes).map(|found| found.metric).collect();
    for (metric, tests) in ON_REAL_MACHINES.iter().chain(OF_OPERATIONS) {
        assert!(known.contains(metric), "{metric} is no metric");
        for test in *tests {
            assert!(sources.contains(&format!("fn {test}()")), "there is no test {test}");
        }
    }
}

/// Rows for the files of a folder of tests: how many tests each has, and what it is about.
fn about_tests(folder: &str) -> Vec<String> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let row = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let heading = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
        let heading = heading.take_while(|line| !line.is_empty()).collect::<Vec<&str>>().join(" ");
        let about = heading.split([':', ',', '.']).next().unwrap();
        let count = text.matches("#[test]").count();
        let name = path.file_stem().unwrap().to_str().unwrap();
        (count > 0).then(|| format!("| `{folder}/{name}` | {count} | {about} |"))
    };
    files.iter().filter_map(row).collect()
}

#[test]
fn the_page_of_trust_has_all_tests_on_real_machines() {
    let mut rows = vec!["| tests | number | about |".to_owned(), "| --- | --: | --- |".to_owned()];
    rows.extend(about_tests("measured"));
    rows.extend(about_tests("waiting"));
    recorded("tests", &rows);
}
