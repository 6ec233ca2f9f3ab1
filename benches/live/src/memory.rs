//! What data cost: the server's `used_memory` before and after, once nothing moves any more.

use std::thread::sleep;
use std::time::Duration;

use crate::Result;
use crate::control::Control;

/// What a server holds with no data in it, and the means to ask again.
pub struct Scales {
    control: Control,
    empty: f64,
}

impl Scales {
    /// Takes the measure of a server that has been in use before, so that what its first commands leave for good is not
    /// taken for data. Empties it.
    pub fn balance(mut control: Control) -> Result<Scales> {
        control.call("FLUSHALL SYNC")?;
        let empty = settled(&mut control)?;
        Ok(Scales { control, empty })
    }

    /// Bytes that the data take.
    pub fn weigh(&mut self) -> Result<f64> {
        Ok(settled(&mut self.control)? - self.empty)
    }

    /// Removes all data.
    pub fn clear(&mut self) -> Result<()> {
        self.control.call("FLUSHALL SYNC")?;
        Ok(())
    }
}

/// `used_memory`, once connections are closed and no table is being moved any more.
fn settled(control: &mut Control) -> Result<f64> {
    let mut last = f64::MAX;
    for _ in 0..200 {
        // What a closed connection used is given back when the server looks at its socket again.
        sleep(Duration::from_millis(40));
        let now: f64 = control.info("memory", "used_memory")?.parse()?;
        if (now - last).abs() < 64.0 {
            return Ok(now);
        }
        last = now;
    }
    Err("used_memory does not settle".into())
}
