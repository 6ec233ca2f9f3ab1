//! Commands that are encoded once. Before each sending only the ids in them are overwritten, which costs a few
//! nanoseconds each, so the client is never the slower side because of encoding.
//!
//! A template is written as the command would be typed, with
//!
//! - `<id>` an id picked anew, `<set>` the number of the set of an id picked anew, `<same>` the id picked last;
//! - `<offset>` the next offset of a log (ten digits), `<same-offset>` the one before;
//! - `<i>` and `<field>` a counter's index and its name in a Hash, going round with each repetition;
//! - `word*100` that word 100 times; `; ` between commands that belong together.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::numbers::{Numbers, Picked};
use crate::resp::push_command;

/// What the five counters are called where they are fields of a Hash.
pub const FIELD_NAMES: [&str; 5] = ["read", "like", "fav", "comment", "repost"];

/// The digits of a set's number.
const SET_DIGITS: usize = 7;
/// The digits of an offset.
const OFFSET_DIGITS: usize = 10;

/// The next offset: above every count that the data begin with, and never the same twice in a run.
static NEXT_OFFSET: AtomicU64 = AtomicU64::new(1_000_000_000);

/// Encoded repetitions of a command, ready to have ids filled in.
pub struct Template {
    bytes: Vec<u8>,
    sites: Vec<Site>,
    replies: u64,
}

/// Where a number goes.
struct Site {
    at: usize,
    digits: usize,
    number: Number,
}

/// Which number.
#[derive(Clone, Copy)]
enum Number {
    Id,
    Set,
    SameId,
    Offset,
    SameOffset,
}

/// How each is written in a template, and the byte that tells it from the others while a command is encoded.
const NUMBERS: [(&str, u8, Number); 5] = [
    ("<id>", b'i', Number::Id),
    ("<set>", b's', Number::Set),
    ("<same>", b'm', Number::SameId),
    ("<offset>", b'o', Number::Offset),
    ("<same-offset>", b'p', Number::SameOffset),
];
/// Begins the place of a number. No word contains it.
const MARK: u8 = 1;

impl Template {
    /// Encodes `depth` repetitions of `spec`, the first of which uses counter `first`, for ids of so many digits.
    pub fn compile(spec: &str, digits: usize, first: usize, depth: usize) -> Template {
        let mut bytes = Vec::new();
        let mut replies = 0;
        for repetition in first..first + depth {
            for command in spec.split("; ") {
                push_command(&mut bytes, &words_of(command, digits, repetition));
                replies += 1;
            }
        }
        Template {
            sites: find_sites(&bytes, digits),
            bytes,
            replies,
        }
    }

    /// One template for each counter to begin with, to be sent in turn: so a batch of one uses all of them too.
    pub fn compile_all(spec: &str, digits: usize, depth: usize) -> Vec<Template> {
        (0..FIELD_NAMES.len())
            .map(|first| Template::compile(spec, digits, first, depth))
            .collect()
    }

    /// How many replies one sending brings.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Picks new ids and returns the bytes to send.
    pub fn fill(&mut self, numbers: &mut Numbers) -> &[u8] {
        let (mut picked, mut offset) = (Picked::default(), 0);
        for site in &self.sites {
            match site.number {
                Number::Id | Number::Set => picked = numbers.next_pick(),
                Number::Offset => offset = NEXT_OFFSET.fetch_add(1, Ordering::Relaxed),
                Number::SameId | Number::SameOffset => {}
            }
            let number = match site.number {
                Number::Id | Number::SameId => picked.id,
                Number::Set => picked.set,
                Number::Offset | Number::SameOffset => offset,
            };
            write_digits(&mut self.bytes[site.at..site.at + site.digits], number);
        }
        &self.bytes
    }
}

impl Number {
    /// The digits that it takes, where ids take `id_digits`.
    fn digits(self, id_digits: usize) -> usize {
        match self {
            Number::Id | Number::SameId => id_digits,
            Number::Set => SET_DIGITS,
            Number::Offset | Number::SameOffset => OFFSET_DIGITS,
        }
    }
}

fn words_of(command: &str, digits: usize, repetition: usize) -> Vec<String> {
    let slot = repetition % FIELD_NAMES.len();
    let mut words = Vec::new();
    for word in command.split(' ') {
        let (word, times) = match word.rsplit_once('*').map(|(w, n)| (w, n.parse())) {
            Some((word, Ok(times))) => (word, times),
            _ => (word, 1),
        };
        let mut word = word
            .replace("<i>", &slot.to_string())
            .replace("<field>", FIELD_NAMES[slot]);
        for (name, letter, number) in NUMBERS {
            word = word.replace(name, &place(letter, number.digits(digits)));
        }
        words.extend(std::iter::repeat_n(word, times));
    }
    words
}

