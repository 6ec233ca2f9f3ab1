//! A PostgreSQL server: on a free port, in a temporary directory, pinned to the server's core.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::cpu;
use crate::driver::programs::printed;
use crate::driver::server::{Workdir, free_port, stop};
use crate::error::Result;

/// The user `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;
/// The timeout for the server to accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server with the database `postgres` and a user of the same name, stopped when dropped.
pub struct Postgres {
    child: Child,
    port: u16,
}

impl Postgres {
    /// Creates the files of a server and starts it. Commits wait for the disk, as by default.
    pub fn start(dir: &Workdir) -> Result<Postgres> {
        let (home, port) = (dir.file("postgres"), free_port()?);
        fs::create_dir(&home)?;
        if is_root() {
            chown(&home, Some(NOBODY), Some(NOBODY))?;
        }
        let data = home.join("data");
        let mut create = program("initdb")?;
        create.args(["--username=postgres", "--auth=trust", "--encoding=UTF8"]);
        printed(create.arg("-D").arg(&data).current_dir(&home).output()?)?;
        let mut server = program("postgres")?;
        server.arg("-D").arg(&data).arg("-k").arg(&home);
        server.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        server.current_dir(&home).stdin(Stdio::null());
        server.stdout(Stdio::null());
        server.stderr(File::create(dir.file("postgres.log"))?);
        let child = cpu::on_server_core(|| Ok(server.spawn()?))?;
        let server = Postgres { child, port };
        let started = Instant::now();
        while server.run("SELECT 1").is_err() {
            if started.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(dir.file("postgres.log"))?;
                return Err(format!("PostgreSQL does not accept connections:\n{log}").into());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    /// The URL of the database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Repeats the statement in a file from some connections, each time in a transaction of its own. Returns transactions per second.
    pub fn repeat(&self, statement: &Path, connections: usize, time: Duration) -> Result<f64> {
        let mut client = Command::new(find("pgbench")?);
        client.args(["--no-vacuum", "--client", &connections.to_string()]);
        client.args(["--time", &time.as_secs().max(1).to_string()]);
        client.arg("--file").arg(statement).arg(self.url());
        let printed = printed(client.output()?)?;
        let rate = printed.lines().find_map(|line| line.strip_prefix("tps = "));
        let rate = rate.and_then(|rate| rate.split(' ').next()?.parse().ok());
        rate.ok_or_else(|| format!("pgbench printed no rate: {printed}").into())
    }

    /// Executes statements with `psql`, and returns what they print.
    pub fn run(&self, sql: &str) -> Result<String> {
        let mut client = Command::new("psql");
        client.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url()]);
        let output = client
            .output()
            .map_err(|e| format!("cannot start psql: {e}"))?;
        Ok(printed(output)?.trim().to_owned())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its other processes end with it.
        let quit = format!("kill -QUIT {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &quit]).status();
        match sent {
            Ok(status) if status.success() => drop(self.child.wait()),
            _ => stop(&mut self.child),
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A command for a PostgreSQL program. It drops the privileges of root.
fn program(name: &str) -> Result<Command> {
    let mut command = Command::new(find(name)?);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    Ok(command)
}

/// The path of a PostgreSQL program. Debian has a directory for each version.
fn find(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    directories.extend(versions.map(|version| version.path().join("bin")));
    let mut files = directories.iter().map(|directory| directory.join(name));
    let file = files.find(|file| Path::is_file(file));
    file.ok_or_else(|| format!("{name} is missing: install postgresql").into())
}
