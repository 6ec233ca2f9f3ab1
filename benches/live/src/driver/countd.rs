//! countd as a process on the client's core.

use std::fs::{self, File};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::cpu;
use crate::driver::programs::{Programs, printed};
use crate::driver::server::{Server, Workdir, free_port, stop};
use crate::error::Result;

/// How countd stores the counters of entities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Storage {
    /// As rows of tables, one for each partition: the default.
    Table,
    /// As an object each.
    Object,
}

impl Storage {
    /// Both, in the order of the report.
    pub const ALL: [Storage; 2] = [Storage::Table, Storage::Object];

    /// The name in countd's configuration and in figures.
    pub fn name(self) -> &'static str {
        match self {
            Storage::Table => "table",
            Storage::Object => "object",
        }
    }
}

/// The timeout for countd to accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running countd, stopped when dropped.
pub struct Countd {
    child: Child,
    /// The port of the HTTP API, and of the metrics of a consumer.
    pub port: u16,
}

/// A server for countd, and how countd stores the counters in it.
pub struct Target<'a> {
    /// The executable.
    pub programs: &'a Programs,
    /// The server.
    pub server: &'a Server,
    /// A directory for countd's files.
    pub dir: &'a Workdir,
    /// The storage.
    pub storage: Storage,
    /// The metrics.
    pub metrics: Metrics,
}

/// The metrics of a configuration. They replace the defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metrics {
    /// The defaults.
    Default,
    /// Reads that are counted by day, too.
    Daily,
    /// Likes and collects, which feed no counters of users.
    Facts {
        /// Whether the facts are kept for users.
        reverse: bool,
    },
}

impl Metrics {
    fn to_toml(self) -> String {
        match self {
            Metrics::Default => String::new(),
            Metrics::Daily => "[metrics.read]\nnature = \"repeatable\"\ncount = \"batched\"\naliases = [\"view\"]\ndaily = true\n".to_owned(),
            Metrics::Facts { reverse } => {
                let metric = |name| format!("[metrics.{name}]\nnature = \"once\"\ncount = \"now\"\nreverse = {reverse}\n");
                metric("like") + &metric("fav")
            }
        }
    }
}

impl<'a> Target<'a> {
    /// A server for countd with its default storage and metrics.
    pub fn new(programs: &'a Programs, server: &'a Server, dir: &'a Workdir) -> Target<'a> {
        Target {
            programs,
            server,
            dir,
            storage: Storage::Table,
            metrics: Metrics::Default,
        }
    }

    /// The command of countd. Everything but the address of the server and the storage has its default, and users have no limit:
    /// there are few, and each requests many pages.
    fn command(&self) -> Result<Command> {
        let (file, storage) = (self.dir.file("countd.toml"), self.storage.name());
        let entities = format!("note = {{ schema = \"v1\", storage = \"{storage}\" }}");
        let users = format!("storage = \"{storage}\"");
        let metrics = self.metrics.to_toml();
        let limits = "user = { per_second = 0, burst = 1000 }";
        fs::write(
            &file,
            format!("[entities]\n{entities}\n[users]\n{users}\n[limits]\n{limits}\n{metrics}"),
        )?;
        let url = format!("redis://127.0.0.1:{}/", self.server.port());
        let mut command = Command::new(&self.programs.countd);
        command
            .env("COUNTD_REDIS__URL", url)
            .env("COUNTD_CONFIG", file)
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Creates the schema of the default configuration.
    pub fn create_schema(&self) -> Result<()> {
        self.create_schema_with(&[])
    }

    /// [`create_schema`](Self::create_schema) with settings, as environment variables.
    pub fn create_schema_with(&self, settings: &[Setting]) -> Result<()> {
        self.run("schema set v1 read like fav comment repost", settings)?;
        Ok(())
    }

    /// Runs a command of countd, given as words between spaces, and returns what it prints.
    pub fn run(&self, command: &str, settings: &[Setting]) -> Result<String> {
        let words = command.split(' ');
        let output = self
            .command()?
            .args(words)
            .envs(variables(settings))
            .output();
        let output =
            output.map_err(|e| format!("cannot start {}: {e}", self.programs.countd.display()))?;
        printed(output)
    }
}

/// A setting of countd: its environment variable, and the value.
pub type Setting = (&'static str, String);

fn variables(settings: &[Setting]) -> impl Iterator<Item = (&'static str, &str)> {
    settings.iter().map(|(name, value)| (*name, value.as_str()))
}

impl Countd {
    /// Starts a subcommand: `all`, `serve`, `consume` or `relay`.
    pub fn start(target: &Target, subcommand: &str) -> Result<Countd> {
        Countd::start_with(target, subcommand, &[])
    }

    /// [`start`](Self::start) with settings, as environment variables.
    pub fn start_with(target: &Target, subcommand: &str, settings: &[Setting]) -> Result<Countd> {
        let port = free_port()?;
        let dir = target.dir;
        let child = target
            .command()?
            .arg(subcommand)
            .envs(variables(settings))
            .env("COUNTD_HTTP__LISTEN", format!("127.0.0.1:{port}"))
            .env("COUNTD_CONSUMER__LISTEN", format!("127.0.0.1:{port}"))
            .env("COUNTD_RELAY__LISTEN", format!("127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(File::create(dir.file("countd.log"))?)
            .spawn()?;
        let mut countd = Countd { child, port };
        let started = Instant::now();
        while subcommand != "consume" && TcpStream::connect(("127.0.0.1", port)).is_err() {
            if countd.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(dir.file("countd.log"))?;
                return Err(format!("countd does not listen:\n{log}").into());
            }
            sleep(Duration::from_millis(5));
        }
        Ok(countd)
    }

    /// CPU seconds that all its threads have used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        Ok(cpu::all_threads_ns(self.child.id())? as f64 / 1e9)
    }
}

/// The value of a metric without labels in what `/metrics` returns.
pub fn metric(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(key, _)| *key == name);
    found.and_then(|(_, value)| value.parse().ok())
}

impl Drop for Countd {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}
