//! Encoding commands, and counting replies without decoding them.
//!
//! The client must need less CPU time than the server, so it only looks at the length of each reply and whether it is an
//! error.

/// Appends one command as an array of bulk strings.
pub fn push_command(out: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    push_header(out, b'*', words.len());
    for word in words {
        push_header(out, b'$', word.as_ref().len());
        out.extend_from_slice(word.as_ref());
        out.extend_from_slice(b"\r\n");
    }
}

fn push_header(out: &mut Vec<u8>, kind: u8, n: usize) {
    out.push(kind);
    out.extend_from_slice(n.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Counts complete replies (RESP2 or RESP3) in a byte stream that arrives in chunks of any size.
pub struct ReplyCounter {
    /// Complete replies so far.
    complete: u64,
    /// Elements missing from the current reply; 1 between replies.
    open: u64,
    /// Bytes of the current bulk string, CRLF included, still to be skipped.
    body: usize,
    /// The first error reply, also one nested in an array.
    error: Option<String>,
}

impl ReplyCounter {
    /// A counter at zero.
    pub fn new() -> ReplyCounter {
        ReplyCounter {
            complete: 0,
            open: 1,
            body: 0,
            error: None,
        }
    }

    /// Complete replies so far.
    pub fn complete(&self) -> u64 {
        self.complete
    }

    /// The first error reply, if there was any.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Parses `buf` and returns how many bytes were consumed. The rest, an incomplete line, must be passed again with more.
    pub fn feed(&mut self, buf: &[u8]) -> usize {
        let mut pos = 0;
        loop {
            if self.body > 0 {
                let step = self.body.min(buf.len() - pos);
                pos += step;
                self.body -= step;
                if self.body > 0 {
                    return pos;
                }
                self.element_done();
            }
            let Some(length) = buf[pos..].iter().position(|&b| b == b'\n') else {
                return pos;
            };
            self.line(&buf[pos..pos + length]);
            pos += length + 1;
        }
    }

    /// Parses one line, `\r` included, `\n` excluded.
    fn line(&mut self, line: &[u8]) {
        match line.first() {
            Some(b'$' | b'=' | b'!') => match length_of(line) {
                Some(n) => self.body = n + 2,
                None => self.element_done(),
            },
            Some(b'*' | b'~' | b'>') => self.aggregate(length_of(line).unwrap_or(0)),
            Some(b'%') => self.aggregate(2 * length_of(line).unwrap_or(0)),
            Some(b'-') => {
                self.error
                    .get_or_insert_with(|| String::from_utf8_lossy(line).trim_end().to_string());
                self.element_done();
            }
            _ => self.element_done(),
        }
    }

    fn aggregate(&mut self, elements: usize) {
        self.open += elements as u64;
        self.element_done();
    }

    fn element_done(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            self.complete += 1;
            self.open = 1;
        }
    }
}

/// The length after a line's first byte; `None` for -1 (nil).
fn length_of(line: &[u8]) -> Option<usize> {
    let digits = line[1..].strip_suffix(b"\r").unwrap_or(&line[1..]);
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in chunks of `size`, as a socket would, and returns the counter.
    fn count(bytes: &[u8], size: usize) -> ReplyCounter {
        let mut replies = ReplyCounter::new();
        let mut pending = Vec::new();
        for chunk in bytes.chunks(size) {
            pending.extend_from_slice(chunk);
            let used = replies.feed(&pending);
            pending.drain(..used);
        }
        replies
    }

    #[test]
    fn replies_of_every_type_count_once_for_any_chunk_size() {
        let replies: [&[u8]; 12] = [
            b"+OK\r\n",
            b":-12\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$6\r\na\r\n:1\n\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*3\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n:5\r\n",
            b"%1\r\n+a\r\n*1\r\n_\r\n",
            b"~2\r\n#t\r\n,1.5\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"*1\r\n*1\r\n*1\r\n*0\r\n",
        ];
        let stream = replies.concat();
        for size in 1..=stream.len() {
            let counted = count(&stream, size);
            assert_eq!(counted.complete(), replies.len() as u64, "chunks of {size}");
            assert_eq!(counted.error(), None);
        }
        for reply in replies {
            assert_eq!(
                count(reply, 1).complete(),
                1,
                "{:?}",
                String::from_utf8_lossy(reply)
            );
            assert_eq!(count(&reply[..reply.len() - 2], reply.len()).complete(), 0);
        }
    }

    #[test]
    fn the_first_error_is_kept_also_from_inside_an_array() {
        let counted = count(b"+OK\r\n*2\r\n:1\r\n-ERR one\r\n-ERR two\r\n", 4);
        assert_eq!(counted.complete(), 3);
        assert_eq!(counted.error(), Some("-ERR one"));
    }

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        push_command(&mut out, &["GET", "key:1"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n");
    }
}
