//! Calls of every write command that change something and that change nothing, and the routes to send them. All of them
//! are about the key `k`; other keys are only set up.

mod call;
pub mod changes;
mod noops;

pub use call::Change;
pub use changes::CHANGES;
pub use noops::NOOPS;

use countint_tests::{Client, Value, args, line, reply};
use std::collections::BTreeSet;

/// How a call reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Directly.
    Plain,
    /// As the only command of a transaction.
    Transaction,
    /// From a script.
    Script,
}

impl Route {
    /// All routes.
    pub const ALL: [Route; 3] = [Route::Plain, Route::Transaction, Route::Script];

    /// Sends a call. The reply is the call's own, or that of the transaction if it refused the call.
    pub fn send(self, client: &mut Client, line: &str) -> Value {
        match self {
            Route::Plain => client.line(line),
            Route::Transaction => {
                client.ok("MULTI");
                client.line(line);
                match client.line("EXEC") {
                    Value::Array(mut replies) => replies.remove(0),
                    refused => refused,
                }
            }
            Route::Script => {
                let script = "return redis.pcall(unpack(ARGV))";
                let mut call = args!["EVAL", script, 0].to_vec();
                call.extend(line::split(line).expect("valid quotes"));
                client.call(&call)
            }
        }
    }
}

/// The command of a line in lower case.
pub fn name(line: &str) -> String {
    let word = line.split_whitespace().next().unwrap_or_default();
    word.to_ascii_lowercase()
}

/// The module's commands with `flag`, according to the server.
pub fn registered(client: &mut Client, flag: &str) -> BTreeSet<String> {
    let names = reply::array(client.ok("COMMAND LIST FILTERBY MODULE countint"));
    let mut names: Vec<String> = names.into_iter().map(reply::text).collect();
    names.retain(|name| {
        let info = client.ok(&format!("COMMAND INFO {name}"));
        let row = reply::array(reply::array(info).remove(0));
        let flags = reply::array(row[2].clone());
        flags.into_iter().map(reply::text).any(|have| have == flag)
    });
    assert!(!names.is_empty(), "no command has the flag {flag}");
    names.into_iter().collect()
}
