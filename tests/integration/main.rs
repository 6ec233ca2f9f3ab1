//! Every test of the module in a real server. One binary, so that it links once.

mod acl;
mod bounds;
mod cluster;
mod convergence;
mod docs;
mod effects;
mod events;
mod examples;
mod faults;
mod harness;
mod hostile;
mod keys;
mod manifest;
mod noops;
mod observer;
mod replication;
mod reshard;
mod router;
mod scenarios;
mod settings;
mod survival;
mod totals;
mod tracking;
mod traffic;
mod world;
mod writes;
