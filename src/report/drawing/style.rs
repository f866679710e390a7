//! The rules of drawings for a separate file. Converters such as resvg, rsvg-convert and office programs know neither variables of
//! style sheets nor colour schemes nor the short form of a font. A file has plain rules with the colours of the light scheme.

use std::collections::BTreeMap;

use super::STYLE;

/// Series that have their own colour.
const SERIES: usize = 8;
/// The variable with the colour of a series, in rules for all of them. The others have the number of a series behind it.
const OF_SERIES: &str = "--c";

/// The rule for the ground around the letters of a note.
const HALO: &str = ".drawing .halo";

/// The rules for a drawing with this content.
pub(super) fn for_file(content: &str) -> String {
    let mut lines = STYLE.lines();
    let first = lines.next().unwrap_or_default();
    let light = variables(first);
    let used: Vec<usize> = (0..SERIES).filter(|series| content.contains(&format!(" s{series}"))).collect();
    let mut out = font(first);
    // A scheme is variables only, and a file is never as narrow as a phone.
    for line in lines.filter(|line| !line.starts_with('@') && !line.contains(".narrow")) {
        let mut written = String::new();
        for (selector, declared) in line.split('}').filter_map(|rule| rule.split_once('{')) {
            let (halo, declared): (Vec<&str>, Vec<&str>) =
                declared.split(';').filter(|one| is_shown(one)).partition(|one| is_halo(selector, one));
            written += &rule(HALO, &halo, &light);
            written += &rule(selector, &declared, &light);
            for series in &used {
                let mut values = light.clone();
                let own = light.get(format!("{OF_SERIES}{series}").as_str()).copied().unwrap_or_default();
                values.insert(OF_SERIES, own);
                let of_series =
                    declared.iter().copied().filter(|one| one.contains("var(--c)") || one.contains("var(--c,"));
                written += &rule(&format!("{selector}.s{series}"), &of_series.collect::<Vec<_>>(), &values);
            }
        }
        if !written.is_empty() {
            out += &format!("\n{written}");
        }
    }
    out + "\n"
}

/// Whether a declaration is one of a file: neither a variable, nor what a pointer does, nor an order that converters ignore.
fn is_shown(declaration: &str) -> bool {
    ["--", "outline", "paint-order"].iter().all(|other| !declaration.starts_with(other))
}

/// Whether a declaration is for the ground around the letters of a note. It would cover the letters where their order is ignored.
fn is_halo(selector: &str, declaration: &str) -> bool {
    selector.ends_with(" .note") && declaration.starts_with("stroke")
}

/// The content with the ground around each note as a separate text below it.
pub(super) fn with_halos(content: &str) -> String {
    const NOTE: &str = "<text class=\"note";
    let mut parts = content.split(NOTE);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let text = part.split_inclusive("</text>").next().unwrap_or_default();
        out += &format!("<text aria-hidden=\"true\" class=\"halo{text}{NOTE}{part}");
    }
    out
}

/// A rule with the values of its variables; empty where no declaration is left.
fn rule(selector: &str, declared: &[&str], values: &BTreeMap<&str, &str>) -> String {
    let plain: Vec<String> = declared.iter().filter_map(|one| with_value(one, values)).collect();
    if plain.is_empty() { String::new() } else { format!("{selector}{{{}}}", plain.join(";")) }
}

/// A declaration with the value of its variable, or with the value behind it where nothing sets that; none where neither is known.
fn with_value(declaration: &str, values: &BTreeMap<&str, &str>) -> Option<String> {
    let Some((property, variable)) = declaration.split_once(":var(") else { return Some(declaration.to_owned()) };
    let mut names = variable.trim_end_matches(')').split(',').map(|name| name.trim_start_matches("var("));
    names.find_map(|name| values.get(name)).map(|value| format!("{property}:{value}"))
}

