//! Runs scenarios on each route by which a command reaches the module.

use crate::client::{Client, encode};
use crate::reply;
use crate::scenario::{Scenario, Step, matches};
use crate::server::Server;
use redis::Value;

/// How a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// As a plain command.
    Direct,
    /// As the only command of a `MULTI` ... `EXEC`.
    Multi,
    /// In a script, by `redis.call`, or by `redis.pcall` where an error is expected.
    Lua,
}

/// Runs steps on one connection.
pub struct Player {
    /// The connection.
    pub client: Client,
    route: Route,
    resp3: bool,
}

impl Player {
    /// A new connection to `server`.
    pub fn new(server: &Server, route: Route, resp3: bool) -> Player {
        let client = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        Player {
            client,
            route,
            resp3,
        }
    }

    /// Flushes the current database, then runs a scenario in it. Returns the steps that failed.
    pub fn play(&mut self, scenario: &Scenario) -> Vec<String> {
        self.reset();
        let failed = scenario.steps.iter().filter_map(|step| {
            let why = self.step(step).err()?;
            Some(format!("{}:{} {why}", scenario.name, step.line))
        });
        failed.collect()
    }

    /// Flushes the database and restores the settings with which every scenario starts.
    pub fn reset(&mut self) {
        self.client.ok("FLUSHDB");
        self.client.ok("CONFIG SET countint.default-len 5");
    }

    /// Runs one step.
    ///
    /// # Errors
    /// The expected and the actual reply, when they differ.
    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        let resp3 = self.resp3 && self.route != Route::Lua;
        let expected = match &step.reply3 {
            Some(reply) if resp3 => reply,
            _ => &step.reply,
        };
        let got = self.send(&step.args, expected.starts_with("(error)"));
        let got = reply::format(&got);
        let arity = self.route == Route::Lua && wrong_arity(expected) && wrong_arity(&got);
        if arity || matches(expected, &got) {
            return Ok(());
        }
        Err(format!(
            "> {}\nexpected: {expected}\n     got: {got}",
            step.command
        ))
    }

    fn send(&mut self, args: &[Vec<u8>], error: bool) -> Value {
        match self.route {
            Route::Direct => self.client.call(args),
            Route::Multi => self.transaction(args),
            Route::Lua => self.script(args, error),
        }
    }

    fn transaction(&mut self, args: &[Vec<u8>]) -> Value {
        // One write, so that the three commands arrive together.
        let bytes = [encode(&["MULTI"]), encode(args), encode(&["EXEC"])].concat();
        self.client
            .send(&bytes)
            .expect("the server accepts the transaction");
        let mut read = || self.client.read().unwrap_or_else(|why| panic!("{why}"));
        let (begun, queued, done) = (read(), read(), read());
        assert_eq!(begun, Value::Okay, "MULTI");
        match done {
            Value::Array(replies) => replies
                .into_iter()
                .next()
                .expect("EXEC replies to one command"),
            // The command was rejected before it was queued, and EXEC was aborted.
            _ => queued,
        }
    }

    fn script(&mut self, args: &[Vec<u8>], error: bool) -> Value {
        // The only command of the scenarios that scripts cannot call.
        if args[0].eq_ignore_ascii_case(b"CONFIG") {
            return self.client.call(args);
        }
        let text = match error {
            true => "return redis.pcall(unpack(ARGV))",
            false => "return redis.call(unpack(ARGV))",
        };
        let mut whole = vec![b"EVAL".to_vec(), text.into(), b"0".to_vec()];
        whole.extend_from_slice(args);
        self.client.call(&whole)
    }
}

/// Whether the reply is the arity error. Its text differs in scripts.
fn wrong_arity(reply: &str) -> bool {
    let reply = reply.to_ascii_lowercase();
    reply.starts_with("(error) err wrong number of arg")
}

/// Runs every scenario in a separate database, in the order of [`Scenario::all`].
///
/// # Panics
/// When a step fails.
pub fn play_all_into_databases(player: &mut Player, scenarios: &[Scenario]) {
    for (database, scenario) in scenarios.iter().enumerate() {
        player.client.ok(&format!("SELECT {database}"));
        let failed = player.play(scenario);
        assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    }
}
