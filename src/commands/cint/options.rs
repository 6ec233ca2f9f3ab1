//! `[LEN n] [OVERFLOW SAT|FAIL]`: in any order and case, each at most once.

use countint_core::countint::Overflow;

use crate::call::Call;
use crate::error::Error;

/// The options as found, before their numbers are looked at (syntax is checked before numbers).
#[derive(Default)]
pub struct Options {
    len_at: Option<usize>,
    overflow: Option<Overflow>,
}

/// Which options a command takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// `[LEN n]`
    Len,
    /// `[LEN n] [OVERFLOW SAT|FAIL]`
    LenAndOverflow,
}

impl Options {
    /// Reads the options that stand last, from argument `from` on.
    #[inline]
    pub fn last(call: &Call, from: usize, takes: Takes) -> Result<Self, Error> {
        match Self::leading(call, from, takes)? {
            (options, end) if end == call.len() => Ok(options),
            _ => Err(Error::Syntax),
        }
    }

    /// Reads the options at the head of the arguments from `from` on; also where they end. What is no option ends
    /// them.
    #[inline]
    pub fn leading(call: &Call, from: usize, takes: Takes) -> Result<(Self, usize), Error> {
        let (mut options, mut at) = (Options::default(), from);
        while at < call.len() {
            // Numbers, which follow nearly always, are told from options by their first byte.
            if !call.arg(at).first().is_some_and(u8::is_ascii_alphabetic) {
                break;
            }
            if call.is(at, "LEN") {
                options.take_len(call, at)?;
            } else if takes == Takes::LenAndOverflow && call.is(at, "OVERFLOW") {
                options.take_overflow(call, at)?;
            } else {
                break;
            }
            at += 2;
        }
        Ok((options, at))
    }

    fn take_len(&mut self, call: &Call, at: usize) -> Result<(), Error> {
        let repeated = self.len_at.replace(at + 1).is_some();
        if repeated || at + 1 >= call.len() {
            Err(Error::Syntax)
        } else {
            Ok(())
        }
    }

    fn take_overflow(&mut self, call: &Call, at: usize) -> Result<(), Error> {
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

    /// What happens at the bounds; they stop a counter unless the client says otherwise.
    pub fn overflow(&self) -> Overflow {
        self.overflow.unwrap_or(Overflow::Saturate)
    }
}