/// The font of all text, in its long form.
fn font(first: &str) -> String {
    let short = declarations(first).find_map(|(name, value)| (name == "font").then_some(value)).unwrap_or_default();
    let (size, families) = short.split_once(' ').unwrap_or_default();
    format!(".drawing{{font-size:{size};font-family:{families}}}")
}

/// What a rule declares: names and values.
fn declarations(rule: &str) -> impl Iterator<Item = (&str, &str)> {
    let declared = rule.split_once('{').map_or("", |(_, rest)| rest.trim_end_matches('}'));
    declared.split(';').filter_map(|one| one.split_once(':'))
}

/// The variables that a rule sets, each with its value.
fn variables(rule: &str) -> BTreeMap<&str, &str> {
    declarations(rule).filter(|(name, _)| name.starts_with("--")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every class that a drawing can have, with every series.
    fn everything() -> String {
        (0..SERIES).fold(String::new(), |text, series| text + &format!("<g class=\"f s{series}\"/>"))
    }

    #[test]
    fn a_file_has_the_light_scheme_in_plain_rules() {
        let style = for_file("<g class=\"f s0\"/><g class=\"l s3 d0\"/>");
        for rule in [
            ".drawing{font-size:13px;font-family:system-ui,",
            ".drawing .ground{fill:#fff}",
            ".drawing text{fill:#1b1f24}",
            ".drawing .grid{stroke:#d9dde2}",
            ".drawing .f{stroke:#fff;stroke-width:.8}",
            ".drawing .f.s0{fill:#0063a6}",
            ".drawing .l.s3{stroke:#9a3d83}",
            ".drawing .knee{fill:none;stroke:#6b7480;",
            ".drawing .knee.s3{stroke:#9a3d83}",
            ".drawing .range{fill:#6b7480;fill-opacity:.28}",
            ".drawing .q6{fill:#0063a6;fill-opacity:.8}",
        ] {
            assert!(style.contains(rule), "{rule} is not in\n{style}");
        }
        assert!(!style.contains(".s1{"), "only series that are there: {style}");
    }

    #[test]
    fn a_file_depends_on_nothing_that_converters_lack() {
        let style = for_file(&everything());
        for lacking in ["var(", "--", "@", "font:", "outline", "paint-order", ":hover", "currentColor", "calc("] {
            assert!(!style.contains(lacking), "{lacking} is in\n{style}");
        }
        // Each rule of the page with something to show is there, with every declaration.
        let of_page = STYLE
            .lines()
            .skip(1)
            .filter(|line| !line.starts_with('@') && !line.contains(".narrow"))
            .flat_map(|line| line.split('}'));
        for (selector, declared) in of_page.filter_map(|rule| rule.split_once('{')) {
            for (property, value) in
                declared.split(';').filter(|one| is_shown(one)).filter_map(|one| one.split_once(':'))
            {
                let own =
                    [selector.to_owned(), format!("{selector}.s7"), HALO.to_owned()].into_iter().any(|selector| {
                        let rules = style.split(['}', '\n']).filter_map(|rule| rule.split_once('{'));
                        rules.filter(|(of, _)| *of == selector).any(|(_, declared)| {
                            declared.split(';').filter_map(|one| one.split_once(':')).any(|(name, _)| name == property)
                        })
                    });
                assert!(own, "{property}:{value} of {selector} is not in\n{style}");
            }
        }
    }

    #[test]
    fn the_ground_of_a_note_is_a_text_below_it() {
        let text = "<g/><text class=\"note end\" x=\"1\" y=\"2\">a</text><g/>";
        let halo = "<text aria-hidden=\"true\" class=\"halo end\" x=\"1\" y=\"2\">a</text>";
        assert_eq!(with_halos(text), text.replacen("<text", &format!("{halo}<text"), 1));
        let style = for_file(text);
        assert!(style.contains(".drawing .note{fill:#1b1f24}"), "{style}");
        assert!(style.contains(".drawing .halo{stroke:#fff;stroke-width:3px;stroke-linejoin:round}"), "{style}");
    }
}
