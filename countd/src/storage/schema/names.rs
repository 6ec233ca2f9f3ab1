//! A schema: unique names in the order of their fields.

use crate::domain::config::{BUILT_IN_COUNTERS, USER};
use crate::domain::error::{MAX_NAMES, SchemaError};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::percentile;
use crate::domain::schema_views::SchemaViews;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

/// Names of counters in alphabetical order, and the field of each.
pub type SortedNames = (Arc<[Name]>, Arc<[usize]>);

/// The names of counters, in the order of their fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    names: Vec<Name>,
    /// The field of each name. Views of the fields have other names for some.
    index: HashMap<Name, usize>,
    sorted: SortedNames,
    min_len: usize,
    views: Option<FieldViews>,
}

/// The schemas that are views of the fields of a migrated schema.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldViews {
    /// The names that the schema itself has: without those that views have added.
    own: Vec<Name>,
    /// The counters of the new schema, and of how many percent of the entities they are those.
    new: SortedNames,
    percent: u8,
    /// The fields that exist for clients.
    served: BTreeSet<usize>,
}

impl Schema {
    /// A schema of 1 to [`MAX_NAMES`] unique names.
    ///
    /// # Errors
    /// There are no names or too many, or a name is repeated.
    pub fn new(names: Vec<Name>) -> Result<Schema, SchemaError> {
        let mut index = HashMap::with_capacity(names.len());
        for (idx, name) in names.iter().enumerate() {
            if index.insert(name.clone(), idx).is_some() {
                return Err(SchemaError::DuplicateName(name.clone()));
            }
        }
        if !(1..=MAX_NAMES).contains(&names.len()) {
            return Err(SchemaError::InvalidLength);
        }
        let fields = names.iter().cloned().zip(0..);
        Ok(Schema {
            sorted: sort(fields.collect()),
            names,
            index,
            min_len: 0,
            views: None,
        })
    }

    /// The schema of the fields that others are views of. `stored` has the names of the schemas of the views, if they exist.
    pub(super) fn with_views(
        self,
        id: &Name,
        views: &SchemaViews,
        stored: &HashMap<Name, Vec<Name>>,
    ) -> Schema {
        let Schema {
            names, mut index, ..
        } = self;
        let own = names.iter().filter(|name| !views.is_added(name));
        let own: Vec<Name> = own.cloned().collect();
        for view in views.views.values() {
            for (counter, column) in &view.renamed {
                if let Some(field) = index.get(column).copied() {
                    index.entry(counter.clone()).or_insert(field);
                }
            }
        }
        let shown = |schema: &Name| -> Vec<(Name, usize)> {
            let view = views.views.get(schema).filter(|_| schema != id);
            let names = match view {
                Some(_) => stored.get(schema),
                None => Some(&own),
            };
            let names = names.into_iter().flatten();
            let fields = names.filter_map(|name| {
                let column = view.map_or(name, |view| view.column(name));
                Some((name.clone(), *index.get(column)?))
            });
            fields.collect()
        };
        let state = &views.state;
        let (old, new) = (shown(&state.from), shown(&state.to));
        let served = match state.stage.has_both() {
            true => old.iter().chain(&new).map(|(_, field)| *field).collect(),
            false => {
                let current = if state.current() == &state.to {
                    &new
                } else {
                    &old
                };
                current.iter().map(|(_, field)| *field).collect()
            }
        };
        let field_views = FieldViews {
            own,
            new: sort(new),
            percent: state.percent_of_reads(),
            served,
        };
        Schema {
            names,
            index,
            sorted: sort(old),
            min_len: self.min_len,
            views: Some(field_views),
        }
    }

    /// The schema of the counters of users, without configured ones.
    ///
    /// # Errors
    /// None: the names are valid.
    pub(in crate::storage) fn of_users() -> Result<Schema, SchemaError> {
        let name = |name: &str| Name::new(name).map_err(|e| SchemaError::Name(name.to_owned(), e));
        let names: Result<Vec<Name>, _> = BUILT_IN_COUNTERS.into_iter().map(name).collect();
        Schema::new(names?)
    }

