//! What all pages of the console share.

use crate::domain::day;
use crate::http::pages::{Page, document};
use crate::http::sessions::Session;
use maud::{Markup, html};

/// The name of the field with the secret of the session.
pub const FORM_TOKEN: &str = "form_token";

/// The pages in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Figures, problems, differences and hot entities.
    Overview,
    /// An entity.
    Entity,
    /// A user.
    User,
    /// Dead letters.
    DeadLetters,
    /// The audit.
    Audit,
    /// The progress of reconciliation.
    Reconciliation,
    /// The counters of each type.
    Schemas,
}

impl Section {
    const ALL: [Section; 7] = [
        Section::Overview,
        Section::Entity,
        Section::User,
        Section::DeadLetters,
        Section::Audit,
        Section::Reconciliation,
        Section::Schemas,
    ];

    /// Its path and its title.
    fn link(self) -> (&'static str, &'static str) {
        match self {
            Section::Overview => ("/admin", "Overview"),
            Section::Entity => ("/admin/entity", "Entity"),
            Section::User => ("/admin/user", "User"),
            Section::DeadLetters => ("/admin/dead", "Dead letters"),
            Section::Audit => ("/admin/audit", "Audit"),
            Section::Reconciliation => ("/admin/reconciliation", "Reconciliation"),
            Section::Schemas => ("/admin/schemas", "Schemas"),
        }
    }
}

/// A page of a session.
pub fn page(section: Section, session: &Session, content: &Markup) -> Page {
    let (_, title) = section.link();
    let body = html! {
        a .skip href="#content" { "Skip to the content" }
        header .bar {
            nav aria-label="Console" {
                ul {
                    @for one in Section::ALL {
                        @let (path, title) = one.link();
                        li { a href=(path) aria-current=[(one == section).then_some("page")] { (title) } }
                    }
                }
            }
            @if session.name.as_ref() != "-" {
                form method="post" action="/admin/logout" {
                    (form_token(session))
                    span .muted { (session.name) } " "
                    button type="submit" { "Log out" }
                }
            }
        }
        main id="content" {
            h1 { (title) }
            (content)
        }
    };
    Page::new(document(&format!("{title} - countd"), "console", &body))
}

/// A page without a session.
pub fn plain(title: &str, content: &Markup) -> Markup {
    let body = html! {
        main id="content" {
            h1 { (title) }
            (content)
        }
    };
    document(&format!("{title} - countd"), "console", &body)
}

/// The secret of the session, which each form must have.
pub fn form_token(session: &Session) -> Markup {
    html! { input type="hidden" name=(FORM_TOKEN) value=(session.form_token); }
}

/// The title of a column of a table.
#[derive(Clone, Copy)]
pub enum Column<'a> {
    /// Of texts.
    Text(&'a str),
    /// Of numbers, which are aligned to the right: cells of class `right`.
    Number(&'a str),
    /// Of checkboxes. Only screen readers have the title.
    Boxes(&'a str),
}

/// A table that scrolls on narrow screens. `rows` are `tr` elements.
pub fn table(caption: &str, columns: &[Column], rows: &Markup) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption .hidden-text { (caption) }
                thead {
                    tr {
                        @for column in columns {
                            @match column {
                                Column::Text(title) => th scope="col" { (title) },
                                Column::Number(title) => th .right scope="col" { (title) },
                                Column::Boxes(title) => th scope="col" { span .hidden-text { (title) } },
                            }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

/// A time in UTC, from milliseconds since 1970.
pub fn time(ms: u64) -> Markup {
    let seconds = ms / 1000 % (24 * 3600);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let date = day::with_dashes(day::of(ms));
    let text = format!("{date} {hours:02}:{minutes:02}:{seconds:02}");
    html! { time datetime={ (date) "T" (&text[date.len() + 1..]) "Z" } { (text) } }
}

/// A time that may be unknown.
pub fn optional_time(ms: Option<u64>) -> Markup {
    match ms.filter(|ms| *ms > 0) {
        Some(ms) => time(ms),
        None => html! { span .muted { "never" } },
    }
}

/// A number with commas between thousands.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A path with query parameters, those with an empty value left out.
pub fn link(path: &str, parameters: &[(&str, &str)]) -> String {
    let encode = |text: &str| {
        let mut encoded = String::with_capacity(text.len());
        for byte in text.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                    encoded.push(char::from(byte));
                }
                _ => encoded.push_str(&format!("%{byte:02X}")),
            }
        }
        encoded
    };
    let parameters = parameters.iter().filter(|(_, value)| !value.is_empty());
    let parameters = parameters.map(|(name, value)| format!("{name}={}", encode(value)));
    let parameters: Vec<String> = parameters.collect();
    match parameters.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", parameters.join("&")),
    }
}

/// The path of the page of an entity or a user.
pub fn entity_link(etype: &str, eid: &str) -> String {
    match etype == crate::domain::config::USER {
        true => link("/admin/user", &[("uid", eid)]),
        false => link("/admin/entity", &[("etype", etype), ("eid", eid)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_times_are_in_utc() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(number(value), text);
        }
        let time = time(1_764_000_001_000).into_string();
        assert!(time.contains("datetime=\"2025-11-24T16:00:01Z\""), "{time}");
    }

    #[test]
    fn parameters_of_links_are_encoded() {
        let path = entity_link("note", "a&b=\"<é");
        assert_eq!(path, "/admin/entity?etype=note&eid=a%26b%3D%22%3C%C3%A9");
        assert_eq!(entity_link("user", "7"), "/admin/user?uid=7");
        assert_eq!(link("/admin/audit", &[("eid", "")]), "/admin/audit");
    }
}
