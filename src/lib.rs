//! The CountInt module.
