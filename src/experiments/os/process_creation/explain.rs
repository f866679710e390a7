//! What the figures say: what a fork waits for, what memory of the parent costs, and what a new image adds.

use super::ways::{BASE, COMPARED, ChildMethod, ForkSetting, SIZES, WAYS, labels};
use super::{PER_PAGE, SMALL_PAGE, TIME};
use crate::experiments::prelude::*;
use crate::results::document::Grade;
use crate::results::ratio::{Order, unresolved_difference};
use crate::results::wording::significant;

pub(super) fn explain(_: &Study<'_>, findings: &mut Findings) {
    let time = |findings: &Findings, way: ChildMethod, setting: ForkSetting| {
        findings.metric(TIME, &labels(way, setting)).cloned()
    };
    if let (Some(fork), Some(wait), Some(vfork)) =
        (time(findings, WAYS[0], BASE), time(findings, WAYS[2], BASE), time(findings, WAYS[4], BASE))
    {
        findings.say(format!(
            "From a small parent fork returns after {}, and its child has run and is reaped after {}. A child that \
             borrows the memory of the parent takes {}.",
            fork.shown(),
            wait.shown(),
            vfork.shown(),
        ));
    }
    if let (Some(plain), Some(loaded)) = (time(findings, WAYS[5], BASE), time(findings, WAYS[6], BASE)) {
        let (fixed, dynamic) = (plain.shown(), loaded.shown());
        let difference = match Order::of(&loaded, &plain) {
            Order::Larger(_) => {
                let loader = significant(dynamic.value - fixed.value, Unit::Nanoseconds, 2);
                format!(". The loader, the libraries and the program itself cost the difference of {loader}")
            }
            Order::Alike => format!(". {}", unresolved_difference(&loaded, &plain)),
            Order::Smaller(_) | Order::Open => String::new(),
        };
        findings.say(format!(
            "The smallest static program takes {fixed} from fork to reaping, a dynamic program {dynamic}{difference}."
        ));
    }
    let per_page = findings.metric(PER_PAGE, &Labels::of([("how", "fork")])).cloned();
    if let Some(per_page) = per_page.filter(|found| found.grade != Grade::Unresolved) {
        let pages = |bytes: usize| bytes as f64 / SMALL_PAGE;
        let largest = SIZES[SIZES.len() - 1];
        let at = |resident| {
            let found = time(findings, WAYS[0], ForkSetting { resident, ..BASE });
            found.filter(|found| found.grade != Grade::Unresolved)
        };
        let beyond = at(0).zip(at(largest)).map_or_else(String::new, |(small, large)| {
            let line = significant(small.value + per_page.value * pages(largest), Unit::Nanoseconds, 2);
            format!(
                " By this line fork from a parent of {} MiB would take {line}, and it takes {}.",
                largest >> 20,
                large.shown()
            )
        });
        findings.say(format!(
            "Up to {} MiB, each 4 KiB page of the parent adds {} to fork.{beyond}",
            COMPARED >> 20,
            per_page.shown(),
        ));
    }
    let both = SIZES.into_iter().rev().find_map(|resident| {
        let at = |pages| time(findings, WAYS[2], ForkSetting { resident, pages, ..BASE });
        Some((resident, at("4k")?, at("huge")?))
    });
    if let Some((resident, small, huge)) = both {
        let why = match Order::of(&small, &huge) {
            Order::Larger(ratio) => {
                format!(". The ratio is {}, because a huge page needs one table entry instead of 512", ratio.text())
            }
            Order::Alike => format!(". {}", unresolved_difference(&small, &huge)),
            Order::Smaller(_) | Order::Open => String::new(),
        };
        findings.say(format!(
            "With {} MiB on 4 KiB pages fork and wait take {}, and on huge pages {}{why}.",
            resident >> 20,
            small.shown(),
            huge.shown(),
        ));
    }
}
