//! The same random commands on the module and the functions: equal replies, and finally equal data.

use super::fallback::{Fallback, Form};
use countint_tests::{Client, Server, args, reply, snapshot};

const STEPS: usize = 4_000;

/// Pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn counter(&mut self) -> String {
        match self.below(40) {
            0 => "list".to_owned(),
            _ => self.of(&["a", "b", "c", "d"]).to_owned(),
        }
    }

    fn set(&mut self) -> String {
        match self.below(40) {
            0 => "list".to_owned(),
            _ => self.of(&["s", "t", "u"]).to_owned(),
        }
    }

    fn idx(&mut self) -> String {
        match self.below(80) {
            0 => self
                .of(&["-1", "65534", "65535", "9223372036854775807", "x", "07", ""])
                .to_owned(),
            1 => self.below(3_000).to_string(),
            2..6 => self.below(9).to_string(),
            _ => self.below(4).to_string(),
        }
    }

    fn delta(&mut self) -> String {
        const EDGES: [&str; 10] = [
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "1099511627775",
            "1099511627776",
            "-1099511627775",
            "9007199254740993",
            "-9007199254740993",
            "+1",
            "1.0",
        ];
        match self.below(16) {
            0 => self.of(&EDGES).to_owned(),
            1 => "0".to_owned(),
            2 => (self.next() as i64 >> self.below(60)).to_string(),
            _ => (self.below(9) as i64 - 4).to_string(),
        }
    }

    fn value(&mut self) -> String {
        match self.below(24) {
            0 => self
                .of(&["1099511627775", "1099511627776", "-1", "01"])
                .to_owned(),
            1..4 => (self.next() >> 24).to_string(),
            _ => self.below(4).to_string(),
        }
    }

    fn len(&mut self) -> String {
        match self.below(20) {
            0 => self.of(&["0", "65536", "x", "-3"]).to_owned(),
            1 => (1 + self.below(3_000)).to_string(),
            _ => (4 + self.below(5)).to_string(),
        }
    }

    fn len_option(&mut self) -> Vec<String> {
        match self.below(8) {
            0 => vec![self.of(&["LEN", "len", "Len"]).to_owned(), self.len()],
            1 if self.once_in(4) => vec!["LEN".to_owned()],
            _ => vec![],
        }
    }

    fn options(&mut self) -> Vec<String> {
        let len = self.len_option();
        let overflow = match self.below(6) {
            0 | 1 => vec![
                "OVERFLOW".to_owned(),
                self.of(&["FAIL", "fail", "SAT"]).to_owned(),
            ],
            2 if self.once_in(6) => vec!["OVERFLOW".to_owned(), "WRAP".to_owned()],
            _ => vec![],
        };
        match self.once_in(2) {
            true => [len, overflow].concat(),
            false => [overflow, len].concat(),
        }
    }

    fn pairs(&mut self, second: fn(&mut Random) -> String) -> Vec<String> {
        let count = 1 + self.below(6);
        let mut words = Vec::new();
        for _ in 0..count {
            words.extend([self.idx(), second(self)]);
        }
        if self.once_in(60) {
            words.pop();
        }
        words
    }

    fn command(&mut self) -> Vec<String> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let counter = self.counter();
        let c = counter.as_str();
        match self.below(30) {
            0 => own(&["CINT.INIT", c, &self.len()]),
            1 => own(&["CINT.GET", c, &self.idx()]),
            2 => own(&["CINT.MGET", c, &self.idx(), &self.idx(), &self.idx()]),
            3..=5 => [
                own(&["CINT.INCRBY", c, &self.idx(), &self.delta()]),
                self.options(),
            ]
            .concat(),
            6..=9 => [
                own(&["CINT.BATCHINCR", c]),
                self.options(),
                self.pairs(Self::delta),
            ]
            .concat(),
            10..=12 => [
                own(&["CINT.SET", c]),
                self.len_option(),
                self.pairs(Self::value),
            ]
            .concat(),
            13 => own(&["CINT.GETSET", c, &self.idx(), &self.value()]),
            14 => own(&[self.of(&["CINT.LEN", "CINT.DUMP", "CINT.EXPORT"]), c]),
            15 => own(&["CINT.MDUMP", c, "a", "nosuch", "b"]),
            16 => own(&["CINT.MREAD", &self.len(), c, "a", "nosuch", "b"]),
            17 => own(&["CINT.RESIZE", c, &self.len()]),
            18 => own(&["CINT.IMPORT", c, &"x".repeat(self.below(12) as usize)]),
            19 if self.once_in(2) => own(&[
                "DEL",
                self.of(&["a", "b", "c", "d", "s", "t", "u", "log", "ms"]),
            ]),
            20..=22 => self.apply(c),
            23 if self.once_in(20) => {
                own(&["XADD", "ms", &format!("{}-1", self.below(9)), "f", "v"])
            }
            _ => self.mark(c),
        }
    }

    fn apply(&mut self, key: &str) -> Vec<String> {
        let offset = |random: &mut Random| match random.below(30) {
            0 => random
                .of(&["1099511627774", "1099511627775", "-1"])
                .to_owned(),
            _ => random.below(40).to_string(),
        };
        let from = offset(self);
        let to = match from.parse::<u64>() {
            Ok(from) if from < 1000 => (from + self.below(20)).to_string(),
            _ => offset(self),
        };
        let fence = (4 + self.below(2)).to_string();
        let head = ["CINT.APPLY", key, &fence, &from, &to].map(str::to_owned);
        [head.to_vec(), self.len_option(), self.pairs(Self::delta)].concat()
    }

    fn mark(&mut self, counter: &str) -> Vec<String> {
        let name = self.of(&["RBM.MARK", "RBM.UNMARK", "rbm.mark"]);
        let member = match self.below(30) {
            0 => "18446744073709551615".to_owned(),
            _ => self.below(12).to_string(),
        };
        let mut words = vec![name.to_owned(), self.set(), member];
        if !self.once_in(4) {
            words.extend(["COUNT".to_owned(), counter.to_owned(), self.idx()]);
            words.extend(self.len_option());
            if self.once_in(4) {
                words.push("VERIFY".to_owned());
            }
        }
        if self.once_in(2) {
            let stream = self.of(&["log", "log", "log", "log", "log", "ms", "s", "list"]);
            words.extend(["EVENT", stream, "SEQ"].map(str::to_owned));
            if self.once_in(3) {
                words.extend([
                    "MAXLEN".to_owned(),
                    self.of(&["0", "5", "6", "7", "8", "-1", "x"]).to_owned(),
                ]);
            }
            words.extend(["op", name].map(str::to_owned));
        }
        words
    }
}

