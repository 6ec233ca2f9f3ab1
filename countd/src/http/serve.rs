//! Connections: accepting them, their timeouts, and their end.

use super::unparsed::Unparsed;
use crate::domain::config::HttpConfig;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

/// The most bytes that a connection reads ahead; the headers of a request have to fit.
const BUFFER: usize = 128 * 1024;
/// How long a connection without a request stays open after the signal to stop. Its client may have sent the next request
/// already, or be about to: that one is answered, with `Connection: close`.
const LINGER: Duration = Duration::from_secs(2);
/// How long connections are still accepted then: those that the kernel has accepted already may have sent a request.
const ACCEPT_REST: Duration = Duration::from_millis(10);

/// ClientKey is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Serves until `stop` is done, then finishes the requests that are under way.
///
/// A connection whose next request's headers take longer than `http.header_timeout_ms` is closed, also one that is idle,
/// and one that takes nothing of an answer for `http.timeout_ms`. At most
/// `http.max_connections` are open; further ones wait to be accepted.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: &HttpConfig,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .max_buf_size(BUFFER)
        .header_read_timeout(Duration::from_millis(limits.header_timeout_ms));
    let (stop_all, stopping) = watch::channel(false);
    let connections = Connections {
        server,
        router,
        write_timeout: Duration::from_millis(limits.timeout_ms),
        free: Arc::new(Semaphore::new(limits.max_connections)),
        stopping,
    };
    tokio::pin!(stop);
    loop {
        tokio::select! {
            (accepted, place) = accept(&listener, &connections.free) => connections.serve(accepted, place),
            () = &mut stop => break,
        }
    }
    stop_all.send_replace(true);
    let until = Instant::now() + ACCEPT_REST;
    while let Ok(accepted) = timeout_at(until, listener.accept()).await {
        match accepted {
            Ok(accepted) => connections.serve(accepted, None),
            Err(why) if is_of_connection(&why) => {}
            Err(_) => break,
        }
    }
    drop(listener);
    // Each connection has a receiver: this waits for the last of them.
    drop(connections);
    stop_all.closed().await;
}

/// What connections share.
#[derive(Clone)]
struct Connections {
    server: http1::Builder,
    router: Router,
    write_timeout: Duration,
    free: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

/// A place among the open connections.
type Place = Option<OwnedSemaphorePermit>;

impl Connections {
    /// Serves a connection in a task of its own; without a place, when there is one.
    fn serve(&self, (stream, peer): (TcpStream, SocketAddr), place: Place) {
        let shared = self.clone();
        tokio::spawn(async move {
            let _place = match place {
                None => Arc::clone(&shared.free).acquire_owned().await.ok(),
                place => place,
            };
            if let Err(why) = shared.answer(stream, peer).await {
                tracing::debug!(error = %why, peer = %peer, "a connection broke");
            }
        });
    }

    /// Answers the requests of a connection until its end.
    async fn answer(self, stream: TcpStream, peer: SocketAddr) -> hyper::Result<()> {
        // Answers are written whole: waiting for more of them only adds delay.
        if let Err(why) = stream.set_nodelay(true) {
            tracing::debug!(error = %why, "no TCP_NODELAY");
        }
        let (router, stopping) = (self.router, self.stopping.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            let (answer, stopping) = (router.clone().oneshot(request), stopping.clone());
            async move {
                let mut response = answer.await?;
                if *stopping.borrow() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        // A client that does not read its answers would keep its place for ever.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write_timeout));
        let stream = TokioIo::new(Unparsed::new(Box::pin(stream)));
        let mut connection = pin!(self.server.serve_connection(stream, answer));
        let mut stopping = self.stopping;
        let idle_for_long = async {
            // An error means that nobody is left who could say it.
            let _ = stopping.wait_for(|stop| *stop).await;
            tokio::time::sleep(LINGER).await;
        };
        tokio::select! {
            // In this order: a request that has arrived is not idle.
            biased;
            ended = connection.as_mut() => return ended,
            () = idle_for_long => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }
}

/// The next connection, when there is a place for it.
async fn accept(listener: &TcpListener, free: &Arc<Semaphore>) -> ((TcpStream, SocketAddr), Place) {
    // It fails only if the semaphore is closed, which nobody does.
    let place = Arc::clone(free).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok(accepted) => return (accepted, place),
            // That connection is gone, the next one may be sound.
            Err(why) if is_of_connection(&why) => {}
            Err(why) => {
                // No file descriptors, most likely: others have to close theirs first.
                tracing::error!(error = %why, "cannot accept connections");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}