    /// Whether it begins with the counters that all users have.
    pub(super) fn has_built_in_counters(&self) -> bool {
        let names = self.names.iter().map(Name::as_str);
        names.take(BUILT_IN_COUNTERS.len()).eq(BUILT_IN_COUNTERS)
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Always false: a schema has at least one name.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether the names agree with others as far as both go.
    pub fn agrees_with(&self, names: &[Name]) -> bool {
        let mut pairs = self.own_names().iter().zip(names);
        pairs.all(|(one, other)| one == other)
    }

    /// The names without those of fields that belong to other schemas, which share the fields.
    pub fn own_names(&self) -> &[Name] {
        let views = self.views.as_ref();
        views.map_or(&self.names, |views| &views.own)
    }

    /// The number of fields of the original schema, which is the minimum length of objects. 0 if it is unknown.
    pub fn min_len(&self) -> usize {
        self.min_len
    }

    /// The schema with a number of fields of the original schema.
    pub(super) fn with_min_len(self, min_len: usize) -> Schema {
        Schema { min_len, ..self }
    }

    /// The names, in the order of their fields.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The counters that clients get of an entity, in alphabetical order, and the field of each.
    pub fn sorted(&self) -> &SortedNames {
        &self.sorted
    }

    /// The counters that clients get of some entities instead of [`sorted`](Self::sorted), and of how many percent of them: while and after
    /// the schema is migrated.
    pub fn sorted_new(&self) -> Option<(&SortedNames, u8)> {
        let views = self.views.as_ref().filter(|views| views.percent > 0);
        views.map(|views| (&views.new, views.percent))
    }

    /// The field of a name. Events find the fields of all names that the schema ever had.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The field of a name, unless a migration has dropped the counter.
    pub fn served_index_of(&self, name: &str) -> Option<usize> {
        let is_served = |field: &usize| match &self.views {
            Some(views) => views.served.contains(field),
            None => true,
        };
        self.index_of(name).filter(is_served)
    }
}

/// Whether an entity is one of the first `percent` of 100 parts of all.
pub fn is_of_percent(eid: &Id, percent: u8) -> bool {
    percentile(eid) < percent
}

fn sort(mut fields: Vec<(Name, usize)>) -> SortedNames {
    fields.sort();
    let names = fields.iter().map(|(name, _)| name.clone()).collect();
    (names, fields.iter().map(|(_, field)| *field).collect())
}

static USER_SCHEMA_ID: LazyLock<Name> =
    LazyLock::new(|| Name::new(USER).unwrap_or_else(|_| unreachable!("{USER} is a name")));

/// The ID of the schema of users' counters. It begins with the counters that all users have, and is stored once there are others.
pub fn user_schema_id() -> &'static Name {
    &USER_SCHEMA_ID
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schema_views::{MigrationState, View};

    fn names(text: &str) -> Vec<Name> {
        text.split(' ')
            .filter_map(|word| Name::new(word).ok())
            .collect()
    }

    #[test]
    fn the_built_in_counters_of_users_come_first() {
        assert!(
            Schema::of_users()
                .expect("a schema")
                .has_built_in_counters()
        );
        for other in ["followings followers posts likesReceived", "a b c d e f"] {
            let schema = Schema::new(names(other)).expect("a schema");
            assert!(!schema.has_built_in_counters(), "{other}");
        }
    }

    fn shared(state: &str, view: &str) -> Schema {
        let views = SchemaViews {
            state: MigrationState::parse(state).expect("a state"),
            views: [(name("v2"), View::parse(view).expect("a view"))].into(),
        };
        let stored = [(name("v2"), names("view share like"))].into();
        let columns = Schema::new(names("read like fav share")).expect("a schema");
        columns.with_views(&name("v1"), &views, &stored)
    }

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn views_name_the_same_fields() {
        let sorted = |sorted: &SortedNames| -> Vec<String> {
            let pairs = sorted.0.iter().zip(sorted.1.iter());
            pairs
                .map(|(name, field)| format!("{name}={field}"))
                .collect()
        };
        let old = ["fav=2", "like=1", "read=0"];
        let new = ["like=1", "share=3", "view=0"];
        for (state, percent, dropped) in [
            ("v1 v2 dual 0 1", None, ""),
            ("v1 v2 backfill 0 1", None, ""),
            ("v1 v2 read-new 0 1", None, ""),
            ("v1 v2 read-new 30 1", Some(30), ""),
            ("v1 v2 done 100 1", Some(100), "fav"),
            ("v1 v2 rolled-back 0 1", None, "share"),
        ] {
            let schema = shared(state, "read>view +share");
            assert_eq!(sorted(schema.sorted()), old, "{state}");
            let shown = schema.sorted_new();
            assert_eq!(shown.map(|(_, percent)| percent), percent, "{state}");
            if let Some((shown, _)) = shown {
                assert_eq!(sorted(shown), new, "{state}");
            }
            for (name, field) in [("read", 0), ("view", 0), ("fav", 2), ("share", 3)] {
                assert_eq!(schema.index_of(name), Some(field), "{state}: {name}");
                let served = (name != dropped).then_some(field);
                assert_eq!(schema.served_index_of(name), served, "{state}: {name}");
            }
            assert_eq!(schema.own_names(), names("read like fav"), "{state}");
            assert_eq!(schema.len(), 4, "{state}");
        }
    }

    #[test]
    fn schema_has_unique_names() {
        let schema = Schema::new(names("read like")).expect("a schema");
        assert_eq!(
            (schema.index_of("like"), schema.index_of("fav")),
            (Some(1), None)
        );
        assert!(matches!(
            Schema::new(names("a b a")),
            Err(SchemaError::DuplicateName(_))
        ));
        assert!(matches!(
            Schema::new(Vec::new()),
            Err(SchemaError::InvalidLength)
        ));
        let many = (0..=MAX_NAMES).map(|i| Name::new(format!("n{i}")).expect("a name"));
        assert!(matches!(
            Schema::new(many.collect()),
            Err(SchemaError::InvalidLength)
        ));
    }
}
