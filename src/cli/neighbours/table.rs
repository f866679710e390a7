//! What a watch prints: a line for each CPU and interval, and a summary at the end.

use std::collections::BTreeSet;

use super::account::{Core, CpuAccount, MOST_COST};
use crate::machine::{CpuList, Machine};
use crate::report::terminal::{WIDTH, folded, plain_table};
use crate::results::quantity::Unit;
use crate::results::wording::{count, duration, interval, percent, quantity};

/// Width of a paragraph.
const PARAGRAPH: usize = 100;

/// A number that no source reports.
const UNKNOWN: &str = "–";

/// One line of columns, behind the time.
fn line(time: &str, cells: [&str; 8]) -> String {
    let [cpu, neighbour, looks, untold, steal, delay, clock, own] = cells;
    format!(
        "{time:<19}  {cpu:>4}  {neighbour:>9}  {looks:>7}  {untold:>8}  {steal:>6}  {delay:>8}  {clock:>9}  {own:>6}\n"
    )
}

/// The heads of the columns.
pub(super) fn head(account: &CpuAccount) -> String {
    let zone = account.began.strftime("time (%Z)").to_string();
    line(&zone, ["CPU", "neighbour", "looks", "unclear", "steal", "delay", "clock", "own"])
}

/// A line for each CPU.
pub(super) fn lines(account: &CpuAccount) -> String {
    let time = account.ended.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let text = |core: &Core| {
        let last = &core.last;
        let cells = [
            core.cpu.to_string(),
            share(last.count.share_of_decided()),
            (last.count.decided() + last.count.open()).to_string(),
            last.count.open().to_string(),
            share(last.steal),
            delay(last.delay),
            known(last.hertz, |hertz| quantity(hertz, Unit::Hertz)),
            share(last.own),
        ];
        line(&time, cells.each_ref().map(String::as_str))
    };
    account.cores.iter().map(text).collect()
}

/// The summary: a table of the CPUs, whose work the neighbours may be, and what watching cost.
pub(super) fn summary(account: &CpuAccount, machine: &Machine, width: Option<u16>) -> String {
    let mut text = format!(
        "\n{} from {} to {}\n\n",
        duration(account.span),
        account.began.strftime("%Y-%m-%d %H:%M:%S"),
        account.ended.strftime("%H:%M:%S %Z"),
    );
    for table in tables(account, width) {
        text += &format!("{table}\n\n");
    }
    text += &folded(&siblings(account, machine), PARAGRAPH);
    text += &folded(&cost(account), PARAGRAPH);
    text
}

/// Columns of the summary, and those of its first part where all of them are wider than the terminal.
const COLUMNS: [&str; 11] =
    ["CPU", "neighbour", "95 %", "longest", "longest alone", "looks", "unclear", "steal", "delay", "clock", "own"];
const FIRST_PART: usize = 6;

/// One table, or two where one would have broken cells.
fn tables(account: &CpuAccount, width: Option<u16>) -> Vec<String> {
    let rows: Vec<Vec<String>> = account.cores.iter().map(|core| row(core, account.span).to_vec()).collect();
    let whole = plain_table(&COLUMNS, rows.clone(), Some(u16::MAX));
    let wide = whole.lines().filter(|line| !line.contains('─')).map(|line| line.chars().count()).max();
    if wide.is_none_or(|wide| wide <= usize::from(width.unwrap_or(WIDTH))) {
        return vec![plain_table(&COLUMNS, rows, width)];
    }
    let second = |cells: &[String]| [&cells[..1], &cells[FIRST_PART..]].concat();
    vec![
        plain_table(&COLUMNS[..FIRST_PART], rows.iter().map(|cells| cells[..FIRST_PART].to_vec()).collect(), width),
        plain_table(
            &[&COLUMNS[..1], &COLUMNS[FIRST_PART..]].concat(),
            rows.iter().map(|cells| second(cells)).collect(),
            width,
        ),
    ]
}

