//! Decodes replies of `XREAD` as they arrive. A client library parses a reply into a tree of values, which costs more than all
//! other processing of an event.

use super::entry::{EntryStrings, LogEntry};
use super::offset::offset;
use crate::domain::config::TRUNCATED_PAYLOAD_BYTES;
use crate::redis::endpoint::{Endpoint, Socket};
use bytes::{Buf, BytesMut};
use redis::{Cmd, RedisError};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// The free space of the buffer before a read from the socket.
const READ_BYTES: usize = 256 * 1024;
/// An entry that does not fit into this many bytes is decoded one string at a time.
const BUFFERED_ENTRY_BYTES: usize = 1024 * 1024;
/// The number of bytes that are kept of an entry's field name. The names of known kinds are shorter.
const FIELD_BYTES: usize = 64;
/// The maximum length of a string or array in a reply.
const MAX_LENGTH: usize = 512 * 1024 * 1024;

/// Entries read from a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct StreamEntries {
    /// The key of the stream.
    pub name: Vec<u8>,
    /// The entries before the first with a foreign ID.
    pub entries: Vec<LogEntry>,
    /// Whether there is an entry with a foreign ID.
    pub ends_at_foreign_id: bool,
}

/// A reply of `XREAD`.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadReply {
    /// The entries of each stream.
    pub streams: Vec<StreamEntries>,
    /// Whether the rest of the reply was not read because it is too large. The connection cannot be used again.
    pub is_too_large: bool,
}

/// The next entry of a reply.
enum NextEntry {
    /// An entry; `None` if its ID is foreign.
    Entry(Option<LogEntry>),
    /// The entry does not fit into the rest of the read.
    DoesNotFit,
}

/// A connection for `XREAD`. It cannot be used again after an error or a cancelled read.
pub struct StreamReader {
    socket: Box<dyn Socket>,
    /// Received bytes that have not been decoded.
    buffer: BytesMut,
}

impl StreamReader {
    /// Connects and authenticates.
    ///
    /// # Errors
    /// The server is unavailable, or rejects the command.
    pub async fn connect(
        endpoint: &Endpoint,
        time_limit: Duration,
    ) -> Result<StreamReader, RedisError> {
        let connected = timeout(time_limit, StreamReader::authenticate(endpoint)).await;
        connected.unwrap_or_else(|_| Err(timed_out()))
    }

