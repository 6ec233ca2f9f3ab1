//! Schemas that share columns: the counters of a schema that was migrated stay in their columns, and each schema is a view of them.

use super::ids::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The stage of a migration of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Each write changes the counters of both schemas. Reads return those of the old one.
    Dual,
    /// As before, while counters that only the new schema has are computed from the facts.
    Backfill,
    /// Both schemas are complete. Reads of a percentage of the entities return the counters of the new one.
    ReadNew,
    /// Only the counters of the new schema exist for clients.
    Done,
    /// Only the counters of the old schema exist for clients.
    RolledBack,
}

impl Stage {
    const ALL: [Stage; 5] = [
        Stage::Dual,
        Stage::Backfill,
        Stage::ReadNew,
        Stage::Done,
        Stage::RolledBack,
    ];

    /// Its name in the stored layout.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Dual => "dual",
            Stage::Backfill => "backfill",
            Stage::ReadNew => "read-new",
            Stage::Done => "done",
            Stage::RolledBack => "rolled-back",
        }
    }

    /// The stage with this name.
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name)
    }

    /// Whether the migration is under way: clients can use the counters of both schemas.
    pub fn has_both(self) -> bool {
        !matches!(self, Stage::Done | Stage::RolledBack)
    }
}

/// How a schema names the columns of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The name of the column of each counter that the view names differently.
    pub renamed: BTreeMap<Name, Name>,
    /// The counters that the view has added to the columns.
    pub added: BTreeSet<Name>,
}

impl View {
    /// Parses the stored form: `{column}>{counter}` and `+{counter}`, separated by spaces.
    pub fn parse(text: &str) -> Option<View> {
        let mut view = View::default();
        for word in text.split_whitespace() {
            match (word.strip_prefix('+'), word.split_once('>')) {
                (Some(added), _) => {
                    view.added.insert(Name::new(added).ok()?);
                }
                (None, Some((column, counter))) => {
                    let column = Name::new(column).ok()?;
                    view.renamed.insert(Name::new(counter).ok()?, column);
                }
                (None, None) => return None,
            }
        }
        Some(view)
    }

    /// The name of the column of a counter.
    pub fn column<'a>(&'a self, counter: &'a Name) -> &'a Name {
        self.renamed.get(counter).unwrap_or(counter)
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renamed = self.renamed.iter();
        let renamed = renamed.map(|(counter, column)| format!("{column}>{counter}"));
        let added = self.added.iter().map(|counter| format!("+{counter}"));
        let words: Vec<String> = renamed.chain(added).collect();
        f.write_str(&words.join(" "))
    }
}

/// The stage of a migration of a schema, as the stored layout has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationState {
    /// The old schema.
    pub from: Name,
    /// The new schema.
    pub to: Name,
    /// The stage.
    pub stage: Stage,
    /// Of how many percent of the entities reads return the new schema, in the stage [`Stage::ReadNew`].
    pub percent: u8,
    /// The epoch that the stage began. No two stages have the same, so a comparison with it detects any change.
    pub since: u64,
}

impl MigrationState {
    /// Parses the stored form: `{from} {to} {stage} {percent} {since}`.
    pub fn parse(text: &str) -> Option<MigrationState> {
        let words: Vec<&str> = text.split(' ').collect();
        let [from, to, stage, percent, since] = words[..] else {
            return None;
        };
        Some(MigrationState {
            from: Name::new(from).ok()?,
            to: Name::new(to).ok()?,
            stage: Stage::from_name(stage)?,
            percent: percent.parse().ok().filter(|percent| *percent <= 100)?,
            since: since.parse().ok()?,
        })
    }

    /// The schema whose counters exist for clients in any case: the old one until the migration is done.
    pub fn current(&self) -> &Name {
        match self.stage {
            Stage::Done => &self.to,
            _ => &self.from,
        }
    }

    /// Of how many percent of the entities reads return the new schema.
    pub fn percent_of_reads(&self) -> u8 {
        match self.stage {
            Stage::ReadNew => self.percent,
            Stage::Done => 100,
            Stage::Dual | Stage::Backfill | Stage::RolledBack => 0,
        }
    }

    /// The command that takes the migration to its next stage. `None` if it has ended.
    pub fn next_command(&self) -> Option<String> {
        let option = match (self.stage, self.percent) {
            // It continues where it was interrupted.
            (Stage::Dual | Stage::Backfill, _) => "",
            (Stage::ReadNew, 100) => " --done",
            (Stage::ReadNew, _) => " --percent 100",
            (Stage::Done | Stage::RolledBack, _) => return None,
        };
        let MigrationState { from, to, .. } = self;
        Some(format!("countd schema migrate {from} {to}{option}"))
    }
}

impl fmt::Display for MigrationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stage, percent) = (self.stage.name(), self.percent);
        write!(
            f,
            "{} {} {stage} {percent} {}",
            self.from, self.to, self.since
        )
    }
}

/// The schemas that are views of the columns of one schema, and the migration between two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaViews {
    /// The latest migration.
    pub state: MigrationState,
    /// The views, by the ID of their schema. The schema of the columns is not among them: it names its own columns.
    pub views: BTreeMap<Name, View>,
}

impl SchemaViews {
    /// Whether a view has added this column. The schema of the columns does not show it.
    pub fn is_added(&self, column: &Name) -> bool {
        self.views.values().any(|view| view.added.contains(column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn stored_forms_are_parsed() {
        for text in ["", "read>view", "read>view +save +share"] {
            assert_eq!(View::parse(text).expect("a view").to_string(), text);
        }
        let view = View::parse("read>view +share").expect("a view");
        assert_eq!(view.column(&name("view")), &name("read"));
        assert_eq!(view.column(&name("like")), &name("like"));
        for (text, command) in [
            ("v1 v2 dual 0 3", Some("countd schema migrate v1 v2")),
            (
                "v1 v2 read-new 99 3",
                Some("countd schema migrate v1 v2 --percent 100"),
            ),
            (
                "v1 v2 read-new 100 3",
                Some("countd schema migrate v1 v2 --done"),
            ),
            ("v1 v2 done 100 3", None),
        ] {
            let state = MigrationState::parse(text).expect("a state");
            assert_eq!(state.next_command().as_deref(), command, "{text}");
        }
        for text in ["v1 v2 dual 0 3", "v1 v2 read-new 25 7", "v1 v2 done 100 8"] {
            let state = MigrationState::parse(text).expect("a state");
            assert_eq!(state.to_string(), text);
        }
        for text in ["read", "read>", "+", "a>b c"] {
            assert_eq!(View::parse(text), None, "{text}");
        }
        for text in ["v1 v2 dual 0", "v1 v2 late 0 1", "v1 v2 read-new 101 1", ""] {
            assert_eq!(MigrationState::parse(text), None, "{text}");
        }
    }
}
