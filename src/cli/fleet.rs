//! `sysdyno fleet`: which node of many is odd.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::answer::Answer;
use super::answer_options::ComparisonForm;
use super::fleet_options::{FleetForm, FleetOptions};
use super::judge_options::JudgeOptions;
use super::{DONE, Failure, json, judge, terminal_width, write_file};
use crate::fleet::{self, meshes, read};
use crate::report::content::fleet::{page, screen};
use crate::report::fleet_csv;
use crate::results::fleet::{Fleet, FleetVerdict, Upgrade};
use crate::results::mesh::Mesh;
use crate::results::node_names::{fold, unfold};
use crate::results::problem::Problem;

/// A node is odd.
const ODD: u8 = 1;
/// Nodes are missing or undecided.
const UNDECIDED: u8 = 3;
/// Longest list of expected nodes: a million names.
const LONGEST_LIST: u64 = 16 << 20;

pub(super) fn fleet(options: &FleetOptions) -> Result<u8, Failure> {
    if options.run.is_some() {
        return judge_tables(options);
    }
    let expected = options.expect.as_deref().map(expected).transpose()?;
    let at_judge = |problem| hint_at_judge(problem, &options.directories);
    let mut found = read::read(&options.directories).map_err(at_judge)?;
    let (mesh, broken) = meshes::newest(&options.directories);
    found.left_aside.extend(broken);
    if found.readings.is_empty() && found.empty.is_empty() && expected.is_none() && mesh.is_none() {
        let aside = found.left_aside.first();
        let first = aside.map_or_else(String::new, |aside| format!(" ({}: {})", aside.place, aside.reason));
        let problem = Problem::new(format!("no run of a node is there{first}")).hint(
            "name a directory with nodes/NODE/TIME/node.json, with one node.json file for each node, or with a mesh",
        );
        return Err(at_judge(problem).into());
    }
    let mut fleet = fleet::analyse(&found, expected.as_ref());
    if let Some((place, mesh)) = &mesh {
        meshes::add(&mut fleet, place, mesh);
    }
    if let Some(before) = &options.before {
        let before = read::read(std::slice::from_ref(before))?;
        fleet.before = Some(fleet::upgrade(&before, &found));
    }
    if let Some(file) = &options.accepted {
        let accepted = fleet::accepted(&found, &fleet)?;
        write_file(file, &json(&accepted)?, "--accepted")?;
    }
    show(&fleet, mesh.as_ref().map(|(_, mesh)| mesh), options)?;
    Ok(exit_code(&fleet))
}

/// The page of a class.
fn judge_tables(options: &FleetOptions) -> Result<u8, Failure> {
    let format = match options.format {
        FleetForm::Text => ComparisonForm::Text,
        FleetForm::Html => ComparisonForm::Html,
        FleetForm::Markdown => ComparisonForm::Markdown,
        FleetForm::Json => ComparisonForm::Json,
        FleetForm::Csv => {
            let problem = Problem::new("a judgement of numbers has no CSV form");
            return Err(problem.hint("choose another form, such as markdown").into());
        }
    };
    judge::judge(&JudgeOptions {
        files: options.directories.clone(),
        run: options.run.clone(),
        other_machine: false,
        blank: false,
        format,
        output: options.output.clone(),
        all: options.all,
        color: options.color,
    })
}

/// The other hint, where tables with numbers of other programs were named.
fn hint_at_judge(problem: Problem, named: &[PathBuf]) -> Problem {
    let is_table = |place: &Path| place.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let entries = |place: &Path| {
        let entries = place.read_dir().into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let has_table = |place: &Path| is_table(place) || entries(place).iter().any(|inside| is_table(inside));
    if named.iter().any(|place| has_table(place) || entries(place).iter().any(|inside| has_table(inside))) {
        return problem
            .hint("`sysdyno judge DIR` judges CSV files with numbers of other programs, and so does --run RUN");
    }
    problem
}

/// The names of a list.
fn expected(file: &Path) -> Result<BTreeSet<String>, Problem> {
    let what = if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() };
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(LONGEST_LIST).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(LONGEST_LIST).read_to_string(&mut text))
    };
    let hint = "write node names one a line, or as n[1-4,7]";
    read.map_err(|error| Problem::new(format!("cannot read the expected nodes from {what}: {error}")).hint(hint))?;
    let names = unfold(&text)
        .map_err(|why| Problem::new(format!("cannot read the expected nodes from {what}: {why}")).hint(hint))?;
    if names.is_empty() {
        return Err(Problem::new(format!("{what} names no expected node")).hint(hint));
    }
    Ok(names.into_iter().collect())
}

fn show(fleet: &Fleet, mesh: Option<&Mesh>, options: &FleetOptions) -> Result<(), Failure> {
    let list = |names: &mut dyn Iterator<Item = &String>| {
        let list = fold(names.map(String::as_str));
        Answer::Text(if list.is_empty() { list } else { list + "\n" })
    };
    let lines = || screen(fleet, terminal_width(), options.all);
    let answer = match options.format {
        _ if options.again => list(&mut fleet.again.iter()),
        _ if options.missing => list(&mut fleet.missing.iter().chain(&fleet.partial)),
        FleetForm::Text => Answer::of_screen(lines(), options.all, options.color),
        FleetForm::Html => Answer::Html(page(fleet, mesh)),
        FleetForm::Markdown => Answer::Markdown(page(fleet, mesh)),
        FleetForm::Csv => Answer::Text(fleet_csv::render(fleet)?),
        FleetForm::Json => Answer::Text(json(fleet)?),
    };
    answer.show(options.output.as_deref())
}

/// 1 where a node or a link is odd or an axis is worse, 3 where the runs leave that open, 0 otherwise.
fn exit_code(fleet: &Fleet) -> u8 {
    let worse = |upgrade: &Upgrade| upgrade.axes.iter().any(|axis| axis.changed && axis.effect < 0.0);
    let open = |upgrade: &Upgrade| upgrade.nodes < upgrade.least_nodes || !upgrade.undecided.is_empty();
    let before = fleet.before.as_ref();
    match fleet.verdict {
        FleetVerdict::Odd => ODD,
        _ if before.is_some_and(worse) => ODD,
        FleetVerdict::Undecided => UNDECIDED,
        FleetVerdict::NothingOdd if before.is_some_and(open) => UNDECIDED,
        FleetVerdict::NothingOdd => DONE,
    }
}