    async fn authenticate(endpoint: &Endpoint) -> Result<StreamReader, RedisError> {
        let socket = endpoint.connect().await?;
        let info = endpoint.client().get_connection_info();
        let mut reader = StreamReader {
            socket,
            buffer: BytesMut::new(),
        };
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            let mut auth = redis::cmd("AUTH");
            auth.arg(settings.username()).arg(password);
            reader.execute(&auth).await?;
        }
        if settings.db() != 0 {
            reader
                .execute(redis::cmd("SELECT").arg(settings.db()))
                .await?;
        }
        Ok(reader)
    }

    /// Executes a command whose reply is a status.
    async fn execute(&mut self, command: &Cmd) -> Result<(), RedisError> {
        self.socket.write_all(&command.get_packed_command()).await?;
        self.decode(|cursor| cursor.line().map(|_| ())).await
    }

    /// Sends an `XREAD` and reads its reply, up to about `max_bytes` of payloads. The payload of a larger entry is truncated.
    ///
    /// # Errors
    /// The server is unavailable, does not reply within `time_limit`, or rejects the command.
    pub async fn read(
        &mut self,
        command: &Cmd,
        time_limit: Duration,
        max_bytes: usize,
    ) -> Result<ReadReply, RedisError> {
        let reply = timeout(time_limit, self.reply(command, max_bytes)).await;
        reply.unwrap_or_else(|_| Err(timed_out()))
    }

    async fn reply(&mut self, command: &Cmd, max_bytes: usize) -> Result<ReadReply, RedisError> {
        self.socket.write_all(&command.get_packed_command()).await?;
        let count = self.decode(|cursor| cursor.array()).await?.unwrap_or(0);
        let (mut streams, mut taken, mut is_too_large) = (Vec::new(), 0, false);
        for _ in 0..count {
            let (name, count) = self.decode(|cursor| cursor.stream()).await?;
            let (mut entries, mut ends_at_foreign_id) = (Vec::new(), false);
            for _ in 0..count {
                is_too_large = taken >= max_bytes;
                let next = match is_too_large {
                    true => NextEntry::DoesNotFit,
                    false => self.entry(taken, max_bytes).await?,
                };
                match next {
                    NextEntry::Entry(Some(entry)) if !ends_at_foreign_id => {
                        taken += entry.payload.len();
                        entries.push(entry);
                    }
                    NextEntry::Entry(_) => ends_at_foreign_id = true,
                    NextEntry::DoesNotFit => {
                        is_too_large = true;
                        break;
                    }
                }
            }
            if ends_at_foreign_id || !entries.is_empty() {
                streams.push(StreamEntries {
                    name,
                    entries,
                    ends_at_foreign_id,
                });
            }
            if is_too_large {
                break;
            }
        }
        Ok(ReadReply {
            streams,
            is_too_large,
        })
    }

    /// Reads the next entry, after `taken` of `max_bytes`.
    async fn entry(&mut self, taken: usize, max_bytes: usize) -> Result<NextEntry, RedisError> {
        loop {
            let mut cursor = Cursor(&self.buffer);
            match cursor.entry() {
                Ok(entry) => {
                    let decoded = self.buffer.len() - cursor.0.len();
                    self.buffer.advance(decoded);
                    return Ok(NextEntry::Entry(entry));
                }
                Err(ReadError::Incomplete) if self.buffer.len() < BUFFERED_ENTRY_BYTES => {
                    self.fill().await?
                }
                Err(ReadError::Incomplete) => return self.large_entry(taken, max_bytes).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads a large entry one string at a time. Strings after the payload are discarded. A group is never that large.
    async fn large_entry(
        &mut self,
        taken: usize,
        max_bytes: usize,
    ) -> Result<NextEntry, RedisError> {
        let offset = self.decode(|cursor| cursor.entry_offset()).await?;
        let count = self.decode(|cursor| cursor.array()).await?.unwrap_or(0);
        let (mut field, mut payload) = (Vec::new(), Vec::new());
        let (mut size, mut is_whole) = (0, true);
        for at in 0..count {
            let length = self.decode(|cursor| cursor.length(b'$')).await?;
            let length = length.ok_or_else(|| invalid("nil instead of a string"))?;
            size += length;
            match at {
                0 => field = self.string(length, FIELD_BYTES).await?,
                1 if length > max_bytes => {
                    payload = self.string(length, TRUNCATED_PAYLOAD_BYTES).await?;
                    is_whole = false;
                }
                1 if taken > 0 && taken + length > max_bytes => return Ok(NextEntry::DoesNotFit),
                1 => payload = self.string(length, length).await?,
                _ => drop(self.string(length, 0).await?),
            }
        }
        let strings = EntryStrings {
            count,
            field: &field,
            payload,
            ..EntryStrings::default()
        };
        Ok(NextEntry::Entry(offset.map(|offset| LogEntry {
            is_whole,
            ..LogEntry::from_strings(offset, strings, size)
        })))
    }

    /// Reads a string of this length and its line end. Returns the first `keep` bytes.
    async fn string(&mut self, length: usize, keep: usize) -> Result<Vec<u8>, RedisError> {
        let keep = keep.min(length);
        let mut kept = Vec::with_capacity(keep);
        let mut left = length + 2;
        loop {
            let available = left.min(self.buffer.len());
            let kept_now = available.min(keep - kept.len());
            kept.extend_from_slice(&self.buffer[..kept_now]);
            self.buffer.advance(available);
            left -= available;
            if left == 0 {
                return Ok(kept);
            }
            self.fill().await?;
        }
    }

    /// Decodes an item as soon as it has arrived completely.
    async fn decode<T>(
        &mut self,
        item: impl Fn(&mut Cursor<'_>) -> Result<T, ReadError>,
    ) -> Result<T, RedisError> {
        loop {
            let mut cursor = Cursor(&self.buffer);
            match item(&mut cursor) {
                Ok(item) => {
                    let decoded = self.buffer.len() - cursor.0.len();
                    self.buffer.advance(decoded);
                    return Ok(item);
                }
                Err(ReadError::Incomplete) => self.fill().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn fill(&mut self) -> Result<(), RedisError> {
        self.buffer.reserve(READ_BYTES);
        match self.socket.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            _ => Ok(()),
        }
    }
}

fn timed_out() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

fn invalid(error: &'static str) -> RedisError {
    io::Error::new(io::ErrorKind::InvalidData, error).into()
}

/// An error reply: a code, a space, a message.
fn error_reply(line: &str) -> RedisError {
    let (code, message) = line.split_once(' ').unwrap_or((line, ""));
    redis::make_extension_error(code.to_owned(), Some(message.to_owned()))
}

/// Why an item cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
enum ReadError {
    /// It has not arrived completely.
    Incomplete,
    /// It is an error reply.
    ErrorReply(String),
    /// It is malformed.
    Malformed(&'static str),
}

impl From<ReadError> for RedisError {
    fn from(error: ReadError) -> RedisError {
        match error {
            ReadError::Incomplete => invalid("incomplete reply"),
            ReadError::ErrorReply(line) => error_reply(&line),
            ReadError::Malformed(error) => invalid(error),
        }
    }
}

/// Received bytes to decode. An item that is decoded is removed from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// A line without its end.
    ///
    /// # Errors
    /// The line is an error reply.
    fn line(&mut self) -> Result<&'a [u8], ReadError> {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or(ReadError::Incomplete)?;
        let line = &self.0[..end];
        self.0.advance(end + 1);
        let line = line.strip_suffix(b"\r");
        let line = line.ok_or(ReadError::Malformed("a line does not end in CRLF"))?;
        match line.strip_prefix(b"-") {
            Some(error) => Err(ReadError::ErrorReply(String::from_utf8_lossy(error).into())),
            None => Ok(line),
        }
    }

    /// The length of a string (`$`) or array (`*`); `None` for nil.
    fn length(&mut self, kind: u8) -> Result<Option<usize>, ReadError> {
        let line = self.line()?;
        let (first, digits) = line
            .split_first()
            .ok_or(ReadError::Malformed("empty line"))?;
        if *first != kind {
            return Err(ReadError::Malformed("unexpected type of reply"));
        }
        if digits == b"-1" {
            return Ok(None);
        }
        let digit = |sum: usize, byte: &u8| {
            let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
            Some(sum * 10 + usize::from(digit)).filter(|sum| *sum <= MAX_LENGTH)
        };
        let length = digits.iter().try_fold(0, digit);
        length
            .map(Some)
            .ok_or(ReadError::Malformed("invalid length"))
    }

    fn array(&mut self) -> Result<Option<usize>, ReadError> {
        self.length(b'*')
    }

    /// The header of an array of two.
    fn pair(&mut self) -> Result<(), ReadError> {
        match self.array()? {
            Some(2) => Ok(()),
            _ => Err(ReadError::Malformed("not an array of two")),
        }
    }

    fn bulk(&mut self) -> Result<&'a [u8], ReadError> {
        let length = self.length(b'$')?;
        let length = length.ok_or(ReadError::Malformed("nil instead of a string"))?;
        if self.0.len() < length + 2 {
            return Err(ReadError::Incomplete);
        }
        let bytes = &self.0[..length];
        self.0.advance(length + 2);
        Ok(bytes)
    }

    /// The key of a stream, and the number of its entries.
    fn stream(&mut self) -> Result<(Vec<u8>, usize), ReadError> {
        self.pair()?;
        let name = self.bulk()?.to_vec();
        Ok((name, self.array()?.unwrap_or(0)))
    }

    /// The header and the ID of an entry; `None` if the ID is foreign.
    fn entry_offset(&mut self) -> Result<Option<u64>, ReadError> {
        self.pair()?;
        self.bulk().map(offset)
    }

    /// An entry; `None` if its ID is foreign.
    fn entry(&mut self) -> Result<Option<LogEntry>, ReadError> {
        let offset = self.entry_offset()?;
        let count = self.array()?.unwrap_or(0);
        let mut strings: [&[u8]; 4] = [&[]; 4];
        let mut size = 0;
        for at in 0..count {
            let string = self.bulk()?;
            size += string.len();
            if let Some(kept) = strings.get_mut(at) {
                *kept = string;
            }
        }
        let [field, payload, name, value] = strings;
        Ok(offset.map(|offset| {
            let strings = EntryStrings {
                count,
                field,
                payload: payload.to_vec(),
                second: (name, value),
            };
            LogEntry::from_strings(offset, strings, size)
        }))
    }
}

#[cfg(test)]
mod tests;
