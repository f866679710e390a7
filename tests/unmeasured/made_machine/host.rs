//! Whole runs on the made machine, through the conductor: rounds, predictions, time limit and stopping rule are those of a real run.

use std::path::Path;
use std::time::Duration;

use sysdyno::testing::conduct::directory::RunDirectory;
use sysdyno::testing::conduct::interrupt::Interrupt;
use sysdyno::testing::conduct::launch::Ended;
use sysdyno::testing::conduct::{Host, Recording, run_on};
use sysdyno::testing::experiments;
use sysdyno::testing::plan;
use sysdyno::testing::results::document::{Document, Grade, Outcome};
use sysdyno::testing::results::log::{Header, Log, Record};
use sysdyno::testing::rig::request::Request;
use sysdyno::testing::setup::{Profile, Setup};

use super::calibration::{Hour, Noise};
use super::truths::truth_of;
use super::{Costs, description, recorded, spread, ticks_per_cycle};

/// Launches of a large experiment that together have all of its series.
const PARTS: usize = 2;
/// Series above which a launch has a part of them.
const LARGE: usize = 300;

/// A host whose clock advances by what launches took in a real default run, by their number of batches.
struct MadeHost<'a> {
    described: &'a Log,
    noise: Noise,
    seconds: f64,
}

impl Host for MadeHost<'_> {
    fn launch(&mut self, request: &Request, _: Duration) -> (Ended, Vec<Record>) {
        let (number, experiment) = (request.launch, request.experiment.clone());
        let mut launches = self.described.launches.iter();
        let described =
            launches.find(|launch| launch.experiment == experiment && launch.first == request.first).unwrap();
        let part = f64::from(request.batches) / f64::from(Profile::Default.batches());
        self.seconds += described.seconds.unwrap() * part * self.noise.between(0.9, 1.2);
        let clock = ticks_per_cycle(self.described);
        let parts = if described.series.len() > LARGE { PARTS } else { 1 };
        let now =
            described.series.iter().enumerate().filter(|(index, _)| index % parts == request.turn as usize % parts);
        let mut records: Vec<Record> = Vec::new();
        for (_, series) in now {
            let mut series = spread(&experiment, series, clock);
            self.noise.disturb(&experiment, &mut series);
            records.push(Record::Series { launch: number, experiment: experiment.clone(), series });
        }
        let evidence = described.evidence.clone().unwrap();
        records.push(Record::Evidence { launch: number, experiment, evidence });
        (Ended::Well, records)
    }

    fn elapsed(&self) -> f64 {
        self.seconds
    }
}

/// The document of a run, and the seconds that it took by the clock of its host.
fn conducted(place: &Path, profile: Profile, hour: Hour, seed: u64) -> (Document, f64) {
    let described = description();
    let mut setup = Setup::logged(described);
    (setup.profile, setup.seed, setup.room) = (profile, seed, Ok(1 << 40));
    let plan = plan::plan(experiments::TABLE, &setup, None).unwrap();
    let header = Header { seed, profile: profile.name().to_owned(), ..described.header.clone() };
    let (directory, writer) = RunDirectory::create(&place.join(format!("{hour:?}-{seed}")), &header).unwrap();
    let recording = Recording { directory, writer, resumed: None, history: None };
    let mut host = MadeHost { described, noise: Noise::of(hour, seed), seconds: 0.0 };
    let clock = described.clock.clone().unwrap();
    let outcome = run_on(&mut host, &setup, &plan, clock, recording, &Interrupt::watch().unwrap()).unwrap();
    (outcome.document, host.seconds)
}

#[test]
fn a_run_on_the_made_machine_measures_everything_in_its_time() {
    let place = tempfile::tempdir().unwrap();
    let mut rows = vec![
        "| hour | time | good headline results | predictions that hold the truth |".to_owned(),
        "| --- | --: | --: | --: |".to_owned(),
    ];
    for (hour, least_good) in [(Hour::Calm, 0.8), (Hour::Busy, 0.4)] {
        let (document, seconds) = conducted(place.path(), Profile::Default, hour, 1);
        let headline = || document.metrics().filter(|metric| metric.headline);
        let good = headline().filter(|metric| metric.grade == Grade::Good).count() as f64 / headline().count() as f64;
        assert!(document.run.complete, "{}", document.run.ended);
        for section in &document.experiments {
            assert!(section.outcome == Outcome::Measured, "{}: {:?}", section.id, section.reason);
        }
        assert!(good >= least_good, "{hour:?}: {good}");
        let (mut predicted, mut right) = (0, 0);
        for section in &document.experiments {
            let costs = Costs::of(description(), &section.id);
            for metric in &section.metrics {
                let Some((truth, prediction)) = truth_of(&costs, metric).zip(metric.prediction.as_ref()) else {
                    continue;
                };
                predicted += 1;
                right += u32::from((prediction.low..=prediction.high).contains(&truth));
            }
        }
        let name = if hour == Hour::Calm { "calm" } else { "busy" };
        rows.push(format!(
            "| {name} | {seconds:.0} s | {:.0} % | {:.0} % of {predicted} |",
            good * 100.0,
            100.0 * f64::from(right) / f64::from(predicted)
        ));
        assert!(f64::from(right) >= 0.8 * f64::from(predicted), "{hour:?}: {right} of {predicted}");
    }
    recorded("runs", &rows);
}
