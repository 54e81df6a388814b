//! Loops in random programs: steps on the parts of a partition, submitted in one call.
//!
//! The oracle treats them as separate steps, one after the other.

use crate::steps::{ADD, Dimensions, Kind, Part, Step, end, hash};
use ndarray::{Ix2, Ix3};
use proptest::prelude::*;
use thalweg::memory::Shape;
use thalweg::prelude::*;

/// A loop over the parts of `whole`. Its iterations are the `steps` steps of a thread, beginning with step `first`.
#[derive(Debug, Clone)]
pub(crate) struct Loop {
    pub(crate) first: usize,
    pub(crate) steps: usize,
    whole: Part,
    size: [usize; 3],
}

/// Draws the size of the parts into which a step's target is cut; `None` if it is not cut.
pub(crate) fn size() -> impl Strategy<Value = Option<[usize; 3]>> {
    prop_oneof![5 => Just(None), 1 => [1..4usize, 2..6usize, 3..20usize].prop_map(Some)]
}

/// Turns some of the steps into loops. Returns all steps, and the loops.
pub(crate) fn cut(steps: Vec<(Step, Option<[usize; 3]>)>) -> (Vec<Step>, Vec<Loop>) {
    let (mut all, mut loops) = (Vec::new(), Vec::new());
    for (step, size) in steps {
        let Some(size) = size.filter(|_| step.target.volume() > 0) else {
            all.push(step);
            continue;
        };
        let kind = if step.kind == Kind::Concurrent { Kind::Commutative } else { step.kind };
        let step = Step { kind, update: step.update.empty(), ..step };
        let (first, whole) = (all.len(), step.target.clone());
        let along = |d: usize| {
            let range = whole.ranges[d].clone();
            let end = range.end;
            range.step_by(size[d]).map(move |start| start..end.min(start + size[d])).collect::<Vec<_>>()
        };
        for x in along(0) {
            for y in along(1) {
                for z in along(2) {
                    let target = Part { ranges: [x.clone(), y.clone(), z], ..whole };
                    all.push(Step { target, ..step.clone() });
                }
            }
        }
        loops.push(Loop { first, steps: all.len() - first, whole, size });
    }
    (all, loops)
}

/// Data objects that loops can iterate over.
pub(crate) trait Loops: Dimensions {
    /// Submits these iterations. Each body first calls `began` with its iteration index.
    fn submit_loop(
        rt: &Runtime,
        data: &[Option<Data<u64, Self>>],
        cut: &Loop,
        steps: &[Step],
        began: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<usize, SubmitError>;
}

/// Body of [`Loops::submit_loop`]. It is a macro for the same reason as the body of `Dimensions::submit`: the same code
/// works for every shape.
macro_rules! loops {
    ($shape:ty, |$size:ident| $tiles:expr) => {
        impl Loops for $shape {
            #[allow(unused_mut)] // array views must be mutable to be iterated, slices need not
            fn submit_loop(
                rt: &Runtime,
                data: &[Option<Data<u64, Self>>],
                cut: &Loop,
                steps: &[Step],
                began: impl Fn(usize) + Send + Sync + 'static,
            ) -> Result<usize, SubmitError> {
                let region =
                    |part: &Part| Self::cut(data[part.data].as_ref().expect("the handle was not dropped"), part);
                let ([a, b], $size) = (&steps[0].reads, cut.size);
                let (a, b, parts) = (region(a).input(), region(b).input(), region(&cut.whole).tiles($tiles));
                let (kind, ends) = (steps[0].kind, steps[0].end);
                let seeds: Vec<u64> = steps.iter().map(|step| step.seed).collect();
                // Some loops are spread over devices.
                let devices: Vec<DeviceId> = match steps[0].seed % 2 {
                    0 => rt.machine().device_units().flat_map(|unit| unit.devices.clone()).collect(),
                    _ => Vec::new(),
                };
                macro_rules! submit {
                    ($access:expr) => {
                        rt.for_each("step", (0.., a, b, $access))
                            .cpu(move |_, (i, a, b, mut target): (usize, _, _, <$shape as Shape>::ViewMut<'_, u64>)| {
                                began(i);
                                let h = hash(hash(seeds[i], a.iter()), b.iter());
                                target.iter_mut().enumerate().for_each(|(n, x)| *x = kind.value(*x, h, n));
                                end(ends)
                            })
                            .spread(&devices)
                            .submit()
                    };
                }
                match kind {
                    Kind::Out => submit!(parts.output()),
                    Kind::Inout => submit!(parts.inout()),
                    Kind::Commutative | Kind::Concurrent => submit!(parts.commutative()),
                    Kind::Add => submit!(parts.reduction(ADD.clone())),
                    Kind::Accumulate => submit!(parts.accumulate(ADD.clone())),
                    Kind::Max => submit!(parts.reduction(Max)),
                }
            }
        }
    };
}

loops! { Ix1, |size| [size[2]] }
loops! { Ix2, |size| [size[1], size[2]] }
loops! { Ix3, |size| size }
