//! A server without the module, with `fallback/countint.lua`, and the translation of the module's commands into calls of
//! its functions.

use countint_tests::{Builder, Client, Server, Value, args, env, line, reply};
use std::fs;

/// How the functions are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As a library: `FCALL function numkeys key ... arg ...`.
    Function,
    /// As a script: `EVALSHA sha numkeys key ... function arg ...`.
    Script,
}

impl Form {
    /// Both.
    pub const ALL: [Form; 2] = [Form::Function, Form::Script];
}

/// The module's commands with a function.
pub const FUNCTIONS: [&str; 17] = [
    "cint.init",
    "cint.get",
    "cint.mget",
    "cint.incrby",
    "cint.batchincr",
    "cint.set",
    "cint.getset",
    "cint.len",
    "cint.dump",
    "cint.mdump",
    "cint.mread",
    "cint.resize",
    "cint.export",
    "cint.import",
    "cint.apply",
    "rbm.mark",
    "rbm.unmark",
];

/// Commands on id sets with an equivalent command on Sets: same arguments, same replies.
pub const SET_EQUIVALENTS: [(&str, &str); 5] = [
    ("rbm.add", "SADD"),
    ("rbm.rem", "SREM"),
    ("rbm.contains", "SISMEMBER"),
    ("rbm.mcontains", "SMISMEMBER"),
    ("rbm.card", "SCARD"),
];

/// The library's source in the repository.
pub fn library() -> String {
    let path = env::workspace().join("fallback/countint.lua");
    fs::read_to_string(path).expect("fallback/countint.lua is there")
}

/// A call of a function: its name, the keys, the other arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `cint_incrby`
    pub function: String,
    /// KEYS
    pub keys: Vec<Vec<u8>>,
    /// ARGV
    pub args: Vec<Vec<u8>>,
}

impl Call {
    /// The call equivalent to a line with one of the module's commands.
    pub fn of_line(line: &str) -> Call {
        Call::of(&line::split(line).expect("valid quotes")).expect("the command has a function")
    }

    /// The call equivalent to one of the module's commands; `None` if it has no function.
    pub fn of(command: &[Vec<u8>]) -> Option<Call> {
        let name = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
        let position = FUNCTIONS.iter().position(|other| *other == name)?;
        let (keys, args) = match FUNCTIONS[position] {
            "cint.mdump" => (command[1..].to_vec(), Vec::new()),
            "cint.mread" => {
                let len = command.get(1..2).unwrap_or_default().to_vec();
                (command.get(2..).unwrap_or_default().to_vec(), len)
            }
            "rbm.mark" | "rbm.unmark" => mark(&command[1..]),
            _ => split_first(&command[1..]),
        };
        let function = name.replace("rbm.", "cint_").replace('.', "_");
        Some(Call {
            function,
            keys,
            args,
        })
    }
}

fn split_first(words: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (keys, args) = words.split_at(words.len().min(1));
    (keys.to_vec(), args.to_vec())
}

/// `key member [COUNT cint-key idx [LEN n] [VERIFY]] [EVENT stream ...]`: the words after COUNT and EVENT are keys.
fn mark(words: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let is = |at: usize, word: &str| {
        words
            .get(at)
            .is_some_and(|other| other.eq_ignore_ascii_case(word.as_bytes()))
    };
    let mut keys_at = vec![0];
    let mut event_at = 2;
    if is(2, "COUNT") {
        keys_at.push(3);
        event_at = if is(5, "LEN") { 7 } else { 5 };
        event_at += usize::from(is(event_at, "VERIFY"));
    }
    if is(event_at, "EVENT") {
        keys_at.push(event_at + 1);
    }
    let (mut keys, mut args) = (Vec::new(), Vec::new());
    for (at, word) in words.iter().enumerate() {
        match keys_at.contains(&at) {
            true => keys.push(word.clone()),
            false => args.push(word.clone()),
        }
    }
    (keys, args)
}

