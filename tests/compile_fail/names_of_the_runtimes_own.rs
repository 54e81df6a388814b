// Items that only the runtime may name have no public path.
#![forbid(unsafe_code)]
use thalweg::sealed::{INTERNAL, Internal};
use thalweg::task::{Owner, ReleasedCell};

fn main() {}
