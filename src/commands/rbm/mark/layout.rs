//! The positions of the parts of a call. The command and the server's keys requests parse them with the same code.
//!
//! ```text
//! key member [member ...] [COUNT counters-key [ROW id] idx [LEN n] [VERIFY]] [EVENT stream [SEQ] [MAXLEN n] field value ...]
//! ```
//! MARK and UNMARK have one member; MMARK and MUNMARK have all up to COUNT or EVENT, which are no numbers. EVENT comes last:
//! all arguments after its stream, SEQ and MAXLEN are fields and values.

use std::ops::Range;

use crate::error::Error;
use crate::server::Call;

/// The positions of the arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The members.
    pub members: Range<usize>,
    /// The arguments of COUNT, if given.
    pub count: Option<CountArgs>,
    /// The arguments of EVENT, if given.
    pub event: Option<EventArgs>,
}

/// `COUNT counters-key [ROW id] idx [LEN n] [VERIFY]`
#[derive(Debug, PartialEq, Eq)]
pub struct CountArgs {
    /// The key of the object or table.
    pub key: usize,
    /// The id after ROW.
    pub row: Option<usize>,
    /// The idx.
    pub idx: usize,
    /// The number after LEN.
    pub len: Option<usize>,
    /// Whether VERIFY is given.
    pub verify: bool,
}

/// `EVENT stream [SEQ] [MAXLEN n] field value ...`
#[derive(Debug, PartialEq, Eq)]
pub struct EventArgs {
    /// The key of the stream.
    pub stream: usize,
    /// Whether the entry's ID is `0-*`.
    pub seq: bool,
    /// The number after MAXLEN.
    pub maxlen: Option<usize>,
    /// The first field.
    pub fields: usize,
}

impl Layout {
    /// The argument that names the set.
    pub const SET: usize = 1;
    /// The first member.
    pub const MEMBER: usize = 2;
    /// The index of the set in [`Layout::keys`].
    pub const SET_KEY: usize = 0;
    /// The index of the object or table in [`Layout::keys`], if COUNT is given.
    pub const COUNTER_KEY: usize = 1;

    /// Parses the call. With `many` it can have several members.
    pub fn parse(call: &Call, many: bool) -> Result<Layout, Error> {
        let mut layout = Layout::default();
        let mut at = Layout::MEMBER + 1;
        if call.len() < at {
            return Err(Error::Arity);
        }
        while many && at < call.len() && !call.is(at, "COUNT") && !call.is(at, "EVENT") {
            at += 1;
        }
        layout.members = Layout::MEMBER..at;
        if at < call.len() && call.is(at, "COUNT") {
            let count = parse_count(call, at + 1)?;
            at = count.len.unwrap_or(count.idx) + 1 + usize::from(count.verify);
            layout.count = Some(count);
        }
        if at < call.len() && call.is(at, "EVENT") {
            layout.event = Some(parse_event(call, at + 1)?);
        } else if at != call.len() {
            return Err(Error::Syntax);
        }
        Ok(layout)
    }

    /// The arguments that name keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let count = self.count.as_ref().map(|count| count.key);
        let stream = self.event.as_ref().map(|event| event.stream);
        [Some(Layout::SET), count, stream].into_iter().flatten()
    }
}

fn parse_count(call: &Call, key: usize) -> Result<CountArgs, Error> {
    // An idx is a number, so it differs from ROW.
    let row = (key + 1 < call.len() && call.is(key + 1, "ROW")).then_some(key + 2);
    let idx = row.map_or(key + 1, |id| id + 1);
    let after = idx + 1;
    if after > call.len() {
        return Err(Error::Syntax);
    }
    let len = (after < call.len() && call.is(after, "LEN")).then_some(after + 1);
    if len.is_some_and(|len| len >= call.len()) {
        return Err(Error::Syntax);
    }
    let last = len.unwrap_or(idx) + 1;
    let verify = last < call.len() && call.is(last, "VERIFY");
    Ok(CountArgs {
        key,
        row,
        idx,
        len,
        verify,
    })
}

fn parse_event(call: &Call, stream: usize) -> Result<EventArgs, Error> {
    if stream >= call.len() {
        return Err(Error::Syntax);
    }
    let (mut seq, mut maxlen, mut at) = (false, None, stream + 1);
    loop {
        if at < call.len() && !seq && call.is(at, "SEQ") {
            seq = true;
            at += 1;
        } else if at + 1 < call.len() && maxlen.is_none() && call.is(at, "MAXLEN") {
            maxlen = Some(at + 1);
            at += 2;
        } else {
            break;
        }
    }
    let words = call.len() - at.min(call.len());
    if words == 0 || !words.is_multiple_of(2) {
        return Err(Error::Arity); // as XADD
    }
    Ok(EventArgs {
        stream,
        seq,
        maxlen,
        fields: at,
    })
}
