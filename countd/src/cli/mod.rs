//! The command line: arguments and the commands that run once.

pub mod acl;
pub mod archive;
pub mod args;
pub mod check;
pub mod commands;
pub mod documents;
pub mod error;
pub mod hot;
pub mod import;
pub mod log;
pub mod output;
mod outputs;
mod progress;
pub mod rebuild;
pub mod reconcile;
pub mod reverse;
pub mod schema_migrate;
pub mod size;
pub mod storage;
mod subcommands;
pub mod top;
