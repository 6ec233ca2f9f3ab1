//! The options `[LEN n] [OVERFLOW SAT|FAIL]`: in any order and case, each at most once.

use countint_core::countint::Overflow;

use crate::error::Error;
use crate::server::{Arg, Call};

/// `[LEN n]`
pub const LEN: Arg = Arg::int(c"len").after(c"LEN").optional();

/// `[OVERFLOW SAT|FAIL]`
pub const OVERFLOW: Arg = Arg::one_of(
    c"overflow",
    &[Arg::word(c"sat", c"SAT"), Arg::word(c"fail", c"FAIL")],
)
.after(c"OVERFLOW")
.optional();

/// The options of a call. Their numbers are not parsed yet, because syntax is checked before numbers.
#[derive(Default)]
pub struct Options {
    len_at: Option<usize>,
    overflow: Option<Overflow>,
}

/// The options that a command accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// `[LEN n]`
    Len,
    /// `[LEN n] [OVERFLOW SAT|FAIL]`
    LenAndOverflow,
}

impl Options {
    /// Parses the options from argument `from` to the last argument.
    #[inline]
    pub fn trailing(call: &Call, from: usize, accepted: Accepted) -> Result<Self, Error> {
        match Self::leading(call, from, accepted)? {
            (options, end) if end == call.len() => Ok(options),
            _ => Err(Error::Syntax),
        }
    }

    /// Parses the options from argument `from` on, up to the first argument that is not an option. Returns its position.
    #[inline]
    pub fn leading(call: &Call, from: usize, accepted: Accepted) -> Result<(Self, usize), Error> {
        let (mut options, mut at) = (Options::default(), from);
        while at < call.len() {
            // Most arguments here are numbers, which differ from keywords in the first byte.
            if !call.arg(at).first().is_some_and(u8::is_ascii_alphabetic) {
                break;
            }
            if call.is(at, "LEN") {
                options.set_len(call, at)?;
            } else if accepted == Accepted::LenAndOverflow && call.is(at, "OVERFLOW") {
                options.set_overflow(call, at)?;
            } else {
                break;
            }
            at += 2;
        }
        Ok((options, at))
    }

    fn set_len(&mut self, call: &Call, at: usize) -> Result<(), Error> {
        let repeated = self.len_at.replace(at + 1).is_some();
        if repeated || at + 1 >= call.len() {
            Err(Error::Syntax)
        } else {
            Ok(())
        }
    }

    fn set_overflow(&mut self, call: &Call, at: usize) -> Result<(), Error> {
        let mode = match at + 1 {
            word if word >= call.len() => return Err(Error::Syntax),
            word if call.is(word, "SAT") => Overflow::Saturate,
            word if call.is(word, "FAIL") => Overflow::Fail,
            _ => return Err(Error::Syntax),
        };
        if self.overflow.replace(mode).is_some() {
            Err(Error::Syntax)
        } else {
            Ok(())
        }
    }

    /// The number after LEN.
    #[inline]
    pub fn len(&self, call: &Call) -> Result<Option<usize>, Error> {
        self.len_at.map(|at| call.length(at)).transpose()
    }

    /// The overflow mode; saturation by default.
    pub fn overflow(&self) -> Overflow {
        self.overflow.unwrap_or(Overflow::Saturate)
    }
}
