//! CPU affinity and CPU time.
//!
//! The server is pinned to one core and the client to another, so that neither migrates nor competes with the other. CPU
//! time comes from `schedstat`: nanoseconds on a core, independent of other load.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::Result;

/// The server's core.
pub const SERVER_CORE: usize = 0;
/// The client's core.
pub const CLIENT_CORE: usize = 1;

/// Pins the calling thread to the client's core.
pub fn pin_client() -> Result<()> {
    pin(CLIENT_CORE)
}

/// Runs `start` on the server's core. A process started inside inherits the affinity, as do its threads and children.
pub fn on_server_core<T>(start: impl FnOnce() -> Result<T>) -> Result<T> {
    pin(SERVER_CORE)?;
    let outcome = start();
    pin(CLIENT_CORE)?;
    outcome
}

fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|e| format!("cannot run on core {core} (two cores are needed): {e}"))?;
    Ok(())
}

/// Runs `work` on this thread before all others of its core, if this process may do that. A client that shares the core of what it measures
/// sends a request when it is due, not when the scheduler's next slice begins.
pub fn with_priority<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(thread) = thread_id() else {
        return work();
    };
    // Without the right, or without util-linux, the order stays as it is.
    let order = |policy: [&str; 3]| {
        let mut command = Command::new("chrt");
        let command = command.args(policy).arg(&thread);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    let _ = order(["--fifo", "--pid", "1"]);
    let outcome = work();
    let _ = order(["--other", "--pid", "0"]);
    outcome
}

/// The id of the calling thread.
fn thread_id() -> Option<OsString> {
    // A link to `<pid>/task/<tid>`.
    let link = fs::read_link("/proc/thread-self").ok()?;
    Some(link.file_name()?.to_owned())
}

/// CPU time in nanoseconds that the main thread of `pid` has used. A Redis server executes commands there.
pub fn main_thread_ns(pid: u32) -> Result<u64> {
    read_schedstat(&format!("/proc/{pid}/schedstat"))
}

/// CPU time in nanoseconds that the calling thread has used.
pub fn thread_ns() -> Result<u64> {
    read_schedstat("/proc/thread-self/schedstat")
}

/// CPU time in nanoseconds that all threads of `pid` have used.
pub fn all_threads_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        sum += read_schedstat(&task?.path().join("schedstat").to_string_lossy())?;
    }
    Ok(sum)
}

/// CPU time in seconds that `pid` has used, that of threads that have ended included. The resolution is 10 ms.
pub fn process_seconds(pid: u32) -> Result<f64> {
    /// `USER_HZ`, which is the same on all machines.
    const TICKS: f64 = 100.0;
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    // The command is in parentheses and may contain spaces. The fields 14 and 15 are the times in user mode and in the kernel.
    let fields = text.rsplit_once(") ").map(|(_, fields)| fields);
    let times = fields.unwrap_or_default().split(' ').skip(11).take(2);
    let ticks: Vec<u64> = times.filter_map(|time| time.parse().ok()).collect();
    match ticks[..] {
        [user, kernel] => Ok((user + kernel) as f64 / TICKS),
        _ => Err(format!("{path}: {text}").into()),
    }
}

/// CPU time in seconds that this process has used.
pub fn own_seconds() -> Result<f64> {
    process_seconds(std::process::id())
}

fn read_schedstat(path: &str) -> Result<u64> {
    let text = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let first = text
        .split_whitespace()
        .next()
        .ok_or_else(|| format!("{path} is empty"))?;
    Ok(first.parse()?)
}

/// Whether `pid` has exited: it does not exist, or is a zombie.
pub fn has_exited(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    // The state follows the command, which is in parentheses and may itself contain parentheses.
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_cpu_time() {
        let before = thread_ns().unwrap();
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        // schedstat is updated by the next timer tick at the latest.
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(thread_ns().unwrap() > before);
    }

    #[test]
    fn threads_that_have_ended_have_used_cpu_time() {
        let before = own_seconds().unwrap();
        let busy = std::thread::spawn(|| {
            let started = thread_ns().unwrap();
            while thread_ns().unwrap() - started < 100_000_000 {
                std::hint::spin_loop();
            }
        });
        busy.join().unwrap();
        let used = own_seconds().unwrap() - before;
        assert!(used >= 0.08, "{used}");
    }

    #[test]
    fn only_a_process_that_exists_is_running() {
        assert!(!has_exited(std::process::id()));
        assert!(has_exited(u32::MAX));
    }
}
