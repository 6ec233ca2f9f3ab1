//! Forged values, and how they reach the server.

/// The expected outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// An error or a valid value.
    Anything,
    /// An error.
    Refusal,
    /// A valid value.
    Load,
}

/// A forged value.
pub struct Forged {
    /// How it was forged.
    pub what: String,
    /// The body of a payload, or the argument of an IMPORT.
    pub bytes: Vec<u8>,
    pub expect: Expect,
}

impl Forged {
    pub fn new(what: impl Into<String>, bytes: Vec<u8>, expect: Expect) -> Forged {
        Forged {
            what: what.into(),
            bytes,
            expect,
        }
    }
}

/// One of the module's types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counters,
    Set,
    Table,
}

impl Kind {
    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counters => "CountInt5",
            Kind::Set => "RoaringBM",
            Kind::Table => "CountTab5",
        }
    }

    pub fn import(self) -> &'static str {
        match self {
            Kind::Counters => "CINT.IMPORT",
            Kind::Set => "RBM.IMPORT",
            Kind::Table => "CTAB.IMPORT",
        }
    }
}

/// How a value is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPath {
    /// RESTORE, with a valid footer.
    Restore,
    /// CINT.IMPORT, RBM.IMPORT or CTAB.IMPORT.
    Import,
}
