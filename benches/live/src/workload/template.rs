//! Commands that are encoded once. Before each use only their ids are overwritten, which takes a few nanoseconds each,
//! so the client is never the bottleneck.
//!
//! A template is a command line with placeholders:
//!
//! - `<id>` a new id, `<set>` the set or table of a new id, `<same>` the last sampled id;
//! - `<offset>` the next log offset (ten digits), `<same-offset>` the last offset;
//! - `<i>` and `<field>` the index of a counter and its name in a Hash; each repetition uses the next counter;
//! - `word*100` repeats that word 100 times, `a,b*100` two words in turn; `; ` separates the commands of one operation,
//!   and `100x ` before a command repeats it 100 times.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::driver::resp::push_command;
use crate::workload::counts::FIELD_NAMES;
use crate::workload::id_source::{IdSampler, SampledId};

/// The number of digits of a set number.
const SET_DIGITS: usize = 7;
/// The number of digits of an offset.
const OFFSET_DIGITS: usize = 10;

/// The next offset: above every initial count, and unique in a run.
static NEXT_OFFSET: AtomicU64 = AtomicU64::new(1_000_000_000);

/// Encoded repetitions of an operation, with placeholders for ids.
pub struct Template {
    bytes: Vec<u8>,
    placeholders: Vec<Placeholder>,
    replies: u64,
}

/// The position of a number in the encoded bytes.
struct Placeholder {
    at: usize,
    digits: usize,
    number: Number,
}

/// The kinds of numbers.
#[derive(Clone, Copy)]
enum Number {
    Id,
    Set,
    SameId,
    Offset,
    SameOffset,
}

/// The notation of each kind in a template, and the byte that marks it while a command is encoded.
const NUMBERS: [(&str, u8, Number); 5] = [
    ("<id>", b'i', Number::Id),
    ("<set>", b's', Number::Set),
    ("<same>", b'm', Number::SameId),
    ("<offset>", b'o', Number::Offset),
    ("<same-offset>", b'p', Number::SameOffset),
];
/// The first byte of a placeholder while a command is encoded. It occurs in no word.
const MARK: u8 = 1;

impl Template {
    /// Encodes `depth` repetitions of `spec` for ids of `digits` digits. The first repetition uses counter `first`.
    pub fn compile(spec: &str, digits: usize, first: usize, depth: usize) -> Template {
        let mut bytes = Vec::new();
        let mut replies = 0;
        for repetition in first..first + depth {
            for command in spec.split("; ") {
                let (times, command) = repeated(command);
                let words = words_of(command, digits, repetition);
                for _ in 0..times {
                    push_command(&mut bytes, &words);
                }
                replies += times;
            }
        }
        Template {
            placeholders: find_placeholders(&bytes, digits),
            bytes,
            replies,
        }
    }

    /// One template for each first counter. Sent in turn, they use all counters even at pipeline depth 1.
    pub fn compile_all(spec: &str, digits: usize, depth: usize) -> Vec<Template> {
        (0..FIELD_NAMES.len())
            .map(|first| Template::compile(spec, digits, first, depth))
            .collect()
    }

    /// The number of replies to one batch.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Writes new ids into the batch and returns its bytes.
    pub fn fill(&mut self, sampler: &mut IdSampler) -> &[u8] {
        let (mut sampled, mut offset) = (SampledId::default(), 0);
        for place in &self.placeholders {
            match place.number {
                Number::Id | Number::Set => sampled = sampler.next_id(),
                Number::Offset => offset = NEXT_OFFSET.fetch_add(1, Ordering::Relaxed),
                Number::SameId | Number::SameOffset => {}
            }
            let number = match place.number {
                Number::Id | Number::SameId => sampled.id,
                Number::Set => sampled.set,
                Number::Offset | Number::SameOffset => offset,
            };
            write_digits(&mut self.bytes[place.at..place.at + place.digits], number);
        }
        &self.bytes
    }
}

impl Number {
    /// The number of digits, given that of ids.
    fn digits(self, id_digits: usize) -> usize {
        match self {
            Number::Id | Number::SameId => id_digits,
            Number::Set => SET_DIGITS,
            Number::Offset | Number::SameOffset => OFFSET_DIGITS,
        }
    }
}

/// How often a command is sent, and the command.
fn repeated(command: &str) -> (u64, &str) {
    let parts = command.split_once("x ");
    let parts = parts.and_then(|(times, command)| Some((times.parse().ok()?, command)));
    parts.unwrap_or((1, command))
}

fn words_of(command: &str, digits: usize, repetition: usize) -> Vec<String> {
    let counter = repetition % FIELD_NAMES.len();
    let mut words = Vec::new();
    for word in command.split(' ') {
        let (word, times) = match word.rsplit_once('*').map(|(w, n)| (w, n.parse())) {
            Some((word, Ok(times))) => (word, times),
            _ => (word, 1),
        };
        let separator = if times > 1 { "," } else { "\0" };
        let mut word = word
            .replace("<i>", &counter.to_string())
            .replace("<field>", FIELD_NAMES[counter]);
        for (name, letter, number) in NUMBERS {
            word = word.replace(name, &marker(letter, number.digits(digits)));
        }
        let parts = std::iter::repeat_n(word.split(separator), times).flatten();
        words.extend(parts.map(String::from));
    }
    words
}

