//! Addresses of servers.

/// The host and port of a server.
pub type Address = (String, u16);
