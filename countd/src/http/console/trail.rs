//! Entries of the audit as a table.

use super::layout::{Column, entity_link, table, time};
use crate::query::audit::AuditEntry;
use maud::{Markup, html};

/// The fields with a column of their own; the ID of the entry tells `ts`.
const COLUMNS: [&str; 8] = [
    "etype",
    "eid",
    "metric",
    "before",
    "after",
    "difference",
    "source",
    "ts",
];

/// The entries, the newest first.
pub fn trail(entries: &[AuditEntry]) -> Markup {
    if entries.is_empty() {
        return html! { p .muted { "No corrections." } };
    }
    let rows = html! {
        @for entry in entries {
            @let (etype, eid) = (entry.field("etype"), entry.field("eid"));
            tr {
                td { (time(entry.ms())) }
                td { a href=(entity_link(etype, eid)) { (etype) " " (eid) } }
                td { (entry.field("metric")) }
                td .right { (entry.field("before")) }
                td .right { (entry.field("after")) }
                td .right { (entry.field("difference")) }
                td { (entry.field("source")) }
                td .muted { @for (name, value) in entry.fields_except(&COLUMNS) { (name) ": " (value) " " } }
            }
        }
    };
    let columns = [
        Column::Text("Time (UTC)"),
        Column::Text("Entity or user"),
        Column::Text("Counter"),
        Column::Number("Before"),
        Column::Number("After"),
        Column::Number("Difference"),
        Column::Text("Source"),
        Column::Text("Other fields"),
    ];
    table("Corrections", &columns, &rows)
}
