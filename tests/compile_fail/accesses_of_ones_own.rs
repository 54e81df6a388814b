// Tasks can only declare accesses by regions. These types declare nothing and would still hand out `&mut` views.
#![forbid(unsafe_code)]
use thalweg::error::SubmitError;
use thalweg::memory::{Update, Out};
use thalweg::prelude::*;
use thalweg::region::Block;
use thalweg::task::{AccessSpec, Accesses, IndexRange, IntoRegion, Ranges};

struct Liar<'d>(&'d Data<u64>);

struct Several<'d>(&'d Data<u64>);

impl Accesses for Several<'_> {
    type Stored = (Update<u64, Ix1>,);
    const COUNT: Option<usize> = Some(1);
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
    fn block(self, _: &[usize]) -> Block {
        Block::new(&[0..1, 0..1 << 40])
    }
}

impl IndexRange for Elsewhere {
    fn range(self, _: usize) -> std::ops::Range<usize> {
        0..1 << 40
    }
}

impl<'d> IntoRegion<'d, u64, Ix1> for Liar<'d> {
    fn into_region(self) -> Region<'d, u64, Ix1> {
        self.0.all()
    }
}

fn main() {}
