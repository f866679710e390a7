//! `sysdyno completions` and `sysdyno man`, generated from the definitions of the command line.

use clap::builder::Resettable;

use super::arguments::{CompletionOptions, ManualOptions, command};
use super::{DONE, Failure, print};
use crate::results::problem::Problem;

pub(super) fn completions(options: &CompletionOptions) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut command(), "sysdyno", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(DONE)
}

pub(super) fn manual(options: &ManualOptions) -> Result<u8, Failure> {
    match &options.command {
        Some(verb) => page(verb),
        None => whole(),
    }
}

fn unwritten(error: &std::io::Error) -> Failure {
    Failure::while_working(Problem::new(format!("cannot write the manual: {error}")))
}

/// The page of one verb, which refers to that of the program.
fn page(verb: &str) -> Result<u8, Failure> {
    let mut whole = command();
    // This gives verbs the name of their page and the words before theirs.
    whole.build();
    let found = whole.find_subcommand(verb).filter(|verb| !verb.is_hide_set()).ok_or_else(|| {
        Problem::new(format!("there is no command '{verb}'")).hint("`sysdyno --help` lists the commands")
    })?;
    let mut text = Vec::new();
    let source = format!("sysdyno {}", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(found.clone()).source(source).render(&mut text).map_err(|error| unwritten(&error))?;
    print(&format!("{}.SH \"SEE ALSO\"\n.BR sysdyno (1)\n", String::from_utf8_lossy(&text)))?;
    Ok(DONE)
}

/// One page with all verbs: the overview, then a section for each, then the examples line by line.
fn whole() -> Result<u8, Failure> {
    let mut text = Vec::new();
    let whole = command();
    let examples = whole.get_after_help().map(ToString::to_string).unwrap_or_default();
    let overview = whole.clone().after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let rendered = clap_mangen::Man::new(overview).render(&mut text).and_then(|()| {
        whole.get_subcommands().filter(|verb| !verb.is_hide_set()).try_for_each(|verb| {
            let name = format!("sysdyno {}", verb.get_name());
            let page = clap_mangen::Man::new(verb.clone().bin_name(name.clone()));
            text.extend(format!(".SH \"{}\"\n", name.to_uppercase()).bytes());
            page.render_synopsis_section(&mut text)?;
            page.render_description_section(&mut text)?;
            page.render_options_section(&mut text)
        })
    });
    rendered.map_err(|error| unwritten(&error))?;
    print(&format!("{}{}", String::from_utf8_lossy(&text), examples_section(&examples)))?;
    Ok(DONE)
}

/// Examples keep their lines; what follows them is folded like all text.
fn examples_section(text: &str) -> String {
    // A hyphen may become a dash, which no shell understands.
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let (examples, rest) = escaped.split_once("\n\n").unwrap_or((&escaped, ""));
    let lines = examples.trim_start_matches("Examples:\n");
    format!(".SH EXAMPLES\n.nf\n{lines}\n.fi\n.PP\n{rest}\n")
}
