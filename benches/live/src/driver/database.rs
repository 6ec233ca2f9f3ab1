//! A database server: on a free port, in a temporary directory, pinned to the server's core, as an unprivileged user.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::driver::cpu;
use crate::driver::programs::printed;
use crate::driver::server::{Workdir, stop};
use crate::error::Result;

/// The unprivileged user of the servers. They refuse to run as root.
const NOBODY: u32 = 65_534;
/// The timeout for a server to accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MariaDb,
}

impl DatabaseKind {
    /// Both, in the order of the report.
    pub const ALL: [DatabaseKind; 2] = [DatabaseKind::Postgres, DatabaseKind::MariaDb];

    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            DatabaseKind::Postgres => "PostgreSQL",
            DatabaseKind::MariaDb => "MariaDB",
        }
    }
}

/// A running server with an empty database, stopped when dropped. Commits wait for the disk, as by default.
pub trait Database {
    /// The URL of the database, with its user.
    fn url(&self) -> String;

    /// Repeats the statement in a file from some connections for about this time, each time in a transaction of its own. Returns
    /// transactions per second.
    fn repeat(&self, statement: &Path, connections: usize, time: Duration) -> Result<f64>;

    /// Executes statements with the database's own client, and returns what they print: rows without headings.
    fn run(&self, sql: &str) -> Result<String>;
}

/// The process of a server, which the signal ends when this is dropped.
pub struct DatabaseProcess {
    child: Child,
    signal: Signal,
    log: PathBuf,
}

impl DatabaseProcess {
    /// Starts a server, which writes to the file `log`, on the server's core.
    pub fn start(mut server: Command, log: PathBuf, signal: Signal) -> Result<DatabaseProcess> {
        server.stdin(Stdio::null()).stdout(Stdio::null());
        server.stderr(File::create(&log)?);
        let child = cpu::on_server_core(|| Ok(server.spawn()?))?;
        Ok(DatabaseProcess { child, signal, log })
    }

    /// Waits until the server of this process accepts connections.
    pub fn wait_for(&self, database: &impl Database) -> Result<()> {
        let started = Instant::now();
        while let Err(error) = database.run("SELECT 1") {
            if started.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(&self.log)?;
                return Err(
                    format!("the database does not accept connections: {error}\n{log}").into(),
                );
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for DatabaseProcess {
    fn drop(&mut self) {
        match kill(Pid::from_raw(self.child.id() as i32), self.signal) {
            Ok(()) => drop(self.child.wait()),
            Err(_) => stop(&mut self.child),
        }
    }
}

/// Creates a directory that the server may write to.
pub fn create_home(dir: &Workdir, name: &str) -> Result<PathBuf> {
    let home = dir.file(name);
    fs::create_dir(&home)?;
    if is_root() {
        chown(&home, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(home)
}

/// Runs a program that creates the files of a server, in their directory.
pub fn create_files(mut create: Command, home: &Path) -> Result<()> {
    printed(create.current_dir(home).output()?)?;
    Ok(())
}

/// A command for a program of a server. It drops the privileges of root.
pub fn server_program(name: &str, package: &str) -> Result<Command> {
    let mut command = client_program(name, package)?;
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    Ok(command)
}

/// A command for a program of a database. Debian has the server of MariaDB in /usr/sbin, and a directory for each version of PostgreSQL.
pub fn client_program(name: &str, package: &str) -> Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.push(PathBuf::from("/usr/sbin"));
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    directories.extend(versions.map(|version| version.path().join("bin")));
    let mut files = directories.iter().map(|directory| directory.join(name));
    let file = files.find(|file| Path::is_file(file));
    let file = file.ok_or_else(|| format!("{name} is missing: install {package}"))?;
    Ok(Command::new(file))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let missing = client_program("no-such-program", "some-package");
        let error = missing.unwrap_err().to_string();
        assert_eq!(error, "no-such-program is missing: install some-package");
    }
}
