//! Commands that are encoded once. Before each sending only the ids in them are overwritten, which costs a few
//! nanoseconds each, so the client is never the slower side because of encoding.
//!
//! A template is written as the command would be typed, with
//!
//! - `<id>` an id picked anew (seven digits), `<same>` the id picked last;
//! - `<i>` and `<field>` a counter's index and its name in a Hash, going round with each repetition;
//! - `word*100` that word 100 times; `; ` between commands that belong together.

use crate::numbers::Numbers;
use crate::resp::push_command;

/// What the five counters are called where they are fields of a Hash.
pub const FIELD_NAMES: [&str; 5] = ["read", "like", "fav", "comment", "repost"];

/// Holds the place of an id while a command is encoded. No other word contains these bytes.
const FRESH_MARK: &str = "\u{1}FRESH\u{1}";
/// The same for the id picked last.
const SAME_MARK: &str = "\u{1}SAME!\u{1}";

/// Encoded repetitions of a command, ready to have ids filled in.
pub struct Template {
    bytes: Vec<u8>,
    sites: Vec<Site>,
    replies: u64,
}

/// Where an id goes.
struct Site {
    at: usize,
    fresh: bool,
}

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
        let mut id = 0;
        for site in &self.sites {
            if site.fresh {
                id = numbers.next_id();
            }
            write_id(&mut self.bytes[site.at..site.at + 7], id);
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
            .replace("<same>", SAME_MARK);
        words.extend(std::iter::repeat_n(word, times));
    }
    words
}

fn find_sites(bytes: &[u8]) -> Vec<Site> {
    let windows = bytes.windows(FRESH_MARK.len()).enumerate();
    windows
        .filter_map(|(at, window)| {
            let fresh = window == FRESH_MARK.as_bytes();
            (fresh || window == SAME_MARK.as_bytes()).then_some(Site { at, fresh })
        })
        .collect()
}

/// Writes a number below 10,000,000 as seven digits.
fn write_id(out: &mut [u8], id: u64) {
    let mut rest = id as u32;
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
