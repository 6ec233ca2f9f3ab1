//! Every test of the module in a real server. One binary, so that it links once.

mod harness;
mod noops;
mod observer;
mod scenarios;
mod survival;
mod world;
mod writes;