/// Holds the place of a number of so many digits.
fn place(letter: u8, digits: usize) -> String {
    let start = String::from_utf8_lossy(&[MARK, letter]).into_owned();
    format!("{start:.<digits$}")
}

fn find_sites(bytes: &[u8], digits: usize) -> Vec<Site> {
    let marked = |at: usize| (bytes[at] == MARK).then(|| bytes.get(at + 1)).flatten();
    let site = |at: usize| {
        let letter = marked(at)?;
        let &(.., number) = NUMBERS.iter().find(|(_, l, _)| l == letter)?;
        Some(Site {
            at,
            digits: number.digits(digits),
            number,
        })
    };
    (0..bytes.len()).filter_map(site).collect()
}

/// Writes a number over all of `out`, as decimal digits.
fn write_digits(out: &mut [u8], number: u64) {
    let mut rest = number;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{Distribution, Layout};
    use crate::numbers::{Asked, Pick};

    const OBJECTS: Pick = Pick::Objects(1_000_000);

    /// The words of each command in `bytes`, decoded from RESP.
    fn decode(bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let mut commands: Vec<Vec<String>> = Vec::new();
        let mut lines = text.split("\r\n");
        while let Some(line) = lines.next() {
            if line.starts_with('*') {
                commands.push(Vec::new());
            } else if let Some(length) = line.strip_prefix('$') {
                let word = lines.next().unwrap();
                assert_eq!(word.len().to_string(), length);
                commands.last_mut().unwrap().push(word.to_string());
            }
        }
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn offsets_grow_and_repeat_where_asked() {
        let mut template = Template::compile("APPLY k <offset> <same-offset>", 7, 0, 2);
        let sent = decode(template.fill(&mut Numbers::new(OBJECTS, 1)));
        let offsets: Vec<u64> = sent
            .iter()
            .flat_map(|line| line.split(' ').skip(2).map(|word| word.parse().unwrap()))
            .collect();
        assert_eq!(offsets[0], offsets[1]);
        assert_eq!(offsets[2], offsets[3]);
        assert!(offsets[2] > offsets[0] && offsets[0] >= 1_000_000_000);
    }

    #[test]
    fn indexes_and_names_go_round() {
        let mut template = Template::compile("HINCRBY k <field> <i>", 7, 0, 6);
        let sent = decode(template.fill(&mut Numbers::new(OBJECTS, 1)));
        assert_eq!(sent[0], "HINCRBY k read 0");
        assert_eq!(sent[4], "HINCRBY k repost 4");
        assert_eq!(sent[5], sent[0]);
        assert_eq!(template.replies(), 6);
        let mut numbers = Numbers::new(OBJECTS, 1);
        let singles = Template::compile_all("GET <i>", 7, 1);
        let sent: Vec<_> = singles
            .into_iter()
            .flat_map(|mut t| decode(t.fill(&mut numbers)))
            .collect();
        assert_eq!(sent, ["GET 0", "GET 1", "GET 2", "GET 3", "GET 4"]);
    }

    #[test]
    fn ids_are_filled_in_anew_each_time() {
        let mut template = Template::compile("MGET n:<id>*3", 7, 0, 1);
        let mut numbers = Numbers::new(OBJECTS, 1);
        let mut expected = Numbers::new(OBJECTS, 1);
        for _ in 0..2 {
            let ids: Vec<String> = (0..3)
                .map(|_| format!("n:{}", expected.next_pick().id))
                .collect();
            assert_eq!(
                decode(template.fill(&mut numbers)),
                [format!("MGET {}", ids.join(" "))]
            );
        }
    }

    #[test]
    fn a_transaction_keeps_its_id() {
        let mut template = Template::compile("MULTI; SET n:<id> 1; GET n:<same>; EXEC", 7, 0, 2);
        let mut expected = Numbers::new(OBJECTS, 9);
        let sent = decode(template.fill(&mut Numbers::new(OBJECTS, 9)));
        let (a, b) = (expected.next_pick().id, expected.next_pick().id);
        assert_eq!(sent[1..3], [format!("SET n:{a} 1"), format!("GET n:{a}")]);
        assert_eq!(sent[5..7], [format!("SET n:{b} 1"), format!("GET n:{b}")]);
        assert_eq!(template.replies(), 8);
    }

    #[test]
    fn a_member_goes_with_its_set() {
        let layout = Layout {
            sets: 10,
            size: 100,
        };
        let pick = Pick::Members(Distribution::Snowflake, layout, Asked::Present);
        let mut template = Template::compile("SADD s:<set> <same>", pick.digits(), 0, 3);
        let mut expected = Numbers::new(pick, 5);
        for line in decode(template.fill(&mut Numbers::new(pick, 5))) {
            let picked = expected.next_pick();
            assert_eq!(line, format!("SADD s:{} {}", picked.set, picked.id));
        }
    }
}
