//! Bodies: what becomes of one that nobody wanted when its request has been answered, and the one of an answer that came too late.

use super::errors::ErrorBody;
use axum::Json;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// So much of a body is read though nobody wants it, for so long.
const UNWANTED: usize = 64 * 1024;
const UNWANTED_FOR: Duration = Duration::from_secs(1);

/// A body that its handler may drop, and that can still be read then.
struct Kept(Arc<Mutex<Body>>);

impl Kept {
    fn body(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.body()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body().size_hint()
    }
}

/// Lets requests be answered before their bodies have been read. A short rest is read, so that the client reads the answer and the
/// connection goes on. Where the rest is long or slow the client is told that the connection ends: it would not be answered any
/// more.
pub async fn finish(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    // ClientKey waits for a word before he sends his body is not asked for it.
    let waits = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let kept = Arc::new(Mutex::new(body));
    let body = Body::new(Kept(Arc::clone(&kept)));
    let mut response = next.run(Request::from_parts(parts, body)).await;
    // An answer that is made of the body as it comes holds it still.
    let Some(body) = Arc::into_inner(kept) else {
        return response;
    };
    let body = body.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_late = response.status() == StatusCode::REQUEST_TIMEOUT;
    if !body.is_end_stream() && (waits || is_late || !can_be_read(body).await) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

async fn can_be_read(body: Body) -> bool {
    let is_short = async {
        let (mut frames, mut bytes) = (body.into_data_stream(), 0);
        while let Some(frame) = frames.next().await {
            // Nothing of it is kept.
            bytes += frame.map_or(UNWANTED, |frame| frame.len());
            if bytes >= UNWANTED {
                return false;
            }
        }
        true
    };
    timeout(UNWANTED_FOR, is_short).await.unwrap_or(false)
}

/// Gives the answer to a request that took too long, which has none, the body that all problems have.
pub async fn explain_lateness(response: Response) -> Response {
    if response.status() != StatusCode::REQUEST_TIMEOUT {
        return response;
    }
    let failure = ErrorBody::new("slow", "it took longer than http.timeout_ms");
    (StatusCode::REQUEST_TIMEOUT, Json(failure)).into_response()
}
