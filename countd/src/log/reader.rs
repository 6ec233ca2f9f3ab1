//! Reading many entries at once. The tree of values that a client library makes of a reply costs more than all else that the
//! consumer does with an event, so this reads `XREAD`'s reply as it comes.

use super::{EntryKind, LogEntry, START_OF_LONG};
use redis::{Client, Cmd, ConnectionAddr, RedisError};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// What is read from the socket at once.
const READ_BYTES: usize = 256 * 1024;
/// An entry that is longer is not waited for as a whole.
const LONG: usize = 1024 * 1024;
/// No field of a kind that is known is longer.
const MAX_FIELD: usize = 64;
/// No reply has a longer string.
const MAX_BYTES: usize = 512 * 1024 * 1024;

/// Any kind of stream.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

/// What was read of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct StreamEntries {
    /// Its name.
    pub name: Vec<u8>,
    /// Its entries up to the first whose id is no offset.
    pub entries: Vec<LogEntry>,
    /// There is one.
    pub ends_at_foreign_id: bool,
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// What was read of each stream.
    pub found: Vec<StreamEntries>,
    /// There is more, and it was too long. The connection is of no more use.
    pub is_too_long: bool,
}

/// What comes next in a reply.
enum Next {
    /// An entry; `None` if its id is no offset.
    Entry(Option<LogEntry>),
    /// One that is too long for what has been read before it.
    NoRoom,
}

/// A connection for `XREAD` alone. After an error, or a read that was given up, it is of no more use.
pub struct StreamReader {
    stream: Box<dyn Stream>,
    /// What came and was not used yet, from `at` on.
    buffer: Vec<u8>,
    at: usize,
}

impl StreamReader {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The server is not there, or refuses.
    pub async fn connect(client: &Client, limit: Duration) -> Result<StreamReader, RedisError> {
        let connected = timeout(limit, StreamReader::log_in(client)).await;
        connected.unwrap_or_else(|_| Err(late()))
    }

