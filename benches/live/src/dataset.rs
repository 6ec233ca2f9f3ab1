//! What is loaded before anything is measured: one kind of data into one process.
//!
//! The same counts and the same members for every kind, so that the kinds differ in nothing but how they are stored.

use std::ops::Range;
use std::path::Path;

use crate::Result;
use crate::client::Connection;
use crate::distribution::{Distribution, FIRST_ID, FIRST_SET, Layout};
use crate::numbers::count;
use crate::options::Options;
use crate::resp::push_command;
use crate::rowset::Rows;
use crate::server::{Server, Workdir};
use crate::setform::SetForm;
use crate::template::FIELD_NAMES;

/// Members that one command adds, where it can.
const MEMBERS_AT_ONCE: usize = 1_000;
/// Bytes of commands sent at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// A kind of data, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DataSet {
    /// So many objects of five counters, under `cnt:v1:note:<id>`.
    Objects(Form, u64),
    /// One table of so many rows of five counters.
    Rows(Rows, u64),
    /// Sets, under `rbm:like:note:<set>`.
    Members(SetForm, Distribution, Layout),
}

/// The ways to keep five counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// A CountInt.
    CountInt,
    /// A String of 25 bytes that BITFIELD wrote.
    Packed,
    /// A Hash with the names of [`FIELD_NAMES`].
    Hash,
    /// A Hash of fields called a to e, the least that a Hash can take.
    TerseHash,
    /// Five Strings, `cnt:v1:note:<id>:<field>`, as INCR makes them.
    Keys,
    /// The value of a module that does the least (`benches/floor`).
    Floor,
}

impl Form {
    /// What it is, for the report.
    pub fn label(self) -> &'static str {
        match self {
            Form::CountInt => "CountInt of five fields",
            Form::Packed => "String of 25 bytes (BITFIELD)",
            Form::Hash => "Hash of five fields",
            Form::TerseHash => "Hash, one-letter names",
            Form::Keys => "five keys (INCR)",
            Form::Floor => "a plain module",
        }
    }

    /// The command that creates object `i`.
    fn object(self, i: u64) -> Vec<String> {
        let key = object_key(i);
        let mut words: Vec<String> = match self {
            Form::Packed => vec!["BITFIELD".into(), key.clone()],
            Form::Hash | Form::TerseHash => vec!["HSET".into(), key.clone()],
            Form::CountInt => ["CINT.SET", &key, "LEN", "5"].map(String::from).into(),
            Form::Keys => vec!["MSET".into()],
            Form::Floor => vec!["FLOOR.BATCHINCR".into(), key.clone()],
        };
        for (field, name) in FIELD_NAMES.iter().enumerate() {
            if self == Form::Packed {
                words.extend(["SET", "u40"].map(String::from));
            }
            words.push(match self {
                Form::Packed => format!("#{field}"),
                Form::Hash => name.to_string(),
                Form::TerseHash => ["a", "b", "c", "d", "e"][field].to_string(),
                Form::CountInt | Form::Floor => field.to_string(),
                Form::Keys => format!("{key}:{name}"),
            });
            words.push(count(i, field as u64).to_string());
        }
        words
    }
}

/// The key of object `i`.
fn object_key(i: u64) -> String {
    format!("cnt:v1:note:{}", FIRST_ID + i)
}

/// The key of set number `set`, as [`Layout::set_of`] counts.
pub fn set_key(set: u64) -> String {
    format!("rbm:like:note:{set}")
}

