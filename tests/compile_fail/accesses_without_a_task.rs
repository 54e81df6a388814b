// Only the runtime may call the steps of an access, in its order and after its checks.
#![forbid(unsafe_code)]
use thalweg::memory::Access;
use thalweg::prelude::*;
use thalweg::region::Block;
use thalweg::task::AccessSpec;

fn write_behind_the_end<A: Access>(mut access: A) {
    access.private();
    access.combine(&Block::interval(0..1 << 24));
}

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![0u64; 4]);
    write_behind_the_end(x.slice(0..1 << 24).reduction(Sum).store());
}
