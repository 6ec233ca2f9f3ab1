//! The commands: one file each (or a pair that is one thing), and the table of all of them.

mod cint;
mod ctab;
#[cfg(feature = "fault-injection")]
mod fault;
mod ids;
mod rbm;

use crate::registry::{Row, row};

/// The longest bulk string that the server and its clients take, in bytes.
const MAX_REPLY: usize = 512 << 20;

/// What the module registers.
pub fn table() -> impl Iterator<Item = &'static Row> {
    let rows = CINT.iter().chain(CTAB).chain(RBM);
    #[cfg(feature = "fault-injection")]
    let rows = rows.chain(FAULTS);
    rows
}

static CINT: &[Row] = &[
    row::<cint::Init>(),
    row::<cint::Get>(),
    row::<cint::MGet>(),
    row::<cint::IncrBy>(),
    row::<cint::BatchIncr>(),
    row::<cint::Set>(),
    row::<cint::GetSet>(),
    row::<cint::Len>(),
    row::<cint::Dump>(),
    row::<cint::MDump>(),
    row::<cint::MRead>(),
    row::<cint::Resize>(),
    row::<cint::Export>(),
    row::<cint::Import>(),
    row::<cint::Adopt>(),
    row::<cint::Apply>(),
];

static CTAB: &[Row] = &[
    row::<ctab::Init>(),
    row::<ctab::Get>(),
    row::<ctab::MGet>(),
    row::<ctab::MRead>(),
    row::<ctab::IncrBy>(),
    row::<ctab::BatchIncr>(),
    row::<ctab::MIncrBy>(),
    row::<ctab::Set>(),
    row::<ctab::GetSet>(),
    row::<ctab::MApply>(),
    row::<ctab::Del>(),
    row::<ctab::Card>(),
    row::<ctab::Scan>(),
    row::<ctab::Resize>(),
    row::<ctab::Export>(),
    row::<ctab::Import>(),
    row::<ctab::Info>(),
];

static RBM: &[Row] = &[
    row::<rbm::Add>(),
    row::<rbm::Rem>(),
    row::<rbm::Contains>(),
    row::<rbm::MContains>(),
    row::<rbm::Card>(),
    row::<rbm::Min>(),
    row::<rbm::Max>(),
    row::<rbm::Rank>(),
    row::<rbm::Select>(),
    row::<rbm::Count>(),
    row::<rbm::Scan>(),
    row::<rbm::Op>(),
    row::<rbm::OpCard>(),
    row::<rbm::Export>(),
    row::<rbm::Import>(),
    row::<rbm::Info>(),
    row::<rbm::Adopt>(),
    row::<rbm::Mark>(),
    row::<rbm::Unmark>(),
];

#[cfg(feature = "fault-injection")]
static FAULTS: &[Row] = &[row::<fault::Panic>()];