impl DataSet {
    /// What it is, for the report.
    pub fn label(self) -> &'static str {
        match self {
            DataSet::Objects(form, _) => form.label(),
            DataSet::Rows(..) => "rows of a CountTab",
            DataSet::Members(form, ..) => form.label(),
        }
    }

    /// The module that its server loads: ours only where it is needed, as a user of the other forms would have it.
    pub fn module(self, options: &Options) -> Option<&Path> {
        match self {
            DataSet::Objects(Form::CountInt, _) | DataSet::Rows(..) => Some(&options.module),
            DataSet::Objects(Form::Floor, _) => Some(&options.floor),
            DataSet::Objects(..) => None,
            DataSet::Members(form, ..) => form.module(options),
        }
    }

    /// How many keys it makes.
    pub fn keys(self) -> u64 {
        match self {
            DataSet::Objects(Form::Keys, objects) => objects * FIELD_NAMES.len() as u64,
            DataSet::Objects(_, objects) => objects,
            DataSet::Rows(..) => 1,
            DataSet::Members(.., layout) => layout.sets,
        }
    }

    /// Starts a server in `dir` and loads it.
    pub fn start(self, options: &Options, dir: &Workdir) -> Result<Server> {
        let server = Server::start(options, dir, self.module(options))?;
        self.load(&server)?;
        Ok(server)
    }

    /// Loads it into a server.
    pub fn load(self, server: &Server) -> Result<()> {
        match self {
            DataSet::Objects(form, objects) => {
                let mut sender = Sender::open(server)?;
                for i in 0..objects {
                    sender.push(&form.object(i))?;
                }
                sender.finish()
            }
            DataSet::Rows(rows, number) => {
                let mut sender = Sender::open(server)?;
                rows.load(number, &mut sender)?;
                sender.finish()
            }
            DataSet::Members(form, distribution, layout) => {
                form.configure(&mut server.control()?)?;
                let mut sender = Sender::open(server)?;
                for set in 0..layout.sets {
                    let range = set * layout.size..(set + 1) * layout.size;
                    load_set(&mut sender, form, distribution, FIRST_SET + set, range)?;
                }
                sender.finish()?;
                form.check(&set_key(FIRST_SET), &mut server.control()?)
            }
        }
    }
}

/// Sends what fills one set.
fn load_set(
    sender: &mut Sender,
    form: SetForm,
    distribution: Distribution,
    set: u64,
    range: Range<u64>,
) -> Result<()> {
    let key = set_key(set);
    // There is room for the members that will be added while adding is measured.
    if let Some(words) = form.reserving(&key, 2 * (range.end - range.start)) {
        sender.push(&words)?;
    }
    let mut members: Vec<u64> = range.map(|i| distribution.nth(i)).collect();
    if form == SetForm::Ints {
        // In order it takes no time worth mentioning, and the same set comes out.
        members.sort_unstable();
    }
    let at_once = if form.takes_many() {
        MEMBERS_AT_ONCE
    } else {
        1
    };
    for members in members.chunks(at_once) {
        let text: Vec<String> = members.iter().map(u64::to_string).collect();
        let command = form.add(&key, &text.join(" "));
        sender.push(&command.split(' ').collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Sends commands in chunks, encoding one while the server works on the one before.
pub struct Sender {
    connection: Connection,
    bytes: Vec<u8>,
    commands: u64,
}

impl Sender {
    /// Connects.
    pub fn open(server: &Server) -> Result<Sender> {
        Ok(Sender {
            connection: Connection::open(server.port())?,
            bytes: Vec::new(),
            commands: 0,
        })
    }

    /// Sends a command soon.
    pub fn push(&mut self, words: &[impl AsRef<[u8]>]) -> Result<()> {
        push_command(&mut self.bytes, words);
        self.commands += 1;
        if self.bytes.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.connection.wait()?;
        self.connection.send(&self.bytes, self.commands)?;
        self.bytes.clear();
        self.commands = 0;
        Ok(())
    }

    /// Sends what is left and waits for all replies.
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.connection.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_object_holds_the_same_counts() {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|field| count(7, field));
        let line = |form: Form| form.object(7).join(" ");
        let key = "cnt:v1:note:1000007";
        assert_eq!(
            line(Form::CountInt),
            format!("CINT.SET {key} LEN 5 0 {a} 1 {b} 2 {c} 3 {d} 4 {e}")
        );
        assert_eq!(
            line(Form::TerseHash),
            format!("HSET {key} a {a} b {b} c {c} d {d} e {e}")
        );
        assert_eq!(
            line(Form::Packed),
            format!(
                "BITFIELD {key} SET u40 #0 {a} SET u40 #1 {b} SET u40 #2 {c} SET u40 #3 {d} SET u40 #4 {e}"
            )
        );
        assert_eq!(
            line(Form::Floor),
            format!("FLOOR.BATCHINCR {key} 0 {a} 1 {b} 2 {c} 3 {d} 4 {e}")
        );
        assert_eq!(
            line(Form::Keys),
            format!(
                "MSET {key}:read {a} {key}:like {b} {key}:fav {c} {key}:comment {d} {key}:repost {e}"
            )
        );
    }
}