    async fn log_in(client: &Client) -> Result<StreamReader, RedisError> {
        let info = client.get_connection_info();
        let stream: Box<dyn Stream> = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            ConnectionAddr::Unix(path) => Box::new(UnixStream::connect(path).await?),
            _ => return Err(broken("addresses of this kind are not supported")),
        };
        let mut reader = StreamReader {
            stream,
            buffer: Vec::new(),
            at: 0,
        };
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            let mut auth = redis::cmd("AUTH");
            auth.arg(settings.username()).arg(password);
            reader.order(&auth).await?;
        }
        if settings.db() != 0 {
            reader
                .order(redis::cmd("SELECT").arg(settings.db()))
                .await?;
        }
        Ok(reader)
    }

    /// A command that replies `OK`.
    async fn order(&mut self, command: &Cmd) -> Result<(), RedisError> {
        self.stream.write_all(&command.get_packed_command()).await?;
        self.decode(|cursor| cursor.line().map(|_| ())).await
    }

    /// Sends an `XREAD` and reads its reply, up to about `most` bytes of payloads. An entry that is longer is read in part.
    ///
    /// # Errors
    /// The server is gone, says nothing for so long, or refuses.
    pub async fn read(
        &mut self,
        command: &Cmd,
        limit: Duration,
        most: usize,
    ) -> Result<Reply, RedisError> {
        let reply = timeout(limit, self.reply(command, most)).await;
        reply.unwrap_or_else(|_| Err(late()))
    }

    async fn reply(&mut self, command: &Cmd, most: usize) -> Result<Reply, RedisError> {
        self.stream.write_all(&command.get_packed_command()).await?;
        let streams = self.decode(|cursor| cursor.array()).await?.unwrap_or(0);
        let (mut found, mut taken, mut is_too_long) = (Vec::new(), 0, false);
        for _ in 0..streams {
            let (name, count) = self.decode(|cursor| cursor.stream()).await?;
            let (mut entries, mut ends_at_foreign_id) = (Vec::new(), false);
            for _ in 0..count {
                is_too_long = taken >= most;
                let next = match is_too_long {
                    true => Next::NoRoom,
                    false => self.entry(taken, most).await?,
                };
                match next {
                    Next::Entry(Some(entry)) if !ends_at_foreign_id => {
                        taken += entry.payload.len();
                        entries.push(entry);
                    }
                    Next::Entry(_) => ends_at_foreign_id = true,
                    Next::NoRoom => {
                        is_too_long = true;
                        break;
                    }
                }
            }
            if ends_at_foreign_id || !entries.is_empty() {
                found.push(StreamEntries {
                    name,
                    entries,
                    ends_at_foreign_id,
                });
            }
            if is_too_long {
                break;
            }
        }
        Ok(Reply { found, is_too_long })
    }

    /// The next entry, when `taken` bytes of `most` have been read.
    async fn entry(&mut self, taken: usize, most: usize) -> Result<Next, RedisError> {
        loop {
            let mut cursor = Cursor(&self.buffer[self.at..]);
            match cursor.entry() {
                Ok(entry) => {
                    self.at = self.buffer.len() - cursor.0.len();
                    return Ok(Next::Entry(entry));
                }
                Err(ReadError::Short) if self.buffer.len() - self.at < LONG => self.fill().await?,
                Err(ReadError::Short) => return self.long_entry(taken, most).await,
                Err(trouble) => return Err(trouble.into()),
            }
        }
    }

    /// The same, word by word: of those that nobody needs nothing is kept.
    async fn long_entry(&mut self, taken: usize, most: usize) -> Result<Next, RedisError> {
        let id = |cursor: &mut Cursor<'_>| {
            cursor.pair()?;
            cursor.bulk().map(super::renumber::offset)
        };
        let offset = self.decode(id).await?;
        let words = self.decode(|cursor| cursor.array()).await?.unwrap_or(0);
        let (mut field, mut payload) = (Vec::new(), Vec::new());
        let (mut size, mut is_whole) = (0, true);
        for at in 0..words {
            let length = self.decode(|cursor| cursor.length(b'$')).await?;
            let length = length.ok_or_else(|| broken("nil where a string should be"))?;
            size += length;
            match at {
                0 => field = self.word(length, MAX_FIELD).await?,
                1 if length > most => {
                    payload = self.word(length, START_OF_LONG).await?;
                    is_whole = false;
                }
                1 if taken > 0 && taken + length > most => return Ok(Next::NoRoom),
                1 => payload = self.word(length, length).await?,
                _ => drop(self.word(length, 0).await?),
            }
        }
        let kind = match words {
            2 => EntryKind::of(&field),
            _ => EntryKind::Unknown,
        };
        Ok(Next::Entry(offset.map(|offset| LogEntry {
            offset,
            kind,
            payload,
            size,
            is_whole,
        })))
    }

    /// The first `keep` bytes of a string of this length, whose end is read too.
    async fn word(&mut self, length: usize, keep: usize) -> Result<Vec<u8>, RedisError> {
        let keep = keep.min(length);
        let mut kept = Vec::with_capacity(keep);
        let mut left = length + 2;
        loop {
            let here = &self.buffer[self.at..];
            let here = &here[..left.min(here.len())];
            kept.extend_from_slice(&here[..(keep - kept.len()).min(here.len())]);
            self.at += here.len();
            left -= here.len();
            if left == 0 {
                return Ok(kept);
            }
            self.fill().await?;
        }
    }

    /// Decodes something, as soon as all of it is there.
    async fn decode<T>(
        &mut self,
        what: impl Fn(&mut Cursor<'_>) -> Result<T, ReadError>,
    ) -> Result<T, RedisError> {
        loop {
            let mut cursor = Cursor(&self.buffer[self.at..]);
            match what(&mut cursor) {
                Ok(found) => {
                    self.at = self.buffer.len() - cursor.0.len();
                    return Ok(found);
                }
                Err(ReadError::Short) => self.fill().await?,
                Err(trouble) => return Err(trouble.into()),
            }
        }
    }

    async fn fill(&mut self) -> Result<(), RedisError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            _ => Ok(()),
        }
    }
}

