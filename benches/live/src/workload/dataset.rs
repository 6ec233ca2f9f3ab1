//! Data sets, loaded into a server before the measurement.
//!
//! All kinds hold the same counts or members and differ only in the data structure.

use std::ops::Range;
use std::path::Path;

use crate::driver::connection::BulkWriter;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::workload::counts::{FIELD_NAMES, log_uniform};
use crate::workload::ids::{Distribution, FIRST_ID, FIRST_SET, Layout};
use crate::workload::set_kind::SetKind;
use crate::workload::table::{Rows, TABLES, Tables};

/// Members added per command, for kinds that can add several.
const MEMBERS_PER_COMMAND: usize = 1_000;

/// A kind of data and its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DataSet {
    /// This many objects of five counters, under `cnt:v1:note:<id>`.
    Objects(ObjectKind, u64),
    /// One table of this many rows of five counters.
    Rows(Rows, u64),
    /// Rows of five counters in many tables, under `tab:note:<table>`.
    Tables(Tables),
    /// The same ids and counts as [`DataSet::Tables`], in a CountInt for each, under `cnt:v1:note:<id>`.
    Entities(Tables),
    /// Sets, under `rbm:like:note:<set>`.
    Members(SetKind, Distribution, Layout),
}

/// The data structures that can hold the five counters of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObjectKind {
    /// A CountInt.
    CountInt,
    /// A String of 25 bytes, written by BITFIELD.
    Packed,
    /// A Hash with the names of [`FIELD_NAMES`].
    Hash,
    /// A Hash with one-letter field names: the smallest possible Hash.
    TerseHash,
    /// Five Strings, `cnt:v1:note:<id>:<field>`, as INCR creates them.
    Keys,
    /// A value of the plain module (`benches/floor`).
    Floor,
}

impl ObjectKind {
    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            ObjectKind::CountInt => "CountInt of five fields",
            ObjectKind::Packed => "String of 25 bytes (BITFIELD)",
            ObjectKind::Hash => "Hash of five fields",
            ObjectKind::TerseHash => "Hash, one-letter names",
            ObjectKind::Keys => "five keys (INCR)",
            ObjectKind::Floor => "a plain module",
        }
    }

    /// The command that creates object `i`.
    fn object(self, i: u64) -> Vec<String> {
        let key = object_key(i);
        let mut words: Vec<String> = match self {
            ObjectKind::Packed => vec!["BITFIELD".into(), key.clone()],
            ObjectKind::Hash | ObjectKind::TerseHash => vec!["HSET".into(), key.clone()],
            ObjectKind::CountInt => ["CINT.SET", &key, "LEN", "5"].map(String::from).into(),
            ObjectKind::Keys => vec!["MSET".into()],
            ObjectKind::Floor => vec!["FLOOR.BATCHINCR".into(), key.clone()],
        };
        for (field, name) in FIELD_NAMES.iter().enumerate() {
            if self == ObjectKind::Packed {
                words.extend(["SET", "u40"].map(String::from));
            }
            words.push(match self {
                ObjectKind::Packed => format!("#{field}"),
                ObjectKind::Hash => name.to_string(),
                ObjectKind::TerseHash => ["a", "b", "c", "d", "e"][field].to_string(),
                ObjectKind::CountInt | ObjectKind::Floor => field.to_string(),
                ObjectKind::Keys => format!("{key}:{name}"),
            });
            words.push(log_uniform(i, field as u64).to_string());
        }
        words
    }
}

/// The key of object `i`.
fn object_key(i: u64) -> String {
    format!("cnt:v1:note:{}", FIRST_ID + i)
}

/// The key of set number `set` ([`Layout::set_of`]).
pub fn set_key(set: u64) -> String {
    format!("rbm:like:note:{set}")
}

