//! Every test of countd with a real server. One binary, so that it links once.

mod model;
mod support;
