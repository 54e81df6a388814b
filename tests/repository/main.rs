//! Rules for the repository's own files: the order of layers, the length of files, and plain English.

mod imports;
mod layers;
mod length;
mod prose;
