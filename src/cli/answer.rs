//! An answer about several runs in the form that was asked for, on standard output or in a file.

use std::path::Path;

use super::answer_options::{AnswerOptions, ComparisonForm};
use super::paint::painted;
use super::{Failure, print, print_painted, write_file};
use crate::conduct::figures;
use crate::report::page::Page;
use crate::report::screen::{self, Line};
use crate::report::{html, markdown};

/// What there is to show, each form made where it is wanted.
pub(super) struct Answer<'a> {
    pub screen: &'a dyn Fn() -> Vec<Line>,
    pub page: &'a dyn Fn() -> Page,
    pub json: &'a dyn Fn() -> Result<String, Failure>,
    pub options: &'a AnswerOptions,
}

/// Shows it.
pub(super) fn show(answer: &Answer<'_>) -> Result<(), Failure> {
    let options = answer.options;
    let file = options.output.as_deref().filter(|file| file.as_os_str() != "-");
    let text = match options.format {
        ComparisonForm::Text => {
            let lines = (answer.screen)();
            if file.is_none() && !options.all {
                return print_painted(&painted(&lines, options.color)).map(drop);
            }
            screen::plain(&lines)
        }
        ComparisonForm::Html => html::render(&(answer.page)()),
        ComparisonForm::Markdown => {
            let page = (answer.page)();
            if let Some(file) = file {
                figures::write(file.parent().unwrap_or(Path::new("")), &page).map_err(Failure::from)?;
            }
            markdown::render(&page)
        }
        ComparisonForm::Json => (answer.json)()?,
    };
    match file {
        None => print(&text),
        Some(file) => write_file(file, &text, "--output").map_err(Failure::from),
    }
}
