// What only the runtime may name has no public path.
#![forbid(unsafe_code)]
use thalweg::sealed::{INTERNAL, Internal};
use thalweg::task::{Owner, Recorded, ReleasedCell};

fn main() {}
