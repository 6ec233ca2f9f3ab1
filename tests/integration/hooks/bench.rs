//! A server with the second module (`tests/hooks/hooks.c`), what its hooks do, and a replica without it.

use countint_tests::{Client, Server, args, env, line, reply};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What a hook does to a key.
pub struct Action {
    /// What failures call it.
    pub name: &'static str,
    /// The commands, `{k}` being the key.
    pub commands: &'static [&'static str],
    /// Whether the key exists afterwards although it did not before.
    pub creates: bool,
}

const fn action(name: &'static str, commands: &'static [&'static str], creates: bool) -> Action {
    Action {
        name,
        commands,
        creates,
    }
}

/// Everything that a hook does. A command that the key's type refuses does nothing.
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

/// Another write of the same kind. (It does not touch what the calls of the tests count.)
pub const WRITE: Action = action(
    "write",
    &[
        "CINT.INCRBY {k} 0 100",
        "CTAB.INCRBY {k} 7 0 100",
        "RBM.ADD {k} 77",
    ],
    true,
);

/// A server with both modules, and unless it is slow (under valgrind) a replica with CountInt alone.
pub struct Bench {
    server: Server,
    /// A connection to the server.
    pub client: Client,
    replica: Option<(Server, Client)>,
    cases: usize,
    fired: u64,
}

impl Bench {
    /// Starts the servers.
    pub fn start() -> Bench {
        let server = Server::builder()
            .config(&format!("loadmodule {}", module().display()))
            .start();
        let replica = (env::slow() <= 1.0).then(|| {
            let replica = server.replica();
            let client = replica.client();
            (replica, client)
        });
        let mut client = server.client();
        // Expired keys stay until a command meets them.
        client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
        // A first PEXPIRE may take long (under valgrind), and then finds that the time has come: see `expire`.
        for line in ["SET k 1", "PEXPIRE k 9000", "FLUSHALL"] {
            client.ok(line);
        }
        Bench {
            server,
            client,
            replica,
            cases: 0,
            fired: 0,
        }
    }

    /// Empties the server, forgets all hooks, and runs `setup`.
    pub fn prepare(&mut self, setup: &[&str]) {
        self.unhook();
        self.cases += 1;
        self.client.ok("FLUSHALL");
        for line in setup {
            self.client.ok(line);
        }
    }

    /// Has a hook do `action` to `target` whenever `event` is published for `key`.
    pub fn hook(&mut self, event: &str, key: &str, action: &Action, target: &str) {
        for command in action.commands {
            let mut call = args!["HOOK.ON", event, key].to_vec();
            let command = command.replace("{k}", target);
            call.extend(line::split(&command).expect("the table's lines are well quoted"));
            assert_eq!(reply::format(&self.client.call(&call)), "OK");
        }
    }

    /// Forgets all hooks.
    pub fn unhook(&mut self) {
        self.fired += reply::int(self.client.ok("HOOK.FIRED")) as u64;
        self.client.ok("HOOK.OFF");
    }

    /// Makes a key expire that nobody has met since.
    pub fn expire(&mut self, key: &str) {
        // A key whose time has come when PEXPIRE gets to it is deleted at once.
        let milliseconds = if env::slow() > 1.0 { 4 } else { 1 };
        self.client.ok(&format!("PEXPIRE {key} {milliseconds}"));
        self.client
            .ok(&format!("DEBUG SLEEP 0.00{}", milliseconds + 1));
    }

    /// Runs a command; the reply as redis-cli prints it. A bug that was caught is none the less a bug.
    #[track_caller]
    pub fn run(&mut self, line: &str, case: &str) -> String {
        let answer = match self
            .client
            .try_call(&line::split(line).expect("well quoted"))
        {
            Ok(answer) => reply::format(&answer),
            Err(why) => panic!("{case}: {why}"),
        };
        assert!(!answer.contains("internal error"), "{case}: {answer}");
        self.server.assert_alive();
        answer
    }

    /// Fails where the replica has other data than the master.
    #[track_caller]
    pub fn assert_replicated(&mut self, case: &str) {
        let Some((_, replica)) = &mut self.replica else {
            return;
        };
        let acknowledged = self.client.ok("WAIT 1 60000");
        assert_eq!(reply::int(acknowledged), 1, "{case}: the replica is gone");
        assert_eq!(
            replica.digest(),
            self.client.digest(),
            "{case}: the replica"
        );
    }

    /// Fails where the replica has other values than the master at these keys.
    ///
    /// For hooks that write to the very key whose event a command of the server's own publishes: the server replicates
    /// what the hook writes before the command itself, so there its replicas may differ. That is so without CountInt, too.
    #[track_caller]
    pub fn assert_values_replicated(&mut self, keys: &str, case: &str) {
        let Some((_, replica)) = &mut self.replica else {
            return;
        };
        let acknowledged = self.client.ok("WAIT 1 60000");
        assert_eq!(reply::int(acknowledged), 1, "{case}: the replica is gone");
        let digests = format!("DEBUG DIGEST-VALUE {keys}");
        let (its, mine) = (replica.run(&digests), self.client.run(&digests));
        assert_eq!(its, mine, "{case}: the replica");
    }

    /// Fails where hooks hardly ran at all: then nothing was tested.
    pub fn assert_hooks_ran(&mut self, least: u64) {
        self.unhook();
        assert!(
            self.fired >= least,
            "{} hooks ran in {} cases",
            self.fired,
            self.cases
        );
    }
}

/// The second module, built with the machine's C compiler once in a run of the tests.
fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| {
        let source = env::workspace().join("tests/hooks/hooks.c");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(folder).expect("the target folder is writable");
        // Several runs may share the folder: none may see a file that is half written.
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