/// A connection to a server with the functions.
pub struct Fallback {
    /// The connection.
    pub client: Client,
    form: Form,
    sha: String,
}

impl Fallback {
    /// A server without the module.
    pub fn server() -> Builder {
        Server::builder().no_module()
    }

    /// Loads the functions on a connection's server.
    pub fn load(client: Client, form: Form) -> Fallback {
        let mut fallback = Fallback {
            client,
            form,
            sha: String::new(),
        };
        fallback.set_default_len("5");
        fallback
    }

    /// Loads them with another default length (the module's `countint.default-len`).
    pub fn set_default_len(&mut self, len: &str) {
        const LINE: &str = "\nlocal DEFAULT_LEN = 5\n";
        let text = library();
        assert!(text.contains(LINE), "the library has its default length");
        let text = text.replace(LINE, &format!("\nlocal DEFAULT_LEN = {len}\n"));
        match self.form {
            Form::Function => {
                let loaded = self
                    .client
                    .call(&args!["FUNCTION", "LOAD", "REPLACE", text]);
                assert_eq!(reply::format(&loaded), "\"countint\"");
            }
            Form::Script => {
                let (first, rest) = text.split_once('\n').expect("it has lines");
                assert_eq!(first, "#!lua name=countint");
                self.sha = reply::text(self.client.call(&args!["SCRIPT", "LOAD", rest]));
            }
        }
    }

    /// The words of a call, with `FCALL_RO` or `EVALSHA_RO` if it only reads.
    pub fn words(&self, call: &Call, only_reads: bool) -> Vec<Vec<u8>> {
        let suffix = if only_reads { "_RO" } else { "" };
        let mut words = match self.form {
            Form::Function => args![format!("FCALL{suffix}"), call.function].to_vec(),
            Form::Script => args![format!("EVALSHA{suffix}"), self.sha].to_vec(),
        };
        words.push(call.keys.len().to_string().into_bytes());
        words.extend_from_slice(&call.keys);
        if self.form == Form::Script {
            words.push(call.function.clone().into_bytes());
        }
        words.extend_from_slice(&call.args);
        words
    }

    /// The equivalent of a command on a server without the module, if there is one.
    pub fn translate(&self, command: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
        let name = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
        if let Some((_, stand_in)) = SET_EQUIVALENTS.iter().find(|(other, _)| *other == name) {
            let mut words = command.to_vec();
            words[0] = stand_in.as_bytes().to_vec();
            return Some(words);
        }
        match Call::of(command) {
            Some(call) => Some(self.words(&call, false)),
            None if name.starts_with("cint.") || name.starts_with("rbm.") => None,
            None => Some(command.to_vec()),
        }
    }

    /// Runs one of the module's commands (or of the server's), translated.
    ///
    /// # Panics
    /// When it has no equivalent.
    pub fn call(&mut self, command: &[Vec<u8>]) -> Value {
        if let [config, set, name, len] = command
            && config.eq_ignore_ascii_case(b"CONFIG")
            && set.eq_ignore_ascii_case(b"SET")
            && name.eq_ignore_ascii_case(b"countint.default-len")
        {
            self.set_default_len(&String::from_utf8_lossy(len));
            return Value::Okay;
        }
        let words = self
            .translate(command)
            .unwrap_or_else(|| panic!("{} has no function", String::from_utf8_lossy(&command[0])));
        self.client.call(&words)
    }

    /// The same for a line; the reply as redis-cli prints it.
    pub fn run(&mut self, line: &str) -> String {
        let command = line::split(line).expect("valid quotes");
        reply::format(&self.call(&command))
    }

    /// Runs a line and compares the reply as redis-cli prints it.
    #[track_caller]
    pub fn expect(&mut self, line: &str, printed: &str) {
        assert_eq!(self.run(line), printed, "> {line} ({:?})", self.form);
    }
}
