//! The memory of data: the growth of the server's `used_memory`, read when it is stable.

use std::thread::sleep;
use std::time::Duration;

use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::workload::dataset::DataSet;

/// A server and its `used_memory` without data.
pub struct MemoryBaseline<'a> {
    server: &'a Server,
    empty: f64,
}

/// Loads `data` into a separate server, warmed up with `warm_up`, and returns its size in bytes divided by `count`.
pub fn bytes_each(programs: &Programs, warm_up: DataSet, data: DataSet, count: u64) -> Result<f64> {
    let dir = Workdir::new()?;
    let server = warm_up.start(programs, &dir)?;
    let baseline = MemoryBaseline::new(&server)?;
    data.load(&server)?;
    Ok(baseline.growth()? / count as f64)
}

impl<'a> MemoryBaseline<'a> {
    /// Empties a warmed-up server and reads its memory. Without the warm-up, permanent allocations of the first
    /// commands would be counted as data.
    pub fn new(server: &'a Server) -> Result<MemoryBaseline<'a>> {
        let mut control = server.control()?;
        control.call("FLUSHALL SYNC")?;
        // Its entries contain copies of commands.
        control.call("CONFIG SET slowlog-log-slower-than -1")?;
        control.call("SLOWLOG RESET")?;
        // The first call of each command allocates a histogram of 24 KB.
        control.call("CONFIG SET latency-tracking no")?;
        drop(control);
        let empty = stable_memory(server)?;
        Ok(MemoryBaseline { server, empty })
    }

    /// The bytes of the data.
    pub fn growth(&self) -> Result<f64> {
        Ok(stable_memory(self.server)? - self.empty)
    }

    /// Removes all data.
    pub fn clear(&self) -> Result<()> {
        self.server.control()?.call("FLUSHALL SYNC")?;
        Ok(())
    }
}

/// `used_memory`, once connections are closed and no dictionary is being rehashed. Each reading opens a new connection: the
/// server shrinks the buffers of an idle one, which would be counted as a reduction of the data.
fn stable_memory(server: &Server) -> Result<f64> {
    let mut last = f64::MAX;
    for _ in 0..200 {
        // The server frees a closed connection when it polls the socket again.
        sleep(Duration::from_millis(40));
        let now: f64 = server.control()?.info("memory", "used_memory")?.parse()?;
        if (now - last).abs() < 64.0 {
            return Ok(now);
        }
        last = now;
    }
    Err("used_memory does not settle".into())
}
