//! countd as a process on the client's core.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Result;
use crate::options::Options;
use crate::server::{Server, Workdir};

/// How long it may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running countd, stopped when dropped.
pub struct Countd {
    child: Child,
    /// Where it listens, if it serves.
    pub port: u16,
}

fn command(options: &Options, server: &Server) -> Command {
    let mut command = Command::new(&options.countd);
    let url = format!("redis://127.0.0.1:{}/", server.port());
    command.env("COUNTD_REDIS__URL", url).stdin(Stdio::null());
    command
}

/// Creates the schema of the default configuration.
pub fn set_schema(options: &Options, server: &Server) -> Result<()> {
    let words = "schema set v1 read like fav comment repost";
    let output = command(options, server)
        .args(words.split(' '))
        .output()
        .map_err(|e| format!("cannot start {}: {e}", options.countd.display()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

impl Countd {
    /// Starts it with its default configuration: `all`, `serve` or `consume`.
    pub fn start(options: &Options, server: &Server, dir: &Workdir, what: &str) -> Result<Countd> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = command(options, server)
            .arg(what)
            .env("COUNTD_HTTP__LISTEN", format!("127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(File::create(dir.file("countd.log"))?)
            .spawn()?;
        let mut countd = Countd { child, port };
        let started = Instant::now();
        while what != "consume" && TcpStream::connect(("127.0.0.1", port)).is_err() {
            if countd.child.try_wait()?.is_some() || started.elapsed() > START_LIMIT {
                let log = std::fs::read_to_string(dir.file("countd.log"))?;
                return Err(format!("countd does not listen:\n{log}").into());
            }
            sleep(Duration::from_millis(5));
        }
        Ok(countd)
    }

    /// CPU seconds of all its threads so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        let mut sum = 0;
        for task in tasks {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let used = text.split(' ').next().unwrap_or_default();
            sum += used.parse::<u64>()?;
        }
        Ok(sum as f64 / 1e9)
    }
}

impl Drop for Countd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
