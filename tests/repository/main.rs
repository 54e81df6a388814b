//! Rules that the repository's own files keep: the order of layers, and plain English.

mod layers;
mod prose;
