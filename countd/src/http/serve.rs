//! Connections: accepting them, their timeouts, and their end.

use crate::config::Http;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

/// The most bytes that a connection reads ahead; the headers of a request have to fit.
const BUFFER: usize = 128 * 1024;

/// Who is at the other end of a connection.
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
    limits: &Http,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .max_buf_size(BUFFER)
        .header_read_timeout(Duration::from_millis(limits.header_timeout_ms));
    let free = Arc::new(Semaphore::new(limits.max_connections));
    let open = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let (stream, peer, place) = tokio::select! {
            accepted = accept(&listener, &free) => accepted,
            () = &mut stop => break,
        };
        // Answers are written whole: waiting for more of them only adds delay.
        if let Err(why) = stream.set_nodelay(true) {
            tracing::debug!(error = %why, "no TCP_NODELAY");
        }
        let router = router.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            router.clone().oneshot(request)
        });
        // A client that does not read its answers would keep its place for ever.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(Duration::from_millis(limits.timeout_ms)));
        let stream = TokioIo::new(Box::pin(stream));
        let connection = open.watch(server.serve_connection(stream, answer));
        tokio::spawn(async move {
            let _place = place;
            if let Err(why) = connection.await {
                tracing::debug!(error = %why, peer = %peer, "a connection broke");
            }
        });
    }
    drop(listener);
    open.shutdown().await;
}

/// The next connection, when there is a place for it.
async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // It fails only if the semaphore is closed, which nobody does.
    let place = Arc::clone(free).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
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
