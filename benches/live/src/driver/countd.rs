//! countd as a process on the client's core.

use std::fs::File;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::cpu;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir, free_port, stop};
use crate::error::Result;

/// The timeout for countd to accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running countd, stopped when dropped.
pub struct Countd {
    child: Child,
    /// The port of the HTTP API.
    pub port: u16,
}

/// The command of countd, configured for `server`.
fn command(programs: &Programs, server: &Server) -> Command {
    let mut command = Command::new(&programs.countd);
    let url = format!("redis://127.0.0.1:{}/", server.port());
    command.env("COUNTD_REDIS__URL", url).stdin(Stdio::null());
    command
}

/// Creates the schema of the default configuration.
pub fn create_schema(programs: &Programs, server: &Server) -> Result<()> {
    let words = "schema set v1 read like fav comment repost";
    let output = command(programs, server)
        .args(words.split(' '))
        .output()
        .map_err(|e| format!("cannot start {}: {e}", programs.countd.display()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

impl Countd {
    /// Starts a subcommand (`all`, `serve` or `consume`) with the default configuration.
    pub fn start(
        programs: &Programs,
        server: &Server,
        dir: &Workdir,
        subcommand: &str,
    ) -> Result<Countd> {
        let port = free_port()?;
        let child = command(programs, server)
            .arg(subcommand)
            .env("COUNTD_HTTP__LISTEN", format!("127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(File::create(dir.file("countd.log"))?)
            .spawn()?;
        let mut countd = Countd { child, port };
        let started = Instant::now();
        while subcommand != "consume" && TcpStream::connect(("127.0.0.1", port)).is_err() {
            if countd.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(dir.file("countd.log"))?;
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

impl Drop for Countd {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}
