//! `RBM.*`: exact sets of 64-bit ids.

mod add;
mod adopt;
mod algebra;
mod card;
mod contains;
mod info;
mod mark;
mod order;
mod page;
mod rem;
mod scan;
mod transfer;

pub use add::Add;
pub use adopt::Adopt;
pub use algebra::{Op, OpCard};
pub use card::{Card, MCard};
pub use contains::{Contains, MContains};
pub use info::Info;
pub use mark::{MMark, MUnmark, Mark, Unmark};
pub use order::{Count, Max, Min, Rank, Select};
pub use page::Page;
pub use rem::Rem;
pub use scan::Scan;
pub use transfer::{Export, Import};
