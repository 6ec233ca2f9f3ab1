//! The command line: arguments and the commands that run once.

pub mod acl;
pub mod archive;
pub mod args;
pub mod check;
pub mod commands;
pub mod documents;
pub mod error;
pub mod import;
mod progress;
pub mod rebuild;
pub mod reconcile;
pub mod reverse;
pub mod storage;
