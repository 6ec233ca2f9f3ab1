//! What reconciliation uses.

use crate::redis::store::Store;
use crate::storage::catalog::Catalog;

/// What reconciliation uses. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The store.
    pub store: Store,
    /// The configuration and the schemas.
    pub catalog: Catalog,
}
