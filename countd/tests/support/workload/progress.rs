//! The progress of the clients of a workload.

use crate::support::pause::pause;
use countint_tests::env::deadline;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

/// The progress of all clients.
#[derive(Default)]
pub struct Progress {
    pub(super) done: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) stop: AtomicBool,
    /// Read-locked while a request is in flight.
    pub(super) sending: RwLock<()>,
}

impl Progress {
    /// Runs a function while no request is in flight.
    pub fn while_idle(&self, run: impl FnOnce()) {
        let _exclusive = self.sending.write().expect("no client has panicked");
        run();
    }

    /// Waits until this many actions are done. Fails when there is no progress.
    pub fn wait_for(&self, actions: u64) {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let done = self.done.load(Relaxed);
            if done >= actions {
                return;
            }
            if done > before {
                (before, since) = (done, Instant::now());
            }
            assert!(since.elapsed() < deadline(120), "{done} of {actions}");
            pause();
        }
    }
}

/// Stops the threads of a scope when dropped, also by a panic: otherwise the scope would wait for them without end.
pub struct StopOnDrop<'s>(pub &'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs clients, which get their numbers from 0 on, until `work` has returned. Returns what it returned, and what each client did.
pub fn run_while<R, D: Send>(
    clients: u64,
    client: impl Fn(u64, &AtomicBool) -> D + Sync,
    work: impl FnOnce() -> R,
) -> (R, Vec<D>) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (client, stop) = (&client, &stop);
        let running: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(number, stop)))
            .collect();
        let stopping = StopOnDrop(stop);
        let result = work();
        drop(stopping);
        let done = running.into_iter().map(|client| client.join());
        (result, done.map(|done| done.expect("a client")).collect())
    })
}
