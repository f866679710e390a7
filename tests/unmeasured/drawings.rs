//! Pages can be read: the words of a drawing are on no other words, the verdict is first, and rows say what lies behind a number.
use crate::report::{golden, real};
use sysdyno::testing::report::{content, html, text};
use sysdyno::testing::results::document::{Document, FigureModes, ModesOf};

/// Width of a letter and height of a line in the drawings' own coordinates, a little less than letters take on average.
const LETTER: f64 = 6.2;
const HIGH: f64 = 11.0;

/// Words in a drawing with their box: left, right, top, bottom.
struct Words {
    text: String,
    ends: [f64; 4],
}

impl Words {
    fn meets(&self, other: &Words) -> bool {
        let ([left, right, top, bottom], [from, to, above, below]) = (self.ends, other.ends);
        left < to && from < right && top < below && above < bottom
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

/// The words of a drawing, without those that are turned.
fn words(svg: &str) -> Vec<Words> {
    let texts = svg.split("<text").skip(1).filter_map(|rest| rest.split_once("</text>")?.0.split_once('>'));
    let read = |(tag, text): (&str, &str)| {
        if tag.contains("rotate") {
            return None;
        }
        let text = text.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        let number = |name: &str| attribute(tag, name)?.parse::<f64>().ok();
        let shift = attribute(tag, "dy").and_then(|shift| shift.trim_end_matches("em").parse::<f64>().ok());
        let (x, base) = (number("x")?, number("y")? + shift.unwrap_or(0.0) * 13.0);
        let wide = text.chars().count() as f64 * LETTER;
        let ends = attribute(tag, "class")?.split(' ').any(|class| class == "end");
        let left = match attribute(tag, "text-anchor") {
            Some("middle") => x - wide / 2.0,
            Some("end") => x - wide,
            _ if ends => x - wide,
            _ => x,
        };
        Some(Words { text, ends: [left, left + wide, base - HIGH, base + 1.0] })
    };
    texts.filter_map(read).collect()
}

fn assert_readable(document: &Document, name: &str) -> usize {
    let page = html::render(&content::page(document));
    let mut seen = 0;
    for drawing in page.split("<svg").skip(1) {
        let svg = drawing.split("</svg>").next().unwrap();
        let found = words(svg);
        seen += found.len();
        for (index, one) in found.iter().enumerate() {
            let meets = found[..index].iter().find(|other| one.meets(other));
            let texts = meets.map(|other| (&one.text, &other.text));
            assert!(texts.is_none(), "{name}: {texts:?} in {}", attribute(svg, "aria-label").unwrap());
        }
    }
    seen
}

#[test]
fn the_verdict_is_before_the_contents() {
    let page = html::render(&content::brief(real(), None, content::OtherPages::Beside));
    let place = |wanted: &str| page.find(wanted).unwrap_or_else(|| panic!("no {wanted}"));
    assert!(place("Verdict.") < place("<nav") && place("<nav") < place("id=\"costs\""));
}

#[test]
fn two_levels_and_lopsided_intervals_are_in_the_rows() {
    let mut document = real().clone();
    let cost = document.costs[0].clone();
    let metrics = document.experiments.iter_mut().flat_map(|section| &mut section.metrics);
    let metric = metrics.into_iter().find(|metric| metric.name == cost.metric && metric.labels == cost.labels).unwrap();
    metric.modes =
        Some(FigureModes { lower: metric.value, upper: metric.value * 2.0, upper_share: 0.3, of: ModesOf::Launches });
    metric.interval95 = [metric.value * 0.98, metric.value * 2.0];
    let (ends, levels) = (metric.interval_text(), metric.modes_text().unwrap());
    assert!(levels.contains("70 %") && levels.contains("30 %"), "{levels}");
    for text in [
        text::render(&content::brief(&document, None, content::OtherPages::Beside), Some(400)),
        text::render(&content::page(&document), Some(400)),
    ] {
        assert!(text.contains(&format!("Two levels: {levels}.")), "{levels}");
        assert!(text.contains(&ends), "{ends}");
    }
}

#[test]
fn no_words_of_a_drawing_are_on_others() {
    assert!(assert_readable(real(), "real") > 100);
    for name in ["complete", "died", "failed_launch"] {
        assert_readable(&golden(name), name);
    }
}
