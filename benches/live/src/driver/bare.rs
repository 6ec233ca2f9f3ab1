//! The bare axum server of `countd/examples/bare_axum.rs`, as a process on the client's core.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::cpu;
use crate::driver::programs::Programs;
use crate::driver::server::{free_port, stop};
use crate::error::Result;

/// The timeout for the server to accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running server, stopped when dropped.
pub struct Bare {
    child: Child,
    /// Its port.
    pub port: u16,
}

impl Bare {
    /// Starts the server.
    pub fn start(programs: &Programs) -> Result<Bare> {
        let port = free_port()?;
        let child = Command::new(&programs.bare)
            .arg(format!("127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", programs.bare.display()))?;
        let mut bare = Bare { child, port };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if bare.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                return Err("the bare server does not listen".into());
            }
            sleep(Duration::from_millis(5));
        }
        Ok(bare)
    }

    /// CPU seconds that all its threads have used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        Ok(cpu::all_threads_ns(self.child.id())? as f64 / 1e9)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}
