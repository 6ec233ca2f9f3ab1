//! Connections: accepting, TLS, timeouts and graceful shutdown.

use super::hot_reads::Api;
use super::parse_errors::ParseErrorBodies;
use super::peer::Peer;
use super::request_timer::RequestTimer;
use super::tls::Tls;
use crate::domain::config::HttpConfig;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_io_timeout::TimeoutStream;

/// The read buffer of a connection, in bytes. The headers of a request must fit.
const READ_BUFFER: usize = 128 * 1024;
/// How long an idle connection stays open after shutdown begins. The client may be sending its next request, which is answered with
/// `Connection: close`.
const SHUTDOWN_LINGER: Duration = Duration::from_secs(2);
/// How long connections are accepted after shutdown begins. Those in the kernel's backlog may have sent a request.
const ACCEPT_BACKLOG: Duration = Duration::from_millis(10);

/// Serves until `stop` completes, then finishes the requests in progress.
///
/// A connection is closed if it is idle for `http.keep_alive_seconds` or sends incomplete headers for `http.header_timeout_ms`, or if the client
/// reads nothing of a response for `http.timeout_ms`. At most `http.max_connections` are open; further ones wait to be accepted.
pub async fn serve(
    listener: TcpListener,
    api: Api,
    limits: &HttpConfig,
    tls: Option<Arc<Tls>>,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let mut server = http1::Builder::new();
    server
        .max_buf_size(READ_BUFFER)
        .header_read_timeout(limits.header_timeout());
    let (stop_all, stopping) = watch::channel(false);
    let connections = Connections {
        server,
        api,
        tls,
        header_timeout: limits.header_timeout(),
        keep_alive: limits.keep_alive(),
        write_timeout: Duration::from_millis(limits.timeout_ms),
        slots: Arc::new(Semaphore::new(limits.max_connections)),
        stopping,
    };
    tokio::pin!(stop);
    loop {
        tokio::select! {
            (accepted, slot) = accept(&listener, &connections.slots) => connections.spawn(accepted, slot),
            () = &mut stop => break,
        }
    }
    stop_all.send_replace(true);
    let until = Instant::now() + ACCEPT_BACKLOG;
    while let Ok(accepted) = timeout_at(until, listener.accept()).await {
        match accepted {
            Ok(accepted) => connections.spawn(accepted, None),
            Err(error) if is_connection_error(&error) => {}
            Err(_) => break,
        }
    }
    drop(listener);
    // Each connection holds a receiver: this waits until all have ended.
    drop(connections);
    stop_all.closed().await;
}

/// The state that all connections share.
#[derive(Clone)]
struct Connections {
    server: http1::Builder,
    api: Api,
    tls: Option<Arc<Tls>>,
    header_timeout: Duration,
    keep_alive: Duration,
    write_timeout: Duration,
    slots: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

/// The permit of an open connection.
type ConnectionSlot = Option<OwnedSemaphorePermit>;

impl Connections {
    /// Spawns the task of a connection. Without a slot, the task first waits for one.
    fn spawn(&self, (stream, peer): (TcpStream, SocketAddr), slot: ConnectionSlot) {
        let shared = self.clone();
        tokio::spawn(async move {
            let _slot = match slot {
                None => Arc::clone(&shared.slots).acquire_owned().await.ok(),
                slot => slot,
            };
            shared.accept(stream, peer).await;
        });
    }

    /// Serves a connection until it ends, after the handshake if it has TLS.
    async fn accept(self, stream: TcpStream, peer: SocketAddr) {
        // Responses are written at once, so Nagle's algorithm only adds delay.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let served = match self.tls.clone() {
            None => self.serve(stream, peer).await,
            Some(tls) => {
                let handshake = timeout(self.header_timeout, tls.acceptor().accept(stream));
                let accepted = tokio::select! {
                    accepted = handshake => accepted,
                    () = shutdown(self.stopping.clone()) => return,
                };
                match accepted {
                    Ok(Ok(stream)) => self.serve(stream, peer).await,
                    Ok(Err(error)) => {
                        tracing::debug!(%error, peer = %peer, "TLS handshake failed");
                        return;
                    }
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, peer = %peer, "connection error");
        }
    }

    /// Serves the requests of a connection until it ends.
    async fn serve<S>(self, stream: S, peer: SocketAddr) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (api, stopping) = (self.api, self.stopping.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            let (response, stopping) = (api.respond(request), stopping.clone());
            async move {
                let mut response = response.await?;
                if *stopping.borrow() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                Ok::<_, Infallible>(response)
            }
        });
        // Without a write timeout, a client that reads no responses would keep its slot forever.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write_timeout));
        let timer = RequestTimer::new(self.header_timeout, self.keep_alive);
        let stream = timer.time(ParseErrorBodies::new(Box::pin(stream)));
        let mut server = self.server;
        server.timer(timer);
        let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            // A request that has arrived is served before the shutdown.
            biased;
            ended = connection.as_mut() => return ended,
            () = shutdown(self.stopping) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }
}

/// Waits until connections without a request are closed.
async fn shutdown(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a shutdown, too.
    let _ = stopping.wait_for(|stop| *stop).await;
    tokio::time::sleep(SHUTDOWN_LINGER).await;
}

/// Waits for a slot and then for a connection.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> ((TcpStream, SocketAddr), ConnectionSlot) {
    // The semaphore is never closed.
    let slot = Arc::clone(slots).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok(accepted) => return (accepted, slot),
            // The error concerns this connection only.
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                // Usually the process has no free file descriptors until connections are closed.
                tracing::error!(%error, "cannot accept connections");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}
