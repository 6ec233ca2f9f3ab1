//! Schemas: which field of an entity's counters means what.
//!
//! A schema is a hash `schema:{id}` with `len`, `first` (the length with which it was begun) and the name of each index, and a hash `schema:{id}:idx_by_name` with the index of
//! each name. Both are written in one transaction. A schema only ever grows: names are never renamed, moved or removed, since
//! the counters that it describes stay.

use crate::domain::error::{MAX_NAMES, SchemaError};
use crate::domain::ids::Name;
use crate::redis::script::script;
use crate::redis::store::Store;
use redis::Script;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};
use std::time::{Duration, Instant};

/// After this time a schema is asked for again, even if nobody missed a name.
const FRESH: Duration = Duration::from_secs(10);
/// And after this time if it could not be asked for.
const AGAIN: Duration = Duration::from_secs(2);

/// Names, in the order of their fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    names: Vec<Name>,
    index: HashMap<Name, usize>,
    least: usize,
}

impl Schema {
    /// Takes 1 to [`MAX_NAMES`] unique names.
    ///
    /// # Errors
    /// There are none, too many, or one twice.
    pub fn new(names: Vec<Name>) -> Result<Schema, SchemaError> {
        let mut index = HashMap::with_capacity(names.len());
        for (idx, name) in names.iter().enumerate() {
            if index.insert(name.clone(), idx).is_some() {
                return Err(SchemaError::Repeated(name.clone()));
            }
        }
        if !(1..=MAX_NAMES).contains(&names.len()) {
            return Err(SchemaError::Size);
        }
        Ok(Schema {
            names,
            index,
            least: 0,
        })
    }

    /// How many fields it has.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never: a schema has a name at least.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many fields it had at first: an object with fewer was made by somebody else. 0 if that is not known.
    pub fn least(&self) -> usize {
        self.least
    }

    /// The names, in the order of their fields.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The field of a name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
}

/// Writes names from an index on, if the schema is as long as the writer believes.
static WRITE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&script(include_str!("../lua/schema_write.lua"))));

/// A schema as it was found.
#[derive(Clone)]
struct CachedSchema {
    schema: Arc<Schema>,
    since: Instant,
}

/// The schemas of a store, as they are known here.
#[derive(Clone)]
pub struct Schemas {
    store: Store,
    known: Arc<RwLock<HashMap<Name, CachedSchema>>>,
}

impl Schemas {
    /// Knows nothing yet.
    pub fn new(store: Store) -> Schemas {
        Schemas {
            store,
            known: Arc::default(),
        }
    }

    /// The schema as it is known here; asked for if it is not, or has been known for ten seconds.
    ///
    /// # Errors
    /// There is none, or the store cannot be asked. One that is known here stays good while the store cannot be asked.
    pub async fn get(&self, id: &Name) -> Result<Arc<Schema>, SchemaError> {
        let known = self.known(id);
        if let Some(known) = known.as_ref().filter(|known| known.since.elapsed() < FRESH) {
            return Ok(Arc::clone(&known.schema));
        }
        match (self.refresh(id).await, known) {
            (Err(SchemaError::Store(_)), Some(known)) => {
                // It is not asked again at once: each request would wait for it.
                self.know(id, &known.schema, Instant::now().checked_sub(FRESH - AGAIN));
                Ok(known.schema)
            }
            (found, _) => found,
        }
    }

    fn known(&self, id: &Name) -> Option<CachedSchema> {
        let known = self
            .known
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        known.get(id).cloned()
    }

    /// The schema as it is known here, without asking.
    pub fn cached(&self, id: &Name) -> Option<Arc<Schema>> {
        self.known(id).map(|known| known.schema)
    }

    /// The schema, asked for again if `name` is not in the one that is known here: somebody may have extended it.
    ///
    /// # Errors
    /// As [`get`](Self::get). That the name is still unknown is no error.
    pub async fn with_name(&self, id: &Name, name: &str) -> Result<Arc<Schema>, SchemaError> {
        let schema = self.get(id).await?;
        if schema.index_of(name).is_some() {
            return Ok(schema);
        }
        self.refresh(id).await
    }

