//! The CountInt module: packed 40-bit counters (`CINT.*`), tables of them (`CTAB.*`) and exact sets of 64-bit ids
//! (`RBM.*`) for Redis and Valkey.
//!
//! The data structures are in `countint_core`; this crate connects them to the server's module API, in layers that each
//! import only those before it: `error`, `config`, `stats`, `scratch`, `server`, `types`, `commands`, `registry`,
//! `entry`. `docs/architecture.md` follows a command through them.

mod commands;
mod config;
mod entry;
mod error;
mod registry;
mod scratch;
mod server;
mod stats;
mod types;

use commands::{cint, ctab, rbm};
use countint_core::{countint::CountInt, idset::IdSet};
use registry::RegisterType;
use server::register::{CommandEntry, command};
use types::{Table, data_type::register};

/// The data types that the module registers.
static TYPES: &[RegisterType] = &[register::<CountInt>, register::<IdSet>, register::<Table>];

/// The commands that the module registers.
static COMMANDS: &[CommandEntry] = &[
    command::<cint::Init>(),
    command::<cint::Get>(),
    command::<cint::MGet>(),
    command::<cint::IncrBy>(),
    command::<cint::BatchIncr>(),
    command::<cint::Set>(),
    command::<cint::GetSet>(),
    command::<cint::Len>(),
    command::<cint::Dump>(),
    command::<cint::MDump>(),
    command::<cint::MRead>(),
    command::<cint::Resize>(),
    command::<cint::Export>(),
    command::<cint::Import>(),
    command::<cint::Adopt>(),
    command::<cint::Apply>(),
    command::<ctab::Init>(),
    command::<ctab::Get>(),
    command::<ctab::MGet>(),
    command::<ctab::MRead>(),
    command::<ctab::Page>(),
    command::<ctab::IncrBy>(),
    command::<ctab::BatchIncr>(),
    command::<ctab::MIncrBy>(),
    command::<ctab::Set>(),
    command::<ctab::GetSet>(),
    command::<ctab::MApply>(),
    command::<ctab::Del>(),
    command::<ctab::Card>(),
    command::<ctab::Scan>(),
    command::<ctab::Resize>(),
    command::<ctab::Export>(),
    command::<ctab::Import>(),
    command::<ctab::Info>(),
    command::<rbm::Add>(),
    command::<rbm::Rem>(),
    command::<rbm::Contains>(),
    command::<rbm::MContains>(),
    command::<rbm::Page>(),
    command::<rbm::Card>(),
    command::<rbm::MCard>(),
    command::<rbm::Min>(),
    command::<rbm::Max>(),
    command::<rbm::Rank>(),
    command::<rbm::Select>(),
    command::<rbm::Count>(),
    command::<rbm::Scan>(),
    command::<rbm::Op>(),
    command::<rbm::OpCard>(),
    command::<rbm::Export>(),
    command::<rbm::Import>(),
    command::<rbm::Info>(),
    command::<rbm::Adopt>(),
    command::<rbm::Mark>(),
    command::<rbm::Unmark>(),
    command::<rbm::MMark>(),
    command::<rbm::MUnmark>(),
    #[cfg(feature = "fault-injection")]
    command::<commands::fault::Panic>(),
];
