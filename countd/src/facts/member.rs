//! Where a script finds a fact to read whether it exists (`verify_facts.lua`).

use redis::Cmd;

/// Where a script finds a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSource {
    kind: &'static str,
    keys: Vec<String>,
    arguments: [String; 2],
}

impl MemberSource {
    fn new(kind: &'static str, keys: Vec<String>) -> MemberSource {
        MemberSource {
            kind,
            keys,
            arguments: [String::new(), String::new()],
        }
    }

    /// The store cannot have a fact of this user.
    pub fn none() -> MemberSource {
        MemberSource::new("none", Vec::new())
    }

    /// A member of an id set.
    pub(super) fn ids(key: String) -> MemberSource {
        MemberSource::new("ids", vec![key])
    }

    /// A member of a Set.
    pub(super) fn set(key: String) -> MemberSource {
        MemberSource::new("set", vec![key])
    }

    /// A bit of a chunk.
    pub(super) fn bit(key: String, bit: u64) -> MemberSource {
        MemberSource {
            arguments: [bit.to_string(), String::new()],
            ..MemberSource::new("bit", vec![key])
        }
    }

    /// A member of the Set of a day, or of the compacted ids. `days` is the index of days; the arguments are prefix and suffix of the key of a Set.
    pub(super) fn days(
        days: String,
        (compacted, is_numeric): (String, bool),
        arguments: [String; 2],
    ) -> MemberSource {
        let kind = if is_numeric { "days" } else { "named_days" };
        MemberSource {
            arguments,
            ..MemberSource::new(kind, vec![days, compacted])
        }
    }

    /// Its keys.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Adds its arguments.
    pub fn add_arguments(&self, cmd: &mut Cmd) {
        cmd.arg(self.kind).arg(self.keys.len()).arg(&self.arguments);
    }
}