fn row(core: &Core, span: f64) -> [String; COLUMNS.len()] {
    let total = core.presence.total();
    let longest = core.presence.longest();
    let seconds = |seconds: f64| quantity(seconds * 1e9, Unit::Nanoseconds);
    [
        core.cpu.to_string(),
        share(total.share_of_decided()),
        known(core.presence.interval(), |[low, high]| format!("{:.1} … {:.1} %", low * 100.0, high * 100.0)),
        known(longest.shared, seconds),
        known(longest.alone, seconds),
        (total.decided() + total.open()).to_string(),
        total.open().to_string(),
        share(core.steal),
        delay(core.delay()),
        known(core.hertz, |ends| interval(ends, Unit::Hertz)),
        share(core.own(span)),
    ]
}

/// Whose work a neighbour may be.
fn siblings(account: &CpuAccount, machine: &Machine) -> String {
    let of = |core: &Core| machine.cpu(core.cpu).map(|entry| &entry.siblings).filter(|list| list.len() > 1);
    let cores: BTreeSet<&CpuList> = account.cores.iter().filter_map(of).collect();
    if !cores.is_empty() {
        let named: Vec<String> = cores.iter().map(ToString::to_string).collect();
        return format!(
            "These CPUs are hardware threads of one core: {}. A neighbour of one CPU may be your own task on its \
             sibling.",
            named.join("; ")
        );
    }
    let whose = if machine.is_guest() {
        "a neighbour is another guest of the host, or another CPU of this machine on the same core (see `sysdyno run \
         cpu.sharing`)"
    } else {
        "a neighbour would be unknown to the kernel"
    };
    format!("No CPU shows a sibling here: {whose}.")
}

/// What watching cost, next to its bound.
fn cost(account: &CpuAccount) -> String {
    let worst = account.worst_cost.max(account.cost);
    let bound = if worst > MOST_COST { " (above the limit of" } else { " (below the limit of" };
    format!(
        "Watching {} cost {} of a CPU each, and {} in the most expensive interval{bound} {}). Starting took {} of CPU \
         time.",
        count(account.cores.len() as u64, "CPU", "CPUs"),
        percent(account.cost),
        percent(worst),
        percent(MOST_COST),
        quantity(account.start_cost as f64, Unit::Nanoseconds)
    )
}

fn known<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), text)
}

/// A share in percent.
pub(super) fn share(value: Option<f64>) -> String {
    known(value, percent)
}

fn delay(nanoseconds: Option<f64>) -> String {
    known(nanoseconds, |nanoseconds| quantity(nanoseconds, Unit::Nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::super::account::tests::scripted;
    use super::*;

    fn machine(siblings: &str) -> Machine {
        let root = tempfile::tempdir().unwrap();
        for cpu in [0, 3] {
            let place = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            std::fs::create_dir_all(&place).unwrap();
            let list = if siblings.is_empty() { cpu.to_string() } else { siblings.to_owned() };
            std::fs::write(place.join("thread_siblings_list"), list).unwrap();
        }
        std::fs::write(root.path().join("sys/devices/system/cpu/online"), "0,3").unwrap();
        crate::machine::detect(root.path(), root.path())
    }

    #[test]
    fn lines_have_a_column_for_everything() {
        let account = scripted();
        let text = head(&account) + &lines(&account);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].contains("   0       33 %       60         0 "), "{text}");
        assert!(lines[1].contains("3.000 µs  3.005 GHz"), "{text}");
        assert!(lines[2].contains("   3          –        0         0 "), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{text}");
    }

    #[test]
    fn the_summary_names_own_siblings() {
        let account = scripted();
        let text = summary(&account, &machine("0,3"), None);
        assert!(text.contains("hardware threads of one core: 0,3. A neighbour"), "{text}");
        assert!(text.contains("33 %") && text.contains("Watching 2 CPUs cost"), "{text}");
        assert!(summary(&account, &machine(""), None).contains("No CPU shows a sibling"), "{text}");
    }
    #[test]
    fn the_summary_fits_the_terminal_with_whole_cells() {
        let account = scripted();
        let cells = row(&account.cores[0], account.span);
        for width in [80, 100, 200] {
            let found = tables(&account, Some(width));
            assert_eq!(found.len(), if width < 120 { 2 } else { 1 }, "{found:?}");
            let text = found.join("\n");
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            for whole in COLUMNS.iter().copied().chain(cells.iter().map(String::as_str)) {
                assert!(text.lines().any(|line| line.contains(whole)), "{whole} is broken in\n{text}");
            }
            // A head and a line for each CPU, between three rules.
            assert_eq!(text.lines().count(), found.len() * 6, "{text}");
        }
    }
}
