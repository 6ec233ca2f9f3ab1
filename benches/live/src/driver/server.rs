//! A redis-server process: on a free port, in a temporary directory, pinned to a core, without automatic snapshots.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::driver::control::Control;
use crate::driver::cpu;
use crate::driver::programs::Programs;
use crate::error::Result;

/// The timeout for a server to reply to PING, including the time to load its snapshot.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The settings of every measured server, in addition to port, directory and module.
pub const SETTINGS: [&str; 6] = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];

/// A temporary directory, removed when dropped. A snapshot in it survives a restart of the server.
pub struct Workdir(PathBuf);

impl Workdir {
    /// Creates a directory under `$TMPDIR` or `/tmp`.
    pub fn new() -> Result<Workdir> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "countint-bench-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Workdir(path))
    }

    /// A file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server, stopped when dropped.
pub struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Server {
    /// Starts a server in `dir`, with `module` if any, and waits until it replies to PING. It loads `dump.rdb` if there
    /// is one.
    pub fn start(programs: &Programs, dir: &Workdir, module: Option<&Path>) -> Result<Server> {
        Server::start_with(programs, dir, module, &[])
    }

    /// [`Server::start`] with more settings, which may override [`SETTINGS`].
    pub fn start_with(
        programs: &Programs,
        dir: &Workdir,
        module: Option<&Path>,
        settings: &[&str],
    ) -> Result<Server> {
        let port = free_port()?;
        let log = dir.file("server.log");
        let output = File::create(&log)?;
        let mut command = server_command(&programs.server)?;
        command
            .args(SETTINGS)
            .args(settings)
            .args(["--port", &port.to_string()])
            .arg("--dir")
            .arg(&dir.0);
        if let Some(module) = module {
            let path = fs::canonicalize(module)
                .map_err(|e| format!("module {}: {e}", module.display()))?;
            command.arg("--loadmodule").arg(path);
        }
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = cpu::on_server_core(|| {
            command
                .spawn()
                .map_err(|e| format!("cannot start {}: {e}", programs.server.join(" ")).into())
        })?;
        let mut server = Server { child, port, log };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(
                    format!("the server exited ({status}):\n{}", tail(&self.log()?)).into(),
                );
            }
            if Control::open(self.port)
                .and_then(|mut c| c.call("PING"))
                .is_ok()
            {
                return Ok(());
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(
                    format!("the server does not reply to PING:\n{}", tail(&self.log()?)).into(),
                );
            }
            // Polled rarely enough not to slow down a server that is loading.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A connection for single commands.
    pub fn control(&self) -> Result<Control> {
        Control::open(self.port)
    }

    /// CPU time in nanoseconds that its main thread has used. Sleeps briefly, because the value is exact only for an
    /// idle server.
    pub fn cpu_ns(&self) -> Result<u64> {
        std::thread::sleep(Duration::from_millis(1));
        cpu::main_thread_ns(self.child.id())
    }

    /// Its whole log.
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.log)?).into_owned())
    }

    /// The last log line that contains `text`, starting at `text`.
    pub fn last_log_line(&self, text: &str) -> Result<String> {
        let log = self.log()?;
        let found = log
            .lines()
            .rev()
            .find_map(|line| line.find(text).map(|at| line[at..].to_string()));
        found.ok_or_else(|| format!("the server's log has no \"{text}\"").into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// A port that is free now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Kills a process and reaps it. Snapshots are complete by then, so a clean shutdown is not needed.
pub fn stop(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// The command that `words` spell: the executable and its leading arguments.
fn server_command(words: &[String]) -> Result<Command> {
    let (executable, leading) = words.split_first().ok_or("no server is named")?;
    let mut command = Command::new(executable);
    command.args(leading);
    Ok(command)
}

/// The output of `redis-server --version`.
pub fn version(words: &[String]) -> Result<String> {
    let mut command = server_command(words)?;
    let output = command
        .arg("--version")
        .output()
        .map_err(|e| format!("cannot start {}: {e}", words.join(" ")))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Name and version of a module, as a server that has loaded it reports them.
pub fn module_version(programs: &Programs, module: &Path) -> Result<String> {
    let dir = Workdir::new()?;
    let server = Server::start(programs, &dir, Some(module))?;
    let text = server.control()?.call("INFO modules")?;
    let line = text.lines().find_map(|line| line.strip_prefix("module:"));
    let facts: Vec<&str> = line.unwrap_or_default().split(',').take(2).collect();
    Ok(facts.join(", "))
}
