// Only the runtime may implement the traits for bodies and for kernel arguments.
#![forbid(unsafe_code)]
use thalweg::kernel::{Argument, Arguments, DeviceView, Parameter, Parameters, Write};
use thalweg::memory::{Access, AccessList, Slot};

struct Mine<'a>(&'a DeviceView<'a, f64>);

impl Argument<Write<f64>> for Mine<'_> {}

impl<P> Arguments<P> for Mine<'_> {}

impl Parameters for Mine<'_> {
    const LIST: &'static [Parameter] = &[];
}

struct Body;

impl<A: AccessList> Slot<A> for Body {
    const PRESENT: bool = false;
}

impl Access for Body {
    type View<'a> = ();
    type DeviceView<'a> = ();
}

fn main() {}
