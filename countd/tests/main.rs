//! Every test of countd with a real server. One binary, so that it links once.

mod acl;
mod api;
mod clocks;
mod cluster;
mod connections;
mod damage;
mod facts;
mod failover;
mod flood;
mod limits;
mod memory;
mod metrics;
mod model;
mod natures;
mod operations;
mod outages;
mod outbox;
mod poison;
mod replies;
mod restarts;
mod schemas;
mod short;
mod slow;
mod strangers;
mod support;
mod tour;
