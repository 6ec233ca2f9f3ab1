//! Keeps idle cores of a virtual machine awake.
//!
//! A core that has nothing to do halts, and the hypervisor takes it away. To wake it costs tens of microseconds of CPU time, which the
//! process pays that wakes it: more than most requests do. Cores of a machine without a hypervisor are woken by a write to memory. Where
//! Linux can poll before it halts (the governor `haltpoll`), it does so while this exists.

use std::fs;

/// The directory of the governor's settings.
const SETTINGS: &str = "/sys/module/haltpoll/parameters";
/// The settings: nanoseconds to poll at most, and at first.
const NAMES: [&str; 2] = ["guest_halt_poll_ns", "guest_halt_poll_grow_start"];
/// The time to poll. Between requests of the lowest measured rates less time passes.
const NANOSECONDS: &str = "2000000";

/// Cores poll before they halt, until this is dropped.
pub struct AwakeCores {
    /// The former values.
    before: Vec<(String, String)>,
}

impl AwakeCores {
    /// Changes the settings, if the machine has them and this process may.
    pub fn new() -> AwakeCores {
        let mut awake = AwakeCores { before: Vec::new() };
        for name in NAMES {
            let file = format!("{SETTINGS}/{name}");
            if let Ok(value) = fs::read_to_string(&file)
                && fs::write(&file, NANOSECONDS).is_ok()
            {
                awake.before.push((file, value));
            }
        }
        awake
    }
}

impl Drop for AwakeCores {
    fn drop(&mut self) {
        for (file, value) in &self.before {
            let _ = fs::write(file, value.trim());
        }
    }
}

/// What idle cores do now, for the report.
pub fn describe() -> String {
    let polls = fs::read_to_string(format!("{SETTINGS}/{}", NAMES[0]));
    match polls.ok().and_then(|ns| ns.trim().parse::<f64>().ok()) {
        Some(ns) if ns > 0.0 => format!("poll for {} ms before they halt", ns / 1e6),
        _ => "halt".to_owned(),
    }
}
