//! countd, the counting service around the CountInt module: an HTTP API for what users do, an event log, and the consumer that
//! counts it. It speaks nothing but the Redis protocol to the module.
//!
//! The rooms: [`config`] and [`ids`] check what comes in; [`keys`] makes every key; [`store`] is the connection, to many nodes if
//! need be ([`cluster`]); [`calls`] and [`scripts`] are what it sends, which [`rights`] checks; [`schema`] says which counter is which; [`facts`] and [`log`] are where actions go; [`service`]
//! does what is asked ([`actions`], [`reads`]) and [`http`] is its API; [`consumer`] counts the log; [`dead`] is what could not be
//! counted.

#![warn(missing_docs)]

pub mod actions;
pub mod calls;
pub mod cli;
pub mod cluster;
pub mod commands;
pub mod config;
pub mod consumer;
pub mod dead;
pub mod event;
pub mod facts;
pub mod health;
pub mod http;
pub mod ids;
pub mod keys;
pub mod limits;
pub mod log;
pub mod measures;
pub mod reads;
pub mod relay;
pub mod rights;
pub mod schema;
pub mod scripts;
pub mod service;
pub mod store;
