//! Bodies for the error responses of hyper.
//!
//! A request that cannot be parsed does not reach a handler: hyper itself responds with 400, 414 or 431 without a body, and closes the
//! connection. [`ParseErrorBodies`] wraps the stream of a connection, recognises such a response when it is written, and writes one
//! with a JSON body instead.

use super::errors::{PROBLEM_JSON, ProblemDetails};
use super::telemetry::random_trace_id;
use crate::domain::error::{ErrorCode, Problem};
use axum::http::StatusCode;
use bytes::{Buf, Bytes};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::str;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that adds bodies to hyper's error responses.
pub struct ParseErrorBodies<S> {
    stream: S,
    /// The unwritten rest of a replaced response.
    response: Bytes,
}

impl<S> ParseErrorBodies<S> {
    /// Wraps a stream.
    pub fn new(stream: S) -> ParseErrorBodies<S> {
        ParseErrorBodies {
            stream,
            response: Bytes::new(),
        }
    }
}

impl<S: AsyncWrite + Unpin> ParseErrorBodies<S> {
    /// Writes the rest of a replaced response.
    fn poll_response(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.response.has_remaining() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.response))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.response.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ParseErrorBodies<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ParseErrorBodies<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_response(context))?;
        match find_parse_error(bytes) {
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
            Some(0) => {
                // It is the last response of the connection, and is written by the flush.
                self.response = with_body(bytes);
                Poll::Ready(Ok(bytes.len()))
            }
            // Earlier responses of pipelined requests come first.
            Some(start) => Pin::new(&mut self.stream).poll_write(context, &bytes[..start]),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().any(|slice| find_parse_error(slice).is_some()) {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(context, first.map_or(&[], |slice| slice));
        }
        ready!(self.poll_response(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_response(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_response(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The end of the head of hyper's response, followed by a date of 29 bytes and an empty line.
const HEAD_END: &[u8] = b"content-length: 0\r\ndate: ";
const HEAD_END_BYTES: usize = HEAD_END.len() + 29 + 4;
const EMPTY_LENGTH: &str = "content-length: 0";
/// An upper bound for the length of hyper's response.
const MAX_RESPONSE_BYTES: usize = 192;

/// Returns where hyper's own error response starts, if `bytes` end with one. Responses of handlers differ: they have a trace ID and a
/// body.
fn find_parse_error(bytes: &[u8]) -> Option<usize> {
    let end = bytes.len().checked_sub(HEAD_END_BYTES)?;
    if !bytes[end..].starts_with(HEAD_END) || !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let version = b"HTTP/1.1 ";
    let from = bytes.len().saturating_sub(MAX_RESPONSE_BYTES);
    let mut windows = bytes[from..].windows(version.len());
    let start = from + windows.rposition(|window| window == version)?;
    let mut lines = str::from_utf8(&bytes[start..]).ok()?.lines();
    parse_error_status(lines.next()?)?;
    let headers = ["connection: ", "content-length: ", "date: "];
    let is_own = |line: &str| line.is_empty() || headers.iter().any(|name| line.starts_with(name));
    lines.all(is_own).then_some(start)
}

/// The status code in a status line, if it is one of hyper's own errors.
fn parse_error_status(line: &str) -> Option<StatusCode> {
    let status = StatusCode::from_bytes(line.get(9..12)?.as_bytes()).ok()?;
    let errors = [
        StatusCode::BAD_REQUEST,
        StatusCode::URI_TOO_LONG,
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    ];
    errors.contains(&status).then_some(status)
}

/// Adds a body to hyper's response.
fn with_body(response: &[u8]) -> Bytes {
    let head = String::from_utf8_lossy(response);
    let status = head.lines().next().and_then(parse_error_status);
    let status = status.unwrap_or_default();
    let details = match status {
        StatusCode::URI_TOO_LONG => ProblemDetails::of(&Problem::UriTooLong),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            ProblemDetails::of(&Problem::HeadersTooLarge)
        }
        _ => ProblemDetails::new(ErrorCode::Malformed, "not a valid HTTP request"),
    };
    let status = status.as_u16().to_string();
    metrics::counter!("countd_http_requests_total", "route" => "none", "method" => "other", "status" => status).increment(1);
    let trace_id = random_trace_id();
    let body = details.traced(&trace_id).to_json();
    let length = body.len();
    let headers = format!(
        "content-type: {PROBLEM_JSON}\r\nx-trace-id: {trace_id}\r\nx-request-id: {trace_id}\r\ncontent-length: {length}"
    );
    (head.replacen(EMPTY_LENGTH, &headers, 1) + &body).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const DATE: &str = "date: Tue, 15 Nov 1994 08:12:31 GMT\r\n\r\n";

    fn parse_error(status: &str) -> String {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n{DATE}")
    }

    /// Returns what a peer receives through a stream that accepts a few bytes at a time.
    async fn received(parts: &[&str], is_vectored: bool) -> String {
        let (near, mut far) = duplex(7);
        let mut near = ParseErrorBodies::new(near);
        let writing = async {
            if is_vectored {
                let mut parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
                while !parts.is_empty() {
                    let slices: Vec<IoSlice> =
                        parts.iter().map(|part| IoSlice::new(part)).collect();
                    let mut count = near.write_vectored(&slices).await.expect("a write");
                    while count > 0 {
                        let step = count.min(parts[0].len());
                        (parts[0], count) = (&parts[0][step..], count - step);
                        if parts[0].is_empty() {
                            parts.remove(0);
                        }
                    }
                }
            } else {
                let all = parts.concat();
                near.write_all(all.as_bytes()).await.expect("a write");
            }
            near.shutdown().await.expect("a shutdown");
        };
        let mut text = String::new();
        let reading = far.read_to_string(&mut text);
        let (_, read) = tokio::join!(writing, reading);
        read.expect("UTF-8");
        text
    }

    #[tokio::test]
    async fn parse_errors_get_a_body_and_earlier_responses_are_unchanged() {
        let before = format!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n{DATE}abc");
        for (status, code) in [
            ("400 Bad Request", "malformed"),
            ("414 URI Too Long", "uri_too_long"),
            ("431 Request Header Fields Too Large", "headers_too_large"),
        ] {
            for parts in [
                vec![parse_error(status)],
                vec![before.clone(), parse_error(status)],
            ] {
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                for is_vectored in [false, true] {
                    let text = received(&parts, is_vectored).await;
                    let earlier = parts[..parts.len() - 1].concat();
                    let response = text.strip_prefix(&earlier).expect("earlier responses");
                    let (head, body) = response.split_once("\r\n\r\n").expect("a body");
                    assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
                    assert!(
                        head.contains("content-type: application/problem+json"),
                        "{head}"
                    );
                    let length = format!("content-length: {}\r\n", body.len());
                    assert!(head.contains(&length), "{head}");
                    assert_eq!(head.matches("content-length").count(), 1, "{head}");
                    assert!(body.contains(code), "{body}");
                }
            }
        }
    }

    #[tokio::test]
    async fn other_responses_are_unchanged() {
        let with_trace_id = parse_error("400 Bad Request").replace("date", "x-trace-id: 1\r\ndate");
        for text in [
            parse_error("200 OK"),
            parse_error("404 Not Found"),
            with_trace_id,
            format!("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n{DATE}{{}}"),
            parse_error("400 Bad Request") + "x",
            DATE.to_owned(),
            "\r\n\r\n".to_owned(),
        ] {
            for is_vectored in [false, true] {
                assert_eq!(received(&[&text], is_vectored).await, text);
            }
        }
    }
}
