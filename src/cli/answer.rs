//! An answer in the form that was asked for, on standard output or in a file.

use std::path::Path;

use super::paint::{ColourChoice, painted};
use super::{Failure, print, print_painted, write_file};
use crate::conduct::figures;
use crate::report::page::Page;
use crate::report::screen::{Line, plain};
use crate::report::{html, markdown};

/// An answer in one form.
pub(super) enum Answer {
    /// One screen, with colours where they are wanted.
    Screen(Vec<Line>, ColourChoice),
    /// A page for a browser.
    Html(Page),
    /// A page as Markdown. Its drawings go next to the file.
    Markdown(Page),
    /// Any other text.
    Text(String),
}

impl Answer {
    /// One screen, or everything as text: that may be longer than a screen, and goes through a pager.
    pub fn of_screen(lines: Vec<Line>, all: bool, colour: ColourChoice) -> Self {
        if all { Answer::Text(plain(&lines)) } else { Answer::Screen(lines, colour) }
    }

    /// Shows it, or writes it to the file that was named.
    pub fn show(self, output: Option<&Path>) -> Result<(), Failure> {
        let file = output.filter(|file| file.as_os_str() != "-");
        let text = match (self, file) {
            (Answer::Screen(lines, colour), None) => return print_painted(&painted(&lines, colour)).map(drop),
            (Answer::Screen(lines, _), Some(_)) => plain(&lines),
            (Answer::Html(page), _) => html::render(&page),
            (Answer::Markdown(page), None) => markdown::render(&page),
            (Answer::Markdown(page), Some(file)) => {
                figures::write(file.parent().unwrap_or(Path::new("")), &page).map_err(Failure::from)?;
                markdown::render(&page)
            }
            (Answer::Text(text), _) => text,
        };
        match file {
            None => print(&text),
            Some(file) => write_file(file, &text, "--output").map_err(Failure::from),
        }
    }
}
