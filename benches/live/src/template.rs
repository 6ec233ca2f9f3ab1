//! Commands that are encoded once. Before each sending only the ids in them are overwritten, which costs a few
//! nanoseconds each, so the client is never the slower side because of encoding.
//!
//! A template is written as the command would be typed, with
//!
//! - `<id>` an id picked anew (seven digits), `<same>` the id picked last;
//! - `<offset>` the next offset of a log (ten digits), `<same-offset>` the one before;
//! - `<i>` and `<field>` a counter's index and its name in a Hash, going round with each repetition;
//! - `word*100` that word 100 times; `; ` between commands that belong together.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::numbers::Numbers;
use crate::resp::push_command;

/// What the five counters are called where they are fields of a Hash.
pub const FIELD_NAMES: [&str; 5] = ["read", "like", "fav", "comment", "repost"];

/// Holds the place of an id while a command is encoded. No other word contains these bytes.
const FRESH_MARK: &str = "\u{1}FRESH\u{1}";
/// The same for the id picked last.
const SAME_MARK: &str = "\u{1}SAME!\u{1}";

/// The same for offsets, which are longer.
const OFFSET_MARK: &str = "\u{1}OFFSET..\u{1}";
/// The same for the offset before.
const SAME_OFFSET_MARK: &str = "\u{1}SAME-OFF\u{1}";

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
    number: Number,
}

/// Which number.
#[derive(Clone, Copy)]
enum Number {
    Id,
    SameId,
    Offset,
    SameOffset,
}

/// The places of numbers in words, and which numbers they are for.
const MARKS: [(&str, Number); 4] = [
    (FRESH_MARK, Number::Id),
    (SAME_MARK, Number::SameId),
    (OFFSET_MARK, Number::Offset),
    (SAME_OFFSET_MARK, Number::SameOffset),
];

impl Template {
    /// Encodes `depth` repetitions of `spec`, the first of which uses counter `first`.
    pub fn compile(spec: &str, first: usize, depth: usize) -> Template {
        let mut bytes = Vec::new();
        let mut replies = 0;
        for repetition in first..first + depth {
            for command in spec.split("; ") {
                push_command(&mut bytes, &words_of(command, repetition));
                replies += 1;
            }
        }
        Template {
            sites: find_sites(&bytes),
            bytes,
            replies,
        }
    }

    /// One template for each counter to begin with, to be sent in turn: so a batch of one uses all of them too.
    pub fn compile_all(spec: &str, depth: usize) -> Vec<Template> {
        (0..FIELD_NAMES.len())
            .map(|first| Template::compile(spec, first, depth))
            .collect()
    }

    /// How many replies one sending brings.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Picks new ids and returns the bytes to send.
    pub fn fill(&mut self, numbers: &mut Numbers) -> &[u8] {
        let (mut id, mut offset) = (0, 0);
        for site in &self.sites {
            match site.number {
                Number::Id => id = numbers.next_id(),
                Number::Offset => offset = NEXT_OFFSET.fetch_add(1, Ordering::Relaxed),
                Number::SameId | Number::SameOffset => {}
            }
            let (number, digits) = match site.number {
                Number::Id | Number::SameId => (id, FRESH_MARK.len()),
                Number::Offset | Number::SameOffset => (offset, OFFSET_MARK.len()),
            };
            write_digits(&mut self.bytes[site.at..site.at + digits], number);
        }
        &self.bytes
    }
}

fn words_of(command: &str, repetition: usize) -> Vec<String> {
    let slot = repetition % FIELD_NAMES.len();
    let mut words = Vec::new();
    for word in command.split(' ') {
        let (word, times) = match word.rsplit_once('*').map(|(w, n)| (w, n.parse())) {
            Some((word, Ok(times))) => (word, times),
            _ => (word, 1),
        };
        let word = word
            .replace("<i>", &slot.to_string())
            .replace("<field>", FIELD_NAMES[slot])
            .replace("<id>", FRESH_MARK)
            .replace("<same>", SAME_MARK)
            .replace("<offset>", OFFSET_MARK)
            .replace("<same-offset>", SAME_OFFSET_MARK);
        words.extend(std::iter::repeat_n(word, times));
    }
    words
}

fn find_sites(bytes: &[u8]) -> Vec<Site> {
    let site = |at| {
        let mark = MARKS
            .iter()
            .find(|(mark, _)| bytes[at..].starts_with(mark.as_bytes()));
        mark.map(|&(_, number)| Site { at, number })
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
    use crate::numbers::Pick;

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
        let mut template = Template::compile("APPLY k <offset> <same-offset>", 0, 2);
        let sent = decode(template.fill(&mut Numbers::new(Pick::Uniform, 1)));
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
        let mut template = Template::compile("HINCRBY k <field> <i>", 0, 6);
        let sent = decode(template.fill(&mut Numbers::new(Pick::Uniform, 1)));
        assert_eq!(sent[0], "HINCRBY k read 0");
        assert_eq!(sent[4], "HINCRBY k repost 4");
        assert_eq!(sent[5], sent[0]);
        assert_eq!(template.replies(), 6);
        let mut numbers = Numbers::new(Pick::Uniform, 1);
        let singles = Template::compile_all("GET <i>", 1);
        let sent: Vec<_> = singles
            .into_iter()
            .flat_map(|mut t| decode(t.fill(&mut numbers)))
            .collect();
        assert_eq!(sent, ["GET 0", "GET 1", "GET 2", "GET 3", "GET 4"]);
    }

    #[test]
    fn ids_are_filled_in_anew_each_time() {
        let mut template = Template::compile("MGET n:<id>*3", 0, 1);
        let mut numbers = Numbers::new(Pick::Uniform, 1);
        let mut expected = Numbers::new(Pick::Uniform, 1);
        for _ in 0..2 {
            let ids: Vec<String> = (0..3)
                .map(|_| format!("n:{}", expected.next_id()))
                .collect();
            assert_eq!(
                decode(template.fill(&mut numbers)),
                [format!("MGET {}", ids.join(" "))]
            );
        }
    }

    #[test]
    fn a_transaction_keeps_its_id() {
        let mut template = Template::compile("MULTI; SET n:<id> 1; GET n:<same>; EXEC", 0, 2);
        let mut expected = Numbers::new(Pick::Uniform, 9);
        let sent = decode(template.fill(&mut Numbers::new(Pick::Uniform, 9)));
        let (a, b) = (expected.next_id(), expected.next_id());
        assert_eq!(sent[1..3], [format!("SET n:{a} 1"), format!("GET n:{a}")]);
        assert_eq!(sent[5..7], [format!("SET n:{b} 1"), format!("GET n:{b}")]);
        assert_eq!(template.replies(), 8);
    }
}
