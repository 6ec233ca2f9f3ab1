//! The tests of countd that need a server. They form one binary, which links once.

mod acl;
mod api;
mod clocks;
mod cluster;
mod connections;
mod custom_metrics;
mod damage;
mod error_responses;
mod facts;
mod failover;
mod flood;
mod foreign_ids;
mod limits;
mod memory;
mod metrics;
mod model;
mod operations;
mod outages;
mod outbox;

mod poison;
mod schemas;
mod short_objects;
mod slow_clients;
mod startup;
mod support;
mod tour;
