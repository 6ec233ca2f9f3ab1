//! The command line.

pub mod acl;
pub mod args;
pub mod commands;
