//! The rules of drawings for a file of its own. Image viewers, converters and office programs know no variables of style sheets and
//! ignore what has one, so each such declaration stands behind one with the colour of the light scheme.

use std::collections::BTreeMap;

use super::STYLE;

/// Series that have a colour of their own.
const SERIES: usize = 8;
/// The colour of a series, in a rule for all of them.
const OF_SERIES: &str = "--c";

/// The rules for a drawing with this content.
pub(super) fn for_file(content: &str) -> String {
    let mut lines = STYLE.lines();
    let first = lines.next().unwrap_or_default();
    let light = variables(first);
    let used: Vec<usize> = (0..SERIES).filter(|series| content.contains(&format!(" s{series}"))).collect();
    let mut out = format!("{first}\n");
    for line in lines {
        // A scheme is variables only.
        if line.starts_with('@') {
            out += &format!("{line}\n");
            continue;
        }
        for (selector, declarations) in line.split('}').filter_map(|rule| rule.split_once('{')) {
            let declared: Vec<String> = declarations.split(';').map(|one| with_literal(one, &light)).collect();
            out += &format!("{selector}{{{}}}", declared.join(";"));
            for series in used.iter().filter(|_| declarations.contains("var(--c)") || declarations.contains("var(--c,"))
            {
                let own = format!("var({OF_SERIES}{series})");
                let declared: Vec<String> = declarations
                    .split(';')
                    .filter_map(|one| one.split_once(":var(--c)").or_else(|| one.split_once(":var(--c,")))
                    .map(|(property, _)| with_literal(&format!("{property}:{own}"), &light))
                    .collect();
                out += &format!("{selector}.s{series}{{{}}}", declared.join(";"));
            }
        }
        out.push('\n');
    }
    out
}

/// The variables that a rule sets, each with its value.
fn variables(rule: &str) -> BTreeMap<&str, &str> {
    let declared = rule.split_once('{').map_or("", |(_, rest)| rest.trim_end_matches('}'));
    declared.split(';').filter_map(|one| one.split_once(':')).filter(|(name, _)| name.starts_with("--")).collect()
}

/// A declaration, behind the same with the value of its variable where it has one.
fn with_literal(declaration: &str, values: &BTreeMap<&str, &str>) -> String {
    let literal = declaration.split_once(":var(").and_then(|(property, rest)| {
        let value = values.get(rest.strip_suffix(')')?)?;
        (!property.starts_with("--")).then(|| format!("{property}:{value}"))
    });
    literal.map_or_else(|| declaration.to_owned(), |literal| format!("{literal};{declaration}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules without declarations that have a variable, as a program reads them that knows none.
    fn as_read_without_variables(style: &str) -> String {
        let without = |rule: &str| -> Option<String> {
            let (selector, declared) = rule.split_once('{')?;
            let known: Vec<&str> = declared.split(';').filter(|one| !one.contains("--")).collect();
            Some(format!("{selector}{{{}}}", known.join(";")))
        };
        let rules = style.lines().filter(|line| !line.starts_with('@')).flat_map(|line| line.split('}'));
        rules.filter_map(without).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_viewer_without_variables_sees_the_light_scheme() {
        let style = for_file("<g class=\"f s0\"/><g class=\"l s3 d0\"/>");
        let seen = as_read_without_variables(&style);
        for rule in [
            ".drawing .ground{fill:#fff}",
            ".drawing text{fill:#1b1f24}",
            ".drawing .grid{stroke:#d9dde2}",
            ".drawing .f.s0{fill:#0063a6}",
            ".drawing .l.s3{stroke:#9a3d83}",
            ".drawing .knee.s3{stroke:#9a3d83}",
            ".drawing .range{fill:#6b7480;fill-opacity:.28}",
        ] {
            assert!(seen.lines().any(|line| line == rule), "{rule} is not in\n{seen}");
        }
        assert!(!seen.contains(".s1{fill"), "only series that are there");
        // A browser takes the later declaration, which follows its scheme.
        assert!(style.contains("fill:#fff;fill:var(--ground)") && style.contains("fill:#0063a6;fill:var(--c0)"));
        // Each visible colour has such a declaration in front.
        for rule in style.split('}').filter(|rule| rule.contains(":var(--") && !rule.contains("outline")) {
            let declared = rule.split_once('{').map_or("", |(_, rest)| rest);
            for one in declared.split(';').filter(|one| one.contains(":var(--") && !one.starts_with("--c:")) {
                let property = one.split(':').next().unwrap();
                let of_series = one.contains("var(--c)") || one.contains("var(--c,");
                assert!(of_series || declared.contains(&format!("{property}:#")), "{one} in {rule}");
            }
        }
    }
}
