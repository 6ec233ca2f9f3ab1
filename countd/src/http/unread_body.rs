//! Request bodies that the handler has not read when the response is ready.

use super::errors::is_timeout;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// The maximum length and duration of draining an unread body.
const MAX_DRAINED: usize = 64 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A body that can still be read after the handler has dropped it.
struct SharedBody(Arc<Mutex<Body>>);

impl SharedBody {
    fn lock(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().size_hint()
    }
}

/// Runs a request, and drains a short unread body, so that the client can read the response and reuse the connection. If the rest of the
/// body is long or slow, it adds `Connection: close`, because later requests on the connection would not be answered.
pub async fn drain_or_close<F: Future<Output = Response>>(
    request: Box<Request>,
    run: impl FnOnce(Box<Request>) -> F,
) -> Response {
    if request.body().is_end_stream() {
        return run(request).await;
    }
    // A client that waits for `100 Continue` has not sent the body, and draining would request it.
    let expects_continue = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let shared = Arc::new(Mutex::new(body));
    let body = Body::new(SharedBody(Arc::clone(&shared)));
    let request = Box::new(Request::from_parts(parts, body));
    let mut response = run(request).await;
    // A response that streams the request body still owns it.
    let Some(body) = Arc::into_inner(shared) else {
        return response;
    };
    let body = body.into_inner().unwrap_or_else(PoisonError::into_inner);
    let timed_out = is_timeout(&response);
    if !body.is_end_stream() && (expects_continue || timed_out || !drain(body).await) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Reads and discards the rest of a body. Returns false if it is too long or too slow.
async fn drain(body: Body) -> bool {
    let drain = async {
        let (mut frames, mut bytes) = (body.into_data_stream(), 0);
        while let Some(frame) = frames.next().await {
            bytes += frame.map_or(MAX_DRAINED, |frame| frame.len());
            if bytes >= MAX_DRAINED {
                return false;
            }
        }
        true
    };
    timeout(DRAIN_TIMEOUT, drain).await.unwrap_or(false)
}
