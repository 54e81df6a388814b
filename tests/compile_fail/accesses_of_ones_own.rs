// What a task accesses is declared by regions alone: these declare nothing and would give `&mut` views.
#![forbid(unsafe_code)]
use thalweg::error::SubmitError;
use thalweg::memory::{InOut, Out};
use thalweg::prelude::*;
use thalweg::region::Block;
use thalweg::task::{AccessSpec, Accesses, Ranges};

struct Liar<'d>(&'d Data<u64>);

impl Accesses for Liar<'_> {
    type Stored = (InOut<u64, Ix1>,);
    fn check(&self, _: u64) -> Result<(), SubmitError> {
        Ok(())
    }
}

impl AccessSpec for Liar<'_> {
    type Stored = Out<u64, Ix1>;
    fn check(&self, _: u64) -> Result<(), SubmitError> {
        Ok(())
    }
}

struct Elsewhere;

impl Ranges<Ix1> for Elsewhere {
    fn block(self) -> Block {
        Block::new(&[0..1, 0..1 << 40])
    }
}

fn main() {}
