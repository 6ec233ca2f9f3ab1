//! The ways to keep a set of ids: ours, Redis's own, and other modules'.

use std::path::Path;

use crate::Result;
use crate::control::Control;
use crate::options::Options;

/// How a set is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetForm {
    /// `RBM.*` of this module.
    Rbm,
    /// A Set with the server's own settings: an intset up to 512 integers, a hashtable above.
    Set,
    /// A Set that is a hashtable however small it is.
    Table,
    /// A Set that is an intset however large it is: a sorted array, so insertions take time proportional to its size.
    Ints,
    /// A String with a bit for each id (less the smallest, as one would do it).
    Bitmap,
    /// `R64.*` of redis-roaring.
    Roaring,
    /// The cuckoo filter of RedisBloom, reserved for what it is to hold. It answers "perhaps" for what it never saw.
    Cuckoo,
}

impl SetForm {
    /// What it is, for tables and charts.
    pub fn label(self) -> &'static str {
        match self {
            SetForm::Rbm => "RBM",
            SetForm::Set => "Set",
            SetForm::Table => "Set, hashtable",
            SetForm::Ints => "Set, intset",
            SetForm::Bitmap => "bitmap",
            SetForm::Roaring => "redis-roaring",
            SetForm::Cuckoo => "cuckoo filter",
        }
    }

    /// The module that it needs. `None`: none.
    pub fn module(self, options: &Options) -> Option<&Path> {
        match self {
            SetForm::Rbm => Some(&options.module),
            SetForm::Roaring => options.roaring.as_deref(),
            SetForm::Cuckoo => options.bloom.as_deref(),
            _ => None,
        }
    }

    /// Whether what it needs is there.
    pub fn available(self, options: &Options) -> bool {
        match self {
            SetForm::Roaring | SetForm::Cuckoo => self.module(options).is_some(),
            _ => true,
        }
    }

    /// The settings that make a Set what it is called here.
    pub fn configure(self, control: &mut Control) -> Result<()> {
        let most = match self {
            SetForm::Table => 0,
            SetForm::Ints => 100_000_000,
            _ => return Ok(()),
        };
        control.call(&format!("CONFIG SET set-max-intset-entries {most}"))?;
        // Servers before 7.2 have no such setting and no such sets.
        let _ = control.call("CONFIG SET set-max-listpack-entries 0");
        Ok(())
    }

    /// Fails unless the set at `key` is stored as this form promises.
    pub fn check(self, key: &str, control: &mut Control) -> Result<()> {
        let promised = match self {
            SetForm::Table => "hashtable",
            SetForm::Ints => "intset",
            _ => return Ok(()),
        };
        let found = control.call(&format!("OBJECT ENCODING {key}"))?;
        if found == promised {
            Ok(())
        } else {
            Err(format!("{key} is a {found}, not a {promised}").into())
        }
    }

    /// The command that makes room for `members`, for what wants that said.
    pub fn reserving(self, key: &str, members: u64) -> Option<Vec<String>> {
        let words = ["CF.RESERVE", key, &members.to_string()].map(String::from);
        (self == SetForm::Cuckoo).then(|| words.to_vec())
    }

    /// Whether many members can be added with one command.
    pub fn takes_many(self) -> bool {
        matches!(
            self,
            SetForm::Rbm | SetForm::Set | SetForm::Table | SetForm::Ints
        )
    }

    /// The command that asks for a member, in the notation of [`crate::template`] or with words filled in.
    pub fn contains(self, key: &str, member: &str) -> String {
        let name = match self {
            SetForm::Rbm => "RBM.CONTAINS",
            SetForm::Set | SetForm::Table | SetForm::Ints => "SISMEMBER",
            SetForm::Bitmap => "GETBIT",
            SetForm::Roaring => "R64.GETBIT",
            SetForm::Cuckoo => "CF.EXISTS",
        };
        format!("{name} {key} {member}")
    }

    /// The command that adds a member.
    pub fn add(self, key: &str, member: &str) -> String {
        match self {
            SetForm::Rbm => format!("RBM.ADD {key} {member}"),
            SetForm::Set | SetForm::Table | SetForm::Ints => format!("SADD {key} {member}"),
            SetForm::Bitmap => format!("SETBIT {key} {member} 1"),
            SetForm::Roaring => format!("R64.SETBIT {key} {member} 1"),
            SetForm::Cuckoo => format!("CF.ADD {key} {member}"),
        }
    }

    /// The command that takes a member out.
    pub fn remove(self, key: &str, member: &str) -> String {
        match self {
            SetForm::Rbm => format!("RBM.REM {key} {member}"),
            SetForm::Set | SetForm::Table | SetForm::Ints => format!("SREM {key} {member}"),
            SetForm::Bitmap => format!("SETBIT {key} {member} 0"),
            SetForm::Roaring => format!("R64.SETBIT {key} {member} 0"),
            SetForm::Cuckoo => format!("CF.DEL {key} {member}"),
        }
    }
}
