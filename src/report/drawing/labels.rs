//! Where words stand in a chart: inside of it, on no other words, and off the curves where there is room.

use super::{FONT, Frame, LETTER, text_at};

/// Distance between words and what they name.
const GAP: f64 = 5.0;
/// Height of a line of words.
const LINE: f64 = FONT + 3.0;
/// Places along a curve that words should leave free lie at most so far apart.
const STEP: f64 = 4.0;

/// What counts against a place: words on it, points of a curve under it, its distance from where it is looked for first.
const ON_WORDS: f64 = 1000.0;
const ON_CURVE: f64 = 1.0;
const FARTHER: f64 = 0.6;

/// Words and their box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LabelBox {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl LabelBox {
    /// The box of words that begin at a place on their base line.
    fn of(left: f64, base: f64, text: &str) -> Self {
        let wide = text.chars().count() as f64 * LETTER;
        LabelBox { left, right: left + wide, top: base - FONT, bottom: base + 3.0 }
    }

    fn meets(&self, other: &LabelBox) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn covers(&self, (x, y): (f64, f64)) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }
}

/// What words name.
#[derive(Debug, Clone, Copy)]
pub(super) enum LabelAnchor {
    /// A vertical line: words stand next to it, from the top down.
    FromTop(f64),
    /// A vertical line: words stand next to it, from the bottom up.
    FromBottom(f64),
    /// A horizontal line between two places, at a height: words stand on it or below it.
    Along(f64, f64, f64),
}

/// The words of a chart, as they are placed one after the other.
pub(super) struct LabelPlaces {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Places that curves pass.
    curves: Vec<(f64, f64)>,
    taken: Vec<LabelBox>,
}

impl LabelPlaces {
    /// For a chart with curves through these places.
    pub(super) fn new(frame: &Frame, curves: &[Vec<(f64, f64)>]) -> Self {
        let mut passed = Vec::new();
        for curve in curves {
            passed.extend(curve.first());
            for ends in curve.windows(2) {
                let ((x, y), (to_x, to_y)) = (ends[0], ends[1]);
                let steps = ((to_x - x).hypot(to_y - y) / STEP).ceil().clamp(1.0, 400.0);
                let share = |step: u32| f64::from(step) / steps;
                passed.extend(
                    (1..=steps as u32).map(|step| (x + share(step) * (to_x - x), y + share(step) * (to_y - y))),
                );
            }
        }
        let (left, right) = (frame.origin.0, frame.corner.0);
        LabelPlaces { left, right, top: frame.corner.1, bottom: frame.origin.1, curves: passed, taken: Vec::new() }
    }

    /// The words at the best place that is left.
    pub(super) fn place(&mut self, named: LabelAnchor, text: &str) -> String {
        let best = self
            .candidates(named, text)
            .into_iter()
            .map(|(away, left, base)| (self.cost(away, &LabelBox::of(left, base, text)), left, base))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        let Some((_, left, base)) = best else { return String::new() };
        self.taken.push(LabelBox::of(left, base, text));
        text_at(left, base, "note", text)
    }

    fn cost(&self, away: f64, wanted: &LabelBox) -> f64 {
        let words = self.taken.iter().filter(|taken| taken.meets(wanted)).count() as f64;
        let points = self.curves.iter().filter(|place| wanted.covers(**place)).count() as f64;
        words * ON_WORDS + points * ON_CURVE + away * FARTHER
    }

    /// Places to look at: how far each is from the first, where words begin, and their base line.
    fn candidates(&self, named: LabelAnchor, text: &str) -> Vec<(f64, f64, f64)> {
        let wide = text.chars().count() as f64 * LETTER;
        let lines = (((self.bottom - self.top) / LINE) as u32).max(1);
        let inside = |left: f64| left.min(self.right - wide).max(self.left);
        let mut found = Vec::new();
        match named {
            LabelAnchor::FromTop(x) | LabelAnchor::FromBottom(x) => {
                let from_top = matches!(named, LabelAnchor::FromTop(_));
                for line in 0..lines {
                    let down = f64::from(line) * LINE;
                    let base = if from_top { self.top + FONT + down } else { self.bottom - GAP - down };
                    // The distance gives the side: next to the line, never across it where there is room.
                    for (side, left) in [(0.0, x + GAP), (0.5, x - GAP - wide)] {
                        let kept = inside(left);
                        found.push((f64::from(line) + side + (kept - left).abs(), kept, base));
                    }
                }
            }
            LabelAnchor::Along(from, to, y) => {
                let last = (to - wide).max(from);
                for (rise, base) in
                    [(0.0, y - 6.0), (1.0, y + FONT + 4.0)].into_iter().chain((1..lines).flat_map(|line| {
                        let away = f64::from(line) * LINE;
                        [(f64::from(line) + 1.0, y - 6.0 - away), (f64::from(line) + 2.0, y + FONT + 4.0 + away)]
                    }))
                {
                    if base - FONT < self.top - LINE || base > self.bottom {
                        continue;
                    }
                    for (aside, left) in [(0.0, from + GAP), (0.3, f64::midpoint(from, last)), (0.4, last - GAP)] {
                        found.push((rise * 2.0 + aside, inside(left), base));
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> LabelPlaces {
        LabelPlaces { left: 84.0, right: 732.0, top: 60.0, bottom: 350.0, curves: Vec::new(), taken: Vec::new() }
    }

    #[test]
    fn words_of_many_lines_at_one_place_do_not_meet() {
        let mut places = empty();
        for number in 0..12 {
            let named = match number % 3 {
                0 => LabelAnchor::FromTop(700.0 - f64::from(number)),
                1 => LabelAnchor::FromBottom(700.0),
                _ => LabelAnchor::Along(600.0, 640.0, 100.0),
            };
            places.place(named, &format!("size of the cache {number}"));
        }
        for (index, one) in places.taken.iter().enumerate() {
            assert!(one.left >= 84.0 && one.right <= 732.0 + 1e-9, "{one:?} lies outside");
            assert!(places.taken[..index].iter().all(|other| !one.meets(other)), "{one:?}");
        }
    }

    #[test]
    fn words_leave_a_curve_free() {
        let mut places = empty();
        places.curves = (84..732).map(|x| (f64::from(x), 66.0)).collect();
        places.place(LabelAnchor::FromTop(300.0), "L2 ends");
        assert!(!places.curves.iter().any(|point| places.taken[0].covers(*point)), "{:?}", places.taken[0]);
    }
}