impl DataSet {
    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            DataSet::Objects(kind, _) => kind.label(),
            DataSet::Rows(..) => "rows of a CountTab",
            DataSet::Tables(_) => "rows of 1,024 CountTabs",
            DataSet::Entities(_) => "CountInts of the same entities",
            DataSet::Members(kind, ..) => kind.label(),
        }
    }

    /// The module that its server loads, if any. Servers with Redis's own types load none.
    pub fn module(self, programs: &Programs) -> Option<&Path> {
        match self {
            DataSet::Objects(ObjectKind::CountInt, _)
            | DataSet::Rows(..)
            | DataSet::Tables(_)
            | DataSet::Entities(_) => Some(&programs.module),
            DataSet::Objects(ObjectKind::Floor, _) => Some(&programs.floor),
            DataSet::Objects(..) => None,
            DataSet::Members(kind, ..) => kind.module(programs),
        }
    }

    /// The number of keys, assuming that each table has a row.
    pub fn keys(self) -> u64 {
        match self {
            DataSet::Objects(ObjectKind::Keys, objects) => objects * FIELD_NAMES.len() as u64,
            DataSet::Objects(_, objects) => objects,
            DataSet::Rows(..) => 1,
            DataSet::Tables(tables) => tables.rows.min(TABLES),
            DataSet::Entities(tables) => tables.rows,
            DataSet::Members(.., layout) => layout.sets,
        }
    }

    /// Starts a server in `dir` and loads the data.
    pub fn start(self, programs: &Programs, dir: &Workdir) -> Result<Server> {
        let server = Server::start(programs, dir, self.module(programs))?;
        self.load(&server)?;
        Ok(server)
    }

    /// Loads the data into a server.
    pub fn load(self, server: &Server) -> Result<()> {
        match self {
            DataSet::Objects(kind, objects) => {
                let mut writer = BulkWriter::open(server.port())?;
                for i in 0..objects {
                    writer.push(&kind.object(i))?;
                }
                writer.finish()
            }
            DataSet::Rows(rows, number) => {
                let mut writer = BulkWriter::open(server.port())?;
                rows.load(number, &mut writer)?;
                writer.finish()
            }
            DataSet::Tables(tables) => {
                let mut writer = BulkWriter::open(server.port())?;
                tables.load(&mut writer)?;
                writer.finish()
            }
            DataSet::Entities(tables) => {
                let mut writer = BulkWriter::open(server.port())?;
                tables.load_objects(&mut writer)?;
                writer.finish()
            }
            DataSet::Members(kind, distribution, layout) => {
                kind.configure(&mut server.control()?)?;
                let mut writer = BulkWriter::open(server.port())?;
                for set in 0..layout.sets {
                    let range = set * layout.size..(set + 1) * layout.size;
                    load_set(&mut writer, kind, distribution, FIRST_SET + set, range)?;
                }
                writer.finish()?;
                kind.check(&set_key(FIRST_SET), &mut server.control()?)
            }
        }
    }
}

/// Sends the commands that fill one set.
fn load_set(
    writer: &mut BulkWriter,
    kind: SetKind,
    distribution: Distribution,
    set: u64,
    range: Range<u64>,
) -> Result<()> {
    let key = set_key(set);
    // Leaves room for the members that the measurement adds.
    if let Some(words) = kind.reserve(&key, 2 * (range.end - range.start)) {
        writer.push(&words)?;
    }
    let mut members: Vec<u64> = range.map(|i| distribution.nth(i)).collect();
    if kind == SetKind::Intset {
        // Ascending insertions into an intset are fast, and the resulting set is the same.
        members.sort_unstable();
    }
    let per_command = if kind.adds_many() {
        MEMBERS_PER_COMMAND
    } else {
        1
    };
    for members in members.chunks(per_command) {
        let text: Vec<String> = members.iter().map(u64::to_string).collect();
        let command = kind.add(&key, &text.join(" "));
        writer.push_line(&command)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_objects_hold_the_same_counts() {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|field| log_uniform(7, field));
        let line = |kind: ObjectKind| kind.object(7).join(" ");
        let key = "cnt:v1:note:1000007";
        assert_eq!(
            line(ObjectKind::CountInt),
            format!("CINT.SET {key} LEN 5 0 {a} 1 {b} 2 {c} 3 {d} 4 {e}")
        );
        assert_eq!(
            line(ObjectKind::TerseHash),
            format!("HSET {key} a {a} b {b} c {c} d {d} e {e}")
        );
        assert_eq!(
            line(ObjectKind::Packed),
            format!(
                "BITFIELD {key} SET u40 #0 {a} SET u40 #1 {b} SET u40 #2 {c} SET u40 #3 {d} SET u40 #4 {e}"
            )
        );
        assert_eq!(
            line(ObjectKind::Floor),
            format!("FLOOR.BATCHINCR {key} 0 {a} 1 {b} 2 {c} 3 {d} 4 {e}")
        );
        assert_eq!(
            line(ObjectKind::Keys),
            format!(
                "MSET {key}:read {a} {key}:like {b} {key}:fav {c} {key}:comment {d} {key}:repost {e}"
            )
        );
    }
}
