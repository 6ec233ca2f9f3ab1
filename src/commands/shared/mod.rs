//! Code that commands of several types share: arguments, options, buffers, and creation of missing objects.

pub mod args;
pub mod buffers;
pub mod creation;
pub mod options;
pub mod pages;
