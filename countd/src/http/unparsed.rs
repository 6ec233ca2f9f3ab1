//! JSON bodies for requests that cannot be parsed.
//!
//! Such a request reaches no handler: hyper itself answers 400, 414 or 431 without a body, and closes the connection. This wraps the
//! stream of a connection, recognises that answer when it is written, and writes one with a body in its place.

use super::errors::ErrorBody;
use axum::http::StatusCode;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::str;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The stream of a connection.
pub struct Unparsed<S> {
    stream: S,
    /// What is written in place of hyper's answer, from `at` on.
    answer: Vec<u8>,
    at: usize,
}

impl<S> Unparsed<S> {
    /// Of a stream.
    pub fn new(stream: S) -> Unparsed<S> {
        Unparsed {
            stream,
            answer: Vec::new(),
            at: 0,
        }
    }
}

impl<S: AsyncWrite + Unpin> Unparsed<S> {
    /// Writes what is left of the answer.
    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.at < self.answer.len() {
            let rest = &self.answer[self.at..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.at += written,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unparsed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unparsed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_answer(context))?;
        match refusal(bytes) {
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
            Some(0) => {
                // Nothing follows it. It goes out with the flush.
                (self.answer, self.at) = (explained(bytes), 0);
                Poll::Ready(Ok(bytes.len()))
            }
            // What comes before it are answers to earlier requests.
            Some(at) => Pin::new(&mut self.stream).poll_write(context, &bytes[..at]),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().any(|slice| refusal(slice).is_some()) {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(context, first.map_or(&[], |slice| slice));
        }
        ready!(self.poll_answer(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// How the head of hyper's answer ends, with a date of 29 bytes.
const END: &[u8] = b"content-length: 0\r\ndate: ";
const END_BYTES: usize = END.len() + 29 + 4;
const LENGTH: &str = "content-length: 0";
/// Hyper's answers are shorter.
const MOST_BYTES: usize = 192;

/// Where in these bytes hyper's own answer begins, if they end with one. Countd's answers have a trace id, and none is empty.
fn refusal(bytes: &[u8]) -> Option<usize> {
    let end = bytes.len().checked_sub(END_BYTES)?;
    if !bytes[end..].starts_with(END) || !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let start = b"HTTP/1.1 ";
    let from = bytes.len().saturating_sub(MOST_BYTES);
    let mut windows = bytes[from..].windows(start.len());
    let at = from + windows.rposition(|window| window == start)?;
    let mut lines = str::from_utf8(&bytes[at..]).ok()?.lines();
    status(lines.next()?)?;
    let own = ["connection: ", "content-length: ", "date: "];
    let is_own = |line: &str| line.is_empty() || own.iter().any(|name| line.starts_with(name));
    lines.all(is_own).then_some(at)
}

/// The status of an answer by its first line, if it is one of those that hyper gives by itself.
fn status(line: &str) -> Option<StatusCode> {
    let status = StatusCode::from_bytes(line.get(9..12)?.as_bytes()).ok()?;
    let own = [
        StatusCode::BAD_REQUEST,
        StatusCode::URI_TOO_LONG,
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    ];
    own.contains(&status).then_some(status)
}

/// Hyper's answer with a body.
fn explained(answer: &[u8]) -> Vec<u8> {
    let head = String::from_utf8_lossy(answer);
    let status = head.lines().next().and_then(status).unwrap_or_default();
    let (code, message) = match status {
        StatusCode::URI_TOO_LONG => ("too_large", "the path and query are too long"),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            ("too_large", "the headers are too long, or too many")
        }
        _ => ("malformed", "this is not a request of HTTP/1.1"),
    };
    let status = status.as_u16().to_string();
    metrics::counter!("countd_http_requests_total", "route" => "none", "method" => "other", "status" => status).increment(1);
    // Texts alone: nothing that JSON could not hold.
    let body = serde_json::to_string(&ErrorBody::new(code, message)).unwrap_or_default();
    let length = body.len();
    let described = format!("content-type: application/json\r\ncontent-length: {length}");
    (head.replacen(LENGTH, &described, 1) + &body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const DATE: &str = "date: Tue, 15 Nov 1994 08:12:31 GMT\r\n\r\n";

    fn own(status: &str) -> String {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n{DATE}")
    }

    /// What arrives, through a stream that takes a few bytes at a time.
    async fn written(parts: &[&str], is_vectored: bool) -> String {
        let (near, mut far) = duplex(7);
        let mut near = Unparsed::new(near);
        let writing = async {
            if is_vectored {
                let mut parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
                while !parts.is_empty() {
                    let slices: Vec<IoSlice> =
                        parts.iter().map(|part| IoSlice::new(part)).collect();
                    let mut count = near.write_vectored(&slices).await.expect("it is taken");
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
                near.write_all(all.as_bytes()).await.expect("it is taken");
            }
            near.shutdown().await.expect("it ends");
        };
        let mut found = String::new();
        let reading = far.read_to_string(&mut found);
        let (_, read) = tokio::join!(writing, reading);
        read.expect("a text");
        found
    }

    #[tokio::test]
    async fn refusals_get_a_body_and_what_comes_before_them_stays() {
        let before = format!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n{DATE}abc");
        for (status, code) in [
            ("400 Bad Request", "malformed"),
            ("414 URI Too Long", "too_large"),
            ("431 Request Header Fields Too Large", "too_large"),
        ] {
            for parts in [vec![own(status)], vec![before.clone(), own(status)]] {
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                for is_vectored in [false, true] {
                    let found = written(&parts, is_vectored).await;
                    let earlier = parts[..parts.len() - 1].concat();
                    let answer = found.strip_prefix(&earlier).expect("what came before");
                    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
                    assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
                    assert!(head.contains("content-type: application/json"), "{head}");
                    let length = format!("content-length: {}\r\n", body.len());
                    assert!(head.contains(&length), "{head}");
                    assert_eq!(head.matches("content-length").count(), 1, "{head}");
                    assert!(body.contains(code), "{body}");
                }
            }
        }
    }

    #[tokio::test]
    async fn other_answers_stay_as_they_are() {
        let described = own("400 Bad Request").replace("date", "x-trace-id: 1\r\ndate");
        for text in [
            own("200 OK"),
            own("404 Not Found"),
            described,
            format!("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n{DATE}{{}}"),
            own("400 Bad Request") + "x",
            DATE.to_owned(),
            "\r\n\r\n".to_owned(),
        ] {
            for is_vectored in [false, true] {
                assert_eq!(written(&[&text], is_vectored).await, text);
            }
        }
    }
}