/// The sorted members of a set on each side, or its entries if an event created a stream.
fn members(module: &mut Client, plain: &mut Client, key: &str) -> [String; 2] {
    if module.run(&format!("TYPE {key}")) == "stream" {
        return [module, plain].map(|client| client.run(&format!("XRANGE {key} - +")));
    }
    let module_members = match module.run(&format!("EXISTS {key}")).as_str() {
        "(integer) 1" => snapshot::scan(module, key.as_bytes(), false, usize::MAX),
        _ => vec![],
    };
    let fallback_members = reply::array(plain.ok(&format!("SMEMBERS {key}")));
    let fallback_members = fallback_members.into_iter().map(reply::text);
    let mut fallback_members: Vec<u64> = fallback_members
        .map(|member| member.parse().expect("members were numbers"))
        .collect();
    fallback_members.sort_unstable();
    [module_members, fallback_members].map(|members| format!("{members:?}"))
}

fn compare(form: Form, seed: u64) {
    let (module, plain) = (Server::start(), Fallback::server().start());
    let (mut module, mut fallback) = (module.client(), Fallback::load(plain.client(), form));
    module.ok("RPUSH list 1");
    fallback.client.ok("RPUSH list 1");
    let mut random = Random(seed);
    let (mut errors, mut changed) = (0, 0);
    for step in 0..STEPS {
        let command = random.command();
        let line = command.join(" ");
        let command: Vec<Vec<u8>> = command.into_iter().map(String::into_bytes).collect();
        let expected = reply::format(&module.call(&command));
        let got = reply::format(&fallback.call(&command));
        assert_eq!(
            got, expected,
            "seed {seed}, step {step} > {line} ({form:?})"
        );
        errors += usize::from(expected.starts_with("(error)"));
        changed += usize::from(expected.starts_with("1) (integer) 1\n"));
        if step % 50 == 49 || step + 1 == STEPS {
            same_data(
                &mut module,
                &mut fallback,
                &format!("seed {seed}, after step {step} > {line}"),
            );
        }
    }
    // Guards against a run of mostly errors.
    assert!(errors * 2 < STEPS && errors > STEPS / 50, "{errors} errors");
    assert!(changed > STEPS / 20, "{changed} marks");
}

fn same_data(module: &mut Client, fallback: &mut Fallback, context: &str) {
    for key in ["a", "b", "c", "d"] {
        let command = args!["CINT.EXPORT", key];
        let bytes = module.call(&command);
        assert_eq!(fallback.call(&command), bytes, "{key}: {context}");
        // A String's bytes equal the export.
        let stored = fallback.client.call(&args!["GET", key]);
        assert_eq!(stored, bytes, "{key}: {context}");
    }
    for key in ["s", "t", "u"] {
        let [module_members, fallback_members] = members(module, &mut fallback.client, key);
        assert_eq!(fallback_members, module_members, "{key}: {context}");
    }
    for key in ["log", "ms"] {
        let line = format!("XRANGE {key} - +");
        assert_eq!(fallback.client.run(&line), module.run(&line), "{context}");
    }
}

#[test]
fn random_calls_of_functions_agree() {
    for seed in [1, 2] {
        compare(Form::Function, seed);
    }
}

#[test]
fn random_calls_of_scripts_agree() {
    for seed in [3, 4] {
        compare(Form::Script, seed);
    }
}
