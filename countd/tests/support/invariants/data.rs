//! All counts and facts in Redis.

use super::content::{Content, read_all};
use super::parse::{KeyName, Part};
use countint_tests::Server;
use std::collections::{BTreeMap, BTreeSet};

/// The number of bits in a chunk of a bitmap.
const CHUNK_BITS: u64 = 32_768;
/// The number of last digits of an author's ID in one counter.
const AUTHOR_DIGITS: usize = 10;

/// A metric and an entity type.
pub type Kind = (String, String);
/// Values by the ID of an entity or user.
pub type ById<T> = BTreeMap<String, T>;

/// The registered author of an entity.
#[derive(Default)]
pub struct Author {
    /// The user; empty if the entity has no author any more.
    pub uid: String,
    /// What they were credited with, by column.
    pub credited: Vec<u64>,
}

/// The facts of a metric on an entity.
#[derive(Default)]
pub struct Facts {
    /// The users, in each place that holds them.
    pub users: Vec<String>,
    /// The Sets of days or chunks of bits.
    pub parts: Vec<String>,
    /// The parts in the index.
    pub index: Vec<String>,
}

/// All counts and facts.
#[derive(Default)]
pub struct Data {
    /// The layout of the data.
    pub layout: BTreeMap<String, String>,
    /// The indexes of counters, by schema and name.
    pub schemas: BTreeMap<String, BTreeMap<String, usize>>,
    /// The counters of entities, by schema and type.
    pub counters: BTreeMap<Kind, ById<Vec<u64>>>,
    /// The counters of users.
    pub users: ById<Vec<u64>>,
    /// Facts.
    pub facts: BTreeMap<Kind, ById<Facts>>,
    /// The entities in the facts of users.
    pub reverse: BTreeMap<Kind, ById<Vec<String>>>,
    /// The authors of entities, by type.
    pub authors: BTreeMap<String, ById<Author>>,
    /// The sums of all days.
    pub days: BTreeMap<Kind, ById<i64>>,
    /// Totals.
    pub totals: BTreeMap<Kind, ById<u64>>,
    /// Keys that cannot be read, and counters that are stored twice.
    pub damages: Vec<String>,
}

impl Data {
    /// Reads the data of a server or of the nodes of a cluster.
    pub fn read<'s>(servers: impl IntoIterator<Item = &'s Server>) -> Data {
        let mut data = Data::default();
        for server in servers {
            let is_read = |key: &str| KeyName::parse(key).is_some();
            read_all(&mut server.client(), is_read, |key, content| {
                let name = KeyName::parse(key).expect("it was selected");
                if data.add(name, content).is_none() {
                    data.damages.push(format!("{key} is damaged"));
                }
            });
        }
        data
    }

    /// Adds a key. Returns `None` if its content has another form.
    fn add(&mut self, name: KeyName<'_>, content: Content) -> Option<()> {
        match (name, content) {
            (KeyName::Layout, Content::Fields(fields)) => self.layout = fields,
            (KeyName::Schema(schema), Content::Fields(fields)) => {
                let parsed = fields.into_iter();
                let parsed = parsed.map(|(name, idx)| Some((name, idx.parse().ok()?)));
                let indexes = parsed.collect::<Option<_>>()?;
                self.schemas.insert(schema.to_owned(), indexes);
            }
            (KeyName::Counters(schema, etype, eid), content) => {
                let of = kind(schema, etype);
                for (eid, counters) in rows(eid, content)? {
                    let all = self.counters.entry(of.clone()).or_default();
                    if all.insert(eid.clone(), counters).is_some() {
                        let twice = format!("the counters of {etype} {eid} are stored twice");
                        self.damages.push(twice);
                    }
                }
            }
            (KeyName::Users(uid), content) => {
                for (uid, counters) in rows(uid, content)? {
                    if self.users.insert(uid.clone(), counters).is_some() {
                        let twice = format!("the counters of user {uid} are stored twice");
                        self.damages.push(twice);
                    }
                }
            }
            (KeyName::Facts(metric, etype, eid, part), content) => {
                let of = self.facts.entry(kind(metric, etype)).or_default();
                of.entry(eid.to_owned()).or_default().add(part, content)?;
            }
            (KeyName::Reverse(metric, etype, uid), content) => {
                let eids = match content {
                    Content::Rows(rows) => rows.into_iter().map(|(eid, _)| eid).collect(),
                    Content::Members(eids) => eids,
                    _ => return None,
                };
                let of = self.reverse.entry(kind(metric, etype)).or_default();
                of.entry(uid.to_owned()).or_default().extend(eids);
            }
            (KeyName::Authors(etype), content) => {
                let authors = authors(content)?;
                let of = self.authors.entry(etype.to_owned()).or_default();
                of.extend(authors);
            }
            (KeyName::Days(metric, etype, eid), Content::Fields(days)) => {
                let counts = days.values().map(|count| count.parse::<i64>().ok());
                let sum = counts.sum::<Option<i64>>()?;
                let of = self.days.entry(kind(metric, etype)).or_default();
                *of.entry(eid.to_owned()).or_default() += sum;
            }
            (KeyName::Totals(metric, etype), content) => {
                let totals: Vec<(String, u64)> = match content {
                    Content::Rows(rows) => {
                        rows.into_iter().map(|(eid, row)| (eid, row[0])).collect()
                    }
                    Content::Fields(fields) => {
                        let parsed = fields.into_iter();
                        let parsed = parsed.map(|(eid, total)| Some((eid, total.parse().ok()?)));
                        parsed.collect::<Option<_>>()?
                    }
                    _ => return None,
                };
                let of = self.totals.entry(kind(metric, etype)).or_default();
                of.extend(totals);
            }
            _ => return None,
        }
        Some(())
    }
}

