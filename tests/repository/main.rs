//! Rules for the repository's own files: the order of layers, the length of files, plain English, the one place that
//! starts threads, and links from the table of sources to code that exists.

mod fidelity;
mod imports;
mod layers;
mod length;
mod prose;
mod starts;
