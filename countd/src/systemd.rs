//! systemd as the service manager: the socket that it passes, readiness, and the watchdog. Without systemd these do nothing.

use listenfd::ListenFd;
use sd_notify::NotifyState;
use std::io;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// The socket on which systemd listens for this process (`LISTEN_FDS`). Connections wait in its queue while the process restarts.
pub struct PassedSocket(ListenFd);

impl PassedSocket {
    /// Takes the socket from the environment, which has none for later calls.
    ///
    /// # Errors
    /// There are several: a process listens on one address.
    pub fn from_environment() -> io::Result<PassedSocket> {
        let sockets = ListenFd::from_env();
        match sockets.len() {
            0 | 1 => Ok(PassedSocket(sockets)),
            several => Err(io::Error::other(format!(
                "systemd has passed {several} sockets, but a process of countd listens on one address"
            ))),
        }
    }

    /// The socket. `None` if systemd has not passed one, or if it was taken.
    ///
    /// # Errors
    /// It is not a TCP socket.
    pub fn take(&mut self) -> io::Result<Option<TcpListener>> {
        let Some(listener) = self.0.take_tcp_listener(0)? else {
            return Ok(None);
        };
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Some)
    }
}

/// Reports that the process is ready, and later that it stops.
pub fn report_ready(mut stopping: watch::Receiver<bool>) {
    notify(&[NotifyState::Ready, NotifyState::Status("ready")]);
    tokio::spawn(async move {
        // An error means that the sender is gone, which is the end, too.
        let _ = stopping.wait_for(|stop| *stop).await;
        notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    });
}

/// Reports what the process waits for. `systemctl status` shows the first line.
pub fn report_waiting(reason: &str) {
    notify(&[NotifyState::Status(
        reason.lines().next().unwrap_or_default(),
    )]);
}

/// Sends keep-alives to the watchdog until the process ends, at a third of the timeout (`WATCHDOG_USEC`). They stop if no task of the
/// runtime can run, and systemd then restarts the process.
pub fn keep_alive() {
    let Some(timeout) = sd_notify::watchdog_enabled() else {
        return;
    };
    tokio::spawn(async move {
        let mut interval = tokio::time::interval((timeout / 3).max(Duration::from_millis(1)));
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            notify(&[NotifyState::Watchdog]);
        }
    });
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be notified");
    }
}
