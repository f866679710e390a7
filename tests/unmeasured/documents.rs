//! The documents lead to each other, name commands that exist, and make a site without dead links. No network is needed.
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use sysdyno::testing::experiments;

use crate::support::runs::{output, text};
use crate::support::trees::files;

/// A page: where its links lead, and the names of its headings.
#[derive(Default)]
struct Linked {
    links: Vec<String>,
    anchors: HashSet<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Markdown file of the top folder, `docs/` and `records/`, by its path from the top folder.
fn documents() -> BTreeMap<PathBuf, String> {
    let top = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let below = ["docs", "records"].map(|folder| files(&root().join(folder)));
    top.chain(below.into_iter().flatten())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| (path.strip_prefix(root()).unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// As Git hosting pages and mdBook name a heading: letters, digits, `_` and `-`, in lower case.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|&letter| letter.is_alphanumeric() || " -_".contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

fn linked(document: &str) -> Linked {
    let (mut page, mut heading) = (Linked::default(), None::<String>);
    for event in Parser::new_ext(document, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                page.anchors.extend(heading.take().map(|words| anchor(&words)));
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::Html(markup) | Event::InlineHtml(markup) => {
                page.anchors
                    .extend(markup.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
            }
            _ => {}
        }
    }
    page
}

/// A path without `..`, or nothing if it leads out of the top folder.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => inside.pop().then_some(())?,
            Component::Normal(name) => inside.push(name),
            _ => return None,
        }
    }
    Some(inside)
}

/// Why a link of a page leads nowhere on the site, if it does.
fn dead(page: &Path, link: &str, pages: &BTreeMap<PathBuf, Linked>) -> Option<String> {
    let (place, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if place.is_empty() { Some(page.to_owned()) } else { inside(&page.parent()?.join(place)) };
    let target = target.filter(|target| root().join(target).is_file());
    let why = match target {
        None => "is no file",
        // `scripts/site` copies these.
        Some(target)
            if !(pages.contains_key(&target) || target.starts_with("records") || target.starts_with("schemas")) =>
        {
            "is not on the site"
        }
        Some(target) if !anchor.is_empty() && !pages.get(&target)?.anchors.contains(anchor) => "has no such heading",
        Some(_) => return None,
    };
    Some(format!("{}: {link} {why}", page.display()))
}

#[test]
fn links_lead_somewhere() {
    let pages: BTreeMap<_, _> = documents().iter().map(|(path, document)| (path.clone(), linked(document))).collect();
    let (mut checked, mut wrong) = (0, Vec::new());
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            checked += 1;
            wrong.extend(dead(path, link, &pages));
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} links are dead:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 200, "{checked} links were read");
    for (link, why) in
        [("none.md", "no file"), ("../src/main.rs", "not on the site"), ("../README.md#none", "no such heading")]
    {
        let found = dead(Path::new("docs/running.md"), link, &pages);
        assert!(found.as_ref().is_some_and(|found| found.contains(why)), "{link}: {found:?}");
    }
}

#[test]
fn each_page_is_in_the_table_of_contents() {
    let documents = documents();
    let contents = Path::new("docs/SUMMARY.md");
    let listed: HashSet<_> =
        linked(&documents[contents]).links.iter().filter_map(|link| inside(&Path::new("docs").join(link))).collect();
    let missing: Vec<_> = documents
        .keys()
        .filter(|path| !path.starts_with("records") && *path != contents && !listed.contains(*path))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
    let lines = documents[Path::new("README.md")].lines().count();
    assert!(lines <= 150, "README.md has {lines} lines, at most 150. Move something to docs/");
}

/// The commands of the code blocks: what follows `sysdyno`, up to the next command or a comment.
fn commands(document: &str) -> Vec<String> {
    let (mut found, mut in_code) = (Vec::new(), false);
    for event in Parser::new_ext(document, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(code) if in_code => {
                let code = code.replace("\\\n", " ").replace("cargo run --release -- ", "sysdyno ");
                for line in code.lines() {
                    let parts = line.split("sysdyno ").skip(1);
                    found.extend(
                        parts.map(|part| part.split(['|', ';', ')', '#', '>']).next().unwrap().trim().to_owned()),
                    );
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn commands_of_the_documents_exist() {
    let listed = text(&output(&["help"]).stdout);
    let verbs =
        listed.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<_> =
        verbs.filter(|line| !line.starts_with("    ")).filter_map(|line| line.split_whitespace().next()).collect();
    let help: BTreeMap<_, _> = verbs.iter().map(|&verb| (verb, text(&output(&["help", verb]).stdout))).collect();
    let has = |help: &str, flag: &str| {
        help.split(|letter: char| !letter.is_alphanumeric() && letter != '-').any(|word| word == flag)
    };
    let (mut checked, mut wrong) = (0, Vec::new());
    for (path, document) in documents().iter().filter(|(path, _)| !path.starts_with("records")) {
        for command in commands(document) {
            let verb = command.split_whitespace().next().unwrap_or_default();
            let Some(help) = help.get(verb) else { continue };
            checked += 1;
            let flags = command.split(" -- ").next().unwrap().split_whitespace().filter(|word| word.starts_with("--"));
            let flags = flags.map(|flag| flag.trim_matches(['"', '\'']).split('=').next().unwrap());
            wrong
                .extend(flags.filter(|flag| !has(help, flag)).map(|flag| format!("{}: {verb} {flag}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "there is no such flag:\n{}", wrong.join("\n"));
    assert!(checked > 60, "{checked} commands were read");
    let page = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let flags =
        help["run"].split_whitespace().map(|word| word.trim_end_matches(',')).filter(|word| word.starts_with("--"));
    let flags = flags
        .map(|flag| flag.split(['[', '=']).next().unwrap())
        .filter(|&flag| flag != "--help" && has(&help["run"], flag));
    let missing: Vec<_> =
        verbs.iter().copied().chain(flags).filter(|name| *name != "help" && !has(&page, name)).collect();
    assert!(missing.is_empty(), "docs/commands.md lacks {missing:?}");
}

#[test]
fn the_changelog_has_the_version_of_each_method() {
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let missing: Vec<_> = experiments::TABLE
        .iter()
        .map(|found| format!("| `{}` | {} |", found.id, found.method_version))
        .filter(|row| !changelog.contains(row))
        .collect();
    assert!(missing.is_empty(), "CHANGELOG.md has no rows with {missing:?}");
}
