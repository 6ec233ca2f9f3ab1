//! How long a connection may wait for a request: [`RequestTimer`] makes two timeouts of hyper's one.
//!
//! hyper starts a timer when it begins to wait for the headers of a request, and closes the connection when the timer ends before they are
//! complete. Between two requests that may take `http.keep_alive_seconds`. From the first byte of the headers on, and for the first request of
//! a connection, it may take `http.header_timeout_ms`.

use hyper::rt::{Sleep, Timer};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// The timer of a connection.
#[derive(Clone)]
pub struct RequestTimer {
    header: Duration,
    keep_alive: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Whether the connection has waited for a request before.
    has_waited: bool,
    /// When the first byte arrived after the wait began.
    arrived: Option<Instant>,
}

/// The wait for a request.
struct Wait {
    timer: RequestTimer,
    has_arrived: bool,
    sleep: Pin<Box<tokio::time::Sleep>>,
}

/// The stream of a connection, whose timer is told when bytes arrive.
pub struct TimedStream<S> {
    stream: S,
    timer: RequestTimer,
}

impl RequestTimer {
    /// The timer of a new connection.
    pub fn new(header: Duration, keep_alive: Duration) -> RequestTimer {
        RequestTimer {
            header,
            keep_alive,
            state: Arc::default(),
        }
    }

    /// The stream of the connection.
    pub fn time<S>(&self, stream: S) -> TimedStream<S> {
        TimedStream {
            stream,
            timer: self.clone(),
        }
    }

    fn with_state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wait(&self) -> Pin<Box<dyn Sleep>> {
        let is_first = self.with_state(|state| {
            state.arrived = None;
            !std::mem::replace(&mut state.has_waited, true)
        });
        let limit = match is_first {
            true => self.header,
            false => self.keep_alive,
        };
        Box::pin(Wait {
            timer: self.clone(),
            // The first headers may take as long from the start of the connection on.
            has_arrived: is_first,
            sleep: Box::pin(tokio::time::sleep(limit)),
        })
    }
}

/// hyper uses its timer only for the headers of requests, and names the same limit each time.
impl Timer for RequestTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        self.wait()
    }

    fn sleep_until(&self, _: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.wait()
    }
}

impl Sleep for Wait {}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // hyper polls the timer after each read that does not complete the headers.
        if !self.has_arrived
            && let Some(arrived) = self.timer.with_state(|state| state.arrived)
        {
            self.has_arrived = true;
            let end = arrived + self.timer.header;
            self.sleep.as_mut().reset(end);
        }
        self.sleep.as_mut().poll(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.timer.with_state(|state| {
                state.arrived.get_or_insert_with(Instant::now);
            });
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
