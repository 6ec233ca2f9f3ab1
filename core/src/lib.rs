//! Data structures.
