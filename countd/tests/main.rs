//! Every test of countd with a real server. One binary, so that it links once.

mod api;
mod cluster;
mod facts;
mod failover;
mod flood;
mod limits;
mod metrics;
mod model;
mod natures;
mod operations;
mod outages;
mod outbox;
mod poison;
mod schemas;
mod slow;
mod support;
mod tour;
