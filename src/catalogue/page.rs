//! The catalogue as one page: to sort, to filter, to compare two or three machines, and to put a run of one's own among them.

use maud::{PreEscaped, html};
use serde_json::{Value, json};

use super::entry::Entry;
use crate::experiments::costs;
use crate::report::html::whole;

/// The page. It works without a network, and what is dropped on it stays in the browser.
pub fn page(entries: &[Entry]) -> String {
    let costs: Vec<Value> = costs::asked()
        .filter_map(|asked| {
            let (unit, _) = entries.iter().find_map(|entry| entry.shown(asked.name))?;
            let labels: Vec<String> = asked.figure.pairs().map(|(key, value)| format!("{key}={value}")).collect();
            Some(json!({
                "name": asked.name, "metric": asked.figure.metric(), "labels": labels, "unit": unit, "better": unit.better(),
            }))
        })
        .collect();
    let machines: Vec<Value> = entries.iter().map(machine).collect();
    // A closing tag in the data would end it.
    let data = json!({ "costs": costs, "machines": machines }).to_string().replace("</", "<\\/");
    let body = html! {
        style { "#machines td,#picked td{white-space:nowrap}#machines button{font:inherit;color:var(--link);background:none;border:0;padding:0;cursor:pointer;text-align:left}" }
        section id="all" {
            p {
                "Costs of machines as " code { "sysdyno run" } " measured them. Choose two or three to see which is better at what. To add a run of \
                 your own, drop its node.json on this page. The file stays in your browser."
            }
            p {
                label { "Filter " input id="filter" type="search" placeholder="zen 4, kvm"; }
                " "
                label { "Your run " input id="file" type="file" accept=".json"; }
            }
            p id="say" aria-live="polite" {}
            div.scroll tabindex="0" { table id="picked" {} }
            div.scroll tabindex="0" { table id="machines" {} }
            noscript { p { "This page needs scripts. " code { "sysdyno machines --all" } " prints the same." } }
        }
        script id="data" type="application/json" { (PreEscaped(data)) }
        script { (PreEscaped(include_str!("machines.js"))) }
    };
    let subtitle = format!("{} machines", entries.len());
    whole("Machines", &subtitle, &body)
}

fn machine(entry: &Entry) -> Value {
    let costs: serde_json::Map<String, Value> = costs::asked()
        .filter_map(|asked| {
            let (_, [low, value, high]) = entry.shown(asked.name)?;
            Some((asked.name.to_owned(), json!([value, low, high])))
        })
        .collect();
    json!({ "name": entry.kind.name(), "about": entry.about(), "costs": costs })
}