fn kind(metric: &str, etype: &str) -> Kind {
    (metric.to_owned(), etype.to_owned())
}

impl Facts {
    fn add(&mut self, part: Part<'_>, content: Content) -> Option<()> {
        match (part, content) {
            (Part::Users, Content::Members(users)) => self.users.extend(users),
            (Part::Set(set), Content::Members(users)) => {
                self.parts.push(set.to_owned());
                self.users.extend(users);
            }
            (Part::Chunk(chunk), Content::Bytes(bytes)) => {
                let first = chunk.parse::<u64>().ok()? * CHUNK_BITS;
                let bits = (0..8 * bytes.len())
                    .filter(|bit| bytes[bit / 8] & (0x80 >> (bit % 8)) != 0)
                    .map(|bit| (first + bit as u64).to_string());
                self.users.extend(bits);
                self.parts.push(chunk.to_owned());
            }
            (Part::Index, Content::Members(parts)) => self.index = parts,
            _ => return None,
        }
        Some(())
    }
}

/// The counters in a table (no ID) or an object. Strings have counters of 40 bits.
fn rows(id: Option<&str>, content: Content) -> Option<Vec<(String, Vec<u64>)>> {
    let counters = match (id, content) {
        (None, Content::Rows(rows)) => return Some(rows),
        (Some(_), Content::Counters(counters)) => counters,
        (Some(_), Content::Bytes(bytes)) if bytes.len() % 5 == 0 => {
            let counters = bytes.chunks(5);
            let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
            counters.map(number).collect()
        }
        _ => return None,
    };
    Some(vec![(id?.to_owned(), counters)])
}

/// The authors in a table or a Hash.
fn authors(content: Content) -> Option<Vec<(String, Author)>> {
    match content {
        Content::Rows(rows) => {
            let author = |(eid, row): (String, Vec<u64>)| {
                let uid = match (row.first()?, row.get(1)?) {
                    (0, _) => String::new(),
                    (1, last) => last.to_string(),
                    (first, last) => format!("{}{last:0AUTHOR_DIGITS$}", first - 1),
                };
                let credited = row.get(3..).unwrap_or_default().to_vec();
                Some((eid, Author { uid, credited }))
            };
            rows.into_iter().map(author).collect()
        }
        Content::Fields(fields) => {
            let author = |(eid, value): (String, String)| {
                // The author, the partition and the colour, and the credits.
                let mut words = value.split(' ');
                let uid = words.next()?.to_owned();
                words.next()?;
                let credited = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
                Some((eid, Author { uid, credited }))
            };
            fields.into_iter().map(author).collect()
        }
        _ => None,
    }
}

/// The IDs that occur twice.
pub fn twice(ids: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let again = ids.iter().filter(|id| !seen.insert(id.as_str()));
    again.map(String::as_str).collect()
}
