//! A heat map: a square of cells for each pair of rows and columns, coloured by a ratio. A level is one path, so that thousands of cells
//! are a few elements.

use super::canvas::Ink;
use super::{DrawnFor, LEGEND_LINE, LETTER, at, legend, text_at};

/// Ratios between two levels, and the words of the levels.
const EDGES: [f64; 6] = [0.5, 0.7, 0.85, 0.95, 1.05, 1.3];
const LEVELS: [&str; 7] =
    ["below 50 %", "50 to 70 %", "70 to 85 %", "85 to 95 %", "usual", "105 to 130 %", "above 130 %"];
/// Largest side of a cell.
const LARGEST: f64 = 30.0;
/// Smallest side of a cell that has its name next to it.
const NAMED: f64 = 11.0;
/// Space between the map and its margins, and between two groups.
const GAP: f64 = 5.0;
const GROUP_GAP: f64 = 2.0;
/// Longest name in letters.
const LONGEST: usize = 14;

/// Cells by row and column, with a margin on each side.
#[derive(Debug, Clone)]
pub struct HeatPlot {
    /// What a row and what a column is.
    pub sides: [String; 2],
    /// Names of the rows, which are those of the columns.
    pub names: Vec<String>,
    /// True where a row begins a group.
    pub begins: Vec<bool>,
    /// Ratios to the usual value, a list for each row. Less is worse. None where there is no value.
    pub cells: Vec<Vec<Option<f64>>>,
    /// The same of rows and of columns as a whole.
    pub margins: [Vec<Option<f64>>; 2],
}

/// The level of a ratio.
fn level(ratio: f64) -> usize {
    EDGES.iter().filter(|edge| ratio >= **edge).count()
}

/// Where cells are.
struct Grid {
    left: f64,
    top: f64,
    side: f64,
    /// Offset of each row, and of what follows the last.
    offsets: Vec<f64>,
}

impl HeatPlot {
    pub(super) fn draw(&self, ink: &Ink, form: DrawnFor) -> (u32, u32) {
        let width = f64::from(form.width());
        let count = self.names.len().max(1);
        let groups = self.begins.iter().skip(1).filter(|begins| **begins).count() as f64;
        let longest = self.names.iter().map(|name| name.chars().count().min(LONGEST)).max().unwrap_or(0);
        let names = longest as f64 * LETTER + 8.0;
        let space = |names: f64| (width - names - 20.0 - GAP - groups * GROUP_GAP) / (count as f64 + 1.0);
        let (side, names) = if space(names) >= NAMED { (space(names), names) } else { (space(0.0), 0.0) };
        let side = side.min(LARGEST);
        let (places, height) = legend(&LEVELS.map(str::to_owned), width);
        let top = f64::from(height) + 2.0 * f64::from(LEGEND_LINE) + names;
        let mut offsets = Vec::with_capacity(count + 1);
        let mut offset = 0.0;
        for row in 0..count {
            offset += if row > 0 && self.begins.get(row) == Some(&true) { GROUP_GAP } else { 0.0 };
            offsets.push(offset);
            offset += side;
        }
        offsets.push(offset + GAP);
        let grid = Grid { left: names + 10.0, top, side, offsets };
        let mut out = ink.borrow_mut();
        for (level, (x, y)) in places.into_iter().enumerate() {
            *out += &format!("<path class=\"q q{level}\" d=\"M{} {}h12v12h-12z\"/>", at(x + 2.0), at(y + 4.0));
            *out += &text_at(x + 20.0, y + 14.5, "text", LEVELS[level]);
        }
        let sides =
            format!("{} in rows, {} in columns. Margins: all of a row or column.", self.sides[0], self.sides[1]);
        *out += &text_at(2.0, f64::from(height + LEGEND_LINE) - 3.0, "text", &sides);
        if names > 0.0 {
            *out += &self.names_at(&grid);
        }
        *out += &self.paths(&grid);
        let bottom = grid.top + grid.offsets[count] + side + 8.0;
        (form.width(), bottom as u32)
    }

    fn names_at(&self, grid: &Grid) -> String {
        let mut out = String::new();
        for (name, offset) in self.names.iter().zip(&grid.offsets) {
            let name: String = name.chars().take(LONGEST).collect();
            let middle = offset + grid.side / 2.0 + 4.5;
            out += &text_at(grid.left - 6.0, grid.top + middle, "text end", &name);
            let (x, y) = (at(grid.left + middle), at(grid.top - 6.0));
            out += &format!(
                "<g transform=\"rotate(-90 {x} {y})\">{}</g>",
                text_at(grid.left + middle, grid.top - 6.0, "text", &name)
            );
        }
        out
    }

    /// One path for each level.
    fn paths(&self, grid: &Grid) -> String {
        let mut paths = vec![String::new(); LEVELS.len()];
        let side = (grid.side - if grid.side > 6.0 { 1.0 } else { 0.0 }).max(0.5);
        let mut put = |row: usize, column: usize, ratio: Option<f64>| {
            let Some(ratio) = ratio.filter(|ratio| ratio.is_finite()) else { return };
            let (x, y) = (grid.left + grid.offsets[column], grid.top + grid.offsets[row]);
            let side = at(side);
            paths[level(ratio)] += &format!("M{} {}h{side}v{side}h-{side}z", at(x), at(y));
        };
        let count = self.names.len();
        for (row, cells) in self.cells.iter().enumerate() {
            for (column, ratio) in cells.iter().enumerate() {
                put(row, column, *ratio);
            }
        }
        for (place, (row, column)) in self.margins[0].iter().zip(&self.margins[1]).enumerate() {
            put(place, count, *row);
            put(count, place, *column);
        }
        let path = |(level, path): (usize, &String)| format!("<path class=\"q q{level}\" d=\"{path}\"/>");
        paths
            .iter()
            .enumerate()
            .filter(|(_, path)| !path.is_empty())
            .map(path)
            .fold(String::new(), |all, one| all + &one)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn drawn(count: usize, form: DrawnFor) -> String {
        let plot = HeatPlot {
            sides: ["senders".to_owned(), "receivers".to_owned()],
            names: (0..count).map(|number| format!("n<{number}>")).collect(),
            begins: (0..count).map(|number| number % 8 == 0).collect(),
            cells: (0..count)
                .map(|row| (0..count).map(|column| (row != column).then_some(column as f64 / 10.0)).collect())
                .collect(),
            margins: [vec![Some(1.0); count], vec![Some(f64::NAN); count]],
        };
        let ink: Ink = Rc::new(RefCell::new(String::new()));
        let (width, height) = plot.draw(&ink, form);
        assert!(width > 0 && height < 2000);
        ink.take()
    }

    #[test]
    fn thousands_of_cells_are_a_few_elements() {
        for form in [DrawnFor::Page, DrawnFor::Phone] {
            let text = drawn(64, form);
            assert!(text.matches('<').count() < 500, "{}", text.matches('<').count());
            assert!(text.matches('z').count() > 64 * 63, "every cell is drawn");
            assert!(!text.contains("NaN") && !text.contains("n<0>"), "names are escaped");
        }
        assert!(drawn(0, DrawnFor::Page).contains("usual"));
    }

    #[test]
    fn levels_are_those_of_the_legend() {
        assert_eq!([0.1, 0.5, 0.7, 0.94, 1.0, 1.2, 9.0].map(level), [0, 1, 2, 3, 4, 5, 6]);
    }
}
