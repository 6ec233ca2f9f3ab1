//! Random writes of every kind, determined by a seed.

use crate::writes::changes::IMPORT_ROWS;
use countint_tests::{Client, Value, args, line, reply};
use roaring::RoaringTreemap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

type Command = Vec<Vec<u8>>;

/// A pseudo-random sequence (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A key of this kind, counters (`c`) or sets (`r`); sometimes of the other.
    fn key(&mut self, kind: char) -> String {
        let other = if kind == 'c' { 'r' } else { 'c' };
        let kind = if self.below(20) == 0 { other } else { kind };
        format!("{kind}{}", self.below(6))
    }

    fn idx(&mut self) -> u64 {
        self.below(8)
    }

    /// Small, large, and boundary values.
    fn delta(&mut self) -> i64 {
        let small = self.below(200) as i64 - 100;
        *self.pick(&[
            &0,
            &small,
            &small,
            &(1 << 40),
            &-(1 << 40),
            &i64::MIN,
            &i64::MAX,
        ])
    }

    fn value(&mut self) -> u64 {
        let small = self.below(4);
        *self.pick(&[&0, &small, &small, &((1 << 40) - 1), &(1 << 40)])
    }

    fn member(&mut self) -> u64 {
        let near = self.below(100);
        *self.pick(&[
            &near,
            &near,
            &(near << 32),
            &(u64::MAX - near),
            &(near * 65_536),
        ])
    }

    fn members(&mut self) -> Vec<u64> {
        // Sometimes enough for another encoding.
        if self.below(30) == 0 {
            let first = self.below(1 << 33);
            return (0..3000).map(|_| first + self.below(8000)).collect();
        }
        (0..1 + self.below(5)).map(|_| self.member()).collect()
    }

    fn len_option(&mut self) -> Command {
        match self.below(4) {
            0 => args!["LEN", 1 + self.below(10)].to_vec(),
            _ => Vec::new(),
        }
    }

    fn overflow_option(&mut self) -> Command {
        let word = *self.pick(&[&"SAT", &"FAIL"]);
        match self.below(3) {
            0 => args!["OVERFLOW", word].to_vec(),
            _ => Vec::new(),
        }
    }

    /// A write command of the module, which may fail.
    fn module_write(&mut self) -> Command {
        let (c, r) = (self.key('c'), self.key('r'));
        match self.below(28) {
            0 => args!["CINT.INIT", c, 1 + self.below(8)].to_vec(),
            1 | 2 => {
                let mut call = args!["CINT.INCRBY", c, self.idx(), self.delta()].to_vec();
                call.extend(self.len_option());
                call.extend(self.overflow_option());
                call
            }
            3 | 4 => {
                let mut call = args!["CINT.BATCHINCR", c].to_vec();
                call.extend(self.overflow_option());
                call.extend(self.len_option());
                for _ in 0..1 + self.below(4) {
                    call.extend(args![self.idx(), self.delta()]);
                }
                call
            }
            5 => {
                let mut call = args!["CINT.SET", c].to_vec();
                call.extend(self.len_option());
                for _ in 0..1 + self.below(3) {
                    call.extend(args![self.idx(), self.value()]);
                }
                call
            }
            6 => args!["CINT.GETSET", c, self.idx(), self.value()].to_vec(),
            7 => args!["CINT.RESIZE", c, 1 + self.below(10)].to_vec(),
            8 => args!["CINT.IMPORT", c, vec![1; 5 * self.below(9) as usize]].to_vec(),
            9 => match self.below(2) {
                0 => args!["CINT.ADOPT", c, "LEN", 1 + self.below(5)].to_vec(),
                _ => args!["CINT.ADOPT", c, "FIELDS", "f", "g"].to_vec(),
            },
            10 => {
                let members = self.members();
                args!["RBM.ADD", r]
                    .into_iter()
                    .chain(members.iter().map(decimal))
                    .collect()
            }
            11 => {
                let members = self.members();
                args!["RBM.REM", r]
                    .into_iter()
                    .chain(members.iter().map(decimal))
                    .collect()
            }
            12 => {
                let op = *self.pick(&[&"AND", &"OR", &"XOR", &"DIFF"]);
                args!["RBM.OP", op, r, self.key('r'), self.key('r')].to_vec()
            }
            13 => self.apply(c),
            14 => args!["RBM.ADOPT", r].to_vec(),
            15 => match self.below(2) {
                0 => self.mark("RBM.MARK", r),
                _ => self.mark("RBM.MMARK", r),
            },
            16 => match self.below(2) {
                0 => self.mark("RBM.UNMARK", r),
                _ => self.mark("RBM.MUNMARK", r),
            },
            17..=26 => self.table_write(),
            _ => {
                let set: RoaringTreemap = self.members().into_iter().collect();
                let mut bytes = Vec::new();
                set.serialize_into(&mut bytes).expect("a Vec takes all");
                args!["RBM.IMPORT", r, bytes].to_vec()
            }
        }
    }

    /// A write command on a table, which may fail.
    fn table_write(&mut self) -> Command {
        let t = self.key('t');
        let id = self.member();
        match self.below(11) {
            0 => args!["CTAB.INIT", t, 1 + self.below(8)].to_vec(),
            1 | 2 => {
                let mut call = args!["CTAB.INCRBY", t, id, self.idx(), self.delta()].to_vec();
                call.extend(self.len_option());
                call.extend(self.overflow_option());
                call
            }
            3 => {
                let mut call = args!["CTAB.BATCHINCR", t, id].to_vec();
                call.extend(self.len_option());
                for _ in 0..1 + self.below(4) {
                    call.extend(args![self.idx(), self.delta()]);
                }
                call
            }
            4 | 5 => {
                let from = self.below(50);
                let mut call = match self.below(2) {
                    0 => args!["CTAB.MINCRBY", t].to_vec(),
                    _ => {
                        args!["CTAB.MAPPLY", t, self.below(3), from, from + self.below(9)].to_vec()
                    }
                };
                call.extend(self.len_option());
                // Sometimes enough for many pages.
                let rows = if self.below(10) == 0 {
                    300
                } else {
                    1 + self.below(4)
                };
                for _ in 0..rows {
                    call.extend(args![
                        self.member().saturating_add(self.below(100)),
                        self.idx(),
                        self.delta()
                    ]);
                }
                call
            }
            6 => {
                let mut call = args!["CTAB.SET", t, id].to_vec();
                call.extend(self.len_option());
                for _ in 0..1 + self.below(3) {
                    call.extend(args![self.idx(), self.value()]);
                }
                call
            }
            7 => args!["CTAB.GETSET", t, id, self.idx(), self.value()].to_vec(),
            8 => {
                let members = self.members();
                let mut call = args!["CTAB.DEL", t].to_vec();
                call.extend(members.iter().map(decimal));
                call
            }
            9 => args!["CTAB.RESIZE", t, 1 + self.below(10)].to_vec(),
            // The rows 7 and 8 of two counters.
            _ => line::split(IMPORT_ROWS)
                .expect("valid quotes")
                .into_iter()
                .enumerate()
                .map(|(i, word)| if i == 1 { t.clone().into_bytes() } else { word })
                .collect(),
        }
    }

    /// A batch of a log's events. Fences share fields with counters, so they are often ahead.
    fn apply(&mut self, key: String) -> Command {
        let from = self.below(50);
        let to = from + self.below(10);
        let mut call = args!["CINT.APPLY", key, self.idx(), from, to].to_vec();
        call.extend(self.len_option());
        for _ in 0..1 + self.below(3) {
            call.extend(args![self.idx(), self.delta()]);
        }
        call
    }

    /// A mark of one or several members, with or without a count and an event. Streams are `x0` and `x1`.
    fn mark(&mut self, command: &str, key: String) -> Command {
        let mut call = args![command, key, self.member()].to_vec();
        if matches!(command, "RBM.MMARK" | "RBM.MUNMARK") {
            call.extend(self.members().iter().map(decimal));
        }
        if self.below(2) == 0 {
            let counter = match self.below(2) {
                0 => args![self.key('c'), self.idx()].to_vec(),
                _ => args![self.key('t'), "ROW", self.member(), self.idx()].to_vec(),
            };
            call.extend(args!["COUNT"]);
            call.extend(counter);
            call.extend(self.len_option());
        }
        if self.below(2) == 0 {
            let stream = self.below(2);
            call.extend(args!["EVENT", format!("x{stream}")]);
            if stream == 0 {
                call.extend(args!["SEQ"]);
            }
            if self.below(3) == 0 {
                call.extend(args!["MAXLEN", 10]);
            }
            call.extend(args!["COUNT", self.below(9)]);
        }
        call
    }

    /// A command of the server that writes to the same keys.
    fn server_write(&mut self) -> Command {
        let kind = *self.pick(&[&'c', &'r', &'t']);
        let (key, other) = (self.key(kind), self.key(kind));
        match self.below(13) {
            0 => args!["DEL", key].to_vec(),
            1 => args!["PEXPIRE", key, 1 + self.below(20)].to_vec(),
            2 => args!["EXPIRE", key, 9000].to_vec(),
            3 => args!["PERSIST", key].to_vec(),
            4 => args!["RENAME", key, other].to_vec(),
            5 => args!["COPY", key, other, "REPLACE"].to_vec(),
            6 | 7 => args!["SET", key, vec![0; 5 * self.below(4) as usize]].to_vec(),
            8..10 => args!["SADD", key, self.member()].to_vec(),
            10 => args!["DEL", format!("x{}", self.below(2))].to_vec(),
            _ => args!["HSET", key, self.pick(&["f", "g"]), self.below(9)].to_vec(),
        }
    }

    fn write(&mut self) -> Command {
        match self.below(4) {
            0 => self.server_write(),
            _ => self.module_write(),
        }
    }
}

