//! How commands reach a server.

use crate::redis::replicas::Replicas;
use std::sync::Arc;

/// How the commands of a connection reach a server.
#[derive(Clone)]
pub(super) enum Via<A> {
    /// Directly.
    Primary,
    /// Over connections for writes that wait for acknowledgements.
    Acked(A),
    /// By replicas whose data is new enough, if there are any. The commands must be reads.
    Replicas(Arc<Replicas>),
}
