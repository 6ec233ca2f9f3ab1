//! Facts on split entities.

use crate::domain::split::SplitState;
use crate::facts::Fact;
use std::sync::Arc;

/// A fact on a split entity, and its place among the results of a page.
pub(super) struct SplitFact<'a> {
    pub place: usize,
    pub fact: Fact<'a>,
    pub state: Arc<SplitState>,
}
