//! Schemas: the names of the fields of an entity's counters.
//!
//! A schema is a hash `schema:{id}` with `len`, `first` (the length at creation) and the name of each index, and a hash
//! `schema:{id}:idx_by_name` with the index of each name. Both are written atomically. A schema only grows: names are never changed,
//! moved or removed, since existing counters depend on them.

use crate::domain::config::{BUILT_IN_COUNTERS, USER};
use crate::domain::error::{MAX_NAMES, SchemaError};
use crate::domain::ids::Name;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};
use std::time::{Duration, Instant};

/// How long a cached schema is valid.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// The delay before a failed refresh is retried.
const RETRY_AFTER: Duration = Duration::from_secs(2);

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
    pub(super) fn of_users() -> Result<Schema, SchemaError> {
        let name = |name: &str| Name::new(name).map_err(|e| SchemaError::Name(name.to_owned(), e));
        let names: Result<Vec<Name>, _> = BUILT_IN_COUNTERS.into_iter().map(name).collect();
        Schema::new(names?)
    }

    /// Whether it begins with the counters that all users have.
    fn has_built_in_counters(&self) -> bool {
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

    /// The number of fields of the original schema, which is the minimum length of objects. 0 if it is unknown.
    pub fn min_len(&self) -> usize {
        self.min_len
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

/// Appends names to a schema of an expected length.
static WRITE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../lua/schema_write.lua")));

/// Commands that read a schema.
const READ_PERMISSIONS: &[&str] = &["HGETALL {schema}"];
/// The permissions to append to a schema.
pub fn writer_permissions() -> Permissions {
    WRITE.required_permissions()
}

/// Commands that list schemas.
const LIST_PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1 TYPE hash"];

/// The permissions to read schemas.
pub fn reader_permissions() -> Permissions {
    Permissions::of_commands(READ_PERMISSIONS)
}

/// The permissions of `countd schema`.
pub fn operator_permissions() -> Permissions {
    reader_permissions()
        .and(Permissions::of_commands(LIST_PERMISSIONS))
        .and(WRITE.required_permissions())
}

/// A schema and when it was read.
#[derive(Clone)]
struct CachedSchema {
    schema: Arc<Schema>,
    read_at: Instant,
}

/// The schemas of a store, cached.
#[derive(Clone)]
pub struct Schemas {
    store: Store,
    cache: Arc<RwLock<HashMap<Name, CachedSchema>>>,
}

impl Schemas {
    /// An empty cache.
    pub fn new(store: Store) -> Schemas {
        Schemas {
            store,
            cache: Arc::default(),
        }
    }

    /// A schema, from the cache if it was read in the last ten seconds. While the store is unavailable, an older cached schema is
    /// returned.
    ///
    /// # Errors
    /// There is no such schema, or it is not cached and the store is unavailable.
    pub async fn get(&self, id: &Name) -> Result<Arc<Schema>, SchemaError> {
        let cached = self.cached_entry(id);
        let fresh = |entry: &&CachedSchema| entry.read_at.elapsed() < CACHE_TTL;
        if let Some(entry) = cached.as_ref().filter(fresh) {
            return Ok(Arc::clone(&entry.schema));
        }
        match (self.refresh(id).await, cached) {
            (Err(SchemaError::Store(_)), Some(entry)) => {
                // Without a delay before the next refresh, every request would wait for a timeout.
                let read_at = Instant::now().checked_sub(CACHE_TTL - RETRY_AFTER);
                self.insert(id, &entry.schema, read_at);
                Ok(entry.schema)
            }
            (refreshed, _) => refreshed,
        }
    }

    fn cached_entry(&self, id: &Name) -> Option<CachedSchema> {
        let cache = self
            .cache
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        cache.get(id).cloned()
    }

    /// A schema from the cache, of any age.
    pub fn cached(&self, id: &Name) -> Option<Arc<Schema>> {
        self.cached_entry(id).map(|entry| entry.schema)
    }

    /// A schema, refreshed if the cached one does not have `name`, since it may have been extended.
    ///
    /// # Errors
    /// See [`get`](Self::get). A name that is still missing is not an error.
    pub async fn with_name(&self, id: &Name, name: &str) -> Result<Arc<Schema>, SchemaError> {
        let schema = self.get(id).await?;
        if schema.index_of(name).is_some() {
            return Ok(schema);
        }
        self.refresh(id).await
    }

    /// Reads a schema from the store into the cache.
    ///
    /// # Errors
    /// See [`get`](Self::get).
    pub async fn refresh(&self, id: &Name) -> Result<Arc<Schema>, SchemaError> {
        let schema = Arc::new(self.read(id).await?);
        self.insert(id, &schema, Some(Instant::now()));
        Ok(schema)
    }

    /// Caches a schema that is used until the stored one has been read, also while the store is unavailable.
    pub(super) fn seed(&self, id: &Name, schema: Schema) {
        let expired = Instant::now().checked_sub(CACHE_TTL);
        self.insert(id, &Arc::new(schema), expired);
    }

    /// Caches a schema that was read at a time (`None`: now).
    fn insert(&self, id: &Name, schema: &Arc<Schema>, read_at: Option<Instant>) {
        let mut cache = self
            .cache
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let schema = Arc::clone(schema);
        let read_at = read_at.unwrap_or_else(Instant::now);
        cache.insert(id.clone(), CachedSchema { schema, read_at });
    }

    async fn read(&self, id: &Name) -> Result<Schema, SchemaError> {
        let key = self.store.keys().schema(id);
        let fields: HashMap<String, String> = redis::cmd("HGETALL")
            .arg(&key)
            .query_async(&mut self.store.reads())
            .await?;
        if fields.is_empty() {
            return match id == user_schema_id() {
                true => Schema::of_users(),
                false => Err(SchemaError::Missing(id.clone())),
            };
        }
        let damaged = |problem: &str| SchemaError::Damaged(key.clone(), problem.to_owned());
        let len = fields.get("len").and_then(|len| len.parse::<usize>().ok());
        let len = len
            .filter(|len| *len <= MAX_NAMES)
            .ok_or_else(|| damaged("no len"))?;
        let name = |idx: usize| {
            let name = fields
                .get(&idx.to_string())
                .ok_or_else(|| damaged("a name is missing"))?;
            Name::new(name.as_str()).map_err(|_| damaged("a name is invalid"))
        };
        let names = (0..len).map(name).collect::<Result<Vec<_>, _>>()?;
        // Schemas of older versions do not have `first`.
        let min_len = match fields.get("first") {
            Some(first) => first.parse::<usize>().ok().filter(|first| *first <= len),
            None => Some(0),
        };
        let schema = Schema::new(names).map_err(|error| damaged(&error.to_string()))?;
        if id == user_schema_id() && !schema.has_built_in_counters() {
            return Err(damaged("it does not begin with the counters of all users"));
        }
        Ok(Schema {
            min_len: min_len.ok_or_else(|| damaged("first is not a length"))?,
            ..schema
        })
    }

    /// Creates a schema. An existing schema with the same names is not changed.
    ///
    /// # Errors
    /// The schema exists with other names, the names are invalid, or the store is unavailable.
    pub async fn set(&self, id: &Name, names: Vec<Name>) -> Result<Arc<Schema>, SchemaError> {
        let schema = Schema::new(names)?;
        loop {
            match self.refresh(id).await {
                Ok(existing) if existing.names == schema.names => return Ok(existing),
                Ok(existing) => {
                    return Err(SchemaError::Exists {
                        id: id.clone(),
                        names: existing.names.clone(),
                    });
                }
                Err(SchemaError::Missing(_)) => {}
                Err(error) => return Err(error),
            }
            if self.write(id, 0, schema.names()).await? {
                return self.refresh(id).await;
            }
        }
    }

    /// Adds names to the end of a schema.
    ///
    /// # Errors
    /// There is no such schema, a name exists already, or the store is unavailable.
    pub async fn extend(&self, id: &Name, names: &[Name]) -> Result<Arc<Schema>, SchemaError> {
        loop {
            let schema = self.refresh(id).await?;
            Schema::new([schema.names(), names].concat())?;
            if names.is_empty() || self.extend_from(id, schema.len(), names).await? {
                return self.refresh(id).await;
            }
        }
    }

    /// Appends names to a schema of length `from`. Returns false if it has another length.
    ///
    /// # Errors
    /// The store is unavailable.
    pub(super) async fn extend_from(
        &self,
        id: &Name,
        from: usize,
        names: &[Name],
    ) -> Result<bool, SchemaError> {
        if id == user_schema_id() {
            // Does nothing if the schema is stored.
            self.write(id, 0, Schema::of_users()?.names()).await?;
        }
        self.write(id, from, names).await
    }

    /// Appends names to a schema of length `from`. Returns false if it has another length.
    async fn write(&self, id: &Name, from: usize, names: &[Name]) -> Result<bool, SchemaError> {
        let keys = self.store.keys();
        let mut call = WRITE.script.key(keys.schema(id));
        call.key(keys.schema_by_name(id)).arg(from);
        for name in names {
            call.arg(name.as_str());
        }
        Ok(call.invoke_async(&mut self.store.commands()).await?)
    }

    /// The IDs of all schemas, sorted.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn list(&self) -> Result<Vec<Name>, SchemaError> {
        let (keys, mut ids) = (self.store.keys(), Vec::new());
        for mut server in self.store.servers()? {
            let mut cursor = 0_u64;
            loop {
                let (next, page): (u64, Vec<String>) = redis::cmd("SCAN")
                    .arg(cursor)
                    .arg(&[
                        "MATCH",
                        keys.schema_pattern(),
                        "COUNT",
                        "1000",
                        "TYPE",
                        "hash",
                    ])
                    .query_async(&mut server)
                    .await?;
                ids.extend(page.iter().filter_map(|key| keys.schema_of(key)));
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        ids.sort();
        ids.dedup();
        Ok(ids)
    }
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
