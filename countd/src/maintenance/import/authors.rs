//! Applies and verifies authors of entities. They are registered like those of `PUT /entity/{etype}/{eid}`, with their credit.

use super::applied::Applied;
use super::error::ImportError;
use super::record::{AuthorRecord, Item, Record};
use crate::domain::config::USER;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id};
use crate::domain::text::brief;
use crate::redis::store::Store;
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;

/// The number of authors that a pipeline registers, and that are read at once.
const PIPELINE: usize = 1_000;

/// Applies and verifies authors.
pub struct AuthorImport {
    catalog: Catalog,
    authors: Authors,
}

impl AuthorImport {
    /// Registers authors in `store`.
    pub fn new(catalog: Catalog, store: Store) -> AuthorImport {
        AuthorImport {
            catalog,
            authors: Authors::new(store),
        }
    }

    fn check_one(&self, entity: &Entity) -> Result<(), Problem> {
        if entity.etype.as_str() == USER {
            return Err(Problem::Unprocessable("a user has no author".to_owned()));
        }
        self.catalog.schema_id(&entity.etype).map(|_| ())
    }

    /// The valid records. The others are added to `applied`.
    fn select<'a>(&self, items: &'a [Item], applied: &mut Applied) -> Vec<&'a Item> {
        let mut valid = Vec::with_capacity(items.len());
        for item in items {
            let Record::Author(AuthorRecord { entity, .. }) = &item.record else {
                continue;
            };
            match self.check_one(entity) {
                Ok(()) => valid.push(item),
                Err(problem) => applied.invalid.push((item.origin.clone(), brief(&problem))),
            }
        }
        valid
    }

    /// Validates authors without registering them.
    pub fn check(&self, items: &[Item]) -> Applied {
        let mut applied = Applied::default();
        self.select(items, &mut applied);
        applied
    }

    /// The valid records.
    pub fn valid(&self, items: &[Item]) -> Vec<Item> {
        let valid = self.select(items, &mut Applied::default());
        valid.into_iter().cloned().collect()
    }

    /// Registers authors, in order. This can be repeated: at the end each entity has its last author.
    ///
    /// # Errors
    /// The data does not register authors, or Redis failed; some authors may have been registered.
    pub async fn apply(&self, items: &[Item]) -> Result<Applied, ImportError> {
        let mut applied = Applied::default();
        let valid = self.select(items, &mut applied);
        for part in valid.chunks(PIPELINE) {
            let authors: Vec<(&Entity, &Id)> = records(part).collect();
            for change in self.authors.put_all(&authors).await? {
                applied.changed += u64::from(change?);
            }
        }
        Ok(applied)
    }

    /// The differences between the items and the registered authors.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn differences(&self, items: &[Item]) -> Result<Vec<String>, ImportError> {
        let items: Vec<&Item> = items.iter().collect();
        let mut differences = Vec::new();
        for part in items.chunks(PIPELINE) {
            let entities: Vec<Entity> = records(part).map(|(entity, _)| entity.clone()).collect();
            let found = self.authors.get(&entities).await?;
            for ((item, (entity, author)), found) in part.iter().zip(records(part)).zip(found) {
                if found.as_ref() != Some(author) {
                    let Entity { etype, eid } = entity;
                    let found = found.map_or("none".to_owned(), |found| found.to_string());
                    differences.push(format!(
                        "{}: the author of {etype} {eid}: the source has {author}, countd {found}",
                        item.origin
                    ));
                }
            }
        }
        Ok(differences)
    }
}

/// The entities and authors of records, which all have one.
fn records<'a>(items: &'a [&'a Item]) -> impl Iterator<Item = (&'a Entity, &'a Id)> {
    items.iter().filter_map(|item| match &item.record {
        Record::Author(AuthorRecord { entity, author }) => Some((entity, author)),
        _ => None,
    })
}
