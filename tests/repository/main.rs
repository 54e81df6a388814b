//! Rules for the repository's own files: the order of layers, and plain English.

mod imports;
mod layers;
mod prose;
