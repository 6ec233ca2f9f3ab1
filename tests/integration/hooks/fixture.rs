//! A server with the second module (`tests/hooks/hooks.c`), the actions of its hooks, and a replica without it.

use countint_tests::{Client, Server, args, env, line, reply};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// An action of a hook on a key.
pub struct Action {
    /// Its name in failures.
    pub name: &'static str,
    /// The commands; `{k}` stands for the key.
    pub commands: &'static [&'static str],
    /// Whether it creates a missing key.
    pub creates: bool,
}

const fn action(name: &'static str, commands: &'static [&'static str], creates: bool) -> Action {
    Action {
        name,
        commands,
        creates,
    }
}

/// All actions. A command that does not fit the key's type has no effect.
pub const ACTIONS: &[Action] = &[
    action("delete", &["DEL {k}"], false),
    action("overwrite with a String", &["SET {k} hook"], true),
    action("overwrite with a zset", &["DEL {k}", "ZADD {k} 1 a"], true),
    action("rename", &["RENAME {k} away"], false),
    action(
        "lengthen",
        &["CINT.RESIZE {k} 9", "CTAB.RESIZE {k} 9"],
        false,
    ),
    action(
        "shorten",
        &["CINT.RESIZE {k} 1", "CTAB.RESIZE {k} 1"],
        false,
    ),
    WRITE,
    action("flush the database", &["FLUSHDB"], false),
    action("flush everything", &["FLUSHALL"], false),
];

/// A write of the same type, to other fields than the tests' calls.
pub const WRITE: Action = action(
    "write",
    &[
        "CINT.INCRBY {k} 0 100",
        "CTAB.INCRBY {k} 7 0 100",
        "RBM.ADD {k} 77",
    ],
    true,
);

/// A server with both modules and, unless the run is slow (valgrind), a replica with CountInt only.
pub struct Fixture {
    server: Server,
    /// A connection to the server.
    pub client: Client,
    replica: Option<(Server, Client)>,
    cases: usize,
    fired: u64,
}

impl Fixture {
    /// Starts the servers.
    pub fn start() -> Fixture {
        let server = Server::builder()
            .config(&format!("loadmodule {}", module().display()))
            .start();
        let replica = (env::slow() <= 1.0).then(|| {
            let replica = server.replica();
            let client = replica.client();
            (replica, client)
        });
        let mut client = server.client();
        // Expired keys stay until a command accesses them.
        client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
        // The first PEXPIRE is slow under valgrind, so that the key would be deleted at once: see `expire`.
        for line in ["SET k 1", "PEXPIRE k 9000", "FLUSHALL"] {
            client.ok(line);
        }
        Fixture {
            server,
            client,
            replica,
            cases: 0,
            fired: 0,
        }
    }

    /// Empties the server, removes all hooks, and runs `setup`.
    pub fn prepare(&mut self, setup: &[&str]) {
        self.unhook();
        self.cases += 1;
        self.client.ok("FLUSHALL");
        for line in setup {
            self.client.ok(line);
        }
    }

    /// Adds a hook that applies `action` to `target` whenever `event` is published for `key`.
    pub fn hook(&mut self, event: &str, key: &str, action: &Action, target: &str) {
        for command in action.commands {
            let mut call = args!["HOOK.ON", event, key].to_vec();
            let command = command.replace("{k}", target);
            call.extend(line::split(&command).expect("valid quotes"));
            assert_eq!(reply::format(&self.client.call(&call)), "OK");
        }
    }

    /// Removes all hooks.
    pub fn unhook(&mut self) {
        self.fired += reply::int(self.client.ok("HOOK.FIRED")) as u64;
        self.client.ok("HOOK.OFF");
    }

    /// Makes a key expire without accessing it afterwards.
    pub fn expire(&mut self, key: &str) {
        // PEXPIRE deletes the key at once if the time has passed by then.
        let milliseconds = if env::slow() > 1.0 { 4 } else { 1 };
        self.client.ok(&format!("PEXPIRE {key} {milliseconds}"));
        self.client
            .ok(&format!("DEBUG SLEEP 0.00{}", milliseconds + 1));
    }

    /// Runs a command and returns the reply as redis-cli prints it. An internal error fails the test.
    #[track_caller]
    pub fn run(&mut self, line: &str, case: &str) -> String {
        let reply = match self
            .client
            .try_call(&line::split(line).expect("valid quotes"))
        {
            Ok(reply) => reply::format(&reply),
            Err(why) => panic!("{case}: {why}"),
        };
        assert!(!reply.contains("internal error"), "{case}: {reply}");
        self.server.assert_alive();
        reply
    }

    /// Asserts that the replica has the master's data.
    #[track_caller]
    pub fn assert_replicated(&mut self, case: &str) {
        let Some((_, replica)) = &mut self.replica else {
            return;
        };
        let acknowledged = self.client.ok("WAIT 1 60000");
        assert_eq!(
            reply::int(acknowledged),
            1,
            "{case}: the replica is not connected"
        );
        assert_eq!(
            replica.digest(),
            self.client.digest(),
            "{case}: the replica"
        );
    }

    /// Asserts that the replica has the master's values at these keys.
    ///
    /// For hooks that write to the key of an event published by the server's own commands: the server replicates the
    /// hook's write before the command, so replicas may differ at that key, with or without CountInt.
    #[track_caller]
    pub fn assert_values_replicated(&mut self, keys: &str, case: &str) {
        let Some((_, replica)) = &mut self.replica else {
            return;
        };
        let acknowledged = self.client.ok("WAIT 1 60000");
        assert_eq!(
            reply::int(acknowledged),
            1,
            "{case}: the replica is not connected"
        );
        let digests = format!("DEBUG DIGEST-VALUE {keys}");
        let (its, mine) = (replica.run(&digests), self.client.run(&digests));
        assert_eq!(its, mine, "{case}: the replica");
    }

    /// Asserts that hooks ran at least this often, so that something was tested.
    pub fn assert_hooks_ran(&mut self, min: u64) {
        self.unhook();
        assert!(
            self.fired >= min,
            "{} hooks ran in {} cases",
            self.fired,
            self.cases
        );
    }
}

/// The second module, built once per test run with the machine's C compiler.
fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| {
        let source = env::workspace().join("tests/hooks/hooks.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(folder).expect("the target folder is writable");
        // Runs may share the directory; rename is atomic.
        let unfinished = folder.join(format!("hooks-{}.so", std::process::id()));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let built = Command::new(&compiler)
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-g"])
            .args(["-shared", "-fPIC", "-o"])
            .args([&unfinished, &source])
            .status()
            .unwrap_or_else(|why| panic!("cannot run {compiler}: {why}"));
        assert!(
            built.success(),
            "{compiler} cannot build {}",
            source.display()
        );
        let file = folder.join("hooks.so");
        std::fs::rename(unfinished, &file).expect("the target folder is writable");
        file
    })
}
