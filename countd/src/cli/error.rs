//! Errors of commands.

use countd::domain::error::{SchemaError, StoreError};
use countd::log::reset::ResetError;
use countd::maintenance::import::ImportError;
use countd::maintenance::rebuild::RebuildError;
use countd::maintenance::reconcile::ReconcileError;
use countd::maintenance::restore::RestoreError;
use countd::maintenance::reverse::BackfillError;
use countd::maintenance::schema::SchemaMigrationError;
use countd::maintenance::storage::MigrationError;
use countd::maintenance::topic::AcceptError;
use std::io;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A schema operation failed.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A reset was rejected or failed.
    #[error(transparent)]
    Reset(#[from] ResetError),
    /// A topic was not accepted.
    #[error(transparent)]
    Topic(#[from] AcceptError),
    /// An import failed.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A migration of storage failed.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// A migration of a schema stopped.
    #[error(transparent)]
    SchemaMigration(#[from] SchemaMigrationError),
    /// A backfill of users' facts failed.
    #[error(transparent)]
    Backfill(#[from] BackfillError),
    /// A reconciliation failed.
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    /// A rebuild stopped.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// A restore stopped.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// Writing to stdout failed.
    #[error("cannot write to stdout: {0}")]
    Output(#[from] io::Error),
    /// The command found problems, which it has printed, or its arguments do not match the data.
    #[error("{0}")]
    Unsuccessful(String),
}
