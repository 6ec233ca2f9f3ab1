//! Schemas: the names of the fields of an entity's counters.
//!
//! A schema is a hash `schema:{id}` with `len`, `first` (the length at creation) and the name of each index, and a hash
//! `schema:{id}:idx_by_name` with the index of each name. Both are written atomically. A schema only grows: names are never changed,
//! moved or removed, since existing counters depend on them.
//!
//! A migration makes another schema a *view* of the fields of a schema: it names the same fields, in another order, with other names and
//! without some. The views are recorded in the stored layout. Counters stay in their fields for ever.

mod declared;
mod names;
mod store;

pub use declared::create_or_extend;
pub use names::{Schema, SortedNames, is_of_percent, user_schema_id};
pub use store::{Schemas, operator_permissions, reader_permissions, writer_permissions};