    /// Asks the store for a schema.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn refresh(&self, id: &Name) -> Result<Arc<Schema>, SchemaError> {
        let schema = Arc::new(self.read(id).await?);
        self.know(id, &schema, Some(Instant::now()));
        Ok(schema)
    }

    /// Remembers a schema, known since then.
    fn know(&self, id: &Name, schema: &Arc<Schema>, since: Option<Instant>) {
        let mut known = self
            .known
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let schema = Arc::clone(schema);
        let since = since.unwrap_or_else(Instant::now);
        known.insert(id.clone(), CachedSchema { schema, since });
    }

    async fn read(&self, id: &Name) -> Result<Schema, SchemaError> {
        let key = self.store.keys().schema(id);
        let fields: HashMap<String, String> = redis::cmd("HGETALL")
            .arg(&key)
            .query_async(&mut self.store.reads())
            .await?;
        if fields.is_empty() {
            return Err(SchemaError::Missing(id.clone()));
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
            Name::new(name.as_str()).map_err(|_| damaged("a name is none"))
        };
        let names = (0..len).map(name).collect::<Result<Vec<_>, _>>()?;
        // Schemas of older versions do not say it.
        let least = match fields.get("first") {
            Some(first) => first.parse::<usize>().ok().filter(|first| *first <= len),
            None => Some(0),
        };
        let schema = Schema::new(names).map_err(|why| damaged(&why.to_string()))?;
        Ok(Schema {
            least: least.ok_or_else(|| damaged("first is no length"))?,
            ..schema
        })
    }

    /// Creates a schema. One that is there with the same names is left as it is.
    ///
    /// # Errors
    /// It is there with other names; the names are no schema; the store cannot be asked.
    pub async fn set(&self, id: &Name, names: Vec<Name>) -> Result<Arc<Schema>, SchemaError> {
        let wanted = Schema::new(names)?;
        loop {
            match self.refresh(id).await {
                Ok(found) if found.names == wanted.names => return Ok(found),
                Ok(found) => {
                    return Err(SchemaError::Exists {
                        id: id.clone(),
                        names: found.names.clone(),
                    });
                }
                Err(SchemaError::Missing(_)) => {}
                Err(why) => return Err(why),
            }
            if self.write(id, 0, wanted.names()).await? {
                return self.refresh(id).await;
            }
        }
    }

    /// Adds names to the end of a schema.
    ///
    /// # Errors
    /// There is no such schema; a name is in it already; the store cannot be asked.
    pub async fn extend(&self, id: &Name, names: &[Name]) -> Result<Arc<Schema>, SchemaError> {
        loop {
            let found = self.refresh(id).await?;
            Schema::new([found.names(), names].concat())?;
            if names.is_empty() || self.write(id, found.len(), names).await? {
                return self.refresh(id).await;
            }
        }
    }

    /// Whether it was written: not if the schema is no longer `from` names long.
    async fn write(&self, id: &Name, from: usize, names: &[Name]) -> Result<bool, SchemaError> {
        let keys = self.store.keys();
        let mut call = WRITE.key(keys.schema(id));
        call.key(keys.schema_by_name(id)).arg(from);
        for name in names {
            call.arg(name.as_str());
        }
        Ok(call.invoke_async(&mut self.store.commands()).await?)
    }

    /// The ids of all schemas, in order.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn list(&self) -> Result<Vec<Name>, SchemaError> {
        let (keys, mut found) = (self.store.keys(), Vec::new());
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
                found.extend(page.iter().filter_map(|key| keys.schema_of(key)));
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
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
    fn names_are_unique_and_some() {
        let schema = Schema::new(names("read like")).expect("a schema");
        assert_eq!(
            (schema.index_of("like"), schema.index_of("fav")),
            (Some(1), None)
        );
        assert!(matches!(
            Schema::new(names("a b a")),
            Err(SchemaError::Repeated(_))
        ));
        assert!(matches!(Schema::new(Vec::new()), Err(SchemaError::Size)));
        let many = (0..=MAX_NAMES).map(|i| Name::new(format!("n{i}")).expect("a name"));
        assert!(matches!(
            Schema::new(many.collect()),
            Err(SchemaError::Size)
        ));
    }
}
