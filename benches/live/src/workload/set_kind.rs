//! The data structures for sets of ids: CountInt's, the built-in types and those of other modules.

use std::path::Path;

use crate::driver::control::Control;
use crate::driver::programs::Programs;
use crate::error::Result;

/// A data structure for sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetKind {
    /// An RBM of this module.
    Rbm,
    /// A Set with the server's default settings: an intset up to 512 integers, a hashtable above.
    Set,
    /// A Set that is a hashtable at any size.
    Hashtable,
    /// A Set that is an intset at any size: a sorted array, so an insertion takes linear time.
    Intset,
    /// A String with one bit for each possible id, starting at the smallest.
    Bitmap,
    /// `R64.*` of redis-roaring.
    Roaring,
    /// A cuckoo filter of RedisBloom, reserved for its final size. It has false positives.
    Cuckoo,
}

impl SetKind {
    /// The name in tables and charts.
    pub fn label(self) -> &'static str {
        match self {
            SetKind::Rbm => "RBM",
            SetKind::Set => "Set",
            SetKind::Hashtable => "Set, hashtable",
            SetKind::Intset => "Set, intset",
            SetKind::Bitmap => "bitmap",
            SetKind::Roaring => "redis-roaring",
            SetKind::Cuckoo => "cuckoo filter",
        }
    }

    /// The module that its server loads, if any.
    pub fn module(self, programs: &Programs) -> Option<&Path> {
        match self {
            SetKind::Rbm => Some(&programs.module),
            SetKind::Roaring => programs.roaring.as_deref(),
            SetKind::Cuckoo => programs.bloom.as_deref(),
            _ => None,
        }
    }

    /// Whether its module, if any, was given.
    pub fn available(self, programs: &Programs) -> bool {
        match self {
            SetKind::Roaring | SetKind::Cuckoo => self.module(programs).is_some(),
            _ => true,
        }
    }

    /// Applies the settings that give a Set this encoding.
    pub fn configure(self, control: &mut Control) -> Result<()> {
        let limit = match self {
            SetKind::Hashtable => 0,
            SetKind::Intset => 100_000_000,
            _ => return Ok(()),
        };
        control.call(&format!("CONFIG SET set-max-intset-entries {limit}"))?;
        // Servers before 7.2 have neither the setting nor the encoding.
        let _ = control.call("CONFIG SET set-max-listpack-entries 0");
        Ok(())
    }

    /// Fails unless the set at `key` has the encoding of this kind.
    pub fn check(self, key: &str, control: &mut Control) -> Result<()> {
        let expected = match self {
            SetKind::Hashtable => "hashtable",
            SetKind::Intset => "intset",
            _ => return Ok(()),
        };
        let found = control.call(&format!("OBJECT ENCODING {key}"))?;
        if found == expected {
            Ok(())
        } else {
            Err(format!("{key} is a {found}, not a {expected}").into())
        }
    }

    /// The command that reserves capacity for `members`, if the kind has one.
    pub fn reserve(self, key: &str, members: u64) -> Option<Vec<String>> {
        let words = ["CF.RESERVE", key, &members.to_string()].map(String::from);
        (self == SetKind::Cuckoo).then(|| words.to_vec())
    }

    /// Whether one command can add many members.
    pub fn adds_many(self) -> bool {
        matches!(
            self,
            SetKind::Rbm | SetKind::Set | SetKind::Hashtable | SetKind::Intset
        )
    }

    /// The command that tests membership, in the notation of [`crate::workload::template`] or with values.
    pub fn contains(self, key: &str, member: &str) -> String {
        let name = match self {
            SetKind::Rbm => "RBM.CONTAINS",
            SetKind::Set | SetKind::Hashtable | SetKind::Intset => "SISMEMBER",
            SetKind::Bitmap => "GETBIT",
            SetKind::Roaring => "R64.GETBIT",
            SetKind::Cuckoo => "CF.EXISTS",
        };
        format!("{name} {key} {member}")
    }

    /// The command that adds a member.
    pub fn add(self, key: &str, member: &str) -> String {
        match self {
            SetKind::Rbm => format!("RBM.ADD {key} {member}"),
            SetKind::Set | SetKind::Hashtable | SetKind::Intset => format!("SADD {key} {member}"),
            SetKind::Bitmap => format!("SETBIT {key} {member} 1"),
            SetKind::Roaring => format!("R64.SETBIT {key} {member} 1"),
            SetKind::Cuckoo => format!("CF.ADD {key} {member}"),
        }
    }

    /// The command that removes a member.
    pub fn remove(self, key: &str, member: &str) -> String {
        match self {
            SetKind::Rbm => format!("RBM.REM {key} {member}"),
            SetKind::Set | SetKind::Hashtable | SetKind::Intset => format!("SREM {key} {member}"),
            SetKind::Bitmap => format!("SETBIT {key} {member} 0"),
            SetKind::Roaring => format!("R64.SETBIT {key} {member} 0"),
            SetKind::Cuckoo => format!("CF.DEL {key} {member}"),
        }
    }
}
