//! Signals: SIGTERM and Ctrl-C stop the process, SIGHUP is for the tasks that read files again.

use countd::domain::health::Health;
use std::io;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Stops the process at the first SIGTERM, after the time in which load balancers notice that `/readyz` fails, or at once at SIGINT. A second
/// signal ends that time. SIGHUP does not end the process from now on.
///
/// # Errors
/// The process cannot handle signals.
pub fn handle(
    stop: watch::Sender<bool>,
    health: Health,
    drain: Duration,
) -> io::Result<impl Future<Output = ()> + Send> {
    let mut signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
    };
    // Once there is a handler, the signal does not end the process.
    drop(signal(SignalKind::hangup())?);
    Ok(async move {
        let is_terminate = signals.next().await;
        health.set_stopping();
        if is_terminate && !drain.is_zero() {
            let milliseconds = u64::try_from(drain.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(milliseconds, "draining: /readyz fails from now on");
            tokio::select! {
                () = tokio::time::sleep(drain) => {}
                _ = signals.next() => {}
            }
        }
        tracing::info!("stopping");
        stop.send_replace(true);
    })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Waits for a signal. Returns whether it is SIGTERM.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => false,
        }
    }
}
