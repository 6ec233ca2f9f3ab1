//! Checks of the repository itself. They need neither a server nor a built module.

mod figures;
mod imports;
mod layers;
mod links;
mod readme;