fn late() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}

fn broken(why: &'static str) -> RedisError {
    io::Error::new(io::ErrorKind::InvalidData, why).into()
}

/// An error that the server replied: a code, a blank, words.
fn refusal(line: &str) -> RedisError {
    let (code, words) = line.split_once(' ').unwrap_or((line, ""));
    redis::make_extension_error(code.to_owned(), Some(words.to_owned()))
}

/// Why something cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
enum ReadError {
    /// Not all of it is there.
    Short,
    /// It is an error of the server.
    Refused(String),
    /// It is no such thing.
    Broken(&'static str),
}

impl From<ReadError> for RedisError {
    fn from(trouble: ReadError) -> RedisError {
        match trouble {
            ReadError::Short => broken("a reply without its end"),
            ReadError::Refused(line) => refusal(&line),
            ReadError::Broken(why) => broken(why),
        }
    }
}

/// What is left to be decoded.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// A line without its end. One that is an error is one here.
    fn line(&mut self) -> Result<&'a [u8], ReadError> {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (line, rest) = self.0.split_at(end.ok_or(ReadError::Short)?);
        self.0 = &rest[1..];
        let line = line.strip_suffix(b"\r");
        let line = line.ok_or(ReadError::Broken("a line without its end"))?;
        match line.strip_prefix(b"-") {
            Some(error) => Err(ReadError::Refused(String::from_utf8_lossy(error).into())),
            None => Ok(line),
        }
    }

    /// A length; `None` is nil.
    fn length(&mut self, kind: u8) -> Result<Option<usize>, ReadError> {
        let line = self.line()?;
        let (first, digits) = line
            .split_first()
            .ok_or(ReadError::Broken("an empty line"))?;
        if *first != kind {
            return Err(ReadError::Broken("a reply of another kind"));
        }
        if digits == b"-1" {
            return Ok(None);
        }
        let digit = |sum: usize, byte: &u8| {
            let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
            Some(sum * 10 + usize::from(digit)).filter(|sum| *sum <= MAX_BYTES)
        };
        let length = digits.iter().try_fold(0, digit);
        length
            .map(Some)
            .ok_or(ReadError::Broken("a length that is none"))
    }

    fn array(&mut self) -> Result<Option<usize>, ReadError> {
        self.length(b'*')
    }

    /// An array of two.
    fn pair(&mut self) -> Result<(), ReadError> {
        match self.array()? {
            Some(2) => Ok(()),
            _ => Err(ReadError::Broken("no pair")),
        }
    }

    fn bulk(&mut self) -> Result<&'a [u8], ReadError> {
        let length = self.length(b'$')?;
        let length = length.ok_or(ReadError::Broken("nil where a string should be"))?;
        if self.0.len() < length + 2 {
            return Err(ReadError::Short);
        }
        let (bytes, rest) = self.0.split_at(length);
        self.0 = &rest[2..];
        Ok(bytes)
    }

    /// A stream's name and how many entries follow.
    fn stream(&mut self) -> Result<(Vec<u8>, usize), ReadError> {
        self.pair()?;
        let name = self.bulk()?.to_vec();
        Ok((name, self.array()?.unwrap_or(0)))
    }

    /// An entry; `None` if its id is no offset.
    fn entry(&mut self) -> Result<Option<LogEntry>, ReadError> {
        self.pair()?;
        let offset = super::renumber::offset(self.bulk()?);
        let words = self.array()?.unwrap_or(0);
        let (mut field, mut payload): (&[u8], &[u8]) = (&[], &[]);
        let mut size = 0;
        for at in 0..words {
            let word = self.bulk()?;
            size += word.len();
            match at {
                0 => field = word,
                1 => payload = word,
                _ => {}
            }
        }
        let kind = match words {
            2 => EntryKind::of(field),
            _ => EntryKind::Unknown,
        };
        Ok(offset.map(|offset| LogEntry {
            offset,
            kind,
            payload: payload.to_vec(),
            size,
            is_whole: true,
        }))
    }
}

#[cfg(test)]
mod tests;
