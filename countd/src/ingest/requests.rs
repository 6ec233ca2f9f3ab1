//! Requests that are prepared again if their entity was split or merged meanwhile.

use super::action::Action;
use crate::domain::config::{Count, FactKind, Metric};
use crate::domain::ids::Name;
use crate::domain::op::Op;
use std::sync::Arc;

/// The request of an action whose entity can be split.
pub(super) struct Request {
    pub metric: Name,
    pub action: Action,
    pub trace_id: String,
    pub ts: u64,
    /// The epoch of the layout by which the action was prepared.
    pub epoch: u64,
}

impl Request {
    /// The request of an action. `None` if the facts of its metric cannot be split.
    pub fn of(
        (name, metric, op): (&Name, &Metric, Op),
        action: &Action,
        (trace_id, ts, epoch): (&str, u64, u64),
    ) -> Option<Arc<Request>> {
        let can_split = metric.fact_kind() == Some(FactKind::Rbm)
            && metric.count == Count::Now
            && !metric.daily;
        can_split.then(|| {
            Arc::new(Request {
                metric: name.clone(),
                action: Action {
                    op: Some(op),
                    ..action.clone()
                },
                trace_id: trace_id.to_owned(),
                ts,
                epoch,
            })
        })
    }
}
