//! What is loaded before anything is measured.
//!
//! The same counts and the same members for every kind, so that the kinds differ in nothing but how they are stored.

use crate::Result;
use crate::client::Connection;
use crate::numbers::{FIRST_ID, OBJECTS, count, half_member};
use crate::resp::push_command;
use crate::server::Server;
use crate::template::FIELD_NAMES;
use crate::workload::SCRIPTS;

/// The key that holds a large set.
const SET_KEY: &str = "rbm:like:note:1";
/// Objects, or members of a set, sent at a time.
const CHUNK: u64 = 1_000;

/// Loads each kind into its database, all of them a chunk at a time in turn. Loaded one after the other, the first came out
/// several per cent slower than the last although they were alike: pages that a process gets early lie less well.
pub fn load(server: &Server, kinds: &[(DataSet, usize)]) -> Result<()> {
    let open = |&(_, db): &(DataSet, usize)| Connection::open(server.port(), db);
    let mut connections: Vec<Connection> = kinds.iter().map(open).collect::<Result<_>>()?;
    let mut bytes = Vec::new();
    for first in (0..OBJECTS).step_by(CHUNK as usize) {
        for (&(kind, _), connection) in kinds.iter().zip(&mut connections) {
            bytes.clear();
            let commands = kind.push_chunk(&mut bytes, first..(first + CHUNK).min(OBJECTS));
            connection.wait()?;
            connection.send(&bytes, commands)?;
        }
    }
    connections.iter_mut().try_for_each(Connection::wait)?;
    load_scripts(server)
}

/// Makes the server know the scripts that are called by their SHA-1.
fn load_scripts(server: &Server) -> Result<()> {
    let mut connection = Connection::open(server.port(), 0)?;
    for script in SCRIPTS {
        let mut bytes = Vec::new();
        push_command(&mut bytes, &["SCRIPT", "LOAD", script].map(String::from));
        connection.send(&bytes, 1)?;
        connection.wait()?;
    }
    Ok(())
}

/// A million objects of one kind under `cnt:v1:note:<id>`, or one set of a million members under [`SET_KEY`].
#[derive(Clone, Copy, PartialEq)]
pub enum DataSet {
    /// CountInts of five fields.
    CountInts,
    /// Strings of 25 bytes that BITFIELD wrote.
    Strings,
    /// Hashes of five fields with the names of [`FIELD_NAMES`].
    Hashes,
    /// Hashes of five fields called a to e, the least that a Hash can take.
    TerseHashes,
    /// An RBM of a million successive ids.
    RbmDense,
    /// A Set of the same.
    SetDense,
    /// An RBM of a million ids out of two million, one of each two neighbours.
    RbmHalf,
    /// A Set of the same.
    SetHalf,
}

impl DataSet {
    /// What it is, for the report.
    pub fn label(self) -> &'static str {
        match self {
            DataSet::CountInts => "CountInt of five fields",
            DataSet::Strings => "String of 25 bytes (written by BITFIELD)",
            DataSet::Hashes => "Hash of five fields (read, like, fav, comment, repost)",
            DataSet::TerseHashes => "Hash of five fields with one-letter names",
            DataSet::RbmDense => "RBM, successive ids",
            DataSet::SetDense => "Set, successive ids",
            DataSet::RbmHalf => "RBM, a random half of 2M ids",
            DataSet::SetHalf => "Set, a random half of 2M ids",
        }
    }

    /// Encodes the objects or members `range`, and returns how many commands that took.
    fn push_chunk(self, out: &mut Vec<u8>, range: std::ops::Range<u64>) -> u64 {
        if let Some(add) = self.adding_command() {
            let mut words = vec![add.to_string(), SET_KEY.to_string()];
            words.extend(range.map(|i| self.member(i).to_string()));
            push_command(out, &words);
            return 1;
        }
        let commands = range.end - range.start;
        for object in range {
            push_command(out, &self.object(object));
        }
        commands
    }

    /// The command that adds members, for a set.
    fn adding_command(self) -> Option<&'static str> {
        match self {
            DataSet::RbmDense | DataSet::RbmHalf => Some("RBM.ADD"),
            DataSet::SetDense | DataSet::SetHalf => Some("SADD"),
            _ => None,
        }
    }

    fn member(self, i: u64) -> u64 {
        match self {
            DataSet::RbmHalf | DataSet::SetHalf => half_member(i),
            _ => FIRST_ID + i,
        }
    }

    /// The command that creates object `i`.
    fn object(self, i: u64) -> Vec<String> {
        let key = format!("cnt:v1:note:{}", FIRST_ID + i);
        let (mut words, pairs): (Vec<String>, _) = match self {
            DataSet::Strings => (vec!["BITFIELD".into(), key], self.pairs(i, ["SET", "u40"])),
            DataSet::Hashes | DataSet::TerseHashes => (vec!["HSET".into(), key], self.pairs(i, [])),
            _ => (
                vec!["CINT.SET".into(), key, "LEN".into(), "5".into()],
                self.pairs(i, []),
            ),
        };
        words.extend(pairs);
        words
    }

    /// The name or index and the count of each field of object `i`, each pair behind `prefix`.
    fn pairs<const N: usize>(self, i: u64, prefix: [&str; N]) -> Vec<String> {
        let mut words = Vec::new();
        for (field, name) in FIELD_NAMES.iter().enumerate() {
            words.extend(prefix.map(String::from));
            words.push(match self {
                DataSet::Strings => format!("#{field}"),
                DataSet::Hashes => name.to_string(),
                DataSet::TerseHashes => ["a", "b", "c", "d", "e"][field].to_string(),
                _ => field.to_string(),
            });
            words.push(count(i, field as u64).to_string());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_object_holds_the_same_counts() {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|field| count(7, field));
        let line = |kind: DataSet| kind.object(7).join(" ");
        assert_eq!(
            line(DataSet::CountInts),
            format!("CINT.SET cnt:v1:note:1000007 LEN 5 0 {a} 1 {b} 2 {c} 3 {d} 4 {e}")
        );
        assert_eq!(
            line(DataSet::TerseHashes),
            format!("HSET cnt:v1:note:1000007 a {a} b {b} c {c} d {d} e {e}")
        );
        assert_eq!(
            line(DataSet::Strings),
            format!(
                "BITFIELD cnt:v1:note:1000007 SET u40 #0 {a} SET u40 #1 {b} SET u40 #2 {c} SET u40 #3 {d} SET u40 #4 {e}"
            )
        );
    }

    #[test]
    fn a_set_gets_a_chunk_with_one_command() {
        let mut bytes = Vec::new();
        assert_eq!(DataSet::SetDense.push_chunk(&mut bytes, 3..5), 1);
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with("*4\r\n$4\r\nSADD\r\n")
                && text.ends_with("1000003\r\n$7\r\n1000004\r\n"),
            "{text}"
        );
    }
}
