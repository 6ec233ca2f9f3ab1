//! Reading many entries at once. The tree of values that a client library makes of a reply costs more than all else that the
//! consumer does with an event, so this reads `XREAD`'s reply as it comes.

use super::{Entry, Kind};
use redis::{Client, Cmd, ConnectionAddr, RedisError};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// What is read from the socket at once.
const READ_BYTES: usize = 256 * 1024;
/// No reply has a longer string.
const MAX_BYTES: usize = 512 * 1024 * 1024;

/// Any kind of stream.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

/// What was read of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: Vec<u8>,
    /// Its entries up to the first whose id is no offset.
    pub entries: Vec<Entry>,
    /// There is one.
    pub is_cut: bool,
}

/// A connection for `XREAD` alone. After an error, or a read that was given up, it is of no more use.
pub struct Reader {
    stream: Box<dyn Stream>,
    /// What came and was not used yet, from `at` on.
    buffer: Vec<u8>,
    at: usize,
}

impl Reader {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The server is not there, or refuses.
    pub async fn connect(client: &Client, limit: Duration) -> Result<Reader, RedisError> {
        let connected = timeout(limit, Reader::log_in(client)).await;
        connected.unwrap_or_else(|_| Err(late()))
    }

    async fn log_in(client: &Client) -> Result<Reader, RedisError> {
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
        let mut reader = Reader {
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

    /// Sends an `XREAD` and reads its reply.
    ///
    /// # Errors
    /// The server is gone, says nothing for so long, or refuses.
    pub async fn read(&mut self, command: &Cmd, limit: Duration) -> Result<Vec<Found>, RedisError> {
        let reply = timeout(limit, self.reply(command)).await;
        reply.unwrap_or_else(|_| Err(late()))
    }

    async fn reply(&mut self, command: &Cmd) -> Result<Vec<Found>, RedisError> {
        self.stream.write_all(&command.get_packed_command()).await?;
        let streams = self.decode(|cursor| cursor.array()).await?.unwrap_or(0);
        let mut found = Vec::new();
        for _ in 0..streams {
            let (name, count) = self.decode(|cursor| cursor.stream()).await?;
            let (mut entries, mut is_cut) = (Vec::new(), false);
            for _ in 0..count {
                match self.decode(|cursor| cursor.entry()).await? {
                    Some(entry) if !is_cut => entries.push(entry),
                    _ => is_cut = true,
                }
            }
            found.push(Found {
                name,
                entries,
                is_cut,
            });
        }
        Ok(found)
    }

    /// Decodes something, as soon as all of it is there.
    async fn decode<T>(
        &mut self,
        what: impl Fn(&mut Cursor<'_>) -> Result<T, Trouble>,
    ) -> Result<T, RedisError> {
        loop {
            let mut cursor = Cursor(&self.buffer[self.at..]);
            match what(&mut cursor) {
                Ok(found) => {
                    self.at = self.buffer.len() - cursor.0.len();
                    return Ok(found);
                }
                Err(Trouble::Short) => self.fill().await?,
                Err(Trouble::Refused(line)) => return Err(refusal(&line)),
                Err(Trouble::Broken(why)) => return Err(broken(why)),
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
enum Trouble {
    /// Not all of it is there.
    Short,
    /// It is an error of the server.
    Refused(String),
    /// It is no such thing.
    Broken(&'static str),
}

/// What is left to be decoded.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// A line without its end. One that is an error is one here.
    fn line(&mut self) -> Result<&'a [u8], Trouble> {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (line, rest) = self.0.split_at(end.ok_or(Trouble::Short)?);
        self.0 = &rest[1..];
        let line = line.strip_suffix(b"\r");
        let line = line.ok_or(Trouble::Broken("a line without its end"))?;
        match line.strip_prefix(b"-") {
            Some(error) => Err(Trouble::Refused(String::from_utf8_lossy(error).into())),
            None => Ok(line),
        }
    }

    /// A length; `None` is nil.
    fn length(&mut self, kind: u8) -> Result<Option<usize>, Trouble> {
        let line = self.line()?;
        let (first, digits) = line.split_first().ok_or(Trouble::Broken("an empty line"))?;
        if *first != kind {
            return Err(Trouble::Broken("a reply of another kind"));
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
            .ok_or(Trouble::Broken("a length that is none"))
    }

    fn array(&mut self) -> Result<Option<usize>, Trouble> {
        self.length(b'*')
    }

    /// An array of two.
    fn pair(&mut self) -> Result<(), Trouble> {
        match self.array()? {
            Some(2) => Ok(()),
            _ => Err(Trouble::Broken("no pair")),
        }
    }

    fn bulk(&mut self) -> Result<&'a [u8], Trouble> {
        let length = self.length(b'$')?;
        let length = length.ok_or(Trouble::Broken("nil where a string should be"))?;
        if self.0.len() < length + 2 {
            return Err(Trouble::Short);
        }
        let (bytes, rest) = self.0.split_at(length);
        self.0 = &rest[2..];
        Ok(bytes)
    }

    /// A stream's name and how many entries follow.
    fn stream(&mut self) -> Result<(Vec<u8>, usize), Trouble> {
        self.pair()?;
        let name = self.bulk()?.to_vec();
        Ok((name, self.array()?.unwrap_or(0)))
    }

    /// An entry; `None` if its id is no offset.
    fn entry(&mut self) -> Result<Option<Entry>, Trouble> {
        self.pair()?;
        let offset = super::renumber::offset(self.bulk()?);
        let words = self.array()?.unwrap_or(0);
        let (mut field, mut payload): (&[u8], &[u8]) = (&[], &[]);
        for at in 0..words {
            let word = self.bulk()?;
            match at {
                0 => field = word,
                1 => payload = word,
                _ => {}
            }
        }
        let kind = match words {
            2 => Kind::of(field),
            _ => Kind::Unknown,
        };
        Ok(offset.map(|offset| Entry {
            offset,
            kind,
            payload: payload.to_vec(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &[u8] =
        b"*2\r\n*2\r\n$4\r\nlog1\r\n*2\r\n*2\r\n$3\r\n0-7\r\n*2\r\n$1\r\ne\r\n$4\r\n{\r\n}\r\n\
        *2\r\n$3\r\n0-8\r\n*4\r\n$1\r\nd\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n\
        *2\r\n$4\r\nlog2\r\n*1\r\n*2\r\n$4\r\n0-10\r\n*2\r\n$1\r\nd\r\n$0\r\n\r\n";

    /// A reader whose server says `reply`, `piece` bytes at a time.
    async fn read(reply: &[u8], piece: usize) -> Result<Vec<Found>, RedisError> {
        let (ours, theirs) = tokio::io::duplex(piece);
        let mut reader = Reader {
            stream: Box::new(ours),
            buffer: Vec::new(),
            at: 0,
        };
        let reply = reply.to_vec();
        let (mut request, mut answer) = tokio::io::split(theirs);
        let asked = tokio::spawn(async move { request.read_to_end(&mut Vec::new()).await });
        let answered = tokio::spawn(async move {
            let sent = answer.write_all(&reply).await;
            sent.and(answer.shutdown().await)
        });
        let found = reader
            .read(&redis::cmd("XREAD"), Duration::from_secs(60))
            .await;
        drop(reader);
        // They may have been cut off, when the reader had seen enough.
        let _ = (asked.await, answered.await);
        found
    }

    fn entry(offset: u64, kind: Kind, payload: &str) -> Entry {
        let payload = payload.as_bytes().to_vec();
        Entry {
            offset,
            kind,
            payload,
        }
    }

    fn found(name: &str, entries: Vec<Entry>) -> Found {
        Found {
            name: name.as_bytes().to_vec(),
            entries,
            is_cut: false,
        }
    }

    #[tokio::test]
    async fn entries_with_ids_of_others_end_what_is_read_of_a_stream() {
        let reply = b"*2\r\n*2\r\n$1\r\na\r\n*3\r\n*2\r\n$3\r\n0-7\r\n*2\r\n$1\r\ne\r\n$1\r\nx\r\n\
            *2\r\n$3\r\n1-7\r\n*2\r\n$1\r\ne\r\n$1\r\nx\r\n*2\r\n$3\r\n1-8\r\n*0\r\n\
            *2\r\n$1\r\nb\r\n*1\r\n*2\r\n$3\r\n0-1\r\n*2\r\n$1\r\ne\r\n$1\r\ny\r\n";
        let cut = Found {
            is_cut: true,
            ..found("a", vec![entry(7, Kind::Event, "x")])
        };
        let whole = found("b", vec![entry(1, Kind::Event, "y")]);
        assert_eq!(read(reply, 64).await.expect("a reply"), [cut, whole]);
    }

    #[tokio::test]
    async fn replies_are_read_in_any_pieces() {
        let expected = vec![
            found(
                "log1",
                vec![
                    entry(7, Kind::Event, "{\r\n}"),
                    entry(8, Kind::Unknown, "x"),
                ],
            ),
            found("log2", vec![entry(10, Kind::Derived, "")]),
        ];
        for piece in [1, 2, 3, 7, 64, 1_000] {
            let found = read(REPLY, piece).await.expect("a reply");
            assert_eq!(found, expected, "pieces of {piece}");
        }
        for nothing in [&b"*-1\r\n"[..], b"*0\r\n"] {
            assert_eq!(read(nothing, 64).await.expect("a reply"), []);
        }
    }

    #[tokio::test]
    async fn errors_keep_their_code_and_what_is_broken_is_one() {
        let refused = read(b"-LOADING it is\r\n", 64).await;
        assert_eq!(
            refused
                .err()
                .and_then(|why| why.code().map(str::to_owned))
                .as_deref(),
            Some("LOADING")
        );
        for bad in [
            &b"+OK\r\n"[..],
            b"*x\r\n",
            b"*1\r\n*3\r\n",
            b"*1\r\n*2\r\n$-1\r\n",
            b"*99999999999999999999\r\n",
            &REPLY[..40],
        ] {
            let found = read(bad, 64).await;
            assert!(found.is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
