//! The peer of a connection.

use std::net::SocketAddr;

/// The address of the peer of a connection. Each request has it as an extension.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);
