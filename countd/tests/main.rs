//! Every test of countd with a real server. One binary, so that it links once.

mod api;
mod cluster;
mod facts;
mod model;
mod operations;
mod poison;
mod schemas;
mod support;
mod tour;
