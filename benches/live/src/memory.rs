//! What data cost: the server's `used_memory` before and after, once nothing moves any more.

use std::thread::sleep;
use std::time::Duration;

use crate::Result;
use crate::server::Server;

/// A server, and what it holds with no data in it.
pub struct Scales<'a> {
    server: &'a Server,
    empty: f64,
}

impl<'a> Scales<'a> {
    /// Takes the measure of a server that has been in use before, so that what its first commands leave for good is not
    /// taken for data. Empties it.
    pub fn balance(server: &'a Server) -> Result<Scales<'a>> {
        let mut control = server.control()?;
        control.call("FLUSHALL SYNC")?;
        // Its entries hold copies of commands.
        control.call("CONFIG SET slowlog-log-slower-than -1")?;
        control.call("SLOWLOG RESET")?;
        // The first call of each command makes a histogram of 24 KB.
        control.call("CONFIG SET latency-tracking no")?;
        drop(control);
        let empty = settled(server)?;
        Ok(Scales { server, empty })
    }

    /// Bytes that the data take.
    pub fn weigh(&self) -> Result<f64> {
        Ok(settled(self.server)? - self.empty)
    }

    /// Removes all data.
    pub fn clear(&self) -> Result<()> {
        self.server.control()?.call("FLUSHALL SYNC")?;
        Ok(())
    }
}

/// `used_memory`, once connections are closed and no table is being moved any more. Each reading has a connection of its
/// own: the server shrinks the buffers of one that stays, and that would be taken for lighter data.
fn settled(server: &Server) -> Result<f64> {
    let mut last = f64::MAX;
    for _ in 0..200 {
        // What a closed connection used is given back when the server looks at its socket again.
        sleep(Duration::from_millis(40));
        let now: f64 = server.control()?.info("memory", "used_memory")?.parse()?;
        if (now - last).abs() < 64.0 {
            return Ok(now);
        }
        last = now;
    }
    Err("used_memory does not settle".into())
}