fn decimal(n: &u64) -> Vec<u8> {
    n.to_string().into_bytes()
}

/// Sends about `count` writes, some in transactions and scripts. Many fail with one of [`ERRORS`].
pub fn write_randomly(client: &mut Client, random: &mut Random, count: usize) {
    let mut batch: Vec<Command> = Vec::new();
    while batch.len() < count {
        match random.below(20) {
            0 => {
                batch.push(args!["MULTI"].to_vec());
                batch.extend((0..4).map(|_| random.write()));
                batch.push(args!["EXEC"].to_vec());
            }
            1 => {
                let script = "redis.pcall(unpack(ARGV)) return redis.pcall(unpack(ARGV))";
                let mut call = args!["EVAL", script, 0].to_vec();
                call.extend(random.write());
                batch.push(call);
            }
            _ => batch.push(random.write()),
        }
    }
    for (call, reply) in batch.iter().zip(client.pipeline(&batch)) {
        if let Value::ServerError(error) = reply {
            let text = reply::error_text(&error);
            let call = String::from_utf8_lossy(&call.join(&b' ')).into_owned();
            assert!(
                ERRORS.iter().any(|start| text.starts_with(start)),
                "{call}: {text}"
            );
        }
    }
}

/// The errors that generated writes may get.
const ERRORS: [&str; 14] = [
    "ERR id already exists",
    "ERR lengths differ",
    "ERR fences differ",
    "WRONGTYPE Operation",
    "ERR index out of range",
    "ERR value is not an integer",
    "ERR length must be between",
    "ERR increment would overflow",
    "ERR key already exists",
    "ERR no such key",
    "ERR field is not zero",
    "ERR invalid payload",
    "ERR keys must differ",
    "ERR source and destination",
];

/// Waits until keys with a short TTL have expired, and deletes them on the master and its replicas.
pub fn let_expire(client: &mut Client) {
    std::thread::sleep(std::time::Duration::from_millis(25));
    for i in 0..6 {
        // Accessing an expired key deletes it.
        client.ok(&format!("EXISTS c{i} r{i} t{i}"));
    }
}

/// Stops threads when its guard goes out of scope, also when a test fails.
#[derive(Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Whether the threads must stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Sets it when the guard is dropped.
    pub fn on_drop(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a AtomicBool);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        Guard(&self.0)
    }
}
