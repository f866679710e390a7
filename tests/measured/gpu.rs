//! Launches and copies of a driver that takes a known time for each, as the experiments find them.

use serde_json::Value;

use crate::support::driver::MadeDriver;
use crate::support::runs::{ended, measuring, result, told};
use crate::support::truth::{self, Judgement, trusted, within};

/// A waiting loop ends up to this much later than it was asked to, also where a hypervisor makes its clock slow; nanoseconds.
const LATE: f64 = 400.0;
/// Share by which a result may be off in addition.
const SHARE: f64 = 0.03;

/// A figure is the truth or a little more.
fn has(found: &Value, name: &str, labels: &[(&str, &str)], truth: f64) -> Judgement {
    match trusted(found, name, labels) {
        Err(judgement) => judgement,
        Ok(metric) => {
            let value = metric["value"].as_f64().unwrap();
            let near = within(value, truth * (1.0 - SHARE), (truth + LATE) * (1.0 + SHARE));
            Judgement::of(near.map_err(|why| format!("{name} {labels:?}: {why}")))
        }
    }
}

/// Runs an experiment with a driver and compares its figures.
fn judged(experiment: &str, does: &[(&str, &str)], compare: impl Fn(&Value) -> Judgement) {
    let driver = MadeDriver::compile();
    let _alone = measuring();
    let mut tries = 0;
    truth::judged(experiment, || {
        tries += 1;
        let place = driver.place().join(format!("run-{tries}"));
        let words = ["run", experiment, "--time", "25s", "--no-progress", "-o", place.to_str().unwrap()];
        let output = driver.run(&words, does);
        assert!(ended(&output), "{}", told(&output));
        compare(&result(&place))
    });
}

#[test]
fn launches_take_the_time_of_the_driver() {
    judged("gpu.launch", &[("CUDA_FAKE_SUBMIT", "9000"), ("CUDA_FAKE_WAIT", "31000")], |found| {
        has(found, "gpu.launch.time", &[("how", "launch")], 9000.0)
            .and(|| has(found, "gpu.launch.time", &[("how", "launch_wait")], 40_000.0))
    });
}

#[test]
fn copies_take_the_time_and_have_the_rate_of_the_driver() {
    // Pinned memory has 5 GB/s, pageable memory half of it, and each copy takes 12 µs in addition.
    judged("gpu.copy", &[("CUDA_FAKE_CALL", "12000"), ("CUDA_FAKE_BYTE", "200")], |found| {
        let mut judgement = Judgement::Right;
        for direction in ["to_device", "from_device"] {
            for (memory, each) in [("pinned", 0.2), ("pageable", 0.4)] {
                for bytes in [4_u32, 1 << 16, 1 << 20, 64 << 20] {
                    let text = bytes.to_string();
                    let labels = [("direction", direction), ("memory", memory), ("bytes", text.as_str())];
                    let time = 12_000.0 + f64::from(bytes) * each;
                    judgement = judgement.and(|| has(found, "gpu.copy.time", &labels, time));
                    if bytes == 64 << 20 {
                        let rate = f64::from(bytes) * 1e9 / time;
                        judgement = judgement.and(|| match trusted(found, "gpu.copy.rate", &labels) {
                            Err(judgement) => judgement,
                            Ok(metric) => {
                                let value = metric["value"].as_f64().unwrap();
                                Judgement::of(within(value, rate * (1.0 - SHARE), rate * (1.0 + SHARE)))
                            }
                        });
                    }
                }
            }
        }
        judgement
    });
}
