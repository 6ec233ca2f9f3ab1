//! The stored schemas, cached.

use super::names::{Schema, user_schema_id};
use crate::domain::error::{MAX_NAMES, SchemaError, StoreError, join_names};
use crate::domain::ids::Name;
use crate::redis::layout::{NextStage, stage_permissions};
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

/// Appends names to a schema of an expected length.
static WRITE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/schema_write.lua")));

/// Commands that read a schema.
const READ_PERMISSIONS: &[&str] = &["HGETALL {schema}"];
/// The permissions to append to a schema.
pub fn writer_permissions() -> Permissions {
    WRITE.required_permissions().and(stage_permissions())
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
        .and(writer_permissions())
}

/// A schema and when it was read.
#[derive(Clone)]
struct CachedSchema {
    schema: Arc<Schema>,
    read_at: Instant,
    /// The epoch of the layout whose views it has.
    epoch: u64,
}

/// The schemas of a store, cached.
#[derive(Clone)]
pub struct Schemas {
    store: Store,
    /// Each request looks into it, and its keys are configured: hashbrown's hash suffices.
    cache: Arc<RwLock<hashbrown::HashMap<Name, CachedSchema>>>,
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
        if let Some(schema) = self.fresh(id) {
            return Ok(schema);
        }
        let (cached, epoch) = (self.cached_entry(id), self.store.layout().epoch);
        match (self.refresh(id).await, cached) {
            (Err(SchemaError::Store(_)), Some(entry)) => {
                // Without a delay before the next refresh, every request would wait for a timeout.
                let read_at = Instant::now().checked_sub(CACHE_TTL - RETRY_AFTER);
                self.insert((id, epoch), &entry.schema, read_at);
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

    /// A schema from the cache, unless [`get`](Self::get) would read it again.
    pub fn fresh(&self, id: &Name) -> Option<Arc<Schema>> {
        let entry = self.cached_entry(id)?;
        let is_fresh =
            entry.read_at.elapsed() < CACHE_TTL && entry.epoch == self.store.layout().epoch;
        is_fresh.then_some(entry.schema)
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
        let layout = self.store.layout();
        let mut schema = self.read(id).await?;
        if let Some(views) = layout.schema_views(id) {
            let mut stored = HashMap::new();
            for view in views.views.keys().filter(|view| *view != id) {
                match self.read(view).await {
                    Ok(names) => stored.insert(view.clone(), names.names().to_vec()),
                    Err(SchemaError::Missing(_)) => continue,
                    Err(error) => return Err(error),
                };
            }
            schema = schema.with_views(id, views, &stored);
        }
        let schema = Arc::new(schema);
        self.insert((id, layout.epoch), &schema, Some(Instant::now()));
        Ok(schema)
    }

    /// Caches a schema that is used until the stored one has been read, also while the store is unavailable.
    pub(in crate::storage) fn seed(&self, id: &Name, schema: Schema) {
        let expired = Instant::now().checked_sub(CACHE_TTL);
        self.insert((id, 0), &Arc::new(schema), expired);
    }

    /// Caches a schema that was read at a time (`None`: now).
    fn insert(&self, (id, epoch): (&Name, u64), schema: &Arc<Schema>, read_at: Option<Instant>) {
        let mut cache = self
            .cache
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let schema = Arc::clone(schema);
        let read_at = read_at.unwrap_or_else(Instant::now);
        let entry = CachedSchema {
            schema,
            read_at,
            epoch,
        };
        cache.insert(id.clone(), entry);
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
        Ok(schema.with_min_len(min_len.ok_or_else(|| damaged("first is not a length"))?))
    }

    /// Creates a schema. An existing schema with the same names is not changed.
    ///
    /// # Errors
    /// The schema exists with other names, the names are invalid, or the store is unavailable.
    pub async fn set(&self, id: &Name, names: Vec<Name>) -> Result<Arc<Schema>, SchemaError> {
        let schema = Schema::new(names)?;
        loop {
            match self.refresh(id).await {
                Ok(existing) if existing.own_names() == schema.names() => return Ok(existing),
                Ok(existing) => {
                    return Err(SchemaError::Exists {
                        id: id.clone(),
                        names: existing.own_names().to_vec(),
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

    /// Creates a schema of configured names, or appends those that it lacks. A schema that has more names stays as it is.
    ///
    /// # Errors
    /// The stored names and the configured ones do not agree as far as both go, or the store is unavailable.
    pub async fn set_or_extend(
        &self,
        id: &Name,
        names: &[Name],
    ) -> Result<Arc<Schema>, SchemaError> {
        loop {
            let stored = match self.refresh(id).await {
                Err(SchemaError::Missing(_)) if !names.is_empty() => None,
                stored => Some(stored?),
            };
            let (len, own) = stored
                .as_ref()
                .map_or((0, 0), |schema| (schema.len(), schema.own_names().len()));
            match stored {
                Some(stored) if !stored.agrees_with(names) => {
                    return Err(SchemaError::Differs {
                        id: id.clone(),
                        names: stored.own_names().to_vec(),
                    });
                }
                Some(stored) if own >= names.len() => return Ok(stored),
                Some(stored) => check_new(&stored, &names[own..])?,
                None => {}
            }
            // Otherwise another process has extended it.
            if self.extend_from(id, len, &names[own..]).await? {
                let counters = join_names(&names[own..]);
                tracing::info!(schema = %id, counters, "counters added to a schema");
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
            check_new(&schema, names)?;
            if names.is_empty() || self.extend_from(id, schema.len(), names).await? {
                return self.refresh(id).await;
            }
        }
    }

    /// Appends the counters of a schema that is a view to the columns that it shares, where they are missing. To be called after it was
    /// extended. Consumers and requests do not know a counter without a column.
    ///
    /// # Errors
    /// A column has the name of one of them, or the store is unavailable.
    pub async fn append_to_columns(&self, view: &Name) -> Result<(), SchemaError> {
        let layout = self.store.layout();
        let shared = layout.all_schema_views().iter();
        let shared = shared.filter(|(id, views)| *id != view && views.views.contains_key(view));
        for (columns, _) in shared {
            let names = self.refresh(view).await?;
            loop {
                let (layout, stored) = (self.store.layout(), self.refresh(columns).await?);
                let Some(views) = layout.schema_views(columns) else {
                    break;
                };
                let Some(of_view) = views.views.get(view) else {
                    break;
                };
                let has_none =
                    |name: &&Name| stored.index_of(of_view.column(name).as_str()).is_none();
                let missing: Vec<Name> =
                    names.own_names().iter().filter(has_none).cloned().collect();
                if missing.is_empty() {
                    break;
                }
                // They are recorded first: the schema of the columns does not show them.
                let mut next = of_view.clone();
                next.added.extend(missing.iter().cloned());
                if next == *of_view {
                    self.extend_from(columns, stored.len(), &missing).await?;
                    continue;
                }
                let next = NextStage {
                    columns: columns.clone(),
                    state: views.state.clone(),
                    schema: view.clone(),
                    view: next,
                    etypes: Vec::new(),
                };
                let (mut connection, keys) = (self.store.commands(), self.store.keys());
                layout.begin_stage(&mut connection, &keys, &next).await?;
                let refreshed = self.store.refresh_layout().await;
                refreshed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Appends names to a schema of length `from`. Returns false if it has another length.
    ///
    /// # Errors
    /// The store is unavailable.
    async fn extend_from(
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

/// Checks that no field of a schema has one of these names, in any view.
fn check_new(schema: &Schema, names: &[Name]) -> Result<(), SchemaError> {
    match names
        .iter()
        .find(|name| schema.index_of(name.as_str()).is_some())
    {
        Some(name) => Err(SchemaError::DuplicateName(name.clone())),
        None => Ok(()),
    }
}
