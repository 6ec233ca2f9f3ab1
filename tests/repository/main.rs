//! Checks of the repository itself. They need neither a server nor a built module.

mod compare;
mod elements;
mod figures;
mod imports;
mod layers;
mod links;
mod procedures;
mod readme;
mod releases;
mod translations;
mod typography;
