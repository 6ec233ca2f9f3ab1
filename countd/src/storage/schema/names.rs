//! A schema: unique names in the order of their fields.

use crate::domain::config::{BUILT_IN_COUNTERS, USER};
use crate::domain::error::{MAX_NAMES, SchemaError};
use crate::domain::ids::Name;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The names of counters, in the order of their fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    names: Vec<Name>,
    index: HashMap<Name, usize>,
    /// The names in alphabetical order, and the field of each.
    sorted: (Arc<[Name]>, Arc<[usize]>),
    min_len: usize,
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
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|idx| &names[*idx]);
        let sorted = order.iter().map(|idx| names[*idx].clone()).collect();
        Ok(Schema {
            names,
            index,
            sorted: (sorted, order.into()),
            min_len: 0,
        })
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
        let mut pairs = self.names.iter().zip(names);
        pairs.all(|(one, other)| one == other)
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

    /// The names in alphabetical order, and the field of each.
    pub fn sorted(&self) -> &(Arc<[Name]>, Arc<[usize]>) {
        &self.sorted
    }

    /// The field of a name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
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
