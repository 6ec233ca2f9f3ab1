//! Sections of a commit: parts with keys and arguments of their own, which files of their own read (sections.lua).

use crate::domain::config::Config;
use crate::domain::keys::Keys;
use redis::Cmd;

/// A section of a commit. It adds a count of 0 for each list that is empty.
pub(super) trait CommitSection {
    /// Its keys, in the order in which its script takes them.
    fn keys(&self) -> Vec<String>;

    /// Adds its arguments. Returns their number.
    fn add_arguments(&self, config: &Config, keys: Keys, call: &mut Cmd) -> usize;
}