/// The marker of a number with `digits` digits.
fn marker(letter: u8, digits: usize) -> String {
    let start = String::from_utf8_lossy(&[MARK, letter]).into_owned();
    format!("{start:.<digits$}")
}

fn find_placeholders(bytes: &[u8], digits: usize) -> Vec<Placeholder> {
    let marked = |at: usize| (bytes[at] == MARK).then(|| bytes.get(at + 1)).flatten();
    let placeholder = |at: usize| {
        let letter = marked(at)?;
        let &(.., number) = NUMBERS.iter().find(|(_, l, _)| l == letter)?;
        Some(Placeholder {
            at,
            digits: number.digits(digits),
            number,
        })
    };
    (0..bytes.len()).filter_map(placeholder).collect()
}

/// Writes `number` as decimal digits that fill `out`.
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
    use crate::workload::id_source::{IdSource, Presence};
    use crate::workload::ids::{Distribution, Layout};
    use crate::workload::table::Tables;

    const OBJECTS: IdSource = IdSource::Objects(1_000_000);

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
    fn offsets_grow_and_repeat_on_request() {
        let mut template = Template::compile("APPLY k <offset> <same-offset>", 7, 0, 2);
        let sent = decode(template.fill(&mut IdSampler::new(OBJECTS, 1)));
        let offsets: Vec<u64> = sent
            .iter()
            .flat_map(|line| line.split(' ').skip(2).map(|word| word.parse().unwrap()))
            .collect();
        assert_eq!(offsets[0], offsets[1]);
        assert_eq!(offsets[2], offsets[3]);
        assert!(offsets[2] > offsets[0] && offsets[0] >= 1_000_000_000);
    }

    #[test]
    fn repetitions_use_the_counters_in_turn() {
        let mut template = Template::compile("HINCRBY k <field> <i>", 7, 0, 6);
        let sent = decode(template.fill(&mut IdSampler::new(OBJECTS, 1)));
        assert_eq!(sent[0], "HINCRBY k read 0");
        assert_eq!(sent[4], "HINCRBY k repost 4");
        assert_eq!(sent[5], sent[0]);
        assert_eq!(template.replies(), 6);
        let mut sampler = IdSampler::new(OBJECTS, 1);
        let singles = Template::compile_all("GET <i>", 7, 1);
        let sent: Vec<_> = singles
            .into_iter()
            .flat_map(|mut t| decode(t.fill(&mut sampler)))
            .collect();
        assert_eq!(sent, ["GET 0", "GET 1", "GET 2", "GET 3", "GET 4"]);
    }

    #[test]
    fn each_batch_has_new_ids() {
        let mut template = Template::compile("MGET n:<id>*3", 7, 0, 1);
        let mut sampler = IdSampler::new(OBJECTS, 1);
        let mut expected = IdSampler::new(OBJECTS, 1);
        for _ in 0..2 {
            let ids: Vec<String> = (0..3)
                .map(|_| format!("n:{}", expected.next_id().id))
                .collect();
            assert_eq!(
                decode(template.fill(&mut sampler)),
                [format!("MGET {}", ids.join(" "))]
            );
        }
    }

    #[test]
    fn words_and_commands_are_repeated_in_turn() {
        let source = IdSource::Tables(Tables::random(1_000));
        let spec = "PAGE 2 t:<set>,<same>*2; 2x READ a,b t:<set> <same>";
        let mut template = Template::compile(spec, source.digits(), 0, 1);
        assert_eq!(template.replies(), 3);
        let mut expected = IdSampler::new(source, 4);
        let [a, b, c, d] = std::array::from_fn(|_| {
            let SampledId { set, id } = expected.next_id();
            format!("t:{set} {id}")
        });
        assert_eq!(
            decode(template.fill(&mut IdSampler::new(source, 4))),
            [
                format!("PAGE 2 {a} {b}"),
                format!("READ a,b {c}"),
                format!("READ a,b {d}")
            ]
        );
    }

    #[test]
    fn same_repeats_the_id_within_an_operation() {
        let mut template = Template::compile("MULTI; SET n:<id> 1; GET n:<same>; EXEC", 7, 0, 2);
        let mut expected = IdSampler::new(OBJECTS, 9);
        let sent = decode(template.fill(&mut IdSampler::new(OBJECTS, 9)));
        let (a, b) = (expected.next_id().id, expected.next_id().id);
        assert_eq!(sent[1..3], [format!("SET n:{a} 1"), format!("GET n:{a}")]);
        assert_eq!(sent[5..7], [format!("SET n:{b} 1"), format!("GET n:{b}")]);
        assert_eq!(template.replies(), 8);
    }

    #[test]
    fn a_member_is_sent_to_its_own_set() {
        let layout = Layout {
            sets: 10,
            size: 100,
        };
        let source = IdSource::Members(Distribution::Snowflake, layout, Presence::Present);
        let mut template = Template::compile("SADD s:<set> <same>", source.digits(), 0, 3);
        let mut expected = IdSampler::new(source, 5);
        for line in decode(template.fill(&mut IdSampler::new(source, 5))) {
            let sampled = expected.next_id();
            assert_eq!(line, format!("SADD s:{} {}", sampled.set, sampled.id));
        }
    }
}
